//! Reading of one block of a table file.
//!
//! ```text
//!   handle --> file, mapped or read --> checksum --> decompression --> contents
//! ```
//!
//! The functions of this module know no cache. Every error names the file.

use std::borrow::Cow;
use std::path::Path;

use terrace_env::{RandomAccessFile, prefetch};
use terrace_format::block::Block;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, read_block_cow};
use terrace_format::{DecodeError, DecodeErrorKind};

use super::block_pool;
use crate::error::{Error, Result};

pub(crate) fn read_footer(file: &dyn RandomAccessFile, path: &Path) -> Result<Footer> {
    let length = file.len();
    let Some(at) = length.checked_sub(FOOTER_SIZE as u64) else {
        return Err(Error::from_decode_error(
            path,
            &DecodeError::truncated(0, "a table's footer", length, FOOTER_SIZE as u64),
        ));
    };
    let mut bytes = [0; FOOTER_SIZE];
    read_exact_at(file, path, at, &mut bytes)?;
    Footer::decode(&bytes, length).map_err(|flaw| Error::from_decode_error(path, &flaw))
}

/// Reads, verifies and unpacks a block.
pub(crate) fn read_block(file: &dyn RandomAccessFile, path: &Path, handle: BlockHandle) -> Result<Block> {
    read_block_with(file, path, handle, |contents| Block::copy_of(contents, Vec::new()))
}

/// As [`fetch`], of whatever it has the contents.
pub(crate) fn read_block_bytes(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<Vec<u8>> {
    read_block_with(file, path, handle, |contents| Ok(contents.into_owned()))
}

/// A block of the usual size is not larger as it is stored, in bytes.
const PREFETCH_STORED_BYTES: usize = 4 << 10;

/// Reads and verifies a block, and returns the result of `make` on its decompressed contents.
pub(super) fn read_block_with<T>(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
    make: impl FnOnce(Cow<'_, [u8]>) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    // Before the allocation: a handle that does not fit the file can't make us allocate more than the file.
    handle
        .check(file.len().saturating_sub(FOOTER_SIZE as u64))
        .map_err(|flaw| Error::from_decode_error(path, &flaw))?;
    let stored = handle.size as usize + BLOCK_TRAILER_SIZE;
    let unpack = |bytes: &[u8]| {
        block_pool::with_decompression_buffer(|memory| read_block_cow(bytes, true, memory).and_then(make))
    };
    let made = match file.mapped_slice() {
        Some(bytes) => {
            let start = handle.offset as usize;
            let block = bytes.get(start..start + stored);
            let block = block.ok_or_else(|| short_read_error(path, handle.offset, bytes.len(), stored))?;
            file.prefetch(handle.offset, stored as u64);
            // All of it and at once: the checksum stands at the end.
            prefetch(block.as_ptr(), stored.min(PREFETCH_STORED_BYTES));
            unpack(block)
        }
        None => block_pool::with_read_buffer(stored, |bytes| {
            read_exact_at(file, path, handle.offset, bytes)?;
            Ok::<_, Error>(unpack(bytes))
        })?,
    };
    made.map_err(|flaw| Error::from_decode_error(path, &DecodeError { offset: handle.offset, ..flaw }))
}

pub(crate) fn read_exact_at(file: &dyn RandomAccessFile, path: &Path, at: u64, buf: &mut [u8]) -> Result<()> {
    let need = buf.len();
    let have = file.read_at(at, buf)?;
    if have < need { Err(short_read_error(path, at, have, need)) } else { Ok(()) }
}

fn short_read_error(path: &Path, at: u64, have: usize, need: usize) -> Error {
    let flaw = DecodeError::new(DecodeErrorKind::Truncated, at, format!("{have} bytes"), format!("{need}"));
    Error::from_decode_error(path, &flaw)
}
