//! Unpacks Snappy's raw format, as `format_description.txt` of google/snappy has it.
//!
//! ```text
//!   stored    +-----------------------------------+---------+---------+-- --
//!             | length of the contents (varint32) | element | element | ...
//!             +-----------------------------------+---------+---------+-- --
//!   element   its first byte, the tag, tells by its two low bits what it is
//!      0      a literal   of (tag >> 2) + 1 bytes, which follow; where tag >> 2 is 60 to 63, 1 to 4 bytes (LE) stand
//!                         before them, and tell one less than how many there are
//!      1      a copy      of (tag >> 2 & 7) + 4 bytes from (tag >> 5) << 8 | next byte before
//!      2      a copy      of (tag >> 2) + 1 bytes from u16 (LE) before
//!      3      a copy      of (tag >> 2) + 1 bytes from u32 (LE) before
//! ```
//!
//! That is half of the time of a look-up whose block is not cached, and twice what it need be with the `snap` crate, which packs.
//! Most elements are of some bytes: what costs is to find out how many, not to move them. So sixteen are moved at once, wanted or
//! not, and what comes next writes over the rest, for which there is room behind the contents. design/0004-reads.md has the figures.

/// So many bytes stand behind the contents, to be written over. No copy is longer.
pub(super) const SLOP_BYTES: usize = 64;

/// What is moved at once, of what does not stand nearer than that to where it goes; and of what stands no nearer than half of it.
const COPY_CHUNK: usize = 16;
const HALF_COPY_CHUNK: usize = 8;

/// Unpacks the elements of `stored`, which begin at `at`, into `contents`, of which the last [`SLOP_BYTES`] bytes are arbitrary then.
/// None if they are damaged, or make less or more: then all bytes are.
pub(super) fn decompress(stored: &[u8], at: usize, contents: &mut [u8]) -> Option<()> {
    let len = contents.len().checked_sub(SLOP_BYTES)?;
    let (mut at, mut filled) = (at, 0);
    while at < stored.len() && filled <= len {
        // Bit by bit: a `match` becomes a jump that depends on memory, and takes a third more time.
        let tag = stored[at];
        if tag & 3 == 0 {
            let length = usize::from(tag >> 2) + 1;
            if length <= COPY_CHUNK
                && let Some(chunk) = load::<COPY_CHUNK>(stored, at + 1)
            {
                store(contents, filled, chunk)?;
                (at, filled) = (at + 1 + length, filled + length);
            } else {
                (at, filled) = copy_literal(stored, at, contents, filled)?;
            }
            continue;
        }
        let (length, offset);
        if tag & 2 == 0 {
            length = usize::from(tag >> 2 & 7) + 4;
            offset = usize::from(tag >> 5) << 8 | usize::from(*stored.get(at + 1)?);
            at += 2;
        } else if tag & 1 == 0 {
            length = usize::from(tag >> 2) + 1;
            offset = usize::from(u16::from_le_bytes(load(stored, at + 1)?));
            at += 3;
        } else {
            length = usize::from(tag >> 2) + 1;
            offset = u32::from_le_bytes(load(stored, at + 1)?) as usize;
            at += 5;
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
    (at == stored.len() && filled == len).then_some(())
}

/// A literal at `at` that is long, or near the end. Says where the next element is, and how much is filled then.
fn copy_literal(stored: &[u8], at: usize, contents: &mut [u8], filled: usize) -> Option<(usize, usize)> {
    let length = usize::from(stored.get(at)? >> 2) + 1;
    let start = at + 1 + length.saturating_sub(60);
    let length = match stored.get(at + 1..start)? {
        [] => length,
        bytes => {
            bytes.iter().rev().fold(0usize, |less, byte| less << 8 | usize::from(*byte)).checked_add(1)?
        }
    };
    let (end, more) = (start.checked_add(length)?, filled.checked_add(length)?);
    contents.get_mut(filled..more)?.copy_from_slice(stored.get(start..end)?);
    Some((end, more))
}

#[inline(always)]
fn copy_chunk<const N: usize>(contents: &mut [u8], from: usize, to: usize) -> Option<()> {
    let chunk = load::<N>(contents, from)?;
    store(contents, to, chunk)
}

#[inline(always)]
fn load<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[inline(always)]
fn store<const N: usize>(bytes: &mut [u8], at: usize, chunk: [u8; N]) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = chunk;
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{SNAPPY, decompress};
    use crate::coding::put_varint32;

    /// An element of any kind, and how many bytes it makes. A few are none.
    fn element() -> impl Strategy<Value = (Vec<u8>, usize)> {
        let literal = (1..70usize).prop_map(|length| {
            let less = length as u8 - 1;
            let tag = if less < 60 { vec![less << 2] } else { vec![60 << 2, less] };
            ([tag, (0..length as u8).collect()].concat(), length)
        });
        let copy = (1..4u8, 1..65u8, 0..70u8).prop_map(|(kind, length, offset)| match kind {
            1 => (vec![(length % 8) << 2 | 1, offset], usize::from(length % 8) + 4),
            2 => (vec![(length - 1) << 2 | 2, offset, 0], usize::from(length)),
            _ => (vec![(length - 1) << 2 | 3, offset, 0, 0, 0], usize::from(length)),
        });
        let odd = proptest::collection::vec(any::<u8>(), 1..6).prop_map(|bytes| (bytes, 1));
        prop_oneof![30 => literal, 60 => copy, 1 => odd]
    }

    proptest! {
        #[test]
        fn decompresses_like_the_snap_crate(
            elements in proptest::collection::vec(element(), 0..40),
            wrong in prop_oneof![8 => Just(0usize), 1 => 1usize..70],
            cut in prop_oneof![8 => Just(0usize), 1 => 1usize..9],
        ) {
            // Something to copy from.
            let mut elements = elements;
            elements.insert(0, ([vec![60 << 2, 69], (0..70).collect()].concat(), 70));
            let length = wrong + elements.iter().map(|(_, length)| length).sum::<usize>();
            let mut stored = Vec::new();
            put_varint32(&mut stored, length as u32);
            elements.iter().for_each(|(bytes, _)| stored.extend_from_slice(bytes));
            stored.truncate(stored.len().saturating_sub(cut));
            let theirs = snap::raw::Decoder::new().decompress_vec(&stored);
            prop_assert_eq!(decompress(SNAPPY.id, &stored).ok(), theirs.ok());
        }
    }
}
