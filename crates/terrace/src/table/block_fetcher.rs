//! Reading of one block of a table file.
//!
//! ```text
//!   handle --> file, mapped or read --> checksum --> decompression --> contents
//! ```
//!
//! The functions of this module use no cache. Every error names the file.

use std::borrow::Cow;
use std::path::Path;

use terrace_env::{RandomAccessFile, prefetch};
use terrace_format::block::Block;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, read_block_cow};
use terrace_format::{DecodeError, DecodeErrorKind};

use super::block_pool;
use crate::error::{Error, Result};
use crate::file_io::try_copy;

/// Reads the footer of the table in the first `size` bytes of the file.
pub(crate) fn read_footer(file: &dyn RandomAccessFile, path: &Path, size: u64) -> Result<Footer> {
    let Some(offset) = size.checked_sub(FOOTER_SIZE as u64) else {
        return Err(Error::from_decode_error(
            path,
            &DecodeError::truncated(0, "a table's footer", size, FOOTER_SIZE as u64),
        ));
    };
    let mut bytes = [0; FOOTER_SIZE];
    read_exact_at(file, path, offset, &mut bytes)?;
    Footer::decode(&bytes, size).map_err(|error| Error::from_decode_error(path, &error))
}

/// Reads, verifies and decompresses a block.
pub(crate) fn read_block(file: &dyn RandomAccessFile, path: &Path, handle: BlockHandle) -> Result<Block> {
    read_block_with(file, path, handle, |contents| Block::copy_of(contents, Vec::new()))
}

/// Reads a block like [`read_block`] and returns its contents, which need not have the format of a
/// block.
pub(crate) fn read_block_bytes(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<Vec<u8>> {
    let mut bytes = Ok(Vec::new());
    read_block_with(file, path, handle, |contents| {
        bytes = match contents {
            Cow::Owned(contents) => Ok(contents),
            Cow::Borrowed(contents) => try_copy(contents, path),
        };
        Ok(())
    })?;
    bytes
}

/// Number of bytes of a stored block that are prefetched: the stored size of a usual block.
const PREFETCH_STORED_BYTES: usize = 4 << 10;

/// Reads and verifies a block, and returns the result of `make` on its decompressed contents.
pub(super) fn read_block_with<T>(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
    make: impl FnOnce(Cow<'_, [u8]>) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    check_handle(handle, file.len(), path)?;
    let stored = handle.size as usize + BLOCK_TRAILER_SIZE;
    let decode = |bytes: &[u8]| {
        block_pool::with_decompression_buffer(|buffer| read_block_cow(bytes, true, buffer).and_then(make))
    };
    let result = match file.mapped_slice() {
        Some(bytes) => {
            let start = handle.offset as usize;
            let block = bytes.get(start..start + stored);
            let block = block.ok_or_else(|| short_read_error(path, handle.offset, bytes.len(), stored))?;
            file.prefetch(handle.offset, stored as u64);
            prefetch_stored(block);
            decode(block)
        }
        None => block_pool::with_read_buffer(stored, |bytes| {
            read_exact_at(file, path, handle.offset, bytes)?;
            Ok::<_, Error>(decode(bytes))
        })
        .ok_or_else(|| Error::out_of_memory(path, stored))??,
    };
    result.map_err(|error| Error::from_decode_error(path, &DecodeError { offset: handle.offset, ..error }))
}

/// Checks that `handle` lies within a file of `file_len` bytes. The check precedes every
/// allocation, so that an invalid handle cannot cause one that is larger than the file.
pub(super) fn check_handle(handle: BlockHandle, file_len: u64, path: &Path) -> Result<()> {
    handle
        .check(file_len.saturating_sub(FOOTER_SIZE as u64))
        .map_err(|error| Error::from_decode_error(path, &error))
}

/// Prefetches a stored block. One prefetch covers the whole block, because the checksum at its end
/// is needed first.
#[inline]
pub(super) fn prefetch_stored(stored: &[u8]) {
    prefetch(stored.as_ptr(), stored.len().min(PREFETCH_STORED_BYTES));
}

pub(crate) fn read_exact_at(
    file: &dyn RandomAccessFile,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
    let need = buf.len();
    let have = file.read_at(offset, buf)?;
    if have < need { Err(short_read_error(path, offset, have, need)) } else { Ok(()) }
}

pub(super) fn short_read_error(path: &Path, offset: u64, have: usize, need: usize) -> Error {
    let found = format!("{have} bytes");
    let error = DecodeError::new(DecodeErrorKind::Truncated, offset, found, need.to_string());
    Error::from_decode_error(path, &error)
}
