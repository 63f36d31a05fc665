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
//! begins a new table where much of the last flushes lies between two of its keys. Random keys have
//! no such places.

use std::cmp::Ordering;
use std::collections::VecDeque;

use terrace_format::comparator::Comparator;

use crate::memtable::Memtable;

/// Maximum number of tables of one flush.
const MAX_FLUSH_TABLES: u64 = 16;
/// Minimum mean size of the tables of a flush, in bytes of its memtable.
const MIN_TABLE_BYTES: u64 = 16 << 10;
/// Maximum number of tables of a database if all had the mean size of those of this flush. No
/// compaction merges tables of ascending keys, so small ones would stay for ever.
const MAX_TABLES_OF_DATABASE: u64 = 4096;
/// Number of earlier flushes in a history. A memtable that fills fast has the keys of few threads:
/// those that run at this time.
const FLUSHES_IN_HISTORY: usize = 8;
/// Approximate number of keys of a flush in a history.
const KEYS_OF_FLUSH: usize = 64;
/// Maximum length of a key in a history, in bytes. Longer keys would take much memory.
const MAX_KEY_LEN: usize = 1 << 10;
/// A gap has this part of the keys of the history.
const MIN_PART_IN_GAP: usize = 64;
/// A flush whose tombstones are more than this part of its entries becomes one table, as do the
/// next ones. A table of tombstones alone would stay above the deleted entries, because no
/// compaction is due.
const MAX_TOMBSTONE_PART: u64 = 8;

/// Returns the number of file numbers that the flush of a memtable of `bytes` bytes needs, in a
/// database of `stored_bytes` bytes.
pub(crate) fn max_tables(bytes: usize, stored_bytes: u64) -> u64 {
    let min_table_bytes = MIN_TABLE_BYTES.max(stored_bytes / MAX_TABLES_OF_DATABASE);
    (bytes as u64 / min_table_bytes).clamp(1, MAX_FLUSH_TABLES)
}

/// Returns true if a table with these numbers of tombstones and entries has many tombstones.
pub(crate) fn has_many_tombstones(tombstones: u64, entries: u64) -> bool {
    tombstones > entries / MAX_TOMBSTONE_PART
}

/// Sampled user keys of the last flushes.
#[derive(Debug, Default)]
pub(crate) struct FlushHistory {
    flushes: VecDeque<Vec<Vec<u8>>>,
    /// Number of flushes since one with many tombstones. None if there was none.
    since_tombstones: Option<usize>,
}

/// Sampled user keys of one memtable.
pub(crate) struct FlushSample {
    keys: Vec<Vec<u8>>,
    leaves: usize,
}

impl FlushSample {
    /// Samples `memtable`. No thread inserts into it.
    pub(crate) fn new(memtable: &Memtable) -> FlushSample {
        let (keys, leaves) = memtable.sample_keys(KEYS_OF_FLUSH);
        let keys = keys.into_iter().filter(|key| key.len() <= MAX_KEY_LEN);
        FlushSample { keys: keys.map(<[u8]>::to_vec).collect(), leaves }
    }
}

/// Sampled user keys of the flushes before one.
pub(crate) struct EarlierKeys {
    keys: Vec<Vec<u8>>,
    min_keys_in_gap: usize,
}

impl EarlierKeys {
    /// Brings the keys into their order. Calls the comparator, so the caller holds no lock.
    pub(crate) fn sort(&mut self, comparator: &dyn Comparator) {
        self.keys.sort_unstable_by(|a, b| comparator.compare(a, b));
    }
}

impl FlushHistory {
    /// Adds the sample of a flush. Returns the earlier keys, which are not sorted.
    pub(crate) fn add(&mut self, sample: FlushSample) -> EarlierKeys {
        let keys: Vec<Vec<u8>> = match self.since_tombstones {
            Some(0..FLUSHES_IN_HISTORY) => Vec::new(),
            _ => self.flushes.iter().flatten().cloned().collect(),
        };
        self.since_tombstones = self.since_tombstones.map(|flushes| flushes.saturating_add(1));
        if self.flushes.len() == FLUSHES_IN_HISTORY {
            self.flushes.pop_front();
        }
        self.flushes.push_back(sample.keys);
        // Twice as many as between the ends of a leaf, because a gap is between two of its keys.
        // One or two may be stray keys.
        let min_keys_in_gap = (keys.len() / MIN_PART_IN_GAP).max(2 * keys.len() / sample.leaves).max(3);
        EarlierKeys { keys, min_keys_in_gap }
    }

    /// Records a flush with these numbers of tombstones and entries.
    pub(crate) fn record_tombstones(&mut self, tombstones: u64, entries: u64) {
        if has_many_tombstones(tombstones, entries) {
            self.since_tombstones = Some(0);
        }
    }
}

/// Finds the gaps between the keys of a flush.
pub(crate) struct FlushPartitioner<'a> {
    comparator: &'a dyn Comparator,
    /// Earlier keys that are not passed yet, in order.
    earlier: &'a [Vec<u8>],
    min_keys_in_gap: usize,
}

impl<'a> FlushPartitioner<'a> {
    /// Begins a flush after those with the sorted keys `earlier`.
    pub(crate) fn new(comparator: &'a dyn Comparator, earlier: &'a EarlierKeys) -> FlushPartitioner<'a> {
        FlushPartitioner { comparator, earlier: &earlier.keys, min_keys_in_gap: earlier.min_keys_in_gap }
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

    /// Returns the keys of a flush that begin a new table.
    fn gaps(earlier: &[u32], flush: &[u32]) -> Vec<u32> {
        let keys = earlier.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        let earlier = EarlierKeys { keys, min_keys_in_gap: 3 };
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

    /// Adds a flush of `keys`. Returns the earlier keys.
    fn add(history: &mut FlushHistory, keys: impl Iterator<Item = u32>) -> EarlierKeys {
        let memtable = Memtable::new(InternalComparator::new(bytewise()));
        let keys: Vec<[u8; 4]> = keys.map(u32::to_be_bytes).collect();
        memtable.insert(1, keys.iter().map(|key| (key.as_slice(), Some(b"".as_slice()))));
        let mut earlier = history.add(FlushSample::new(&memtable));
        earlier.sort(&Bytewise);
        earlier
    }

    #[test]
    fn history_has_keys_of_eight_flushes_in_order() {
        let mut history = FlushHistory::default();
        for flush in (0..20).rev() {
            let earlier = add(&mut history, flush * 20_000..(flush + 1) * 20_000).keys;
            assert!(earlier.is_sorted());
            let flushes = (19 - flush).min(8) as usize;
            assert!((flushes * 32..=flushes * 128).contains(&earlier.len()), "{flush}: {}", earlier.len());
        }
    }

    #[test]
    fn random_keys_have_no_gap() {
        for entries in [50_u32, 700, 20_000] {
            let mut history = FlushHistory::default();
            for flush in 0..10 {
                let numbers = entries * flush..entries * (flush + 1);
                let mut keys: Vec<u32> = numbers.map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
                let earlier = add(&mut history, keys.iter().copied());
                keys.sort_unstable();
                let mut partitioner = FlushPartitioner::new(&Bytewise, &earlier);
                partitioner.is_after_gap(&keys[0].to_be_bytes());
                let gaps = keys[1..].iter().filter(|key| partitioner.is_after_gap(&key.to_be_bytes()));
                assert_eq!(gaps.count(), 0, "{entries} entries");
            }
        }
    }

    #[test]
    fn flushes_after_many_tombstones_have_no_earlier_keys() {
        let mut history = FlushHistory::default();
        let mut keys_of_next = || add(&mut history, 0..20_000).keys.len();
        assert!(keys_of_next() == 0 && keys_of_next() > 0);
        history.record_tombstones(100, 1_000);
        let mut keys_of_next = || add(&mut history, 0..20_000).keys.len();
        assert!(keys_of_next() > 0, "few tombstones");
        history.record_tombstones(200, 1_000);
        let mut keys_of_next = || add(&mut history, 0..20_000).keys.len();
        assert!((0..8).all(|_| keys_of_next() == 0) && keys_of_next() > 0);
    }

    #[test]
    fn tables_are_not_too_small_for_the_database() {
        assert_eq!(max_tables(10 << 10, 0), 1);
        assert_eq!(max_tables(64 << 10, 0), 4);
        assert_eq!(max_tables(4 << 20, 1 << 30), 16);
        assert_eq!(max_tables(4 << 20, 8 << 30), 2);
        assert_eq!(max_tables(64 << 20, 1 << 40), 1);
    }
}
