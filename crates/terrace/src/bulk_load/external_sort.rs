//! External sort: buffers of entries that other threads sort and write to sorted runs.
//!
//! ```text
//!   caller    [ fill 1 ][ fill 2 ][ fill 3 ] ...          at most four buffers exist
//!   helper              [ sort 1, write run 1 ][ 2 ] ...
//! ```
//!
//! As long as the input is ascending, no buffer is sorted, and its tables are final. Otherwise the
//! tables so far are the first run, and merging all runs writes the final tables.

use terrace_env::Priority;
use terrace_format::batch::MAX_KEY_OR_VALUE_LEN;
use terrace_format::comparator::Comparator;
use terrace_format::compress::NO_COMPRESSION;
use terrace_format::key::{self, KEY_TRAILER_SIZE, ValueType, pack_sequence_and_type};
use terrace_format::key_order::{common_prefix_len, head_after};
use terrace_format::table::TableOptions;

use super::report::LoadProgress;
use super::sorted_runs::{FinishedRun, merge_runs};
use crate::db::TableStage;
use crate::db::components::task_group::TaskGroup;
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};
use crate::table::{FinishedTable, TableWriter};

/// Smallest memory of a sort, in bytes.
const MIN_SORT_MEMORY: usize = 1 << 20;
/// Largest size of a buffer, in bytes: offsets in it have 32 bits.
const MAX_BUFFER_BYTES: usize = 1 << 30;
/// Maximum number of helpers that write runs. Two of them keep up with the caller, and each needs a
/// buffer.
const MAX_RUN_WRITERS: usize = 2;
/// Number of buffers beside those of the helpers: one is filled, and one waits.
const OTHER_BUFFERS: usize = 2;
/// Size of the blocks of a run, in bytes. A run is read once, from its start to its end.
const RUN_BLOCK_SIZE: usize = 32 << 10;
/// Distance of the sampled keys of a run, in bytes. Ranges of keys begin at samples.
const SAMPLE_BYTES: usize = 64 << 10;

/// Sort of entries that may exceed the memory.
pub(super) struct ExternalSort {
    writer: Arc<RunWriter>,
    task_group: TaskGroup,
    buffer: SortBuffer,
    buffer_bytes: usize,
    /// True while every key is above the one before.
    is_ascending: bool,
    last_key: Vec<u8>,
    /// Number of runs that were started.
    runs: usize,
}

/// State that the threads of a sort share.
struct RunWriter {
    stage: Arc<TableStage>,
    /// Options of runs that will be merged.
    run_options: TableOptions,
    target_file_size: u64,
    outcome: Mutex<RunsOutcome>,
    free_buffers: Mutex<Vec<SortBuffer>>,
}

#[derive(Default)]
struct RunsOutcome {
    /// Runs with their numbers, in any order.
    runs: Vec<(usize, FinishedRun)>,
    first_error: Option<Error>,
}

/// Entries with internal keys. The allocated memory stays when the buffer is cleared.
#[derive(Default)]
struct SortBuffer {
    /// Internal key and value of each entry.
    bytes: Vec<u8>,
    entries: Vec<SortEntry>,
}

struct SortEntry {
    /// First bytes of the user key after the common prefix of the buffer. Computed by `sort`.
    head: u64,
    start: u32,
    /// Length of the internal key.
    key_len: u32,
    value_len: u32,
}

impl ExternalSort {
    /// Creates a sort that takes about `memory` bytes.
    pub(super) fn new(stage: &Arc<TableStage>, memory: usize) -> ExternalSort {
        let scheduler = &stage.env().scheduler;
        // The caller needs a processor, too.
        let helpers = scheduler.parallelism(Priority::Compaction).saturating_sub(1).clamp(1, MAX_RUN_WRITERS);
        let run_options = TableOptions {
            filter: None,
            block_size: RUN_BLOCK_SIZE,
            codec: &NO_COMPRESSION,
            ..stage.table_options().clone()
        };
        let writer = RunWriter {
            stage: Arc::clone(stage),
            run_options,
            // The size of the input is unknown.
            target_file_size: stage.target_file_size((memory as u64).saturating_mul(16)),
            outcome: Mutex::default(),
            free_buffers: Mutex::default(),
        };
        ExternalSort {
            writer: Arc::new(writer),
            task_group: TaskGroup::new(scheduler, Priority::Compaction, helpers),
            buffer: SortBuffer::default(),
            buffer_bytes: (memory.max(MIN_SORT_MEMORY) / (helpers + OTHER_BUFFERS)).min(MAX_BUFFER_BYTES),
            is_ascending: true,
            last_key: Vec::new(),
            runs: 0,
        }
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_entry_size(key, value)?;
        let entry_bytes = key.len() + KEY_TRAILER_SIZE + value.len() + size_of::<SortEntry>();
        if !self.buffer.entries.is_empty() && self.buffer.memory() + entry_bytes > self.buffer_bytes {
            self.write_buffer()?;
        }
        if self.is_ascending {
            let order = self.writer.stage.comparator().user_comparator();
            let is_first = self.runs == 0 && self.buffer.entries.is_empty();
            self.is_ascending = is_first || order.compare(&self.last_key, key).is_lt();
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        if !self.buffer.push(key, value, self.buffer_bytes) {
            return Err(Error::out_of_memory(&self.writer.stage.path(0), entry_bytes));
        }
        Ok(())
    }

    /// Hands the buffer over to a thread that writes it. Returns an error of an earlier run.
    fn write_buffer(&mut self) -> Result<()> {
        self.writer.check()?;
        let next = self.writer.free_buffers.lock().pop().unwrap_or_default();
        let buffer = std::mem::replace(&mut self.buffer, next);
        let writer = Arc::clone(&self.writer);
        let number = self.runs;
        let is_ascending = self.is_ascending;
        self.runs += 1;
        self.task_group.spawn(Box::new(move || writer.write_run(number, buffer, is_ascending)));
        Ok(())
    }

    /// Returns tables with all entries, in key order.
    pub(super) fn finish(mut self, progress: &mut dyn FnMut(LoadProgress)) -> Result<Vec<FinishedTable>> {
        if self.runs == 0 {
            // The whole input fits into a buffer: its run is final.
            self.writer.write_final_run(std::mem::take(&mut self.buffer), !self.is_ascending)?;
        } else if !self.buffer.entries.is_empty() {
            self.write_buffer()?;
        }
        self.task_group.finish()?;
        self.writer.check()?;
        let mut runs = std::mem::take(&mut self.writer.outcome.lock().runs);
        runs.sort_by_key(|(number, _)| *number);
        self.writer.free_buffers.lock().clear();
        let runs: Vec<FinishedRun> = runs.into_iter().map(|(_, run)| run).collect();
        if runs.iter().all(|run| run.is_final) {
            return Ok(runs.into_iter().flat_map(|run| run.tables).collect());
        }
        merge_runs(&self.writer.stage, runs, progress)
    }
}

impl RunWriter {
    /// Returns the first error of the runs so far.
    fn check(&self) -> Result<()> {
        self.outcome.lock().first_error.clone().map_or(Ok(()), Err)
    }

    /// Writes the entries of `buffer` as run `number`.
    fn write_run(&self, number: usize, mut buffer: SortBuffer, is_ascending: bool) {
        let order = self.stage.comparator();
        if !is_ascending {
            buffer.sort(&**order.user_comparator(), order.is_bytewise());
        }
        let written = self.write_tables(&buffer, is_ascending);
        buffer.clear();
        self.free_buffers.lock().push(buffer);
        let mut outcome = self.outcome.lock();
        match written {
            Ok(run) => outcome.runs.push((number, run)),
            Err(error) => {
                outcome.first_error.get_or_insert(error);
            }
        }
    }

    /// Writes the only buffer of a load.
    fn write_final_run(&self, mut buffer: SortBuffer, should_sort: bool) -> Result<()> {
        let order = self.stage.comparator();
        if should_sort {
            buffer.sort(&**order.user_comparator(), order.is_bytewise());
        }
        let run = self.write_tables(&buffer, true)?;
        self.outcome.lock().runs.push((0, run));
        Ok(())
    }

    /// Returns true if both internal keys have the same user key.
    fn has_user_key(&self, one: &[u8], other: &[u8]) -> bool {
        self.stage.comparator().compare_user_keys(key::user_key(one), key::user_key(other)).is_eq()
    }

    /// Writes the sorted `buffer` to one table, or to final tables.
    fn write_tables(&self, buffer: &SortBuffer, is_final: bool) -> Result<FinishedRun> {
        let options = if is_final { self.stage.table_options() } else { &self.run_options };
        let max_size = if is_final { self.target_file_size } else { u64::MAX };
        let mut run = FinishedRun { is_final, ..FinishedRun::default() };
        let mut table = None;
        let mut last_key_of_table: &[u8] = &[];
        let mut next_sample = 0;
        for entry in &buffer.entries {
            let key = entry.key(&buffer.bytes);
            // An older entry of the last key must not begin the next table.
            if table.is_none() && !run.tables.is_empty() && self.has_user_key(key, last_key_of_table) {
                continue;
            }
            let writer = match &mut table {
                Some(writer) => writer,
                empty => empty.insert(self.stage.create_table(options)?),
            };
            // Of equal keys, the last entry of the input comes first.
            writer.add_if_greater(key, entry.value(&buffer.bytes))?;
            if writer.size_estimate() >= max_size {
                last_key_of_table = key;
                run.tables.extend(finish_table(table.take(), is_final)?);
            }
            next_sample += entry.len();
            if next_sample >= SAMPLE_BYTES {
                next_sample = 0;
                run.samples.push(key::user_key(key).to_vec());
            }
        }
        run.tables.extend(finish_table(table, is_final)?);
        Ok(run)
    }
}

/// Finishes a table. A run that will be merged needs no sync, because a crash ends the load.
fn finish_table(table: Option<TableWriter>, is_final: bool) -> Result<Option<FinishedTable>> {
    let finish = if is_final { TableWriter::finish } else { TableWriter::finish_unsynced };
    Ok(table.map(finish).transpose()?.flatten())
}

impl SortBuffer {
    fn memory(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<SortEntry>()
    }

    /// Adds an entry. Returns false if there is no memory for it. A new buffer of usually
    /// `capacity` bytes reserves its memory at once; the system provides the pages on first use.
    fn push(&mut self, key: &[u8], value: &[u8], capacity: usize) -> bool {
        let len = key.len() + KEY_TRAILER_SIZE + value.len();
        let wanted = if self.bytes.capacity() == 0 { capacity.max(len) } else { len };
        if self.bytes.try_reserve(wanted).is_err() || self.entries.try_reserve(1).is_err() {
            return false;
        }
        // A first entry may be larger than the buffer; the start of a later one fits 32 bits.
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&pack_sequence_and_type(0, ValueType::Value).to_le_bytes());
        self.bytes.extend_from_slice(value);
        let key_len = (key.len() + KEY_TRAILER_SIZE) as u32;
        self.entries.push(SortEntry { head: 0, start, key_len, value_len: value.len() as u32 });
        true
    }

    /// Sorts by user key. Of equal keys, the entry that was added last comes first.
    fn sort(&mut self, order: &dyn Comparator, is_bytewise: bool) {
        let SortBuffer { bytes, entries } = self;
        if !is_bytewise {
            entries.sort_unstable_by(|a, b| {
                order.compare(a.user_key(bytes), b.user_key(bytes)).then_with(|| b.start.cmp(&a.start))
            });
            return;
        }
        let Some(first) = entries.first().map(|entry| entry.user_key(bytes)) else { return };
        let prefix = entries
            .iter()
            .fold(first.len(), |len, entry| common_prefix_len(&first[..len], entry.user_key(bytes)));
        for entry in entries.iter_mut() {
            entry.head = head_after(prefix, entry.user_key(bytes));
        }
        entries.sort_unstable_by(|a, b| match a.head.cmp(&b.head) {
            std::cmp::Ordering::Equal => {
                a.user_key(bytes).cmp(b.user_key(bytes)).then_with(|| b.start.cmp(&a.start))
            }
            order => order,
        });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

impl SortEntry {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..self.key_len as usize]
    }

    fn user_key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..self.key_len as usize - KEY_TRAILER_SIZE]
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize + self.key_len as usize..][..self.value_len as usize]
    }

    fn len(&self) -> usize {
        self.key_len as usize + self.value_len as usize
    }
}

/// Returns an error for an entry that no table can hold.
fn check_entry_size(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len().max(value.len()) > MAX_KEY_OR_VALUE_LEN {
        return Err(Error::oversized_entry());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::Bytewise;

    use super::*;

    fn sorted(keys: &[&str], is_bytewise: bool) -> String {
        let mut buffer = SortBuffer::default();
        for (n, key) in keys.iter().enumerate() {
            assert!(buffer.push(key.as_bytes(), n.to_string().as_bytes(), 100));
        }
        buffer.sort(&Bytewise, is_bytewise);
        let SortBuffer { bytes, entries } = &buffer;
        let lines = entries.iter().map(|entry| {
            format!("{}={}", entry.user_key(bytes).escape_ascii(), entry.value(bytes).escape_ascii())
        });
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn last_entry_of_a_key_comes_first() {
        for is_bytewise in [true, false] {
            assert_eq!(sorted(&["b", "a", "b", "a", "c"], is_bytewise), "a=3 a=1 b=2 b=0 c=4");
            assert_eq!(
                sorted(&["k/longer than a head 2", "k/longer than a head 1", "k/", "k/\0"], is_bytewise),
                "k/=2 k/\\x00=3 k/longer than a head 1=1 k/longer than a head 2=0"
            );
            assert_eq!(sorted(&[], is_bytewise), "");
        }
    }
}
