//! Internal key: a user key and the sequence number and kind of a write.
//!
//! ```text
//!   0                 n                             n+8
//!   +-----------------+------------------------------+
//!   | user key        | (sequence << 8 | kind)  (LE) |
//!   +-----------------+------------------------------+
//! ```
//!
//! Internal keys are ordered by rising user key, and then by falling trailer. The newest version of
//! a key thus comes first.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::comparator::{Bytewise, Comparator};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Sequence number of a write. It rises by one with each operation, up to [`MAX_SEQUENCE_NUMBER`].
pub type SequenceNumber = u64;

/// Largest sequence number. The kind takes the low byte of the trailer.
pub const MAX_SEQUENCE_NUMBER: SequenceNumber = (1 << 56) - 1;

/// Size of the trailer after the user key, in bytes.
pub const KEY_TRAILER_SIZE: usize = 8;

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Tombstone.
    Deletion = 0,
    /// Put.
    Value = 1,
}

impl ValueType {
    /// Kind with the greatest number, for seek keys: it sorts first among the versions with one
    /// sequence number.
    pub const FOR_SEEK: ValueType = ValueType::Value;

    /// Returns the kind with the stored form `byte`.
    pub fn from_byte(byte: u8) -> Option<ValueType> {
        match byte {
            0 => Some(ValueType::Deletion),
            1 => Some(ValueType::Value),
            _ => None,
        }
    }
}

/// Returns the trailer of an internal key.
pub fn pack_sequence_and_type(sequence: SequenceNumber, kind: ValueType) -> u64 {
    debug_assert!(sequence <= MAX_SEQUENCE_NUMBER);
    sequence << 8 | kind as u64
}

/// Internal key, split into its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedInternalKey<'a> {
    /// User key.
    pub user_key: &'a [u8],
    /// Sequence number of the write.
    pub sequence: SequenceNumber,
    /// Kind of the write.
    pub value_type: ValueType,
}

/// Splits an internal key into its parts.
#[inline]
pub fn parse(internal: &[u8]) -> Result<ParsedInternalKey<'_>, DecodeError> {
    let Some((user_key, trailer)) = internal.split_last_chunk::<KEY_TRAILER_SIZE>() else {
        return Err(too_short(internal));
    };
    let trailer = u64::from_le_bytes(*trailer);
    match ValueType::from_byte(trailer as u8) {
        Some(value_type) => Ok(ParsedInternalKey { user_key, sequence: trailer >> 8, value_type }),
        None => Err(bad_value_type(user_key, trailer as u8)),
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

/// Returns the user key of an internal key. It is empty if `internal` has fewer than eight bytes.
#[inline]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(KEY_TRAILER_SIZE)]
}

/// Returns the trailer of an internal key, or 0 if it has fewer than eight bytes.
#[inline]
pub fn trailer(internal: &[u8]) -> u64 {
    internal.last_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Appends an internal key to `dst`.
pub fn append(dst: &mut Vec<u8>, user_key: &[u8], sequence: SequenceNumber, kind: ValueType) {
    dst.reserve(user_key.len() + KEY_TRAILER_SIZE);
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack_sequence_and_type(sequence, kind).to_le_bytes());
}

/// Maximum size of a seek key on the stack, in bytes. Most keys have some tens of bytes.
const INLINE_SEEK_KEY_SIZE: usize = 64;

/// Calls `search` with the internal key that sorts first among the versions of `user_key` up to
/// `sequence`.
///
/// A short key is built on the stack. A returned key would be copied right after it was written in
/// pieces, and the copy would wait for these writes.
#[inline]
pub fn with_seek_key<T>(user_key: &[u8], sequence: SequenceNumber, search: impl FnOnce(&[u8]) -> T) -> T {
    let mut buffer = [0; INLINE_SEEK_KEY_SIZE];
    if let Some(short) = buffer.get_mut(..user_key.len() + KEY_TRAILER_SIZE) {
        short[..user_key.len()].copy_from_slice(user_key);
        short[user_key.len()..]
            .copy_from_slice(&pack_sequence_and_type(sequence, ValueType::FOR_SEEK).to_le_bytes());
        return search(short);
    }
    search(InternalKey::new(user_key, sequence, ValueType::FOR_SEEK).as_bytes())
}

/// Owned internal key of at least eight bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// Creates an internal key from its parts.
    pub fn new(user_key: &[u8], sequence: SequenceNumber, kind: ValueType) -> InternalKey {
        let mut bytes = Vec::with_capacity(user_key.len() + KEY_TRAILER_SIZE);
        append(&mut bytes, user_key, sequence, kind);
        InternalKey(bytes)
    }

    /// Creates an internal key from its stored form, after a check.
    pub fn decode(bytes: &[u8]) -> Result<InternalKey, DecodeError> {
        parse(bytes).map(|_| InternalKey(bytes.to_vec()))
    }

    /// Returns the stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the user key.
    pub fn user_key(&self) -> &[u8] {
        user_key(&self.0)
    }

    /// Returns the sequence number.
    pub fn sequence(&self) -> SequenceNumber {
        trailer(&self.0) >> 8
    }
}

impl std::fmt::Debug for InternalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' @ {} : {}", self.user_key().escape_ascii(), self.sequence(), trailer(&self.0) as u8)
    }
}

/// Order of internal keys, derived from an order of user keys.
#[derive(Debug, Clone)]
pub struct InternalComparator {
    user_comparator: Arc<dyn Comparator>,
    /// True if `user_comparator` is bytewise, so that no call of it is necessary.
    bytewise: bool,
}

impl InternalComparator {
    /// Creates the order of internal keys over the order `user` of user keys.
    pub fn new(user: Arc<dyn Comparator>) -> InternalComparator {
        let bytewise = user.name() == Bytewise.name();
        InternalComparator { user_comparator: user, bytewise }
    }

    /// Returns true if user keys are in bytewise order.
    pub fn is_bytewise(&self) -> bool {
        self.bytewise
    }

    /// Returns the order of user keys.
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
    /// Compares two user keys.
    #[inline]
    pub fn compare_user_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.bytewise { a.cmp(b) } else { self.user_comparator.compare(a, b) }
    }

    /// Replaces the user key by `short` if that is shorter and greater. The maximum trailer makes
    /// the result sort before all versions of `short`.
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
            let seek_key = with_seek_key(&user_key, 77, <[u8]>::to_vec);
            assert_eq!(seek_key, key(&user_key, 77, ValueType::FOR_SEEK), "{len} bytes");
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

    /// Comparator that violates the contract of separators: it cuts keys below their start.
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
