//! Reading tables and logs that may be damaged, and what can be read of them into new tables.
//!
//! ```text
//!   table   index good   every block that it leads to, but for damaged ones
//!           index bad    blocks found by their checksums               (blocks)
//!   log                  every whole record: damage is passed over
//! ```
//!
//! Entries keep their sequence numbers: nothing is newer or older than it was.

use std::path::Path;

use terrace_env::{AccessMode, RandomAccessFile};
use terrace_format::batch::BatchOp;
use terrace_format::filename::FileName;
use terrace_format::filter::InternalFilterPolicy;
use terrace_format::key::{self, SequenceNumber, ValueType};

use super::block_scan;
use super::recovered_table::{EntryStats, RecoveredTable};
use super::table_output::{TableOutput, UnfinishedTable};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::verify::{
    CorruptionKind, LogScanEvent, LogSequenceCheck, Problem, TableScan, TableScanEvent, scan_log,
};

/// What a table is like.
pub(super) struct TableInspection {
    pub(super) size: u64,
    pub(super) stats: EntryStats,
    pub(super) problems: Vec<Problem>,
    /// Blocks that can't be read.
    pub(super) lost_blocks: u64,
    /// The index does not lead to all of them.
    pub(super) index_unreadable: bool,
    /// Keys are not in the order of the comparator.
    pub(super) keys_out_of_order: bool,
    /// Stock LevelDB can read every block.
    pub(super) leveldb_compatible: bool,
}

/// Reads all of `table`.
pub(super) fn inspect_table(shop: &TableOutput<'_>, table: FileName) -> Result<TableInspection> {
    let path = shop.path(table);
    let file = shop.env().fs.open_random_access(&path, AccessMode::Pread)?;
    let mut seen = TableInspection {
        size: file.len(),
        stats: EntryStats::default(),
        problems: Vec::new(),
        lost_blocks: 0,
        index_unreadable: false,
        keys_out_of_order: false,
        leveldb_compatible: true,
    };
    table_scan(shop, &*file, &path).run(&mut |met| {
        match met {
            TableScanEvent::Entry { key, .. } => seen.stats.add(key),
            TableScanEvent::Block { leveldb_compatible: portable, .. } => seen.leveldb_compatible &= portable,
            TableScanEvent::Corruption { kind, corruption: found } => {
                seen.lost_blocks += u64::from(kind == CorruptionKind::BlockUnreadable);
                seen.index_unreadable |= kind == CorruptionKind::IndexUnreadable;
                seen.keys_out_of_order |= kind == CorruptionKind::KeysOutOfOrder;
                seen.problems.push(Problem::from_error(table, Error::Corruption(found)));
            }
        }
        Ok(())
    })?;
    Ok(seen)
}

fn table_scan<'a>(
    shop: &'a TableOutput<'_>,
    file: &'a dyn RandomAccessFile,
    path: &'a Path,
) -> TableScan<'a> {
    let filter = shop.options.filter_policy.clone().map(|policy| Arc::new(InternalFilterPolicy(policy)) as _);
    TableScan { file, path, order: &shop.order, filter }
}

/// What came of a rescue.
#[derive(Default)]
pub(super) struct SalvagedTables {
    pub(super) tables: Vec<RecoveredTable>,
    pub(super) entries: u64,
}

/// Copies what can be read of `table`: usually into one new table, into more if its keys are out of order.
pub(super) fn salvage_table(shop: &mut TableOutput<'_>, table: FileName) -> Result<SalvagedTables> {
    let path = shop.path(table);
    let file = shop.env().fs.open_random_access(&path, AccessMode::Pread)?;
    let order = shop.order.clone();
    let filter = None;
    let walk = TableScan { file: &*file, path: &path, order: &order, filter };
    let mut rescue = SalvageWriter::new(shop, table);
    let unknown_from = walk.run(&mut |met| match met {
        TableScanEvent::Entry { key, value } => rescue.add_entry(key, value),
        TableScanEvent::Block { .. } | TableScanEvent::Corruption { .. } => Ok(()),
    })?;
    if let Some(from) = unknown_from {
        block_scan::scan_blocks(&*file, &path, &order, from, &mut |key, value| rescue.add_entry(key, value))?;
    }
    rescue.finish()
}

/// Reads `logs`, given in their order, the next of `row`. Returns what is wrong with them.
pub(super) fn inspect_logs(
    shop: &TableOutput<'_>,
    logs: &[u64],
    row: &mut LogSequenceCheck,
) -> Result<Vec<Problem>> {
    let mut damage = Vec::new();
    for &number in logs {
        let name = FileName::Log(number);
        scan_log(shop.env(), &shop.path(name), row, &mut |met| {
            if let LogScanEvent::Corruption(found) = met {
                damage.push(Problem::from_error(name, Error::Corruption(found)));
            }
            Ok(())
        })?;
    }
    Ok(damage)
}

/// Copies what can be read of log `number`, the next of `row`, into new tables, in the order of the writes.
pub(super) fn salvage_log(
    shop: &mut TableOutput<'_>,
    number: u64,
    row: &mut LogSequenceCheck,
) -> Result<SalvagedTables> {
    let name = FileName::Log(number);
    let path = shop.path(name);
    let env = shop.env();
    let mut rescue = SalvageWriter::new(shop, name);
    scan_log(env, &path, row, &mut |met| match met {
        LogScanEvent::Batch(batch) => {
            let operations = batch.iter().map(|operation| match operation {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            });
            rescue.add_operations(batch.sequence(), operations)
        }
        LogScanEvent::Corruption(_) => Ok(()),
    })?;
    rescue.finish()
}

/// Entries on their way into new tables.
struct SalvageWriter<'a, 'b> {
    output: &'a mut TableOutput<'b>,
    source: FileName,
    /// For entries that come in their order.
    sorted_table: Option<UnfinishedTable>,
    /// For those that do not.
    unsorted_entries: Arc<Memtable>,
    salvaged: SalvagedTables,
}

impl<'a, 'b> SalvageWriter<'a, 'b> {
    fn new(shop: &'a mut TableOutput<'b>, from: FileName) -> SalvageWriter<'a, 'b> {
        let unsorted = Memtable::new(shop.order.clone());
        SalvageWriter {
            output: shop,
            source: from,
            sorted_table: None,
            unsorted_entries: unsorted,
            salvaged: SalvagedTables::default(),
        }
    }

    /// Takes an entry that should come behind the one before.
    fn add_entry(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        let draft = match &mut self.sorted_table {
            Some(draft) => draft,
            none => none.insert(self.output.start_table(self.source)?),
        };
        if draft.add(&self.output.order, internal, value)? {
            return Ok(());
        }
        let Ok(parsed) = key::parse(internal) else { return Ok(()) };
        let value = (parsed.value_type == ValueType::Value).then_some(value);
        self.add_operations(parsed.sequence, std::iter::once((parsed.user_key, value)))
    }

    /// Takes operations with the numbers from `sequence` on.
    fn add_operations<'k>(
        &mut self,
        sequence: SequenceNumber,
        operations: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)>,
    ) -> Result<()> {
        self.unsorted_entries.insert(sequence, operations);
        if self.unsorted_entries.memory_usage() > self.output.options.initial_memtable_size() {
            self.write_unsorted_entries()?;
        }
        Ok(())
    }

    fn write_unsorted_entries(&mut self) -> Result<()> {
        let empty = Memtable::new(self.output.order.clone());
        let full = std::mem::replace(&mut self.unsorted_entries, empty);
        let mut draft = self.output.start_table(self.source)?;
        let mut entries = full.iter();
        entries.seek_to_first();
        while entries.valid() {
            draft.add(&self.output.order, entries.key(), entries.value())?;
            entries.next();
        }
        self.finish_table(draft)
    }

    fn finish_table(&mut self, draft: UnfinishedTable) -> Result<()> {
        self.salvaged.entries += draft.entries();
        self.salvaged.tables.extend(draft.finish()?);
        Ok(())
    }

    fn finish(mut self) -> Result<SalvagedTables> {
        if let Some(draft) = self.sorted_table.take() {
            self.finish_table(draft)?;
        }
        if !self.unsorted_entries.is_empty() {
            self.write_unsorted_entries()?;
        }
        Ok(self.salvaged)
    }
}
