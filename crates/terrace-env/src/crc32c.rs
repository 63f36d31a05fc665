//! CRC-32C with the instruction of aarch64.
//!
//! ```text
//!   chunk   | lane 0 | lane 1 | lane 2 |     three checksums at the same time: the instruction
//!               crc      0        0          takes three cycles, and one can start in each cycle
//!
//!   result  shift(shift(lane 0) ^ lane 1) ^ lane 2,  shift: appends the zeros of one lane
//! ```
//!
//! The crate `crc32c` is as fast only in programs for processors that are known to have the
//! instruction. In other programs it calls a function for each eight bytes. On x86-64 it has no
//! such limit, so this module exists on aarch64 only.
#![allow(unsafe_code)] // A function with the instruction needs a check of the processor.

use std::arch::aarch64::{__crc32cb, __crc32cd};
use std::arch::is_aarch64_feature_detected;

/// Reversed polynomial of CRC-32C.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Lane for most bytes of a block of 4 KiB, in bytes.
const LONG_LANE: usize = 1024;
/// Lane for the rest of a block, and for records of a log, in bytes.
const SHORT_LANE: usize = 128;

static LONG_SHIFT: ShiftTable = ShiftTable::new(LONG_LANE);
static SHORT_SHIFT: ShiftTable = ShiftTable::new(SHORT_LANE);

/// Returns the checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Returns the checksum of the bytes of `crc` followed by `bytes`.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    if is_aarch64_feature_detected!("crc") {
        // SAFETY: the processor has the instruction, as the condition says.
        return unsafe { append_by_instruction(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

#[target_feature(enable = "crc")]
fn append_by_instruction(crc: u32, bytes: &[u8]) -> u32 {
    let (crc, rest) = append_lanes::<LONG_LANE>(!crc, bytes, &LONG_SHIFT);
    let (crc, rest) = append_lanes::<SHORT_LANE>(crc, rest, &SHORT_SHIFT);
    let (words, rest) = rest.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| __crc32cd(crc, u64::from_le_bytes(*word)));
    !rest.iter().fold(crc, |crc, byte| __crc32cb(crc, *byte))
}

/// Appends all whole chunks of three lanes. Returns the checksum and the other bytes.
#[target_feature(enable = "crc")]
fn append_lanes<'a, const LANE: usize>(
    mut crc: u32,
    mut bytes: &'a [u8],
    shift: &ShiftTable,
) -> (u32, &'a [u8]) {
    while let Some((chunk, rest)) = bytes.split_at_checked(3 * LANE) {
        let (first, others) = chunk.split_at(LANE);
        let (second, third) = others.split_at(LANE);
        let words =
            first.as_chunks::<8>().0.iter().zip(second.as_chunks::<8>().0).zip(third.as_chunks::<8>().0);
        let mut lanes = [crc, 0, 0];
        for ((first, second), third) in words {
            lanes[0] = __crc32cd(lanes[0], u64::from_le_bytes(*first));
            lanes[1] = __crc32cd(lanes[1], u64::from_le_bytes(*second));
            lanes[2] = __crc32cd(lanes[2], u64::from_le_bytes(*third));
        }
        crc = shift.apply(shift.apply(lanes[0]) ^ lanes[1]) ^ lanes[2];
        bytes = rest;
    }
    (crc, bytes)
}

/// Effect of a number of zero bytes on a checksum, by the four bytes of the checksum.
struct ShiftTable([[u32; 256]; 4]);

impl ShiftTable {
    /// Creates the table for `zeros` bytes, a power of two.
    const fn new(zeros: usize) -> ShiftTable {
        let mut matrix = one_zero_byte();
        let mut length = 1;
        while length < zeros {
            matrix = square(&matrix);
            length *= 2;
        }
        let mut table = [[0; 256]; 4];
        let mut at = 0;
        while at < 4 * 256 {
            table[at / 256][at % 256] = multiply(&matrix, ((at % 256) as u32) << (8 * (at / 256)));
            at += 1;
        }
        ShiftTable(table)
    }

    #[inline]
    fn apply(&self, crc: u32) -> u32 {
        let [first, second, third, fourth] = crc.to_le_bytes();
        self.0[0][first as usize]
            ^ self.0[1][second as usize]
            ^ self.0[2][third as usize]
            ^ self.0[3][fourth as usize]
    }
}

/// Linear map of checksums: the images of the 32 bits.
type Matrix = [u32; 32];

/// Returns the map that appends one zero byte.
const fn one_zero_byte() -> Matrix {
    let mut matrix = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        let mut crc = 1 << bit;
        let mut step = 0;
        while step < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        matrix[bit] = crc;
        bit += 1;
    }
    matrix
}

/// Returns `matrix` applied twice.
const fn square(matrix: &Matrix) -> Matrix {
    let mut result = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        result[bit] = multiply(matrix, matrix[bit]);
        bit += 1;
    }
    result
}

const fn multiply(matrix: &Matrix, crc: u32) -> u32 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 32 {
        if crc >> bit & 1 == 1 {
            result ^= matrix[bit];
        }
        bit += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crate `crc32c` computes the same at each length around the ends of lanes and at each
    /// alignment.
    #[test]
    fn equals_the_other_implementation() {
        let bytes: Vec<u8> = (0..3 * LONG_LANE as u32 * 3).map(|n| (n * n >> 3) as u8).collect();
        let lengths = (0..3 * SHORT_LANE + 20).chain(3 * LONG_LANE - 3..3 * LONG_LANE + 3);
        for len in lengths.chain([6 * LONG_LANE + 3 * SHORT_LANE + 13]) {
            for start in 0..8 {
                let part = &bytes[start..start + len];
                assert_eq!(crc32c_append(7, part), crc32c::crc32c_append(7, part), "{len} from {start}");
            }
        }
    }
}
