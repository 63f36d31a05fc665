//! Split of the option `memory_budget`.
//!
//! ```text
//!   budget   [ memtables: 3/8, up to 204 MiB | blocks and open tables: the rest | temporary: 1/8 ]
//!               three full memtables            tables: up to 3/4 of it
//! ```
//!
//! The temporary part is for a flush, the threads of a compaction, iterators and pooled chunks of
//! memtables. Only the pooled chunks are held to this limit. The others need a few blocks, and the
//! index and filter of the table that is being written.
//!
//! Explicit options take precedence. With `write_buffer_size`, blocks and tables get the bytes that
//! the memtables leave. An explicit block cache does not count, because several databases may share
//! it.

use crate::options::Options;

/// Limits for the parts of a database, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    pub(crate) total: usize,
    /// Limit for all memtables together.
    pub(crate) memtables: usize,
    /// Limit for cached blocks and open tables together.
    pub(crate) blocks_and_tables: usize,
    /// Limit for the pooled chunks of flushed memtables.
    pub(crate) pooled_chunks: usize,
}

/// Number of memtables while writes are faster than flushes: the current one and two immutable
/// ones.
const BUDGETED_MEMTABLES: usize = 3;

/// Maximum memtable size in bytes without `write_buffer_size`.
pub(crate) const MAX_ADAPTIVE_MEMTABLE_SIZE: usize = 64 << 20;
/// Maximum bytes of all immutable memtables. Writers need not notice a compaction that delays a
/// flush for a moment by its use of the processor.
const MAX_IMMUTABLE_BYTES: usize = 64 << 20;
/// Maximum number of immutable memtables. A get searches each of them.
pub(crate) const MAX_IMMUTABLE_MEMTABLES: usize = 4;

impl MemoryBudget {
    /// Returns None if the options set no budget.
    pub(crate) fn from_options(options: &Options) -> Option<MemoryBudget> {
        let all = options.effective_memory_budget()?;
        let eighth = all / 8;
        let memtables = match options.write_buffer_size {
            Some(size) => max_memtable_footprint(size) * (1 + default_max_immutable_memtables(size)),
            None => (3 * eighth).min(BUDGETED_MEMTABLES * max_memtable_footprint(MAX_ADAPTIVE_MEMTABLE_SIZE)),
        };
        let blocks = (all - eighth).saturating_sub(memtables).max(eighth);
        Some(MemoryBudget { total: all, memtables, blocks_and_tables: blocks, pooled_chunks: eighth })
    }

    /// Limit for open tables. A quarter of the shared limit is left for blocks.
    pub(crate) fn open_table_limit(&self) -> usize {
        self.blocks_and_tables / 4 * 3
    }

    /// Maximum size of a memtable, so that [`BUDGETED_MEMTABLES`] of them fit in their limit.
    pub(crate) fn max_memtable_size(&self) -> usize {
        let each = self.memtables / BUDGETED_MEMTABLES;
        // The two cases of [`max_memtable_footprint`].
        let small = each * 32 / 65;
        let large = each.saturating_sub(MAX_MEMTABLE_CHUNK) * 32 / 33;
        small.max(large).clamp(64 << 10, MAX_ADAPTIVE_MEMTABLE_SIZE)
    }
}

/// Maximum size of the chunks in which a memtable allocates memory.
const MAX_MEMTABLE_CHUNK: usize = 2 << 20;

/// Maximum bytes that a memtable of `size` bytes allocates. Chunks double from 16 KiB on, so the
/// last one may be as large as all others together, and nearly empty. The Bloom filter takes a
/// sixty-fourth of the size, rounded up to a power of two.
pub(crate) fn max_memtable_footprint(size: usize) -> usize {
    size.saturating_add(size.min(MAX_MEMTABLE_CHUNK)).saturating_add(size / 32)
}

/// Number of immutable memtables of `size` bytes at which writers wait, if the memory budget allows
/// it.
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

    /// Checks the limits in MiB: memtables, one memtable, blocks and tables, tables alone.
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
        check(4096, None, [204, 64, 3380, 2535]);
        assert_eq!(MemoryBudget::from_options(&Options::default()), None);
    }

    #[test]
    fn explicit_write_buffer_size_reduces_the_cache_share() {
        check(256, Some(4), [30, 7, 193, 145]);
        check(64, Some(64), [136, 42, 8, 6]);
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
