//! Filters: a few bits per key that rule out most absent keys without a read of their block.
//!
//! ```text
//!   Bloom filter of n keys
//!   0                                          bytes
//!   +------------------------------------------+----+
//!   | bit array, bit i = byte i/8, bit i%8     | k  |
//!   +------------------------------------------+----+
//!   bytes = max(64, n * bits_per_key) / 8, rounded up
//!   h = hash(key), d = rotate_right(h, 17)
//!   the key's bits are h, h+d, .. h+(k-1)d, each modulo the number of bits in the array
//! ```
//!
//! A filter may match an absent key, but never rejects a present one. The format is frozen:
//! LevelDB's built-in policy computes the same bits for the same keys.

use std::any::Any;
use std::sync::Arc;

use terrace_sync::mutant;

use crate::key;

/// Algorithm that builds and probes filters.
///
/// The database stores its name with the filters: if the bits change their meaning, the name must
/// change. Every method may be called from any thread at any time.
pub trait FilterPolicy: Any + Send + Sync {
    /// Returns the name that the table stores.
    fn name(&self) -> &str;

    /// Appends the filter of `keys`, which are sorted and may repeat.
    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>);

    /// Returns false only if `key` is certainly not among the keys of `filter`. The bytes of
    /// `filter` may be damaged.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;
}

impl std::fmt::Debug for dyn FilterPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FilterPolicy({})", self.name())
    }
}

/// LevelDB's built-in Bloom filter policy.
#[derive(Debug, Clone)]
pub struct BloomFilterPolicy {
    bits_per_key: usize,
}

/// Maximum number of probes. LevelDB reserves larger numbers for future encodings, which match
/// every key.
const MAX_PROBES: usize = 30;

/// Minimum size of the bit array, in bits. Smaller filters would match nearly every key.
const MIN_FILTER_BITS: usize = 64;

impl BloomFilterPolicy {
    /// Creates a policy with about `bits_per_key` bits for each key, at most 255. With 10 bits, 1
    /// of 100 absent keys matches.
    pub fn new(bits_per_key: usize) -> BloomFilterPolicy {
        BloomFilterPolicy { bits_per_key: bits_per_key.min(255) }
    }

    /// Returns the approximate number of bits per key.
    pub fn bits_per_key(&self) -> usize {
        self.bits_per_key
    }

    /// A factor of ln 2 gives the fewest false positives. Rounding down saves probes.
    fn num_probes(&self) -> usize {
        ((self.bits_per_key as f64 * 0.69) as usize).clamp(1, MAX_PROBES)
    }
}

impl FilterPolicy for BloomFilterPolicy {
    fn name(&self) -> &str {
        "leveldb.BuiltinBloomFilter2"
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.create_from_hashes(keys.iter().map(|key| BloomFilterPolicy::hash(key)), dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        BloomFilterPolicy::may_match_hash(BloomFilterPolicy::hash(key), filter)
    }
}

impl BloomFilterPolicy {
    /// Returns the hash of a key. A filter depends on nothing else of the key.
    pub fn hash(key: &[u8]) -> u32 {
        hash(key, 0xbc9f_1d34)
    }

    /// Appends the filter of keys with the given hashes.
    pub fn create_from_hashes(&self, hashes: impl ExactSizeIterator<Item = u32>, dst: &mut Vec<u8>) {
        let bytes = hashes.len().saturating_mul(self.bits_per_key).max(MIN_FILTER_BITS).div_ceil(8);
        let probes = self.num_probes();
        let start = dst.len();
        dst.resize(start + bytes, 0);
        let array = &mut dst[start..];
        let bits = FastModulo::new(bytes * 8);
        for hash in hashes {
            let step = hash.rotate_right(17);
            let mut probe = hash;
            for _ in 0..probes {
                let bit = bits.map_or(probe, |bits| bits.modulo(probe)) as usize;
                array[bit / 8] |= 1 << (bit % 8);
                probe = probe.wrapping_add(step);
            }
        }
        dst.push(probes as u8);
    }

    /// Returns false only if no key with this hash is among the keys of `filter`. The bytes of
    /// `filter` may be damaged.
    pub fn may_match_hash(hash: u32, filter: &[u8]) -> bool {
        let Some((&probes, array)) = filter.split_last().filter(|(_, array)| !array.is_empty()) else {
            return false;
        };
        let probes = usize::from(probes);
        probes > MAX_PROBES
            || bit_positions(hash, probes, array.len() * 8).all(|bit| array[bit / 8] & 1 << (bit % 8) != 0)
    }
}

/// Returns the bit positions of a key with this hash in an array of `bits` bits.
fn bit_positions(hash: u32, probes: usize, bits: usize) -> impl Iterator<Item = usize> {
    let step = hash.rotate_right(17);
    let probe = move |i| hash.wrapping_add(step.wrapping_mul(i));
    // The remainder is the same, and 32-bit division is faster.
    let bits = u32::try_from(bits).ok();
    (0..probes as u32).map(move |i| bits.map_or(probe(i), |bits| probe(i) % bits) as usize)
}

/// Precomputed parameters of a Bloom filter with many probes. It does not hold the bytes of the
/// filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BloomProbes {
    num_probes: u8,
    bits: FastModulo,
}

impl BloomProbes {
    /// Creates the parameters of `filter`, whose bytes may be damaged. Returns `None` if it has no
    /// bits, too many bits, or an unknown encoding.
    pub(crate) fn new(filter: &[u8]) -> Option<BloomProbes> {
        let (&num_probes, array) = filter.split_last()?;
        let bits = Some(array.len() * 8).filter(|bits| *bits > 0).and_then(FastModulo::new)?;
        (usize::from(num_probes) <= MAX_PROBES).then_some(BloomProbes { num_probes, bits })
    }

    /// Returns the bit positions of a key with this hash.
    #[inline]
    fn bit_positions(self, hash: u32) -> impl Iterator<Item = usize> {
        let step = hash.rotate_right(17);
        (0..u32::from(self.num_probes))
            .map(move |i| self.bits.modulo(hash.wrapping_add(step.wrapping_mul(i))) as usize)
    }

    /// Returns the bytes that [`BloomProbes::may_match`] reads. `filter` is the one of `new`.
    #[inline]
    pub(crate) fn probed_bytes(self, hash: u32, filter: &[u8]) -> impl Iterator<Item = &u8> {
        self.bit_positions(hash).filter_map(|bit| filter.get(bit / 8))
    }

    /// Probes `filter`, the one of `new`, like [`BloomFilterPolicy::may_match_hash`].
    #[inline]
    pub(crate) fn may_match(self, hash: u32, filter: &[u8]) -> bool {
        self.bit_positions(hash).all(|bit| filter.get(bit / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0))
    }
}

/// Remainder of many numbers by one divisor, with two multiplications each instead of a division.
///
/// The result is exact: the fraction of n/d has 64 bits, and n and d have 32 (Lemire, Kaser and
/// Kurz, "Faster remainder by direct computation", 2019).
#[derive(Debug, Clone, Copy)]
struct FastModulo {
    divisor: u32,
    /// 2^64 / divisor, rounded up; 0 for a divisor of 1.
    inverse: u64,
}

impl FastModulo {
    /// Prepares the remainder by `divisor`, which is 1 or more. Returns `None` if it does not fit
    /// 32 bits: every remainder is then the number itself.
    fn new(divisor: usize) -> Option<FastModulo> {
        let divisor = u32::try_from(divisor).ok()?;
        Some(FastModulo { divisor, inverse: (u64::MAX / u64::from(divisor)).wrapping_add(1) })
    }

    #[inline]
    fn modulo(self, n: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(u64::from(n));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

/// Policy over the user keys of internal keys. It has the name of the wrapped policy, because the
/// stored bits are the same.
pub struct InternalFilterPolicy(pub Arc<dyn FilterPolicy>);

impl FilterPolicy for InternalFilterPolicy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let user_keys: Vec<&[u8]> = keys
            .iter()
            .map(|key| if mutant!(FilterBuiltFromInternalKeys) { key } else { key::user_key(key) })
            .collect();
        self.0.create(&user_keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match(key::user_key(key), filter)
    }
}

impl InternalFilterPolicy {
    /// Returns true if the wrapped policy is LevelDB's built-in one.
    pub(crate) fn is_bloom(policy: &dyn FilterPolicy) -> bool {
        let internal = (policy as &dyn Any).downcast_ref::<InternalFilterPolicy>();
        internal.is_some_and(|policy| (&*policy.0 as &dyn Any).is::<BloomFilterPolicy>())
    }
}

/// LevelDB's hash function.
pub fn hash(data: &[u8], seed: u32) -> u32 {
    const FACTOR: u32 = 0xc6a4_a793;
    let mut hash = seed ^ (data.len() as u32).wrapping_mul(FACTOR);
    let (words, rest) = data.as_chunks::<4>();
    for &word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 16;
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | u32::from(byte));
        hash = hash.wrapping_add(tail).wrapping_mul(FACTOR);
        hash ^= hash >> 24;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{InternalKey, ValueType};

    fn filter_of(bits_per_key: usize, keys: &[&[u8]]) -> Vec<u8> {
        let mut filter = Vec::new();
        BloomFilterPolicy::new(bits_per_key).create(keys, &mut filter);
        filter
    }

    #[track_caller]
    fn check(bits_per_key: usize, keys: &[&[u8]], expect: &str) {
        let hex: String = filter_of(bits_per_key, keys).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expect);
    }

    // The expected bytes come from LevelDB 1.23.
    #[test]
    #[rustfmt::skip]
    fn same_bits_as_leveldb() {
        let ten: Vec<Vec<u8>> = (0..10).map(|i| format!("key{i}").into_bytes()).collect();
        let ten: Vec<&[u8]> = ten.iter().map(Vec::as_slice).collect();
        check(10,  &[],                   "000000000000000006");
        check(10,  &[b""],                "080004000200118006");
        check(10,  &[b"hello", b"world"], "114000414410401006");
        check(10,  &[b"\xff\x80", b"\xe1\x80\xb9\x32\xfe"], "044892240000010206");
        check(1,   &[b"a"],               "000000000000010001");
        check(0,   &[b"a", b"b"],         "100000000000010001");
        check(100, &[b"a"],               "0b00000000c07f0000000000f81e");
        check(4,   &ten,                  "000040000000002002");
        check(10,  &ten,                  "6c265a106c405c58242a2c4a6a06");
        check(16,  &ten,                  "11402032910864329140643281406422910064120b");
    }

    #[test]
    fn fast_modulo_equals_division() {
        let edges = |n: u32| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let divisors = (0..32).flat_map(|bit| edges(1 << bit)).chain([u32::MAX, 641, 6_700_417]);
        for divisor in divisors.filter(|divisor| *divisor > 0) {
            let remainder = FastModulo::new(divisor as usize).unwrap();
            let multiples =
                (0..32).map(|bit| divisor.wrapping_mul(1 << bit)).chain([u32::MAX / divisor * divisor]);
            for n in multiples.flat_map(edges).chain([0, u32::MAX]) {
                assert_eq!(remainder.modulo(n), n % divisor, "{n} by {divisor}");
            }
        }
        assert!(FastModulo::new(1 << 32).is_none());
    }

    #[test]
    fn create_appends() {
        let mut filters = b"before".to_vec();
        BloomFilterPolicy::new(10).create(&[b"hello", b"world"], &mut filters);
        assert_eq!(filters[6..], filter_of(10, &[b"hello", b"world"]));
    }

    #[test]
    fn no_false_negatives_and_few_false_positives() {
        let policy = BloomFilterPolicy::new(10);
        for count in [1u32, 10, 100, 1000, 10_000] {
            let keys: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
            let filter = filter_of(10, &keys);
            assert!(keys.iter().all(|key| policy.may_match(key, &filter)), "{count} keys");
            let absent = (0..10_000u32).map(|i| (i + 1_000_000_000).to_le_bytes());
            let matches = absent.filter(|key| policy.may_match(key, &filter)).count();
            assert!(matches < 200, "{matches} of 10000 absent keys, filter of {count}");
        }
    }

    #[test]
    fn bloom_probes_agree_with_may_match() {
        for bits_per_key in [0, 1, 4, 10, 100] {
            for count in [0u32, 1, 10, 1000] {
                let keys: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
                let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
                let filter = filter_of(bits_per_key, &keys);
                let probes = BloomProbes::new(&filter).unwrap();
                for key in 0..2000u32 {
                    let hash = BloomFilterPolicy::hash(&key.to_le_bytes());
                    let expect = BloomFilterPolicy::may_match_hash(hash, &filter);
                    assert_eq!(probes.may_match(hash, &filter), expect, "{key} of {count}");
                    assert_eq!(
                        probes.probed_bytes(hash, &filter).count(),
                        usize::from(*filter.last().unwrap())
                    );
                }
            }
        }
        for invalid in [&b""[..], b"\x06", b"\x00\x1f", b"\x00\xff"] {
            assert!(BloomProbes::new(invalid).is_none());
        }
        assert!(BloomProbes::new(b"\x00\x00").unwrap().may_match(7, b"\x00\x00"), "no probes reject nothing");
    }

    #[test]
    fn hostile_filters() {
        let policy = BloomFilterPolicy::new(10);
        assert!(!policy.may_match(b"a", b""));
        assert!(!policy.may_match(b"a", b"\x06"), "no bits");
        assert!(policy.may_match(b"a", b"\x00\x1f"), "31 probes: unknown encoding");
        assert!(policy.may_match(b"a", b"\x00\xff"));
        assert!(policy.may_match(b"a", b"\x00\x00"), "no probes reject nothing");
        assert!(!policy.may_match(b"a", b"\x00\x01"));
    }

    #[test]
    fn internal_keys_match_by_user_key() {
        let policy = InternalFilterPolicy(Arc::new(BloomFilterPolicy::new(10)));
        let stored = InternalKey::new(b"hello", 7, ValueType::Value);
        let target = InternalKey::new(b"hello", 99, ValueType::Deletion);
        let mut filter = Vec::new();
        policy.create(&[stored.as_bytes()], &mut filter);
        assert_eq!(filter, filter_of(10, &[b"hello"]));
        assert!(policy.may_match(target.as_bytes(), &filter));
        assert_eq!(policy.name(), "leveldb.BuiltinBloomFilter2");
    }

    // Vectors of LevelDB's test of its hash function.
    #[test]
    #[rustfmt::skip]
    fn hash_of_every_tail_length() {
        assert_eq!(hash(b"",                     0xbc9f_1d34), 0xbc9f_1d34);
        assert_eq!(hash(b"\x62",                 0xbc9f_1d34), 0xef13_45c4);
        assert_eq!(hash(b"\xc3\x97",             0xbc9f_1d34), 0x5b66_3814);
        assert_eq!(hash(b"\xe2\x99\xa5",         0xbc9f_1d34), 0x323c_078f);
        assert_eq!(hash(b"\xe1\x80\xb9\x32",     0xbc9f_1d34), 0xed21_633a);
    }
}
