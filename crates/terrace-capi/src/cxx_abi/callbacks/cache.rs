//! A program's cache, which keeps the blocks of its databases among whatever else is in it.
//!
//! The program's charges and evictions hold. A block that is in use while it is evicted lives on until the reader is done.

use std::ffi::c_void;
use std::sync::Arc;

use terrace::{CachedBlock, ExternalBlockCache};

use super::{CxxSlice, UserObject};

#[repr(C)]
pub(in super::super) struct CacheCallbacks {
    insert: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>, block: Box<CachedBlock>, charge: usize),
    /// A block of the caller's own, of [`terrace_cxx_block_share`]; null if there is none.
    lookup: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>) -> Option<Box<CachedBlock>>,
    charge: unsafe extern "C" fn(*mut c_void) -> usize,
}

impl UserObject<CacheCallbacks> {
    /// As what the engine expects.
    pub(in super::super) fn into_external_cache(self) -> Arc<dyn ExternalBlockCache> {
        Arc::new(UserCache(self))
    }
}

struct UserCache(UserObject<CacheCallbacks>);

impl ExternalBlockCache for UserCache {
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock> {
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.0.callbacks.lookup)(self.0.object, key.as_slice().into()) }.map(|block| *block)
    }

    fn insert(&self, key: &[u8; 24], block: CachedBlock) {
        let charge = block.size();
        let block = Box::new(block);
        // SAFETY: the program's promise that the object is alive; the cache's deleter gives the block back.
        unsafe { (self.0.callbacks.insert)(self.0.object, key.as_slice().into(), block, charge) };
    }

    fn usage(&self) -> usize {
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.0.callbacks.charge)(self.0.object) }
    }
}

/// Another hold on a block that a cache keeps.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_block_share(block: &CachedBlock) -> Box<CachedBlock> {
    Box::new(block.clone())
}

/// Gives up a block: the deleter of a cache.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_block_drop(block: Box<CachedBlock>) {
    drop(block);
}
