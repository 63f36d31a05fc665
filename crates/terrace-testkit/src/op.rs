//! Operations on a database, as data: they can be printed, replayed, cut short.
//!
//! Snapshots and cursors live in numbered slots. An operation on an empty slot does nothing, so every part of a list
//! of operations is itself a valid list: that is what shrinking needs.

use crate::rng::splitmix;

mod display;
mod generator;
mod kind;

pub(crate) use generator::is_known_property;
pub use generator::{OpGenerator, WorkloadParams, numbered_key};
pub use kind::OP_KINDS;

/// A value by its length and a seed: a thousand of them cost nothing to keep or to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueSpec {
    /// In bytes.
    pub len: u32,
    /// What the bytes are drawn from.
    pub seed: u32,
}

impl ValueSpec {
    /// The bytes: about half of them compress away.
    pub fn bytes(self) -> Vec<u8> {
        let mut state = u64::from(self.seed);
        let mut bytes = Vec::with_capacity(self.len as usize + 32);
        while bytes.len() < self.len as usize {
            let chunk = splitmix(&mut state).to_le_bytes();
            bytes.extend_from_slice(&chunk);
            bytes.extend_from_slice(&chunk);
        }
        bytes.truncate(self.len as usize);
        bytes
    }

    /// True if these are its bytes.
    pub fn matches(self, bytes: &[u8]) -> bool {
        let mut state = u64::from(self.seed);
        bytes.len() == self.len as usize
            && bytes.chunks(16).all(|found| {
                let half = splitmix(&mut state).to_le_bytes();
                let (first, second) = found.split_at(found.len().min(half.len()));
                *first == half[..first.len()] && *second == half[..second.len()]
            })
    }
}

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they hold")]
pub enum Write {
    Put { key: Vec<u8>, value: ValueSpec },
    Delete { key: Vec<u8> },
}

impl Write {
    /// The key that it changes.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } => key,
        }
    }

    /// What the key has then.
    pub fn value(&self) -> Option<ValueSpec> {
        match self {
            Write::Put { value, .. } => Some(*value),
            Write::Delete { .. } => None,
        }
    }
}

/// Which keys a cursor shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IteratorBounds {
    /// Not below this one.
    pub lower: Option<Vec<u8>>,
    /// Below this one.
    pub upper: Option<Vec<u8>>,
    /// Beginning with this.
    pub prefix: Option<Vec<u8>>,
}

/// A movement of a cursor. `Next` and `Prev` of a cursor that stands nowhere do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum IteratorMove {
    SeekToFirst,
    SeekToLast,
    Seek(Vec<u8>),
    Next,
    Prev,
}

/// The number of a place for a snapshot or a cursor.
pub type Slot = usize;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named as the calls' arguments are")]
pub enum Op {
    Put {
        key: Vec<u8>,
        value: ValueSpec,
        sync: bool,
    },
    Delete {
        key: Vec<u8>,
        sync: bool,
    },
    /// All of it or nothing.
    Batch {
        writes: Vec<Write>,
        sync: bool,
    },
    /// At a snapshot, if its slot holds one.
    Get {
        key: Vec<u8>,
        snapshot: Option<Slot>,
    },
    /// The ordinary keys of so many numbers, one after the other.
    MultiGet {
        first: u64,
        count: u64,
        snapshot: Option<Slot>,
    },
    /// Every entry, forwards and backwards.
    Scan {
        snapshot: Option<Slot>,
    },
    /// Takes a snapshot into a slot, dropping the one that was there.
    TakeSnapshot {
        slot: Slot,
    },
    ReleaseSnapshot {
        slot: Slot,
    },
    /// Opens a cursor in a slot, dropping the one that was there.
    OpenIterator {
        slot: Slot,
        snapshot: Option<Slot>,
        range: IteratorBounds,
    },
    MoveIterator {
        slot: Slot,
        movement: IteratorMove,
    },
    CloseIterator {
        slot: Slot,
    },
    Flush,
    CompactRange {
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
    },
    /// Removes a range of keys; its end is not part of it.
    DeleteRange {
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
    },
    /// Close and open again; all slots become empty.
    Reopen,
    /// The same with other options, drawn from the seed.
    ReopenWith {
        seed: u64,
    },
    /// The approximate size of a range.
    ApproximateSize {
        begin: Vec<u8>,
        end: Vec<u8>,
    },
    Property {
        name: &'static str,
    },
    /// Something happens to the whole database; all slots become empty.
    Lifecycle(LifecycleOp),
}

/// What can happen to a whole database whose files are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleOp {
    /// The process dies, and the database is opened again.
    Kill,
    /// The power fails, with the loss of everything that was not synced, and the database is opened again.
    PowerCut,
    /// It is closed, harmed, repaired and opened again. Nothing that was stored is lost.
    Repair(MissingFile),
    /// It is destroyed, and a new one begun at the same place.
    Destroy,
    /// Its closed files are copied to another place, where life goes on; something else happens to the old ones.
    Copy,
    /// It is closed, verified and opened again.
    Verify,
    /// It is closed, read through a handle that can't write, and opened again.
    ReadOnly,
}

/// What a repair has to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what is gone")]
pub enum MissingFile {
    None,
    Current,
    Manifest,
}

impl Op {
    /// The changes that it makes, in their order.
    pub fn writes(&self) -> Vec<Write> {
        match self {
            Op::Put { key, value, .. } => vec![Write::Put { key: key.clone(), value: *value }],
            Op::Delete { key, .. } => vec![Write::Delete { key: key.clone() }],
            Op::Batch { writes, .. } => writes.clone(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_determined_by_seed() {
        let (a, b) = (ValueSpec { len: 100, seed: 1 }, ValueSpec { len: 100, seed: 2 });
        assert_eq!((a.bytes(), a.bytes().len()), (a.bytes(), 100));
        assert_ne!(a.bytes(), b.bytes());
        assert_eq!(ValueSpec { len: 0, seed: 9 }.bytes(), b"");
        for len in 0..40 {
            let value = ValueSpec { len, seed: 7 };
            let mut bytes = value.bytes();
            assert!(value.matches(&bytes));
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert!(!value.matches(&bytes));
                bytes[at] ^= 1;
            }
            assert!(!value.matches(&[&bytes[..], b"x"].concat()));
        }
    }
}
