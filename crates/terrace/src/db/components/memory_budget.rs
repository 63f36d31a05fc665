//! What one number of bytes says to the parts of a database.
//!
//! ```text
//!   budget   [ memtables: 3/8, up to 105 MiB | blocks and open tables: the rest | at work: 1/8 ]
//!               three of them, full             tables up to 3/4 of that
//! ```
//!
//! *At work* are a flush, the threads of a merge, iterators, and memory kept for memtables to come. Only the last of these is
//! held to its share: the others take a few blocks, and what a table needs that is being written.
//!
//! A write buffer or a cache that somebody asked for stays what it is: with the one, blocks and tables get what it leaves;
//! the other is not counted, for it may serve many databases.

use crate::options::Options;

/// The shares, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    pub(crate) total: usize,
    /// Of all memtables that there are at a time.
    pub(crate) memtables: usize,
    /// Of cached blocks and open tables together.
    pub(crate) blocks_and_tables: usize,
    /// Of memory that is kept for memtables to come.
    pub(crate) pooled_chunks: usize,
}

/// So many memtables there are while writes come faster than flushes: one is written to, two are on their way to tables.
const BUDGETED_MEMTABLES: usize = 3;

/// The largest that nobody asked for, in bytes.
pub(crate) const MAX_ADAPTIVE_MEMTABLE_SIZE: usize = 32 << 20;
/// What may wait for its flush in all, in bytes: a merge that takes the processor for a moment delays flushes, and writers
/// need not feel it ...
const MAX_IMMUTABLE_BYTES: usize = 64 << 20;
/// ... but not more than so many memtables, each of which a look-up asks ...
pub(crate) const MAX_IMMUTABLE_MEMTABLES: usize = 4;

impl MemoryBudget {
    /// None if `options` ask for none.
    pub(crate) fn from_options(options: &Options) -> Option<MemoryBudget> {
        let all = options.memory_budget?;
        let eighth = all / 8;
        let memtables = match options.write_buffer_size {
            Some(size) => max_memtable_footprint(size) * (1 + default_max_immutable_memtables(size)),
            None => (3 * eighth).min(BUDGETED_MEMTABLES * max_memtable_footprint(MAX_ADAPTIVE_MEMTABLE_SIZE)),
        };
        let blocks = (all - eighth).saturating_sub(memtables).max(eighth);
        Some(MemoryBudget { total: all, memtables, blocks_and_tables: blocks, pooled_chunks: eighth })
    }

    /// What open tables may hold: a fourth is left for blocks.
    pub(crate) fn open_table_limit(&self) -> usize {
        self.blocks_and_tables / 4 * 3
    }

    /// The largest memtables of which as many as there may be fit in their share.
    pub(crate) fn max_memtable_size(&self) -> usize {
        let each = self.memtables / BUDGETED_MEMTABLES;
        // The two cases of `weight`.
        let (small, large) = (each * 32 / 65, each.saturating_sub(MAX_MEMTABLE_CHUNK) * 32 / 33);
        small.max(large).clamp(64 << 10, MAX_ADAPTIVE_MEMTABLE_SIZE)
    }
}

/// The largest piece in which memtables get their memory.
const MAX_MEMTABLE_CHUNK: usize = 2 << 20;

/// What a memtable of `size` bytes takes at most, all of it: pieces double from 16 KiB on, so the last may be as large as all
/// before, and may hardly be used; and a filter, of a sixty-fourth rounded up to a power of two.
pub(crate) fn max_memtable_footprint(size: usize) -> usize {
    size.saturating_add(size.min(MAX_MEMTABLE_CHUNK)).saturating_add(size / 32)
}

/// Memtables of `size` bytes that may wait for their flush, if there is memory for all.
fn default_max_immutable_memtables(size: usize) -> usize {
    immutable_memtables_that_fit(size, MAX_IMMUTABLE_MEMTABLES)
}

pub(crate) fn immutable_memtables_that_fit(size: usize, most: usize) -> usize {
    (MAX_IMMUTABLE_BYTES / size.max(1)).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// Memtables, the largest of them, blocks and tables, and how much of that tables; in MiB.
    #[track_caller]
    fn check(budget: usize, write_buffer: Option<usize>, expect: [usize; 4]) {
        let options = Options {
            memory_budget: Some(budget * MB),
            write_buffer_size: write_buffer.map(|size| size * MB),
            ..Options::default()
        };
        let budget = MemoryBudget::from_options(&options).unwrap();
        let found = [
            budget.memtables,
            budget.max_memtable_size(),
            budget.blocks_and_tables,
            budget.open_table_limit(),
        ];
        assert_eq!(found.map(|bytes| bytes / MB), expect);
        assert!(
            write_buffer.is_some()
                || budget.memtables + budget.blocks_and_tables + budget.pooled_chunks <= budget.total
        );
    }

    #[test]
    fn splits_budget_into_shares() {
        check(256, None, [96, 29, 128, 96]);
        check(64, None, [24, 5, 32, 24]);
        check(8, None, [3, 0, 4, 3]);
        check(4096, None, [105, 32, 3479, 2609]);
        assert_eq!(MemoryBudget::from_options(&Options::default()), None);
    }

    #[test]
    fn explicit_write_buffer_size_reduces_the_cache_share() {
        check(256, Some(4), [30, 7, 193, 145]);
        check(64, Some(64), [136, 32, 8, 6]);
    }

    #[test]
    fn maximum_number_of_memtables_fits_their_share() {
        for budget in [2, 3, 10, 11, 33, 34, 100, 1000] {
            let options = Options { memory_budget: Some(budget * MB), ..Options::default() };
            let budget = MemoryBudget::from_options(&options).unwrap();
            assert!(
                BUDGETED_MEMTABLES * max_memtable_footprint(budget.max_memtable_size()) <= budget.memtables,
                "{budget:?}"
            );
        }
    }
}
