//! Which keys a tree may have: a Bloom filter that asks one word for a key.
//!
//! ```text
//!   hash(key)    word number (high half) | ... | bit | bit | bit | bit      six bits each
//! ```
//!
//! A look-up of a key that only tables have would go down the tree in vain, and wait for memory at each step; here it
//! waits once. All bits of a key stand in one word, so that an insertion is one operation on one line, for a few more keys
//! that are asked for in vain than a filter with bits anywhere would let through (Putze, Sanders and Singler, "Cache-, Hash-
//! and Space-Efficient Bloom Filters", 2007).
//!
//! Bits are set before the key is in the tree, and asked for by who knows a number at which the key is visible: publishing
//! the number (Release) and learning it (Acquire) put the one before the other, so the bits themselves are Relaxed.

use terrace_sync::mutant;

use super::insert_mode::InsertMode;
use crate::sync::{AtomicU64, Ordering};

/// The bytes of a tree for each byte of its filter: about one and a half of a hundred.
const TREE_BYTES_PER_BLOOM_BYTE: usize = 64;
/// The most that a filter takes, in bytes.
const BLOOM_BYTES_MAX: usize = 8 << 20;

pub(super) struct MemtableBloom {
    /// A power of two of them.
    words: Box<[AtomicU64]>,
}

impl MemtableBloom {
    /// For a tree of about so many bytes.
    pub(super) fn new(bytes: usize) -> MemtableBloom {
        let words =
            ((bytes / TREE_BYTES_PER_BLOOM_BYTE).min(BLOOM_BYTES_MAX) / size_of::<u64>()).next_power_of_two();
        MemtableBloom { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline]
    pub(super) fn add(&self, user_key: &[u8], company: InsertMode) {
        if mutant!(MemtableBloomOmitsShortKeys) && user_key.len() < 8 {
            return;
        }
        let (word, bits) = self.probe(user_key);
        // Only looked at where it can be: who changes a line takes it away from all others.
        if word.load(Ordering::Relaxed) & bits != bits {
            match company {
                InsertMode::Concurrent => drop(word.fetch_or(bits, Ordering::Relaxed)),
                InsertMode::Exclusive => word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed),
            }
        }
    }

    /// False if `user_key` was never added.
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

/// Sixty-four bits that look like chance, each made of every byte. Who wants to can find keys with equal hashes: they are
/// only looked up in vain.
#[inline]
fn hash_key(bytes: &[u8]) -> u64 {
    // Any odd number with as many ones as zeros.
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
        // With some of the bytes before it.
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
            // Records of 64 bytes, so eight bits a key.
            let filter = MemtableBloom::new(20_000 * 64);
            let company =
                |i: u32| if i.is_multiple_of(2) { InsertMode::Exclusive } else { InsertMode::Concurrent };
            (0..20_000).for_each(|i| filter.add(&key(i), company(i)));
            assert!((0..20_000).all(|i| filter.may_contain(&key(i))), "{key_size}");
            let in_vain = (20_000..120_000).filter(|&i| filter.may_contain(&key(i))).count();
            assert!(in_vain < 6_000, "{in_vain} of 100,000 keys of {key_size} bytes");
        }
    }

    #[test]
    fn size_follows_memtable_size() {
        for (tree, filter) in [(0, 8), (4 << 20, 64 << 10), (32 << 20, 512 << 10), (8 << 30, 8 << 20)] {
            assert_eq!(MemtableBloom::new(tree).memory_usage(), filter, "{tree}");
        }
    }
}
