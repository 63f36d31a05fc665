//! What open tables hold in memory, their indexes and filters, counted; and taken from the room of a cache, if that is
//! wanted, so that both together have a limit.

// Not of `sync`: nothing depends on the order in which threads see what is counted.
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::BlockCache;
use crate::sync::Arc;

/// Of all open tables of one database.
pub(crate) struct TableMemory {
    /// In bytes.
    usage: AtomicUsize,
    /// When they hold more, tables are closed.
    limit: usize,
    /// Its room is what they take.
    cache: Option<Arc<BlockCache>>,
}

impl Default for TableMemory {
    fn default() -> TableMemory {
        TableMemory::new(usize::MAX, None)
    }
}

impl TableMemory {
    /// For tables that hold `most` bytes, about, of the room of `cache` if there is one.
    pub(crate) fn new(most: usize, cache: Option<Arc<BlockCache>>) -> TableMemory {
        TableMemory { usage: AtomicUsize::new(0), limit: most, cache }
    }

    /// What they hold, in bytes.
    pub(crate) fn usage(&self) -> usize {
        self.usage.load(Ordering::Relaxed)
    }

    /// The limit, if there is one.
    pub(crate) fn limit(&self) -> Option<usize> {
        (self.limit < usize::MAX).then_some(self.limit)
    }

    /// True if tables are to be closed.
    pub(super) fn is_over_limit(&self) -> bool {
        self.usage() > self.limit
    }

    /// Counts so many bytes as long as there is what this gives.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.usage.fetch_add(bytes, Ordering::Relaxed);
        self.cache.iter().for_each(|cache| cache.reserve(bytes));
        Reservation { memory: Arc::clone(self), bytes }
    }
}

/// Bytes that a table holds.
pub(super) struct Reservation {
    memory: Arc<TableMemory>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.usage.fetch_sub(self.bytes, Ordering::Relaxed);
        self.memory.cache.iter().for_each(|cache| cache.unreserve(self.bytes));
    }
}
