//! Codec of stored blocks, and of the tables of a database.
//!
//! ```text
//!   footer ──> type byte of the index block ──not 0──> codec of the table
//!                     │ 0: not compressed
//!                     '──> type bytes of a few data blocks ──> codec, or none
//! ```
//!
//! A table that hardly shrinks is stored uncompressed, whatever its writer was asked for. Such a
//! table does not show a codec. The functions here read a footer, an index and some type bytes, and
//! decompress nothing.

use std::path::Path;

use terrace_env::{AccessMode, Env, RandomAccessFile};
use terrace_format::block::BlockIter;
use terrace_format::comparator::bytewise;
use terrace_format::compress::{self, Codec, NO_COMPRESSION};
use terrace_format::filename::FileName;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle};

use super::block_fetcher::{check_handle, read_block, read_exact_at, read_footer};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Maximum number of data blocks of an uncompressed index whose type bytes are read.
const MAX_SAMPLED_BLOCKS: usize = 5;

/// Returns the codec of the first of `tables` that shows one. `tables` are numbers of table files
/// in `directory`, in the order of their weight, with their sizes if they are known.
///
/// An unreadable table shows no codec: the reads that need it report the error.
pub(crate) fn codec_of_tables(
    env: &Env,
    directory: &Path,
    tables: impl IntoIterator<Item = (u64, Option<u64>)>,
) -> Option<&'static Codec> {
    tables.into_iter().find_map(|(number, size)| {
        let names = [FileName::Table(number), FileName::OldTable(number)];
        let mut paths = names.iter().map(|name| directory.join(name.to_string()));
        paths.find_map(|path| {
            let file = env.fs.open_random_access(&path, AccessMode::Pread).ok()?;
            let size = size.unwrap_or_else(|| file.len()).min(file.len());
            codec_of_table(&*file, &path, size).ok().flatten()
        })
    })
}

/// Returns the codec of the table in the first `size` bytes of `file`, or None if the sampled
/// blocks are not compressed.
fn codec_of_table(file: &dyn RandomAccessFile, path: &Path, size: u64) -> Result<Option<&'static Codec>> {
    let footer = read_footer(file, path, size)?;
    let codec = block_codec(file, path, footer.index)?;
    if codec.id != NO_COMPRESSION.id {
        return Ok(Some(codec));
    }
    let handles = data_block_handles(file, path, footer.index)?;
    let step = handles.len().div_ceil(MAX_SAMPLED_BLOCKS).max(1);
    for handle in handles.into_iter().step_by(step) {
        let codec = block_codec(file, path, handle)?;
        if codec.id != NO_COMPRESSION.id {
            return Ok(Some(codec));
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
