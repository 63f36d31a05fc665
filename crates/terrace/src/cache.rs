//! The block cache: decompressed blocks, shared between threads and, if wanted, between databases.

use std::fmt;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use terrace_format::block::Block;

use crate::sync::{Arc, AtomicU64, Ordering};

/// Which block of which table of which open database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    /// From [`instance`]: no two openings in a process share one, so a table number that is used again in a
    /// database that was destroyed and created anew can't find the old blocks.
    pub(crate) instance: u64,
    pub(crate) table: u64,
    pub(crate) offset: u64,
}

/// A number that no other call in this process returns.
pub(crate) fn instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A cache of decompressed blocks with a limit in bytes.
///
/// May be shared by any number of databases and threads. Evicts by S3-FIFO (Yang et al., SOSP 2023), so that a scan
/// does not displace what point reads use.
pub struct BlockCache {
    blocks: Cache<BlockKey, Arc<Block>, Bytes>,
    capacity: usize,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<BlockKey, Arc<Block>> for Bytes {
    fn weight(&self, _key: &BlockKey, block: &Arc<Block>) -> u64 {
        block.size() as u64
    }
}

/// What a cache is sized for: LevelDB's default block.
const USUAL_BLOCK: usize = 4096;

impl BlockCache {
    /// A cache for about `capacity` bytes of blocks; 0 caches nothing.
    pub fn new(capacity: usize) -> Arc<BlockCache> {
        let items = (capacity / USUAL_BLOCK).max(16);
        Arc::new(BlockCache { blocks: Cache::with_weighter(items, capacity as u64, Bytes), capacity })
    }

    /// The limit in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes in use now.
    pub fn usage(&self) -> usize {
        self.blocks.weight() as usize
    }

    pub(crate) fn get(&self, key: &BlockKey) -> Option<Arc<Block>> {
        self.blocks.get(key)
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Arc<Block>) {
        self.blocks.insert(key, block);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
    }
}
