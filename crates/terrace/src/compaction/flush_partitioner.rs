//! Places at which a flush begins a new table.
//!
//! Several threads, or several prefixes with counters, may put ascending keys at the same time:
//!
//! ```text
//!   previous flush   a1 .. a4            b1 .. b4            c1 .. c4
//!   this flush                a5 .. a9            b5 .. b9            c5 .. c9
//!   its tables               [a5 .. a9]          [b5 .. b9]          [c5 .. c9]
//! ```
//!
//! One table from a5 to c9 would overlap the tables of all other flushes, so compactions would
//! rewrite them. The three tables overlap nothing, and no compaction ever rewrites them. So a flush
//! begins a new table where much of the previous flush lies between two of its keys. Random keys
//! have no such places.

use std::cmp::Ordering;
use std::collections::VecDeque;

use terrace_format::comparator::Comparator;

use crate::memtable::Memtable;

/// Maximum number of tables of one flush.
const MAX_FLUSH_TABLES: u64 = 16;
/// Minimum size of a memtable that becomes several tables, in bytes. Small memtables come from
/// small databases or from rare writes, and their tables would be tiny.
const MIN_PARTITIONED_BYTES: usize = 2 << 20;
/// Number of earlier flushes in a history. A memtable that fills fast has the keys of few threads:
/// those that run at this time.
const FLUSHES_IN_HISTORY: usize = 8;
/// Approximate number of keys of a flush in a history.
const KEYS_OF_FLUSH: usize = 64;
/// Maximum length of a key in a history, in bytes. Longer keys would take much memory.
const MAX_KEY_LEN: usize = 1 << 10;
/// Minimum number of leaves of a memtable that becomes several tables, some 10,000 entries. Between
/// two keys of a memtable with few entries, there are always many other keys.
const MIN_PARTITIONED_LEAVES: usize = 256;
/// A gap has this part of the keys of the history.
const MIN_PART_IN_GAP: usize = 64;

/// Returns the number of file numbers that the flush of a memtable of `bytes` bytes needs.
pub(crate) fn max_tables(bytes: usize) -> u64 {
    if bytes < MIN_PARTITIONED_BYTES { 1 } else { MAX_FLUSH_TABLES }
}

/// Sampled user keys of the last flushes.
#[derive(Debug, Default)]
pub(crate) struct FlushHistory {
    flushes: VecDeque<Vec<Vec<u8>>>,
}

impl FlushHistory {
    /// Adds `memtable`. No thread inserts into it. Returns the earlier keys for its flush, in order,
    /// or none if it has too few entries.
    pub(crate) fn add(&mut self, memtable: &Memtable, comparator: &dyn Comparator) -> Vec<Vec<u8>> {
        let (keys, leaves) = memtable.sample_keys(KEYS_OF_FLUSH);
        let mut earlier = Vec::new();
        if leaves >= MIN_PARTITIONED_LEAVES {
            earlier = self.flushes.iter().flatten().cloned().collect();
            earlier.sort_unstable_by(|a, b| comparator.compare(a, b));
        }
        if self.flushes.len() == FLUSHES_IN_HISTORY {
            self.flushes.pop_front();
        }
        let keys = keys.into_iter().filter(|key| key.len() <= MAX_KEY_LEN);
        self.flushes.push_back(keys.map(<[u8]>::to_vec).collect());
        earlier
    }
}

/// Finds the gaps between the keys of a flush.
pub(crate) struct FlushPartitioner<'a> {
    comparator: &'a dyn Comparator,
    /// Keys of earlier flushes that are not passed yet, in order.
    earlier: &'a [Vec<u8>],
    min_keys_in_gap: usize,
}

impl<'a> FlushPartitioner<'a> {
    /// Begins a flush after those with the keys `earlier`.
    pub(crate) fn new(comparator: &'a dyn Comparator, earlier: &'a [Vec<u8>]) -> FlushPartitioner<'a> {
        // A single key may be a stray one.
        FlushPartitioner { comparator, earlier, min_keys_in_gap: (earlier.len() / MIN_PART_IN_GAP).max(3) }
    }

    /// Passes the next user key. Returns true if there is a gap before it.
    #[inline]
    pub(crate) fn is_after_gap(&mut self, user_key: &[u8]) -> bool {
        let mut keys_in_gap = 0;
        while let Some((first, rest)) = self.earlier.split_first() {
            match self.comparator.compare(first, user_key) {
                Ordering::Less => keys_in_gap += 1,
                Ordering::Equal => {}
                Ordering::Greater => break,
            }
            self.earlier = rest;
        }
        keys_in_gap >= self.min_keys_in_gap
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::{Bytewise, bytewise};
    use terrace_format::key::InternalComparator;

    use super::*;
    use crate::sync::Arc;

    /// Returns the keys of a flush that begin a new table.
    fn gaps(earlier: &[u32], flush: &[u32]) -> Vec<u32> {
        let earlier: Vec<Vec<u8>> = earlier.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        let mut partitioner = FlushPartitioner::new(&Bytewise, &earlier);
        flush.iter().filter(|key| partitioner.is_after_gap(&key.to_be_bytes())).copied().collect()
    }

    #[test]
    fn gap_contains_a_part_of_the_earlier_flushes() {
        // Two threads with ascending keys.
        assert_eq!(gaps(&[0, 1, 2, 100, 101, 102], &[3, 4, 5, 103, 104, 105]), [3, 103]);
        // Two stray keys.
        assert_eq!(gaps(&[4, 100, 101], &[3, 5, 99, 102]), []);
        // Equal keys are not between two keys.
        assert_eq!(gaps(&[3, 4, 5], &[3, 4, 5]), []);
        assert_eq!(gaps(&[], &[1, 2]), []);
    }

    fn memtable(keys: impl Iterator<Item = u32>) -> Arc<Memtable> {
        let memtable = Memtable::new(InternalComparator::new(bytewise()));
        let keys: Vec<[u8; 4]> = keys.map(u32::to_be_bytes).collect();
        memtable.insert(1, keys.iter().map(|key| (key.as_slice(), Some(b"".as_slice()))));
        memtable
    }

    #[test]
    fn history_has_keys_of_eight_flushes_in_order() {
        let mut history = FlushHistory::default();
        for flush in (0..20).rev() {
            let earlier = history.add(&memtable(flush * 20_000..(flush + 1) * 20_000), &Bytewise);
            assert!(earlier.is_sorted());
            let flushes = (19 - flush).min(8) as usize;
            assert!((flushes * 32..=flushes * 128).contains(&earlier.len()), "{flush}: {}", earlier.len());
        }
        assert!(history.add(&memtable(0..1000), &Bytewise).is_empty(), "few entries");
    }

    #[test]
    fn random_keys_have_no_gap() {
        let mut history = FlushHistory::default();
        for flush in 0..10 {
            let keys = (0..20_000_u32).map(|n| (n + 20_000 * flush).wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995);
            let mut keys: Vec<u32> = keys.collect();
            let earlier = history.add(&memtable(keys.iter().copied()), &Bytewise);
            keys.sort_unstable();
            let mut partitioner = FlushPartitioner::new(&Bytewise, &earlier);
            assert!(!keys.iter().any(|key| partitioner.is_after_gap(&key.to_be_bytes())));
        }
    }
}
