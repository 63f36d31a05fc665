//! Memory of open tables: their indexes and filters. It is counted, and it can be reserved in the
//! block cache, so that both together have a limit.

// Atomics of the standard library instead of `sync`: no other access depends on their order.
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::BlockCache;
use crate::shared_budget::SharedBudget;
use crate::sync::Arc;

/// Memory of all open tables of one database.
pub(crate) struct TableMemory {
    /// Memory use in bytes.
    usage: AtomicUsize,
    /// Memory use in bytes above which tables are closed.
    limit: usize,
    /// Block cache whose capacity the tables reduce.
    cache: Option<Arc<BlockCache>>,
    /// Budget that also counts the tables of other databases.
    budget: Option<Arc<SharedBudget>>,
}

impl Default for TableMemory {
    fn default() -> TableMemory {
        TableMemory::new(usize::MAX, None)
    }
}

impl TableMemory {
    /// Creates a counter with a limit in bytes. If there is a cache, the tables take their memory
    /// from its capacity.
    pub(crate) fn new(limit: usize, cache: Option<Arc<BlockCache>>) -> TableMemory {
        TableMemory { usage: AtomicUsize::new(0), limit, cache, budget: None }
    }

    /// Creates a counter whose limit all databases with this budget share.
    pub(crate) fn shared(budget: Arc<SharedBudget>) -> TableMemory {
        TableMemory { usage: AtomicUsize::new(0), limit: usize::MAX, cache: None, budget: Some(budget) }
    }

    /// Returns the memory use of all open tables in bytes.
    pub(crate) fn usage(&self) -> usize {
        self.usage.load(Ordering::Relaxed)
    }

    /// Returns the limit in bytes, if there is one.
    pub(crate) fn limit(&self) -> Option<usize> {
        let shared = self.budget.as_ref().map(|budget| budget.table_limit());
        shared.or((self.limit < usize::MAX).then_some(self.limit))
    }

    /// Returns true if open tables may take memory that only makes lookups faster. Beyond three
    /// quarters of the limit, it would soon close other tables.
    pub(super) fn has_spare(&self) -> bool {
        let (usage, limit) = match &self.budget {
            Some(budget) => (budget.table_bytes(), budget.table_limit()),
            None => (self.usage(), self.limit),
        };
        usage < limit / 4 * 3
    }

    /// Closes tables of some database if those of all databases exceed the shared budget. The
    /// caller holds no lock of a table cache.
    pub(super) fn close_excess_of_shared_budget(&self) {
        if let Some(budget) = &self.budget {
            budget.close_excess_tables();
        }
    }

    /// Returns true if tables must be closed.
    pub(super) fn is_over_limit(&self) -> bool {
        self.usage() > self.limit
    }

    /// Counts `bytes` until the drop of the reservation.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.usage.fetch_add(bytes, Ordering::Relaxed);
        if let Some(cache) = &self.cache {
            cache.reserve(bytes);
        }
        if let Some(budget) = &self.budget {
            budget.reserve_table(bytes);
        }
        Reservation { memory: Arc::clone(self), bytes }
    }
}

/// Counted bytes of one table.
pub(super) struct Reservation {
    memory: Arc<TableMemory>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.usage.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(cache) = &self.memory.cache {
            cache.unreserve(self.bytes);
        }
        if let Some(budget) = &self.memory.budget {
            budget.release_table(self.bytes);
        }
    }
}
