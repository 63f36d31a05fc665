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

impl BlockKey {
    /// The key for a cache that knows only bytes.
    fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let parts = [self.instance, self.table, self.offset];
        bytes.chunks_exact_mut(8).zip(parts).for_each(|(at, part)| at.copy_from_slice(&part.to_le_bytes()));
        bytes
    }
}

/// A cache of decompressed blocks with a limit in bytes.
///
/// May be shared by any number of databases and threads. Evicts by S3-FIFO (Yang et al., SOSP 2023), so that a scan
/// does not displace what point reads use.
pub struct BlockCache {
    blocks: Blocks,
    capacity: usize,
}

enum Blocks {
    Here(Cache<BlockKey, Arc<Block>, Bytes>),
    Elsewhere(Arc<dyn BlockStore>),
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
        let blocks = Blocks::Here(Cache::with_weighter(items, capacity as u64, Bytes));
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
            Blocks::Here(blocks) => blocks.weight() as usize,
            Blocks::Elsewhere(store) => store.usage(),
        }
    }

    pub(crate) fn get(&self, key: &BlockKey) -> Option<Arc<Block>> {
        match &self.blocks {
            Blocks::Here(blocks) => blocks.get(key),
            Blocks::Elsewhere(store) => store.get(&key.bytes()).map(|block| block.0),
        }
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Arc<Block>) {
        match &self.blocks {
            Blocks::Here(blocks) => blocks.insert(key, block),
            Blocks::Elsewhere(store) => store.insert(&key.bytes(), CachedBlock(block)),
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.usage(), self.capacity)
    }
}
