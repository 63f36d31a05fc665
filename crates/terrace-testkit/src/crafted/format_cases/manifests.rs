//! Manifests that must refuse, and files that are none of the database's business.

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
    let guarded = one_table_db().comparator("someone.else.Order");
    let missing =
        CraftedDb::new().table(1, 9, &CraftedTable::new().put("k", 1, "v")).without_file("000009.ldb");
    let foreign = one_table_db().file("NOTES.txt", b"mine".to_vec()).file("000009.idx", b"index".to_vec());
    vec![
        FormatCase::new(
            "a manifest with an unknown tag",
            one_table_db().manifest_record(&unknown_tag),
            open_fails(Corruption),
        ),
        FormatCase::new("another comparator", guarded.clone(), open_fails(InvalidArgument)),
        FormatCase::new(
            "a guard before unknown tags",
            guarded.manifest_record(&unknown_tag),
            open_fails(InvalidArgument),
        ),
        FormatCase::new(
            "a file at level 7",
            one_table_db().manifest_record(&edit_with_level_7()),
            open_fails(Corruption),
        ),
        FormatCase::new("a table that is not there", missing, open_fails(Corruption)),
        FormatCase::new(
            "a manifest of one flipped bit",
            one_table_db().flip_manifest_bit(20),
            open_fails(Corruption),
        ),
        FormatCase::new("foreign files", foreign, expect_entries(&[("k", "v")]))
            .leaves_untouched(&["NOTES.txt", "000009.idx"]),
    ]
}

fn open_fails(class: crate::stock_leveldb::StatusCode) -> ExpectedOutcome {
    ExpectedOutcome::OpenFails(class)
}

/// What a format of more levels would write: LevelDB's encoding, level and all.
fn edit_with_level_7() -> Vec<u8> {
    let key = InternalKey::new(b"k", 1, ValueType::Value);
    let file = NewFile { number: 9, size: 1, smallest: key.clone(), largest: key };
    let edit = VersionEdit { new_files: vec![(6, file)], ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    // The tag of a new file, then its level.
    assert_eq!(record[..2], [7, 6]);
    record[1] = 7;
    record
}
