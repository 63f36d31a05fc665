//! One open table: its index in memory, its blocks through the cache.
//!
//! ```text
//!   get(key):  filter --perhaps--> index --place--> cached block --> entry
//!                                              \--> file, unpacked
//! ```
//!
//! Every block's checksum is verified when it is read from the file. A damaged block is an error of the look-up that
//! needs it; the other blocks stay readable.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};

use terrace_env::{RandomAccessFile, prefetch};
use terrace_format::block::{Block, BlockIter, BlockLookup};
use terrace_format::comparator::bytewise;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
use terrace_format::filter_block::{BloomQuery, FilterBlockReader};
use terrace_format::key;
use terrace_format::key_order::{ApproxRange, KeyOrder};
use terrace_format::table::{
    BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, TableProperties, read_block_cow,
};
use terrace_format::{DecodeError, DecodeErrorKind};

use super::block_pool;
use super::index_reader::IndexReader;
use super::table_memory::{Reservation, TableMemory};
use crate::cache::{BlockCache, BlockRef, TableBlocks};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
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
    file: Arc<dyn RandomAccessFile>,
    path: PathBuf,
    context: Arc<TableReaderContext>,
    index: IndexReader,
    blocks: TableBlocks,
    filter: Option<FilterBlockReader>,
    /// The filter answers for every block.
    has_full_filter: bool,
    metaindex_handle: BlockHandle,
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
    fn prefetch_approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
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

    /// A walk over the table.
    pub(crate) fn iter(self: &Arc<Self>, read: BlockReadOptions) -> TableIter {
        TableIter {
            reader: Arc::clone(self),
            read_options: read,
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
    fn read_searchable_block(&self, at: usize, read: BlockReadOptions) -> Result<BlockRef> {
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

    fn read_block(&self, at: usize, read: BlockReadOptions) -> Result<BlockRef> {
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
    fn block_error(&self, at: usize, flaw: &DecodeError) -> Error {
        let what = format!("block entry at {}: {flaw}", flaw.offset);
        Error::corruption(&self.path, self.block_offset(at).ok(), what)
    }
}

pub(crate) fn read_footer(file: &dyn RandomAccessFile, path: &Path) -> Result<Footer> {
    let length = file.len();
    let Some(at) = length.checked_sub(FOOTER_SIZE as u64) else {
        return Err(Error::from_decode_error(
            path,
            &DecodeError::truncated(0, "a table's footer", length, FOOTER_SIZE as u64),
        ));
    };
    let mut bytes = [0; FOOTER_SIZE];
    read_exact_at(file, path, at, &mut bytes)?;
    Footer::decode(&bytes, length).map_err(|flaw| Error::from_decode_error(path, &flaw))
}

/// Reads, verifies and unpacks a block.
pub(crate) fn read_block(file: &dyn RandomAccessFile, path: &Path, handle: BlockHandle) -> Result<Block> {
    read_block_with(file, path, handle, |contents| Block::copy_of(contents, Vec::new()))
}

/// As [`fetch`], of whatever it has the contents.
pub(crate) fn read_block_bytes(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<Vec<u8>> {
    read_block_with(file, path, handle, |contents| Ok(contents.into_owned()))
}

/// A block of the usual size is not larger as it is stored, in bytes.
const PREFETCH_STORED_BYTES: usize = 4 << 10;

/// What `make` makes of the contents of a block.
fn read_block_with<T>(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
    make: impl FnOnce(Cow<'_, [u8]>) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    // Before the allocation: a handle that does not fit the file can't make us allocate more than the file.
    handle
        .check(file.len().saturating_sub(FOOTER_SIZE as u64))
        .map_err(|flaw| Error::from_decode_error(path, &flaw))?;
    let stored = handle.size as usize + BLOCK_TRAILER_SIZE;
    let unpack = |bytes: &[u8]| {
        block_pool::with_decompression_buffer(|memory| read_block_cow(bytes, true, memory).and_then(make))
    };
    let made = match file.mapped_slice() {
        Some(bytes) => {
            let start = handle.offset as usize;
            let block = bytes.get(start..start + stored);
            let block = block.ok_or_else(|| short_read_error(path, handle.offset, bytes.len(), stored))?;
            file.prefetch(handle.offset, stored as u64);
            // All of it and at once: the checksum stands at the end.
            prefetch(block.as_ptr(), stored.min(PREFETCH_STORED_BYTES));
            unpack(block)
        }
        None => block_pool::with_read_buffer(stored, |bytes| {
            read_exact_at(file, path, handle.offset, bytes)?;
            Ok::<_, Error>(unpack(bytes))
        })?,
    };
    made.map_err(|flaw| Error::from_decode_error(path, &DecodeError { offset: handle.offset, ..flaw }))
}

pub(crate) fn read_exact_at(file: &dyn RandomAccessFile, path: &Path, at: u64, buf: &mut [u8]) -> Result<()> {
    let need = buf.len();
    let have = file.read_at(at, buf)?;
    if have < need { Err(short_read_error(path, at, have, need)) } else { Ok(()) }
}

fn short_read_error(path: &Path, at: u64, have: usize, need: usize) -> Error {
    let flaw = DecodeError::new(DecodeErrorKind::Truncated, at, format!("{have} bytes"), format!("{need}"));
    Error::from_decode_error(path, &flaw)
}

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
