//! A cache of the program that holds blocks of its databases among other entries.
//!
//! The program's cache decides about charges and evictions. An evicted block lives until its last
//! reader drops it.

use std::ffi::c_void;
use std::sync::Arc;

use terrace::{CachedBlock, ExternalBlockCache};

use super::{CxxSlice, UserObject};

#[repr(C)]
pub(in super::super) struct CacheCallbacks {
    insert: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>, block: Box<CachedBlock>, charge: usize),
    /// Returns a reference from [`terrace_cxx_block_share`]; null if the block is not cached.
    lookup: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>) -> Option<Box<CachedBlock>>,
    charge: unsafe extern "C" fn(*mut c_void) -> usize,
}

impl UserObject<CacheCallbacks> {
    /// Converts the object to a block cache of the engine.
    pub(in super::super) fn into_external_cache(self) -> Arc<dyn ExternalBlockCache> {
        Arc::new(UserCache(self))
    }
}

struct UserCache(UserObject<CacheCallbacks>);

impl ExternalBlockCache for UserCache {
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock> {
        // SAFETY: the program keeps the cache alive while a database uses it.
        unsafe { (self.0.callbacks.lookup)(self.0.object, key.as_slice().into()) }.map(|block| *block)
    }

    fn insert(&self, key: &[u8; 24], block: CachedBlock) {
        let charge = block.size();
        let block = Box::new(block);
        // SAFETY: the program keeps the cache alive; the deleter of the entry drops the block.
        unsafe { (self.0.callbacks.insert)(self.0.object, key.as_slice().into(), block, charge) };
    }

    fn usage(&self) -> usize {
        // SAFETY: the program keeps the cache alive while a database uses it.
        unsafe { (self.0.callbacks.charge)(self.0.object) }
    }
}

/// Returns another reference to a cached block.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_block_share(block: &CachedBlock) -> Box<CachedBlock> {
    Box::new(block.clone())
}

/// Drops a reference to a block. This is the deleter of the cache entries.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_block_drop(block: Box<CachedBlock>) {
    drop(block);
}
