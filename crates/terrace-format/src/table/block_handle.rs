//! Where a block is in its file.
//!
//! ```text
//!   +--------+------+
//!   | offset | size |   varint64 each; the trailer behind the block does not count
//!   +--------+------+
//! ```

use terrace_sync::mutant;

use super::BLOCK_TRAILER_SIZE;
use crate::coding::{SliceDecoder, put_varint64};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// The place of a block. What was decoded may lie anywhere until [`check`](BlockHandle::check)ed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHandle {
    /// Where the block begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its bytes as stored, without the trailer.
    pub size: u64,
}

impl BlockHandle {
    /// Appends the handle, 2 to 20 bytes.
    pub fn encode(&self, dst: &mut Vec<u8>) {
        put_varint64(dst, self.offset);
        put_varint64(dst, self.size);
    }

    /// The handle at the start of `bytes`, and how many of them it takes. More may follow: that is left to the caller.
    pub fn decode(bytes: &[u8]) -> Result<(BlockHandle, usize), DecodeError> {
        let mut cursor = SliceDecoder::new(bytes);
        let offset = cursor.varint64("the offset of a block")?;
        let size = cursor.varint64("the size of a block")?;
        Ok((BlockHandle { offset, size }, bytes.len() - cursor.remaining().len()))
    }

    /// Fails unless the block and its trailer lie in the first `limit` bytes of the file: those before the footer.
    pub fn check(&self, limit: u64) -> Result<(), DecodeError> {
        let end =
            self.size.checked_add(BLOCK_TRAILER_SIZE as u64).and_then(|size| size.checked_add(self.offset));
        let wrapped = self.size.wrapping_add(BLOCK_TRAILER_SIZE as u64).wrapping_add(self.offset);
        if end.is_some_and(|end| end <= limit) || mutant!(BlockHandleEndOverflow) && wrapped <= limit {
            return Ok(());
        }
        let found = format!("a block at {} of {} bytes and its trailer", self.offset, self.size);
        Err(DecodeError::new(DecodeErrorKind::OutOfBounds, 0, found, format!("an end at {limit} or before")))
    }
}
