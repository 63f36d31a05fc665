//! Finding the blocks of a table whose index is lost.
//!
//! ```text
//!   | block | id | crc | block | id | crc | ... | filter | metaindex | index | footer
//!   ^ begins here      ^ so the next one begins here    ^ stop
//!
//!   where a block begins:   at every later place try "the block ends here": a codec's id, then the checksum of all
//!                           that stands before, four bytes that agree by chance once in four billion places
//!   where none does:        go on byte by byte, and try the same at each that looks like a block's first
//! ```
//!
//! The blocks of a table follow each other without gaps, so that one that is found leads to the next, and only behind a
//! damaged one must be searched. The search is bounded: it gives up after a fixed multiple of the file's length.
//!
//! The metaindex and the index must not be taken for data: that would make up entries. The metaindex has no entries
//! or its keys are none of ours; the values of an index are the places of blocks found before it.

use std::path::Path;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::compress::{CODECS, MAX_BLOCK_CONTENTS};
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, read_block};
use terrace_format::{DecodeErrorKind, crc};

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// The longest block that is found where one is known to begin.
const MAX_BLOCK_LEN: usize = MAX_BLOCK_CONTENTS;
/// The longest block that is found where one may begin.
const MAX_GUESSED_BLOCK_LEN: usize = 64 << 10;
/// How many bytes of checksum may be computed for each of the file.
const CHECKSUM_BYTES_PER_FILE_BYTE: u64 = 64;

/// Takes the key and the value of an entry.
type EntryVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Gives the entries of every data block behind `from`, where a block begins, to `found`.
pub(super) fn scan_blocks(
    file: &dyn RandomAccessFile,
    path: &Path,
    order: &InternalComparator,
    from: u64,
    found: EntryVisitor<'_>,
) -> Result<()> {
    let mut window = FileWindow { file, path, start: 0, bytes: Vec::new() };
    let mut effort =
        file.len().saturating_mul(CHECKSUM_BYTES_PER_FILE_BYTE).saturating_add(MAX_BLOCK_LEN as u64);
    let mut known: Vec<BlockHandle> = Vec::new();
    let (mut at, mut begins) = (from, true);
    while at < file.len() && effort > 0 {
        let bytes = window.bytes_at(at, if begins { MAX_BLOCK_LEN } else { MAX_GUESSED_BLOCK_LEN })?;
        let size =
            if begins || may_start_data_block(bytes) { find_block_end(bytes, &mut effort) } else { None };
        let block = size.map(|size| read_block(&bytes[..size + BLOCK_TRAILER_SIZE], true)).transpose();
        let contents = match block {
            // The checksum is right: the block is intact, and a search that passed over it would lose its entries.
            Err(flaw) if flaw.kind == DecodeErrorKind::MissingCodec => {
                return Err(Error::from_decode_error(path, &flaw.offset_by(at)));
            }
            contents => contents.ok().flatten(),
        };
        let meaning = contents.map(|contents| classify_block(contents, at, &known, order));
        match (size, meaning) {
            (Some(size), Some(BlockRole::Data(mut entries))) => {
                visit_entries(&mut entries, found)?;
                known.push(BlockHandle { offset: at, size: size as u64 });
                at += (size + BLOCK_TRAILER_SIZE) as u64;
                begins = true;
            }
            (Some(size), Some(BlockRole::Other)) if begins => at += (size + BLOCK_TRAILER_SIZE) as u64,
            (_, Some(BlockRole::IndexOrMetaindex)) if begins => return Ok(()),
            _ => {
                at += 1;
                begins = false;
            }
        }
    }
    Ok(())
}

/// Part of the file.
struct FileWindow<'a> {
    file: &'a dyn RandomAccessFile,
    path: &'a Path,
    start: u64,
    bytes: Vec<u8>,
}

impl FileWindow<'_> {
    /// The bytes from `at` on: `len` of them, or up to the end of the file.
    fn bytes_at(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let len = self.file.len().saturating_sub(at).min(len as u64) as usize;
        let have = at >= self.start && at + len as u64 <= self.start + self.bytes.len() as u64;
        if !have {
            // As much as is ever asked for, so that going on byte by byte does not read the file again and again.
            let room = self.file.len().saturating_sub(at).min(MAX_BLOCK_LEN as u64) as usize;
            self.bytes.resize(room, 0);
            crate::table::read_exact_at(self.file, self.path, at, &mut self.bytes)?;
            self.start = at;
        }
        let skip = (at - self.start) as usize;
        Ok(&self.bytes[skip..skip + len])
    }
}

/// The size of the block at the start of `bytes`, if one ends in them. Takes from `effort` what it costs.
fn find_block_end(bytes: &[u8], effort: &mut u64) -> Option<usize> {
    let mut sum = crc::value(&[]);
    for (size, trailer) in bytes.windows(BLOCK_TRAILER_SIZE).enumerate() {
        let [id, stored @ ..] = trailer else { return None };
        let is_end = || crc::mask(crc::extend(sum, &[*id])).to_le_bytes() == *stored;
        if CODECS.iter().any(|codec| codec.id == *id) && is_end() {
            *effort = effort.saturating_sub(size as u64);
            return Some(size);
        }
        sum = crc::extend(sum, &[*id]);
    }
    *effort = effort.saturating_sub(bytes.len() as u64);
    None
}

/// True if `bytes` may be the start of a stored data block: its first entry shares nothing, and its key has room for a
/// sequence number.
fn may_start_data_block(bytes: &[u8]) -> bool {
    let plain =
        |bytes: &[u8]| matches!(bytes, [0, unshared, ..] if usize::from(*unshared) >= key::KEY_TRAILER_SIZE);
    // Snappy begins with the length, one to five bytes, and a literal of one to four bytes of header.
    let snappy = || {
        let length = bytes.iter().take(5).position(|byte| byte & 0x80 == 0);
        let literal = length.and_then(|last| bytes.get(last + 1..)).and_then(<[u8]>::split_first);
        literal.is_some_and(|(tag, rest)| {
            let more = usize::from(tag >> 2).saturating_sub(59);
            tag & 3 == 0 && rest.get(more..).is_some_and(plain)
        })
    };
    const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    plain(bytes) || snappy() || bytes.starts_with(&ZSTD_MAGIC)
}

/// What a block with a right checksum is.
enum BlockRole {
    /// At its first entry.
    Data(BlockIter),
    /// The metaindex or the index: no data follows.
    IndexOrMetaindex,
    /// A filter, say.
    Other,
}

fn classify_block(
    contents: Vec<u8>,
    at: u64,
    known: &[BlockHandle],
    order: &InternalComparator,
) -> BlockRole {
    let Ok(block) = Block::new(contents) else { return BlockRole::Other };
    let mut entries = BlockIter::new(Arc::new(block), order);
    entries.seek_to_first();
    if !entries.valid() {
        return if entries.status().is_err() { BlockRole::Other } else { BlockRole::IndexOrMetaindex };
    }
    if key::parse(entries.key()).is_err() || is_index_block(&mut entries, at, known) {
        return BlockRole::IndexOrMetaindex;
    }
    entries.seek_to_first();
    BlockRole::Data(entries)
}

/// True if every value is the place of a block before `at`, in order, and one of a `known` block, if there are any.
fn is_index_block(entries: &mut BlockIter, at: u64, known: &[BlockHandle]) -> bool {
    let (mut end, mut meets) = (0, known.is_empty());
    while entries.valid() {
        let handle = match BlockHandle::decode(entries.value()) {
            // Some writers add to the place.
            Ok((handle, _)) => handle,
            Err(_) => return false,
        };
        if handle.offset < end || handle.check(at).is_err() {
            return false;
        }
        end = handle.offset + handle.size + BLOCK_TRAILER_SIZE as u64;
        meets |= known.contains(&handle);
        entries.next();
    }
    meets
}

fn visit_entries(entries: &mut BlockIter, found: EntryVisitor<'_>) -> Result<()> {
    while entries.valid() {
        if key::parse(entries.key()).is_ok() {
            found(entries.key(), entries.value())?;
        }
        entries.next();
    }
    Ok(())
}
