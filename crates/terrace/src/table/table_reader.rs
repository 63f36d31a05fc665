//! Open table: its index in memory, its blocks through the block cache.
//!
//! ```text
//!   get(key):  filter --maybe--> index --slot--> cached block --> entry
//!                                           \--> file, decompressed
//! ```
//!
//! The checksum of a block is verified when the block is read from the file. A damaged block is an
//! error of the reads that need it. The other blocks stay readable.

use std::path::{Path, PathBuf};
// Of the standard library: a model checker would only lose time with a counter for reports.
use std::sync::atomic::AtomicU64;

use terrace_env::RandomAccessFile;
use terrace_format::DecodeError;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::filter::FilterPolicy;
use terrace_format::filter_block::FilterBlockReader;
use terrace_format::key_order::{ApproxRange, KeyOrder};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, TableProperties};

use super::block_fetcher::{read_block, read_block_bytes, read_block_with, read_footer};
use super::block_pool;
use super::index_reader::IndexReader;
use super::mapped_blocks::{BlockInMapping, MappedBlocks};
use super::table_memory::{Reservation, TableMemory};
use crate::cache::{BlockCache, BlockRef, TableBlocks};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::ReadOptions;
use crate::stats::{Statistics, Ticker};
use crate::sync::{Arc, Ordering};

/// State that all tables of a database share.
pub(crate) struct TableReaderContext {
    /// Order of the internal keys.
    pub(crate) order: KeyOrder,
    /// Filter policy for internal keys.
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) cache: Arc<BlockCache>,
    /// Number of this open of the database, from [`crate::cache::new_cache_id`].
    pub(crate) cache_id: u64,
    pub(crate) metrics: Statistics,
    pub(crate) memory: Arc<TableMemory>,
}

/// Options of a block read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockReadOptions {
    /// Inserts the blocks that this read fetches into the block cache.
    pub(crate) fill_cache: bool,
    /// Verifies the checksum of an uncompressed block in a mapped table at every read, not only at
    /// the first one. Other blocks are verified when they are read from their file.
    pub(crate) verify_checksums: bool,
    /// Returns [`Error::WouldWait`] instead of a read from the file, unless the page cache holds
    /// the block.
    pub(crate) only_in_memory: bool,
}

impl BlockReadOptions {
    /// Options of bulk reads that must not pass damage on: compactions, repair, checks.
    pub(crate) const BULK: BlockReadOptions =
        BlockReadOptions { fill_cache: false, verify_checksums: true, only_in_memory: false };

    /// Returns the options of a read of the caller.
    pub(crate) fn from_read_options(options: &ReadOptions) -> BlockReadOptions {
        let ReadOptions { fill_cache, verify_checksums, .. } = *options;
        BlockReadOptions { fill_cache, verify_checksums, only_in_memory: false }
    }
}

/// Open table. Any number of threads may read it.
pub(crate) struct TableReader {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) path: PathBuf,
    pub(super) context: Arc<TableReaderContext>,
    pub(super) index: IndexReader,
    pub(super) blocks: TableBlocks,
    /// Blocks that reads search in place, if the file is mapped.
    pub(super) mapped_blocks: Option<MappedBlocks>,
    pub(super) filter: Option<FilterBlockReader>,
    /// True if the filter covers the whole table, not parts of 2 KiB.
    pub(super) has_full_filter: bool,
    pub(super) metaindex_handle: BlockHandle,
    /// Reservation for the memory of this reader. None while `open` runs.
    reservation: Option<Reservation>,
    /// Number of sampled block reads, which the handle of the table keeps.
    pub(super) sampled_reads: Arc<AtomicU64>,
}

/// Number of block reads that one sample stands for. Each read would cost a shared cache line.
pub(super) const READ_SAMPLE_WEIGHT: u64 = 1 << READ_SAMPLE_WEIGHT_LOG2;
const READ_SAMPLE_WEIGHT_LOG2: u32 = 6;

/// True if the read after `before` others is a sample. The multiplication by 2^64 divided by the
/// golden ratio separates the samples from most periods of accesses.
#[inline]
fn is_read_sample(before: u64) -> bool {
    before.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - READ_SAMPLE_WEIGHT_LOG2) == 0
}

/// Data block in memory or in the mapping of its table.
pub(super) enum BlockLocation {
    InMemory(BlockRef),
    Mapped(BlockInMapping),
}

impl TableReader {
    /// Opens the table in the first `size` bytes of `file`.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        path: PathBuf,
        size: u64,
        number: u64,
        context: Arc<TableReaderContext>,
    ) -> Result<TableReader> {
        let footer = read_footer(&*file, &path, size)?;
        let index = IndexReader::new(read_block(&*file, &path, footer.index)?, context.order.clone())
            .map_err(|error| Error::from_decode_error(&path, &error))?;
        let blocks = context.cache.table_blocks(context.cache_id, number, index.len());
        let mapped_blocks = MappedBlocks::new(&file, index.len(), &context.memory);
        let mut table = TableReader {
            file,
            path,
            context,
            index,
            blocks,
            mapped_blocks,
            filter: None,
            has_full_filter: false,
            metaindex_handle: footer.metaindex,
            reservation: None,
            sampled_reads: Arc::default(),
        };
        table.filter = table.read_filter()?;
        table.has_full_filter = table.filter.as_ref().is_some_and(|filter| filter.is_full_filter(size));
        table.reservation = Some(table.context.memory.reserve(table.memory_usage()));
        Ok(table)
    }

    /// Tells the system that the pages of the file that were read will not be read again soon.
    pub(super) fn advise_dontneed(&self) {
        self.file.advise_dontneed();
    }

    /// Returns true if a read of the file may wait for the storage.
    pub(super) fn may_block(&self) -> bool {
        self.file.may_block()
    }

    /// Starts an asynchronous read of the block that a lookup of `target` needs, unless it is
    /// cached. Returns true if the lookup probably ends in this table.
    pub(crate) fn prefetch(&self, target: &[u8]) -> bool {
        let index = self.index.find(target);
        if index == self.index.len() {
            return false;
        }
        let Ok(handle) = self.index.block_handle(index, &self.path) else { return false };
        let offset = if self.has_full_filter { 0 } else { handle.offset };
        if self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)) {
            return false;
        }
        if !self.blocks.is_cached(index) {
            self.file.prefetch(handle.offset, handle.size.saturating_add(BLOCK_TRAILER_SIZE as u64));
        }
        self.filter.is_some()
    }

    /// Returns the contents of the file if it is mapped.
    #[inline]
    pub(super) fn mapped_bytes(&self) -> &[u8] {
        self.mapped_blocks.as_ref().map_or(&[], |blocks| blocks.file())
    }

    /// Returns the memory use in bytes, without the blocks.
    fn memory_usage(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, FilterBlockReader::memory_usage);
        size_of::<TableReader>()
            + self.path.capacity()
            + self.index.memory_usage()
            + self.blocks.memory_usage()
            + self.mapped_blocks.as_ref().map_or(0, MappedBlocks::memory_usage)
            + filter
    }

    /// Returns the order of the internal keys.
    pub(super) fn order(&self) -> &KeyOrder {
        &self.context.order
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the table properties, if the table stores them. Damaged properties count as absent.
    pub(super) fn properties(&self) -> Result<Option<TableProperties>> {
        match self.read_meta_block(TableProperties::BLOCK_NAME) {
            Ok(contents) => Ok(contents.and_then(|contents| TableProperties::decode(&contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the filter of the configured policy. A table with a damaged filter is read without
    /// it, which is slower but correct.
    fn read_filter(&self) -> Result<Option<FilterBlockReader>> {
        let Some(policy) = self.context.filter_policy.clone() else { return Ok(None) };
        let contents = self.read_meta_block(&format!("filter.{}", policy.name()));
        match contents {
            Ok(contents) => Ok(contents.map(|contents| FilterBlockReader::new(policy, contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the meta block with this name, if the metaindex lists it.
    fn read_meta_block(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let metaindex = read_block(&*self.file, &self.path, self.metaindex_handle)?;
        let mut entries = BlockIter::new(Arc::new(metaindex), bytewise());
        entries.seek(name.as_bytes());
        if !entries.valid() || entries.key() != name.as_bytes() {
            return Ok(None);
        }
        let Ok((handle, _)) = BlockHandle::decode(entries.value()) else { return Ok(None) };
        read_block_bytes(&*self.file, &self.path, handle).map(Some)
    }

    /// Returns the range of index entries that may contain `target`. Prefetches the heads of that
    /// range and the slots of its blocks.
    #[inline]
    pub(super) fn prefetch_approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
        let approx_range = self.index.approx_range(target)?;
        self.index.prefetch(&approx_range);
        let range = approx_range.range();
        let is_mapped =
            self.mapped_blocks.as_ref().is_some_and(|mapped| mapped.prefetch_slots(range.clone()));
        if !is_mapped {
            self.blocks.prefetch_slots(range.start);
        }
        Some(approx_range)
    }

    /// Returns at most `most` separators at even distances, as approximate block boundaries.
    pub(crate) fn sample_separators(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        self.index.sample_separators(most)
    }

    /// Returns the approximate offset of `key` in the file, in bytes.
    pub(crate) fn approximate_offset(&self, key: &[u8]) -> u64 {
        let index = self.index.find(key);
        let handle =
            if index < self.index.len() { self.index.block_handle(index, &self.path).ok() } else { None };
        // A key after the last block: the metaindex block follows the data blocks.
        handle.map_or(self.metaindex_handle.offset, |handle| handle.offset)
    }

    /// Returns the offset of block `index` in the file.
    pub(super) fn block_offset(&self, index: usize) -> Result<u64> {
        self.index.block_handle(index, &self.path).map(|handle| handle.offset)
    }

    /// Returns block `index` with a search index, if possible.
    pub(super) fn read_searchable_block(
        &self,
        index: usize,
        read: BlockReadOptions,
    ) -> Result<BlockLocation> {
        Ok(match self.get_or_read_block(index, read, true)? {
            (BlockLocation::InMemory(block), true) if !block.has_search_index() => {
                BlockLocation::InMemory(self.add_search_index(index, block))
            }
            (block, _) => block,
        })
    }

    /// Adds a search index to a block that a scan cached without one.
    #[cold]
    fn add_search_index(&self, index: usize, block: BlockRef) -> BlockRef {
        if !self.blocks.can_replace() {
            return block;
        }
        let order = &self.context.order;
        // Without memory for the index, the search decodes entries.
        let Ok(indexed) = block_pool::reuse(|memory| block.with_search_index(order, memory)) else {
            return block;
        };
        self.blocks.replace(index, &indexed).into_iter().for_each(block_pool::recycle);
        BlockRef::Counted(indexed)
    }

    pub(super) fn read_block(&self, index: usize, read: BlockReadOptions) -> Result<BlockLocation> {
        Ok(self.get_or_read_block(index, read, false)?.0)
    }

    /// Returns block `index`, and whether it was cached. `search` asks for a search index.
    fn get_or_read_block(
        &self,
        index: usize,
        read: BlockReadOptions,
        search: bool,
    ) -> Result<(BlockLocation, bool)> {
        let mapped = self.mapped_blocks.as_ref();
        if let Some(block) =
            mapped.filter(|_| !read.verify_checksums).and_then(|mapped| mapped.get_indexed(index))
        {
            self.check_in_memory(read, &block)?;
            self.count_cache_event(Ticker::BlockReadInPlace, read);
            return Ok((BlockLocation::Mapped(block), false));
        }
        self.blocks.prefetch_ref_counts(index);
        if let Some(block) = self.blocks.get(index, || self.block_offset(index))? {
            self.count_cache_event(Ticker::BlockCacheHit, read);
            return Ok((BlockLocation::InMemory(block), true));
        }
        let handle = self.index.block_handle(index, &self.path)?;
        let stored_size = handle.size.saturating_add(BLOCK_TRAILER_SIZE as u64);
        if read.only_in_memory && !self.file.is_in_memory(handle.offset, stored_size) {
            return Err(Error::WouldWait);
        }
        if let Some(mapped) = mapped {
            if !mapped.is_verified(index) || read.verify_checksums {
                self.file.prefetch(handle.offset, stored_size);
            }
            let separators = self.index.separators(index);
            let verify = read.verify_checksums;
            let for_searches = read.fill_cache;
            let block = mapped.get_or_verify(index, handle, &self.path, verify, for_searches, separators)?;
            if let Some(block) = block {
                self.count_cache_event(Ticker::BlockReadInPlace, read);
                return Ok((BlockLocation::Mapped(block), false));
            }
        }
        self.count_cache_event(Ticker::BlockCacheMiss, read);
        // A block that an external cache keeps cannot be replaced later, so it gets a search index
        // now. A block that is not cached is searched once, which is cheaper without a search
        // index.
        let with_search_index = read.fill_cache && (search || !self.blocks.can_replace());
        let block = block_pool::reuse(|memory| {
            read_block_with(&*self.file, &self.path, handle, |contents| match with_search_index {
                true => Block::copy_with_search_index(contents, &self.context.order, memory),
                false => Block::copy_of(contents, memory),
            })
        })?;
        if read.fill_cache {
            self.blocks.insert(index, handle.offset, &block).into_iter().for_each(block_pool::recycle);
        }
        Ok((BlockLocation::InMemory(BlockRef::Counted(block)), false))
    }

    /// Returns an error if a read of `block` in the mapping might wait and `read` must not.
    #[inline]
    pub(super) fn check_in_memory(&self, read: BlockReadOptions, block: &BlockInMapping) -> Result<()> {
        let may_wait = read.only_in_memory && self.may_block() && !self.is_in_memory(block);
        if may_wait { Err(Error::WouldWait) } else { Ok(()) }
    }

    #[cold]
    fn is_in_memory(&self, block: &BlockInMapping) -> bool {
        self.file.is_in_memory(block.offset() as u64, block.size() as u64)
    }

    /// Counts cache events of reads that use the cache. Compactions do not.
    pub(super) fn count_cache_event(&self, ticker: Ticker, read: BlockReadOptions) {
        if read.fill_cache && is_read_sample(self.context.metrics.add(ticker, 1)) {
            self.sampled_reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[cold]
    pub(super) fn block_error(&self, index: usize, error: &DecodeError) -> Error {
        let message = format!("block entry at {}: {error}", error.offset);
        Error::corruption(&self.path, self.block_offset(index).ok(), message)
    }
}
