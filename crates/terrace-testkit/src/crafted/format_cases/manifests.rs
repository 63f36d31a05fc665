//! Cases of invalid MANIFESTs and of foreign files.

use terrace_format::key::{InternalKey, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::{ExpectedOutcome, FormatCase, expect_entries};
use crate::crafted::{CraftedDb, CraftedTable};
use crate::stock_leveldb::StatusCode::{Corruption, InvalidArgument};

fn one_table_db() -> CraftedDb {
    CraftedDb::new().table(1, 9, &CraftedTable::new().put("k", 1, "v"))
}

pub(super) fn cases() -> Vec<FormatCase> {
    let unknown_tag = [42, 0];
    let other_comparator = one_table_db().comparator("someone.else.Order");
    let missing =
        CraftedDb::new().table(1, 9, &CraftedTable::new().put("k", 1, "v")).without_file("000009.ldb");
    let foreign = one_table_db().file("NOTES.txt", b"mine".to_vec()).file("000009.idx", b"index".to_vec());
    vec![
        FormatCase::new(
            "a MANIFEST with an unknown tag",
            one_table_db().manifest_record(&unknown_tag),
            open_fails(Corruption),
        ),
        FormatCase::new("another comparator", other_comparator.clone(), open_fails(InvalidArgument)),
        FormatCase::new(
            "another comparator before unknown tags",
            other_comparator.manifest_record(&unknown_tag),
            open_fails(InvalidArgument),
        ),
        FormatCase::new(
            "a file at level 7",
            one_table_db().manifest_record(&edit_with_level_7()),
            open_fails(Corruption),
        ),
        FormatCase::new("a missing table", missing, open_fails(Corruption)),
        FormatCase::new(
            "a MANIFEST with a flipped bit",
            one_table_db().flip_manifest_bit(20),
            open_fails(Corruption),
        ),
        FormatCase::new("foreign files", foreign, expect_entries(&[("k", "v")]))
            .leaves_untouched(&["NOTES.txt", "000009.idx"]),
        FormatCase::new(
            "a batch of goleveldb above the last sequence number",
            hidden_batch(),
            expect_entries(&[("a", "1"), ("k", "3"), ("z", "2")]),
        )
        .leveldb_disagrees(),
    ]
}

/// Returns a database whose last edit states a smaller last sequence number than the edit before.
/// The largest number of the table is in neither end of its key range.
fn hidden_batch() -> CraftedDb {
    let batch = CraftedTable::new().put("a", 7, "1").put("k", 9, "3").put("z", 8, "2");
    let edit = VersionEdit { last_sequence: Some(6), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let older = CraftedTable::new().put("k", 6, "old");
    CraftedDb::new().table(1, 9, &older).table(0, 10, &batch).manifest_record(&record)
}

fn open_fails(code: crate::stock_leveldb::StatusCode) -> ExpectedOutcome {
    ExpectedOutcome::OpenFails(code)
}

/// Returns the edit of a format with more levels, in LevelDB's encoding.
fn edit_with_level_7() -> Vec<u8> {
    let key = InternalKey::new(b"k", 1, ValueType::Value);
    let file = NewFile { number: 9, size: 1, smallest: key.clone(), largest: key };
    let edit = VersionEdit { new_files: vec![(6, file)], ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    // Tag of a new file, then its level.
    assert_eq!(record[..2], [7, 6]);
    record[1] = 7;
    record
}
