//! Decoding of one entry of a block. Nothing here copies a key.

use std::ops::Range;

use terrace_sync::mutant;

use crate::coding::get_varint32;
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Encoded entry. The value follows the key suffix.
#[derive(Debug, Clone)]
pub(super) struct EncodedEntry {
    pub(super) shared: usize,
    pub(super) key_delta: Range<usize>,
    pub(super) value_end: usize,
}

/// Decodes the entry at `offset` if it lies completely within `entries`.
#[inline]
pub(super) fn decode_entry(entries: &[u8], offset: usize) -> Option<EncodedEntry> {
    let head = entries.get(offset..)?;
    let (shared, unshared, value_len, used) = match *head {
        // Nearly all lengths take one byte each.
        [a, b, c, ..] if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), 3),
        _ => decode_lengths(head)?,
    };
    let key_start = offset + used;
    let key_end = key_start.checked_add(unshared as usize)?;
    let mut value_end = key_end.checked_add(value_len as usize)?;
    if mutant!(BlockEntryEndOverflow) {
        value_end = (key_end as u32).wrapping_add(value_len) as usize;
    }
    let is_complete = value_end <= entries.len();
    is_complete.then_some(EncodedEntry { shared: shared as usize, key_delta: key_start..key_end, value_end })
}

/// Decodes three varint32 lengths. The last number is the count of bytes that they take.
fn decode_lengths(head: &[u8]) -> Option<(u32, u32, u32, usize)> {
    let (shared, a) = get_varint32(head)?;
    let (unshared, b) = get_varint32(&head[a..])?;
    let (value_len, c) = get_varint32(&head[a + b..])?;
    Some((shared, unshared, value_len, a + b + c))
}

/// Describes the damage of the entry at `offset`, after a key of `known` bytes.
#[cold]
pub(super) fn entry_error(entries: &[u8], offset: usize, known: usize) -> DecodeError {
    let Some((shared, unshared, value_len, used)) = entries.get(offset..).and_then(decode_lengths) else {
        return DecodeError::new(
            DecodeErrorKind::Truncated,
            offset as u64,
            "the end of the entries",
            "three lengths",
        );
    };
    if shared as usize > known {
        let found = format!("a key that shares {shared} bytes");
        return DecodeError::new(
            DecodeErrorKind::OutOfBounds,
            offset as u64,
            found,
            format!("at most {known}"),
        );
    }
    let needed = u64::from(unshared) + u64::from(value_len);
    let found = (entries.len() - offset - used) as u64;
    DecodeError::truncated(offset as u64, "a key and its value", found, needed)
}
