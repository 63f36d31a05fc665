//! What the library's own classes do: the bytewise order, Bloom filters, the block cache.

use std::ffi::c_int;
use std::sync::Arc;

use terrace::{BlockCache, Bloom, FilterPolicy, bytewise};

use super::abi::{Bytes, Text, quietly};
use crate::border::items;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_separator(start: Bytes<'_>, limit: Bytes<'_>, into: Text) {
    let (mut key, limit) = (start.get().to_vec(), limit.get());
    bytewise().shortest_separator(&mut key, limit);
    into.fill(&key);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_successor(key: Bytes<'_>, into: Text) {
    let mut key = key.get().to_vec();
    bytewise().short_successor(&mut key);
    into.fill(&key);
}

/// # Safety
///
/// The contract; there are `count` keys.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bloom_create(bits: c_int, keys: *const Bytes<'_>, count: c_int, into: Text) {
    // SAFETY: the contract.
    let keys = unsafe { items(keys, usize::try_from(count).unwrap_or(0)) };
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.get()).collect();
    let mut filter = Vec::new();
    quietly((), || Bloom::new(usize::try_from(bits).unwrap_or(0)).create(&keys, &mut filter));
    into.fill(&filter);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bloom_match(key: Bytes<'_>, filter: Bytes<'_>) -> bool {
    let (key, filter) = (key.get(), filter.get());
    // How many probes there are stands in the filter.
    quietly(true, || Bloom::new(0).may_match(key, filter))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache(capacity: usize) -> *const BlockCache {
    Arc::into_raw(BlockCache::new(capacity))
}

/// Databases that have the cache keep it.
///
/// # Safety
///
/// The contract; `cache` is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_cache_drop(cache: *const BlockCache) {
    // SAFETY: the contract: of `terrace_cxx_cache`.
    quietly((), || drop(unsafe { Arc::from_raw(cache) }));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache_clear(cache: &BlockCache) {
    quietly((), || cache.clear());
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache_usage(cache: &BlockCache) -> usize {
    quietly(0, || cache.usage())
}
