//! Reading of tables and logs that may be damaged, and salvage of their entries into new tables.
//!
//! ```text
//!   table   index readable      every block that it names, except damaged ones
//!           index unreadable    blocks found by their checksums               (block_scan)
//!   log                         every complete record; damage is skipped
//! ```
//!
//! Entries keep their sequence numbers, so the order of versions does not change. A block or a part
//! of a log that the disk cannot read is skipped like a damaged one.

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
use crate::table::index_needs_marker;
use crate::verify::{
    CorruptionKind, LogScanEvent, LogSequenceCheck, Problem, TableScan, TableScanEvent, read_twice, scan_log,
};

/// Result of a scan over a table.
pub(super) struct TableInspection {
    /// Size of the table in bytes. The file may be longer.
    pub(super) size: u64,
    pub(super) stats: EntryStats,
    pub(super) problems: Vec<Problem>,
    /// Number of unreadable blocks.
    pub(super) lost_blocks: u64,
    /// Whether the index misses some of the blocks.
    pub(super) index_unreadable: bool,
    /// Whether keys are not in the order of the comparator.
    pub(super) keys_out_of_order: bool,
    /// Whether a block needs the marker that makes stock LevelDB refuse the database.
    pub(super) needs_marker: bool,
}

/// Reads all of `table`, which ends after `recorded_size` bytes, if the manifest is known.
///
/// A longer file is read to its end if no index ends at that size, because another table may be
/// stored in place of the recorded one.
pub(super) fn inspect_table(
    output: &TableOutput<'_>,
    table: FileName,
    recorded_size: Option<u64>,
) -> Result<TableInspection> {
    let path = output.path(table);
    let file = read_twice(|| Ok(output.env().fs.open_random_access(&path, AccessMode::Pread)?))?;
    if let Some(size) = recorded_size.filter(|&size| size < file.len()) {
        let inspection = inspect_prefix(output, table, &*file, size)?;
        if !inspection.index_unreadable {
            return Ok(inspection);
        }
    }
    inspect_prefix(output, table, &*file, file.len())
}

/// Reads the table in the first `size` bytes of `file`.
fn inspect_prefix(
    output: &TableOutput<'_>,
    table: FileName,
    file: &dyn RandomAccessFile,
    size: u64,
) -> Result<TableInspection> {
    let mut inspection = TableInspection {
        size,
        stats: EntryStats::default(),
        problems: Vec::new(),
        lost_blocks: 0,
        index_unreadable: false,
        keys_out_of_order: false,
        needs_marker: index_needs_marker(file, &output.path(table), size),
    };
    let filter =
        output.options.filter_policy.clone().map(|policy| Arc::new(InternalFilterPolicy(policy)) as _);
    let scan = TableScan { file, path: &output.path(table), size, order: &output.order, filter };
    scan.run(&mut |event| {
        match event {
            TableScanEvent::Entry { key, .. } => inspection.stats.add(key),
            TableScanEvent::Block { codec, .. } => {
                inspection.needs_marker |= codec.is_some_and(|codec| codec.needs_marker)
            }
            TableScanEvent::Corruption { kind, corruption } => {
                inspection.lost_blocks += u64::from(kind == CorruptionKind::BlockUnreadable);
                inspection.index_unreadable |= kind == CorruptionKind::IndexUnreadable;
                inspection.keys_out_of_order |= kind == CorruptionKind::KeysOutOfOrder;
                inspection.problems.push(Problem::from_error(table, Error::Corruption(corruption)));
            }
        }
        Ok(())
    })?;
    Ok(inspection)
}

/// Tables written by a salvage.
#[derive(Default)]
pub(super) struct SalvagedTables {
    pub(super) tables: Vec<RecoveredTable>,
    pub(super) entries: u64,
}

/// Copies the readable entries in the first `size` bytes of `table`, usually into one new table,
/// into several if its keys are out of order.
pub(super) fn salvage_table(
    output: &mut TableOutput<'_>,
    table: FileName,
    size: u64,
) -> Result<SalvagedTables> {
    let path = output.path(table);
    let file = read_twice(|| Ok(output.env().fs.open_random_access(&path, AccessMode::Pread)?))?;
    let order = output.order.clone();
    let scan = TableScan { file: &*file, path: &path, size, order: &order, filter: None };
    let mut writer = SalvageWriter::new(output, table);
    let unknown_from = scan.run(&mut |event| match event {
        TableScanEvent::Entry { key, value } => writer.add_entry(key, value),
        TableScanEvent::Block { .. } | TableScanEvent::Corruption { .. } => Ok(()),
    })?;
    if let Some(offset) = unknown_from {
        block_scan::scan_blocks(&*file, &path, &order, offset, &mut |key, value| {
            writer.add_entry(key, value)
        })?;
    }
    writer.finish()
}

/// Reads `logs`, oldest first, and returns their problems. `sequence_check` has seen the logs
/// before them.
pub(super) fn inspect_logs(
    output: &TableOutput<'_>,
    logs: &[u64],
    sequence_check: &mut LogSequenceCheck,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for &number in logs {
        let name = FileName::Log(number);
        scan_log(output.env(), output.directory, number, sequence_check, &mut |event| {
            if let LogScanEvent::Corruption(corruption) = event {
                problems.push(Problem::from_error(name, Error::Corruption(corruption)));
            }
            Ok(())
        })?;
    }
    Ok(problems)
}

/// Copies the readable writes of log `number` into new tables, in write order. `sequence_check` has
/// seen the logs before it.
pub(super) fn salvage_log(
    output: &mut TableOutput<'_>,
    number: u64,
    sequence_check: &mut LogSequenceCheck,
) -> Result<SalvagedTables> {
    let name = FileName::Log(number);
    let env = output.env();
    let directory = output.directory;
    let mut writer = SalvageWriter::new(output, name);
    scan_log(env, directory, number, sequence_check, &mut |event| match event {
        LogScanEvent::Batch(batch) => {
            let operations = batch.iter().map(|operation| match operation {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            });
            writer.add_operations(batch.sequence(), operations)
        }
        LogScanEvent::Corruption(_) => Ok(()),
    })?;
    writer.finish()
}

/// Writer of salvaged entries to new tables.
struct SalvageWriter<'a, 'b> {
    output: &'a mut TableOutput<'b>,
    source: FileName,
    /// Receives entries that arrive in key order.
    sorted_table: Option<UnfinishedTable>,
    /// Receives all other entries.
    unsorted_entries: Arc<Memtable>,
    salvaged: SalvagedTables,
}

impl<'a, 'b> SalvageWriter<'a, 'b> {
    fn new(output: &'a mut TableOutput<'b>, source: FileName) -> SalvageWriter<'a, 'b> {
        let unsorted_entries = Memtable::new(output.order.clone());
        SalvageWriter {
            output,
            source,
            sorted_table: None,
            unsorted_entries,
            salvaged: SalvagedTables::default(),
        }
    }

    /// Adds an entry whose key should be greater than the previous one.
    fn add_entry(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        let table = match &mut self.sorted_table {
            Some(table) => table,
            empty => empty.insert(self.output.start_table(self.source)?),
        };
        if table.add(&self.output.order, internal, value)? {
            return Ok(());
        }
        let Ok(parsed) = key::parse(internal) else { return Ok(()) };
        let value = (parsed.value_type == ValueType::Value).then_some(value);
        self.add_operations(parsed.sequence, std::iter::once((parsed.user_key, value)))
    }

    /// Adds operations with sequence numbers from `sequence` on.
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
        let mut table = self.output.start_table(self.source)?;
        let mut entries = full.iter();
        entries.seek_to_first();
        while entries.valid() {
            table.add(&self.output.order, entries.key(), entries.value())?;
            entries.next();
        }
        self.finish_table(table)
    }

    fn finish_table(&mut self, table: UnfinishedTable) -> Result<()> {
        self.salvaged.entries += table.entries();
        self.salvaged.tables.extend(table.finish()?);
        Ok(())
    }

    fn finish(mut self) -> Result<SalvagedTables> {
        if let Some(table) = self.sorted_table.take() {
            self.finish_table(table)?;
        }
        if !self.unsorted_entries.is_empty() {
            self.write_unsorted_entries()?;
        }
        Ok(self.salvaged)
    }
}
