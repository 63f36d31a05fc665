//! One open table: its index in memory, its blocks through the cache.
//!
//! ```text
//!   get(key):  filter --perhaps--> index --place--> cached block --> entry
//!                                              \--> file, unpacked
//! ```
//!
//! Every block's checksum is verified when it is read from the file. A damaged block is an error of the look-up that
//! needs it; the other blocks stay readable.

use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};

use terrace_env::{RandomAccessFile, prefetch};
use terrace_format::DecodeError;
use terrace_format::block::{Block, BlockIter, BlockLookup};
use terrace_format::comparator::bytewise;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
use terrace_format::filter_block::{BloomQuery, FilterBlockReader};
use terrace_format::key;
use terrace_format::key_order::{ApproxRange, KeyOrder};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, TableProperties};

use super::block_fetcher::{read_block, read_block_bytes, read_block_with, read_footer};
use super::block_pool;
use super::index_reader::IndexReader;
use super::table_memory::{Reservation, TableMemory};
use crate::cache::{BlockCache, BlockRef, TableBlocks};
use crate::error::{Error, Result};
use crate::stats::{Statistics, Ticker};
use crate::sync::Arc;

/// What the tables of a database share.
pub(crate) struct TableReaderContext {
    /// Of internal keys.
    pub(crate) order: KeyOrder,
    /// Over internal keys.
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) cache: Arc<BlockCache>,
    /// Of [`crate::cache::instance`].
    pub(crate) cache_id: u64,
    pub(crate) metrics: Statistics,
    pub(crate) memory: Arc<TableMemory>,
}

/// How blocks are fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockReadOptions {
    /// Keep fetched blocks in the cache.
    pub(crate) fill_cache: bool,
}

/// An open table. Any number of threads may read it.
pub(crate) struct TableReader {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) path: PathBuf,
    pub(super) context: Arc<TableReaderContext>,
    pub(super) index: IndexReader,
    pub(super) blocks: TableBlocks,
    filter: Option<FilterBlockReader>,
    /// The filter answers for every block.
    has_full_filter: bool,
    pub(super) metaindex_handle: BlockHandle,
    /// For what it holds in memory. None until all of that is there.
    reservation: Option<Reservation>,
}

/// What a look-up is after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupKey<'a> {
    /// The newest version of a user key at or behind this internal key.
    pub(crate) key: &'a [u8],
    /// Of the user key.
    pub(crate) filter_hash: u32,
}

impl<'a> LookupKey<'a> {
    pub(crate) fn new(key: &'a [u8]) -> LookupKey<'a> {
        LookupKey { key, filter_hash: BloomFilterPolicy::hash(key::user_key(key)) }
    }
}

/// An entry that a look-up found.
pub(crate) struct FoundEntry {
    /// The number behind its user key.
    pub(crate) trailer: u64,
    block: BlockRef,
    value_range: Range<usize>,
}

/// What a table says to a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableLookup {
    Found,
    /// A block was searched in vain.
    NotFound,
    /// No block need be looked at for it.
    FilteredOut,
}

impl FoundEntry {
    /// Of which nothing else is known yet.
    #[inline]
    fn from_block(block: BlockRef) -> FoundEntry {
        FoundEntry { trailer: 0, block, value_range: 0..0 }
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.block.contents()[self.value_range.clone()]
    }

    /// To be kept, or to go to another thread.
    pub(crate) fn pin(&self) -> PinnedEntry {
        PinnedEntry { block: self.block.to_arc(), value_range: self.value_range.clone() }
    }
}

/// The value of a [`FoundEntry`].
pub(crate) struct PinnedEntry {
    block: Arc<Block>,
    value_range: Range<usize>,
}

impl PinnedEntry {
    pub(crate) fn value(&self) -> &[u8] {
        &self.block.contents()[self.value_range.clone()]
    }
}

impl TableReader {
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        path: PathBuf,
        number: u64,
        context: Arc<TableReaderContext>,
    ) -> Result<TableReader> {
        let footer = read_footer(&*file, &path)?;
        let index = IndexReader::new(read_block(&*file, &path, footer.index)?, context.order.clone());
        let blocks = context.cache.table_blocks(context.cache_id, number, index.len());
        let metaindex = footer.metaindex;
        let (filter, filter_is_whole, charge) = (None, false, None);
        let mut table = TableReader {
            file,
            path,
            context,
            index,
            blocks,
            filter,
            has_full_filter: filter_is_whole,
            metaindex_handle: metaindex,
            reservation: charge,
        };
        table.filter = table.read_filter()?;
        let end = table.file.len();
        table.has_full_filter = table.filter.as_ref().is_some_and(|filter| filter.is_full_filter(end));
        table.reservation = Some(table.context.memory.reserve(table.memory_usage()));
        Ok(table)
    }

    /// Says that what was read of the file will hardly be read again.
    pub(super) fn advise_dontneed(&self) {
        self.file.advise_dontneed();
    }

    /// True if what is read of it may have to come from the device.
    pub(super) fn may_block(&self) -> bool {
        self.file.may_block()
    }

    /// Has the device begin with the block that a look-up of `target` will want, if that is not at hand. True if the look-up will
    /// hardly have to ask another table.
    pub(crate) fn prefetch(&self, target: &[u8]) -> bool {
        let at = self.index.find(target);
        if at == self.index.len() {
            return false;
        }
        let Ok(handle) = self.index.block_handle(at, &self.path) else { return false };
        let offset = if self.has_full_filter { 0 } else { handle.offset };
        if self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)) {
            return false;
        }
        if !self.blocks.is_cached(at) {
            self.file.prefetch(handle.offset, handle.size.saturating_add(BLOCK_TRAILER_SIZE as u64));
        }
        self.filter.is_some()
    }

    /// What it holds in memory, in bytes, but for its blocks.
    fn memory_usage(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, FilterBlockReader::memory_usage);
        size_of::<TableReader>()
            + self.path.capacity()
            + self.index.memory_usage()
            + self.blocks.memory_usage()
            + filter
    }

    /// Of internal keys.
    pub(super) fn order(&self) -> &KeyOrder {
        &self.context.order
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many entries it says that it has. A table whose counts are damaged is one that says nothing.
    pub(super) fn properties(&self) -> Result<Option<TableProperties>> {
        match self.read_meta_block(TableProperties::BLOCK_NAME) {
            Ok(contents) => Ok(contents.and_then(|contents| TableProperties::decode(&contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The filter of our policy. A table whose filter is damaged is read without: slower, and never wrong.
    fn read_filter(&self) -> Result<Option<FilterBlockReader>> {
        let Some(policy) = self.context.filter_policy.clone() else { return Ok(None) };
        let contents = self.read_meta_block(&format!("filter.{}", policy.name()));
        match contents {
            Ok(contents) => Ok(contents.map(|contents| FilterBlockReader::new(policy, contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The block that the metaindex calls `name`.
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

    /// Puts into `found` what `target` says, if it is there, which is `likely` or not; `same` says whether an internal key has
    /// that user key. (What is handed up by value is copied by each who hands it.)
    pub(crate) fn get(
        &self,
        LookupKey { key: target, filter_hash: hash }: LookupKey<'_>,
        likely: bool,
        read: BlockReadOptions,
        same: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<TableLookup> {
        // What a search will look at is fetched before the filter says whether to look, if it probably will say so: it hardly
        // takes longer to wait for all of it than for the bits of the filter.
        let filter = self.filter.as_ref().filter(|_| self.has_full_filter);
        let question = filter.and_then(|filter| filter.bloom_query(hash));
        let mut near = None;
        if likely {
            question.into_iter().flat_map(BloomQuery::probed_bytes).for_each(|byte| prefetch(byte, 1));
            near = self.prefetch_approx_range(target);
        }
        let denied = match question {
            Some(question) => self.count_if_filtered_out(!question.may_match()),
            None => self.has_full_filter && self.is_filtered_out(0, target),
        };
        if denied {
            return Ok(TableLookup::FilteredOut);
        }
        if !likely {
            near = self.prefetch_approx_range(target);
        }
        let at = self.index.find_in_range(target, near.as_ref());
        if at == self.index.len() {
            return self.index.check_complete(&self.path).map(|()| TableLookup::FilteredOut);
        }
        if !self.has_full_filter
            && self.filter.is_some()
            && self.is_filtered_out(self.block_offset(at)?, target)
        {
            return Ok(TableLookup::FilteredOut);
        }
        self.get_in_block(at, target, read, same, found)?;
        if found.is_some() {
            return Ok(TableLookup::Found);
        }
        if self.filter.is_some() {
            self.context.metrics.count(Ticker::FilterFalsePositive);
        }
        Ok(TableLookup::NotFound)
    }

    /// About where `target` is. What tells where exactly, and where the block is then, is on its way.
    #[inline]
    pub(super) fn prefetch_approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
        let near = self.index.approx_range(target)?;
        self.index.prefetch(&near);
        self.blocks.prefetch_slots(near.range().start);
        Some(near)
    }

    /// True if the filter is sure that the key of `target` is not in the block at `offset`.
    fn is_filtered_out(&self, offset: u64, target: &[u8]) -> bool {
        self.count_if_filtered_out(
            self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)),
        )
    }

    #[inline]
    fn count_if_filtered_out(&self, denied: bool) -> bool {
        if denied {
            self.context.metrics.count(Ticker::FilterNegative);
        }
        denied
    }

    /// [`Table::get`] in one block.
    #[inline]
    fn get_in_block(
        &self,
        at: usize,
        target: &[u8],
        read: BlockReadOptions,
        same: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        // In its place before the search: nothing is moved behind it that the copying of the value would wait for.
        *found = self.blocks.get_cached(at).map(FoundEntry::from_block);
        let hit = match found {
            Some(hit) if hit.block.has_search_index() => {
                self.count_cache_event(Ticker::BlockCacheHit, read);
                hit
            }
            _ => {
                *found = None;
                found.insert(FoundEntry::from_block(self.read_searchable_block(at, read)?))
            }
        };
        let looked = match self.context.order {
            KeyOrder::Internal => hit.block.seek_for_get(target),
            _ => Ok(BlockLookup::NeedsIterator),
        };
        match looked {
            Ok(BlockLookup::Found { trailer, value }) => {
                (hit.trailer, hit.value_range) = (trailer, value);
                return Ok(());
            }
            Ok(BlockLookup::NeedsIterator) => {
                let block = hit.block.to_arc();
                *found = None;
                *found = self.get_by_seek(block, at, target, same)?;
            }
            Ok(BlockLookup::NotFound) => *found = None,
            Err(flaw) => {
                *found = None;
                return Err(self.block_error(at, &flaw));
            }
        }
        Ok(())
    }

    /// [`Table::get_in_block`], in any order of keys.
    #[cold]
    fn get_by_seek(
        &self,
        block: Arc<Block>,
        at: usize,
        target: &[u8],
        same: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<FoundEntry>> {
        let mut entries = BlockIter::new(Arc::clone(&block), self.context.order.clone());
        entries.seek(target);
        if let Some(flaw) = entries.error() {
            return Err(self.block_error(at, flaw));
        }
        // A separator may lie above every key of its block, but never above a version of a key that the next block
        // has: there is nothing to find behind.
        if !entries.valid() || !same(entries.key()) {
            return Ok(None);
        }
        let (trailer, value) = (key::trailer(entries.key()), entries.value_range());
        Ok(Some(FoundEntry { trailer, block: BlockRef::Counted(block), value_range: value }))
    }

    /// About where blocks end, as internal keys, at most `most` of them and evenly apart.
    pub(crate) fn sample_separators(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        self.index.sample_separators(most)
    }

    /// About where in the file the data of `key` begins, in bytes.
    pub(crate) fn approximate_offset(&self, key: &[u8]) -> u64 {
        let at = self.index.find(key);
        let handle = if at < self.index.len() { self.index.block_handle(at, &self.path).ok() } else { None };
        // Behind the last key: the metaindex stands right behind the data.
        handle.map_or(self.metaindex_handle.offset, |handle| handle.offset)
    }

    /// Where block `at` begins in the file.
    fn block_offset(&self, at: usize) -> Result<u64> {
        self.index.block_handle(at, &self.path).map(|handle| handle.offset)
    }

    /// Block `at`, to be searched.
    pub(super) fn read_searchable_block(&self, at: usize, read: BlockReadOptions) -> Result<BlockRef> {
        let (block, hit) = self.get_or_read_block(at, read, true)?;
        Ok(if hit && !block.has_search_index() { self.add_search_index(at, block) } else { block })
    }

    /// Gives a directory to a block that a walk brought, which had no use for one.
    #[cold]
    fn add_search_index(&self, at: usize, block: BlockRef) -> BlockRef {
        if !self.blocks.can_replace() {
            return block;
        }
        let order = &self.context.order;
        let prepared =
            block_pool::reuse(|memory| Ok::<_, Infallible>(block.with_search_index(order, memory)));
        let prepared = prepared.unwrap_or_else(|never| match never {});
        self.blocks.replace(at, &prepared).into_iter().for_each(block_pool::recycle);
        BlockRef::Counted(prepared)
    }

    pub(super) fn read_block(&self, at: usize, read: BlockReadOptions) -> Result<BlockRef> {
        Ok(self.get_or_read_block(at, read, false)?.0)
    }

    /// Block `at`, to be searched or not, and whether it was at hand.
    fn get_or_read_block(&self, at: usize, read: BlockReadOptions, search: bool) -> Result<(BlockRef, bool)> {
        self.blocks.prefetch_ref_counts(at);
        if let Some(block) = self.blocks.get(at, || self.block_offset(at))? {
            self.count_cache_event(Ticker::BlockCacheHit, read);
            return Ok((block, true));
        }
        let handle = self.index.block_handle(at, &self.path)?;
        self.count_cache_event(Ticker::BlockCacheMiss, read);
        // One that can't be replaced comes with all that it will ever need. What is not kept is searched once, which is cheaper
        // without a directory.
        let prepared = read.fill_cache && (search || !self.blocks.can_replace());
        let block = block_pool::reuse(|memory| {
            read_block_with(&*self.file, &self.path, handle, |contents| match prepared {
                true => Block::copy_with_search_index(contents, &self.context.order, memory),
                false => Block::copy_of(contents, memory),
            })
        })?;
        if read.fill_cache {
            self.blocks.insert(at, handle.offset, &block).into_iter().for_each(block_pool::recycle);
        }
        Ok((BlockRef::Counted(block), false))
    }

    /// Counts for reads that want the cache; merges do not.
    fn count_cache_event(&self, event: Ticker, read: BlockReadOptions) {
        if read.fill_cache {
            self.context.metrics.count(event);
        }
    }

    #[cold]
    pub(super) fn block_error(&self, at: usize, flaw: &DecodeError) -> Error {
        let what = format!("block entry at {}: {flaw}", flaw.offset);
        Error::corruption(&self.path, self.block_offset(at).ok(), what)
    }
}
