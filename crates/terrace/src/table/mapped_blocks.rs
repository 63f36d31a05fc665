//! Uncompressed blocks of a mapped table. Reads search them in the mapping, without a copy, a cache
//! entry or an allocation.
//!
//! ```text
//!   get:  index --block number--> slot (one cache line) --offset, interval--> mapping --> entry
//!                                  \--not verified--> checksum of the block, restart index
//! ```
//!
//! The first read of a block since the open of the table verifies its checksum, and so does every
//! read that asks for it. LevelDB also searches uncompressed blocks of mapped tables in place, and
//! verifies their checksums only on request.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use terrace_env::{MappedSlice, RandomAccessFile, prefetch};
use terrace_format::block::{Block, BlockContents, BlockSource, RestartIndex, SearchStart};
use terrace_format::key_order::HEADS_PER_GROUP;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, uncompressed_block};
use terrace_format::{DecodeError, DecodeErrorKind};
use terrace_sync::{get_or_init_for_fork, mutant};

use super::block_fetcher::{check_handle, prefetch_stored, short_read_error};
use super::restart_index_slot::{RestartIndexSlot, VerifiedBlock};
use super::table_memory::{Reservation, TableMemory};
use crate::error::{Error, Result};
use crate::sync::Arc;

/// Maximum number of bytes of an interval that a search prefetches.
const PREFETCH_INTERVAL_BYTES: usize = 1 << 10;

/// Uncompressed blocks of one mapped table.
pub(super) struct MappedBlocks {
    file: MappedSlice,
    memory: Arc<TableMemory>,
    /// Slots of all blocks. A chunk has memory from the first uncompressed block on that a read
    /// verifies in it: the other blocks of the table may be compressed.
    slots: Box<[OnceLock<SlotChunk>]>,
}

/// Number of slots that are allocated together, 4 KiB.
const SLOTS_PER_CHUNK: usize = 64;

/// Slots of consecutive blocks. Without memory for them there are none, and every read verifies its
/// block.
struct SlotChunk {
    slots: Box<[RestartIndexSlot]>,
    _reservation: Reservation,
}

/// Verified uncompressed block in the mapping of its table.
#[derive(Debug, Clone)]
pub(super) struct BlockInMapping {
    /// Range of the contents in the file.
    range: Range<usize>,
    entries_end: usize,
    num_restarts: usize,
    index: Option<RestartIndex>,
}

impl MappedBlocks {
    /// Returns the blocks of a table, if its file is mapped.
    pub(super) fn new(
        file: &Arc<dyn RandomAccessFile>,
        num_blocks: usize,
        memory: &Arc<TableMemory>,
    ) -> Option<MappedBlocks> {
        let file = MappedSlice::new(file)?;
        let mut slots = Vec::new();
        // Without memory for the chunks, every read verifies its block.
        let num_chunks = num_blocks.div_ceil(SLOTS_PER_CHUNK);
        if slots.try_reserve_exact(num_chunks).is_ok() {
            slots.resize_with(num_chunks, OnceLock::new);
        }
        Some(MappedBlocks { file, memory: Arc::clone(memory), slots: slots.into_boxed_slice() })
    }

    /// Returns the memory use in bytes, without the slots.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Returns the contents of the file.
    #[inline]
    pub(super) fn file(&self) -> &MappedSlice {
        &self.file
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&RestartIndexSlot> {
        self.slots.get(index / SLOTS_PER_CHUNK)?.get()?.slots.get(index % SLOTS_PER_CHUNK)
    }

    /// Returns true if a read has verified block `index`.
    pub(super) fn is_verified(&self, index: usize) -> bool {
        self.slot(index).is_some_and(|slot| slot.load().is_some())
    }

    /// Returns block `index` if it was verified and has a restart index.
    #[inline]
    pub(super) fn get_indexed(&self, index: usize) -> Option<BlockInMapping> {
        let index = if mutant!(SlotOfOtherBlock) { index & !1 } else { index };
        match self.slot(index)?.load()? {
            VerifiedBlock::Indexed(offset, index) => Some(BlockInMapping::indexed(offset as usize, index)),
            VerifiedBlock::NotIndexed => None,
        }
    }

    /// Prefetches the slots of `blocks`, one of which the caller will access: those of a group of
    /// heads at most. Returns false if there are none.
    #[inline]
    pub(super) fn prefetch_slots(&self, blocks: Range<usize>) -> bool {
        let Some(first) = self.slot(blocks.start) else { return false };
        prefetch(first.as_ptr(), blocks.len().min(HEADS_PER_GROUP) * size_of::<RestartIndexSlot>());
        true
    }

    /// Prefetches the slot of block `index`.
    #[inline]
    pub(super) fn prefetch_slot(&self, index: usize) {
        if let Some(slot) = self.slot(index) {
            prefetch(slot.as_ptr(), 1);
        }
    }

    /// Returns block `index`, which is at `handle`, or `None` if it is compressed. Verifies the
    /// checksum if no thread has done so or if the caller asks for it. `separators` are those of
    /// the block before, if there is one, and of this block.
    ///
    /// A read `for_searches` publishes the block as verified. Bulk reads, such as compactions, need
    /// no index, and no memory for it.
    pub(super) fn get_or_verify(
        &self,
        index: usize,
        handle: BlockHandle,
        path: &Path,
        verify_checksum: bool,
        for_searches: bool,
        separators: Option<(Option<&[u8]>, &[u8])>,
    ) -> Result<Option<BlockInMapping>> {
        check_handle(handle, self.file.len() as u64, path)?;
        let start = handle.offset as usize;
        let stored = handle.size as usize + BLOCK_TRAILER_SIZE;
        let Some(bytes) = self.file.get(start..start + stored) else {
            return Err(short_read_error(path, handle.offset, self.file.len(), stored));
        };
        let decode_error = |error: DecodeError| {
            Error::from_decode_error(path, &DecodeError { offset: handle.offset, ..error })
        };
        let was_verified = self.is_verified(index);
        let contents = if was_verified && !verify_checksum {
            BlockContents::of_verified(&bytes[..handle.size as usize])
        } else {
            prefetch_stored(bytes);
            let Some(contents) = uncompressed_block(bytes) else { return Ok(None) };
            if mutant!(BlockVerifiedBeforeItsChecksum)
                && let Some(slot) = self.get_or_allocate_slot(index)
            {
                slot.publish(handle.offset, None);
            }
            BlockContents::new(contents.map_err(decode_error)?)
        };
        let contents = contents.map_err(decode_error)?;
        let publishes = for_searches && !was_verified;
        // A verified block without an index had none before.
        let separators = separators.filter(|_| publishes || was_verified && verify_checksum);
        let index_of_block = separators.and_then(|(before, last)| RestartIndex::new(contents, before, last));
        if publishes && let Some(slot) = self.get_or_allocate_slot(index) {
            slot.publish(handle.offset, index_of_block.as_ref());
        }
        Ok(Some(BlockInMapping {
            range: start..start + handle.size as usize,
            entries_end: contents.entries_end(),
            num_restarts: contents.num_restarts(),
            index: index_of_block,
        }))
    }

    fn get_or_allocate_slot(&self, index: usize) -> Option<&RestartIndexSlot> {
        let chunk = self.slots.get(index / SLOTS_PER_CHUNK)?;
        let chunk = match chunk.get() {
            Some(chunk) => chunk,
            None if !self.memory.has_spare() => return None,
            None => self.allocate_chunk(chunk),
        };
        chunk.slots.get(index % SLOTS_PER_CHUNK)
    }

    #[cold]
    fn allocate_chunk<'a>(&self, chunk: &'a OnceLock<SlotChunk>) -> &'a SlotChunk {
        let mut slots = Vec::new();
        if slots.try_reserve_exact(SLOTS_PER_CHUNK).is_ok() {
            slots.resize_with(SLOTS_PER_CHUNK, RestartIndexSlot::new);
        }
        let slots = slots.into_boxed_slice();
        let reservation = self.memory.reserve(size_of_val(&*slots));
        if mutant!(CellInitializedDuringFork) {
            return chunk.get_or_init(|| {
                (0..10_000).for_each(|_| std::hint::spin_loop());
                SlotChunk { slots, _reservation: reservation }
            });
        }
        // One of two concurrent allocations is dropped.
        get_or_init_for_fork(chunk, || SlotChunk { slots, _reservation: reservation })
    }
}

impl BlockInMapping {
    #[inline]
    fn indexed(offset: usize, index: RestartIndex) -> BlockInMapping {
        let contents = index.contents(&[]);
        let entries_end = contents.entries_end();
        let num_restarts = contents.num_restarts();
        let size = BlockContents::size(entries_end, num_restarts);
        BlockInMapping { range: offset..offset + size, entries_end, num_restarts, index: Some(index) }
    }

    /// Returns the offset of the block in the file.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.range.start
    }

    /// Returns the size of the contents in bytes.
    pub(super) fn size(&self) -> usize {
        self.range.len()
    }

    /// Returns the contents in `file`, the contents of the table file.
    #[inline]
    pub(super) fn contents<'a>(&self, file: &'a [u8]) -> BlockContents<'a> {
        let bytes = file.get(self.range.clone()).unwrap_or_default();
        BlockContents::from_parts(bytes, self.entries_end, self.num_restarts)
    }

    /// Returns the start of a search for the internal key `target` in `contents`, and prefetches
    /// the interval.
    #[inline]
    pub(super) fn search_start(
        &self,
        contents: BlockContents<'_>,
        target: &[u8],
    ) -> std::result::Result<SearchStart, DecodeError> {
        search_start(self.index.as_ref(), contents, target)
    }
}

#[inline]
fn search_start(
    index: Option<&RestartIndex>,
    contents: BlockContents<'_>,
    target: &[u8],
) -> std::result::Result<SearchStart, DecodeError> {
    let Some(index) = index else { return contents.restart_search_start(target) };
    let interval = index.interval(target);
    if let Some(bytes) = contents.bytes().get(interval) {
        prefetch(bytes.as_ptr(), bytes.len().min(PREFETCH_INTERVAL_BYTES));
    }
    index.search_start(contents, target)
}

/// Block of an iterator, in the mapping of its table.
#[derive(Debug)]
pub(crate) struct MappedBlock {
    bytes: MappedSlice,
    entries_end: usize,
    num_restarts: usize,
    index: Option<RestartIndex>,
}

impl MappedBlock {
    /// Returns `block`, a block of `blocks`.
    pub(super) fn new(
        blocks: &MappedBlocks,
        block: &BlockInMapping,
    ) -> std::result::Result<MappedBlock, DecodeError> {
        let mut mapped =
            MappedBlock { bytes: blocks.file.clone(), entries_end: 0, num_restarts: 0, index: None };
        mapped.replace(block)?;
        Ok(mapped)
    }

    /// Replaces the block by another one of the same table. Returns an error, and changes nothing,
    /// if the file has no such range.
    pub(super) fn replace(&mut self, block: &BlockInMapping) -> std::result::Result<(), DecodeError> {
        let Range { start, end } = block.range.clone();
        if !self.bytes.set_range(start..end) {
            let found = format!("the end of the file before {end}");
            let expected = format!("a block at {start}");
            return Err(DecodeError::new(DecodeErrorKind::OutOfBounds, 0, found, expected));
        }
        self.entries_end = block.entries_end;
        self.num_restarts = block.num_restarts;
        self.index = block.index;
        Ok(())
    }
}

impl BlockSource for MappedBlock {
    #[inline]
    fn block_contents(&self) -> BlockContents<'_> {
        BlockContents::from_parts(&self.bytes, self.entries_end, self.num_restarts)
    }

    #[inline]
    fn search_start(&self, target: &[u8]) -> std::result::Result<SearchStart, DecodeError> {
        search_start(self.index.as_ref(), self.block_contents(), target)
    }
}

/// Block that an iterator reads.
#[derive(Debug)]
pub(crate) enum DataBlock {
    /// Block in its own memory, of the block cache or of the iterator alone.
    InMemory(Arc<Block>),
    /// Uncompressed block in the mapping of its table.
    Mapped(MappedBlock),
}

impl BlockSource for DataBlock {
    #[inline]
    fn block_contents(&self) -> BlockContents<'_> {
        match self {
            DataBlock::InMemory(block) => block.block_contents(),
            DataBlock::Mapped(block) => block.block_contents(),
        }
    }

    #[inline]
    fn search_start(&self, target: &[u8]) -> std::result::Result<SearchStart, DecodeError> {
        match self {
            DataBlock::InMemory(block) => BlockSource::search_start(block, target),
            DataBlock::Mapped(block) => block.search_start(target),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::mem::MemFs;
    use terrace_env::{AccessMode, FileSystem};

    use super::*;

    /// An iterator must not take a block outside of the file for an empty one.
    #[test]
    fn block_outside_of_the_file_is_an_error() {
        let fs = MemFs::new();
        let path = Path::new("/table");
        let mut file = fs.create(path).unwrap();
        file.append(&[0; 100]).unwrap();
        file.close().unwrap();
        let file = fs.open_random_access(path, AccessMode::Mmap).unwrap();
        let blocks = MappedBlocks::new(&file, 1, &Arc::default()).unwrap();
        let block =
            |range: Range<usize>| BlockInMapping { range, entries_end: 0, num_restarts: 0, index: None };
        let mut mapped = MappedBlock::new(&blocks, &block(0..100)).unwrap();
        for range in [90..101, 100..200] {
            assert!(MappedBlock::new(&blocks, &block(range.clone())).is_err());
            assert!(mapped.replace(&block(range)).is_err());
        }
        assert!(mapped.replace(&block(90..100)).is_ok());
    }

    /// Restart indexes must not close tables that lookups need.
    #[test]
    fn slots_take_only_spare_memory() {
        let fs = MemFs::new();
        fs.create(Path::new("/table")).unwrap().close().unwrap();
        let file = fs.open_random_access(Path::new("/table"), AccessMode::Mmap).unwrap();
        let memory = Arc::new(TableMemory::new(10_000, None));
        let blocks = MappedBlocks::new(&file, 2 * SLOTS_PER_CHUNK, &memory).unwrap();
        assert!(blocks.get_or_allocate_slot(0).is_some());
        let _tables = memory.reserve(7_500 - memory.usage());
        assert!(blocks.get_or_allocate_slot(1).is_some());
        assert!(blocks.get_or_allocate_slot(SLOTS_PER_CHUNK).is_none());
    }
}
