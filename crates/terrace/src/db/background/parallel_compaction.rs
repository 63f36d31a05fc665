//! Compaction in subcompactions, which several threads execute.
//!
//! ```text
//!   compaction job   [ subcompaction 1 ][ subcompaction 3 ][ wait ]──> edit
//!   helper job           [ subcompaction 2         ]                        if a thread is free
//!   late helper job                                          (nothing)
//! ```
//!
//! The compaction job waits for subcompactions that a helper has claimed, but never for a helper
//! that has not started: the scheduler's threads may be busy with other databases. A helper holds a
//! reference to the database only while it executes a subcompaction. It drops the reference before
//! the compaction job can see the end of the subcompaction.

use terrace_env::Priority;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use crate::compaction::{self, Compaction, CompactionContext, CompactionOutput, Subcompaction};
use crate::db::components::subcompaction_queue::{CancelOnPanic, SubcompactionQueue};
use crate::db::inner::{DbInner, DbState};
use crate::db::panic_guard::PoisonOnPanic;
use crate::error::Result;
use crate::event::CompactionReason;
use crate::sync::{Arc, AtomicBool, Ordering, Weak};
use crate::version::Version;

/// Subcompactions per thread. With two, the last thread ends soon after the others.
const SUBCOMPACTIONS_PER_THREAD: usize = 2;

/// Arguments of all subcompactions of one compaction.
struct SubcompactionContext {
    inner: Weak<DbInner>,
    compaction: Arc<Compaction>,
    subcompactions: Vec<Subcompaction>,
    version: Arc<Version>,
    oldest_reader: SequenceNumber,
}

impl SubcompactionContext {
    /// Executes one subcompaction. Returns None if the database is being dropped; it is not while
    /// the compaction's own job waits for this subcompaction.
    fn run(&self, index: usize, has_failed: &AtomicBool) -> Option<Result<CompactionOutput>> {
        let inner = self.inner.upgrade()?;
        let _guard = PoisonOnPanic::new(&inner, |_| ());
        let context = inner.compaction_context(&self.version, self.oldest_reader, has_failed);
        Some(compaction::run_subcompaction(&self.compaction, &self.subcompactions[index], &context))
    }
}

impl DbInner {
    /// Executes `compaction`, on several threads if it is large enough and threads are available.
    /// On an error no new file remains.
    pub(super) fn run_compaction(&self, compaction: &Arc<Compaction>) -> Result<CompactionOutput> {
        let state = self.state.lock();
        let version = Arc::clone(&state.version_set.version);
        let is_settling = state.settling.is_some();
        let threads = self.compaction_threads(&state, compaction);
        drop(state);
        let oldest_reader = match mutant!(SettleIgnoresSnapshots) && is_settling {
            true => self.read_state.visible_seqno().load(Ordering::Relaxed),
            false => self.snapshots.oldest(self.read_state.visible_seqno()),
        };
        let never_cancelled = AtomicBool::new(false);
        let context = self.compaction_context(&version, oldest_reader, &never_cancelled);
        let max_count = threads * SUBCOMPACTIONS_PER_THREAD;
        let subcompactions = match threads {
            1 => vec![Subcompaction::default()],
            _ => compaction::split_into_subcompactions(compaction, &context, max_count)?,
        };
        if let [subcompaction] = &subcompactions[..] {
            return compaction::run_subcompaction(compaction, subcompaction, &context);
        }
        drop(context);
        let inner = Weak::clone(&self.weak_self);
        let compaction = Arc::clone(compaction);
        self.run_subcompactions(
            threads,
            SubcompactionContext { inner, compaction, subcompactions, version, oldest_reader },
        )
    }

    /// Executes the subcompactions of `context` on up to `threads` threads, this one included.
    fn run_subcompactions(&self, threads: usize, context: SubcompactionContext) -> Result<CompactionOutput> {
        let count = context.subcompactions.len();
        let helpers = (threads - 1).min(count - 1);
        self.logger.log(format_args!("Subcompactions: subcompactions={count} threads={}", helpers + 1));
        let queue = SubcompactionQueue::new(context, count);
        let _guard = CancelOnPanic(&queue);
        for _ in 0..helpers {
            let queue = Arc::downgrade(&queue);
            self.options.env.scheduler.schedule(
                Priority::Compaction,
                Box::new(move || {
                    if let Some(queue) = queue.upgrade() {
                        queue.run_until_empty(SubcompactionContext::run);
                    }
                }),
            );
        }
        queue.run_until_empty(SubcompactionContext::run);
        let (outputs, error) = queue.finish();
        let mut total = CompactionOutput::default();
        for output in outputs.into_iter().flatten() {
            total.tables.extend(output.tables);
            total.bytes_written += output.bytes_written;
            total.entries_read += output.entries_read;
            total.entries_written += output.entries_written;
        }
        match error {
            None => Ok(total),
            Some(error) => {
                compaction::remove_tables(&self.options.env, &self.directory, &total.tables);
                Err(error)
            }
        }
    }

    /// Number of threads for `compaction`: all compaction threads if a caller waits for it, if it
    /// is long, or if it follows a load. Otherwise one of them is left to the writers. During a
    /// long compaction, delayed writers leave processors idle.
    fn compaction_threads(&self, state: &DbState, compaction: &Compaction) -> usize {
        let is_manual = matches!(compaction.reason, CompactionReason::Manual(_));
        let has_few_writers = state.settling.is_some() || compaction.is_long();
        let max_threads = self.options.env.scheduler.parallelism(Priority::Compaction);
        if is_manual || has_few_writers { max_threads.max(1) } else { usual_threads(max_threads) }
    }

    /// Number of threads for `compaction`, relative to those of a usual one.
    pub(super) fn compaction_speedup(&self, state: &DbState, compaction: &Compaction) -> f64 {
        let max_threads = self.options.env.scheduler.parallelism(Priority::Compaction);
        self.compaction_threads(state, compaction) as f64 / usual_threads(max_threads) as f64
    }

    /// Context of a compaction from `version`. A shutdown or `has_failed` cancels the compaction.
    fn compaction_context<'a>(
        &'a self,
        version: &Arc<Version>,
        oldest_reader: SequenceNumber,
        has_failed: &'a AtomicBool,
    ) -> CompactionContext<'a> {
        CompactionContext {
            env: &self.options.env,
            directory: &self.directory,
            table_cache: &self.table_cache,
            table_options: &self.table_options,
            version: Arc::clone(version),
            // A load rewrites the tables soon. In a virtual machine, the first write to a huge page
            // takes longer than that to small pages, which were in use before.
            huge_pages: !self.state.lock().load_state.is_load_running(),
            smallest_snapshot: oldest_reader,
            next_file_number: Box::new(|| self.new_file_number()),
            on_entries_read: Box::new(|entries, bytes| {
                self.compaction_progress.entries_read.fetch_add(entries, Ordering::Relaxed);
                self.compaction_progress.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            }),
            on_table_finished: Box::new(|bytes| self.record_finished_table(bytes)),
            is_cancelled: Box::new(|| {
                self.is_shutting_down.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed)
            }),
        }
    }
}

/// Number of threads for a usual compaction: one of `max_threads` is left to the writers.
fn usual_threads(max_threads: usize) -> usize {
    max_threads.saturating_sub(1).max(1)
}
