//! Manifests that must refuse, and files that are none of the database's business.

use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::key::{InternalKey, Kind};

use super::{Case, Outcome, holds};
use crate::fabricate::{Fabricated, Table};
use crate::stock::StockClass::{Corruption, InvalidArgument};

fn small() -> Fabricated {
    Fabricated::new().table(1, 9, &Table::new().put("k", 1, "v"))
}

pub(super) fn cases() -> Vec<Case> {
    let unknown_tag = [42, 0];
    let guarded = small().comparator("someone.else.Order");
    let missing = Fabricated::new().table(1, 9, &Table::new().put("k", 1, "v")).without("000009.ldb");
    let foreign = small().file("NOTES.txt", b"mine".to_vec()).file("000009.idx", b"index".to_vec());
    vec![
        Case::new(
            "a manifest with an unknown tag",
            small().manifest_record(&unknown_tag),
            refused(Corruption),
        ),
        Case::new("another comparator", guarded.clone(), refused(InvalidArgument)),
        Case::new(
            "a guard before unknown tags",
            guarded.manifest_record(&unknown_tag),
            refused(InvalidArgument),
        ),
        Case::new("a file at level 7", small().manifest_record(&level_7()), refused(Corruption)),
        Case::new("a table that is not there", missing, refused(Corruption)),
        Case::new("a manifest of one flipped bit", small().flip_manifest(20), refused(Corruption)),
        Case::new("foreign files", foreign, holds(&[("k", "v")])).kept(&["NOTES.txt", "000009.idx"]),
    ]
}

fn refused(class: crate::stock::StockClass) -> Outcome {
    Outcome::Refused(class)
}

/// What a format of more levels would write: LevelDB's encoding, level and all.
fn level_7() -> Vec<u8> {
    let key = InternalKey::new(b"k", 1, Kind::Put);
    let file = NewFile { number: 9, size: 1, smallest: key.clone(), largest: key };
    let edit = VersionEdit { added: vec![(6, file)], ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    // The tag of a new file, then its level.
    assert_eq!(record[..2], [7, 6]);
    record[1] = 7;
    record
}
