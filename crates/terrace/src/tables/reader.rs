//! One open table: its index in memory, its blocks through the cache.
//!
//! ```text
//!   seek(key):  index block --handle--> data block --> entry
//! ```
//!
//! Every block's checksum is verified when it is read from the file. A damaged block is an error of the look-up that
//! needs it; the other blocks stay readable.

use std::path::PathBuf;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::filter::FilterPolicy;
use terrace_format::filter_block::FilterBlock;
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BlockHandle, FOOTER_SIZE, Footer, TRAILER_SIZE, read_block};
use terrace_format::{Flaw, FlawKind};
use terrace_mutants::mutant;

use crate::cache::{BlockCache, BlockKey};
use crate::error::{Error, Result};
use crate::sync::Arc;
use crate::walk::InternalIterator;

/// What the tables of a database share.
pub(crate) struct TableContext {
    /// Of internal keys.
    pub(crate) order: Arc<dyn Comparator>,
    /// Over internal keys.
    pub(crate) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) cache: Arc<BlockCache>,
    /// Of [`crate::cache::instance`].
    pub(crate) instance: u64,
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
    number: u64,
    context: Arc<TableContext>,
    index: Arc<Block>,
    filter: Option<FilterBlock>,
    metaindex: BlockHandle,
}

impl Table {
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        path: PathBuf,
        number: u64,
        context: Arc<TableContext>,
    ) -> Result<Table> {
        let footer = read_footer(&*file, &path)?;
        let index = Arc::new(fetch(&*file, &path, footer.index)?);
        let mut table =
            Table { file, path, number, context, index, filter: None, metaindex: footer.metaindex };
        table.filter = table.read_filter();
        Ok(table)
    }

    /// The filter of our policy. A table whose filter can't be read is read without: slower, and never wrong.
    fn read_filter(&self) -> Option<FilterBlock> {
        let policy = self.context.filter_policy.clone()?;
        let metaindex = fetch(&*self.file, &self.path, self.metaindex).ok()?;
        let name = format!("filter.{}", policy.name());
        let mut entries = BlockIter::new(Arc::new(metaindex), bytewise());
        entries.seek(name.as_bytes());
        if !entries.valid() || entries.key() != name.as_bytes() {
            return None;
        }
        let (handle, _) = BlockHandle::decode(entries.value()).ok()?;
        let contents = fetch_bytes(&*self.file, &self.path, handle).ok()?;
        Some(FilterBlock::new(policy, contents))
    }

    /// The first entry that is not below `target`, given to `found` as internal key and value. May miss it if it is
    /// not a version of the user key in `target`.
    pub(crate) fn get<T>(
        &self,
        target: &[u8],
        read: BlockRead,
        found: impl FnOnce(&[u8], &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut index = self.index_iter();
        index.seek(target);
        if !index.valid() {
            return self.index_status(&index).map(|()| None);
        }
        let handle = self.handle(&index)?;
        if self.filter.as_ref().is_some_and(|filter| !filter.may_match(handle.offset, target)) {
            return Ok(None);
        }
        let mut entries = self.block_iter(handle, read)?;
        entries.seek(target);
        if entries.valid() {
            return found(entries.key(), entries.value());
        }
        if let Some(flaw) = entries.flaw() {
            return Err(self.block_flaw(handle, flaw));
        }
        // A separator may lie above every key of its block, but never above a version of a key that the next block
        // has: there is nothing to find behind.
        Ok(None)
    }

    /// A walk over the table.
    pub(crate) fn iter(self: &Arc<Self>, read: BlockRead) -> TableIter {
        TableIter { index: self.index_iter(), table: Arc::clone(self), read, block: None, damage: None }
    }

    /// About where in the file the data of `key` begins, in bytes.
    pub(crate) fn approximate_offset(&self, key: &[u8]) -> u64 {
        let mut index = self.index_iter();
        index.seek(key);
        let handle = if index.valid() { BlockHandle::decode(index.value()).ok() } else { None };
        // Behind the last key: the metaindex stands right behind the data.
        handle.map_or(self.metaindex.offset, |(handle, _)| handle.offset)
    }

    fn index_iter(&self) -> BlockIter {
        BlockIter::new(Arc::clone(&self.index), Arc::clone(&self.context.order))
    }

    fn index_status(&self, index: &BlockIter) -> Result<()> {
        index
            .flaw()
            .map_or(Ok(()), |flaw| Err(Error::corruption(&self.path, None, format!("index block: {flaw}"))))
    }

    fn handle(&self, index: &BlockIter) -> Result<BlockHandle> {
        let (handle, _) = BlockHandle::decode(index.value()).map_err(|flaw| {
            Error::corruption(
                &self.path,
                None,
                format!("index entry '{}': {flaw}", index.key().escape_ascii()),
            )
        })?;
        Ok(handle)
    }

    fn block_iter(&self, handle: BlockHandle, read: BlockRead) -> Result<BlockIter> {
        Ok(BlockIter::new(self.block(handle, read)?, Arc::clone(&self.context.order)))
    }

    fn block(&self, handle: BlockHandle, read: BlockRead) -> Result<Arc<Block>> {
        let instance = if mutant!(CacheKeyShared) { 0 } else { self.context.instance };
        let key = BlockKey { instance, table: self.number, offset: handle.offset };
        if let Some(block) = self.context.cache.get(&key) {
            return Ok(block);
        }
        let block = Arc::new(fetch(&*self.file, &self.path, handle)?);
        if read.fill_cache {
            self.context.cache.insert(key, Arc::clone(&block));
        }
        Ok(block)
    }

    fn block_flaw(&self, handle: BlockHandle, flaw: &Flaw) -> Error {
        let what = format!("block entry at {}: {flaw}", flaw.at);
        Error::corruption(&self.path, Some(handle.offset), what)
    }
}

pub(crate) fn read_footer(file: &dyn RandomAccessFile, path: &std::path::Path) -> Result<Footer> {
    let length = file.len();
    let Some(at) = length.checked_sub(FOOTER_SIZE as u64) else {
        return Err(Error::flaw(path, &Flaw::truncated(0, "a table's footer", length, FOOTER_SIZE as u64)));
    };
    let mut bytes = [0; FOOTER_SIZE];
    read_exact(file, path, at, &mut bytes)?;
    Footer::decode(&bytes, length).map_err(|flaw| Error::flaw(path, &flaw))
}

/// Reads, verifies and unpacks a block.
pub(crate) fn fetch(
    file: &dyn RandomAccessFile,
    path: &std::path::Path,
    handle: BlockHandle,
) -> Result<Block> {
    let contents = fetch_bytes(file, path, handle)?;
    Block::new(contents).map_err(|flaw| Error::corruption(path, Some(handle.offset), flaw.to_string()))
}

pub(crate) fn fetch_bytes(
    file: &dyn RandomAccessFile,
    path: &std::path::Path,
    handle: BlockHandle,
) -> Result<Vec<u8>> {
    // Before the allocation: a handle that does not fit the file can't make us allocate more than the file.
    handle.check(file.len().saturating_sub(FOOTER_SIZE as u64)).map_err(|flaw| Error::flaw(path, &flaw))?;
    let stored = handle.size as usize + TRAILER_SIZE;
    let unpacked = match file.mapped() {
        Some(bytes) => {
            let start = handle.offset as usize;
            let block = bytes.get(start..start + stored);
            read_block(block.ok_or_else(|| short(path, handle.offset, bytes.len(), stored))?, true)
        }
        None => {
            let mut bytes = vec![0; stored];
            read_exact(file, path, handle.offset, &mut bytes)?;
            read_block(&bytes, true)
        }
    };
    unpacked.map_err(|flaw| Error::corruption(path, Some(handle.offset), flaw.to_string()))
}

pub(crate) fn read_exact(
    file: &dyn RandomAccessFile,
    path: &std::path::Path,
    at: u64,
    buf: &mut [u8],
) -> Result<()> {
    let need = buf.len();
    let have = file.read_at(at, buf)?;
    if have < need { Err(short(path, at, have, need)) } else { Ok(()) }
}

fn short(path: &std::path::Path, at: u64, have: usize, need: usize) -> Error {
    let flaw = Flaw::new(FlawKind::Truncated, at, format!("{have} bytes"), format!("{need}"));
    Error::flaw(path, &flaw)
}

/// A walk over one table.
pub(crate) struct TableIter {
    table: Arc<Table>,
    read: BlockRead,
    index: BlockIter,
    block: Option<BlockIter>,
    damage: Option<Error>,
}

impl TableIter {
    fn note(&mut self, error: Error) {
        self.damage.get_or_insert(error);
    }

    /// Loads the block that the index stands at, or none.
    fn enter(&mut self) {
        self.leave();
        if !self.index.valid() {
            return;
        }
        let entered =
            self.table.handle(&self.index).and_then(|handle| self.table.block_iter(handle, self.read));
        match entered {
            Ok(block) => self.block = Some(block),
            Err(error) => self.note(error),
        }
    }

    /// Drops the present block, keeping what was wrong with it.
    fn leave(&mut self) {
        if let Some(flaw) = self.block.take().and_then(|block| block.flaw().cloned()) {
            let handle = self.table.handle(&self.index).unwrap_or(self.table.metaindex);
            let error = self.table.block_flaw(handle, &flaw);
            self.note(error);
        }
    }

    /// Moves on to the following blocks until there is an entry.
    fn skip_forward(&mut self) {
        while !self.valid() && self.index.valid() {
            self.leave();
            self.index.next();
            self.enter();
            self.block.iter_mut().for_each(BlockIter::seek_to_first);
        }
    }

    fn skip_backward(&mut self) {
        while !self.valid() && self.index.valid() {
            self.leave();
            self.index.prev();
            self.enter();
            self.block.iter_mut().for_each(BlockIter::seek_to_last);
        }
    }
}

impl InternalIterator for TableIter {
    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.leave();
        self.index.seek_to_first();
        self.enter();
        self.block.iter_mut().for_each(BlockIter::seek_to_first);
        self.skip_forward();
    }

    fn seek_to_last(&mut self) {
        self.leave();
        self.index.seek_to_last();
        self.enter();
        self.block.iter_mut().for_each(BlockIter::seek_to_last);
        self.skip_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        self.leave();
        self.index.seek(target);
        self.enter();
        self.block.iter_mut().for_each(|block| block.seek(target));
        self.skip_forward();
    }

    fn next(&mut self) {
        self.block.iter_mut().for_each(BlockIter::next);
        self.skip_forward();
    }

    fn prev(&mut self) {
        self.block.iter_mut().for_each(BlockIter::prev);
        self.skip_backward();
    }

    fn key(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockIter::key)
    }

    fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockIter::value)
    }

    fn status(&self) -> Result<()> {
        if let Some(error) = &self.damage {
            return Err(error.clone());
        }
        if let Some(flaw) = self.block.as_ref().and_then(BlockIter::flaw) {
            let handle = self.table.handle(&self.index).unwrap_or(self.table.metaindex);
            return Err(self.table.block_flaw(handle, flaw));
        }
        self.table.index_status(&self.index)
    }
}

/// True if `internal_key` is a version of `user_key`.
pub(crate) fn is_version_of(comparator: &InternalComparator, internal_key: &[u8], user_key: &[u8]) -> bool {
    comparator.user().compare(key::user_key(internal_key), user_key).is_eq()
}
