//! Internal keys: a user key and which write it came from.
//!
//! ```text
//!   0                 n                             n+8
//!   +-----------------+------------------------------+
//!   | user key        | (sequence << 8 | kind)  (LE) |
//!   +-----------------+------------------------------+
//! ```
//!
//! Ordered by user key rising, then by that number falling: the newest version of a key comes first.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::comparator::{Bytewise, Comparator};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// The number of a write, rising by one with each operation. At most [`MAX_SEQUENCE_NUMBER`].
pub type SequenceNumber = u64;

/// The largest sequence number: the kind takes the low byte of the stored number.
pub const MAX_SEQUENCE_NUMBER: SequenceNumber = (1 << 56) - 1;

/// The bytes behind the user key.
pub const KEY_TRAILER_SIZE: usize = 8;

/// What a write did to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Removed it.
    Deletion = 0,
    /// Gave it a value.
    Value = 1,
}

impl ValueType {
    /// The kind with the greatest number. Seeks use it: it sorts first among the versions of one sequence.
    pub const FOR_SEEK: ValueType = ValueType::Value;

    /// The kind stored as `byte`.
    pub fn from_byte(byte: u8) -> Option<ValueType> {
        match byte {
            0 => Some(ValueType::Deletion),
            1 => Some(ValueType::Value),
            _ => None,
        }
    }
}

/// The number behind the user key.
pub fn pack_sequence_and_type(sequence: SequenceNumber, kind: ValueType) -> u64 {
    debug_assert!(sequence <= MAX_SEQUENCE_NUMBER);
    sequence << 8 | kind as u64
}

/// An internal key in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedInternalKey<'a> {
    /// The key that the user gave.
    pub user_key: &'a [u8],
    /// Which write.
    pub sequence: SequenceNumber,
    /// What it did.
    pub value_type: ValueType,
}

/// Takes an internal key apart.
#[inline]
pub fn parse(internal: &[u8]) -> Result<ParsedInternalKey<'_>, DecodeError> {
    let Some((user_key, trailer)) = internal.split_last_chunk::<KEY_TRAILER_SIZE>() else {
        return Err(too_short(internal));
    };
    let number = u64::from_le_bytes(*trailer);
    match ValueType::from_byte(number as u8) {
        Some(kind) => Ok(ParsedInternalKey { user_key, sequence: number >> 8, value_type: kind }),
        None => Err(bad_value_type(user_key, number as u8)),
    }
}

#[cold]
fn too_short(internal: &[u8]) -> DecodeError {
    DecodeError::truncated(0, "an internal key", internal.len() as u64, KEY_TRAILER_SIZE as u64)
}

#[cold]
fn bad_value_type(user_key: &[u8], byte: u8) -> DecodeError {
    DecodeError::new(DecodeErrorKind::Unknown, user_key.len() as u64, format!("value type {byte}"), "0 or 1")
}

/// The user key of an internal key; of something shorter than eight bytes, nothing.
#[inline]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(KEY_TRAILER_SIZE)]
}

/// The number behind the user key; 0 for something shorter than eight bytes.
#[inline]
pub fn trailer(internal: &[u8]) -> u64 {
    internal.last_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Appends an internal key.
pub fn append(dst: &mut Vec<u8>, user_key: &[u8], sequence: SequenceNumber, kind: ValueType) {
    dst.reserve(user_key.len() + KEY_TRAILER_SIZE);
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack_sequence_and_type(sequence, kind).to_le_bytes());
}

/// Most keys have some tens of bytes.
const INLINE_SEEK_KEY_SIZE: usize = 64;

/// What `search` makes of the internal key at, or in front of, all versions of `user_key` with a number up to `sequence`.
///
/// The key is made in place unless it is long. Handed up, it would be copied as soon as it was written, piece by piece, and
/// wait for that.
#[inline]
pub fn with_seek_key<T>(user_key: &[u8], sequence: SequenceNumber, search: impl FnOnce(&[u8]) -> T) -> T {
    let mut place = [0; INLINE_SEEK_KEY_SIZE];
    if let Some(short) = place.get_mut(..user_key.len() + KEY_TRAILER_SIZE) {
        short[..user_key.len()].copy_from_slice(user_key);
        short[user_key.len()..]
            .copy_from_slice(&pack_sequence_and_type(sequence, ValueType::FOR_SEEK).to_le_bytes());
        return search(short);
    }
    search(InternalKey::new(user_key, sequence, ValueType::FOR_SEEK).as_bytes())
}

/// An internal key of its own memory, at least eight bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// From its parts.
    pub fn new(user_key: &[u8], sequence: SequenceNumber, kind: ValueType) -> InternalKey {
        let mut bytes = Vec::with_capacity(user_key.len() + KEY_TRAILER_SIZE);
        append(&mut bytes, user_key, sequence, kind);
        InternalKey(bytes)
    }

    /// From stored bytes, which must be a well-formed internal key.
    pub fn decode(bytes: &[u8]) -> Result<InternalKey, DecodeError> {
        parse(bytes).map(|_| InternalKey(bytes.to_vec()))
    }

    /// The stored bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key that the user gave.
    pub fn user_key(&self) -> &[u8] {
        user_key(&self.0)
    }

    /// Which write.
    pub fn sequence(&self) -> SequenceNumber {
        trailer(&self.0) >> 8
    }
}

impl std::fmt::Debug for InternalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' @ {} : {}", self.user_key().escape_ascii(), self.sequence(), trailer(&self.0) as u8)
    }
}

/// The order of internal keys over a given order of user keys.
#[derive(Debug, Clone)]
pub struct InternalComparator {
    user_comparator: Arc<dyn Comparator>,
    /// Then no comparator need be called.
    bytewise: bool,
}

impl InternalComparator {
    /// Over `user`.
    pub fn new(user: Arc<dyn Comparator>) -> InternalComparator {
        let bytewise = user.name() == Bytewise.name();
        InternalComparator { user_comparator: user, bytewise }
    }

    /// True if user keys are in the order of their bytes.
    pub fn is_bytewise(&self) -> bool {
        self.bytewise
    }

    /// The order of user keys.
    pub fn user_comparator(&self) -> &Arc<dyn Comparator> {
        &self.user_comparator
    }
}

impl Comparator for InternalComparator {
    fn name(&self) -> &str {
        "leveldb.InternalKeyComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_user_keys(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut short = user_key(start).to_vec();
        self.user_comparator.shortest_separator(&mut short, user_key(limit));
        self.replace_if_shorter(start, short);
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        let mut short = user_key(key).to_vec();
        self.user_comparator.short_successor(&mut short);
        self.replace_if_shorter(key, short);
    }
}

impl InternalComparator {
    /// The order of two user keys.
    #[inline]
    pub fn compare_user_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.bytewise { a.cmp(b) } else { self.user_comparator.compare(a, b) }
    }

    /// A user key that became shorter and greater gets the greatest number: it sorts before all its own versions.
    fn replace_if_shorter(&self, key: &mut Vec<u8>, short: Vec<u8>) {
        let long = user_key(key);
        if short.len() < long.len() && self.user_comparator.compare(long, &short).is_lt() {
            *key = short;
            key.extend_from_slice(
                &pack_sequence_and_type(MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK).to_le_bytes(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparator::bytewise;
    use proptest::prelude::*;

    fn key(user_key: &[u8], sequence: SequenceNumber, kind: ValueType) -> Vec<u8> {
        InternalKey::new(user_key, sequence, kind).as_bytes().to_vec()
    }

    fn put(user_key: &[u8], sequence: SequenceNumber) -> Vec<u8> {
        key(user_key, sequence, ValueType::Value)
    }

    fn order() -> InternalComparator {
        InternalComparator::new(bytewise())
    }

    #[test]
    fn encoding() {
        assert_eq!(key(b"k", 0x0001_0203_0405_0607, ValueType::Value), b"k\x01\x07\x06\x05\x04\x03\x02\x01");
        assert_eq!(key(b"", MAX_SEQUENCE_NUMBER, ValueType::Deletion), b"\0\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(pack_sequence_and_type(MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK), u64::MAX - 254);
    }

    #[test]
    fn seek_keys_of_any_length() {
        for len in
            [0, 1, INLINE_SEEK_KEY_SIZE - KEY_TRAILER_SIZE, INLINE_SEEK_KEY_SIZE - KEY_TRAILER_SIZE + 1, 1000]
        {
            let user_key = vec![b'k'; len];
            let made = with_seek_key(&user_key, 77, <[u8]>::to_vec);
            assert_eq!(made, key(&user_key, 77, ValueType::FOR_SEEK), "{len} bytes");
        }
    }

    #[test]
    fn malformed_internal_keys() {
        for len in 0..KEY_TRAILER_SIZE {
            let short = vec![1; len];
            assert_eq!(parse(&short).unwrap_err().kind, DecodeErrorKind::Truncated);
            assert_eq!((user_key(&short), trailer(&short)), (&b""[..], 0));
        }
        let error = InternalKey::decode(b"key\x02\0\0\0\0\0\0\0").unwrap_err();
        assert_eq!((error.offset, error.to_string().as_str()), (3, "value type 2, expected 0 or 1"));
    }

    #[test]
    fn newest_version_first_and_values_before_deletions() {
        let rising = [
            put(b"", 1),
            put(b"a", MAX_SEQUENCE_NUMBER),
            put(b"a", 256),
            put(b"a", 255),
            key(b"a", 255, ValueType::Deletion),
            put(b"a", 0),
            key(b"a", 0, ValueType::Deletion),
            put(b"a\0", 7),
            put(b"b", 9),
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(order().compare(a, b), i.cmp(&j), "rows {i} and {j}");
            }
        }
    }

    #[test]
    fn malformed_keys_can_be_compared() {
        assert_eq!(order().compare(b"", b"short"), Ordering::Equal);
        assert_eq!(order().compare(b"short", &put(b"a", 1)), Ordering::Less);
    }

    #[track_caller]
    fn check_separator(start: &[u8], limit: &[u8], expect: &[u8]) {
        let mut found = start.to_vec();
        order().shortest_separator(&mut found, limit);
        assert_eq!(found.escape_ascii().to_string(), expect.escape_ascii().to_string());
    }

    #[test]
    fn separators() {
        let foo = put(b"foo", 100);
        for same_user_key in
            [put(b"foo", 99), put(b"foo", 101), foo.clone(), key(b"foo", 100, ValueType::Deletion)]
        {
            check_separator(&foo, &same_user_key, &foo);
        }
        check_separator(&foo, &put(b"bar", 99), &foo);
        check_separator(&foo, &put(b"hello", 200), &put(b"g", MAX_SEQUENCE_NUMBER));
        check_separator(&foo, &put(b"foobar", 200), &foo);
        check_separator(&put(b"foobar", 100), &put(b"foo", 200), &put(b"foobar", 100));
        check_separator(&put(b"f", 100), &put(b"h", 1), &put(b"f", 100));
    }

    /// Breaks the promise of a separator: cuts keys to less than they were.
    struct Cutter;

    impl Comparator for Cutter {
        fn name(&self) -> &str {
            "test.Cutter"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }

        fn shortest_separator(&self, start: &mut Vec<u8>, _: &[u8]) {
            start.truncate(1);
        }
    }

    #[test]
    fn separator_below_its_start_is_ignored() {
        let mut start = put(b"foo", 100);
        InternalComparator::new(Arc::new(Cutter)).shortest_separator(&mut start, &put(b"hello", 200));
        assert_eq!(start, put(b"foo", 100));
    }

    #[test]
    fn successors() {
        let successor = |mut key: Vec<u8>| {
            order().short_successor(&mut key);
            key
        };
        assert_eq!(successor(put(b"foo", 100)), put(b"g", MAX_SEQUENCE_NUMBER));
        assert_eq!(successor(put(b"\xff\xff", 100)), put(b"\xff\xff", 100));
    }

    #[test]
    fn debug_format() {
        assert_eq!(format!("{:?}", InternalKey::new(b"a\0", 7, ValueType::Value)), "'a\\x00' @ 7 : 1");
        assert_eq!(order().name(), "leveldb.InternalKeyComparator");
    }

    proptest! {
        #[test]
        fn round_trips(bytes in any::<Vec<u8>>(), sequence in 0..=MAX_SEQUENCE_NUMBER, put in any::<bool>()) {
            let kind = if put { ValueType::Value } else { ValueType::Deletion };
            let stored = key(&bytes, sequence, kind);
            prop_assert_eq!(parse(&stored), Ok(ParsedInternalKey { user_key: &bytes, sequence, value_type: kind }));
            let decoded = InternalKey::decode(&stored).unwrap();
            prop_assert_eq!((decoded.user_key(), decoded.sequence()), (&bytes[..], sequence));
        }
    }
}
