//! Iterator over one table, block by block, with readahead where the system detects no sequential
//! read.

use std::ops::Range;

use terrace_env::prefetch;
use terrace_format::block::BlockIter;
use terrace_format::table::BlockHandle;

use super::block_pool;
use super::mapped_blocks::{DataBlock, MappedBlock};
use super::table_reader::{BlockLocation, BlockReadOptions, TableReader};
use crate::cache::BlockRef;
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Number of bytes that a seek prefetches from the first entry on. Then the processor detects the
/// direction of the scan.
const PREFETCH_SEEK_BYTES: usize = 512;

/// Size of the first readahead, after two consecutive blocks that were not cached. Each further
/// readahead doubles the size, up to [`MAX_READAHEAD_SIZE`]. The system does not detect a backward
/// scan, nor a scan of a mapped file that is larger than memory.
const INITIAL_READAHEAD_SIZE: u64 = 128 << 10;
/// Maximum size of a readahead in bytes.
const MAX_READAHEAD_SIZE: u64 = 2 << 20;

/// Iterator over one data block.
pub(crate) type DataBlockIter = BlockIter<DataBlock>;

/// Iterator over one table.
pub(crate) struct TableIter {
    reader: Arc<TableReader>,
    read_options: BlockReadOptions,
    /// Index of the current or the latest block. The number of blocks after the last one.
    block_index: usize,
    /// Iterator over the current block. Created with the first block and reset for each other one.
    block_iter: Option<DataBlockIter>,
    /// True if `block_iter` is in block `block_index`.
    is_block_loaded: bool,
    /// True if the current block was not cached.
    cache_missed: bool,
    /// True if the iterator came from the previous block.
    forward_run: bool,
    /// True if the iterator came from the next block.
    backward_run: bool,
    /// Range of the file that was requested from the system, from the current position on.
    readahead_range: Range<u64>,
    /// Size of the latest readahead request.
    readahead_size: u64,
    first_error: Option<Error>,
}

impl TableIter {
    /// Returns an iterator over `reader`, not valid before the first seek.
    pub(crate) fn new(reader: Arc<TableReader>, read_options: BlockReadOptions) -> TableIter {
        TableIter {
            reader,
            read_options,
            block_index: 0,
            block_iter: None,
            is_block_loaded: false,
            cache_missed: false,
            forward_run: false,
            backward_run: false,
            readahead_range: 0..0,
            readahead_size: 0,
            first_error: None,
        }
    }

    /// Returns the iterator over the current or the latest block, for steps within it.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut DataBlockIter> {
        self.block_iter.as_mut()
    }

    /// Prefetches the first step of a seek: heads of the index and cache slots.
    pub(crate) fn prefetch_index(&self, target: &[u8]) {
        self.reader.prefetch_approx_range(target);
    }

    /// Prefetches the second step of a seek: the block. Call it after
    /// [`TableIter::prefetch_index`].
    pub(crate) fn prefetch_block(&self, target: &[u8]) {
        let index = self.reader.index.find(target);
        if let Some(mapped) = &self.reader.mapped_blocks {
            mapped.prefetch_slot(index);
        }
        self.reader.blocks.prefetch_block_start(index);
    }

    fn record_error(&mut self, error: Error) {
        self.first_error.get_or_insert(error);
    }

    /// Moves to block `index` and positions the block iterator with `seek`.
    fn load_block(&mut self, index: usize, seek: impl FnOnce(&mut DataBlockIter)) {
        self.load_block_with(TableReader::read_block, index, seek);
    }

    /// Moves to block `index` like [`TableIter::load_block`]. `read_block` returns the block.
    #[inline]
    fn load_block_with(
        &mut self,
        read_block: fn(&TableReader, usize, BlockReadOptions) -> Result<BlockLocation>,
        index: usize,
        seek: impl FnOnce(&mut DataBlockIter),
    ) {
        self.unload_block();
        self.block_index = index;
        if index >= self.reader.index.len() {
            return self
                .reader
                .index
                .check_complete(&self.reader.path)
                .unwrap_or_else(|error| self.record_error(error));
        }
        let table = &self.reader;
        match read_block(table, index, self.read_options) {
            Ok(location) => {
                self.cache_missed = !matches!(location, BlockLocation::InMemory(BlockRef::Hazard(_)));
                let old = self.block_iter.as_mut().map(DataBlockIter::reset);
                let block = match (location, &table.mapped_blocks, old) {
                    (BlockLocation::Mapped(block), _, Some(DataBlock::Mapped(mapped))) => {
                        mapped.replace(&block).map(|()| None)
                    }
                    (BlockLocation::Mapped(block), Some(blocks), _) => {
                        MappedBlock::new(blocks, &block).map(|block| Some(DataBlock::Mapped(block)))
                    }
                    // Only a mapped table has mapped blocks.
                    (BlockLocation::Mapped(_), None, _) => Ok(None),
                    (BlockLocation::InMemory(block), ..) => Ok(Some(DataBlock::InMemory(block.into_arc()))),
                };
                let block = match block {
                    Ok(block) => block,
                    Err(error) => {
                        let error = table.block_error(index, &error);
                        return self.record_error(error);
                    }
                };
                let block_iter = match (&mut self.block_iter, block) {
                    (Some(block_iter), Some(block)) => {
                        if let DataBlock::InMemory(old) = std::mem::replace(block_iter.reset(), block) {
                            block_pool::recycle(old);
                        }
                        block_iter
                    }
                    (Some(block_iter), None) => block_iter,
                    (none, Some(block)) => none.insert(BlockIter::new(block, table.context.order.clone())),
                    (None, None) => return,
                };
                self.is_block_loaded = true;
                seek(block_iter);
            }
            Err(error) => self.record_error(error),
        }
    }

    /// Leaves the current block and keeps its error.
    fn unload_block(&mut self) {
        if let Err(error) = self.block_status() {
            self.record_error(error);
        }
        if let Some(block_iter) = &mut self.block_iter {
            block_iter.invalidate();
        }
        self.is_block_loaded = false;
    }

    fn block_status(&self) -> Result<()> {
        match self.block_iter.as_ref().map(BlockIter::status) {
            Some(Err(error)) if self.is_block_loaded => {
                Err(self.reader.block_error(self.block_index, &error))
            }
            _ => Ok(()),
        }
    }

    /// Moves to the following blocks until there is an entry.
    fn skip_empty_blocks_forward(&mut self) {
        self.backward_run = false;
        while !self.valid() && self.block_index < self.reader.index.len() {
            let missed = self.cache_missed && std::mem::replace(&mut self.forward_run, true);
            self.load_block(self.block_index + 1, BlockIter::seek_to_first);
            if missed && self.cache_missed {
                self.readahead_forward(self.block_index + 1);
            } else {
                self.reader.blocks.prefetch_block_start(self.block_index + 1);
            }
        }
    }

    fn skip_empty_blocks_backward(&mut self) {
        self.forward_run = false;
        while !self.valid() && self.block_index > 0 {
            let missed = self.cache_missed && std::mem::replace(&mut self.backward_run, true);
            self.load_block(self.block_index - 1, BlockIter::seek_to_last);
            match self.block_index.checked_sub(1) {
                Some(previous) if missed && self.cache_missed => self.readahead_backward(previous),
                Some(previous) => self.reader.blocks.prefetch_block_end(previous),
                None => {}
            }
        }
    }

    /// Requests block `index` and some after it from the system, unless an earlier request covers
    /// them. A file that is read by system calls needs no request, because the system detects a
    /// forward scan.
    fn readahead_forward(&mut self, index: usize) {
        if self.reader.file.mapped_slice().is_none() {
            return;
        }
        let blocks_end = self.reader.metaindex_handle.offset;
        let Some(handle) = self.block_handle(index) else { return };
        let is_requested = self.readahead_range.contains(&handle.offset);
        // The next request is due before the scan reaches the end of the previous one, so that it
        // does not wait there.
        let remaining = self.readahead_range.end.saturating_sub(handle.offset);
        if is_requested && (remaining > self.readahead_size / 2 || self.readahead_range.end >= blocks_end) {
            return;
        }
        let from = if is_requested { self.readahead_range.end } else { handle.offset };
        let to = from.saturating_add(self.next_readahead_size(is_requested)).min(blocks_end);
        self.reader.file.prefetch(from, to.saturating_sub(from));
        self.readahead_range = handle.offset..to;
    }

    /// Requests block `index` and some before it from the system, unless an earlier request covers
    /// them.
    fn readahead_backward(&mut self, index: usize) {
        let Some(handle) = self.block_handle(index) else { return };
        let is_requested = self.readahead_range.contains(&handle.offset);
        let remaining = handle.offset.saturating_sub(self.readahead_range.start);
        if is_requested && (remaining > self.readahead_size / 2 || self.readahead_range.start == 0) {
            return;
        }
        let end = handle.offset.saturating_add(handle.size);
        let to = if is_requested { self.readahead_range.start } else { end };
        let from = to.saturating_sub(self.next_readahead_size(is_requested));
        self.reader.file.prefetch(from, to - from);
        self.readahead_range = from..end;
    }

    /// Returns the size of the next readahead. A scan that continues doubles it.
    fn next_readahead_size(&mut self, continues: bool) -> u64 {
        self.readahead_size = if continues {
            (2 * self.readahead_size).min(MAX_READAHEAD_SIZE)
        } else {
            INITIAL_READAHEAD_SIZE
        };
        self.readahead_size
    }

    fn block_handle(&self, index: usize) -> Option<BlockHandle> {
        let is_in_table = index < self.reader.index.len();
        is_in_table.then(|| self.reader.index.block_handle(index, &self.reader.path).ok()).flatten()
    }
}

impl InternalIterator for TableIter {
    type Error = Error;

    #[inline]
    fn valid(&self) -> bool {
        self.block_iter.as_ref().is_some_and(BlockIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.forward_run = false;
        self.load_block(0, BlockIter::seek_to_first);
        self.skip_empty_blocks_forward();
    }

    fn seek_to_last(&mut self) {
        let count = self.reader.index.len();
        self.forward_run = false;
        self.backward_run = false;
        // If the index is damaged, blocks after the last one that it names may be missing. This
        // records the error.
        self.load_block(count, |_| ());
        self.skip_empty_blocks_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let range = self.reader.prefetch_approx_range(target);
        let index = self.reader.index.find_in_range(target, range.as_ref());
        if let Some(block) =
            self.block_iter.as_mut().filter(|_| self.is_block_loaded && index == self.block_index)
        {
            block.seek(target);
        } else {
            self.load_block_with(TableReader::read_searchable_block, index, |block| block.seek(target));
        }
        if let Some(block) = self.block_iter.as_ref().filter(|block| block.valid()) {
            let rest = block.contents().bytes().get(block.value_range().start..).unwrap_or_default();
            prefetch(rest.as_ptr(), rest.len().min(PREFETCH_SEEK_BYTES));
        }
        self.forward_run = false;
        self.skip_empty_blocks_forward();
    }

    #[inline]
    fn next(&mut self) {
        let Some(block) = &mut self.block_iter else { return };
        block.next();
        if !block.valid() {
            self.skip_empty_blocks_forward();
        }
    }

    #[inline]
    fn prev(&mut self) {
        let Some(block) = &mut self.block_iter else { return };
        block.prev();
        if !block.valid() {
            self.skip_empty_blocks_backward();
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.block_iter.as_ref().map_or(&[], BlockIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.block_iter.as_ref().map_or(&[], BlockIter::value)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.block_iter.as_ref()?.entry()
    }

    fn status(&self) -> Result<()> {
        self.first_error.clone().map_or_else(|| self.block_status(), Err)
    }
}
