//! Merge of sorted runs into the tables of a bulk load.
//!
//! ```text
//!   run 2 (newest)   | a     d |  f    h | k       z |
//!   run 1            |    b  d |    g    |     m     |     three ranges, one task each
//!   run 0            | a   c   |  f      |       q   |
//! ```
//!
//! Equal keys come from the newest run first, and the table writer drops all others. Each range
//! becomes about one table. The samples of the runs divide the keys into ranges of similar size.

use terrace_env::{AccessMode, Priority};
use terrace_format::comparator::Comparator;
use terrace_format::key::{self, InternalComparator, InternalKey, MAX_SEQUENCE_NUMBER, ValueType};
use terrace_format::key_order::KeyOrder;

use super::report::LoadProgress;
use crate::cache::{self, BlockCache};
use crate::compaction::LoserTree;
use crate::db::TableStage;
use crate::db::components::task_group::TaskGroup;
use crate::error::{Error, Result};
use crate::iterator::{ChildIter, LevelIter, SortedRun};
use crate::stats::Statistics;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::table::{
    BlockReadOptions, FinishedTable, TableIter, TableReader, TableReaderContext, TableWriter,
};

/// Sorted run on disk.
#[derive(Default)]
pub(super) struct FinishedRun {
    /// Tables in key order.
    pub(super) tables: Vec<FinishedTable>,
    /// User keys at even distances.
    pub(super) samples: Vec<Vec<u8>>,
    /// True if the tables have the options of the database.
    pub(super) is_final: bool,
}

/// Sorted run with open tables.
pub(super) struct OpenRun {
    order: InternalComparator,
    tables: Vec<(InternalKey, Arc<TableReader>)>,
}

impl OpenRun {
    /// Opens the `tables` of a run, which are in key order.
    pub(super) fn open(stage: &TableStage, tables: Vec<FinishedTable>) -> Result<Arc<OpenRun>> {
        let order = stage.comparator().clone();
        let context = Arc::new(TableReaderContext {
            order: KeyOrder::from(&order),
            filter_policy: None,
            cache: BlockCache::new(0),
            cache_id: cache::new_cache_id(),
            metrics: Statistics::default(),
            memory: Arc::default(),
        });
        let mut open_tables = Vec::with_capacity(tables.len());
        for table in tables {
            let number = table.file.number;
            let path = stage.path(number);
            let file = stage.env().fs.open_random_access(&path, AccessMode::Mmap)?;
            let reader = TableReader::open(file, path, table.file.size, number, Arc::clone(&context))?;
            open_tables.push((table.file.largest, Arc::new(reader)));
        }
        Ok(Arc::new(OpenRun { order, tables: open_tables }))
    }

    /// Returns an iterator over the entries of the run.
    pub(super) fn iter(self: &Arc<Self>) -> ChildIter {
        let run: Arc<OpenRun> = Arc::clone(self);
        ChildIter::Level(LevelIter::new(run))
    }
}

impl SortedRun for OpenRun {
    fn len(&self) -> usize {
        self.tables.len()
    }

    fn find_table(&self, target: &[u8]) -> usize {
        self.tables.partition_point(|(largest, _)| self.order.compare(largest.as_bytes(), target).is_lt())
    }

    fn open_table(&self, index: usize) -> Result<TableIter> {
        Ok(TableIter::new(Arc::clone(&self.tables[index].1), BlockReadOptions::BULK))
    }
}

/// State that the merging threads share.
struct RunMerge {
    stage: Arc<TableStage>,
    /// All runs, newest first.
    runs: Vec<Arc<OpenRun>>,
    /// Length of the prefix that all user keys share.
    prefix_len: usize,
    /// Size at which a table of a range ends early.
    max_table_size: u64,
    /// Bytes of finished ranges. Relaxed: for reports only.
    merged_bytes: AtomicU64,
    outcome: Mutex<MergeOutcome>,
}

#[derive(Default)]
struct MergeOutcome {
    /// Tables of each range, with its number, in any order.
    tables: Vec<(usize, Vec<FinishedTable>)>,
    first_error: Option<Error>,
}

/// Merges `runs`, the oldest first, into tables in key order, and removes the files of the runs.
pub(super) fn merge_runs(
    stage: &Arc<TableStage>,
    runs: Vec<FinishedRun>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<FinishedTable>> {
    let total: u64 = runs.iter().flat_map(|run| &run.tables).map(|table| table.file.size).sum();
    let target_size = stage.target_file_size(total);
    let boundaries = range_boundaries(stage, &runs, total.div_ceil(target_size) as usize);
    let run_numbers: Vec<u64> =
        runs.iter().flat_map(|run| &run.tables).map(|table| table.file.number).collect();
    let prefix_len = shared_prefix_len(&runs);
    let open_runs = runs.into_iter().rev().map(|run| OpenRun::open(stage, run.tables));
    let merge = Arc::new(RunMerge {
        stage: Arc::clone(stage),
        runs: open_runs.collect::<Result<_>>()?,
        prefix_len,
        max_table_size: target_size.saturating_mul(2),
        merged_bytes: AtomicU64::new(0),
        outcome: Mutex::default(),
    });
    let range_bytes = total / (boundaries.len() as u64 + 1);
    let scheduler = &stage.env().scheduler;
    // This thread merges ranges, too.
    let helpers = scheduler.parallelism(Priority::Compaction).saturating_sub(1).max(1);
    let task_group = TaskGroup::new(scheduler, Priority::Compaction, helpers);
    for number in 0..=boundaries.len() {
        let begin = number.checked_sub(1).map(|before| boundaries[before].clone());
        let end = boundaries.get(number).cloned();
        let merge = Arc::clone(&merge);
        task_group.spawn(Box::new({
            let merge = Arc::clone(&merge);
            move || merge.run_range(number, begin.as_deref(), end.as_deref(), range_bytes)
        }));
        merge.check()?;
        progress(LoadProgress::Merged { done: merge.merged_bytes.load(Ordering::Relaxed), total });
    }
    task_group.finish()?;
    merge.check()?;
    progress(LoadProgress::Merged { done: total, total });
    let mut ranges = std::mem::take(&mut merge.outcome.lock().tables);
    drop(merge);
    for number in run_numbers {
        stage.remove(number);
    }
    ranges.sort_by_key(|(number, _)| *number);
    Ok(ranges.into_iter().flat_map(|(_, tables)| tables).collect())
}

/// Returns up to `count - 1` user keys that divide the entries of `runs` into ranges of similar
/// size.
fn range_boundaries(stage: &TableStage, runs: &[FinishedRun], count: usize) -> Vec<Vec<u8>> {
    let order = stage.comparator().user_comparator();
    let mut samples: Vec<&[u8]> = runs.iter().flat_map(|run| &run.samples).map(Vec::as_slice).collect();
    samples.sort_unstable_by(|a, b| order.compare(a, b));
    samples.dedup_by(|a, b| order.compare(a, b).is_eq());
    let count = count.clamp(1, samples.len() + 1);
    (1..count).map(|n| samples[n * samples.len() / count].to_vec()).collect()
}

fn shared_prefix_len(runs: &[FinishedRun]) -> usize {
    let bounds = runs.iter().flat_map(|run| &run.tables);
    let mut bounds = bounds.flat_map(|table| [table.file.smallest.user_key(), table.file.largest.user_key()]);
    let Some(first) = bounds.next() else { return 0 };
    bounds.fold(first.len(), |len, key| first[..len].iter().zip(key).take_while(|(a, b)| a == b).count())
}

impl RunMerge {
    /// Returns the first error of the ranges so far.
    fn check(&self) -> Result<()> {
        self.outcome.lock().first_error.clone().map_or(Ok(()), Err)
    }

    /// Merges range `number`, unless another range has failed.
    fn run_range(&self, number: usize, begin: Option<&[u8]>, end: Option<&[u8]>, bytes: u64) {
        if self.check().is_err() {
            return;
        }
        let merged = self.merge_range(begin, end);
        self.merged_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut outcome = self.outcome.lock();
        match merged {
            Ok(tables) => outcome.tables.push((number, tables)),
            Err(error) => {
                outcome.first_error.get_or_insert(error);
            }
        }
    }

    /// Writes the entries from `begin` to `end`, which is excluded, to tables.
    fn merge_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<Vec<FinishedTable>> {
        let order = self.stage.comparator();
        let begin = begin.map(|key| InternalKey::new(key, MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK));
        let begin = begin.as_ref().map(InternalKey::as_bytes);
        let runs = self.runs.iter().map(OpenRun::iter).collect();
        let mut entries = LoserTree::new(order.clone(), runs, self.prefix_len, begin);
        let mut tables = Vec::new();
        let mut table: Option<TableWriter> = None;
        while let Some((key, value)) = entries.entry() {
            if end.is_some_and(|end| order.compare_user_keys(key::user_key(key), end).is_ge()) {
                break;
            }
            let writer = match &mut table {
                Some(writer) => writer,
                empty => empty.insert(self.stage.create_table(self.stage.table_options())?),
            };
            let is_new = writer.add_if_greater(key, value)?;
            entries.next();
            // An older entry of the last key must not begin the next table.
            if is_new && writer.size_estimate() >= self.max_table_size {
                skip_key(&mut entries, order, writer.last_key().unwrap_or_default());
                tables.extend(table.take().map(TableWriter::finish).transpose()?.flatten());
            }
        }
        entries.status()?;
        tables.extend(table.map(TableWriter::finish).transpose()?.flatten());
        Ok(tables)
    }
}

/// Moves `entries` beyond all entries with the user key of `internal_key`.
fn skip_key(entries: &mut LoserTree<ChildIter>, order: &InternalComparator, internal_key: &[u8]) {
    let user_key = key::user_key(internal_key);
    while let Some((key, _)) = entries.entry() {
        if order.compare_user_keys(key::user_key(key), user_key).is_ne() {
            break;
        }
        entries.next();
    }
}
