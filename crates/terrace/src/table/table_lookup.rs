//! Lookup of one key in an open table.
//!
//! ```text
//!   filter --maybe--> index --> slot of the block --verified--> mapping --> entry
//!                                                \--otherwise--> block cache, file --> entry
//! ```
//!
//! A found entry refers to the memory of its value: a block, or the mapped file of the table, which
//! the guard of the table keeps.

use std::ops::Range;

use terrace_env::prefetch;
use terrace_format::block::{Block, BlockIter, BlockLookup, BlockSource};
use terrace_format::filter::BloomFilterPolicy;
use terrace_format::filter_block::BloomQuery;
use terrace_format::key;
use terrace_format::key_order::{ApproxRange, KeyOrder};
#[cfg(terrace_mutants)]
use terrace_sync::mutant;

use super::mapped_blocks::{BlockInMapping, MappedBlock};
use super::table_guard::TableGuard;
use super::table_reader::{BlockLocation, BlockReadOptions, TableReader};
use crate::cache::BlockRef;
use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::stats::Ticker;
use crate::sync::Arc;

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
            #[cfg(terrace_mutants)]
            FoundLocation::File(table) if mutant!(PinnedValueWithoutTable) => PinnedEntry::WithoutTable {
                table: Arc::downgrade(&table.to_arc()),
                value: self.value().into(),
            },
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
    InBlock {
        block: Arc<Block>,
        value_range: Range<usize>,
    },
    InFile {
        table: Arc<TableReader>,
        value_range: Range<usize>,
    },
    /// Deliberate bug: the bytes are gone after the table.
    #[cfg(terrace_mutants)]
    WithoutTable {
        table: crate::sync::Weak<TableReader>,
        value: Box<[u8]>,
    },
}

impl PinnedEntry {
    pub(crate) fn value(&self) -> &[u8] {
        match self {
            PinnedEntry::Copied(value) => value,
            PinnedEntry::InBlock { block, value_range } => &block.contents()[value_range.clone()],
            PinnedEntry::InFile { table, value_range } => {
                table.mapped_bytes().get(value_range.clone()).unwrap_or_default()
            }
            #[cfg(terrace_mutants)]
            PinnedEntry::WithoutTable { table, value } => {
                if table.strong_count() > 0 {
                    value
                } else {
                    &[]
                }
            }
        }
    }
}

/// Number of bytes of a filter that are prefetched if the table probably lacks the key. Half of the
/// probes end after the first byte, and an eighth needs more than three.
const UNLIKELY_FILTER_BYTES: usize = 3;

/// Table for which a lookup may have prefetched.
pub(crate) struct PreparedTable {
    table: TableGuard,
    /// Range of the index that may hold the key, if the memory of its blocks is prefetched.
    approx_range: Option<ApproxRange>,
}

impl TableReader {
    /// Prefetches the memory that a lookup of `key` reads first, like [`TableReader::get`]. If the
    /// table is not `likely` to hold the key, it prefetches the filter alone.
    pub(crate) fn prepare(table: TableGuard, key: LookupKey<'_>, likely: bool) -> PreparedTable {
        let query = table.bloom_query(key.filter_hash);
        let approx_range = if likely {
            table.prefetch_likely(query, key.key)
        } else {
            let bytes = query.into_iter().flat_map(BloomQuery::probed_bytes);
            bytes.take(UNLIKELY_FILTER_BYTES).for_each(|byte| prefetch(byte, 1));
            None
        };
        PreparedTable { table, approx_range }
    }

    #[inline]
    fn bloom_query(&self, filter_hash: u32) -> Option<BloomQuery<'_>> {
        self.filter.as_ref().filter(|_| self.has_full_filter)?.bloom_query(filter_hash)
    }

    /// Prefetches the filter and the memory for the search of the block. Waiting for all of it
    /// takes hardly longer than waiting for the bits of the filter.
    #[inline]
    fn prefetch_likely(&self, query: Option<BloomQuery<'_>>, target: &[u8]) -> Option<ApproxRange> {
        if let Some(query) = query {
            query.probed_bytes().for_each(|byte| prefetch(byte, 1));
        }
        self.prefetch_approx_range(target)
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
        let query = table.bloom_query(filter_hash);
        let approx_range = if likely { table.prefetch_likely(query, target) } else { None };
        if table.is_key_filtered_out(query, target) {
            return Ok(TableLookup::FilteredOut);
        }
        TableReader::get_unfiltered(table, approx_range, target, read, is_same_user_key, found)
    }

    /// Looks up `key` in a table that [`TableReader::prepare`] has prepared for it, like
    /// [`TableReader::get`].
    pub(crate) fn get_prepared(
        PreparedTable { table, approx_range }: PreparedTable,
        LookupKey { key: target, filter_hash }: LookupKey<'_>,
        read: BlockReadOptions,
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<TableLookup> {
        if table.is_key_filtered_out(table.bloom_query(filter_hash), target) {
            return Ok(TableLookup::FilteredOut);
        }
        TableReader::get_unfiltered(table, approx_range, target, read, is_same_user_key, found)
    }

    /// Returns true if the filter of the whole table excludes the key of `target`.
    #[inline]
    fn is_key_filtered_out(&self, query: Option<BloomQuery<'_>>, target: &[u8]) -> bool {
        match query {
            Some(query) => self.count_if_filtered_out(!query.may_match()),
            None => self.has_full_filter && self.is_filtered_out(0, target),
        }
    }

    /// Looks up `target`, which the filter of the whole table does not exclude.
    #[inline(always)] // a call passes its many arguments through memory
    fn get_unfiltered(
        table: TableGuard,
        mut approx_range: Option<ApproxRange>,
        target: &[u8],
        read: BlockReadOptions,
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<TableLookup> {
        if approx_range.is_none() {
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
            table.check_in_memory(read, &block)?;
            table.count_cache_event(Ticker::BlockReadInPlace, read);
            return TableReader::get_in_mapped_block(table, index, block, target, is_same_user_key, found);
        }
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
        TableReader::get_in_memory_block(&table, index, block, target, is_same_user_key, found)
    }

    /// Looks up `target` in a block in its own memory, like [`TableReader::get`].
    #[inline]
    fn get_in_memory_block(
        table: &TableReader,
        index: usize,
        block: BlockRef,
        target: &[u8],
        is_same_user_key: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        // The entry is stored in `found` before the search. A later move of it would delay the copy
        // of the value.
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
                let blocks = table.mapped_blocks.as_ref();
                let block = blocks.map(|blocks| MappedBlock::new(blocks, &block)).transpose();
                let block = block.map_err(|error| table.block_error(index, &error))?;
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
}
