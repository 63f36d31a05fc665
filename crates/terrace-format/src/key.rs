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
use crate::flaw::{Flaw, FlawKind};

/// The number of a write, rising by one with each operation. At most [`MAX_SEQUENCE`].
pub type Sequence = u64;

/// The largest sequence number: the kind takes the low byte of the stored number.
pub const MAX_SEQUENCE: Sequence = (1 << 56) - 1;

/// The bytes behind the user key.
pub const TRAILER_SIZE: usize = 8;

/// What a write did to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Removed it.
    Delete = 0,
    /// Gave it a value.
    Put = 1,
}

impl Kind {
    /// The kind with the greatest number. Seeks use it: it sorts first among the versions of one sequence.
    pub const SEEK: Kind = Kind::Put;

    /// The kind stored as `byte`.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            _ => None,
        }
    }
}

/// The number behind the user key.
pub fn pack(sequence: Sequence, kind: Kind) -> u64 {
    debug_assert!(sequence <= MAX_SEQUENCE);
    sequence << 8 | kind as u64
}

/// An internal key in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The key that the user gave.
    pub user_key: &'a [u8],
    /// Which write.
    pub sequence: Sequence,
    /// What it did.
    pub kind: Kind,
}

/// Takes an internal key apart.
#[inline]
pub fn parse(internal: &[u8]) -> Result<ParsedKey<'_>, Flaw> {
    let Some((user_key, trailer)) = internal.split_last_chunk::<TRAILER_SIZE>() else {
        return Err(too_short(internal));
    };
    let number = u64::from_le_bytes(*trailer);
    match Kind::from_byte(number as u8) {
        Some(kind) => Ok(ParsedKey { user_key, sequence: number >> 8, kind }),
        None => Err(bad_kind(user_key, number as u8)),
    }
}

#[cold]
fn too_short(internal: &[u8]) -> Flaw {
    Flaw::truncated(0, "an internal key", internal.len() as u64, TRAILER_SIZE as u64)
}

#[cold]
fn bad_kind(user_key: &[u8], byte: u8) -> Flaw {
    Flaw::new(FlawKind::Unknown, user_key.len() as u64, format!("value type {byte}"), "0 or 1")
}

/// The user key of an internal key; of something shorter than eight bytes, nothing.
#[inline]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(TRAILER_SIZE)]
}

/// The number behind the user key; 0 for something shorter than eight bytes.
#[inline]
pub fn trailer(internal: &[u8]) -> u64 {
    internal.last_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Appends an internal key.
pub fn append(dst: &mut Vec<u8>, user_key: &[u8], sequence: Sequence, kind: Kind) {
    dst.reserve(user_key.len() + TRAILER_SIZE);
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack(sequence, kind).to_le_bytes());
}

/// Most keys have some tens of bytes.
const SHORT_KEY: usize = 64;

/// What `search` makes of the internal key at, or in front of, all versions of `user_key` with a number up to `sequence`.
///
/// The key is made in place unless it is long. Handed up, it would be copied as soon as it was written, piece by piece, and
/// wait for that.
#[inline]
pub fn with_seek_key<T>(user_key: &[u8], sequence: Sequence, search: impl FnOnce(&[u8]) -> T) -> T {
    let mut place = [0; SHORT_KEY];
    if let Some(short) = place.get_mut(..user_key.len() + TRAILER_SIZE) {
        short[..user_key.len()].copy_from_slice(user_key);
        short[user_key.len()..].copy_from_slice(&pack(sequence, Kind::SEEK).to_le_bytes());
        return search(short);
    }
    search(InternalKey::new(user_key, sequence, Kind::SEEK).as_bytes())
}

/// An internal key of its own memory, at least eight bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// From its parts.
    pub fn new(user_key: &[u8], sequence: Sequence, kind: Kind) -> InternalKey {
        let mut bytes = Vec::with_capacity(user_key.len() + TRAILER_SIZE);
        append(&mut bytes, user_key, sequence, kind);
        InternalKey(bytes)
    }

    /// From stored bytes, which must be a well-formed internal key.
    pub fn decode(bytes: &[u8]) -> Result<InternalKey, Flaw> {
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
    pub fn sequence(&self) -> Sequence {
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
    user: Arc<dyn Comparator>,
    /// Then no comparator need be called.
    bytewise: bool,
}

impl InternalComparator {
    /// Over `user`.
    pub fn new(user: Arc<dyn Comparator>) -> InternalComparator {
        let bytewise = user.name() == Bytewise.name();
        InternalComparator { user, bytewise }
    }

    /// True if user keys are in the order of their bytes.
    pub fn is_bytewise(&self) -> bool {
        self.bytewise
    }

    /// The order of user keys.
    pub fn user(&self) -> &Arc<dyn Comparator> {
        &self.user
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
        self.user.shortest_separator(&mut short, user_key(limit));
        self.replace_if_shorter(start, short);
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        let mut short = user_key(key).to_vec();
        self.user.short_successor(&mut short);
        self.replace_if_shorter(key, short);
    }
}

impl InternalComparator {
    /// The order of two user keys.
    #[inline]
    pub fn compare_user_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.bytewise { a.cmp(b) } else { self.user.compare(a, b) }
    }

    /// A user key that became shorter and greater gets the greatest number: it sorts before all its own versions.
    fn replace_if_shorter(&self, key: &mut Vec<u8>, short: Vec<u8>) {
        let long = user_key(key);
        if short.len() < long.len() && self.user.compare(long, &short).is_lt() {
            *key = short;
            key.extend_from_slice(&pack(MAX_SEQUENCE, Kind::SEEK).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparator::bytewise;
    use proptest::prelude::*;

    fn key(user_key: &[u8], sequence: Sequence, kind: Kind) -> Vec<u8> {
        InternalKey::new(user_key, sequence, kind).as_bytes().to_vec()
    }

    fn put(user_key: &[u8], sequence: Sequence) -> Vec<u8> {
        key(user_key, sequence, Kind::Put)
    }

    fn order() -> InternalComparator {
        InternalComparator::new(bytewise())
    }

    #[test]
    fn the_bytes() {
        assert_eq!(key(b"k", 0x0001_0203_0405_0607, Kind::Put), b"k\x01\x07\x06\x05\x04\x03\x02\x01");
        assert_eq!(key(b"", MAX_SEQUENCE, Kind::Delete), b"\0\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(pack(MAX_SEQUENCE, Kind::SEEK), u64::MAX - 254);
    }

    #[test]
    fn keys_to_seek_of_any_length() {
        for len in [0, 1, SHORT_KEY - TRAILER_SIZE, SHORT_KEY - TRAILER_SIZE + 1, 1000] {
            let user_key = vec![b'k'; len];
            let made = with_seek_key(&user_key, 77, <[u8]>::to_vec);
            assert_eq!(made, key(&user_key, 77, Kind::SEEK), "{len} bytes");
        }
    }

    #[test]
    fn malformed() {
        for len in 0..TRAILER_SIZE {
            let short = vec![1; len];
            assert_eq!(parse(&short).unwrap_err().kind, FlawKind::Truncated);
            assert_eq!((user_key(&short), trailer(&short)), (&b""[..], 0));
        }
        let flaw = InternalKey::decode(b"key\x02\0\0\0\0\0\0\0").unwrap_err();
        assert_eq!((flaw.at, flaw.to_string().as_str()), (3, "value type 2, expected 0 or 1"));
    }

    #[test]
    fn newest_version_first_and_puts_before_deletes() {
        let rising = [
            put(b"", 1),
            put(b"a", MAX_SEQUENCE),
            put(b"a", 256),
            put(b"a", 255),
            key(b"a", 255, Kind::Delete),
            put(b"a", 0),
            key(b"a", 0, Kind::Delete),
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
    fn anything_can_be_compared() {
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
        for same_user_key in [put(b"foo", 99), put(b"foo", 101), foo.clone(), key(b"foo", 100, Kind::Delete)]
        {
            check_separator(&foo, &same_user_key, &foo);
        }
        check_separator(&foo, &put(b"bar", 99), &foo);
        check_separator(&foo, &put(b"hello", 200), &put(b"g", MAX_SEQUENCE));
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
    fn a_separator_below_its_start_is_not_used() {
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
        assert_eq!(successor(put(b"foo", 100)), put(b"g", MAX_SEQUENCE));
        assert_eq!(successor(put(b"\xff\xff", 100)), put(b"\xff\xff", 100));
    }

    #[test]
    fn as_people_read_it() {
        assert_eq!(format!("{:?}", InternalKey::new(b"a\0", 7, Kind::Put)), "'a\\x00' @ 7 : 1");
        assert_eq!(order().name(), "leveldb.InternalKeyComparator");
    }

    proptest! {
        #[test]
        fn round_trips(bytes in any::<Vec<u8>>(), sequence in 0..=MAX_SEQUENCE, put in any::<bool>()) {
            let kind = if put { Kind::Put } else { Kind::Delete };
            let stored = key(&bytes, sequence, kind);
            prop_assert_eq!(parse(&stored), Ok(ParsedKey { user_key: &bytes, sequence, kind }));
            let decoded = InternalKey::decode(&stored).unwrap();
            prop_assert_eq!((decoded.user_key(), decoded.sequence()), (&bytes[..], sequence));
        }
    }
}
