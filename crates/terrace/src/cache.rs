//! The block cache: decompressed blocks, shared between threads and, if wanted, between databases.

mod places;

use std::fmt;
use std::ops::Deref;

use terrace_format::block::Block;
use terrace_sync::mutant;

use places::{Gone, Places};
pub(crate) use places::{Kept, Store};

use crate::error::Result;
use crate::sync::{Arc, Held, Ordering};

/// A number that no other call in this process returns: no two openings share one, so that a table number that is used
/// again in a database that was destroyed and created anew can't find the old blocks.
pub(crate) fn instance() -> u64 {
    // Not of `sync`: it lasts as long as the process, and no thread waits for another's number.
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A cache of decompressed blocks with a limit in bytes.
///
/// May be shared by any number of databases and threads. Evicts by S3-FIFO (Yang et al., SOSP 2023), so that a scan
/// does not displace what point reads use. A block's key is its place in an open table: a hit needs no search.
pub struct BlockCache {
    blocks: Blocks,
    capacity: usize,
}

/// What keeps a block here takes so many bytes: itself, its counts, its entry in a queue, and what the allocator adds.
const AROUND: usize = size_of::<Block>() + 64;

enum Blocks {
    Here(Arc<Store<Block>>),
    Elsewhere(Arc<dyn BlockStore>),
}

impl Kept for Block {
    fn weight(&self) -> usize {
        self.size() + AROUND
    }

    fn start(&self) -> *const u8 {
        Block::start(self)
    }
}

/// A cache of the caller's own, for [`BlockCache::over`]. Every method may be called from any thread at any time.
///
/// What it evicts, and when, is its own business: a block that it has lost is read again.
pub trait BlockStore: Send + Sync {
    /// The block that was inserted under `key`, if it is still there.
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock>;

    /// Keeps `block` under `key`, which no other block of this process has.
    fn insert(&self, key: &[u8; 24], block: CachedBlock);

    /// The bytes in use now.
    fn usage(&self) -> usize;
}

/// A decompressed block in a [`BlockStore`]. Cheap to clone: the bytes are shared.
#[derive(Clone)]
pub struct CachedBlock(Arc<Block>);

impl CachedBlock {
    /// The bytes it takes.
    pub fn size(&self) -> usize {
        self.0.size()
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
        let blocks = Blocks::Here(Store::new(capacity));
        Arc::new(BlockCache { blocks, capacity })
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
    pub fn over(store: Arc<dyn BlockStore>) -> Arc<BlockCache> {
        Arc::new(BlockCache { blocks: Blocks::Elsewhere(store), capacity: usize::MAX })
    }

    /// Forgets every block that it keeps itself.
    ///
    /// ```
    /// let cache = terrace::BlockCache::new(1 << 20);
    /// cache.clear();
    /// assert_eq!(cache.usage(), 0);
    /// ```
    pub fn clear(&self) {
        if let Blocks::Here(blocks) = &self.blocks {
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
        match &self.blocks {
            Blocks::Here(blocks) => blocks.weight(),
            Blocks::Elsewhere(store) => store.usage(),
        }
    }

    /// Gives so many bytes of its room to something else, until [`BlockCache::unreserve`].
    pub(crate) fn reserve(&self, bytes: usize) {
        if let Blocks::Here(blocks) = &self.blocks {
            drop(blocks.reserve(bytes));
        }
    }

    /// Takes back what was given to something else.
    pub(crate) fn unreserve(&self, bytes: usize) {
        if let Blocks::Here(blocks) = &self.blocks {
            blocks.unreserve(bytes);
        }
    }

    /// What is left of the limit for blocks, in bytes.
    pub(crate) fn room(&self) -> usize {
        match &self.blocks {
            Blocks::Here(blocks) => blocks.room(),
            Blocks::Elsewhere(_) => self.capacity,
        }
    }

    /// Where the blocks of a table are kept, of which there are `count`: table `number` of the opening `instance`.
    pub(crate) fn table(&self, instance: u64, number: u64, count: usize) -> TableBlocks {
        match &self.blocks {
            Blocks::Here(store) => TableBlocks::Here(store.places(count)),
            Blocks::Elsewhere(store) => {
                let instance = if mutant!(BlockCacheKeyNotUnique) { 0 } else { instance };
                TableBlocks::Elsewhere { store: Arc::clone(store), instance, number }
            }
        }
    }
}

/// The blocks of one open table that are at hand.
pub(crate) enum TableBlocks {
    Here(Places<Block>),
    Elsewhere { store: Arc<dyn BlockStore>, instance: u64, number: u64 },
}

impl TableBlocks {
    /// The block of index entry `at`, which begins at `offset` of the file; that is not asked for a block in its place.
    pub(crate) fn get(&self, at: usize, offset: impl FnOnce() -> Result<u64>) -> Result<Option<BlockRef>> {
        match self {
            TableBlocks::Here(places) => Ok(places.get(at).map(BlockRef::Guarded)),
            TableBlocks::Elsewhere { store, instance, number } => {
                let block = store.get(&block_key(*instance, *number, offset()?));
                Ok(block.map(|block| BlockRef::Shared(block.0)))
            }
        }
    }

    /// The memory that the places take themselves, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            TableBlocks::Here(places) => places.bytes(),
            TableBlocks::Elsewhere { .. } => 0,
        }
    }

    /// The block of index entry `at`, if it is kept in its place.
    #[inline]
    pub(crate) fn at_hand(&self, at: usize) -> Option<BlockRef> {
        match self {
            TableBlocks::Here(places) => places.get(at).map(BlockRef::Guarded),
            TableBlocks::Elsewhere { .. } => None,
        }
    }

    /// True if the block of index entry `at` is kept in its place, or was just now.
    pub(crate) fn is_at_hand(&self, at: usize) -> bool {
        match self {
            TableBlocks::Here(places) => places.is_filled(at),
            TableBlocks::Elsewhere { .. } => false,
        }
    }

    /// Has the places of the index entries from `at` on fetched, a few of which will be looked at soon.
    #[inline]
    pub(crate) fn fetch_places(&self, at: usize) {
        if let TableBlocks::Here(places) = self {
            places.fetch(at);
        }
    }

    /// Has the counts of the block of index entry `at` fetched, if it is there, for who is going to share it.
    #[inline]
    pub(crate) fn fetch_counts(&self, at: usize) {
        if let TableBlocks::Here(places) = self {
            places.fetch_counts(at);
        }
    }

    /// Has the beginning of the block of index entry `at` fetched, which will be looked at soon, if it is there.
    pub(crate) fn fetch_start(&self, at: usize) {
        if let TableBlocks::Here(places) = self {
            places.fetch_start(at);
        }
    }

    /// As [`TableBlocks::fetch_start`], its end.
    pub(crate) fn fetch_end(&self, at: usize) {
        if let TableBlocks::Here(places) = self {
            places.fetch_end(at);
        }
    }

    /// True if a block that is kept may be replaced.
    pub(crate) fn may_replace(&self) -> bool {
        matches!(self, TableBlocks::Here(_))
    }

    /// Keeps a block instead of that of index entry `at`, if that is still there. Gives those that had to go for it.
    pub(crate) fn replace(&self, at: usize, block: &Arc<Block>) -> Gone<Block> {
        match self {
            TableBlocks::Here(places) => places.replace(at, block),
            TableBlocks::Elsewhere { .. } => Gone::NONE,
        }
    }

    /// Keeps a block that was read, and gives those that had to go for it, if they were kept here.
    pub(crate) fn insert(&self, at: usize, offset: u64, block: &Arc<Block>) -> Gone<Block> {
        match self {
            TableBlocks::Here(places) => places.fill(at, block),
            TableBlocks::Elsewhere { store, instance, number } => {
                store.insert(&block_key(*instance, *number, offset), CachedBlock(Arc::clone(block)));
                Gone::NONE
            }
        }
    }
}

/// Which block of which table of which opening, for a cache that knows only bytes.
fn block_key(instance: u64, number: u64, offset: u64) -> [u8; 24] {
    let mut key = [0; 24];
    let parts = [instance, number, offset];
    key.chunks_exact_mut(8).zip(parts).for_each(|(at, part)| at.copy_from_slice(&part.to_le_bytes()));
    key
}

/// A block that stays in memory as long as this does.
pub(crate) enum BlockRef {
    /// In its place of the cache: nothing was counted, so that readers of one block do not meet.
    Guarded(Held<Block>),
    Shared(Arc<Block>),
}

impl BlockRef {
    /// To be kept, beside this.
    pub(crate) fn share(&self) -> Arc<Block> {
        match self {
            BlockRef::Guarded(found) => found.share(),
            BlockRef::Shared(block) => Arc::clone(block),
        }
    }

    /// To be kept.
    pub(crate) fn into_shared(self) -> Arc<Block> {
        match self {
            BlockRef::Guarded(found) => found.share(),
            BlockRef::Shared(block) => block,
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            BlockRef::Guarded(found) => found,
            BlockRef::Shared(block) => block,
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
    }
}
