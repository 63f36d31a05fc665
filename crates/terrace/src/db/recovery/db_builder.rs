//! Construction of the shared state of a database from its recovered parts.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use terrace_env::{FileLock, MappedLogs, ProcessToken};
use terrace_format::filter_block::TableFilter;
use terrace_format::key_order::KeyOrder;

use super::open::DbOpener;
use crate::cache::{self, BlockCache};
use crate::compaction::flush_partitioner::FlushHistory;
use crate::compaction::picker::{CompactionLimits, Level0Limits, lazy_leveled, tombstones};
use crate::db::components::background_error::BackgroundError;
use crate::db::components::follower_tail::FollowSchedule;
use crate::db::components::load_state::{LoadCheck, LoadState};
use crate::db::components::memory_budget::MemoryBudget;
use crate::db::components::memtable_size::MemtableSizer;
use crate::db::components::obsolete_tables::ObsoleteTables;
use crate::db::components::read_state::ReadStateCell;
use crate::db::components::wal::WalWriter;
use crate::db::components::wal_sync::WalSync;
use crate::db::components::write_contention::WriteContention;
use crate::db::components::write_controller::{CompactionRate, WriteController};
use crate::db::components::write_queue::WriteQueue;
use crate::db::components::write_stalls::PresentStalls;
use crate::db::inner::{CompactionProgress, DbInner, DbState, ForkState, ReadState};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::shared_budget::{BLOCK_CACHE_BYTES_PER_DATABASE, BudgetShare, SharedBudget};
use crate::snapshot::SnapshotList;
use crate::stats::Statistics;
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Weak};
use crate::table::{TableCache, TableMemory, TableReaderContext, TableStats};
use crate::version::{Manifest, VersionSet};

/// Capacity of the block cache in bytes, if the options name neither a cache nor a memory budget,
/// and the database shares no budget.
const DEFAULT_BLOCK_CACHE_BYTES: usize = BLOCK_CACHE_BYTES_PER_DATABASE;

impl DbOpener<'_> {
    /// Builds the shared state. A database without `wal_writer` is read-only.
    pub(super) fn into_inner(
        self,
        memtable: Arc<Memtable>,
        immutable_memtables: Vec<Arc<Memtable>>,
        next_file_number: AtomicU64,
        manifest: Manifest,
        wal_writer: Option<WalWriter>,
        db_lock: Option<Box<dyn FileLock>>,
    ) -> Arc<DbInner> {
        let options = self.options_of_run(wal_writer.as_ref());
        let memory_budget = MemoryBudget::from_options(&options);
        let block_cache = self.block_cache(memory_budget.as_ref());
        let context = self.table_reader_context(memory_budget.as_ref(), &block_cache);
        let version_set = self.recovered.version_set.clone();
        let read_state = first_read_state(&version_set, &memtable, immutable_memtables, wal_writer.as_ref());
        Arc::new_cyclic(|inner| DbInner {
            weak_self: inner.clone(),
            budget_share: join_shared_budget(self.shared_budget.as_ref(), inner, self.options),
            is_early_flush_requested: AtomicBool::new(false),
            owner_process: ProcessToken::current(),
            lock_owner: db_lock.as_ref().and_then(|lock| lock.owner()),
            directory: self.directory.to_path_buf(),
            absolute_directory: options.env.fs.absolute(self.directory),
            compaction_limits: compaction_limits(&options),
            table_cache: Arc::new(self.table_cache(&options, context, Weak::clone(inner))),
            table_options: options.table_options(&self.comparator),
            memtable_sizer: MemtableSizer::new(&options),
            write_queue: new_write_queue(&options, &memtable),
            options,
            logger: self.logger,
            recovery: self.report,
            comparator: self.comparator,
            block_cache,
            snapshots: Arc::new(SnapshotList::default()),
            chunk_pool: self.chunk_pool,
            memory_budget,
            write_controller: WriteController::default(),
            is_read_only: wal_writer.is_none(),
            follow_schedule: self.follower.as_ref().map(|(every, _)| FollowSchedule::new(*every)),
            extension: OnceLock::new(),
            read_state,
            next_file_number,
            background_error: BackgroundError::new(),
            is_shutting_down: AtomicBool::new(false),
            wal_sync: WalSync::new(wal_writer.iter().map(|writer| writer.wal.clone()).collect()),
            fork_state: ForkState::default(),
            follower_tail: Mutex::new(self.follower.map(|(_, tail)| tail)),
            commit: Mutex::new(wal_writer),
            manifest: Mutex::new(manifest),
            state: Mutex::new(new_state(version_set, memtable)),
            state_changed: Condvar::new(),
            write_contention: WriteContention::default(),
            background_jobs: Arc::default(),
            compaction_progress: CompactionProgress::default(),
            load_check: Arc::new(LoadCheck::new(Weak::clone(inner))),
            db_lock: Mutex::new(db_lock),
        })
    }

    /// Returns the options. If the first log is appended, all logs are: the MANIFEST states their
    /// method for the whole run.
    fn options_of_run(&self, writer: Option<&WalWriter>) -> Options {
        let mut options = self.options.clone();
        if writer.is_some_and(|writer| writer.wal.file.capacity() == 0) {
            options.mapped_logs = MappedLogs::Never;
        }
        options
    }

    fn table_cache(
        &self,
        options: &Options,
        context: Arc<TableReaderContext>,
        inner: Weak<DbInner>,
    ) -> TableCache {
        let on_stats = schedule_on_many_tombstones(inner);
        let cache = TableCache::new(self.directory, options, context, on_stats);
        cache.keeping_tables(self.follower.is_some())
    }

    fn block_cache(&self, budget: Option<&MemoryBudget>) -> Arc<BlockCache> {
        let shared = self.shared_budget.as_ref().map(|shared| Arc::clone(shared.block_cache()));
        let capacity = budget.map_or(DEFAULT_BLOCK_CACHE_BYTES, |budget| budget.blocks_and_tables);
        self.options.block_cache.clone().or(shared).unwrap_or_else(|| BlockCache::new(capacity))
    }

    // Not inlined, so that an open on a small stack does not hold the statistics beside the other
    // parts of the shared state.
    #[inline(never)]
    fn table_reader_context(
        &self,
        budget: Option<&MemoryBudget>,
        block_cache: &Arc<BlockCache>,
    ) -> Arc<TableReaderContext> {
        let memory = match (&self.shared_budget, budget) {
            (Some(shared_budget), _) => TableMemory::shared(Arc::clone(shared_budget)),
            (None, None) => TableMemory::default(),
            (None, Some(budget)) => {
                // Open tables do not reduce a block cache that other databases may share.
                let own_cache = self.options.block_cache.is_none().then(|| Arc::clone(block_cache));
                TableMemory::new(budget.open_table_limit(), own_cache)
            }
        };
        Arc::new(TableReaderContext {
            order: KeyOrder::from(&self.comparator),
            filter_policy: self.table_options().filter.as_ref().map(TableFilter::policy),
            cache: Arc::clone(block_cache),
            cache_id: cache::new_cache_id(),
            metrics: Statistics::default(),
            memory: Arc::new(memory),
        })
    }
}

/// Makes the database `inner` a user of the shared budget.
fn join_shared_budget(
    budget: Option<&Arc<SharedBudget>>,
    inner: &Weak<DbInner>,
    options: &Options,
) -> Option<BudgetShare> {
    let user: Weak<DbInner> = Weak::clone(inner);
    Some(BudgetShare::new(budget?, user, options.block_cache.is_none()))
}

fn compaction_limits(options: &Options) -> CompactionLimits {
    CompactionLimits {
        target_file_size: options.base_file_size(),
        scales_with_level: options.max_file_size.is_none(),
        level_0: Level0Limits::for_memtable_size(MemtableSizer::max_size(options)),
        slice_bytes: lazy_leveled::slice_bytes(options.write_buffer_size),
    }
}

/// Returns a callback for the table cache. It schedules a compaction when a table with many
/// tombstones is opened.
fn schedule_on_many_tombstones(inner: Weak<DbInner>) -> Box<dyn Fn(TableStats) + Send + Sync> {
    Box::new(move |stats| {
        if tombstones::is_candidate(stats.properties.num_deletions)
            && let Some(inner) = inner.upgrade()
        {
            inner.maybe_schedule_compaction();
        }
    })
}

fn new_write_queue(options: &Options, memtable: &Memtable) -> WriteQueue {
    // A comparator of the caller may be slow, and one thread inserts for a group.
    WriteQueue::new(options.mapped_logs == MappedLogs::Never && memtable.is_bytewise())
}

/// Returns the state that the first reader sees.
fn first_read_state(
    version_set: &VersionSet,
    memtable: &Arc<Memtable>,
    immutable_memtables: Vec<Arc<Memtable>>,
    writer: Option<&WalWriter>,
) -> ReadStateCell<ReadState> {
    let flushed_sequence = version_set.last_sequence;
    let read_state = ReadState {
        memtable: Arc::clone(memtable),
        immutable_memtables,
        version: Arc::clone(&version_set.version),
        flushed_sequence,
        followed_sequence: None,
    };
    ReadStateCell::new(read_state, writer.map_or(flushed_sequence, |writer| writer.last_sequence))
}

/// Creates the state of a database without background work.
fn new_state(set: VersionSet, memtable: Arc<Memtable>) -> DbState {
    DbState {
        version_set: set,
        memtable,
        immutable_memtables: VecDeque::new(),
        scheduled_flushes: 0,
        is_installing_flush: false,
        is_compaction_scheduled: false,
        compaction_key_range: None,
        running_compaction: None,
        load_state: LoadState::default(),
        sliced_compaction: None,
        settling: None,
        is_compaction_enabled: true,
        compaction_suspensions: 0,
        compaction_pauses: 0,
        manual_compactions: VecDeque::new(),
        last_manual_compaction_id: 0,
        read_compaction: None,
        read_compactions_paused_until: Duration::ZERO,
        seek_compactions_paused_until: Duration::ZERO,
        obsolete_tables: ObsoleteTables::default(),
        flush_history: FlushHistory::default(),
        compaction_stats: Default::default(),
        compaction_rate: CompactionRate::default(),
        retryable_failures: 0,
        last_retryable_error: None,
        change_count: 0,
        stalls: PresentStalls::default(),
        is_shut_down: false,
        close_outcome: None,
    }
}
