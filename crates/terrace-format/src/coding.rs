//! Integers and length-prefixed slices in LevelDB's encoding.
//!
//! ```text
//!   fixed32, fixed64   little-endian
//!   varint32, varint64 7 bits per byte, low bits first; the high bit is clear in the last byte
//!                      at most 5 / 10 bytes
//!   slice              varint32 length, then the bytes
//! ```

use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Maximum size of a varint32, in bytes.
pub(crate) const MAX_VARINT32_LEN: usize = 5;
/// Maximum size of a varint64, in bytes.
const MAX_VARINT64_LEN: usize = 10;

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
#[inline]
pub fn put_varint64(dst: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        dst.push(value as u8 | 0x80);
        value >>= 7;
    }
    dst.push(value as u8);
}

/// Appends the length of a slice, and then the slice. Panics if it has 4 GiB or more, because a
/// length cut to 32 bits would be corruption.
#[inline]
pub fn put_length_prefixed_slice(dst: &mut Vec<u8>, slice: &[u8]) {
    // Slices come from batches and blocks, which accept only shorter ones.
    put_varint32(dst, u32::try_from(slice.len()).expect("slices are shorter than 4 GiB"));
    dst.extend_from_slice(slice);
}

/// Returns the size of `value` as a varint, in bytes.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Returns the little-endian `u32` at the start of `bytes`, if there are four.
pub fn get_fixed32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// Returns the little-endian `u64` at the start of `bytes`, if there are eight.
pub fn get_fixed64(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|b| u64::from_le_bytes(*b))
}

/// Returns the varint32 at the start of `bytes` and its size. Returns `None` if it is truncated or
/// longer than five bytes.
pub fn get_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (i, &byte) in bytes.iter().take(MAX_VARINT32_LEN).enumerate() {
        // LevelDB's decoder drops bits beyond the 32nd, too.
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Returns the varint64 at the start of `bytes` and its size. Returns `None` if it is truncated or
/// longer than ten bytes.
pub fn get_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_VARINT64_LEN).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Cursor over encoded bytes. Each method decodes one item, or describes the error with its offset.
/// The parameter `field` names the item in errors.
#[derive(Debug, Clone)]
pub struct SliceDecoder<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> SliceDecoder<'a> {
    /// Creates a decoder at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> SliceDecoder<'a> {
        SliceDecoder { bytes, offset: 0 }
    }

    /// Returns the position, in bytes from the start.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Returns the remaining bytes.
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    /// Returns true if no bytes remain.
    pub fn is_empty(&self) -> bool {
        self.offset == self.bytes.len()
    }

    /// Decodes one byte.
    pub fn byte(&mut self, field: &str) -> Result<u8, DecodeError> {
        let byte = *self.remaining().first().ok_or_else(|| self.truncated(field, 1))?;
        self.offset += 1;
        Ok(byte)
    }

    /// Decodes a little-endian `u32`.
    pub fn fixed32(&mut self, field: &str) -> Result<u32, DecodeError> {
        let value = get_fixed32(self.remaining()).ok_or_else(|| self.truncated(field, 4))?;
        self.offset += 4;
        Ok(value)
    }

    /// Decodes a little-endian `u64`.
    pub fn fixed64(&mut self, field: &str) -> Result<u64, DecodeError> {
        let value = get_fixed64(self.remaining()).ok_or_else(|| self.truncated(field, 8))?;
        self.offset += 8;
        Ok(value)
    }

    /// Decodes a varint32.
    pub fn varint32(&mut self, field: &str) -> Result<u32, DecodeError> {
        let (value, len) =
            get_varint32(self.remaining()).ok_or_else(|| self.bad_varint(field, MAX_VARINT32_LEN))?;
        self.offset += len;
        Ok(value)
    }

    /// Decodes a varint64.
    pub fn varint64(&mut self, field: &str) -> Result<u64, DecodeError> {
        let (value, len) =
            get_varint64(self.remaining()).ok_or_else(|| self.bad_varint(field, MAX_VARINT64_LEN))?;
        self.offset += len;
        Ok(value)
    }

    /// Returns the next `len` bytes.
    pub fn take_bytes(&mut self, len: usize, field: &str) -> Result<&'a [u8], DecodeError> {
        let taken = self.remaining().get(..len).ok_or_else(|| self.truncated(field, len as u64))?;
        self.offset += len;
        Ok(taken)
    }

    /// Decodes a slice with a varint32 length.
    #[inline]
    pub fn length_prefixed_slice(&mut self, field: &str) -> Result<&'a [u8], DecodeError> {
        // Most lengths are varints of one byte.
        if let Some((len @ 0..0x80, rest)) = self.remaining().split_first()
            && let Some(taken) = rest.get(..usize::from(*len))
        {
            self.offset += 1 + usize::from(*len);
            return Ok(taken);
        }
        let len = self.varint32(field)?;
        self.take_bytes(len as usize, field)
    }

    fn truncated(&self, field: &str, need: u64) -> DecodeError {
        DecodeError::truncated(self.offset(), field, self.remaining().len() as u64, need)
    }

    fn bad_varint(&self, field: &str, max_len: usize) -> DecodeError {
        if self.remaining().len() < max_len {
            return DecodeError::new(DecodeErrorKind::Truncated, self.offset(), "the end of the data", field);
        }
        let found = format!("an integer of more than {max_len} bytes");
        DecodeError::new(DecodeErrorKind::Malformed, self.offset(), found, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint64(&mut bytes, value);
        bytes
    }

    #[test]
    fn fixed_integers_are_little_endian() {
        let mut bytes = Vec::new();
        put_fixed32(&mut bytes, 0x0403_0201);
        put_fixed64(&mut bytes, 0x0c0b_0a09_0807_0605);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(get_fixed32(&bytes), Some(0x0403_0201));
        assert_eq!(get_fixed64(&bytes[4..]), Some(0x0c0b_0a09_0807_0605));
        assert_eq!(get_fixed32(&bytes[..3]), None);
        assert_eq!(get_fixed64(&bytes[..7]), None);
    }

    #[test]
    fn varints() {
        let rows: &[(u64, &[u8])] = &[
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 0x01]),
            (u32::MAX.into(), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (1 << 63, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ];
        for (value, bytes) in rows {
            assert_eq!(varint(*value), *bytes);
            assert_eq!(get_varint64(bytes), Some((*value, bytes.len())));
        }
    }

    #[test]
    fn varints_cut_off() {
        for cut in 0..10 {
            assert_eq!(get_varint64(&varint(u64::MAX)[..cut]), None, "{cut} bytes");
        }
        for cut in 0..5 {
            assert_eq!(get_varint32(&varint(u32::MAX.into())[..cut]), None, "{cut} bytes");
        }
    }

    // Same results as LevelDB's decoder.
    #[test]
    fn overlong_varints() {
        assert_eq!(get_varint32(&[0x80, 0x00]), Some((0, 2)), "a zero in two bytes");
        assert_eq!(
            get_varint32(&[0xff, 0xff, 0xff, 0xff, 0x7f]),
            Some((u32::MAX, 5)),
            "bits beyond the 32nd"
        );
        assert_eq!(
            get_varint32(&[0xff, 0xff, 0xff, 0xff, 0x10]),
            Some((0x0fff_ffff, 5)),
            "only bits beyond the 32nd"
        );
        assert_eq!(get_varint32(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), None, "a sixth byte");
        let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(get_varint64(&ten), Some((u64::MAX, 10)), "bits beyond the 64th");
        assert_eq!(get_varint64(&[0x80; 11]), None, "an eleventh byte");
    }

    #[track_caller]
    fn check(read: Result<impl std::fmt::Debug, DecodeError>, offset: u64, expect: &str) {
        let error = read.expect_err("an error");
        assert_eq!((error.offset, error.to_string().as_str()), (offset, expect));
    }

    #[test]
    fn decoder_errors_name_the_field_and_offset() {
        let after_one = |bytes: &'static [u8]| {
            let mut decoder = SliceDecoder::new(bytes);
            decoder.byte("the first byte").unwrap();
            decoder
        };
        check(SliceDecoder::new(b"").byte("a tag"), 0, "0 bytes, expected 1 for a tag");
        check(after_one(b"\0\x01").fixed32("a count"), 1, "1 bytes, expected 4 for a count");
        check(after_one(b"\0\x01").fixed64("a number"), 1, "1 bytes, expected 8 for a number");
        check(after_one(b"\0\x80").varint32("a level"), 1, "the end of the data, expected a level");
        check(
            after_one(b"\0\x80\x80\x80\x80\x80").varint64("a size"),
            1,
            "the end of the data, expected a size",
        );
        check(
            after_one(&[0x80; 6]).varint32("a level"),
            1,
            "an integer of more than 5 bytes, expected a level",
        );
        check(
            after_one(&[0x80; 11]).varint64("a size"),
            1,
            "an integer of more than 10 bytes, expected a size",
        );
        check(after_one(b"\0\x05abcd").length_prefixed_slice("a key"), 2, "4 bytes, expected 5 for a key");
        check(
            after_one(b"\0ab").take_bytes(usize::MAX, "a key"),
            1,
            &format!("2 bytes, expected {} for a key", u64::MAX),
        );
        check(
            after_one(b"\0\xff\xff\xff\xff\x0fab").length_prefixed_slice("a key"),
            6,
            "2 bytes, expected 4294967295 for a key",
        );
    }

    #[test]
    fn decoder_reads_to_the_end() {
        let mut decoder = SliceDecoder::new(b"\x02hi\x07!");
        assert_eq!(decoder.length_prefixed_slice("a slice"), Ok(&b"hi"[..]));
        assert_eq!((decoder.byte("a byte"), decoder.offset(), decoder.remaining()), (Ok(7), 4, &b"!"[..]));
        assert!(!decoder.is_empty());
        assert_eq!(decoder.take_bytes(1, "the rest"), Ok(&b"!"[..]));
        assert!(decoder.is_empty());
    }

    proptest! {
        #[test]
        fn round_trips(small in any::<u32>(), shift in 0u32..64, value in any::<u64>(), slice in any::<Vec<u8>>()) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint32(&mut bytes, small);
            put_varint64(&mut bytes, value);
            put_length_prefixed_slice(&mut bytes, &slice);
            prop_assert_eq!(bytes.len(), varint_len(small.into()) + varint_len(value) + varint_len(slice.len() as u64) + slice.len());
            let mut decoder = SliceDecoder::new(&bytes);
            prop_assert_eq!(decoder.varint32("a"), Ok(small));
            prop_assert_eq!(decoder.varint64("b"), Ok(value));
            prop_assert_eq!(decoder.length_prefixed_slice("c"), Ok(&slice[..]));
            prop_assert!(decoder.is_empty());
        }
    }
}
