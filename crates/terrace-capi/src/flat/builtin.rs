//! What the library's own classes do: the bytewise order, Bloom filters, the block cache.

use std::ffi::c_int;
use std::sync::Arc;

use terrace::{BlockCache, Bloom, FilterPolicy, bytewise};

use super::abi::{Bytes, Text, quietly};

/// # Safety
///
/// The contract; as for every function here.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bytewise_separator(start: Bytes, limit: Bytes, into: Text) {
    // SAFETY: the contract.
    let (mut key, limit) = unsafe { (start.get().to_vec(), limit.get()) };
    bytewise().shortest_separator(&mut key, limit);
    into.fill(&key);
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bytewise_successor(key: Bytes, into: Text) {
    // SAFETY: the contract.
    let mut key = unsafe { key.get().to_vec() };
    bytewise().short_successor(&mut key);
    into.fill(&key);
}

/// # Safety
///
/// The contract; there are `count` keys.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bloom_create(bits: c_int, keys: *const Bytes, count: c_int, into: Text) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the contract: `i` is below `count`.
    let key = |i| unsafe { (*keys.add(i)).get() };
    let keys: Vec<&[u8]> = (0..count).map(key).collect();
    let mut filter = Vec::new();
    quietly((), || Bloom::new(usize::try_from(bits).unwrap_or(0)).create(&keys, &mut filter));
    into.fill(&filter);
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bloom_match(key: Bytes, filter: Bytes) -> bool {
    // SAFETY: the contract.
    let (key, filter) = unsafe { (key.get(), filter.get()) };
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
