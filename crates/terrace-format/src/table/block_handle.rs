//! Position of a block in its file.
//!
//! ```text
//!   +--------+------+
//!   | offset | size |   varint64 each; the size does not include the trailer
//!   +--------+------+
//! ```

use terrace_sync::mutant;

use super::BLOCK_TRAILER_SIZE;
use crate::coding::{SliceDecoder, put_varint64};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Position of a block. A decoded handle may point anywhere until [`check`](BlockHandle::check).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHandle {
    /// Offset of the block from the start of the file, in bytes.
    pub offset: u64,
    /// Stored size of the block without its trailer, in bytes.
    pub size: u64,
}

impl BlockHandle {
    /// Appends the encoded handle, 2 to 20 bytes.
    pub fn encode(&self, dst: &mut Vec<u8>) {
        put_varint64(dst, self.offset);
        put_varint64(dst, self.size);
    }

    /// Decodes the handle at the start of `bytes` and returns its encoded size too. More bytes may
    /// follow.
    pub fn decode(bytes: &[u8]) -> Result<(BlockHandle, usize), DecodeError> {
        let mut decoder = SliceDecoder::new(bytes);
        let offset = decoder.varint64("the offset of a block")?;
        let size = decoder.varint64("the size of a block")?;
        Ok((BlockHandle { offset, size }, bytes.len() - decoder.remaining().len()))
    }

    /// Checks that the block and its trailer lie within the first `limit` bytes of the file, before
    /// the footer.
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
