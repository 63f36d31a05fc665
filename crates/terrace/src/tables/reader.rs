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

use terrace_env::{RandomAccessFile, fetch_ahead};
use terrace_format::block::{Block, BlockIter, Lookup};
use terrace_format::comparator::bytewise;
use terrace_format::filter::{Bloom, FilterPolicy};
use terrace_format::filter_block::{FilterBlock, Question};
use terrace_format::key;
use terrace_format::order::{Near, Order};
use terrace_format::table::{BlockHandle, Counts, FOOTER_SIZE, Footer, TRAILER_SIZE, read_block_in};
use terrace_format::{Flaw, FlawKind};

use super::index::Index;
use super::memory::{Charge, Memory};
use super::spare;
use crate::cache::{BlockCache, BlockRef, TableBlocks};
use crate::error::{Error, Result};
use crate::metrics::{Event, Metrics};
use crate::sync::Arc;
use crate::walk::InternalIterator;

/// What the tables of a database share.
pub(crate) struct TableContext {
    /// Of internal keys.
    pub(crate) order: Order,
    /// Over internal keys.
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) cache: Arc<BlockCache>,
    /// Of [`crate::cache::instance`].
    pub(crate) instance: u64,
    pub(crate) metrics: Metrics,
    pub(crate) memory: Arc<Memory>,
}

/// How blocks are fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRead {
    /// Keep fetched blocks in the cache.
    pub(crate) fill_cache: bool,
}

/// An open table. Any number of threads may read it.
pub(crate) struct Table {
    file: Arc<dyn RandomAccessFile>,
    path: PathBuf,
    context: Arc<TableContext>,
    index: Index,
    blocks: TableBlocks,
    filter: Option<FilterBlock>,
    /// The filter answers for every block.
    filter_is_whole: bool,
    metaindex: BlockHandle,
    /// For what it holds in memory. None until all of that is there.
    charge: Option<Charge>,
}

/// What a look-up is after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The newest version of a user key at or behind this internal key.
    pub(crate) key: &'a [u8],
    /// Of the user key.
    pub(crate) hash: u32,
}

impl<'a> Target<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Target<'a> {
        Target { key, hash: Bloom::hash(key::user_key(key)) }
    }
}

/// An entry that a look-up found.
pub(crate) struct Hit {
    /// The number behind its user key.
    pub(crate) trailer: u64,
    block: BlockRef,
    value: Range<usize>,
}

/// What a table says to a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Found,
    /// A block was searched in vain.
    Absent,
    /// No block need be looked at for it.
    Denied,
}

impl Hit {
    /// Of which nothing else is known yet.
    #[inline]
    fn in_block(block: BlockRef) -> Hit {
        Hit { trailer: 0, block, value: 0..0 }
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.block.contents()[self.value.clone()]
    }

    /// To be kept, or to go to another thread.
    pub(crate) fn share(&self) -> SharedValue {
        SharedValue { block: self.block.share(), value: self.value.clone() }
    }
}

/// The value of a [`Hit`].
pub(crate) struct SharedValue {
    block: Arc<Block>,
    value: Range<usize>,
}

impl SharedValue {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block.contents()[self.value.clone()]
    }
}

impl Table {
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        path: PathBuf,
        number: u64,
        context: Arc<TableContext>,
    ) -> Result<Table> {
        let footer = read_footer(&*file, &path)?;
        let index = Index::new(fetch(&*file, &path, footer.index)?, context.order.clone());
        let blocks = context.cache.table(context.instance, number, index.len());
        let metaindex = footer.metaindex;
        let (filter, filter_is_whole, charge) = (None, false, None);
        let mut table =
            Table { file, path, context, index, blocks, filter, filter_is_whole, metaindex, charge };
        table.filter = table.read_filter()?;
        let end = table.file.len();
        table.filter_is_whole = table.filter.as_ref().is_some_and(|filter| filter.is_whole(end));
        table.charge = Some(table.context.memory.charge(table.bytes()));
        Ok(table)
    }

    /// Says that what was read of the file will hardly be read again.
    pub(super) fn let_go(&self) {
        self.file.let_go();
    }

    /// True if what is read of it may have to come from the device.
    pub(super) fn waits(&self) -> bool {
        self.file.waits()
    }

    /// Has the device begin with the block that a look-up of `target` will want, if that is not at hand. True if the look-up will
    /// hardly have to ask another table.
    pub(crate) fn will_get(&self, target: &[u8]) -> bool {
        let at = self.index.find(target);
        if at == self.index.len() {
            return false;
        }
        let Ok(handle) = self.index.handle(at, &self.path) else { return false };
        let offset = if self.filter_is_whole { 0 } else { handle.offset };
        if self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)) {
            return false;
        }
        if !self.blocks.is_at_hand(at) {
            self.file.will_read(handle.offset, handle.size.saturating_add(TRAILER_SIZE as u64));
        }
        self.filter.is_some()
    }

    /// What it holds in memory, in bytes, but for its blocks.
    fn bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, FilterBlock::size);
        size_of::<Table>() + self.path.capacity() + self.index.bytes() + self.blocks.bytes() + filter
    }

    /// Of internal keys.
    pub(super) fn order(&self) -> &Order {
        &self.context.order
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many entries it says that it has. A table whose counts are damaged is one that says nothing.
    pub(super) fn counts(&self) -> Result<Option<Counts>> {
        match self.find_named(Counts::NAME) {
            Ok(contents) => Ok(contents.and_then(|contents| Counts::decode(&contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The filter of our policy. A table whose filter is damaged is read without: slower, and never wrong.
    fn read_filter(&self) -> Result<Option<FilterBlock>> {
        let Some(policy) = self.context.filter_policy.clone() else { return Ok(None) };
        let contents = self.find_named(&format!("filter.{}", policy.name()));
        match contents {
            Ok(contents) => Ok(contents.map(|contents| FilterBlock::new(policy, contents))),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The block that the metaindex calls `name`.
    fn find_named(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let metaindex = fetch(&*self.file, &self.path, self.metaindex)?;
        let mut entries = BlockIter::new(Arc::new(metaindex), bytewise());
        entries.seek(name.as_bytes());
        if !entries.valid() || entries.key() != name.as_bytes() {
            return Ok(None);
        }
        let Ok((handle, _)) = BlockHandle::decode(entries.value()) else { return Ok(None) };
        fetch_bytes(&*self.file, &self.path, handle).map(Some)
    }

    /// Puts into `found` what `target` says, if it is there, which is `likely` or not; `same` says whether an internal key has
    /// that user key. (What is handed up by value is copied by each who hands it.)
    pub(crate) fn get(
        &self,
        Target { key: target, hash }: Target<'_>,
        likely: bool,
        read: BlockRead,
        same: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<Hit>,
    ) -> Result<Answer> {
        // What a search will look at is fetched before the filter says whether to look, if it probably will say so: it hardly
        // takes longer to wait for all of it than for the bits of the filter.
        let filter = self.filter.as_ref().filter(|_| self.filter_is_whole);
        let question = filter.and_then(|filter| filter.question(hash));
        let mut near = None;
        if likely {
            question.into_iter().flat_map(Question::bytes).for_each(|byte| fetch_ahead(byte, 1));
            near = self.near(target);
        }
        let denied = match question {
            Some(question) => self.count_if_denied(!question.may_match()),
            None => self.filter_is_whole && self.denies(0, target),
        };
        if denied {
            return Ok(Answer::Denied);
        }
        if !likely {
            near = self.near(target);
        }
        let at = self.index.find_near(target, near.as_ref());
        if at == self.index.len() {
            return self.index.check_end(&self.path).map(|()| Answer::Denied);
        }
        if !self.filter_is_whole && self.filter.is_some() && self.denies(self.offset(at)?, target) {
            return Ok(Answer::Denied);
        }
        self.get_in(at, target, read, same, found)?;
        if found.is_some() {
            return Ok(Answer::Found);
        }
        if self.filter.is_some() {
            self.context.metrics.count(Event::FilterFalsePositive);
        }
        Ok(Answer::Absent)
    }

    /// About where `target` is. What tells where exactly, and where the block is then, is on its way.
    #[inline]
    fn near(&self, target: &[u8]) -> Option<Near> {
        let near = self.index.near(target)?;
        self.index.fetch(&near);
        self.blocks.fetch_places(near.range().start);
        Some(near)
    }

    /// True if the filter is sure that the key of `target` is not in the block at `offset`.
    fn denies(&self, offset: u64, target: &[u8]) -> bool {
        self.count_if_denied(self.filter.as_ref().is_some_and(|filter| !filter.may_match(offset, target)))
    }

    #[inline]
    fn count_if_denied(&self, denied: bool) -> bool {
        if denied {
            self.context.metrics.count(Event::FilterNegative);
        }
        denied
    }

    /// [`Table::get`] in one block.
    #[inline]
    fn get_in(
        &self,
        at: usize,
        target: &[u8],
        read: BlockRead,
        same: impl FnOnce(&[u8]) -> bool,
        found: &mut Option<Hit>,
    ) -> Result<()> {
        // In its place before the search: nothing is moved behind it that the copying of the value would wait for.
        *found = self.blocks.at_hand(at).map(Hit::in_block);
        let hit = match found {
            Some(hit) if hit.block.is_prepared() => {
                self.count(Event::BlockHit, read);
                hit
            }
            _ => {
                *found = None;
                found.insert(Hit::in_block(self.block_to_search(at, read)?))
            }
        };
        let looked = match self.context.order {
            Order::Internal => hit.block.look_up(target),
            _ => Ok(Lookup::Unclear),
        };
        match looked {
            Ok(Lookup::Found { trailer, value }) => {
                (hit.trailer, hit.value) = (trailer, value);
                return Ok(());
            }
            Ok(Lookup::Unclear) => {
                let block = hit.block.share();
                *found = None;
                *found = self.seek_in(block, at, target, same)?;
            }
            Ok(Lookup::Absent) => *found = None,
            Err(flaw) => {
                *found = None;
                return Err(self.block_flaw(at, &flaw));
            }
        }
        Ok(())
    }

    /// [`Table::get_in`], in any order of keys.
    #[cold]
    fn seek_in(
        &self,
        block: Arc<Block>,
        at: usize,
        target: &[u8],
        same: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Hit>> {
        let mut entries = BlockIter::new(Arc::clone(&block), self.context.order.clone());
        entries.seek(target);
        if let Some(flaw) = entries.flaw() {
            return Err(self.block_flaw(at, flaw));
        }
        // A separator may lie above every key of its block, but never above a version of a key that the next block
        // has: there is nothing to find behind.
        if !entries.valid() || !same(entries.key()) {
            return Ok(None);
        }
        let (trailer, value) = (key::trailer(entries.key()), entries.value_range());
        Ok(Some(Hit { trailer, block: BlockRef::Shared(block), value }))
    }

    /// About where blocks end, as internal keys, at most `most` of them and evenly apart.
    pub(crate) fn block_ends(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        self.index.sample(most)
    }

    /// A walk over the table.
    pub(crate) fn iter(self: &Arc<Self>, read: BlockRead) -> TableIter {
        TableIter {
            table: Arc::clone(self),
            read,
            at: 0,
            block: None,
            inside: false,
            missed: false,
            walks_on: false,
            walks_back: false,
            asked: 0..0,
            length: 0,
            damage: None,
        }
    }

    /// About where in the file the data of `key` begins, in bytes.
    pub(crate) fn approximate_offset(&self, key: &[u8]) -> u64 {
        let at = self.index.find(key);
        let handle = if at < self.index.len() { self.index.handle(at, &self.path).ok() } else { None };
        // Behind the last key: the metaindex stands right behind the data.
        handle.map_or(self.metaindex.offset, |handle| handle.offset)
    }

    /// Where block `at` begins in the file.
    fn offset(&self, at: usize) -> Result<u64> {
        self.index.handle(at, &self.path).map(|handle| handle.offset)
    }

    /// Block `at`, to be searched.
    fn block_to_search(&self, at: usize, read: BlockRead) -> Result<BlockRef> {
        let (block, hit) = self.find_block(at, read, true)?;
        Ok(if hit && !block.is_prepared() { self.prepare(at, block) } else { block })
    }

    /// Gives a directory to a block that a walk brought, which had no use for one.
    #[cold]
    fn prepare(&self, at: usize, block: BlockRef) -> BlockRef {
        if !self.blocks.may_replace() {
            return block;
        }
        let order = &self.context.order;
        let prepared = spare::block(|memory| Ok::<_, Infallible>(block.prepared(order, memory)));
        let prepared = prepared.unwrap_or_else(|never| match never {});
        self.blocks.replace(at, &prepared).into_iter().for_each(spare::give);
        BlockRef::Shared(prepared)
    }

    fn block(&self, at: usize, read: BlockRead) -> Result<BlockRef> {
        Ok(self.find_block(at, read, false)?.0)
    }

    /// Block `at`, to be searched or not, and whether it was at hand.
    fn find_block(&self, at: usize, read: BlockRead, search: bool) -> Result<(BlockRef, bool)> {
        self.blocks.fetch_counts(at);
        if let Some(block) = self.blocks.get(at, || self.offset(at))? {
            self.count(Event::BlockHit, read);
            return Ok((block, true));
        }
        let handle = self.index.handle(at, &self.path)?;
        self.count(Event::BlockMiss, read);
        // One that can't be replaced comes with all that it will ever need. What is not kept is searched once, which is cheaper
        // without a directory.
        let prepared = read.fill_cache && (search || !self.blocks.may_replace());
        let block = spare::block(|memory| {
            fetch_with(&*self.file, &self.path, handle, |contents| match prepared {
                true => Block::copied_prepared(contents, &self.context.order, memory),
                false => Block::copied(contents, memory),
            })
        })?;
        if read.fill_cache {
            self.blocks.insert(at, handle.offset, &block).into_iter().for_each(spare::give);
        }
        Ok((BlockRef::Shared(block), false))
    }

    /// Counts for reads that want the cache; merges do not.
    fn count(&self, event: Event, read: BlockRead) {
        if read.fill_cache {
            self.context.metrics.count(event);
        }
    }

    #[cold]
    fn block_flaw(&self, at: usize, flaw: &Flaw) -> Error {
        let what = format!("block entry at {}: {flaw}", flaw.at);
        Error::corruption(&self.path, self.offset(at).ok(), what)
    }
}

pub(crate) fn read_footer(file: &dyn RandomAccessFile, path: &Path) -> Result<Footer> {
    let length = file.len();
    let Some(at) = length.checked_sub(FOOTER_SIZE as u64) else {
        return Err(Error::flaw(path, &Flaw::truncated(0, "a table's footer", length, FOOTER_SIZE as u64)));
    };
    let mut bytes = [0; FOOTER_SIZE];
    read_exact(file, path, at, &mut bytes)?;
    Footer::decode(&bytes, length).map_err(|flaw| Error::flaw(path, &flaw))
}

/// Reads, verifies and unpacks a block.
pub(crate) fn fetch(file: &dyn RandomAccessFile, path: &Path, handle: BlockHandle) -> Result<Block> {
    fetch_with(file, path, handle, |contents| Block::copied(contents, Vec::new()))
}

/// As [`fetch`], of whatever it has the contents.
pub(crate) fn fetch_bytes(file: &dyn RandomAccessFile, path: &Path, handle: BlockHandle) -> Result<Vec<u8>> {
    fetch_with(file, path, handle, |contents| Ok(contents.into_owned()))
}

/// A block of the usual size is not larger as it is stored, in bytes.
const FETCHED_STORED: usize = 4 << 10;

/// What `make` makes of the contents of a block.
fn fetch_with<T>(
    file: &dyn RandomAccessFile,
    path: &Path,
    handle: BlockHandle,
    make: impl FnOnce(Cow<'_, [u8]>) -> std::result::Result<T, Flaw>,
) -> Result<T> {
    // Before the allocation: a handle that does not fit the file can't make us allocate more than the file.
    handle.check(file.len().saturating_sub(FOOTER_SIZE as u64)).map_err(|flaw| Error::flaw(path, &flaw))?;
    let stored = handle.size as usize + TRAILER_SIZE;
    let unpack =
        |bytes: &[u8]| spare::with_unpacked(|memory| read_block_in(bytes, true, memory).and_then(make));
    let made = match file.mapped() {
        Some(bytes) => {
            let start = handle.offset as usize;
            let block = bytes.get(start..start + stored);
            let block = block.ok_or_else(|| short(path, handle.offset, bytes.len(), stored))?;
            file.will_read(handle.offset, stored as u64);
            // All of it and at once: the checksum stands at the end.
            fetch_ahead(block.as_ptr(), stored.min(FETCHED_STORED));
            unpack(block)
        }
        None => spare::with_scratch(stored, |bytes| {
            read_exact(file, path, handle.offset, bytes)?;
            Ok::<_, Error>(unpack(bytes))
        })?,
    };
    made.map_err(|flaw| Error::flaw(path, &Flaw { at: handle.offset, ..flaw }))
}

pub(crate) fn read_exact(file: &dyn RandomAccessFile, path: &Path, at: u64, buf: &mut [u8]) -> Result<()> {
    let need = buf.len();
    let have = file.read_at(at, buf)?;
    if have < need { Err(short(path, at, have, need)) } else { Ok(()) }
}

fn short(path: &Path, at: u64, have: usize, need: usize) -> Error {
    let flaw = Flaw::new(FlawKind::Truncated, at, format!("{have} bytes"), format!("{need}"));
    Error::flaw(path, &flaw)
}

/// So much is fetched ahead of a walk that was just begun, in bytes: the next few entries, until the processor sees where it
/// goes.
const FETCHED: usize = 512;

/// A walk asks the system for so many bytes when it has come through two blocks that were not at hand, and for twice as many each
/// time, up to so many. Where it goes back, or through a mapping of more than fits in memory, the system does not see by itself what
/// comes next.
const ASKED_FIRST: u64 = 128 << 10;
const ASKED_MAX: u64 = 2 << 20;

/// A walk over one table.
pub(crate) struct TableIter {
    table: Arc<Table>,
    read: BlockRead,
    /// The block that it is in, or was in last; their number behind the last.
    at: usize,
    /// Made with the first block, and taken along to the others.
    block: Option<BlockIter>,
    /// `block` is in block `at`.
    inside: bool,
    /// The block was not at hand.
    missed: bool,
    /// It came into that block from the one before it.
    walks_on: bool,
    /// It came into that block from the one behind it.
    walks_back: bool,
    /// What it has asked the system for, of the file, and not come through.
    asked: Range<u64>,
    /// How much of that it asked for last.
    length: u64,
    damage: Option<Error>,
}

impl TableIter {
    /// The walk over the block that it is in or was in last, to step within that.
    #[inline]
    pub(crate) fn block(&mut self) -> Option<&mut BlockIter> {
        self.block.as_mut()
    }

    /// Has that fetched which a seek of `target` looks at first.
    pub(crate) fn aim(&self, target: &[u8]) {
        self.table.near(target);
    }

    /// Has that fetched which a seek of `target` looks at when it has what [`TableIter::aim`] had fetched.
    pub(crate) fn close_in(&self, target: &[u8]) {
        self.table.blocks.fetch_start(self.table.index.find(target));
    }

    fn note(&mut self, error: Error) {
        self.damage.get_or_insert(error);
    }

    /// Goes to block `at`, and there where `seek` says.
    fn enter(&mut self, at: usize, seek: impl FnOnce(&mut BlockIter)) {
        self.enter_by(Table::block, at, seek);
    }

    /// As [`TableIter::enter`], with the block that `find` gives.
    #[inline]
    fn enter_by(
        &mut self,
        find: fn(&Table, usize, BlockRead) -> Result<BlockRef>,
        at: usize,
        seek: impl FnOnce(&mut BlockIter),
    ) {
        self.leave();
        self.at = at;
        if at >= self.table.index.len() {
            return self.table.index.check_end(&self.table.path).unwrap_or_else(|error| self.note(error));
        }
        let table = &self.table;
        match find(table, at, self.read) {
            Ok(block) => {
                self.missed = matches!(block, BlockRef::Shared(_));
                let block = block.into_shared();
                let entries = match &mut self.block {
                    Some(entries) => {
                        spare::give(entries.enter(block));
                        entries
                    }
                    none => none.insert(BlockIter::new(block, table.context.order.clone())),
                };
                self.inside = true;
                seek(entries);
            }
            Err(error) => self.note(error),
        }
    }

    /// Leaves the present block, keeping what was wrong with it.
    fn leave(&mut self) {
        if let Err(error) = self.block_status() {
            self.note(error);
        }
        self.block.iter_mut().for_each(BlockIter::leave);
        self.inside = false;
    }

    fn block_status(&self) -> Result<()> {
        match self.block.as_ref().and_then(BlockIter::flaw) {
            Some(flaw) if self.inside => Err(self.table.block_flaw(self.at, flaw)),
            _ => Ok(()),
        }
    }

    /// Moves on to the following blocks until there is an entry.
    fn skip_forward(&mut self) {
        self.walks_back = false;
        while !self.valid() && self.at < self.table.index.len() {
            let missed = self.missed && std::mem::replace(&mut self.walks_on, true);
            self.enter(self.at + 1, BlockIter::seek_to_first);
            if missed && self.missed {
                self.ask_on(self.at + 1);
            } else {
                self.table.blocks.fetch_start(self.at + 1);
            }
        }
    }

    fn skip_backward(&mut self) {
        self.walks_on = false;
        while !self.valid() && self.at > 0 {
            let missed = self.missed && std::mem::replace(&mut self.walks_back, true);
            self.enter(self.at - 1, BlockIter::seek_to_last);
            match self.at.checked_sub(1) {
                Some(before) if missed && self.missed => self.ask_back(before),
                Some(before) => self.table.blocks.fetch_end(before),
                None => {}
            }
        }
    }

    /// Has the system read block `at` and some behind it, unless it was asked for them. Where the file is read by calls, it sees by
    /// itself what comes next.
    fn ask_on(&mut self, at: usize) {
        if self.table.file.mapped().is_none() {
            return;
        }
        let blocks_end = self.table.metaindex.offset;
        let Some(handle) = self.handle_of(at) else { return };
        let known = self.asked.contains(&handle.offset);
        // Before it comes to the end of what it has asked for, so that it need not wait there.
        let left = self.asked.end.saturating_sub(handle.offset);
        if known && (left > self.length / 2 || self.asked.end >= blocks_end) {
            return;
        }
        let from = if known { self.asked.end } else { handle.offset };
        let to = from.saturating_add(self.next_length(known)).min(blocks_end);
        self.table.file.will_read(from, to.saturating_sub(from));
        self.asked = handle.offset..to;
    }

    /// Has the system read block `at` and some before it, unless it was asked for them.
    fn ask_back(&mut self, at: usize) {
        let Some(handle) = self.handle_of(at) else { return };
        let known = self.asked.contains(&handle.offset);
        let left = handle.offset.saturating_sub(self.asked.start);
        if known && (left > self.length / 2 || self.asked.start == 0) {
            return;
        }
        let end = handle.offset.saturating_add(handle.size);
        let to = if known { self.asked.start } else { end };
        let from = to.saturating_sub(self.next_length(known));
        self.table.file.will_read(from, to - from);
        self.asked = from..end;
    }

    /// How much it asks for next, which goes on from what it has asked for or does not.
    fn next_length(&mut self, goes_on: bool) -> u64 {
        self.length = if goes_on { (2 * self.length).min(ASKED_MAX) } else { ASKED_FIRST };
        self.length
    }

    fn handle_of(&self, at: usize) -> Option<BlockHandle> {
        let there = at < self.table.index.len();
        there.then(|| self.table.index.handle(at, &self.table.path).ok()).flatten()
    }
}

impl InternalIterator for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.walks_on = false;
        self.enter(0, BlockIter::seek_to_first);
        self.skip_forward();
    }

    fn seek_to_last(&mut self) {
        let count = self.table.index.len();
        (self.walks_on, self.walks_back) = (false, false);
        // Behind a broken index there may be more.
        self.enter(count, |_| ());
        self.skip_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let near = self.table.near(target);
        let at = self.table.index.find_near(target, near.as_ref());
        if self.inside && at == self.at {
            self.block.iter_mut().for_each(|block| block.seek(target));
        } else {
            self.enter_by(Table::block_to_search, at, |block| block.seek(target));
        }
        if let Some(block) = self.block.as_ref().filter(|block| block.valid()) {
            let rest = &block.block().contents()[block.value_range().start..];
            fetch_ahead(rest.as_ptr(), rest.len().min(FETCHED));
        }
        self.walks_on = false;
        self.skip_forward();
    }

    #[inline]
    fn next(&mut self) {
        let Some(block) = &mut self.block else { return };
        block.next();
        if !block.valid() {
            self.skip_forward();
        }
    }

    #[inline]
    fn prev(&mut self) {
        let Some(block) = &mut self.block else { return };
        block.prev();
        if !block.valid() {
            self.skip_backward();
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockIter::value)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.block.as_ref()?.entry()
    }

    fn status(&self) -> Result<()> {
        self.damage.clone().map_or_else(|| self.block_status(), Err)
    }
}
