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

use crate::comparator::Comparator;
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
pub fn parse(internal: &[u8]) -> Result<ParsedKey<'_>, Flaw> {
    let Some((user_key, trailer)) = internal.split_last_chunk::<TRAILER_SIZE>() else {
        return Err(Flaw::truncated(0, "an internal key", internal.len() as u64, TRAILER_SIZE as u64));
    };
    let number = u64::from_le_bytes(*trailer);
    let Some(kind) = Kind::from_byte(number as u8) else {
        let found = format!("value type {}", number as u8);
        return Err(Flaw::new(FlawKind::Unknown, user_key.len() as u64, found, "0 or 1"));
    };
    Ok(ParsedKey { user_key, sequence: number >> 8, kind })
}

/// The user key of an internal key; of something shorter than eight bytes, nothing.
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(TRAILER_SIZE)]
}

/// The number behind the user key; 0 for something shorter than eight bytes.
pub fn trailer(internal: &[u8]) -> u64 {
    internal.last_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Appends an internal key.
pub fn append(dst: &mut Vec<u8>, user_key: &[u8], sequence: Sequence, kind: Kind) {
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack(sequence, kind).to_le_bytes());
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
}

impl InternalComparator {
    /// Over `user`.
    pub fn new(user: Arc<dyn Comparator>) -> InternalComparator {
        InternalComparator { user }
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
        self.user.compare(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
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
    /// A user key that became shorter and greater gets the greatest number: it sorts before all its own versions.
    fn replace_if_shorter(&self, key: &mut Vec<u8>, short: Vec<u8>) {
        let long = user_key(key);
        if short.len() < long.len() && self.user.compare(long, &short).is_lt() {
            *key = short;
            key.extend_from_slice(&pack(MAX_SEQUENCE, Kind::SEEK).to_le_bytes());
        }
    }
}
