//! `leveldb_cache_t`: a block cache, which several databases may share.

use std::sync::Arc;

use terrace::BlockCache;

use crate::ffi::run_or_default;

pub(super) struct CacheHandle(pub(super) Arc<BlockCache>);

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<CacheHandle> {
    Box::new(CacheHandle(BlockCache::new(capacity)))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Option<Box<CacheHandle>>) {
    run_or_default(|| drop(cache));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cache_usage(cache: Option<&CacheHandle>) -> usize {
    run_or_default(|| cache.map_or(0, |cache| cache.0.usage()))
}
