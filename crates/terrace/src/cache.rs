//! The block cache: decompressed blocks, shared between threads and, if wanted, between databases.

use std::fmt;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use terrace_format::block::Block;

use crate::sync::{Arc, Ordering};

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
    // Not of `sync`: it lasts as long as the process, and no thread waits for another's number.
    use std::sync::atomic::AtomicU64;
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
    ///
    /// ```
    /// use std::sync::Arc;
    /// use terrace::{BlockCache, Options};
    ///
    /// let cache = BlockCache::new(64 << 20);
    /// let cities = Options { block_cache: Some(Arc::clone(&cache)), ..Options::default() };
    /// let rivers = Options { block_cache: Some(cache), ..Options::default() }; // shares it
    /// ```
    pub fn new(capacity: usize) -> Arc<BlockCache> {
        let items = (capacity / USUAL_BLOCK).max(16);
        Arc::new(BlockCache { blocks: Cache::with_weighter(items, capacity as u64, Bytes), capacity })
    }

    /// The limit in bytes.
    ///
    /// ```
    /// assert_eq!(terrace::BlockCache::new(1 << 20).capacity(), 1 << 20);
    /// ```
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes in use now.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use terrace::{BlockCache, Db, Env, Options};
    /// let cache = BlockCache::new(1 << 20);
    /// # let env = Env::memory();
    /// # let block_cache = Some(Arc::clone(&cache));
    /// # let db = Db::open("cities", &Options { create_if_missing: true, env, block_cache, ..Options::default() })?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// assert_eq!(cache.usage(), 0);
    /// db.get(b"CH/Bern")?; // from a table, whose block now stays at hand
    /// assert!(cache.usage() > 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
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
