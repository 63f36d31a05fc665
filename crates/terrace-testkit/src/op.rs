//! Operations on a database, as data that can be printed, replayed and shortened.
//!
//! Snapshots and iterators are in numbered slots. An operation on an empty slot does nothing, so
//! every part of a list of operations is a valid list. Shrinking needs this.

use crate::rng::splitmix;

mod display;
mod generator;
mod kind;

pub(crate) use generator::is_known_property;
pub use generator::{KeyPattern, OpGenerator, WorkloadParams, numbered_key};
pub use kind::OP_KINDS;

/// A value, as its length and a seed, which is cheap to store and to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueSpec {
    /// Length in bytes.
    pub len: u32,
    /// Seed of the bytes.
    pub seed: u32,
}

impl ValueSpec {
    /// Returns the bytes, which compress to about half.
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

    /// Returns true if `bytes` is this value.
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

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the field names describe the fields")]
pub enum Write {
    Put { key: Vec<u8>, value: ValueSpec },
    Delete { key: Vec<u8> },
}

impl Write {
    /// Returns the key of the write.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } => key,
        }
    }

    /// Returns the new value of the key, or None for a deletion.
    pub fn value(&self) -> Option<ValueSpec> {
        match self {
            Write::Put { value, .. } => Some(*value),
            Write::Delete { .. } => None,
        }
    }
}

/// Bounds of an iterator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IteratorBounds {
    /// Smallest key.
    pub lower: Option<Vec<u8>>,
    /// Upper bound, excluded.
    pub upper: Option<Vec<u8>>,
    /// Prefix of all keys.
    pub prefix: Option<Vec<u8>>,
}

/// Movement of an iterator. `Next` and `Prev` of an invalid iterator do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the calls")]
pub enum IteratorMove {
    SeekToFirst,
    SeekToLast,
    Seek(Vec<u8>),
    Next,
    Prev,
}

/// Number of a slot for a snapshot or an iterator.
pub type Slot = usize;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of the calls")]
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
    /// An atomic batch of writes.
    Batch {
        writes: Vec<Write>,
        sync: bool,
    },
    /// Get at a snapshot, if its slot holds one.
    Get {
        key: Vec<u8>,
        snapshot: Option<Slot>,
    },
    /// Gets of `count` consecutive numbered keys.
    MultiGet {
        first: u64,
        count: u64,
        snapshot: Option<Slot>,
    },
    /// Scan of all entries in both directions.
    Scan {
        snapshot: Option<Slot>,
    },
    /// Takes a snapshot into a slot, and releases an earlier one.
    TakeSnapshot {
        slot: Slot,
    },
    ReleaseSnapshot {
        slot: Slot,
    },
    /// Opens an iterator in a slot, and closes an earlier one.
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
    /// Deletes a range of keys; its end is excluded.
    DeleteRange {
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
    },
    /// Ingests a table with these entries. The database may refuse it if their range is not free.
    Ingest {
        entries: Vec<(Vec<u8>, ValueSpec)>,
    },
    /// Loads these entries in bulk; they may overlap the database and repeat a key.
    BulkLoad {
        entries: Vec<(Vec<u8>, ValueSpec)>,
    },
    /// Closes and opens the database; all slots become empty.
    Reopen,
    /// Reopens with other options, drawn from the seed.
    ReopenWith {
        seed: u64,
    },
    /// Asks for the approximate size of a range.
    ApproximateSize {
        begin: Vec<u8>,
        end: Vec<u8>,
    },
    Property {
        name: &'static str,
    },
    /// Lifecycle event of the whole database; all slots become empty.
    Lifecycle(LifecycleOp),
}

/// Lifecycle event of a database with files in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleOp {
    /// The process is killed, and the database is opened again.
    Kill,
    /// The power fails, all unsynced data is lost, and the database is opened again.
    PowerCut,
    /// The database is closed, damaged, repaired and opened again. No stored entry is lost.
    Repair(MissingFile),
    /// The database is destroyed and created again.
    Destroy,
    /// The closed files are copied, and the copy is opened. Then the old files are changed.
    Copy,
    /// The database is closed, verified and opened again.
    Verify,
    /// The database is closed, read through a read-only handle, and opened again.
    ReadOnly,
}

/// Missing file that a repair must replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the missing files")]
pub enum MissingFile {
    None,
    Current,
    Manifest,
}

impl Op {
    /// Returns the writes of the operation, in order.
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
        let a = ValueSpec { len: 100, seed: 1 };
        let b = ValueSpec { len: 100, seed: 2 };
        assert_eq!((a.bytes(), a.bytes().len()), (a.bytes(), 100));
        assert_ne!(a.bytes(), b.bytes());
        assert_eq!(ValueSpec { len: 0, seed: 9 }.bytes(), b"");
        for len in 0..40 {
            let value = ValueSpec { len, seed: 7 };
            let mut bytes = value.bytes();
            assert!(value.matches(&bytes));
            for offset in 0..bytes.len() {
                bytes[offset] ^= 1;
                assert!(!value.matches(&bytes));
                bytes[offset] ^= 1;
            }
            assert!(!value.matches(&[&bytes[..], b"x"].concat()));
        }
    }
}
