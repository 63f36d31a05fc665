//! Open table: its index in memory, its blocks through the block cache.
//!
//! ```text
//!   get(key):  filter --maybe--> index --slot--> cached block --> entry
//!                                           \--> file, decompressed
//! ```
//!
//! The checksum of a block is verified when the block is read from the file. A damaged block is an
//! error of the reads that need it. The other blocks stay readable.

use std::ops::Range;
use std::path::{Path, PathBuf};

use terrace_env::{RandomAccessFile, prefetch};
use terrace_format::DecodeError;
use terrace_format::block::{Block, BlockIter, BlockLookup, BlockSource};
use terrace_format::comparator::bytewise;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
use terrace_format::filter_block::FilterBlockReader;
use terrace_format::key;
use terrace_format::key_order::{ApproxRange, KeyOrder};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, TableProperties};

use super::block_fetcher::{read_block, read_block_bytes, read_block_with, read_footer};
use super::block_pool;
use super::index_reader::IndexReader;
use super::mapped_blocks::{BlockInMapping, MappedBlock, MappedBlocks};
use super::table_cache::TableGuard;
use super::table_memory::{Reservation, TableMemory};
use crate::cache::{BlockCache, BlockRef, TableBlocks};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::ReadOptions;
use crate::stats::{Statistics, Ticker};
use crate::sync::Arc;

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
}

impl BlockReadOptions {
    /// Options of bulk reads that must not pass damage on: compactions, repair, checks.
    pub(crate) const BULK: BlockReadOptions = BlockReadOptions { fill_cache: false, verify_checksums: true };

    /// Returns the options of a read of the caller.
    pub(crate) fn from_read_options(options: &ReadOptions) -> BlockReadOptions {
        BlockReadOptions { fill_cache: options.fill_cache, verify_checksums: options.verify_checksums }
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
    filter: Option<FilterBlockReader>,
    /// True if the filter covers the whole table, not parts of 2 KiB.
    has_full_filter: bool,
    pub(super) metaindex_handle: BlockHandle,
    /// Reservation for the memory of this reader. None while `open` runs.
    reservation: Option<Reservation>,
}

/// Key of a lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupKey<'a> {
    /// Internal key. The lookup finds the newest version of its user key that is not newer.
    pub(crate) key: &'a [u8],
    /// Hash of the user key for Bloom filters.
    pub(crate) filter_hash: u32,
}

impl<'a> LookupKey<'a> {
    pub(crate) fn new(key: &'a [u8]) -> LookupKey<'a> {
        LookupKey { key, filter_hash: BloomFilterPolicy::hash(key::user_key(key)) }
    }
}

/// Entry that a lookup found.
pub(crate) struct FoundEntry {
    /// Trailer of its internal key.
    pub(crate) trailer: u64,
    location: FoundLocation,
    /// Range of the value within the contents of the block or of the file.
    value_range: Range<usize>,
}

/// Memory of a found value.
enum FoundLocation {
    Block(BlockRef),
    /// Mapped file of a table. The guard keeps it mapped after the lookup.
    File(TableGuard),
}

/// Result of a lookup in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableLookup {
    Found,
    /// The lookup searched a block that lacks the key.
    NotFound,
    /// The filter or the index excluded the key, without a search of a block.
    FilteredOut,
}

impl FoundEntry {
    /// Creates an entry whose trailer and value are still unknown.
    #[inline]
    fn new(location: FoundLocation) -> FoundEntry {
        FoundEntry { trailer: 0, location, value_range: 0..0 }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match &self.location {
            FoundLocation::Block(block) => &block.contents()[self.value_range.clone()],
            FoundLocation::File(table) => {
                table.mapped_bytes().get(self.value_range.clone()).unwrap_or_default()
            }
        }
    }

    /// Returns the value for another thread or a long time: a copy of a small value in a mapped
    /// file, or shared ownership of its memory.
    pub(crate) fn pin(&self) -> PinnedEntry {
        let value_range = self.value_range.clone();
        match &self.location {
            FoundLocation::Block(block) => PinnedEntry::InBlock { block: block.to_arc(), value_range },
            FoundLocation::File(_) if value_range.len() <= COPIED_PINNED_VALUE_MAX => {
                PinnedEntry::Copied(self.value().into())
            }
            FoundLocation::File(table) => PinnedEntry::InFile { table: table.to_arc(), value_range },
        }
    }
}

/// Maximum size of a value of a mapped file that is copied when it is pinned, in bytes. A pinned
/// larger value keeps the whole file mapped and its space on the disk in use.
const COPIED_PINNED_VALUE_MAX: usize = 4 << 10;

/// Value of a [`FoundEntry`] that keeps its memory.
pub(crate) enum PinnedEntry {
    Copied(Box<[u8]>),
    InBlock { block: Arc<Block>, value_range: Range<usize> },
    InFile { table: Arc<TableReader>, value_range: Range<usize> },
}

impl PinnedEntry {
    pub(crate) fn value(&self) -> &[u8] {
        match self {
            PinnedEntry::Copied(value) => value,
            PinnedEntry::InBlock { block, value_range } => &block.contents()[value_range.clone()],
            PinnedEntry::InFile { table, value_range } => {
                table.mapped_bytes().get(value_range.clone()).unwrap_or_default()
            }
        }
    }
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
    fn mapped_bytes(&self) -> &[u8] {
        self.mapped_blocks.as_ref().map_or(&[], |blocks| blocks.file())
    }

    /// Returns the memory use in bytes, without the blocks.
    fn memory_usage(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, FilterBlockReader::memory_usage);
        size_of::<TableReader>()
            + self.path.capacity()
            + self.index.memory_usage()
            + self.blocks.memory_usage()
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

    /// Looks up `key` and stores the entry in `found`. `likely` only decides whether to prefetch
    /// before the filter check. `is_same_user_key` returns true for an internal key with the
    /// searched user key. The result is an out parameter because a returned entry would be copied
    /// by each caller.
    pub(crate) fn get(
        table: TableGuard,
        LookupKey { key: target, filter_hash }: LookupKey<'_>,
        likely: bool,
        read: BlockReadOptions,
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<TableLookup> {
        // If the filter will probably pass, the memory that the search needs is prefetched before
        // the check. Waiting for all of it takes hardly longer than waiting for the bits of the
        // filter.
        let filter = table.filter.as_ref().filter(|_| table.has_full_filter);
        let bloom_query = filter.and_then(|filter| filter.bloom_query(filter_hash));
        let mut approx_range = None;
        if likely {
            if let Some(query) = bloom_query {
                query.probed_bytes().for_each(|byte| prefetch(byte, 1));
            }
            approx_range = table.prefetch_approx_range(target);
        }
        let is_filtered_out = match bloom_query {
            Some(query) => table.count_if_filtered_out(!query.may_match()),
            None => table.has_full_filter && table.is_filtered_out(0, target),
        };
        if is_filtered_out {
            return Ok(TableLookup::FilteredOut);
        }
        if !likely {
            approx_range = table.prefetch_approx_range(target);
        }
        let index = table.index.find_in_range(target, approx_range.as_ref());
        if index == table.index.len() {
            return table.index.check_complete(&table.path).map(|()| TableLookup::FilteredOut);
        }
        if !table.has_full_filter
            && table.filter.is_some()
            && table.is_filtered_out(table.block_offset(index)?, target)
        {
            return Ok(TableLookup::FilteredOut);
        }
        TableReader::get_in_block(table, index, target, read, is_same_user_key, found)?;
        Ok(if found.is_some() { TableLookup::Found } else { TableLookup::NotFound })
    }

    /// Returns the range of index entries that may contain `target`. Prefetches the heads of that
    /// range and the first cache slots.
    #[inline]
    pub(super) fn prefetch_approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
        let approx_range = self.index.approx_range(target)?;
        self.index.prefetch(&approx_range);
        self.blocks.prefetch_slots(approx_range.range().start);
        Some(approx_range)
    }

    /// Returns true if the filter excludes the key of `target` from the block at `offset`.
    fn is_filtered_out(&self, offset: u64, target: &[u8]) -> bool {
        self.count_if_filtered_out(
            self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)),
        )
    }

    #[inline]
    fn count_if_filtered_out(&self, is_filtered_out: bool) -> bool {
        if is_filtered_out {
            self.context.metrics.count(Ticker::FilterNegative);
        }
        is_filtered_out
    }

    /// Looks up `target` in one block, like [`TableReader::get`].
    #[inline]
    fn get_in_block(
        table: TableGuard,
        index: usize,
        target: &[u8],
        read: BlockReadOptions,
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        if let Some(mapped) = table.mapped_blocks.as_ref().filter(|_| !read.verify_checksums)
            && let Some(block) = mapped.get_indexed(index)
        {
            table.count_cache_event(Ticker::BlockReadInPlace, read);
            return TableReader::get_in_mapped_block(table, index, block, target, is_same_user_key, found);
        }
        // The entry is stored in `found` before the search. A later move of it would delay the copy
        // of the value.
        let cached = table.blocks.get_cached(index).filter(|block| block.has_search_index());
        let block = match cached {
            Some(block) => {
                table.count_cache_event(Ticker::BlockCacheHit, read);
                block
            }
            None => match table.read_searchable_block(index, read)? {
                BlockLocation::InMemory(block) => block,
                BlockLocation::Mapped(block) => {
                    return TableReader::get_in_mapped_block(
                        table,
                        index,
                        block,
                        target,
                        is_same_user_key,
                        found,
                    );
                }
            },
        };
        let hit = found.insert(FoundEntry::new(FoundLocation::Block(block)));
        let FoundLocation::Block(block) = &hit.location else { return Ok(()) };
        let lookup = match table.context.order {
            KeyOrder::Internal => block.seek_for_get(target),
            _ => Ok(BlockLookup::NeedsIterator),
        };
        match lookup {
            Ok(BlockLookup::Found { trailer, value }) => {
                hit.trailer = trailer;
                hit.value_range = value;
            }
            Ok(BlockLookup::NeedsIterator) => {
                let block = block.to_arc();
                *found = None;
                let entry = table.find_by_iterator(Arc::clone(&block), index, target, is_same_user_key)?;
                *found = entry.map(|(trailer, value_range)| FoundEntry {
                    trailer,
                    location: FoundLocation::Block(BlockRef::Counted(block)),
                    value_range,
                });
            }
            Ok(BlockLookup::NotFound) => *found = None,
            Err(error) => {
                *found = None;
                return Err(table.block_error(index, &error));
            }
        }
        if found.is_none() {
            table.count_false_positive();
        }
        Ok(())
    }

    /// Looks up `target` in an uncompressed block of the mapped file, like [`TableReader::get`].
    #[inline]
    fn get_in_mapped_block(
        table: TableGuard,
        index: usize,
        block: BlockInMapping,
        target: &[u8],
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        let contents = block.contents(table.mapped_bytes());
        let lookup = match table.context.order {
            KeyOrder::Internal => {
                block.search_start(contents, target).and_then(|start| contents.seek_for_get(start, target))
            }
            _ => Ok(BlockLookup::NeedsIterator),
        };
        let entry = match lookup {
            Ok(BlockLookup::Found { trailer, value }) => Some((trailer, value)),
            Ok(BlockLookup::NotFound) => None,
            Ok(BlockLookup::NeedsIterator) => {
                let block = table.mapped_blocks.as_ref().map(|blocks| MappedBlock::new(blocks, &block));
                let entry = block.map(|block| table.find_by_iterator(block, index, target, is_same_user_key));
                entry.transpose()?.flatten()
            }
            Err(error) => return Err(table.block_error(index, &error)),
        };
        match entry {
            Some((trailer, value)) => {
                let value_range = block.offset() + value.start..block.offset() + value.end;
                *found = Some(FoundEntry { trailer, location: FoundLocation::File(table), value_range });
            }
            None => table.count_false_positive(),
        }
        Ok(())
    }

    /// Counts a lookup of a key that the searched block lacks, although the filter admitted it.
    fn count_false_positive(&self) {
        if self.filter.is_some() {
            self.context.metrics.count(Ticker::FilterFalsePositive);
        }
    }

    /// Looks up `target` in a block with any comparator. Returns the trailer of the entry and the
    /// range of its value within the contents.
    #[cold]
    fn find_by_iterator(
        &self,
        block: impl BlockSource,
        index: usize,
        target: &[u8],
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<(u64, Range<usize>)>> {
        let mut entries = BlockIter::new(block, self.context.order.clone());
        entries.seek(target);
        if let Err(error) = entries.status() {
            return Err(self.block_error(index, &error));
        }
        // A separator may be greater than all keys of its block, but it is never greater than a
        // version of a key of the next block. The next block cannot hold the key.
        let is_found = entries.valid() && is_same_user_key(entries.key());
        Ok(is_found.then(|| (key::trailer(entries.key()), entries.value_range())))
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
    fn block_offset(&self, index: usize) -> Result<u64> {
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
            self.count_cache_event(Ticker::BlockReadInPlace, read);
            return Ok((BlockLocation::Mapped(block), false));
        }
        self.blocks.prefetch_ref_counts(index);
        if let Some(block) = self.blocks.get(index, || self.block_offset(index))? {
            self.count_cache_event(Ticker::BlockCacheHit, read);
            return Ok((BlockLocation::InMemory(block), true));
        }
        let handle = self.index.block_handle(index, &self.path)?;
        if let Some(mapped) = mapped {
            self.file.prefetch(handle.offset, handle.size.saturating_add(BLOCK_TRAILER_SIZE as u64));
            let separators = self.index.separators(index);
            let verify = read.verify_checksums;
            if let Some(block) = mapped.get_or_verify(index, handle, &self.path, verify, separators)? {
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

    /// Counts cache events of reads that use the cache. Compactions do not.
    fn count_cache_event(&self, ticker: Ticker, read: BlockReadOptions) {
        if read.fill_cache {
            self.context.metrics.count(ticker);
        }
    }

    #[cold]
    pub(super) fn block_error(&self, index: usize, error: &DecodeError) -> Error {
        let message = format!("block entry at {}: {error}", error.offset);
        Error::corruption(&self.path, self.block_offset(index).ok(), message)
    }
}
