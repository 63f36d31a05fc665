//! Block cache: decompressed blocks in memory. Several databases can share one.

mod s3_fifo;

use std::fmt;
use std::ops::Deref;

use terrace_format::block::Block;
use terrace_sync::mutant;

use s3_fifo::{CacheSlots, Evicted};
pub(crate) use s3_fifo::{CacheValue, S3FifoCache};

use crate::error::Result;
use crate::sync::{Arc, HazardGuard, Ordering};

/// Returns a number that no other call in this process returns. Each open of a database gets its
/// own. A database that is destroyed and created again reuses table numbers, and must not find old
/// blocks.
pub(crate) fn new_cache_id() -> u64 {
    // An atomic of the standard library instead of `sync`: it outlives every model, and no access
    // depends on its order.
    use std::sync::atomic::AtomicU64;
    static NEXT_CACHE_ID: AtomicU64 = AtomicU64::new(1);
    NEXT_CACHE_ID.fetch_add(1, Ordering::Relaxed)
}

/// Cache of decompressed blocks with a capacity in bytes.
///
/// Any number of databases and threads may share a cache. The eviction algorithm is S3-FIFO (Yang
/// et al., SOSP 2023), so that a scan does not displace the blocks that gets use. Each open table
/// has a slot for each of its blocks: a hit needs no search.
pub struct BlockCache {
    backend: CacheBackend,
    capacity: usize,
}

/// Bytes that a cached block takes in addition to its contents: the `Block`, its reference counts,
/// its queue entry, and the overhead of the allocator.
const PER_BLOCK_OVERHEAD: usize = size_of::<Block>() + 64;

enum CacheBackend {
    BuiltIn(Arc<S3FifoCache<Block>>),
    External(Arc<dyn ExternalBlockCache>),
}

impl CacheValue for Block {
    fn charge(&self) -> usize {
        self.memory_usage() + PER_BLOCK_OVERHEAD
    }

    fn data_ptr(&self) -> *const u8 {
        Block::as_ptr(self)
    }
}

/// Cache of the caller, for [`BlockCache::with_store`]. Any thread may call any method at any time.
///
/// The implementation decides on evictions. The database reads an evicted block again.
pub trait ExternalBlockCache: Send + Sync {
    /// Returns the block that was inserted with `key`, if the cache still holds it.
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock>;

    /// Inserts `block` with `key`, which identifies the block within this process.
    fn insert(&self, key: &[u8; 24], block: CachedBlock);

    /// Returns the size of all cached blocks in bytes.
    fn usage(&self) -> usize;
}

/// Decompressed block in an [`ExternalBlockCache`]. Clones share the bytes.
#[derive(Clone)]
pub struct CachedBlock(Arc<Block>);

impl CachedBlock {
    /// Returns the size of the block in bytes.
    pub fn size(&self) -> usize {
        self.0.memory_usage()
    }
}

impl BlockCache {
    /// Creates a cache for about `capacity` bytes of blocks. 0 disables the cache.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use terrace::{BlockCache, Options};
    ///
    /// let cache = BlockCache::new(64 << 20);
    /// let cities = Options::default().block_cache(Arc::clone(&cache));
    /// let rivers = Options::default().block_cache(cache); // shares it
    /// ```
    pub fn new(capacity: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache { backend: CacheBackend::BuiltIn(S3FifoCache::new(capacity)), capacity })
    }

    /// Creates a cache that keeps its blocks in `store`.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::sync::{Arc, Mutex};
    /// use terrace::{BlockCache, CachedBlock, ExternalBlockCache, Options};
    ///
    /// /// Cache without evictions.
    /// #[derive(Default)]
    /// struct UnboundedCache(Mutex<HashMap<[u8; 24], CachedBlock>>);
    ///
    /// impl ExternalBlockCache for UnboundedCache {
    ///     fn get(&self, key: &[u8; 24]) -> Option<CachedBlock> {
    ///         self.0.lock().unwrap().get(key).cloned()
    ///     }
    ///     fn insert(&self, key: &[u8; 24], block: CachedBlock) {
    ///         self.0.lock().unwrap().insert(*key, block);
    ///     }
    ///     fn usage(&self) -> usize {
    ///         self.0.lock().unwrap().values().map(CachedBlock::size).sum()
    ///     }
    /// }
    ///
    /// let cache = BlockCache::with_store(Arc::new(UnboundedCache::default()));
    /// let options = Options::default().block_cache(cache);
    /// ```
    pub fn with_store(store: Arc<dyn ExternalBlockCache>) -> Arc<BlockCache> {
        Arc::new(BlockCache { backend: CacheBackend::External(store), capacity: usize::MAX })
    }

    /// Evicts all blocks. Has no effect on an [`ExternalBlockCache`].
    ///
    /// ```
    /// let cache = terrace::BlockCache::new(1 << 20);
    /// cache.clear();
    /// assert_eq!(cache.usage(), 0);
    /// ```
    pub fn clear(&self) {
        if let CacheBackend::BuiltIn(cache) = &self.backend {
            cache.clear();
        }
    }

    /// Returns the capacity in bytes, or `usize::MAX` for an [`ExternalBlockCache`].
    ///
    /// ```
    /// assert_eq!(terrace::BlockCache::new(1 << 20).capacity(), 1 << 20);
    /// ```
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the size of all cached blocks in bytes. Uncompressed blocks of mapped tables are
    /// read in place and not cached.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use terrace::{BlockCache, Db, Env, Options};
    /// let cache = BlockCache::new(1 << 20);
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let options = options.block_cache(Arc::clone(&cache));
    /// # let db = Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", [b'.'; 1000])?;
    /// db.flush()?;
    /// assert_eq!(cache.usage(), 0);
    /// db.get(b"CH/Bern")?; // decompresses a block of a table and caches it
    /// assert!(cache.usage() > 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn usage(&self) -> usize {
        match &self.backend {
            CacheBackend::BuiltIn(cache) => cache.total_charge(),
            CacheBackend::External(store) => store.usage(),
        }
    }

    /// Reserves `bytes` of the capacity for other memory, until [`BlockCache::unreserve`].
    pub(crate) fn reserve(&self, bytes: usize) {
        if let CacheBackend::BuiltIn(cache) = &self.backend {
            drop(cache.reserve(bytes));
        }
    }

    /// Releases a reservation of `bytes`.
    pub(crate) fn unreserve(&self, bytes: usize) {
        if let CacheBackend::BuiltIn(cache) = &self.backend {
            cache.unreserve(bytes);
        }
    }

    /// Reserves the part of the capacity that `reservation` returns, in place of all other
    /// reservations. Concurrent calls take effect in some order, each with its own evaluation.
    pub(crate) fn set_reservation(&self, reservation: impl FnOnce() -> usize) {
        if let CacheBackend::BuiltIn(cache) = &self.backend {
            drop(cache.set_reservation(reservation));
        }
    }

    /// Returns the part of the capacity that is available for blocks, in bytes.
    pub(crate) fn available_capacity(&self) -> usize {
        match &self.backend {
            CacheBackend::BuiltIn(cache) => cache.available_capacity(),
            CacheBackend::External(_) => self.capacity,
        }
    }

    /// Returns the cached blocks of a table with `count` blocks. `cache_id` identifies the open
    /// database, and `table_number` the table in it.
    pub(crate) fn table_blocks(&self, cache_id: u64, table_number: u64, count: usize) -> TableBlocks {
        match &self.backend {
            CacheBackend::BuiltIn(cache) => TableBlocks::BuiltIn(cache.allocate_slots(count)),
            CacheBackend::External(store) => {
                let cache_id = if mutant!(BlockCacheKeyNotUnique) { 0 } else { cache_id };
                TableBlocks::External { store: Arc::clone(store), cache_id, table_number }
            }
        }
    }
}

/// Cached blocks of one open table.
pub(crate) enum TableBlocks {
    BuiltIn(CacheSlots<Block>),
    External { store: Arc<dyn ExternalBlockCache>, cache_id: u64, table_number: u64 },
}

impl TableBlocks {
    /// Returns the block of index entry `index`, if it is cached. Only an external cache calls
    /// `offset`, which returns the offset of the block in its file.
    pub(crate) fn get(&self, index: usize, offset: impl FnOnce() -> Result<u64>) -> Result<Option<BlockRef>> {
        match self {
            TableBlocks::BuiltIn(slots) => Ok(slots.get(index).map(BlockRef::Hazard)),
            TableBlocks::External { store, cache_id, table_number } => {
                let block = store.get(&external_block_key(*cache_id, *table_number, offset()?));
                Ok(block.map(|block| BlockRef::Counted(block.0)))
            }
        }
    }

    /// Returns the size of the slots in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            TableBlocks::BuiltIn(slots) => slots.memory_usage(),
            TableBlocks::External { .. } => 0,
        }
    }

    /// Returns the block of index entry `index`, if it is in its slot.
    #[inline]
    pub(crate) fn get_cached(&self, index: usize) -> Option<BlockRef> {
        match self {
            TableBlocks::BuiltIn(slots) => slots.get(index).map(BlockRef::Hazard),
            TableBlocks::External { .. } => None,
        }
    }

    /// Returns true if the block of index entry `index` is in its slot. It may be evicted at any
    /// time.
    pub(crate) fn is_cached(&self, index: usize) -> bool {
        match self {
            TableBlocks::BuiltIn(slots) => slots.is_occupied(index),
            TableBlocks::External { .. } => false,
        }
    }

    /// Prefetches the slots from index entry `index` on, some of which the caller will access.
    #[inline]
    pub(crate) fn prefetch_slots(&self, index: usize) {
        if let TableBlocks::BuiltIn(slots) = self {
            slots.prefetch_slots(index);
        }
    }

    /// Prefetches the reference counts of the block of index entry `index`, for a caller that will
    /// clone the `Arc`.
    #[inline]
    pub(crate) fn prefetch_ref_counts(&self, index: usize) {
        if let TableBlocks::BuiltIn(slots) = self {
            slots.prefetch_ref_counts(index);
        }
    }

    /// Prefetches the start of the block of index entry `index`, if it is cached.
    pub(crate) fn prefetch_block_start(&self, index: usize) {
        if let TableBlocks::BuiltIn(slots) = self {
            slots.prefetch_start(index);
        }
    }

    /// Prefetches the end of the block of index entry `index`, if it is cached.
    pub(crate) fn prefetch_block_end(&self, index: usize) {
        if let TableBlocks::BuiltIn(slots) = self {
            slots.prefetch_end(index);
        }
    }

    /// Returns true if the cache supports [`TableBlocks::replace`].
    pub(crate) fn can_replace(&self) -> bool {
        matches!(self, TableBlocks::BuiltIn(_))
    }

    /// Replaces the cached block of index entry `index`, if it is still cached. Returns evicted
    /// blocks.
    pub(crate) fn replace(&self, index: usize, block: &Arc<Block>) -> Evicted<Block> {
        match self {
            TableBlocks::BuiltIn(slots) => slots.replace(index, block),
            TableBlocks::External { .. } => Evicted::EMPTY,
        }
    }

    /// Inserts a block and returns evicted blocks. An external cache returns none.
    pub(crate) fn insert(&self, index: usize, offset: u64, block: &Arc<Block>) -> Evicted<Block> {
        match self {
            TableBlocks::BuiltIn(slots) => slots.insert(index, block),
            TableBlocks::External { store, cache_id, table_number } => {
                store.insert(
                    &external_block_key(*cache_id, *table_number, offset),
                    CachedBlock(Arc::clone(block)),
                );
                Evicted::EMPTY
            }
        }
    }
}

/// Returns the key of a block in an external cache.
fn external_block_key(cache_id: u64, table_number: u64, offset: u64) -> [u8; 24] {
    let mut key = [0; 24];
    let parts = [cache_id, table_number, offset];
    for (bytes, part) in key.chunks_exact_mut(8).zip(parts) {
        bytes.copy_from_slice(&part.to_le_bytes());
    }
    key
}

/// Block that stays in memory as long as this reference.
pub(crate) enum BlockRef {
    /// Block in its slot. A hazard pointer protects it instead of a reference count, so that
    /// readers of one block do not compete for a cache line.
    Hazard(HazardGuard<Block>),
    Counted(Arc<Block>),
}

impl BlockRef {
    /// Returns shared ownership of the block.
    pub(crate) fn to_arc(&self) -> Arc<Block> {
        match self {
            BlockRef::Hazard(guard) => guard.to_arc(),
            BlockRef::Counted(block) => Arc::clone(block),
        }
    }

    /// Turns the reference into shared ownership of the block.
    pub(crate) fn into_arc(self) -> Arc<Block> {
        match self {
            BlockRef::Hazard(guard) => guard.to_arc(),
            BlockRef::Counted(block) => block,
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            BlockRef::Hazard(guard) => guard,
            BlockRef::Counted(block) => block,
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
    }
}
