//! All of one table, from the first block to the footer.
//!
//! ```text
//!   footer ──> metaindex ──> each named block          checksum
//!     |                          | filter
//!     '──> index ──> each data block ──> each entry    checksum, order, between the separators, let in by the filter
//! ```
//!
//! Damage is reported and passed over: what stands behind it is still read. An error of a read is no damage, and ends
//! the walk. Holds one block at a time.

use std::path::Path;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::compress::CODECS;
use terrace_format::filter::FilterPolicy;
use terrace_format::filter_block::FilterBlockReader;
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE};

use crate::error::{Corruption, Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::table::{read_block, read_block_bytes, read_exact_at, read_footer};

/// What a walk meets.
pub(crate) enum TableScanEvent<'a> {
    /// A well-formed entry of a block whose checksum is right.
    Entry { key: &'a [u8], value: &'a [u8] },
    /// The end of a data block of so many bytes; whether stock LevelDB can read it.
    Block { bytes: u64, leveldb_compatible: bool },
    /// Something is wrong.
    Corruption { kind: CorruptionKind, corruption: Corruption },
}

/// What damage costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CorruptionKind {
    /// The entries of a block can't be read.
    BlockUnreadable,
    /// Nothing says where the blocks are; they may be there all the same.
    IndexUnreadable,
    /// Every entry is there, but look-ups may miss it.
    EntriesUnreachable,
    /// Entries are there in another order than the comparator's.
    KeysOutOfOrder,
}

/// A table to walk over.
pub(crate) struct TableScan<'a> {
    pub(crate) file: &'a dyn RandomAccessFile,
    pub(crate) path: &'a Path,
    pub(crate) order: &'a InternalComparator,
    /// Over internal keys.
    pub(crate) filter: Option<Arc<dyn FilterPolicy>>,
}

type TableVisitor<'a> = &'a mut dyn FnMut(TableScanEvent<'_>) -> Result<()>;

impl TableScan<'_> {
    /// Walks over the whole table. If the index does not lead to all of it, returns the place in the file from which
    /// on nobody knows where the blocks are.
    pub(crate) fn run(&self, meet: TableVisitor<'_>) -> Result<Option<u64>> {
        let footer = match separate_corruption(read_footer(self.file, self.path))? {
            Ok(footer) => footer,
            Err(found) => {
                return report_damage(meet, CorruptionKind::IndexUnreadable, found).map(|()| Some(0));
            }
        };
        let filter = self.check_meta_blocks(footer.metaindex, meet)?;
        match separate_corruption(read_block(self.file, self.path, footer.index))? {
            Ok(index) => self.scan_data_blocks(index, filter.as_ref(), meet),
            Err(found) => {
                let found = Corruption { message: format!("index: {}", found.message), ..found };
                report_damage(meet, CorruptionKind::IndexUnreadable, found).map(|()| Some(0))
            }
        }
    }

    /// Checks the metaindex and the blocks it names, and returns the filter of our policy.
    fn check_meta_blocks(
        &self,
        metaindex: BlockHandle,
        meet: TableVisitor<'_>,
    ) -> Result<Option<FilterBlockReader>> {
        let block = match separate_corruption(read_block(self.file, self.path, metaindex))? {
            Ok(block) => Arc::new(block),
            Err(found) => return report_unreachable_entries(meet, found, "metaindex").map(|()| None),
        };
        let mut entries = BlockIter::new(block, bytewise());
        let mut ours = None;
        entries.seek_to_first();
        while entries.valid() {
            let name = entries.key().escape_ascii().to_string();
            let contents = match BlockHandle::decode(entries.value()) {
                Ok((handle, _)) => read_block_bytes(self.file, self.path, handle),
                Err(flaw) => Err(Error::corruption(self.path, Some(metaindex.offset), flaw.to_string())),
            };
            match separate_corruption(contents)? {
                Ok(contents) => ours = self.filter_block(&name, contents).or(ours),
                Err(found) => report_unreachable_entries(meet, found, &format!("block '{name}'"))?,
            }
            entries.next();
        }
        match entries.status() {
            Err(flaw) => {
                let found = self.corruption(metaindex.offset, flaw.to_string());
                report_unreachable_entries(meet, found, "metaindex").map(|()| ours)
            }
            Ok(()) => Ok(ours),
        }
    }

    fn filter_block(&self, name: &str, contents: Vec<u8>) -> Option<FilterBlockReader> {
        let policy = self.filter.as_ref().filter(|policy| name == format!("filter.{}", policy.name()))?;
        Some(FilterBlockReader::new(Arc::clone(policy), contents))
    }

    fn scan_data_blocks(
        &self,
        index: Block,
        filter: Option<&FilterBlockReader>,
        meet: TableVisitor<'_>,
    ) -> Result<Option<u64>> {
        if let Err(flaw) = index.verify_restart_points() {
            report_unreachable_entries(meet, self.corruption(0, flaw.to_string()), "index")?;
        }
        let mut index = BlockIter::new(Arc::new(index), self.order);
        let mut blocks = DataBlockScan {
            table: self,
            filter,
            last_key: Vec::new(),
            prev_separator: Vec::new(),
            separator_is_last_key: false,
            prev_block_end: 0,
        };
        index.seek_to_first();
        while index.valid() {
            match BlockHandle::decode(index.value()) {
                Ok((handle, _)) => blocks.scan_block(handle, index.key(), meet)?,
                Err(flaw) => report_unreadable_block(
                    meet,
                    self.corruption(blocks.prev_block_end, format!("index entry: {flaw}")),
                )?,
            }
            index.next();
        }
        let Err(flaw) = index.status() else { return Ok(None) };
        let found = self.corruption(blocks.prev_block_end, format!("index entry: {flaw}"));
        report_damage(meet, CorruptionKind::IndexUnreadable, found)?;
        Ok(Some(blocks.prev_block_end))
    }

    fn corruption(&self, at: u64, what: String) -> Corruption {
        Corruption { path: self.path.to_path_buf(), offset: Some(at), message: what }
    }
}

/// The data blocks, in the order of the index.
struct DataBlockScan<'a> {
    table: &'a TableScan<'a>,
    filter: Option<&'a FilterBlockReader>,
    /// The greatest key so far.
    last_key: Vec<u8>,
    /// The index's key of the block before: where a look-up of keys up to it goes.
    prev_separator: Vec<u8>,
    /// It is that block's last key. Else no version of its user key may stand behind it.
    separator_is_last_key: bool,
    /// Where the block before ends.
    prev_block_end: u64,
}

impl DataBlockScan<'_> {
    fn scan_block(&mut self, handle: BlockHandle, separator: &[u8], meet: TableVisitor<'_>) -> Result<()> {
        let TableScan { file, path, .. } = *self.table;
        if let Err(flaw) = handle.check(file.len().saturating_sub(FOOTER_SIZE as u64)) {
            return report_unreadable_block(meet, self.table.corruption(handle.offset, flaw.to_string()));
        }
        if handle.offset < self.prev_block_end {
            // So that no index, however hostile, makes us read more than the file.
            let what = format!("a block at {}, expected none before {}", handle.offset, self.prev_block_end);
            return report_unreadable_block(meet, self.table.corruption(handle.offset, what));
        }
        self.prev_block_end = handle.offset + handle.size + BLOCK_TRAILER_SIZE as u64;
        match separate_corruption(read_block(file, path, handle))? {
            Ok(block) => self.scan_entries(block, handle, separator, meet)?,
            Err(found) => report_unreadable_block(meet, found)?,
        }
        self.prev_separator.clear();
        self.prev_separator.extend_from_slice(separator);
        self.separator_is_last_key = self.last_key == separator;
        let mut codec = [0];
        read_exact_at(file, path, handle.offset + handle.size, &mut codec)?;
        let portable = CODECS.iter().all(|known| known.id != codec[0] || known.leveldb_compatible);
        meet(TableScanEvent::Block {
            bytes: handle.size + BLOCK_TRAILER_SIZE as u64,
            leveldb_compatible: portable,
        })
    }

    fn scan_entries(
        &mut self,
        block: Block,
        at: BlockHandle,
        separator: &[u8],
        meet: TableVisitor<'_>,
    ) -> Result<()> {
        let order = self.table.order;
        let unfound = block.verify_restart_points().err().map(|flaw| flaw.to_string());
        let mut entries = BlockIter::new(Arc::new(block), order);
        // One report of a kind for a block is enough.
        let (mut disorder, mut above, mut below, mut denied) = (None, None, None, None);
        entries.seek_to_first();
        while entries.valid() {
            let key = entries.key();
            if let Err(flaw) = key::parse(key) {
                report_unreadable_block(
                    meet,
                    self.table.corruption(at.offset, format!("{} in {}", flaw, describe_key(key))),
                )?;
                entries.next();
                continue;
            }
            meet(TableScanEvent::Entry { key, value: entries.value() })?;
            if !self.last_key.is_empty() && order.compare(&self.last_key, key).is_ge() {
                disorder.get_or_insert_with(|| {
                    format!("{} behind {}", describe_key(key), describe_key(&self.last_key))
                });
            } else {
                self.last_key.clear();
                self.last_key.extend_from_slice(key);
            }
            if order.compare(key, separator).is_gt() {
                let what = || {
                    format!(
                        "{} in a block that the index says ends by {}",
                        describe_key(key),
                        describe_key(separator)
                    )
                };
                above.get_or_insert_with(what);
            }
            if self.is_below_prev_separator(key) {
                let before = describe_key(&self.prev_separator);
                below.get_or_insert_with(|| {
                    format!("{} behind a block that the index says ends by {before}", describe_key(key))
                });
            }
            if self.filter.is_some_and(|filter| !filter.may_match(at.offset, key)) {
                denied.get_or_insert_with(|| format!("{}, which the filter denies", describe_key(key)));
            }
            entries.next();
        }
        let flaw =
            entries.status().err().map(|flaw| format!("entry at {} of the block: {flaw}", flaw.offset));
        let harms = [
            (CorruptionKind::BlockUnreadable, flaw),
            (CorruptionKind::KeysOutOfOrder, disorder),
            (CorruptionKind::EntriesUnreachable, unfound),
            (CorruptionKind::EntriesUnreachable, above),
            (CorruptionKind::EntriesUnreachable, below),
            (CorruptionKind::EntriesUnreachable, denied),
        ];
        for (kind, what) in harms {
            if let Some(what) = what {
                report_damage(meet, kind, self.table.corruption(at.offset, what))?;
            }
        }
        Ok(())
    }
}

impl DataBlockScan<'_> {
    /// True if a look-up of `key` goes to a block before this one, and finds nothing there.
    fn is_below_prev_separator(&self, key: &[u8]) -> bool {
        let order = self.table.order;
        let same = || {
            order.user_comparator().compare(key::user_key(key), key::user_key(&self.prev_separator)).is_eq()
        };
        !self.prev_separator.is_empty()
            && (order.compare(key, &self.prev_separator).is_le() || !self.separator_is_last_key && same())
    }
}

/// An internal key for people.
fn describe_key(key: &[u8]) -> String {
    format!("the key '{}' of write {}", key::user_key(key).escape_ascii(), key::trailer(key) >> 8)
}

/// Tells damage, which is met and passed over, from errors, which are not.
fn separate_corruption<T>(result: Result<T>) -> Result<std::result::Result<T, Corruption>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Corruption(found)) => Ok(Err(found)),
        Err(error) => Err(error),
    }
}

fn report_damage(meet: TableVisitor<'_>, kind: CorruptionKind, found: Corruption) -> Result<()> {
    meet(TableScanEvent::Corruption { kind, corruption: found })
}

fn report_unreadable_block(meet: TableVisitor<'_>, found: Corruption) -> Result<()> {
    report_damage(meet, CorruptionKind::BlockUnreadable, found)
}

fn report_unreachable_entries(meet: TableVisitor<'_>, found: Corruption, of: &str) -> Result<()> {
    let found = Corruption { message: format!("{of}: {}", found.message), ..found };
    report_damage(meet, CorruptionKind::EntriesUnreachable, found)
}
