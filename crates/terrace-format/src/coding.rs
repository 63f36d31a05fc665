//! Integers and length-prefixed slices, as LevelDB writes them.
//!
//! ```text
//!   fixed32, fixed64   little-endian
//!   varint32, varint64 7 bits a byte, low bits first, high bit set on all but the last; at most 5 / 10 bytes
//!   slice              varint32 length, then the bytes
//! ```

use crate::flaw::{Flaw, FlawKind};

/// The most bytes of a varint32 and of a varint64.
const VARINT32_MAX: usize = 5;
const VARINT64_MAX: usize = 10;

/// Appends a little-endian `u32`.
pub fn put_fixed32(dst: &mut Vec<u8>, value: u32) {
    dst.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u64`.
pub fn put_fixed64(dst: &mut Vec<u8>, value: u64) {
    dst.extend_from_slice(&value.to_le_bytes());
}

/// Appends a varint32.
pub fn put_varint32(dst: &mut Vec<u8>, value: u32) {
    put_varint64(dst, u64::from(value));
}

/// Appends a varint64.
pub fn put_varint64(dst: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        dst.push(value as u8 | 0x80);
        value >>= 7;
    }
    dst.push(value as u8);
}

/// Appends a slice behind its length. The slice is shorter than 4 GiB.
pub fn put_slice(dst: &mut Vec<u8>, slice: &[u8]) {
    debug_assert!(u32::try_from(slice.len()).is_ok());
    put_varint32(dst, slice.len() as u32);
    dst.extend_from_slice(slice);
}

/// The bytes that `value` takes as a varint.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The little-endian `u32` at the start of `bytes`, if there are four.
pub fn get_fixed32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// The little-endian `u64` at the start of `bytes`, if there are eight.
pub fn get_fixed64(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|b| u64::from_le_bytes(*b))
}

/// The varint32 at the start of `bytes` and its length. None if it is cut off or does not fit 32 bits.
pub fn get_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (i, &byte) in bytes.iter().take(VARINT32_MAX).enumerate() {
        // Bits beyond the 32nd are dropped, as LevelDB's own decoder does.
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// The varint64 at the start of `bytes` and its length. None if it is cut off or longer than ten bytes.
pub fn get_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(VARINT64_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// A place in some bytes, moving forward. Each method reads one thing or says what is wrong and where.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Where it stands, in bytes from the start.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// One byte.
    pub fn byte(&mut self, what: &str) -> Result<u8, Flaw> {
        let byte = *self.rest().first().ok_or_else(|| self.short(what, 1))?;
        self.at += 1;
        Ok(byte)
    }

    /// A little-endian `u32`.
    pub fn fixed32(&mut self, what: &str) -> Result<u32, Flaw> {
        let value = get_fixed32(self.rest()).ok_or_else(|| self.short(what, 4))?;
        self.at += 4;
        Ok(value)
    }

    /// A little-endian `u64`.
    pub fn fixed64(&mut self, what: &str) -> Result<u64, Flaw> {
        let value = get_fixed64(self.rest()).ok_or_else(|| self.short(what, 8))?;
        self.at += 8;
        Ok(value)
    }

    /// A varint32.
    pub fn varint32(&mut self, what: &str) -> Result<u32, Flaw> {
        let (value, len) = get_varint32(self.rest()).ok_or_else(|| self.bad_varint(what, VARINT32_MAX))?;
        self.at += len;
        Ok(value)
    }

    /// A varint64.
    pub fn varint64(&mut self, what: &str) -> Result<u64, Flaw> {
        let (value, len) = get_varint64(self.rest()).ok_or_else(|| self.bad_varint(what, VARINT64_MAX))?;
        self.at += len;
        Ok(value)
    }

    /// Exactly `len` bytes.
    pub fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Flaw> {
        let taken = self.rest().get(..len).ok_or_else(|| self.short(what, len as u64))?;
        self.at += len;
        Ok(taken)
    }

    /// A slice behind its varint32 length.
    pub fn slice(&mut self, what: &str) -> Result<&'a [u8], Flaw> {
        let len = self.varint32(what)?;
        self.take(len as usize, what)
    }

    fn short(&self, what: &str, need: u64) -> Flaw {
        Flaw::truncated(self.at(), what, self.rest().len() as u64, need)
    }

    fn bad_varint(&self, what: &str, longest: usize) -> Flaw {
        if self.rest().len() < longest {
            return Flaw::new(FlawKind::Truncated, self.at(), "the end of the data", what);
        }
        let found = format!("an integer of more than {longest} bytes");
        Flaw::new(FlawKind::Malformed, self.at(), found, what)
    }
}
