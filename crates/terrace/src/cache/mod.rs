//! The block cache: decompressed blocks, shared between threads and, if wanted, between databases.

mod s3_fifo;

use std::fmt;
use std::ops::Deref;

use terrace_format::block::Block;
use terrace_sync::mutant;

use s3_fifo::{CacheSlots, Evicted};
pub(crate) use s3_fifo::{CacheValue, S3FifoCache};

use crate::error::Result;
use crate::sync::{Arc, HazardGuard, Ordering};

/// A number that no other call in this process returns: no two openings share one, so that a table number that is used
/// again in a database that was destroyed and created anew can't find the old blocks.
pub(crate) fn new_cache_id() -> u64 {
    // Not of `sync`: it lasts as long as the process, and no thread waits for another's number.
    use std::sync::atomic::AtomicU64;
    static NEXT_CACHE_ID: AtomicU64 = AtomicU64::new(1);
    NEXT_CACHE_ID.fetch_add(1, Ordering::Relaxed)
}

/// A cache of decompressed blocks with a limit in bytes.
///
/// May be shared by any number of databases and threads. Evicts by S3-FIFO (Yang et al., SOSP 2023), so that a scan
/// does not displace what point reads use. A block's key is its place in an open table: a hit needs no search.
pub struct BlockCache {
    backend: CacheBackend,
    capacity: usize,
}

/// What keeps a block here takes so many bytes: itself, its counts, its entry in a queue, and what the allocator adds.
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

/// A cache of the caller's own, for [`BlockCache::with_store`]. Every method may be called from any thread at any time.
///
/// What it evicts, and when, is its own business: a block that it has lost is read again.
pub trait ExternalBlockCache: Send + Sync {
    /// The block that was inserted under `key`, if it is still there.
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock>;

    /// Keeps `block` under `key`, which no other block of this process has.
    fn insert(&self, key: &[u8; 24], block: CachedBlock);

    /// The bytes in use now.
    fn usage(&self) -> usize;
}

/// A decompressed block in a [`ExternalBlockCache`]. Cheap to clone: the bytes are shared.
#[derive(Clone)]
pub struct CachedBlock(Arc<Block>);

impl CachedBlock {
    /// The bytes it takes.
    pub fn size(&self) -> usize {
        self.0.memory_usage()
    }
}

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
        let blocks = CacheBackend::BuiltIn(S3FifoCache::new(capacity));
        Arc::new(BlockCache { backend: blocks, capacity })
    }

    /// A cache that keeps its blocks in `store`.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::sync::{Arc, Mutex};
    /// use terrace::{BlockCache, BlockStore, CachedBlock, Options};
    ///
    /// /// Forgets nothing.
    /// #[derive(Default)]
    /// struct Hoard(Mutex<HashMap<[u8; 24], CachedBlock>>);
    ///
    /// impl BlockStore for Hoard {
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
    /// let cache = BlockCache::over(Arc::new(Hoard::default()));
    /// let options = Options { block_cache: Some(cache), ..Options::default() };
    /// ```
    pub fn with_store(store: Arc<dyn ExternalBlockCache>) -> Arc<BlockCache> {
        Arc::new(BlockCache { backend: CacheBackend::External(store), capacity: usize::MAX })
    }

    /// Forgets every block that it keeps itself.
    ///
    /// ```
    /// let cache = terrace::BlockCache::new(1 << 20);
    /// cache.clear();
    /// assert_eq!(cache.usage(), 0);
    /// ```
    pub fn clear(&self) {
        if let CacheBackend::BuiltIn(blocks) = &self.backend {
            blocks.clear();
        }
    }

    /// The limit in bytes; the greatest number if somebody else keeps the blocks.
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
        match &self.backend {
            CacheBackend::BuiltIn(blocks) => blocks.total_charge(),
            CacheBackend::External(store) => store.usage(),
        }
    }

    /// Gives so many bytes of its room to something else, until [`BlockCache::unreserve`].
    pub(crate) fn reserve(&self, bytes: usize) {
        if let CacheBackend::BuiltIn(blocks) = &self.backend {
            drop(blocks.reserve(bytes));
        }
    }

    /// Takes back what was given to something else.
    pub(crate) fn unreserve(&self, bytes: usize) {
        if let CacheBackend::BuiltIn(blocks) = &self.backend {
            blocks.unreserve(bytes);
        }
    }

    /// What is left of the limit for blocks, in bytes.
    pub(crate) fn available_capacity(&self) -> usize {
        match &self.backend {
            CacheBackend::BuiltIn(blocks) => blocks.available_capacity(),
            CacheBackend::External(_) => self.capacity,
        }
    }

    /// Where the blocks of a table are kept, of which there are `count`: table `number` of the opening `instance`.
    pub(crate) fn table_blocks(&self, instance: u64, number: u64, count: usize) -> TableBlocks {
        match &self.backend {
            CacheBackend::BuiltIn(store) => TableBlocks::BuiltIn(store.allocate_slots(count)),
            CacheBackend::External(store) => {
                let instance = if mutant!(BlockCacheKeyNotUnique) { 0 } else { instance };
                TableBlocks::External { store: Arc::clone(store), cache_id: instance, table_number: number }
            }
        }
    }
}

/// The blocks of one open table that are at hand.
pub(crate) enum TableBlocks {
    BuiltIn(CacheSlots<Block>),
    External { store: Arc<dyn ExternalBlockCache>, cache_id: u64, table_number: u64 },
}

impl TableBlocks {
    /// The block of index entry `at`, which begins at `offset` of the file; that is not asked for a block in its place.
    pub(crate) fn get(&self, at: usize, offset: impl FnOnce() -> Result<u64>) -> Result<Option<BlockRef>> {
        match self {
            TableBlocks::BuiltIn(places) => Ok(places.get(at).map(BlockRef::Hazard)),
            TableBlocks::External { store, cache_id: instance, table_number: number } => {
                let block = store.get(&external_block_key(*instance, *number, offset()?));
                Ok(block.map(|block| BlockRef::Counted(block.0)))
            }
        }
    }

    /// The memory that the places take themselves, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            TableBlocks::BuiltIn(places) => places.memory_usage(),
            TableBlocks::External { .. } => 0,
        }
    }

    /// The block of index entry `at`, if it is kept in its place.
    #[inline]
    pub(crate) fn get_cached(&self, at: usize) -> Option<BlockRef> {
        match self {
            TableBlocks::BuiltIn(places) => places.get(at).map(BlockRef::Hazard),
            TableBlocks::External { .. } => None,
        }
    }

    /// True if the block of index entry `at` is kept in its place, or was just now.
    pub(crate) fn is_cached(&self, at: usize) -> bool {
        match self {
            TableBlocks::BuiltIn(places) => places.is_occupied(at),
            TableBlocks::External { .. } => false,
        }
    }

    /// Has the places of the index entries from `at` on fetched, a few of which will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_slots(&self, at: usize) {
        if let TableBlocks::BuiltIn(places) = self {
            places.prefetch_slots(at);
        }
    }

    /// Has the counts of the block of index entry `at` fetched, if it is there, for who is going to share it.
    #[inline]
    pub(crate) fn prefetch_ref_counts(&self, at: usize) {
        if let TableBlocks::BuiltIn(places) = self {
            places.prefetch_ref_counts(at);
        }
    }

    /// Has the beginning of the block of index entry `at` fetched, which will be looked at soon, if it is there.
    pub(crate) fn prefetch_block_start(&self, at: usize) {
        if let TableBlocks::BuiltIn(places) = self {
            places.prefetch_start(at);
        }
    }

    /// As [`TableBlocks::prefetch_block_start`], its end.
    pub(crate) fn prefetch_block_end(&self, at: usize) {
        if let TableBlocks::BuiltIn(places) = self {
            places.prefetch_end(at);
        }
    }

    /// True if a block that is kept may be replaced.
    pub(crate) fn can_replace(&self) -> bool {
        matches!(self, TableBlocks::BuiltIn(_))
    }

    /// Keeps a block instead of that of index entry `at`, if that is still there. Gives those that had to go for it.
    pub(crate) fn replace(&self, at: usize, block: &Arc<Block>) -> Evicted<Block> {
        match self {
            TableBlocks::BuiltIn(places) => places.replace(at, block),
            TableBlocks::External { .. } => Evicted::EMPTY,
        }
    }

    /// Keeps a block that was read, and gives those that had to go for it, if they were kept here.
    pub(crate) fn insert(&self, at: usize, offset: u64, block: &Arc<Block>) -> Evicted<Block> {
        match self {
            TableBlocks::BuiltIn(places) => places.insert(at, block),
            TableBlocks::External { store, cache_id: instance, table_number: number } => {
                store.insert(&external_block_key(*instance, *number, offset), CachedBlock(Arc::clone(block)));
                Evicted::EMPTY
            }
        }
    }
}

/// Which block of which table of which opening, for a cache that knows only bytes.
fn external_block_key(instance: u64, number: u64, offset: u64) -> [u8; 24] {
    let mut key = [0; 24];
    let parts = [instance, number, offset];
    key.chunks_exact_mut(8).zip(parts).for_each(|(at, part)| at.copy_from_slice(&part.to_le_bytes()));
    key
}

/// A block that stays in memory as long as this does.
pub(crate) enum BlockRef {
    /// In its place of the cache: nothing was counted, so that readers of one block do not meet.
    Hazard(HazardGuard<Block>),
    Counted(Arc<Block>),
}

impl BlockRef {
    /// To be kept, beside this.
    pub(crate) fn to_arc(&self) -> Arc<Block> {
        match self {
            BlockRef::Hazard(found) => found.to_arc(),
            BlockRef::Counted(block) => Arc::clone(block),
        }
    }

    /// To be kept.
    pub(crate) fn into_arc(self) -> Arc<Block> {
        match self {
            BlockRef::Hazard(found) => found.to_arc(),
            BlockRef::Counted(block) => block,
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            BlockRef::Hazard(found) => found,
            BlockRef::Counted(block) => block,
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
    }
}
