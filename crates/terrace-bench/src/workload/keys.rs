//! Random numbers, and the keys and values that are derived from numbers, as [`super::phase_spec`]
//! defines them.

/// A generator of 64-bit random numbers that takes a few lines in any language.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next number in `0.0..1.0`.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Value of eight decimal digits, which are written and read in one step.
const TEN_POW_8: u64 = 100_000_000;

/// Fills `key` with `n` in decimal. The caller makes sure that all digits fit.
#[inline]
pub fn write_key(n: u64, key: &mut [u8]) {
    let mut remaining = n;
    let mut eights = key.rchunks_exact_mut(8);
    for eight in &mut eights {
        eight.copy_from_slice(&eight_digits(remaining % TEN_POW_8));
        remaining /= TEN_POW_8;
    }
    for digit in eights.into_remainder().iter_mut().rev() {
        *digit = b'0' + (remaining % 10) as u8;
        remaining /= 10;
    }
    debug_assert_eq!(remaining, 0, "{n} has more digits than a key of {} bytes", key.len());
}

/// Formats `n`, which is below 10^8, as eight digits: halves side by side in a word, then their
/// halves.
///
/// ```text
///   12345678   ->   1234 | 5678   ->   12 | 34 | 56 | 78   ->   1|2|3|4|5|6|7|8
/// ```
#[inline]
fn eight_digits(n: u64) -> [u8; 8] {
    let fours = (n / 10_000) | ((n % 10_000) << 32);
    // Multiplication and shift instead of division, which is exact for numbers of four and of two
    // digits.
    let hundreds = ((fours * 5243) >> 19) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones | ASCII_ZEROS).to_le_bytes()
}

/// The digit 0, eight times.
const ASCII_ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// Turns `key` into a key that was never put and sorts next to the original key.
#[inline]
pub fn make_missing(key: &mut [u8]) {
    if let Some(last) = key.last_mut() {
        *last = b'.';
    }
}

/// Returns the number of `key`, or `None` if it is not a key of a number.
#[inline]
pub fn parse_key(key: &[u8]) -> Option<u64> {
    let (eights, rest) = key.as_chunks::<8>();
    let n = eights
        .iter()
        .try_fold(0u64, |n, eight| n.checked_mul(TEN_POW_8)?.checked_add(parse_eight_digits(*eight)?))?;
    rest.iter().try_fold(n, |n, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Parses eight digits: adjacent numbers in a word are combined into one, three times. Returns
/// `None` if a byte is not a digit.
#[inline]
fn parse_eight_digits(eight: [u8; 8]) -> Option<u64> {
    let ones = u64::from_le_bytes(eight) ^ ASCII_ZEROS;
    // A byte that is not a digit has a bit in its upper half, or gets one if 6 is added. The first
    // such byte is always detected, because no carry comes from the bytes below it.
    const HIGH_NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    if (ones | ones.wrapping_add(0x0606_0606_0606_0606)) & HIGH_NIBBLES != 0 {
        return None;
    }
    let twos = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// Generator of the values of one phase.
#[derive(Clone, Copy, Debug)]
pub struct ValueGenerator {
    size: usize,
    /// Bytes before the value repeats itself.
    incompressible_len: usize,
}

impl ValueGenerator {
    /// Creates values of `size` bytes, of which the fraction `compress` is incompressible.
    pub fn new(size: usize, compress: f64) -> ValueGenerator {
        let unique = (size as f64 * compress) as usize;
        ValueGenerator { size, incompressible_len: unique.max(8).min(size) }
    }

    /// Replaces `value` by the value of `n`.
    #[inline]
    pub fn write(&self, n: u64, value: &mut Vec<u8>) {
        value.resize(self.size, 0);
        let (unique, rest) = value.split_at_mut(self.incompressible_len);
        let mut words = value_words(n);
        let (whole, end) = unique.as_chunks_mut();
        whole.iter_mut().for_each(|word| *word = words.next_u64().to_le_bytes());
        for (byte, word_byte) in end.iter_mut().zip(words.next_u64().to_le_bytes()) {
            *byte = word_byte;
        }
        for repeat in rest.chunks_mut(self.incompressible_len.max(1)) {
            repeat.copy_from_slice(&unique[..repeat.len()]);
        }
    }

    /// Adds `count` to the count of `value`: to its first word, if it has a whole one.
    #[inline]
    pub fn add_count(value: &mut [u8], count: u64) {
        if let Some(first) = value.first_chunk_mut() {
            *first = u64::from_le_bytes(*first).wrapping_add(count).to_le_bytes();
        }
    }

    /// Removes the count from `value` and returns it. Returns None if the rest is not the value of
    /// `n`.
    #[inline]
    pub fn take_count(&self, n: u64, value: &mut [u8]) -> Option<u64> {
        let expected = value_words(n).next_u64();
        let first = value.first_chunk_mut()?;
        let count = u64::from_le_bytes(*first).wrapping_sub(expected);
        *first = expected.to_le_bytes();
        self.matches(n, value).then_some(count)
    }

    /// Returns whether `value` is the value of `n`.
    #[inline]
    pub fn matches(&self, n: u64, value: &[u8]) -> bool {
        if value.len() != self.size {
            return false;
        }
        let (unique, rest) = value.split_at(self.incompressible_len);
        let mut words = value_words(n);
        let (whole, end) = unique.as_chunks::<8>();
        whole.iter().all(|word| u64::from_le_bytes(*word) == words.next_u64())
            && end.iter().zip(words.next_u64().to_le_bytes()).all(|(byte, last)| *byte == last)
            // Each byte of the rest equals the byte `incompressible_len` before it.
            && *rest == value[..rest.len()]
    }
}

fn value_words(n: u64) -> SplitMix64 {
    SplitMix64(n ^ 0x5bd1_e995)
}

/// A Zipfian distribution: few ranks are frequent. YCSB's generator, after Gray's "Quickly
/// generating billion-record synthetic databases". With `items`, `theta` = 0.99, `zeta(k)` = sum of
/// `i^-theta` for `i` in 1..=k, and a fraction `u`:
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

/// Number of ranks that YCSB scrambles: enough that ranks of all frequencies map to each key.
const SCRAMBLED_ITEMS: f64 = 1e10;
/// Sum `zeta(SCRAMBLED_ITEMS)`, as YCSB states it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

impl Zipf {
    /// Creates a distribution over `items` ranks, in time proportional to `items`.
    pub fn new(items: u64) -> Zipf {
        Zipf::with_zeta(items as f64, zeta(items))
    }

    /// Creates the distribution whose ranks are passed to [`scramble`].
    pub fn for_scrambling() -> Zipf {
        Zipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
    }

    fn with_zeta(items: f64, zeta_of_items: f64) -> Zipf {
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_of_items);
        Zipf { items, zeta: zeta_of_items, eta }
    }

    /// Returns the next rank. Rank 0 is the most frequent.
    #[inline]
    pub fn next_rank(&self, random: &mut SplitMix64) -> u64 {
        let u = random.next_f64();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.items * pow_alpha(self.eta * u - self.eta + 1.0);
        (rank as u64).min(self.items as u64 - 1)
    }
}

/// `x` to the power of `alpha`, which is 100 for this theta. Computed by products, because all
/// languages round products alike, but not powers.
fn pow_alpha(x: f64) -> f64 {
    let square = |x: f64| x * x;
    let x4 = square(square(x));
    let x32 = square(square(square(x4)));
    square(x32) * x32 * x4
}

fn zeta(items: u64) -> f64 {
    (1..=items).map(|i| (i as f64).powf(-THETA)).sum()
}

/// Key number of a rank: FNV-1a of its eight little-endian bytes, without the sign, modulo
/// `keyspace`.
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
    fn splitmix64_matches_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        let five: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
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
    fn counts() {
        for (size, compress) in [(8, 1.0), (16, 0.5), (100, 0.5), (100, 1.0)] {
            let values = ValueGenerator::new(size, compress);
            let mut value = Vec::new();
            values.write(7, &mut value);
            ValueGenerator::add_count(&mut value, u64::MAX);
            ValueGenerator::add_count(&mut value, 6);
            assert!(!values.matches(7, &value));
            assert_eq!(values.take_count(7, &mut value), Some(5));
            assert!(values.matches(7, &value), "without the count");
            // A value of one word is that of every key, with some count.
            assert_eq!(values.take_count(8, &mut value).is_some(), size == 8);
        }
        assert_eq!(ValueGenerator::new(7, 1.0).take_count(1, &mut [0; 7]), None, "no whole word");
    }

    #[test]
    fn keys() {
        for (n, text) in [(0, "0000"), (7, "0007"), (9999, "9999")] {
            let mut key = [0; 4];
            write_key(n, &mut key);
            assert_eq!(key, text.as_bytes());
            assert_eq!(parse_key(&key), Some(n));
            make_missing(&mut key);
            assert_eq!((key[3], parse_key(&key)), (b'.', None));
        }
        assert_eq!(parse_key(b"99999999999999999999"), None);
    }

    /// Formats `n` digit by digit, as the definition says.
    fn format_by_digit(n: u64, size: usize) -> Vec<u8> {
        (0..size as u32).rev().map(|place| b'0' + (n / 10u64.pow(place) % 10) as u8).collect()
    }

    #[test]
    fn eight_digits_at_once() {
        for size in [8, 9, 16, 19] {
            for n in (0..=9999).flat_map(|four| [four, four * 10_000, 99_990_000 + four]) {
                let mut key = vec![0; size];
                write_key(n, &mut key);
                assert_eq!(key, format_by_digit(n, size), "{n} in {size} bytes");
                assert_eq!(parse_key(&key), Some(n), "{n} in {size} bytes");
            }
        }
    }

    #[test]
    fn non_digits_are_rejected() {
        for (place, byte) in (0..17).flat_map(|place| (0..=255).map(move |byte| (place, byte))) {
            let mut key = *b"99999999999999999";
            key[place] = byte;
            assert_eq!(parse_key(&key).is_some(), byte.is_ascii_digit(), "{byte} at {place}");
        }
    }

    #[track_caller]
    fn value(n: u64, size: usize, compress: f64, hex: &str) {
        let mut value = Vec::new();
        let values = ValueGenerator::new(size, compress);
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
        value(42, 24, 0.3, "52d302d0280ce0f352d302d0280ce0f352d302d0280ce0f3");
        value(42, 21, 0.43, "52d302d0280ce0f31352d302d0280ce0f31352d302");
    }

    #[test]
    fn zipf_prefers_the_first_ranks() {
        let zipf = Zipf::new(1000);
        let mut random = SplitMix64(301);
        let mut counts = [0u32; 1000];
        for _ in 0..100_000 {
            counts[zipf.next_rank(&mut random) as usize] += 1;
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
