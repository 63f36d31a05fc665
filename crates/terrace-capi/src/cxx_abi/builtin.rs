//! Built-in objects: the bytewise comparator, the Bloom filter policy, the block cache.

use std::ffi::c_int;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, FilterPolicy, bytewise};

use super::types::{CxxSlice, CxxString, run_or};
use crate::ffi::array_from_c;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_separator(start: CxxSlice<'_>, limit: CxxSlice<'_>, into: CxxString) {
    let mut key = start.as_slice().to_vec();
    bytewise().shortest_separator(&mut key, limit.as_slice());
    // Without memory the caller keeps the longer key, which is correct, too.
    let _ = into.assign(&key);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bytewise_successor(key: CxxSlice<'_>, into: CxxString) {
    let mut key = key.as_slice().to_vec();
    bytewise().short_successor(&mut key);
    // Without memory the caller keeps the longer key, which is correct, too.
    let _ = into.assign(&key);
}

/// Stores the Bloom filter of `keys` in `into`. `bits` are the bits for each key.
///
/// # Safety
///
/// The contract; `keys` points to `count` keys.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_bloom_create(
    bits: c_int,
    keys: *const CxxSlice<'_>,
    count: c_int,
    into: CxxString,
) {
    // SAFETY: the caller passes null, or an array of `count` keys, which live through the call.
    let keys = unsafe { array_from_c(keys, usize::try_from(count).unwrap_or(0)) };
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    let mut filter = Vec::new();
    run_or((), || BloomFilterPolicy::new(usize::try_from(bits).unwrap_or(0)).create(&keys, &mut filter));
    // Always true: a filter is appended.
    let _ = into.assign(&filter);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_bloom_match(key: CxxSlice<'_>, filter: CxxSlice<'_>) -> bool {
    let key = key.as_slice();
    let filter = filter.as_slice();
    // The filter itself stores the number of probes.
    run_or(true, || BloomFilterPolicy::new(0).may_match(key, filter))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cache(capacity: usize) -> *const BlockCache {
    Arc::into_raw(BlockCache::new(capacity))
}

/// Drops the reference of the C++ object. Databases keep theirs.
///
/// # Safety
///
/// The contract; `cache` is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_cache_drop(cache: *const BlockCache) {
    // SAFETY: `cache` comes from `Arc::into_raw` in `terrace_cxx_cache`, and the caller gives up
    // its only reference.
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
