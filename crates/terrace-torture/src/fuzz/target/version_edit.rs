//! Version edits.

use terrace_format::key::{InternalKey, MAX_SEQUENCE_NUMBER, ValueType};
use terrace_format::version_edit::{NUM_LEVELS, NewFile, VersionEdit};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "version-edit",
    property: "an edit that decodes survives another encoding and decoding",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let key = |user: &[u8]| InternalKey::new(user, 7, ValueType::Value);
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
        next_file_number: Some(12),
        last_sequence: Some(MAX_SEQUENCE_NUMBER),
        compact_pointers: vec![(1, key(b"CH/Bern"))],
        deleted_files: vec![(6, 0), (0, 4), (0, 5)],
        new_files: vec![(0, file(10, b"a", b"m")), (6, file(11, b"", b"z"))],
    };
    [VersionEdit::default(), all].iter().map(encode).collect()
}

fn encode(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    bytes
}

fn run(input: &[u8]) {
    let mut edit = match VersionEdit::decode(input) {
        Ok(edit) => edit,
        Err(error) => return assert!(error.offset <= input.len() as u64, "{error} at {}", error.offset),
    };
    let levels = edit
        .new_files
        .iter()
        .map(|(level, _)| level)
        .chain(edit.deleted_files.iter().map(|(level, _)| level));
    assert!(
        levels.chain(edit.compact_pointers.iter().map(|(level, _)| level)).all(|level| *level < NUM_LEVELS)
    );
    assert!(edit.last_sequence.is_none_or(|last| last <= MAX_SEQUENCE_NUMBER));
    let bytes = encode(&edit);
    assert!(bytes.len() <= input.len(), "grew from {} bytes to {}", input.len(), bytes.len());
    let decoded = VersionEdit::decode(&bytes).expect("an encoded edit decodes");
    // Deleted files are encoded as a sorted set.
    edit.deleted_files.sort_unstable();
    edit.deleted_files.dedup();
    assert_eq!(decoded, edit);
}
