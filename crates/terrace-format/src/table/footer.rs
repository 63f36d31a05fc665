//! Last 48 bytes of a table.

use super::BlockHandle;
use crate::coding::get_fixed64;
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Size of a footer, in bytes.
pub const FOOTER_SIZE: usize = 48;

/// Magic number at the end of every table.
pub const TABLE_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Offset of the magic number in the footer. Two handles of maximum length fit before it.
const TABLE_MAGIC_OFFSET: usize = 40;

/// Handles of the two blocks that lead to all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Block that maps names to blocks.
    pub metaindex: BlockHandle,
    /// Block that maps separators to data blocks.
    pub index: BlockHandle,
}

impl Footer {
    /// Returns the stored form.
    pub fn encode(&self) -> [u8; FOOTER_SIZE] {
        let mut handles = Vec::with_capacity(FOOTER_SIZE);
        self.metaindex.encode(&mut handles);
        self.index.encode(&mut handles);
        let mut footer = [0; FOOTER_SIZE];
        footer[..handles.len()].copy_from_slice(&handles);
        footer[TABLE_MAGIC_OFFSET..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
        footer
    }

    /// Decodes the footer from `bytes`, the end of a file of `file_len` bytes, and checks that both
    /// blocks lie before it.
    ///
    /// Errors have offsets within the file. Bytes between the handles and the magic number are
    /// ignored.
    pub fn decode(bytes: &[u8], file_len: u64) -> Result<Footer, DecodeError> {
        let Some(footer) = bytes.last_chunk::<FOOTER_SIZE>() else {
            return Err(DecodeError::truncated(
                0,
                "the footer of a table",
                bytes.len() as u64,
                FOOTER_SIZE as u64,
            ));
        };
        let Some(limit) = file_len.checked_sub(FOOTER_SIZE as u64) else {
            return Err(DecodeError::truncated(0, "the footer of a table", file_len, FOOTER_SIZE as u64));
        };
        Footer::decode_within(footer, limit).map_err(|error| error.offset_by(limit))
    }

    fn decode_within(footer: &[u8; FOOTER_SIZE], limit: u64) -> Result<Footer, DecodeError> {
        let (handles, magic) = footer.split_at(TABLE_MAGIC_OFFSET);
        if get_fixed64(magic) != Some(TABLE_MAGIC) {
            let found = format!("magic {}", hex(magic));
            return Err(DecodeError::new(
                DecodeErrorKind::Unknown,
                TABLE_MAGIC_OFFSET as u64,
                found,
                hex(&TABLE_MAGIC.to_le_bytes()),
            ));
        }
        let (metaindex, index_offset) = handle_at(handles, 0, limit)?;
        let (index, _) = handle_at(handles, index_offset, limit)?;
        Ok(Footer { metaindex, index })
    }
}

/// Decodes and checks the handle at `offset`. Also returns its encoded size.
fn handle_at(handles: &[u8], offset: usize, limit: u64) -> Result<(BlockHandle, usize), DecodeError> {
    let checked = BlockHandle::decode(&handles[offset..]).and_then(|(handle, used)| {
        handle.check(limit)?;
        Ok((handle, used))
    });
    checked.map_err(|error| error.offset_by(offset as u64))
}

/// Formats bytes in the order of the file.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
