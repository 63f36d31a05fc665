//! The last 48 bytes of a table.
//!
//! ```text
//!   0                                            40         48
//!   +------------------+--------------+----------+----------+
//!   | metaindex handle | index handle | zeros    | magic    |   magic: u64, little-endian
//!   +------------------+--------------+----------+----------+
//! ```

use super::BlockHandle;
use crate::coding::get_fixed64;
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// The bytes of a footer.
pub const FOOTER_SIZE: usize = 48;

/// What every table ends with.
pub const TABLE_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Where the magic begins: two of the longest handles fit before it.
const TABLE_MAGIC_OFFSET: usize = 40;

/// Where the two blocks are that lead to all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// The block of named blocks.
    pub metaindex: BlockHandle,
    /// The block of data blocks.
    pub index: BlockHandle,
}

impl Footer {
    /// The stored bytes.
    pub fn encode(&self) -> [u8; FOOTER_SIZE] {
        let mut handles = Vec::with_capacity(FOOTER_SIZE);
        self.metaindex.encode(&mut handles);
        self.index.encode(&mut handles);
        let mut footer = [0; FOOTER_SIZE];
        footer[..handles.len()].copy_from_slice(&handles);
        footer[TABLE_MAGIC_OFFSET..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
        footer
    }

    /// From `bytes`, the end of a file of `file_len` bytes. Both blocks lie in the file, before the footer.
    ///
    /// Flaws are placed in the file. What stands between the handles and the magic is ignored.
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
        let (metaindex, used) = handle_at(handles, 0, limit)?;
        let (index, _) = handle_at(handles, used, limit)?;
        Ok(Footer { metaindex, index })
    }
}

fn handle_at(handles: &[u8], at: usize, limit: u64) -> Result<(BlockHandle, usize), DecodeError> {
    let checked = BlockHandle::decode(&handles[at..]).and_then(|(handle, used)| {
        handle.check(limit)?;
        Ok((handle, used))
    });
    checked.map_err(|error| error.offset_by(at as u64))
}

/// Bytes in the order of the file.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
