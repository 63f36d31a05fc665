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
use crate::decode_error::DecodeError;

/// The bytes of a trailer.
pub const BLOCK_TRAILER_SIZE: usize = 5;

/// The trailer of `stored`, a block that was packed by the codec `id`.
pub(super) fn encode_block_trailer(stored: &[u8], id: u8) -> [u8; BLOCK_TRAILER_SIZE] {
    let [c0, c1, c2, c3] = block_checksum(stored, id).to_le_bytes();
    [id, c0, c1, c2, c3]
}

/// The contents of the block that is `stored` with its trailer: the block's size and five bytes more.
///
/// Without `verify` the checksum is not looked at, and the contents may be anything. Flaws are placed from the start
/// of the block. Takes no more memory than the codec's bound for what is stored.
pub fn read_block(stored: &[u8], verify: bool) -> Result<Vec<u8>, DecodeError> {
    let (block, id) = split_block_trailer(stored, verify)?;
    compress::decompress(id, block)
}

/// As [`read_block`], where they lie: in `stored`, or unpacked into `memory`, whatever was in it; or in memory of their own if they
/// are large.
pub fn read_block_cow<'a>(
    stored: &'a [u8],
    verify: bool,
    memory: &'a mut Vec<u8>,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let (block, id) = split_block_trailer(stored, verify)?;
    if id == compress::NO_COMPRESSION.id {
        return Ok(block.into());
    }
    compress::decompress_into(id, block, memory)?;
    // Larger contents are handed over, not lent to be copied.
    Ok(if memory.len() > COPIED_MAX { std::mem::take(memory).into() } else { memory.as_slice().into() })
}

/// The block as it is stored, and its codec's byte.
fn split_block_trailer(stored: &[u8], verify: bool) -> Result<(&[u8], u8), DecodeError> {
    let Some((block, &[id, ref checksum_bytes @ ..])) = stored.split_last_chunk::<BLOCK_TRAILER_SIZE>()
    else {
        return Err(DecodeError::truncated(
            0,
            "the trailer of a block",
            stored.len() as u64,
            BLOCK_TRAILER_SIZE as u64,
        ));
    };
    if verify && !mutant!(BlockChecksumNotVerified) {
        // The codec's byte stands behind the block, and is covered.
        let computed = crc::mask(crc::value(&stored[..=block.len()]));
        if let Some(expected) = get_fixed32(checksum_bytes)
            && computed != expected
        {
            return Err(DecodeError::checksum_mismatch(0, computed, expected));
        }
    }
    Ok((block, id))
}

/// The checksum as it is stored.
fn block_checksum(block: &[u8], id: u8) -> u32 {
    crc::mask(crc::extend(crc::value(block), &[id]))
}
