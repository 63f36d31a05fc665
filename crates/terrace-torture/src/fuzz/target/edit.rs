//! Version edits.

use terrace_format::edit::{LEVELS, NewFile, VersionEdit};
use terrace_format::key::{InternalKey, Kind, MAX_SEQUENCE};

use crate::fuzz::Target;
use crate::fuzz::form::Form;

pub(super) const TARGET: Target = Target {
    name: "edit",
    shows: "an edit that decodes encodes to one that decodes to the same",
    form: Form::Plain,
    runs: 20_000,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let key = |user: &[u8]| InternalKey::new(user, 7, Kind::Put);
    let file = |number, smallest, largest| NewFile {
        number,
        size: 4096,
        smallest: key(smallest),
        largest: key(largest),
    };
    let all = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(8),
        prev_log_number: Some(0),
        next_file: Some(12),
        last_sequence: Some(MAX_SEQUENCE),
        compact_pointers: vec![(1, key(b"CH/Bern"))],
        deleted: vec![(6, 0), (0, 4), (0, 5)],
        added: vec![(0, file(10, b"a", b"m")), (6, file(11, b"", b"z"))],
    };
    [VersionEdit::default(), all].iter().map(encoded).collect()
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    bytes
}

fn run(input: &[u8]) {
    let mut edit = match VersionEdit::decode(input) {
        Ok(edit) => edit,
        Err(flaw) => return assert!(flaw.at <= input.len() as u64, "{flaw} at {}", flaw.at),
    };
    let levels = edit.added.iter().map(|(level, _)| level).chain(edit.deleted.iter().map(|(level, _)| level));
    assert!(levels.chain(edit.compact_pointers.iter().map(|(level, _)| level)).all(|level| *level < LEVELS));
    assert!(edit.last_sequence.is_none_or(|last| last <= MAX_SEQUENCE));
    let bytes = encoded(&edit);
    assert!(bytes.len() <= input.len(), "grew from {} bytes to {}", input.len(), bytes.len());
    let back = VersionEdit::decode(&bytes).expect("what was encoded decodes");
    // Deleted files are written as the set that they are.
    edit.deleted.sort_unstable();
    edit.deleted.dedup();
    assert_eq!(back, edit);
}
