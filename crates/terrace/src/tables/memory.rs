//! What open tables hold in memory, their indexes and filters, counted; and taken from the room of a cache, if that is
//! wanted, so that both together have a limit.

// Not of `sync`: nothing depends on the order in which threads see what is counted.
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::BlockCache;
use crate::sync::Arc;

/// Of all open tables of one database.
pub(crate) struct Memory {
    /// In bytes.
    held: AtomicUsize,
    /// When they hold more, tables are closed.
    most: usize,
    /// Its room is what they take.
    cache: Option<Arc<BlockCache>>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(usize::MAX, None)
    }
}

impl Memory {
    /// For tables that hold `most` bytes, about, of the room of `cache` if there is one.
    pub(crate) fn new(most: usize, cache: Option<Arc<BlockCache>>) -> Memory {
        Memory { held: AtomicUsize::new(0), most, cache }
    }

    /// What they hold, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The limit, if there is one.
    pub(crate) fn most(&self) -> Option<usize> {
        (self.most < usize::MAX).then_some(self.most)
    }

    /// True if tables are to be closed.
    pub(super) fn is_over(&self) -> bool {
        self.held() > self.most
    }

    /// Counts so many bytes as long as there is what this gives.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.cache.iter().for_each(|cache| cache.reserve(bytes));
        Charge { memory: Arc::clone(self), bytes }
    }
}

/// Bytes that a table holds.
pub(super) struct Charge {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.memory.cache.iter().for_each(|cache| cache.unreserve(self.bytes));
    }
}
