//! Codec of stored blocks, and of the tables of a database.
//!
//! ```text
//!   footer ──> type byte of the index block ──not 0──> codec of the table
//!                     │ 0: not compressed
//!                     '──> type bytes of a few data blocks ──> codec, or none
//! ```
//!
//! A table that hardly shrinks is stored uncompressed, whatever its writer was asked for. Such a
//! table does not show a codec.

use std::path::Path;

use terrace_env::{AccessMode, Env, RandomAccessFile};
use terrace_format::block::BlockIter;
use terrace_format::comparator::bytewise;
use terrace_format::compress::{self, Codec, NO_COMPRESSION};
use terrace_format::filename::FileName;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, codec_of_stored_block};

use super::block_fetcher::{check_handle, read_block, read_exact_at, read_footer};
use super::block_pool;
use crate::error::{Error, ErrorKind, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Maximum number of data blocks of an uncompressed index whose type bytes are read.
const MAX_SAMPLED_BLOCKS: usize = 5;

/// Returns the codec of the first of `tables` that shows one. `tables` are numbers of table files
/// in `directory`, in the order of their weight, with their sizes if they are known.
///
/// A missing or damaged table shows no codec: the reads that need it report the error. A failed
/// read is an error, because the next table could show another codec.
pub(crate) fn codec_of_tables(
    env: &Env,
    directory: &Path,
    tables: impl IntoIterator<Item = (u64, Option<u64>)>,
) -> Result<Option<&'static Codec>> {
    for (number, size) in tables {
        let codec = codec_of_table_file(env, directory, number, size);
        match codec {
            Err(error @ Error::Io(_)) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(Some(codec)) => return Ok(Some(codec)),
            _ => {}
        }
    }
    Ok(None)
}

fn codec_of_table_file(
    env: &Env,
    directory: &Path,
    number: u64,
    size: Option<u64>,
) -> Result<Option<&'static Codec>> {
    let open = |name: FileName| {
        let path = directory.join(name.to_string());
        env.fs.open_random_access(&path, AccessMode::Pread).map(|file| (path, file))
    };
    let (path, file) = match open(FileName::Table(number)) {
        Err(error) if error.is_not_found() => open(FileName::OldTable(number))?,
        opened => opened?,
    };
    let size = size.unwrap_or_else(|| file.len()).min(file.len());
    codec_of_table(&*file, &path, size)
}

/// Returns the codec of the table in the first `size` bytes of `file`, or None if the sampled
/// blocks are not compressed.
fn codec_of_table(file: &dyn RandomAccessFile, path: &Path, size: u64) -> Result<Option<&'static Codec>> {
    let footer = read_footer(file, path, size)?;
    let codec = verified_block_codec(file, path, footer.index)?;
    if codec.id != NO_COMPRESSION.id {
        return Ok(Some(codec));
    }
    let handles = data_block_handles(file, path, footer.index)?;
    let step = handles.len().div_ceil(MAX_SAMPLED_BLOCKS).max(1);
    for handle in handles.into_iter().step_by(step) {
        match verified_block_codec(file, path, handle) {
            Ok(codec) if codec.id != NO_COMPRESSION.id => return Ok(Some(codec)),
            Err(error @ Error::Io(_)) => return Err(error),
            // Another block may be intact.
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the handles that the index block `index` contains.
fn data_block_handles(
    file: &dyn RandomAccessFile,
    path: &Path,
    index: BlockHandle,
) -> Result<Vec<BlockHandle>> {
    let mut entries = BlockIter::new(Arc::new(read_block(file, path, index)?), bytewise());
    let mut handles = Vec::new();
    entries.seek_to_first();
    while entries.valid() {
        let handle = BlockHandle::decode(entries.value());
        handles.push(handle.map_err(|error| Error::from_decode_error(path, &error))?.0);
        entries.next();
    }
    Ok(handles)
}

/// Returns the codec of a stored block whose checksum is correct.
fn verified_block_codec(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<&'static Codec> {
    check_handle(handle, file.len(), path)?;
    let len = handle.size as usize + BLOCK_TRAILER_SIZE;
    let codec = block_pool::with_read_buffer(len, |stored| {
        read_exact_at(file, path, handle.offset, stored)?;
        codec_of_stored_block(stored).map_err(|error| Error::from_decode_error(path, &error))
    });
    codec.ok_or_else(|| Error::out_of_memory(path, len))?
}

/// Returns whether the index or the metaindex needs the marker. Damaged ones do not: their table is
/// replaced or refused.
pub(crate) fn index_needs_marker(file: &dyn RandomAccessFile, path: &Path, size: u64) -> bool {
    read_footer(file, path, size).is_ok_and(|footer| {
        let codecs = [footer.index, footer.metaindex].map(|handle| block_codec(file, path, handle));
        codecs.into_iter().any(|codec| codec.is_ok_and(|codec| codec.needs_marker))
    })
}

/// Returns the codec of a stored block. Its checksum is not verified.
pub(crate) fn block_codec(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<&'static Codec> {
    check_handle(handle, file.len(), path)?;
    let mut trailer = [0; BLOCK_TRAILER_SIZE];
    read_exact_at(file, path, handle.offset + handle.size, &mut trailer)?;
    let mut start = [0; 4];
    let start = &mut start[..handle.size.min(4) as usize];
    read_exact_at(file, path, handle.offset, start)?;
    compress::codec_of_block(trailer[0], start).map_err(|error| Error::from_decode_error(path, &error))
}
