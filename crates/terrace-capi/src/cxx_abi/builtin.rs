//! What the library's own classes do: the bytewise order, Bloom filters, the block cache.

use std::ffi::c_int;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, FilterPolicy, bytewise};

use super::types::{CxxSlice, CxxString, run_or};
use crate::ffi::array_from_c;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_separator(start: CxxSlice<'_>, limit: CxxSlice<'_>, into: CxxString) {
    let (mut key, limit) = (start.as_slice().to_vec(), limit.as_slice());
    bytewise().shortest_separator(&mut key, limit);
    into.assign(&key);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_successor(key: CxxSlice<'_>, into: CxxString) {
    let mut key = key.as_slice().to_vec();
    bytewise().short_successor(&mut key);
    into.assign(&key);
}

/// # Safety
///
/// The contract; there are `count` keys.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bloom_create(
    bits: c_int,
    keys: *const CxxSlice<'_>,
    count: c_int,
    into: CxxString,
) {
    // SAFETY: the caller passes null, or an array `keys` of the given count that lives through the
    // call.
    let keys = unsafe { array_from_c(keys, usize::try_from(count).unwrap_or(0)) };
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    let mut filter = Vec::new();
    run_or((), || BloomFilterPolicy::new(usize::try_from(bits).unwrap_or(0)).create(&keys, &mut filter));
    into.assign(&filter);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bloom_match(key: CxxSlice<'_>, filter: CxxSlice<'_>) -> bool {
    let (key, filter) = (key.as_slice(), filter.as_slice());
    // How many probes there are stands in the filter.
    run_or(true, || BloomFilterPolicy::new(0).may_match(key, filter))
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
    run_or((), || drop(unsafe { Arc::from_raw(cache) }));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache_clear(cache: &BlockCache) {
    run_or((), || cache.clear());
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache_usage(cache: &BlockCache) -> usize {
    run_or(0, || cache.usage())
}
