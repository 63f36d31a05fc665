//! The five bytes behind every block of a table.
//!
//! ```text
//!   0        1                5
//!   +--------+----------------+
//!   | codec  | checksum (LE)  |   masked; over the stored block and the codec byte
//!   +--------+----------------+
//! ```

use std::borrow::Cow;

use terrace_sync::mutant;

use crate::block::COPIED_MAX;
use crate::coding::get_fixed32;
use crate::compress;
use crate::crc;
use crate::flaw::Flaw;

/// The bytes of a trailer.
pub const TRAILER_SIZE: usize = 5;

/// The trailer of `stored`, a block that was packed by the codec `id`.
pub(super) fn trailer(stored: &[u8], id: u8) -> [u8; TRAILER_SIZE] {
    let [c0, c1, c2, c3] = checksum(stored, id).to_le_bytes();
    [id, c0, c1, c2, c3]
}

/// The contents of the block that is `stored` with its trailer: the block's size and five bytes more.
///
/// Without `verify` the checksum is not looked at, and the contents may be anything. Flaws are placed from the start
/// of the block. Takes no more memory than the codec's bound for what is stored.
pub fn read_block(stored: &[u8], verify: bool) -> Result<Vec<u8>, Flaw> {
    let (block, id) = take_apart(stored, verify)?;
    compress::unpack(id, block)
}

/// As [`read_block`], where they lie: in `stored`, or unpacked into `memory`, whatever was in it; or in memory of their own if they
/// are large.
pub fn read_block_in<'a>(
    stored: &'a [u8],
    verify: bool,
    memory: &'a mut Vec<u8>,
) -> Result<Cow<'a, [u8]>, Flaw> {
    let (block, id) = take_apart(stored, verify)?;
    if id == compress::NONE.id {
        return Ok(block.into());
    }
    compress::unpack_into(id, block, memory)?;
    // Larger contents are handed over, not lent to be copied.
    Ok(if memory.len() > COPIED_MAX { std::mem::take(memory).into() } else { memory.as_slice().into() })
}

/// The block as it is stored, and its codec's byte.
fn take_apart(stored: &[u8], verify: bool) -> Result<(&[u8], u8), Flaw> {
    let Some((block, &[id, ref checksum_bytes @ ..])) = stored.split_last_chunk::<TRAILER_SIZE>() else {
        return Err(Flaw::truncated(0, "the trailer of a block", stored.len() as u64, TRAILER_SIZE as u64));
    };
    if verify && !mutant!(BlockChecksumNotVerified) {
        // The codec's byte stands behind the block, and is covered.
        let computed = crc::mask(crc::value(&stored[..=block.len()]));
        if let Some(expected) = get_fixed32(checksum_bytes)
            && computed != expected
        {
            return Err(Flaw::checksum(0, computed, expected));
        }
    }
    Ok((block, id))
}

/// The checksum as it is stored.
fn checksum(block: &[u8], id: u8) -> u32 {
    crc::mask(crc::extend(crc::value(block), &[id]))
}
