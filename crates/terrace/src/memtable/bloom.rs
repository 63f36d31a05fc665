//! Bloom filter of the keys of a memtable. Each lookup reads one word.
//!
//! ```text
//!   hash(key)    word index (high half) | ... | bit | bit | bit | bit      six bits each
//! ```
//!
//! Without the filter, a lookup of a key that only tables hold would search the tree, with a cache
//! miss at each level. The filter costs one miss. All bits of a key lie in one word, so that an
//! insert changes one cache line. The price is a higher false positive rate than that of a filter
//! with independent bits (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
//! Filters", 2007).
//!
//! The operations on bits are Relaxed. A writer sets the bits of a key before it publishes the
//! sequence number (Release). A reader that looks for the key learned the sequence number by an
//! Acquire load.

use terrace_sync::mutant;

use super::insert_mode::InsertMode;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of a memtable for each byte of its filter: the filter adds 1.6 % of memory.
const TREE_BYTES_PER_BLOOM_BYTE: usize = 64;
/// Maximum size of a filter in bytes.
const BLOOM_BYTES_MAX: usize = 8 << 20;

pub(super) struct MemtableBloom {
    /// Bits of the filter. The number of words is a power of two.
    words: Box<[AtomicU64]>,
}

/// Bits of a key in a filter.
pub(super) struct BloomBits<'a> {
    word: &'a AtomicU64,
    bits: u64,
}

impl BloomBits<'_> {
    /// Adds the key to the filter.
    #[inline]
    pub(super) fn set(&self, mode: InsertMode) {
        let BloomBits { word, bits } = *self;
        // A store takes the cache line from all other processors, a load does not.
        if word.load(Ordering::Relaxed) & bits != bits {
            match mode {
                InsertMode::Concurrent => drop(word.fetch_or(bits, Ordering::Relaxed)),
                InsertMode::Exclusive => word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed),
            }
        }
    }
}

impl MemtableBloom {
    /// Creates the filter of a memtable of about `memtable_bytes` bytes.
    pub(super) fn new(memtable_bytes: usize) -> MemtableBloom {
        let bytes = (memtable_bytes / TREE_BYTES_PER_BLOOM_BYTE).min(BLOOM_BYTES_MAX);
        let words = (bytes / size_of::<u64>()).next_power_of_two();
        MemtableBloom { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the size of the filter in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Returns the bits of `user_key`, which a writer sets later, and prefetches their word.
    #[inline]
    pub(super) fn prefetch_bits(&self, user_key: &[u8]) -> BloomBits<'_> {
        let (word, bits) = self.probe(user_key);
        terrace_env::prefetch(word, size_of::<u64>());
        let is_omitted = mutant!(MemtableBloomOmitsShortKeys) && user_key.len() < 8;
        BloomBits { word, bits: if is_omitted { 0 } else { bits } }
    }

    /// Returns false only if `user_key` was never added.
    #[inline]
    pub(super) fn may_contain(&self, user_key: &[u8]) -> bool {
        let (word, bits) = self.probe(user_key);
        word.load(Ordering::Relaxed) & bits == bits
    }

    #[inline]
    fn probe(&self, user_key: &[u8]) -> (&AtomicU64, u64) {
        let hash = hash_key(user_key);
        let bits = [0, 6, 12, 18].iter().fold(0, |bits, shift| bits | 1 << (hash >> shift & 63));
        (&self.words[(hash >> 32) as usize & (self.words.len() - 1)], bits)
    }
}

/// Returns a 64-bit hash in which every byte affects every bit. An attacker can find keys with
/// equal hashes. Lookups of such keys only search the tree.
#[inline]
fn hash_key(bytes: &[u8]) -> u64 {
    // The golden ratio as a 64-bit fraction: odd, with about as many ones as zeros.
    const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(HASH_MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks();
    let hash = words
        .iter()
        .fold(!HASH_MULTIPLIER ^ bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        // The last eight bytes, which overlap the last word.
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    mix(mix(hash, last), 0)
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn contains_added_keys_with_few_false_positives() {
        for key_size in [3, 8, 10, 16, 100] {
            let key = |i: u32| {
                let mut key = vec![b'k'; key_size];
                key[key_size - 3..].copy_from_slice(&i.to_be_bytes()[1..]);
                key
            };
            // Records of 64 bytes get eight bits per key.
            let bloom = MemtableBloom::new(20_000 * 64);
            for i in 0..20_000u32 {
                let is_even = i.is_multiple_of(2);
                let mode = if is_even { InsertMode::Exclusive } else { InsertMode::Concurrent };
                bloom.prefetch_bits(&key(i)).set(mode);
            }
            assert!((0..20_000).all(|i| bloom.may_contain(&key(i))), "{key_size}");
            let false_positives = (20_000..120_000).filter(|&i| bloom.may_contain(&key(i))).count();
            assert!(false_positives < 6_000, "{false_positives} of 100,000 keys of {key_size} bytes");
        }
    }

    #[test]
    fn size_follows_memtable_size() {
        for (memtable_bytes, filter_bytes) in
            [(0, 8), (4 << 20, 64 << 10), (32 << 20, 512 << 10), (8 << 30, 8 << 20)]
        {
            assert_eq!(MemtableBloom::new(memtable_bytes).memory_usage(), filter_bytes, "{memtable_bytes}");
        }
    }
}
