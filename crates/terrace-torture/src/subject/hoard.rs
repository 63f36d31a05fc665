//! A cache of somebody else's: it knows blocks by their keys only, and forgets all of them at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use terrace::{BlockCache, BlockStore, CachedBlock};

pub(super) struct Hoard {
    capacity: usize,
    blocks: Mutex<HashMap<[u8; 24], CachedBlock>>,
}

impl Hoard {
    pub(super) fn cache(capacity: usize) -> Arc<BlockCache> {
        BlockCache::over(Arc::new(Hoard { capacity, blocks: Mutex::default() }))
    }
}

impl BlockStore for Hoard {
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
