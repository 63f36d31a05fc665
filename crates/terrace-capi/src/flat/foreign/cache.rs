//! A program's cache, which keeps the blocks of its databases among whatever else is in it.
//!
//! The program's charges and evictions hold. A block that is in use while it is evicted lives on until the reader is done.

use std::ffi::c_void;
use std::sync::Arc;

use terrace::{BlockStore, CachedBlock};

use super::{Bytes, Foreign};

#[repr(C)]
pub(in super::super) struct CacheCalls {
    insert: unsafe extern "C" fn(*mut c_void, key: Bytes<'_>, block: Box<CachedBlock>, charge: usize),
    /// A block of the caller's own, of [`terrace_cxx_block_share`]; null if there is none.
    lookup: unsafe extern "C" fn(*mut c_void, key: Bytes<'_>) -> Option<Box<CachedBlock>>,
    charge: unsafe extern "C" fn(*mut c_void) -> usize,
}

impl Foreign<CacheCalls> {
    /// As what the engine expects.
    pub(in super::super) fn store(self) -> Arc<dyn BlockStore> {
        Arc::new(ForeignCache(self))
    }
}

struct ForeignCache(Foreign<CacheCalls>);

impl BlockStore for ForeignCache {
    fn get(&self, key: &[u8; 24]) -> Option<CachedBlock> {
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.0.calls.lookup)(self.0.object, key.as_slice().into()) }.map(|block| *block)
    }

    fn insert(&self, key: &[u8; 24], block: CachedBlock) {
        let charge = block.size();
        let block = Box::new(block);
        // SAFETY: the program's promise that the object is alive; the cache's deleter gives the block back.
        unsafe { (self.0.calls.insert)(self.0.object, key.as_slice().into(), block, charge) };
    }

    fn usage(&self) -> usize {
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.0.calls.charge)(self.0.object) }
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
