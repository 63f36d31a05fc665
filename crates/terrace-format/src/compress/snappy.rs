//! Snappy decompression: the raw format, as described in `format_description.txt` of google/snappy.
//!
//! ```text
//!   stored    +-----------------------------------+---------+---------+-- --
//!             | length of the contents (varint32) | element | element | ...
//!             +-----------------------------------+---------+---------+-- --
//!   element   the two low bits of its first byte, the tag, give its kind
//!      0      a literal   of (tag >> 2) + 1 bytes, which follow; if tag >> 2 is 60 to 63,
//!                         1 to 4 bytes (LE) before them store the length minus one
//!      1      a copy      of (tag >> 2 & 7) + 4 bytes from (tag >> 5) << 8 | next byte before
//!      2      a copy      of (tag >> 2) + 1 bytes from u16 (LE) before
//!      3      a copy      of (tag >> 2) + 1 bytes from u32 (LE) before
//! ```
//!
//! Decompression takes half of the time of a get whose block is not cached. The `snap` crate, which
//! compresses, takes twice as long. Most elements have a few bytes, so decoding their lengths costs
//! more than copying. The decoder therefore copies 16 bytes at once, and the next element
//! overwrites the excess. The output has slop bytes after the contents for that.
//! design/0004-reads.md has the figures.

/// Number of bytes after the contents that copies may overwrite. No copy of the format is longer.
pub(super) const SLOP_BYTES: usize = 64;

/// Number of bytes per copy step, if source and destination are at least that far apart.
const COPY_CHUNK: usize = 16;
/// Number of bytes per copy step for closer sources.
const HALF_COPY_CHUNK: usize = 8;

/// Decompresses the elements of `stored` from offset `pos` on into `contents`.
///
/// The last [`SLOP_BYTES`] bytes of `contents` are arbitrary afterwards. Returns `None` if the
/// elements are damaged or decode to another length; then all bytes of `contents` are arbitrary.
pub(super) fn decompress(stored: &[u8], mut pos: usize, contents: &mut [u8]) -> Option<()> {
    let len = contents.len().checked_sub(SLOP_BYTES)?;
    let mut filled = 0;
    while pos < stored.len() && filled <= len {
        // Single bits decide: a `match` compiles to an indirect jump and takes a third more time.
        let tag = stored[pos];
        if tag & 3 == 0 {
            let length = usize::from(tag >> 2) + 1;
            if length <= COPY_CHUNK
                && let Some(chunk) = load::<COPY_CHUNK>(stored, pos + 1)
            {
                store(contents, filled, chunk)?;
                pos += 1 + length;
                filled += length;
            } else {
                let copied = copy_literal(stored, pos, contents, filled)?;
                pos = copied.0;
                filled = copied.1;
            }
            continue;
        }
        let (length, offset);
        if tag & 2 == 0 {
            length = usize::from(tag >> 2 & 7) + 4;
            offset = usize::from(tag >> 5) << 8 | usize::from(*stored.get(pos + 1)?);
            pos += 2;
        } else if tag & 1 == 0 {
            length = usize::from(tag >> 2) + 1;
            offset = usize::from(u16::from_le_bytes(load(stored, pos + 1)?));
            pos += 3;
        } else {
            length = usize::from(tag >> 2) + 1;
            offset = u32::from_le_bytes(load(stored, pos + 1)?) as usize;
            pos += 5;
        }
        let from = filled.checked_sub(offset)?;
        if offset >= COPY_CHUNK {
            copy_chunk::<COPY_CHUNK>(contents, from, filled)?;
            if length > COPY_CHUNK {
                copy_chunk::<COPY_CHUNK>(contents, from + COPY_CHUNK, filled + COPY_CHUNK)?;
                if length > 2 * COPY_CHUNK {
                    copy_chunk::<COPY_CHUNK>(contents, from + 2 * COPY_CHUNK, filled + 2 * COPY_CHUNK)?;
                    copy_chunk::<COPY_CHUNK>(contents, from + 3 * COPY_CHUNK, filled + 3 * COPY_CHUNK)?;
                }
            }
        } else if offset >= HALF_COPY_CHUNK {
            for done in (0..length).step_by(HALF_COPY_CHUNK) {
                copy_chunk::<HALF_COPY_CHUNK>(contents, from + done, filled + done)?;
            }
        } else if offset > 0 {
            for done in 0..length {
                copy_chunk::<1>(contents, from + done, filled + done)?;
            }
        } else {
            return None;
        }
        filled += length;
    }
    (pos == stored.len() && filled == len).then_some(())
}

/// Copies a literal that is long or near the end. Returns the position of the next element and the
/// new filled length.
fn copy_literal(stored: &[u8], pos: usize, contents: &mut [u8], filled: usize) -> Option<(usize, usize)> {
    let length = usize::from(stored.get(pos)? >> 2) + 1;
    let start = pos + 1 + length.saturating_sub(60);
    let length = match stored.get(pos + 1..start)? {
        [] => length,
        bytes => {
            bytes.iter().rev().fold(0usize, |less, byte| less << 8 | usize::from(*byte)).checked_add(1)?
        }
    };
    let end = start.checked_add(length)?;
    let new_filled = filled.checked_add(length)?;
    contents.get_mut(filled..new_filled)?.copy_from_slice(stored.get(start..end)?);
    Some((end, new_filled))
}

#[inline(always)]
fn copy_chunk<const N: usize>(contents: &mut [u8], from: usize, to: usize) -> Option<()> {
    let chunk = load::<N>(contents, from)?;
    store(contents, to, chunk)
}

#[inline(always)]
fn load<const N: usize>(bytes: &[u8], pos: usize) -> Option<[u8; N]> {
    bytes.get(pos..)?.first_chunk().copied()
}

#[inline(always)]
fn store<const N: usize>(bytes: &mut [u8], pos: usize, chunk: [u8; N]) -> Option<()> {
    *bytes.get_mut(pos..)?.first_chunk_mut()? = chunk;
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{SNAPPY, decompress};
    use crate::coding::put_varint32;

    /// Generates an element of any kind with its decoded length. A few are invalid.
    fn element() -> impl Strategy<Value = (Vec<u8>, usize)> {
        let literal = (1..70usize).prop_map(|length| {
            let stored_len = length as u8 - 1;
            let tag = if stored_len < 60 { vec![stored_len << 2] } else { vec![60 << 2, stored_len] };
            ([tag, (0..length as u8).collect()].concat(), length)
        });
        let copy = (1..4u8, 1..65u8, 0..70u8).prop_map(|(kind, length, offset)| match kind {
            1 => (vec![(length % 8) << 2 | 1, offset], usize::from(length % 8) + 4),
            2 => (vec![(length - 1) << 2 | 2, offset, 0], usize::from(length)),
            _ => (vec![(length - 1) << 2 | 3, offset, 0, 0, 0], usize::from(length)),
        });
        let invalid = proptest::collection::vec(any::<u8>(), 1..6).prop_map(|bytes| (bytes, 1));
        prop_oneof![30 => literal, 60 => copy, 1 => invalid]
    }

    proptest! {
        #[test]
        fn decompresses_like_the_snap_crate(
            mut elements in proptest::collection::vec(element(), 0..40),
            extra_len in prop_oneof![8 => Just(0usize), 1 => 1usize..70],
            cut in prop_oneof![8 => Just(0usize), 1 => 1usize..9],
        ) {
            // The first element provides bytes to copy.
            elements.insert(0, ([vec![60 << 2, 69], (0..70).collect()].concat(), 70));
            let length = extra_len + elements.iter().map(|(_, length)| length).sum::<usize>();
            let mut stored = Vec::new();
            put_varint32(&mut stored, length as u32);
            for (bytes, _) in &elements {
                stored.extend_from_slice(bytes);
            }
            stored.truncate(stored.len().saturating_sub(cut));
            let expected = snap::raw::Decoder::new().decompress_vec(&stored);
            prop_assert_eq!(decompress(SNAPPY.id, &stored).ok(), expected.ok());
        }
    }
}
