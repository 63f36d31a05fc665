//! Scan of one table, from the first block to the footer.
//!
//! ```text
//!   footer ──> metaindex ──> each named block          checksum
//!     |                          | filter
//!     '──> index ──> each data block ──> each entry    checksum, order, separators, filter
//! ```
//!
//! The scan reports damage and continues after it. So it does with a block that the disk cannot
//! read. The scan holds one block at a time.

use std::path::Path;

use terrace_env::RandomAccessFile;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::compress::Codec;
use terrace_format::filter::FilterPolicy;
use terrace_format::filter_block::FilterBlockReader;
use terrace_format::key::{self, InternalComparator};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE};

use super::unreadable_parts::read_twice;
use crate::error::{Corruption, Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::table::{block_codec, read_block, read_block_bytes, read_footer};

/// Event of a scan.
pub(crate) enum TableScanEvent<'a> {
    /// A well-formed entry of a block whose checksum is correct.
    Entry { key: &'a [u8], value: &'a [u8] },
    /// The end of a data block: its size, and its codec if the block type is known.
    Block { bytes: u64, codec: Option<&'static Codec> },
    /// Damage.
    Corruption { kind: CorruptionKind, corruption: Corruption },
}

/// Consequence of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CorruptionKind {
    /// The entries of a block can't be read.
    BlockUnreadable,
    /// The offsets of the blocks are unknown, but the blocks may be intact.
    IndexUnreadable,
    /// Every entry is readable, but point lookups may miss it.
    EntriesUnreachable,
    /// The entries are not in the order of the comparator.
    KeysOutOfOrder,
}

/// A table to scan.
pub(crate) struct TableScan<'a> {
    pub(crate) file: &'a dyn RandomAccessFile,
    pub(crate) path: &'a Path,
    /// Size of the table in bytes, from the start of the file. Later bytes are ignored.
    pub(crate) size: u64,
    pub(crate) order: &'a InternalComparator,
    /// Filter policy over internal keys.
    pub(crate) filter: Option<Arc<dyn FilterPolicy>>,
}

type TableVisitor<'a> = &'a mut dyn FnMut(TableScanEvent<'_>) -> Result<()>;

impl TableScan<'_> {
    /// Scans the whole table. If the index does not cover the table, returns the offset from which
    /// the blocks are unknown.
    pub(crate) fn run(&self, visit: TableVisitor<'_>) -> Result<Option<u64>> {
        let footer = match separate_corruption(|| read_footer(self.file, self.path, self.size))? {
            Ok(footer) => footer,
            Err(corruption) => {
                return report_damage(visit, CorruptionKind::IndexUnreadable, corruption).map(|()| Some(0));
            }
        };
        let filter = self.check_meta_blocks(footer.metaindex, visit)?;
        match separate_corruption(|| read_block(self.file, self.path, footer.index))? {
            Ok(index) => self.scan_data_blocks(index, filter.as_ref(), visit),
            Err(corruption) => {
                let corruption =
                    Corruption { message: format!("index: {}", corruption.message), ..corruption };
                report_damage(visit, CorruptionKind::IndexUnreadable, corruption).map(|()| Some(0))
            }
        }
    }

    /// Checks the metaindex and the blocks that it names. Returns the filter of the configured
    /// policy.
    fn check_meta_blocks(
        &self,
        metaindex: BlockHandle,
        visit: TableVisitor<'_>,
    ) -> Result<Option<FilterBlockReader>> {
        let block = match separate_corruption(|| read_block(self.file, self.path, metaindex))? {
            Ok(block) => Arc::new(block),
            Err(corruption) => {
                return report_unreachable_entries(visit, corruption, "metaindex").map(|()| None);
            }
        };
        let mut entries = BlockIter::new(block, bytewise());
        let mut filter = None;
        entries.seek_to_first();
        while entries.valid() {
            let name = entries.key().escape_ascii().to_string();
            let contents = || match BlockHandle::decode(entries.value()) {
                Ok((handle, _)) => read_block_bytes(self.file, self.path, handle),
                Err(error) => Err(Error::corruption(self.path, Some(metaindex.offset), error.to_string())),
            };
            match separate_corruption(contents)? {
                Ok(contents) => filter = self.filter_block(&name, contents).or(filter),
                Err(corruption) => report_unreachable_entries(visit, corruption, &format!("block '{name}'"))?,
            }
            entries.next();
        }
        match entries.status() {
            Err(error) => {
                let corruption = self.corruption(metaindex.offset, error.to_string());
                report_unreachable_entries(visit, corruption, "metaindex").map(|()| filter)
            }
            Ok(()) => Ok(filter),
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
        visit: TableVisitor<'_>,
    ) -> Result<Option<u64>> {
        if let Err(error) = index.verify_restart_points() {
            report_unreachable_entries(visit, self.corruption(0, error.to_string()), "index")?;
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
                Ok((handle, _)) => blocks.scan_block(handle, index.key(), visit)?,
                Err(error) => report_unreadable_block(
                    visit,
                    self.corruption(blocks.prev_block_end, format!("index entry: {error}")),
                )?,
            }
            index.next();
        }
        let Err(error) = index.status() else { return Ok(None) };
        let corruption = self.corruption(blocks.prev_block_end, format!("index entry: {error}"));
        report_damage(visit, CorruptionKind::IndexUnreadable, corruption)?;
        Ok(Some(blocks.prev_block_end))
    }

    fn corruption(&self, offset: u64, message: String) -> Corruption {
        Corruption { path: self.path.to_path_buf(), offset: Some(offset), message }
    }
}

/// Scan of the data blocks, in the order of the index.
struct DataBlockScan<'a> {
    table: &'a TableScan<'a>,
    filter: Option<&'a FilterBlockReader>,
    /// Largest key so far.
    last_key: Vec<u8>,
    /// Index key of the previous block. A lookup of a key up to it goes there.
    prev_separator: Vec<u8>,
    /// Whether `prev_separator` is also the last key of that block. If not, no version of its user
    /// key may follow the block.
    separator_is_last_key: bool,
    /// Offset of the end of the previous block.
    prev_block_end: u64,
}

impl DataBlockScan<'_> {
    fn scan_block(&mut self, handle: BlockHandle, separator: &[u8], visit: TableVisitor<'_>) -> Result<()> {
        let TableScan { file, path, size, .. } = *self.table;
        if let Err(error) = handle.check(size.saturating_sub(FOOTER_SIZE as u64)) {
            return report_unreadable_block(visit, self.table.corruption(handle.offset, error.to_string()));
        }
        if handle.offset < self.prev_block_end {
            // Ensures that no hostile index makes the scan read more bytes than the file has.
            let message = format!(
                "block at {} overlaps the previous block, which ends at {}",
                handle.offset, self.prev_block_end
            );
            return report_unreadable_block(visit, self.table.corruption(handle.offset, message));
        }
        self.prev_block_end = handle.offset + handle.size + BLOCK_TRAILER_SIZE as u64;
        match separate_corruption(|| read_block(file, path, handle))? {
            Ok(block) => self.scan_entries(block, handle, separator, visit)?,
            Err(Corruption { path, offset, message }) => {
                let offset = offset.or(Some(handle.offset));
                report_unreadable_block(visit, Corruption { path, offset, message })?
            }
        }
        self.prev_separator.clear();
        self.prev_separator.extend_from_slice(separator);
        self.separator_is_last_key = self.last_key == separator;
        let codec = separate_corruption(|| block_codec(file, path, handle))?.ok();
        visit(TableScanEvent::Block { bytes: handle.size + BLOCK_TRAILER_SIZE as u64, codec })
    }

    fn scan_entries(
        &mut self,
        block: Block,
        handle: BlockHandle,
        separator: &[u8],
        visit: TableVisitor<'_>,
    ) -> Result<()> {
        let bad_restart_points = block.verify_restart_points().err().map(|error| error.to_string());
        let mut entries = BlockIter::new(Arc::new(block), self.table.order);
        let mut damage = EntryDamage::default();
        entries.seek_to_first();
        while entries.valid() {
            let key = entries.key();
            if let Err(error) = key::parse(key) {
                report_unreadable_block(
                    visit,
                    self.table.corruption(handle.offset, format!("{} in {}", error, describe_key(key))),
                )?;
                entries.next();
                continue;
            }
            visit(TableScanEvent::Entry { key, value: entries.value() })?;
            self.check_entry(key, handle, separator, &mut damage);
            entries.next();
        }
        let error = entries.status().err();
        let error = error.map(|error| format!("entry at {} of the block: {error}", error.offset));
        let damage = [
            (CorruptionKind::BlockUnreadable, error),
            (CorruptionKind::KeysOutOfOrder, damage.out_of_order),
            (CorruptionKind::EntriesUnreachable, bad_restart_points),
            (CorruptionKind::EntriesUnreachable, damage.above_separator),
            (CorruptionKind::EntriesUnreachable, damage.below_prev_separator),
            (CorruptionKind::EntriesUnreachable, damage.filtered_out),
        ];
        for (kind, message) in damage {
            if let Some(message) = message {
                report_damage(visit, kind, self.table.corruption(handle.offset, message))?;
            }
        }
        Ok(())
    }

    /// Checks the order of an entry, and that a lookup finds it. Records problems in `damage`.
    fn check_entry(&mut self, key: &[u8], handle: BlockHandle, separator: &[u8], damage: &mut EntryDamage) {
        let order = self.table.order;
        if !self.last_key.is_empty() && order.compare(&self.last_key, key).is_ge() {
            damage.out_of_order.get_or_insert_with(|| {
                format!("{} after {}", describe_key(key), describe_key(&self.last_key))
            });
        } else {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        if order.compare(key, separator).is_gt() {
            damage.above_separator.get_or_insert_with(|| {
                format!("{} in a block whose index key is {}", describe_key(key), describe_key(separator))
            });
        }
        if self.is_below_prev_separator(key) {
            damage.below_prev_separator.get_or_insert_with(|| {
                format!(
                    "{} after a block whose index key is {}",
                    describe_key(key),
                    describe_key(&self.prev_separator)
                )
            });
        }
        if self.filter.is_some_and(|filter| !filter.may_match(handle.offset, key)) {
            damage.filtered_out.get_or_insert_with(|| format!("{} is not in the filter", describe_key(key)));
        }
    }

    /// Returns whether a lookup of `key` searches an earlier block, where the key is not stored.
    fn is_below_prev_separator(&self, key: &[u8]) -> bool {
        if self.prev_separator.is_empty() {
            return false;
        }
        let order = self.table.order;
        if order.compare(key, &self.prev_separator).is_le() {
            return true;
        }
        let user_keys = order.user_comparator();
        !self.separator_is_last_key
            && user_keys.compare(key::user_key(key), key::user_key(&self.prev_separator)).is_eq()
    }
}

/// First problem of each kind in the entries of one block: one report of each kind is enough.
#[derive(Default)]
struct EntryDamage {
    out_of_order: Option<String>,
    above_separator: Option<String>,
    below_prev_separator: Option<String>,
    filtered_out: Option<String>,
}

/// Formats an internal key for people.
fn describe_key(key: &[u8]) -> String {
    format!("key '{}' @ {}", key::user_key(key).escape_ascii(), key::trailer(key) >> 8)
}

/// Separates corruption and unreadable parts, which a scan reports and skips, from other errors,
/// which end it.
fn separate_corruption<T>(read: impl FnMut() -> Result<T>) -> Result<std::result::Result<T, Corruption>> {
    match read_twice(read) {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Corruption(corruption)) => Ok(Err(corruption)),
        Err(Error::Io(error)) if error.is_unreadable() => {
            Ok(Err(Corruption { path: error.path.clone(), offset: None, message: format!("io: {error}") }))
        }
        Err(error) => Err(error),
    }
}

fn report_damage(visit: TableVisitor<'_>, kind: CorruptionKind, corruption: Corruption) -> Result<()> {
    visit(TableScanEvent::Corruption { kind, corruption })
}

fn report_unreadable_block(visit: TableVisitor<'_>, corruption: Corruption) -> Result<()> {
    report_damage(visit, CorruptionKind::BlockUnreadable, corruption)
}

fn report_unreachable_entries(visit: TableVisitor<'_>, corruption: Corruption, source: &str) -> Result<()> {
    let corruption = Corruption { message: format!("{source}: {}", corruption.message), ..corruption };
    report_damage(visit, CorruptionKind::EntriesUnreachable, corruption)
}
