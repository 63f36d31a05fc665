//! A block cache of an application. It knows blocks by their keys, and evicts all blocks at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use terrace::{BlockCache, CachedBlock, ExternalBlockCache};

pub(super) struct ExternalCache {
    capacity: usize,
    blocks: Mutex<HashMap<[u8; 24], CachedBlock>>,
}

impl ExternalCache {
    pub(super) fn new_block_cache(capacity: usize) -> Arc<BlockCache> {
        BlockCache::with_store(Arc::new(ExternalCache { capacity, blocks: Mutex::default() }))
    }
}

impl ExternalBlockCache for ExternalCache {
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn insert(&self, key: &[u8; 24], block: CachedBlock) {
        if self.usage() + block.size() > self.capacity {
            self.blocks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(*key, block);
    }

    fn usage(&self) -> usize {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.values().map(CachedBlock::size).sum()
    }
}
