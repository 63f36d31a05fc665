//! Content hash of a file: XXH64, Yann Collet's 64-bit hash, with seed 0.
//!
//! The hash detects damage and tells tables of equal number and size apart. It is no protection
//! from an attacker: a forged table may have the hash of another one.

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

/// Number of bytes that the four lanes take together.
const STRIPE: usize = 32;

/// Hash of bytes that arrive in pieces.
pub(super) struct ContentHash {
    lanes: [u64; 4],
    /// Bytes after the last whole stripe.
    rest: [u8; STRIPE],
    rest_len: usize,
    len: u64,
}

impl ContentHash {
    pub(super) fn new() -> ContentHash {
        let lanes = [PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0u64.wrapping_sub(PRIME_1)];
        ContentHash { lanes, rest: [0; STRIPE], rest_len: 0, len: 0 }
    }

    /// Returns the hash of `bytes`.
    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut hash = ContentHash::new();
        hash.update(bytes);
        hash.finish()
    }

    /// Appends `bytes`.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.rest_len > 0 {
            let taken = bytes.len().min(STRIPE - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&bytes[..taken]);
            self.rest_len += taken;
            bytes = &bytes[taken..];
            if self.rest_len < STRIPE {
                return;
            }
            let stripe = self.rest;
            self.add_stripe(&stripe);
            self.rest_len = 0;
        }
        let stripes = bytes.chunks_exact(STRIPE);
        let rest = stripes.remainder();
        for stripe in stripes {
            self.add_stripe(stripe);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    #[inline]
    fn add_stripe(&mut self, stripe: &[u8]) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            *lane = round(*lane, read_u64(word));
        }
    }

    /// Returns the hash of all bytes so far.
    pub(super) fn finish(&self) -> u64 {
        let mut hash = match self.len >= STRIPE as u64 {
            true => self.merged_lanes(),
            false => PRIME_5,
        };
        hash = hash.wrapping_add(self.len);
        let words = self.rest[..self.rest_len].chunks_exact(8);
        let mut rest = words.remainder();
        for word in words {
            hash = (hash ^ round(0, read_u64(word))).rotate_left(27);
            hash = hash.wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
        }
        if let Some((half, after)) = rest.split_first_chunk() {
            hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIME_1);
            hash = hash.rotate_left(23).wrapping_mul(PRIME_2).wrapping_add(PRIME_3);
            rest = after;
        }
        for &byte in rest {
            hash = (hash ^ u64::from(byte).wrapping_mul(PRIME_5)).rotate_left(11).wrapping_mul(PRIME_1);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
        hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
        hash ^ (hash >> 32)
    }

    fn merged_lanes(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let sum = [a.rotate_left(1), b.rotate_left(7), c.rotate_left(12), d.rotate_left(18)];
        let sum = sum.into_iter().fold(0, u64::wrapping_add);
        self.lanes
            .into_iter()
            .fold(sum, |hash, lane| (hash ^ round(0, lane)).wrapping_mul(PRIME_1).wrapping_add(PRIME_4))
    }
}

#[inline]
fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1)
}

/// Reads eight bytes. Every caller passes a chunk of eight.
#[inline]
fn read_u64(word: &[u8]) -> u64 {
    word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation.
    #[test]
    fn reference_values() {
        let sentence: &[u8] = b"Nobody inspects the spammish repetition";
        for (bytes, expected) in [
            (&b""[..], 0xEF46_DB37_51D8_E999),
            (b"a", 0xD24E_C4F1_A98C_6E5B),
            (b"abc", 0x44BC_2CF5_AD77_0999),
            (sentence, 0xFBCE_A83C_8A37_8BF1),
        ] {
            assert_eq!(ContentHash::of(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..200u8).collect();
        for first in 0..100 {
            let mut hash = ContentHash::new();
            hash.update(&bytes[..first]);
            hash.update(&bytes[first..first * 2]);
            hash.update(&bytes[first * 2..]);
            assert_eq!(hash.finish(), ContentHash::of(&bytes), "{first}");
        }
    }
}
