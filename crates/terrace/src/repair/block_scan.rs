//! Search for the data blocks of a table without a readable index.
//!
//! ```text
//!   | block | id | crc | block | id | crc | ... | filter | metaindex | index | footer
//!   ^ starts here      ^ so the next one starts here     ^ stop
//!
//!   at a known start:   try "the block ends here" at every later offset: a codec's id, then
//!                       the checksum of all bytes before; four bytes that match by chance
//!                       once in four billion offsets
//!   without one:        move forward byte by byte, and try the same where the bytes look
//!                       like the start of a block
//! ```
//!
//! The blocks of a table follow each other without gaps, so each block leads to the next one. Only
//! the start of a block after a damaged one must be searched. The search is bounded: it stops after
//! a fixed multiple of the file length, and after [`MAX_SKIPPED_ZEROS`].
//!
//! The metaindex and the index must not be taken for data, because that would invent entries. The
//! metaindex is empty, or its keys are not internal keys. The values of an index are the handles of
//! blocks found before it.

use std::path::Path;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::compress::{CODECS, Codec, MAX_BLOCK_CONTENTS, NO_COMPRESSION, codec_of_block};
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, read_block};
use terrace_format::{DecodeErrorKind, crc};

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::verify::salvage_exact_at;

/// Maximum length in bytes of a block at a known start.
const MAX_BLOCK_LEN: usize = MAX_BLOCK_CONTENTS;
/// Maximum length in bytes of a block at a guessed start.
const MAX_GUESSED_BLOCK_LEN: usize = 64 << 10;
/// Maximum number of bytes to checksum for each byte of the file.
const CHECKSUM_BYTES_PER_FILE_BYTE: u64 = 64;

/// Maximum number of zeros in a table that the search skips, in bytes: four blocks of the maximum
/// size. Only a table with a hole, which may be larger than the disk, has more between its blocks.
const MAX_SKIPPED_ZEROS: u64 = 4 * MAX_BLOCK_LEN as u64;

/// Maximum number of blocks of which the codec is read.
const MAX_CODEC_BLOCKS: usize = 16;

/// Receives the key and the value of an entry.
type EntryVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Passes the entries of every data block from offset `from`, where a block starts, to `visit`.
pub(super) fn scan_blocks(
    file: &dyn RandomAccessFile,
    path: &Path,
    order: &InternalComparator,
    from: u64,
    visit: EntryVisitor<'_>,
) -> Result<()> {
    let mut window = FileWindow { file, path, start: 0, bytes: Vec::new() };
    let mut checksum_budget =
        file.len().saturating_mul(CHECKSUM_BYTES_PER_FILE_BYTE).saturating_add(MAX_BLOCK_LEN as u64);
    let mut known: Vec<BlockHandle> = Vec::new();
    let mut offset = from;
    let mut at_known_start = true;
    let mut skipped_zeros = 0;
    while offset < file.len() && checksum_budget > 0 {
        let bytes =
            window.bytes_at(offset, if at_known_start { MAX_BLOCK_LEN } else { MAX_GUESSED_BLOCK_LEN })?;
        let size = if at_known_start || may_start_data_block(bytes) {
            find_block_end(bytes, &mut checksum_budget)
        } else {
            None
        };
        let block = size.map(|size| read_block(&bytes[..size + BLOCK_TRAILER_SIZE], true)).transpose();
        let contents = match block {
            // The checksum is correct, so the block is intact. Skipping it would lose its entries.
            Err(error)
                if matches!(error.kind, DecodeErrorKind::MissingCodec | DecodeErrorKind::OutOfMemory) =>
            {
                return Err(Error::from_decode_error(path, &error.offset_by(offset)));
            }
            contents => contents.ok().flatten(),
        };
        let role = contents.map(|contents| classify_block(contents, offset, &known, order));
        match (size, role) {
            (Some(size), Some(BlockRole::Data(mut entries))) => {
                visit_entries(&mut entries, visit)?;
                known.push(BlockHandle { offset, size: size as u64 });
                offset += (size + BLOCK_TRAILER_SIZE) as u64;
                at_known_start = true;
            }
            (Some(size), Some(BlockRole::Other)) if at_known_start => {
                offset += (size + BLOCK_TRAILER_SIZE) as u64
            }
            (_, Some(BlockRole::IndexOrMetaindex)) if at_known_start => return Ok(()),
            _ => {
                let zeros = zeros_without_block(bytes);
                skipped_zeros += zeros;
                if skipped_zeros > MAX_SKIPPED_ZEROS {
                    return Ok(());
                }
                offset += zeros.max(1);
                at_known_start = false;
            }
        }
    }
    Ok(())
}

/// Returns the codec of the first compressed block of a table, or None if its first
/// [`MAX_CODEC_BLOCKS`] intact blocks are not compressed. The table needs no index.
pub(super) fn codec_of_first_blocks(file: &dyn RandomAccessFile, path: &Path) -> Option<&'static Codec> {
    let mut window = FileWindow { file, path, start: 0, bytes: Vec::new() };
    let mut checksum_budget = MAX_BLOCK_LEN as u64;
    let mut offset = 0;
    for _ in 0..MAX_CODEC_BLOCKS {
        let bytes = window.bytes_at(offset, MAX_BLOCK_LEN).ok()?;
        let size = find_block_end(bytes, &mut checksum_budget)?;
        let codec = codec_of_block(bytes[size], &bytes[..size]).ok()?;
        if codec.id != NO_COMPRESSION.id {
            return Some(codec);
        }
        offset += (size + BLOCK_TRAILER_SIZE) as u64;
    }
    None
}

/// Part of the file in memory.
struct FileWindow<'a> {
    file: &'a dyn RandomAccessFile,
    path: &'a Path,
    start: u64,
    bytes: Vec<u8>,
}

impl FileWindow<'_> {
    /// Returns `len` bytes at `offset`, fewer at the end of the file.
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let len = self.file.len().saturating_sub(offset).min(len as u64) as usize;
        let is_loaded = offset >= self.start && offset + len as u64 <= self.start + self.bytes.len() as u64;
        if !is_loaded {
            // Reads the maximum length at once. Moving byte by byte would otherwise read the file
            // again and again.
            let window_len = self.file.len().saturating_sub(offset).min(MAX_BLOCK_LEN as u64) as usize;
            self.bytes.resize(window_len, 0);
            salvage_exact_at(self.file, self.path, offset, &mut self.bytes)?;
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        Ok(&self.bytes[skip..skip + len])
    }
}

/// Returns the size of the block at the start of `bytes`, if it ends within them. Subtracts the
/// checksummed bytes from `checksum_budget`.
fn find_block_end(bytes: &[u8], checksum_budget: &mut u64) -> Option<usize> {
    let mut checksum = crc::value(&[]);
    for (size, trailer) in bytes.windows(BLOCK_TRAILER_SIZE).enumerate() {
        let [id, stored @ ..] = trailer else { return None };
        let is_codec = CODECS.iter().any(|codec| codec.id == *id);
        if is_codec && crc::mask(crc::extend(checksum, &[*id])).to_le_bytes() == *stored {
            *checksum_budget = checksum_budget.saturating_sub(size as u64);
            return Some(size);
        }
        checksum = crc::extend(checksum, &[*id]);
    }
    *checksum_budget = checksum_budget.saturating_sub(bytes.len() as u64);
    None
}

/// Returns the number of zeros at the start of `bytes` that are too far from other bytes to be the
/// start of a data block. It can be 0 although there are zeros.
fn zeros_without_block(bytes: &[u8]) -> u64 {
    const STEP: usize = 4096;
    // Two lengths of Snappy, five bytes each, and the two bytes that start a block are fewer.
    const MAX_START: usize = 16;
    let is_zero = bytes.first_chunk::<STEP>().is_some_and(|step| *step == [0; STEP]);
    if is_zero { (STEP - MAX_START) as u64 } else { 0 }
}

/// Returns whether `bytes` may be the start of a stored data block: its first entry shares no
/// prefix, and its key is long enough for a sequence number.
fn may_start_data_block(bytes: &[u8]) -> bool {
    const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    may_start_plain_block(bytes) || may_start_snappy_block(bytes) || bytes.starts_with(&ZSTD_MAGIC)
}

fn may_start_plain_block(bytes: &[u8]) -> bool {
    matches!(bytes, [0, unshared, ..] if usize::from(*unshared) >= key::KEY_TRAILER_SIZE)
}

fn may_start_snappy_block(bytes: &[u8]) -> bool {
    // Snappy starts with the length, one to five bytes, and a literal with a header of one to five
    // bytes.
    let length = bytes.iter().take(5).position(|byte| byte & 0x80 == 0);
    let literal = length.and_then(|last| bytes.get(last + 1..)).and_then(<[u8]>::split_first);
    literal.is_some_and(|(tag, rest)| {
        let extra_bytes = usize::from(tag >> 2).saturating_sub(59);
        tag & 3 == 0 && rest.get(extra_bytes..).is_some_and(may_start_plain_block)
    })
}

/// Role of a block with a correct checksum.
enum BlockRole {
    /// A data block; the iterator is at its first entry.
    Data(BlockIter),
    /// The metaindex or the index, after which no data block follows.
    IndexOrMetaindex,
    /// Another block, such as a filter.
    Other,
}

fn classify_block(
    contents: Vec<u8>,
    offset: u64,
    known: &[BlockHandle],
    order: &InternalComparator,
) -> BlockRole {
    let Ok(block) = Block::new(contents) else { return BlockRole::Other };
    let mut entries = BlockIter::new(Arc::new(block), order);
    entries.seek_to_first();
    if !entries.valid() {
        return if entries.status().is_err() { BlockRole::Other } else { BlockRole::IndexOrMetaindex };
    }
    if key::parse(entries.key()).is_err() || is_index_block(&mut entries, offset, known) {
        return BlockRole::IndexOrMetaindex;
    }
    entries.seek_to_first();
    BlockRole::Data(entries)
}

/// Returns whether every value is the handle of a block before `offset`, in order, and one of them
/// is in `known`, unless that is empty.
fn is_index_block(entries: &mut BlockIter, offset: u64, known: &[BlockHandle]) -> bool {
    let mut end = 0;
    let mut names_known_block = known.is_empty();
    while entries.valid() {
        let handle = match BlockHandle::decode(entries.value()) {
            // Some writers append bytes to the handle.
            Ok((handle, _)) => handle,
            Err(_) => return false,
        };
        if handle.offset < end || handle.check(offset).is_err() {
            return false;
        }
        end = handle.offset + handle.size + BLOCK_TRAILER_SIZE as u64;
        names_known_block |= known.contains(&handle);
        entries.next();
    }
    names_known_block
}

fn visit_entries(entries: &mut BlockIter, visit: EntryVisitor<'_>) -> Result<()> {
    while entries.valid() {
        if key::parse(entries.key()).is_ok() {
            visit(entries.key(), entries.value())?;
        }
        entries.next();
    }
    Ok(())
}
