//! Filter of the keys that may have values of other types than strings.
//!
//! ```text
//!   put of an object's record    sets the bit of the record's key, before the commit
//!   start with objects           a job sets the bits of all stored objects, and then completes
//!   SET                          bit clear, filter complete: no lookup of the old value
//! ```
//!
//! A SET has to find an object that it replaces, because the members would stay for ever. A bit is
//! never cleared, so the filter excludes fewer keys with time. A wrong bit costs a lookup.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace::{Db, ReadOptions};

use super::Store;
use super::garbage::decode;
use super::layout::record_bounds;

/// Number of the bits, 128 KiB.
const BITS: u64 = 1 << 20;
/// Number of keys that one run of the job reads.
const RUN: usize = 5000;
/// Size of the records of keys above which the job does not read them all, in bytes.
const MAX_SCAN: u64 = 1 << 30;

/// Filter of one directory.
#[derive(Debug)]
pub(crate) struct ObjectFilter {
    bits: Box<[AtomicU64]>,
    /// True if the bits of all objects are set.
    is_complete: AtomicBool,
}

impl ObjectFilter {
    /// Creates the filter of a directory that may have objects already.
    pub(super) fn new(has_objects: bool) -> ObjectFilter {
        ObjectFilter {
            bits: (0..BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            is_complete: AtomicBool::new(!has_objects),
        }
    }

    /// Records that the record `record_key` may be that of an object. The caller holds the lock of
    /// the key, and commits the record later.
    pub(super) fn insert(&self, record_key: &[u8]) {
        let (index, bit) = place(record_key);
        // Relaxed: a command on the same key takes the same lock of the gate.
        if self.bits[index].load(Ordering::Relaxed) & bit == 0 {
            self.bits[index].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// False if the record `record_key` is not that of an object. The caller holds the lock of the
    /// key.
    pub(super) fn may_contain(&self, record_key: &[u8]) -> bool {
        let (index, bit) = place(record_key);
        // Acquire: the bits of the stored objects were set before.
        !self.is_complete.load(Ordering::Acquire) || self.bits[index].load(Ordering::Relaxed) & bit != 0
    }
}

/// Word and bit of a key: FNV-1a.
fn place(record_key: &[u8]) -> (usize, u64) {
    let hash = record_key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let index = (hash >> 24) % BITS;
    ((index / 64) as usize, 1 << (index % 64))
}

/// Job that completes the filter of a directory with objects.
#[derive(Debug, Default)]
pub(super) struct ObjectScan {
    /// First key that the job has not read. None before the first run.
    next: Option<Vec<u8>>,
    is_given_up: bool,
}

impl ObjectScan {
    /// Reads a part of the keys. Objects that commands store meanwhile set their bits themselves.
    pub(super) fn run(&mut self, store: &Store, db: &Db) -> terrace::Result<()> {
        let filter = &store.object_filter;
        if self.is_given_up || filter.is_complete.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (first, end) = record_bounds();
        if self.next.is_none() && db.approximate_sizes(&[(first.as_slice(), end.as_slice())])?[0] > MAX_SCAN {
            self.is_given_up = true;
            return Ok(());
        }
        let begin = self.next.take().unwrap_or(first);
        let mut options = ReadOptions::default().fill_cache(false);
        options.lower_bound = Some(begin.clone());
        options.upper_bound = Some(end);
        self.next = Some(begin);
        let mut records = db.iter_with(&options);
        for _ in 0..RUN {
            let Some((key, value)) = records.next_entry()? else {
                filter.is_complete.store(true, Ordering::Release);
                return Ok(());
            };
            if decode(value).is_some() {
                filter.insert(key);
            }
            let next = self.next.get_or_insert_default();
            next.clear();
            next.extend_from_slice(key);
            next.push(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_filter_excludes_nothing() {
        let filter = ObjectFilter::new(true);
        assert!(filter.may_contain(b"a"));
        let filter = ObjectFilter::new(false);
        assert!(!filter.may_contain(b"a"));
        filter.insert(b"a");
        assert!(filter.may_contain(b"a") && !filter.may_contain(b"b"));
    }
}
