//! Trailer of a block: the five bytes after every block of a table.
//!
//! ```text
//!   0        1                5
//!   +--------+----------------+
//!   | codec  | checksum (LE)  |   masked; covers the stored block and the codec byte
//!   +--------+----------------+
//! ```

use std::borrow::Cow;

use terrace_sync::mutant;

use crate::block::COPIED_MAX;
use crate::coding::get_fixed32;
use crate::compress::{self, Codec};
use crate::crc;
use crate::decode_error::DecodeError;

/// Size of a trailer, in bytes.
pub const BLOCK_TRAILER_SIZE: usize = 5;

/// Returns the trailer of `stored`, a block in the form of codec `id`.
pub(super) fn encode_block_trailer(stored: &[u8], id: u8) -> [u8; BLOCK_TRAILER_SIZE] {
    let [c0, c1, c2, c3] = block_checksum(stored, id).to_le_bytes();
    [id, c0, c1, c2, c3]
}

/// Decompresses `stored`, a block with its trailer: the block's size and five bytes more.
///
/// Without `verify` the checksum is ignored, and the contents may be arbitrary. Errors have offsets
/// from the start of the block. The codec bounds the memory use by the stored size.
pub fn read_block(stored: &[u8], verify: bool) -> Result<Vec<u8>, DecodeError> {
    let (block, id) = split_block_trailer(stored, verify)?;
    compress::decompress(id, block)
}

/// Decompresses a block like [`read_block`] without a copy of uncompressed contents.
///
/// The result borrows `stored`, or `memory`, whose old contents are lost. Large decompressed
/// contents are owned.
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
    // The cache takes ownership of large contents instead of a copy.
    Ok(if memory.len() > COPIED_MAX { std::mem::take(memory).into() } else { memory.as_slice().into() })
}

/// Returns the codec of `stored`, a block with its trailer, after a check of the checksum. The
/// codec need not be compiled in.
pub fn codec_of_stored_block(stored: &[u8]) -> Result<&'static Codec, DecodeError> {
    let (block, id) = split_block_trailer(stored, true)?;
    compress::codec_of_block(id, block)
}

/// Returns the contents of `stored`, a block with its trailer, if the block is not compressed,
/// after a check of the checksum. Returns `None` for a compressed block.
pub fn uncompressed_block(stored: &[u8]) -> Option<Result<&[u8], DecodeError>> {
    let (_, [id, ..]) = stored.split_last_chunk::<BLOCK_TRAILER_SIZE>()?;
    let is_uncompressed = *id == compress::NO_COMPRESSION.id;
    is_uncompressed.then(|| split_block_trailer(stored, true).map(|(block, _)| block))
}

/// Checks the trailer and returns the stored block and its codec byte.
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
        // The checksum covers the codec byte, which follows the block.
        let computed = crc::mask(crc::value(&stored[..=block.len()]));
        if let Some(expected) = get_fixed32(checksum_bytes)
            && computed != expected
        {
            return Err(DecodeError::checksum_mismatch(0, computed, expected));
        }
    }
    Ok((block, id))
}

/// Returns the stored checksum of a block.
fn block_checksum(block: &[u8], id: u8) -> u32 {
    crc::mask(crc::extend(crc::value(block), &[id]))
}
