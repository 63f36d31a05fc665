//! Iterator over one table: block after block, with readahead where the system sees no sequential read.

use std::ops::Range;

use terrace_env::prefetch;
use terrace_format::block::BlockIter;
use terrace_format::table::BlockHandle;

use super::block_pool;
use super::table_reader::{BlockReadOptions, TableReader};
use crate::cache::BlockRef;
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// So much is fetched ahead of a walk that was just begun, in bytes: the next few entries, until the processor sees where it
/// goes.
const PREFETCH_SEEK_BYTES: usize = 512;

/// A walk asks the system for so many bytes when it has come through two blocks that were not at hand, and for twice as many each
/// time, up to so many. Where it goes back, or through a mapping of more than fits in memory, the system does not see by itself what
/// comes next.
const INITIAL_READAHEAD_SIZE: u64 = 128 << 10;
const MAX_READAHEAD_SIZE: u64 = 2 << 20;

/// A walk over one table.
pub(crate) struct TableIter {
    reader: Arc<TableReader>,
    read_options: BlockReadOptions,
    /// The block that it is in, or was in last; their number behind the last.
    block_index: usize,
    /// Made with the first block, and taken along to the others.
    block_iter: Option<BlockIter>,
    /// `block` is in block `at`.
    is_block_loaded: bool,
    /// The block was not at hand.
    cache_missed: bool,
    /// It came into that block from the one before it.
    forward_run: bool,
    /// It came into that block from the one behind it.
    backward_run: bool,
    /// What it has asked the system for, of the file, and not come through.
    readahead_range: Range<u64>,
    /// How much of that it asked for last.
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

    /// The walk over the block that it is in or was in last, to step within that.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut BlockIter> {
        self.block_iter.as_mut()
    }

    /// Has that fetched which a seek of `target` looks at first.
    pub(crate) fn prefetch_index(&self, target: &[u8]) {
        self.reader.prefetch_approx_range(target);
    }

    /// Has that fetched which a seek of `target` looks at when it has what [`TableIter::prefetch_index`] had fetched.
    pub(crate) fn prefetch_block(&self, target: &[u8]) {
        self.reader.blocks.prefetch_block_start(self.reader.index.find(target));
    }

    fn record_error(&mut self, error: Error) {
        self.first_error.get_or_insert(error);
    }

    /// Goes to block `at`, and there where `seek` says.
    fn load_block(&mut self, at: usize, seek: impl FnOnce(&mut BlockIter)) {
        self.load_block_with(TableReader::read_block, at, seek);
    }

    /// As [`TableIter::load_block`], with the block that `find` gives.
    #[inline]
    fn load_block_with(
        &mut self,
        find: fn(&TableReader, usize, BlockReadOptions) -> Result<BlockRef>,
        at: usize,
        seek: impl FnOnce(&mut BlockIter),
    ) {
        self.unload_block();
        self.block_index = at;
        if at >= self.reader.index.len() {
            return self
                .reader
                .index
                .check_complete(&self.reader.path)
                .unwrap_or_else(|error| self.record_error(error));
        }
        let table = &self.reader;
        match find(table, at, self.read_options) {
            Ok(block) => {
                self.cache_missed = matches!(block, BlockRef::Counted(_));
                let block = block.into_arc();
                let entries = match &mut self.block_iter {
                    Some(entries) => {
                        block_pool::recycle(entries.reset(block));
                        entries
                    }
                    none => none.insert(BlockIter::new(block, table.context.order.clone())),
                };
                self.is_block_loaded = true;
                seek(entries);
            }
            Err(error) => self.record_error(error),
        }
    }

    /// Leaves the present block, keeping what was wrong with it.
    fn unload_block(&mut self) {
        if let Err(error) = self.block_status() {
            self.record_error(error);
        }
        self.block_iter.iter_mut().for_each(BlockIter::invalidate);
        self.is_block_loaded = false;
    }

    fn block_status(&self) -> Result<()> {
        match self.block_iter.as_ref().and_then(BlockIter::error) {
            Some(flaw) if self.is_block_loaded => Err(self.reader.block_error(self.block_index, flaw)),
            _ => Ok(()),
        }
    }

    /// Moves on to the following blocks until there is an entry.
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
                Some(before) if missed && self.cache_missed => self.readahead_backward(before),
                Some(before) => self.reader.blocks.prefetch_block_end(before),
                None => {}
            }
        }
    }

    /// Has the system read block `at` and some behind it, unless it was asked for them. Where the file is read by calls, it sees by
    /// itself what comes next.
    fn readahead_forward(&mut self, at: usize) {
        if self.reader.file.mapped_slice().is_none() {
            return;
        }
        let blocks_end = self.reader.metaindex_handle.offset;
        let Some(handle) = self.block_handle(at) else { return };
        let known = self.readahead_range.contains(&handle.offset);
        // Before it comes to the end of what it has asked for, so that it need not wait there.
        let left = self.readahead_range.end.saturating_sub(handle.offset);
        if known && (left > self.readahead_size / 2 || self.readahead_range.end >= blocks_end) {
            return;
        }
        let from = if known { self.readahead_range.end } else { handle.offset };
        let to = from.saturating_add(self.next_readahead_size(known)).min(blocks_end);
        self.reader.file.prefetch(from, to.saturating_sub(from));
        self.readahead_range = handle.offset..to;
    }

    /// Has the system read block `at` and some before it, unless it was asked for them.
    fn readahead_backward(&mut self, at: usize) {
        let Some(handle) = self.block_handle(at) else { return };
        let known = self.readahead_range.contains(&handle.offset);
        let left = handle.offset.saturating_sub(self.readahead_range.start);
        if known && (left > self.readahead_size / 2 || self.readahead_range.start == 0) {
            return;
        }
        let end = handle.offset.saturating_add(handle.size);
        let to = if known { self.readahead_range.start } else { end };
        let from = to.saturating_sub(self.next_readahead_size(known));
        self.reader.file.prefetch(from, to - from);
        self.readahead_range = from..end;
    }

    /// How much it asks for next, which goes on from what it has asked for or does not.
    fn next_readahead_size(&mut self, goes_on: bool) -> u64 {
        self.readahead_size =
            if goes_on { (2 * self.readahead_size).min(MAX_READAHEAD_SIZE) } else { INITIAL_READAHEAD_SIZE };
        self.readahead_size
    }

    fn block_handle(&self, at: usize) -> Option<BlockHandle> {
        let there = at < self.reader.index.len();
        there.then(|| self.reader.index.block_handle(at, &self.reader.path).ok()).flatten()
    }
}

impl InternalIterator for TableIter {
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
        (self.forward_run, self.backward_run) = (false, false);
        // Behind a broken index there may be more.
        self.load_block(count, |_| ());
        self.skip_empty_blocks_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let near = self.reader.prefetch_approx_range(target);
        let at = self.reader.index.find_in_range(target, near.as_ref());
        if self.is_block_loaded && at == self.block_index {
            self.block_iter.iter_mut().for_each(|block| block.seek(target));
        } else {
            self.load_block_with(TableReader::read_searchable_block, at, |block| block.seek(target));
        }
        if let Some(block) = self.block_iter.as_ref().filter(|block| block.valid()) {
            let rest = &block.block().contents()[block.value_range().start..];
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
