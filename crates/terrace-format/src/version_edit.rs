//! Version edit: one record of the MANIFEST, a change of the set of live files.
//!
//! ```text
//!   tag                 content
//!   1 comparator        slice                                      slice: varint32 length, bytes
//!   2 log number        varint64                                   key:   slice, an internal key
//!   3 next file         varint64                                   level: varint32, 0 to 6
//!   4 last sequence     varint64
//!   5 compact pointer   level, key
//!   6 deleted file      level, varint64 number
//!   7 new file          level, varint64 number, varint64 size, key smallest, key largest
//!   9 previous log      varint64                                   8 was used once and is reserved
//! ```
//!
//! LevelDB writes the fields in the order 1, 2, 9, 3, 4, 5.., 6.., 7... A reader accepts any order,
//! and the last value of a repeated number wins. Terrace cannot add tags: every LevelDB refuses a
//! MANIFEST with an unknown tag. The version builder checks that the files exist and fit together.

use crate::coding::{SliceDecoder, put_length_prefixed_slice, put_varint32, put_varint64};
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key::{InternalKey, MAX_SEQUENCE_NUMBER};

/// Number of levels.
pub const NUM_LEVELS: usize = 7;

const TAG_COMPARATOR: u32 = 1;
const TAG_LOG_NUMBER: u32 = 2;
const TAG_NEXT_FILE_NUMBER: u32 = 3;
const TAG_LAST_SEQUENCE: u32 = 4;
const TAG_COMPACT_POINTER: u32 = 5;
const TAG_DELETED_FILE: u32 = 6;
const TAG_NEW_FILE: u32 = 7;
const TAG_PREV_LOG_NUMBER: u32 = 9;

/// Change from one version to the next. Absent fields keep their values.
#[derive(Default, Clone, Debug, PartialEq)]
pub struct VersionEdit {
    /// Name of the comparator of user keys.
    pub comparator: Option<Vec<u8>>,
    /// Number of the oldest needed WAL. Tables hold the writes of all earlier ones.
    pub log_number: Option<u64>,
    /// Number of a second needed WAL, or 0. Only very old databases have one.
    pub prev_log_number: Option<u64>,
    /// Lowest unused file number.
    pub next_file_number: Option<u64>,
    /// Greatest sequence number in the tables.
    pub last_sequence: Option<u64>,
    /// Start keys of the next compactions, by level.
    pub compact_pointers: Vec<(usize, InternalKey)>,
    /// Deleted files, by level and number. They take effect before `new_files`.
    pub deleted_files: Vec<(usize, u64)>,
    /// Added files, with their levels.
    pub new_files: Vec<(usize, NewFile)>,
}

/// Added table.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFile {
    /// File number.
    pub number: u64,
    /// File size, in bytes.
    pub size: u64,
    /// First key.
    pub smallest: InternalKey,
    /// Last key.
    pub largest: InternalKey,
}

impl VersionEdit {
    /// Appends the record. Deleted files are written as a sorted set.
    pub fn encode(&self, dst: &mut Vec<u8>) {
        if let Some(name) = &self.comparator {
            put_varint32(dst, TAG_COMPARATOR);
            put_length_prefixed_slice(dst, name);
        }
        let numbers = [
            (TAG_LOG_NUMBER, self.log_number),
            (TAG_PREV_LOG_NUMBER, self.prev_log_number),
            (TAG_NEXT_FILE_NUMBER, self.next_file_number),
            (TAG_LAST_SEQUENCE, self.last_sequence),
        ];
        for (tag, number) in numbers {
            if let Some(number) = number {
                put_varint32(dst, tag);
                put_varint64(dst, number);
            }
        }
        for (level, key) in &self.compact_pointers {
            put_level(dst, TAG_COMPACT_POINTER, *level);
            put_length_prefixed_slice(dst, key.as_bytes());
        }
        let mut deleted = self.deleted_files.clone();
        deleted.sort_unstable();
        deleted.dedup();
        for (level, number) in deleted {
            put_level(dst, TAG_DELETED_FILE, level);
            put_varint64(dst, number);
        }
        for (level, file) in &self.new_files {
            put_level(dst, TAG_NEW_FILE, *level);
            put_varint64(dst, file.number);
            put_varint64(dst, file.size);
            put_length_prefixed_slice(dst, file.smallest.as_bytes());
            put_length_prefixed_slice(dst, file.largest.as_bytes());
        }
    }

    /// Decodes the edit stored as `record`.
    pub fn decode(record: &[u8]) -> Result<VersionEdit, DecodeError> {
        let mut edit = VersionEdit::default();
        let mut decoder = SliceDecoder::new(record);
        while !decoder.is_empty() {
            edit.decode_field(&mut decoder)?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, decoder: &mut SliceDecoder<'_>) -> Result<(), DecodeError> {
        let offset = decoder.offset();
        match decoder.varint32("a tag")? {
            TAG_COMPARATOR => {
                self.comparator = Some(decoder.length_prefixed_slice("the comparator's name")?.to_vec())
            }
            TAG_LOG_NUMBER => self.log_number = Some(decoder.varint64("the log number")?),
            TAG_PREV_LOG_NUMBER => self.prev_log_number = Some(decoder.varint64("the previous log number")?),
            TAG_NEXT_FILE_NUMBER => self.next_file_number = Some(decoder.varint64("the next file number")?),
            TAG_LAST_SEQUENCE => self.last_sequence = Some(get_sequence(decoder)?),
            TAG_COMPACT_POINTER => {
                self.compact_pointers.push((get_level(decoder)?, get_key(decoder, "a compaction pointer")?))
            }
            TAG_DELETED_FILE => {
                self.deleted_files.push((get_level(decoder)?, decoder.varint64("a deleted file")?))
            }
            TAG_NEW_FILE => self.new_files.push((get_level(decoder)?, NewFile::decode(decoder)?)),
            tag => {
                return Err(DecodeError::new(
                    DecodeErrorKind::Unknown,
                    offset,
                    format!("tag {tag}"),
                    "1 to 7 or 9",
                ));
            }
        }
        Ok(())
    }
}

impl NewFile {
    fn decode(decoder: &mut SliceDecoder<'_>) -> Result<NewFile, DecodeError> {
        Ok(NewFile {
            number: decoder.varint64("a new file's number")?,
            size: decoder.varint64("a new file's size")?,
            smallest: get_key(decoder, "a new file's smallest key")?,
            largest: get_key(decoder, "a new file's largest key")?,
        })
    }
}

fn put_level(dst: &mut Vec<u8>, tag: u32, level: usize) {
    debug_assert!(level < NUM_LEVELS);
    put_varint32(dst, tag);
    put_varint64(dst, level as u64);
}

fn get_level(decoder: &mut SliceDecoder<'_>) -> Result<usize, DecodeError> {
    let offset = decoder.offset();
    let level = decoder.varint32("a level")? as usize;
    if level >= NUM_LEVELS {
        return Err(DecodeError::new(
            DecodeErrorKind::OutOfBounds,
            offset,
            format!("level {level}"),
            "0 to 6",
        ));
    }
    Ok(level)
}

/// Decodes the last sequence number. LevelDB accepts any number, but no write could follow the
/// greatest sequence number.
fn get_sequence(decoder: &mut SliceDecoder<'_>) -> Result<u64, DecodeError> {
    let offset = decoder.offset();
    let sequence = decoder.varint64("the last sequence number")?;
    if sequence > MAX_SEQUENCE_NUMBER {
        let found = format!("last sequence number {sequence}");
        return Err(DecodeError::new(
            DecodeErrorKind::OutOfBounds,
            offset,
            found,
            format!("at most {MAX_SEQUENCE_NUMBER}"),
        ));
    }
    Ok(sequence)
}

fn get_key(decoder: &mut SliceDecoder<'_>, field: &str) -> Result<InternalKey, DecodeError> {
    let bytes = decoder.length_prefixed_slice(field)?;
    let start = decoder.offset() - bytes.len() as u64;
    InternalKey::decode(bytes).map_err(|error| error.offset_by(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ValueType;
    use proptest::prelude::*;

    fn encoded(edit: &VersionEdit) -> Vec<u8> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        record
    }

    fn key(user_key: &[u8], sequence: u64) -> InternalKey {
        InternalKey::new(user_key, sequence, ValueType::Value)
    }

    /// Returns an edit with one field of each kind.
    fn full() -> VersionEdit {
        VersionEdit {
            comparator: Some(b"foo".to_vec()),
            log_number: Some(1 << 50),
            prev_log_number: Some(0),
            next_file_number: Some(u64::MAX),
            last_sequence: Some(MAX_SEQUENCE_NUMBER),
            compact_pointers: vec![(6, key(b"x", 900)), (0, key(b"", 0))],
            deleted_files: vec![(4, 700), (6, 1)],
            new_files: vec![(
                3,
                NewFile { number: 300, size: 400, smallest: key(b"a", 5), largest: key(b"z", 6) },
            )],
        }
    }

    // From the MANIFEST of a new database of LevelDB 1.23.
    #[test]
    fn first_edits_of_leveldb() {
        let first =
            VersionEdit { comparator: Some(b"leveldb.BytewiseComparator".to_vec()), ..Default::default() };
        assert_eq!(encoded(&first), b"\x01\x1aleveldb.BytewiseComparator");
        let second = VersionEdit {
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file_number: Some(4),
            last_sequence: Some(0),
            ..Default::default()
        };
        assert_eq!(encoded(&second), [2, 3, 9, 0, 3, 4, 4, 0]);
    }

    #[test]
    fn last_of_repeated_fields_wins() {
        let edit = VersionEdit::decode(&[2, 7, 2, 8, 1, 1, b'a', 1, 1, b'b']).unwrap();
        assert_eq!((edit.log_number, edit.comparator), (Some(8), Some(b"b".to_vec())));
    }

    #[test]
    fn deleted_files_are_written_as_a_set() {
        let edit =
            VersionEdit { deleted_files: vec![(2, 9), (1, 300), (2, 9), (1, 4)], ..Default::default() };
        assert_eq!(encoded(&edit), [6, 1, 4, 6, 1, 0xac, 0x02, 6, 2, 9]);
        let twice = VersionEdit::decode(&[6, 2, 9, 6, 2, 9]).unwrap();
        assert_eq!(twice.deleted_files, [(2, 9), (2, 9)]);
    }

    #[test]
    fn empty_edit() {
        assert_eq!(encoded(&VersionEdit::default()), b"");
        assert_eq!(VersionEdit::decode(b""), Ok(VersionEdit::default()));
    }

    #[track_caller]
    fn check_error(record: &[u8], offset: u64, expect: &str) {
        let error = VersionEdit::decode(record).unwrap_err();
        assert_eq!((error.offset, error.to_string().as_str()), (offset, expect));
    }

    #[test]
    fn hostile_records() {
        check_error(&[0, 1], 0, "tag 0, expected 1 to 7 or 9");
        check_error(&[2, 1, 8, 1], 2, "tag 8, expected 1 to 7 or 9");
        check_error(&[10, 1], 0, "tag 10, expected 1 to 7 or 9");
        check_error(&[0xff, 0xff, 0xff, 0xff, 0x0f], 0, "tag 4294967295, expected 1 to 7 or 9");
        check_error(&[0x80; 6], 0, "an integer of more than 5 bytes, expected a tag");
        check_error(&[6, 7, 1], 1, "level 7, expected 0 to 6");
        check_error(&[7, 0xff, 0xff, 0xff, 0xff, 0x0f], 1, "level 4294967295, expected 0 to 6");
        check_error(&[5, 0, 3, 1, 2, 3], 3, "3 bytes, expected 8 for an internal key");
        check_error(&[5, 0, 9, b'k', 9, 0, 0, 0, 0, 0, 0, 0], 4, "value type 9, expected 0 or 1");
        check_error(
            &[1, 0xff, 0xff, 0xff, 0xff, 0x0f],
            6,
            "0 bytes, expected 4294967295 for the comparator's name",
        );
        let beyond = [4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
        let expect = "last sequence number 72057594037927936, expected at most 72057594037927935";
        check_error(&beyond, 1, expect);
    }

    /// A record that ends between two fields is a valid record of fewer fields.
    #[test]
    fn truncated_at_every_byte() {
        let record = encoded(&full());
        let mut valid = 0;
        for cut in 0..record.len() {
            if let Ok(edit) = VersionEdit::decode(&record[..cut]) {
                assert_eq!(encoded(&edit), record[..cut]);
                valid += 1;
            }
        }
        assert_eq!(valid, 10, "one for each field but the last, and the empty record");
    }

    fn file_numbers() -> impl Strategy<Value = Vec<(usize, u64)>> {
        proptest::collection::btree_set((0..NUM_LEVELS, any::<u64>()), 0..5)
            .prop_map(|set| set.into_iter().collect())
    }

    fn keys() -> impl Strategy<Value = InternalKey> {
        (any::<Vec<u8>>(), 0..=MAX_SEQUENCE_NUMBER).prop_map(|(user_key, sequence)| key(&user_key, sequence))
    }

    proptest! {
        #[test]
        fn round_trips(
            comparator in any::<Option<Vec<u8>>>(),
            numbers in any::<[Option<u64>; 3]>(),
            last_sequence in proptest::option::of(0..=MAX_SEQUENCE_NUMBER),
            compact_pointers in proptest::collection::vec((0..NUM_LEVELS, keys()), 0..3),
            deleted_files in file_numbers(),
            new_files in proptest::collection::vec((0..NUM_LEVELS, any::<(u64, u64)>(), keys(), keys()), 0..4),
        ) {
            let [log_number, prev_log_number, next_file_number] = numbers;
            let new_files = new_files.into_iter().map(|(level, (number, size), smallest, largest)| {
                (level, NewFile { number, size, smallest, largest })
            });
            let edit = VersionEdit {
                comparator, log_number, prev_log_number, next_file_number, last_sequence, compact_pointers, deleted_files,
                new_files: new_files.collect(),
            };
            prop_assert_eq!(VersionEdit::decode(&encoded(&edit)), Ok(edit));
        }

        #[test]
        fn arbitrary_bytes_never_panic(record in proptest::collection::vec(prop_oneof![0u8..10, any::<u8>()], 0..80)) {
            if let Ok(edit) = VersionEdit::decode(&record) {
                prop_assert!(VersionEdit::decode(&encoded(&edit)).is_ok());
            }
        }
    }
}
