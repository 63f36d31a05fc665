//! Construction of the shared state of a database from its recovered parts.

use std::collections::VecDeque;
use std::time::Duration;

use terrace_env::{FileLock, MappedLogs, ProcessToken};
use terrace_format::filter_block::TableFilter;
use terrace_format::key_order::KeyOrder;

use super::open::DbOpener;
use crate::cache::{self, BlockCache};
use crate::compaction::picker::{CompactionLimits, tombstones};
use crate::db::components::background_error::BackgroundError;
use crate::db::components::memory_budget::MemoryBudget;
use crate::db::components::memtable_size::MemtableSizer;
use crate::db::components::obsolete_tables::ObsoleteTables;
use crate::db::components::read_state::ReadStateCell;
use crate::db::components::wal::WalWriter;
use crate::db::components::wal_sync::WalSync;
use crate::db::components::write_contention::WriteContention;
use crate::db::components::write_controller::{CompactionRate, WriteController};
use crate::db::components::write_queue::WriteQueue;
use crate::db::inner::{DbInner, DbState, ForkState, ReadState};
use crate::memtable::{ChunkPool, Memtable};
use crate::options::Options;
use crate::snapshot::SnapshotList;
use crate::stats::Statistics;
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Weak};
use crate::table::{TableCache, TableMemory, TableReaderContext, TableStats};
use crate::version::{Manifest, VersionSet};

/// Capacity of the block cache in bytes, if the options name neither a cache nor a memory budget.
const DEFAULT_BLOCK_CACHE_BYTES: usize = 128 << 20;

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
        let block_cache = block_cache(&options, memory_budget.as_ref());
        let context = self.table_reader_context(memory_budget.as_ref(), &block_cache);
        let version_set = self.recovered.version_set;
        let writer = wal_writer.as_ref();
        let visible = writer.map_or(version_set.last_sequence, |writer| writer.last_sequence);
        let version = Arc::clone(&version_set.version);
        // A comparator of the caller may be slow, and one thread inserts for a group.
        let write_queue = WriteQueue::new(options.mapped_logs == MappedLogs::Never && memtable.is_bytewise());
        let read_state = ReadState { memtable: Arc::clone(&memtable), immutable_memtables, version };
        Arc::new_cyclic(|inner| DbInner {
            weak_self: inner.clone(),
            owner_process: ProcessToken::current(),
            lock_owner: db_lock.as_ref().and_then(|lock| lock.owner()),
            directory: self.directory.to_path_buf(),
            absolute_directory: options.env.fs.absolute(self.directory),
            compaction_limits: compaction_limits(&options),
            table_cache: Arc::new(TableCache::new(
                self.directory,
                &options,
                context,
                schedule_on_many_tombstones(Weak::clone(inner)),
            )),
            table_options: options.table_options(&self.comparator),
            memtable_sizer: MemtableSizer::new(&options),
            options,
            logger: self.logger,
            recovery: self.report,
            comparator: self.comparator,
            block_cache,
            snapshots: Arc::new(SnapshotList::default()),
            chunk_pool: Arc::new(chunk_pool(memory_budget.as_ref())),
            memory_budget,
            write_controller: WriteController::default(),
            is_read_only: wal_writer.is_none(),
            read_state: ReadStateCell::new(read_state, visible),
            next_file_number,
            background_error: BackgroundError::new(),
            is_shutting_down: AtomicBool::new(false),
            wal_sync: WalSync::new(wal_writer.iter().map(|writer| writer.wal.clone()).collect()),
            fork_state: ForkState::default(),
            commit: Mutex::new(wal_writer),
            manifest: Mutex::new(manifest),
            state: Mutex::new(new_state(version_set, memtable)),
            state_changed: Condvar::new(),
            write_contention: WriteContention::default(),
            write_queue,
            background_jobs: Arc::default(),
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

    // Not inlined, so that an open on a small stack does not hold the statistics beside the other
    // parts of the shared state.
    #[inline(never)]
    fn table_reader_context(
        &self,
        budget: Option<&MemoryBudget>,
        block_cache: &Arc<BlockCache>,
    ) -> Arc<TableReaderContext> {
        let memory = budget.map_or_else(TableMemory::default, |budget| {
            // Open tables do not reduce a block cache that other databases may share.
            let own_cache = self.options.block_cache.is_none().then(|| Arc::clone(block_cache));
            TableMemory::new(budget.open_table_limit(), own_cache)
        });
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

fn block_cache(options: &Options, budget: Option<&MemoryBudget>) -> Arc<BlockCache> {
    let capacity = budget.map_or(DEFAULT_BLOCK_CACHE_BYTES, |budget| budget.blocks_and_tables);
    options.block_cache.clone().unwrap_or_else(|| BlockCache::new(capacity))
}

fn chunk_pool(budget: Option<&MemoryBudget>) -> ChunkPool {
    budget.map_or_else(ChunkPool::default, |budget| ChunkPool::with_limit(budget.pooled_chunks))
}

fn compaction_limits(options: &Options) -> CompactionLimits {
    CompactionLimits {
        target_file_size: options.base_file_size(),
        scales_with_level: options.max_file_size.is_none(),
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
        is_compaction_enabled: true,
        manual_compactions: VecDeque::new(),
        last_manual_compaction_id: 0,
        read_compaction: None,
        read_compactions_paused_until: Duration::ZERO,
        seek_compactions_paused_until: Duration::ZERO,
        obsolete_tables: ObsoleteTables::default(),
        compaction_stats: Default::default(),
        compaction_rate: CompactionRate::default(),
        retryable_failures: 0,
        last_retryable_error: None,
        change_count: 0,
        stalled_writers: 0,
        is_shut_down: false,
    }
}
