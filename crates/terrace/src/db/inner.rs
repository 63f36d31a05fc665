//! Shared state of an open database, and all of its locks.
//!
//! # Lock order
//!
//! A thread takes locks from left to right, and may skip some of them:
//!
//! ```text
//!   follower_tail
//!     ──> commit ──> SnapshotList::counts_by_sequence ──> manifest ─┬─> state ──> leaf locks
//!                                                         db_lock ──┘
//! ```
//!
//! A thread may take a leaf lock while it holds any lock further left. While it holds a leaf lock,
//! it takes no other lock, with the exceptions that the second list names.
//!
//! These functions nest the locks of [`DbInner`]:
//!
//! - `follower_tail` -> `state`: `install_followed_state`. A follower opens tables and reads its
//!   files with `follower_tail` locked, and its readers wait for it only if their state is too old.
//! - `commit` -> `state`: `make_room_for_write`, `switch_memtable`, `flush`, `close`, `capture`,
//!   and `request_flush`, which only tries to take `commit`.
//! - `commit` -> `manifest` -> `state`: `retract` and `close_wal`.
//! - `commit` -> `counts_by_sequence` -> `manifest` -> `state`: `delete_range`, in the step that
//!   drops tables, and the last step of `ingest`. No thread can take a snapshot while the edit is
//!   installed.
//! - `manifest` -> `state`: `log_and_apply`, `pick_flush_level`, `pick_compaction` and
//!   `remove_leftovers`.
//! - `db_lock` -> `state`: `remove_obsolete_files`. It holds `db_lock` while it removes the files.
//!   An ingest holds it while it creates, renames and removes its files.
//!
//! Leaf locks, with the locks of the database under which a thread takes them:
//!
//! - `SnapshotList::waiter`: under `state`, in `needs_tombstone_compaction` and `close`. The
//!   snapshot list calls its waiter after it has released both of its locks.
//! - `WalSync::logs`: under `commit` and `state`, in `switch_memtable`. `WalSync::state`: under
//!   `commit`, in `delete_range` and `ingest`; the thread that syncs holds neither of them during
//!   the sync.
//! - `WriteQueue::next`: under `commit`, when a writer takes a group.
//! - `BackgroundJobs::count`: under `state`, in `schedule_job`.
//! - `CommitPublisher::is_poisoned`: under `commit`, when a writer, `retract` or `delete_range`
//!   waits until earlier writes are visible.
//! - `Arena::chunks` and `ChunkPool::free_chunks`: under `commit` in the exclusive writer and in
//!   `switch_memtable`, and under `state` when the last reference to a memtable is dropped there.
//!   A dropped arena takes `free_chunks` under `chunks`.
//! - `TableCache::eviction` and `S3FifoCache::queues`: under `commit` when `delete_range` reads
//!   tables, and under `db_lock` or `state` when a table is dropped. An evicted table releases its
//!   memory, so `queues` is also taken under `eviction`. No table is opened under `state`, because
//!   the statistics of a new table may schedule a compaction, which takes `state`.
//! - `FileLogger::file`, or the locks of the caller's logger: under `commit`, `manifest`,
//!   `db_lock`, and under `state` in `finish_job`.
//! - `SharedBudget::users`, of type `SharedBudgetUsers`: under `commit` in a writer, and under none
//!   when a table is opened. The thread releases it before it calls another database. Then it only
//!   takes leaf locks, and schedules jobs. A database that is dropped waits for such threads, with
//!   no lock, so they drop no last reference.
//! - `LoadCheck::database`: before `state`. A check holds it, and a thread that closes the database
//!   waits for it.
//! - `WriteController::delayed_until`, `MemtableSizer::last_flush`: under none.
//! - `TableStage::files`, `RunWriter::outcome`, `RunWriter::free_buffers` and `RunMerge::outcome`:
//!   under none, except for `files` under `db_lock`, also while a file is renamed or removed.
//! - `SubcompactionQueue::state`, `TaskQueue::state`, `RecoveryFlushContext::results`,
//!   `SortedChunkPool::free`: under none. `results` is held while unused tables are removed.
//! - `TransactionTurn::holder`, `LockManager::shards`: under none. `WaitForGraph::edges`: under a
//!   shard. The ranges of a `ReadSet`, which `ReadRange` and `RangeRecorder` name: before all other
//!   locks. A commit holds them while it takes `commit`.
//! - `adoption`: before all other locks. A forked child holds it while it opens the database again,
//!   which takes the locks of the new database.
//! - `Backups::lock`: before all other locks. A backup holds it while it captures the database.
//! - A thread that forks holds `adoption`, `commit` and `state` of each open database, and then
//!   `ChunkPool::free_chunks`, `TableCache::eviction`, `S3FifoCache::queues`, `FileLogger::file`
//!   and locks of the env: see `terrace_sync::prepare_fork`.
//! - Locks of the env: under any lock. The scheduler is called under `state`.
//!
//! A reader holds none of the locks of [`DbInner`] while it reads, and `state` is never held across
//! a read, write or sync of a database file. A background job never waits for `commit`: a thread
//! that closes the database holds `commit` until all jobs have ended. The only callbacks of the
//! caller that run under a lock are comparators, filter policies and loggers.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use terrace_env::{FileLock, LockOwner, ProcessToken};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalComparator, SequenceNumber};
use terrace_format::table::TableOptions;
use terrace_format::version_edit::NUM_LEVELS;
use terrace_sync::mutant;

use super::components::background_error::{BackgroundError, forked_process_error, lost_in_fork_error};
use super::components::background_jobs::BackgroundJobs;
use super::components::compaction_stats::CompactionStats;
use super::components::follower_tail::{FollowSchedule, FollowerTail};
use super::components::load_state::{LoadCheck, LoadState};
use super::components::memory_budget::MemoryBudget;
use super::components::memtable_size::MemtableSizer;
use super::components::obsolete_tables::ObsoleteTables;
use super::components::read_state::ReadStateCell;
use super::components::recovery_report::RecoveryReport;
use super::components::wal::WalWriter;
use super::components::wal_sync::WalSync;
use super::components::write_contention::WriteContention;
use super::components::write_controller::{CompactionRate, RunningCompaction, WriteController};
use super::components::write_queue::WriteQueue;
use super::components::write_stalls::PresentStalls;
use crate::cache::BlockCache;
use crate::compaction::flush_partitioner::FlushHistory;
use crate::compaction::picker::{CompactionLimits, Settling, SlicedCompaction};
use crate::error::{DATABASE_IS_CLOSED, Error, Result};
use crate::event::Event;
use crate::info_log::Logger;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::Options;
use crate::shared_budget::BudgetShare;
use crate::snapshot::SnapshotList;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, Weak};
use crate::table::{FinishedTable, TableCache};
use crate::version::{FileMeta, KeyRange, Manifest, ReadCompactionHint, Version, VersionSet};

/// Shared state of an open database. The methods are in the operations of `db/`.
pub(super) struct DbInner {
    // Constant after open.
    /// Reference for background jobs.
    pub(super) weak_self: Weak<DbInner>,
    /// Process that opened the database. A forked child has the same log mapped, but no background
    /// threads: it may only read, until it adopts the database.
    pub(super) owner_process: ProcessToken,
    /// Process of the directory lock, for its forked children.
    pub(super) lock_owner: Option<Arc<dyn LockOwner>>,
    pub(super) directory: PathBuf,
    /// The directory, independent of the current directory of the process.
    pub(super) absolute_directory: PathBuf,
    pub(super) options: Options,
    pub(super) logger: Arc<dyn Logger>,
    /// Findings of the open.
    pub(super) recovery: RecoveryReport,
    pub(super) comparator: InternalComparator,
    pub(super) table_options: TableOptions,
    pub(super) compaction_limits: CompactionLimits,
    pub(super) memory_budget: Option<MemoryBudget>,
    /// Share in the budget of the process. None if the database has its own.
    pub(super) budget_share: Option<BudgetShare>,
    pub(super) table_cache: Arc<TableCache>,
    pub(super) block_cache: Arc<BlockCache>,
    pub(super) snapshots: Arc<SnapshotList>,
    pub(super) is_read_only: bool,
    /// Times of the catch-ups. None in a database that is not a follower.
    pub(super) follow_schedule: Option<FollowSchedule>,
    /// State of a higher layer.
    pub(super) extension: OnceLock<Box<dyn Any + Send + Sync>>,

    // Components and atomics with their own synchronisation.
    /// Memtables and version for readers. Replaced under `state`.
    pub(super) read_state: ReadStateCell<ReadState>,
    pub(super) next_file_number: AtomicU64,
    pub(super) background_error: BackgroundError,
    pub(super) is_shutting_down: AtomicBool,
    /// A thread adds logs and counts writes under `commit`.
    pub(super) wal_sync: WalSync,
    pub(super) memtable_sizer: MemtableSizer,
    /// Chunks recycled from flushed memtables.
    pub(super) chunk_pool: Arc<ChunkPool>,
    pub(super) write_controller: WriteController,
    pub(super) write_contention: WriteContention,
    /// True while a job is scheduled that flushes the memtable for the shared budget. Relaxed: it
    /// only prevents useless jobs.
    pub(super) is_early_flush_requested: AtomicBool,
    pub(super) write_queue: WriteQueue,
    /// Background jobs that hold a reference to this state.
    pub(super) background_jobs: Arc<BackgroundJobs>,
    pub(super) compaction_progress: CompactionProgress,
    /// Reference for checks whether a load is running. They do not keep the database open.
    pub(super) load_check: Arc<LoadCheck<Weak<DbInner>>>,

    // Locks, in lock order.
    pub(super) fork_state: ForkState,
    /// One thread at a time catches up. None in a database that is not a follower.
    pub(super) follower_tail: Mutex<Option<Box<FollowerTail>>>,
    /// One writer at a time takes sequence numbers and appends to the WAL. None in a read-only
    /// database and after close.
    pub(super) commit: Mutex<Option<WalWriter>>,
    /// One thread at a time writes a version edit.
    pub(super) manifest: Mutex<Manifest>,
    /// Lock of the directory, None after close. Obsolete files are removed only while a thread
    /// holds this mutex.
    pub(super) db_lock: Mutex<Option<Box<dyn FileLock>>>,
    /// Current memtables and version, and the state of the background work.
    pub(super) state: Mutex<DbState>,
    /// Notified after each change of `state` that a thread may wait for.
    pub(super) state_changed: Condvar,
}

/// Progress of compactions, for the callers of manual ones. All accesses are relaxed, because only
/// reports use them.
#[derive(Default)]
pub(super) struct CompactionProgress {
    /// Number of callers that show progress.
    pub(super) watchers: AtomicUsize,
    /// Bytes that the running compaction has written, if there is a watcher.
    pub(super) bytes_written: AtomicU64,
    /// Number of entries that the running compaction has read.
    pub(super) entries_read: AtomicU64,
    /// Bytes of these entries.
    pub(super) bytes_read: AtomicU64,
}

/// State of the database in a forked child.
#[derive(Default)]
pub(super) struct ForkState {
    /// True in a child that cannot use its copy of the database.
    pub(super) is_lost: AtomicBool,
    /// True in a child that cannot lock `adoption`.
    pub(super) is_adoption_lost: AtomicBool,
    /// True after a child failed to adopt the database. Relaxed: only writes try again.
    pub(super) is_adoption_refused: AtomicBool,
    /// Held while a child opens the database again.
    pub(super) adoption: Mutex<()>,
}

/// Memtables and version that one read uses.
pub(super) struct ReadState {
    pub(super) memtable: Arc<Memtable>,
    /// Immutable memtables, newest first.
    pub(super) immutable_memtables: Vec<Arc<Memtable>>,
    pub(super) version: Arc<Version>,
    /// Sequence number up to which all writes are in tables. Tables may hold no later one.
    pub(super) flushed_sequence: SequenceNumber,
    /// Sequence number of the state, in a follower. It and the memtables and tables are installed
    /// together, so that no reader combines those of two states. In other databases, each write
    /// advances the visible sequence number instead.
    pub(super) followed_sequence: Option<SequenceNumber>,
}

/// State behind the lock `DbInner::state`.
pub(super) struct DbState {
    pub(super) version_set: VersionSet,
    pub(super) memtable: Arc<Memtable>,
    /// Memtables that wait for their flush or are being flushed, oldest first.
    pub(super) immutable_memtables: VecDeque<ImmutableMemtable>,
    /// Number of flush jobs that are queued or running.
    pub(super) scheduled_flushes: usize,
    /// True while a flush job installs finished tables.
    pub(super) is_installing_flush: bool,
    /// True while a compaction job is queued or running.
    pub(super) is_compaction_scheduled: bool,
    /// Key range that the running compaction writes, if one runs.
    pub(super) compaction_key_range: Option<CompactionKeyRange>,
    /// The running compaction, until its edit is installed.
    pub(super) running_compaction: Option<RunningCompaction>,
    pub(super) load_state: LoadState,
    /// Sliced compaction that began while a load was running.
    pub(super) sliced_compaction: SlicedCompaction,
    /// Compactions after a load.
    pub(super) settling: Settling,
    /// False after a compaction failed, until there is a reason to retry it.
    pub(super) is_compaction_enabled: bool,
    /// Number of callers that have suspended compactions.
    pub(super) compaction_suspensions: usize,
    /// Number of operations of the engine that have. A program cannot end these.
    pub(super) compaction_pauses: usize,
    /// Manual compactions in the order of their requests. The first one is running.
    pub(super) manual_compactions: VecDeque<ManualCompaction>,
    /// Identifier of the newest manual compaction.
    pub(super) last_manual_compaction_id: u64,
    pub(super) read_compaction: Option<ReadCompactionHint>,
    /// Time before which gets and long scans cannot trigger a compaction.
    pub(super) read_compactions_paused_until: Duration,
    /// Time before which seeks cannot trigger a compaction.
    pub(super) seek_compactions_paused_until: Duration,
    pub(super) obsolete_tables: ObsoleteTables<FileMeta>,
    pub(super) flush_history: FlushHistory,
    pub(super) compaction_stats: [CompactionStats; NUM_LEVELS],
    pub(super) compaction_rate: CompactionRate,
    /// Number of background failures that a retry may resolve.
    pub(super) retryable_failures: u64,
    pub(super) last_retryable_error: Option<Error>,
    /// Number of notifications of `DbInner::state_changed`.
    pub(super) change_count: u64,
    /// Writers that wait in `make_room_for_write`.
    pub(super) stalls: PresentStalls,
    /// True after close has waited for the last job. The next opener does the remaining work.
    pub(super) is_shut_down: bool,
    /// Result of close, after it has released the directory lock.
    pub(super) close_outcome: Option<Result<()>>,
}

/// Memtable that accepts no more writes.
#[derive(Clone)]
pub(super) struct ImmutableMemtable {
    pub(super) memtable: Arc<Memtable>,
    /// File numbers for its tables, at least one. Newer memtables have greater numbers, even if
    /// their tables are finished earlier: of two tables on level 0, the one with the greater number
    /// is newer.
    pub(super) table_numbers: Range<u64>,
    pub(super) flush_state: FlushState,
    /// Number of the log with the same writes.
    pub(super) log_number: u64,
    /// Length of the records of this log, in bytes.
    pub(super) log_len: u64,
    /// Number of the following log. After the flush, the database needs no older log.
    pub(super) next_log_number: u64,
    /// Sequence number of its last write.
    pub(super) last_sequence: SequenceNumber,
    /// Bytes of keys and values that were written into the memtable.
    pub(super) user_bytes: u64,
    pub(super) target: FlushTarget,
}

/// Progress of the flush of one memtable.
#[derive(Clone)]
pub(super) enum FlushState {
    Pending,
    /// A flush job writes the tables.
    Running,
    /// The tables are durable. They are installed after those of all older memtables.
    Done(FlushOutput),
}

/// Result of a flush that is not installed yet.
#[derive(Clone)]
pub(super) struct FlushOutput {
    /// Tables in the order of their keys. None if the memtable was empty.
    pub(super) tables: Vec<FinishedTable>,
    /// Time when the flush started.
    pub(super) started_at: Duration,
    /// The MANIFEST write failed, so the tables may or may not be live.
    pub(super) is_indeterminate: bool,
}

/// Level for the table of a memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushTarget {
    /// The deepest level that the table reaches without overlap.
    AnyLevel,
    /// Level 0. The caller requests a manual compaction next, which drops deleted and overwritten
    /// entries of this table.
    Level0,
}

/// User keys that a compaction reads and writes, both ends included.
pub(super) struct CompactionKeyRange {
    /// Level of the output tables.
    pub(super) output_level: usize,
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// Compaction of a key range of one level, for a caller that waits for it.
pub(super) struct ManualCompaction {
    pub(super) id: u64,
    pub(super) level: usize,
    pub(super) begin: Option<Vec<u8>>,
    pub(super) end: Option<Vec<u8>>,
    /// Rewrites only tables with smaller numbers, on their own level. None moves all tables of the
    /// range to the next level.
    pub(super) rewrites_below: Option<u64>,
}

impl ManualCompaction {
    pub(super) fn range(&self) -> KeyRange<'_> {
        KeyRange { begin: self.begin.as_deref(), end: self.end.as_deref() }
    }
}

impl DbState {
    /// Returns true if compactions are neither suspended nor waiting for a reason to retry.
    pub(super) fn may_schedule_compaction(&self) -> bool {
        self.is_compaction_enabled && self.compaction_suspensions == 0 && self.compaction_pauses == 0
    }

    pub(super) fn has_scheduled_job(&self) -> bool {
        self.scheduled_flushes > 0
            || self.is_compaction_scheduled
            || self.obsolete_tables.is_removal_scheduled()
    }
}

impl ReadState {
    pub(super) fn new(state: &DbState) -> ReadState {
        let newest_first = state.immutable_memtables.iter().rev();
        ReadState {
            memtable: Arc::clone(&state.memtable),
            immutable_memtables: newest_first.map(|immutable| Arc::clone(&immutable.memtable)).collect(),
            version: Arc::clone(&state.version_set.version),
            flushed_sequence: state.version_set.last_sequence,
            followed_sequence: None,
        }
    }
}

impl DbInner {
    pub(super) fn file_path(&self, name: FileName) -> PathBuf {
        self.directory.join(name.to_string())
    }

    /// Reports `event` to the info log and to the listener of the caller.
    pub(super) fn report(&self, event: &Event) {
        self.logger.log(format_args!("{event}"));
        if let Some(listener) = &self.options.listener {
            listener.on_event(event);
        }
    }

    /// Returns a file number that no other file has or had.
    pub(super) fn new_file_number(&self) -> u64 {
        self.next_file_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns `count` consecutive file numbers.
    pub(super) fn new_file_numbers(&self, count: u64) -> Range<u64> {
        let first = self.next_file_number.fetch_add(count, Ordering::Relaxed);
        first..first + count
    }

    /// Returns an error in a child process that was forked after the database was opened.
    #[inline]
    pub(super) fn check_owner_process(&self) -> Result<()> {
        let may_write = self.owner_process.is_current() || mutant!(ForkedChildWritesBesideParent);
        if may_write { Ok(()) } else { Err(self.forked_process_error()) }
    }

    /// Error for a write in a forked child that has not adopted the database.
    pub(super) fn forked_process_error(&self) -> Error {
        if self.is_lost_in_fork() { lost_in_fork_error() } else { forked_process_error() }
    }

    /// Error for a write to a database that is closed or read-only.
    pub(super) fn closed_error(&self) -> Error {
        let reason = match (&self.follow_schedule, self.is_read_only) {
            (Some(_), _) => "a follower cannot write",
            (None, true) => "database is read-only",
            (None, false) => DATABASE_IS_CLOSED,
        };
        Error::NotSupported(reason.into())
    }

    pub(super) fn join_background_jobs(&self) {
        // A forked child has no threads that run the jobs.
        if self.owner_process.is_current() {
            self.load_check.cancel();
            self.background_jobs.wait_until_idle();
        }
    }

    /// Refuses writes from now on. A later call does not replace the first cause.
    pub(super) fn set_background_error(&self, cause: &Error) {
        let is_first = !self.background_error.is_set();
        self.background_error.set(cause);
        if is_first {
            self.report(&Event::WritesRefused { cause: cause.clone() });
        }
        self.notify_state_changed(&mut self.state.lock());
    }

    /// Wakes all threads that wait for a change of `state`.
    pub(super) fn notify_state_changed(&self, state: &mut DbState) {
        state.change_count += 1;
        self.state_changed.notify_all();
    }

    /// Publishes the memtables and the version of `state` to readers.
    pub(super) fn install_read_state(&self, state: &DbState) {
        self.read_state.install(ReadState::new(state));
    }
}
