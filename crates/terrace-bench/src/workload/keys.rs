//! Numbers, and the keys and values made of them; as [`super::description`] says them, byte for byte.

/// A generator of 64-bit numbers that is a few lines in any language.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number as one in `0.0..1.0`.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Fills `key` with `n` in decimal. Digits that do not fit are the caller's mistake.
#[inline]
pub fn write_key(n: u64, key: &mut [u8]) {
    let mut rest = n;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    debug_assert_eq!(rest, 0, "{n} has more digits than a key of {} bytes", key.len());
}

/// Makes `key` one that nobody put, beside the one it is.
#[inline]
pub fn make_missing(key: &mut [u8]) {
    if let Some(last) = key.last_mut() {
        *last = b'.';
    }
}

/// The number that `key` was made of, if it was.
#[inline]
pub fn read_key(key: &[u8]) -> Option<u64> {
    key.iter().try_fold(0u64, |n, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The values of one phase.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    size: usize,
    /// Bytes before they repeat.
    unique: usize,
}

impl Values {
    /// Of `size` bytes, `compress` of which can't be compressed away.
    pub fn new(size: usize, compress: f64) -> Values {
        let unique = (size as f64 * compress) as usize;
        Values { size, unique: unique.max(8).min(size) }
    }

    /// Replaces `value` by the one of `n`.
    #[inline]
    pub fn write(&self, n: u64, value: &mut Vec<u8>) {
        value.clear();
        let mut words = words_of(n);
        while value.len() < self.unique {
            let word = words.number().to_le_bytes();
            let take = word.len().min(self.unique - value.len());
            value.extend_from_slice(&word[..take]);
        }
        while value.len() < self.size {
            let take = self.unique.min(self.size - value.len());
            value.extend_from_within(..take);
        }
    }

    /// Whether `value` is the one of `n`.
    #[inline]
    pub fn matches(&self, n: u64, value: &[u8]) -> bool {
        if value.len() != self.size {
            return false;
        }
        let (unique, rest) = value.split_at(self.unique);
        let mut words = words_of(n);
        let fresh = unique.chunks(8).all(|chunk| chunk == &words.number().to_le_bytes()[..chunk.len()]);
        fresh && rest.chunks(self.unique.max(1)).all(|chunk| chunk == &unique[..chunk.len()])
    }
}

fn words_of(n: u64) -> SplitMix64 {
    SplitMix64(n ^ 0x5bd1_e995)
}

/// Numbers of which few are frequent: YCSB's generator, after Gray's "Quickly generating billion-record synthetic
/// databases". With `items`, `theta` = 0.99, `zeta(k)` = sum of `i^-theta` for `i` in 1..=k, and a fraction `u`:
///
/// ```text
///   alpha = 1 / (1 - theta)      eta = (1 - (2/items)^(1-theta)) / (1 - zeta(2)/zeta(items))
///   rank  = 0                                           if u * zeta(items) < 1
///           1                                           if u * zeta(items) < 1 + 0.5^theta
///           floor(items * (eta*u - eta + 1)^alpha)      otherwise
/// ```
#[derive(Clone, Debug)]
pub struct Zipf {
    items: f64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

/// What YCSB scrambles: so many items that each key gets ranks from all over; the sum is its constant.
const SCRAMBLED_ITEMS: f64 = 1e10;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

impl Zipf {
    /// Over `items` ranks. Takes a pass over them.
    pub fn new(items: u64) -> Zipf {
        Zipf::with_zeta(items as f64, zeta(items))
    }

    /// The ranks that [`scramble`] is for.
    pub fn to_scramble() -> Zipf {
        Zipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
    }

    fn with_zeta(items: f64, zeta_of_items: f64) -> Zipf {
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_of_items);
        Zipf { items, zeta: zeta_of_items, eta }
    }

    /// The next rank: 0 is the most frequent.
    #[inline]
    pub fn rank(&self, random: &mut SplitMix64) -> u64 {
        let u = random.fraction();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items as u64 - 1)
    }
}

fn zeta(items: u64) -> f64 {
    (1..=items).map(|i| (i as f64).powf(-THETA)).sum()
}

/// The key number of a rank: FNV-1a of its eight little-endian bytes, without the sign, modulo `keyspace`.
#[inline]
pub fn scramble(rank: u64, keyspace: u64) -> u64 {
    let hash = rank.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash as i64).unsigned_abs() % keyspace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_published() {
        let mut random = SplitMix64(1_234_567);
        let five: Vec<u64> = (0..5).map(|_| random.number()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(five, published);
    }

    #[test]
    fn keys() {
        for (n, text) in [(0, "0000"), (7, "0007"), (9999, "9999")] {
            let mut key = [0; 4];
            write_key(n, &mut key);
            assert_eq!(key, text.as_bytes());
            assert_eq!(read_key(&key), Some(n));
            make_missing(&mut key);
            assert_eq!((key[3], read_key(&key)), (b'.', None));
        }
        assert_eq!(read_key(b"99999999999999999999"), None);
    }

    #[track_caller]
    fn value(n: u64, size: usize, compress: f64, hex: &str) {
        let (mut value, values) = (Vec::new(), Values::new(size, compress));
        values.write(n, &mut value);
        assert_eq!(value.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), hex);
        assert!(values.matches(n, &value));
        assert!(!values.matches(n, &[&value[..], b"x"].concat()));
        for at in 0..size {
            value[at] ^= 1;
            assert!(!values.matches(n, &value), "a flipped bit in byte {at}");
            value[at] ^= 1;
        }
    }

    #[test]
    fn values() {
        value(0, 0, 0.5, "");
        value(0, 4, 0.5, "72e77bf4");
        value(0, 20, 0.5, "72e77bf4c3c3e16f8a6672e77bf4c3c3e16f8a66");
        value(1, 16, 0.5, "77fcb310fba7451077fcb310fba74510");
        value(42, 10, 1.0, "52d302d0280ce0f31388");
    }

    #[test]
    fn zipf_prefers_the_first_ranks() {
        let (zipf, mut random) = (Zipf::new(1000), SplitMix64(301));
        let mut counts = [0u32; 1000];
        for _ in 0..100_000 {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        assert!(counts[0] > 12_000 && counts[0] < 14_500, "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[9] && counts[9] > counts[99]);
    }

    #[test]
    fn scrambled_numbers() {
        let five: Vec<u64> = (0..5).map(|rank| scramble(rank, 1_000_000)).collect();
        assert_eq!(five, [377211, 966620, 198393, 787802, 816769]);
    }
}
