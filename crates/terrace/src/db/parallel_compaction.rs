//! A merge in slices, some of them at once.
//!
//! ```text
//!   the merge's job   [ slice 1 ][ slice 3 ][ wait ]──> edit        takes one slice after the other
//!   a helper               [ slice 2     ]                          another job of the lane, if a thread is free
//!   a late helper                                      (nothing)
//! ```
//!
//! The merge waits for slices that helpers have begun, never for a helper that has not: the lane may be busy with other
//! databases. A helper holds the database only while it has a slice, and has let go of it before the merge learns that the
//! slice is done.

use terrace_env::Priority;
use terrace_format::key::SequenceNumber;

use super::DbInner;
use super::panic_guard::{PoisonOnPanic, panic_error};
use crate::compaction::{
    self, Compaction, CompactionContext, CompactionOutput, CompactionReason, Subcompaction,
};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, Weak};
use crate::version::Version;

/// Slices for each thread: the last one to end is then not far behind the others.
const SUBCOMPACTIONS_PER_THREAD: usize = 2;

/// A merge that several threads do.
struct ParallelCompaction {
    state: Mutex<ParallelCompactionState>,
    /// Notified when a slice is done.
    subcompaction_done: Condvar,
    /// Set when a slice fails: the others give up. Relaxed: a hint, the error itself is in `progress`.
    has_failed: AtomicBool,
}

struct ParallelCompactionState {
    /// None when the merge is over.
    context: Option<Arc<SubcompactionContext>>,
    /// The next slice to be taken.
    next_index: usize,
    /// How many are taken and not done.
    running: usize,
    /// By slice.
    outcomes: Vec<Option<CompactionOutput>>,
    error: Option<Error>,
}

/// What is needed for any slice.
struct SubcompactionContext {
    inner: Weak<DbInner>,
    compaction: Arc<Compaction>,
    subcompactions: Vec<Subcompaction>,
    version: Arc<Version>,
    oldest_reader: SequenceNumber,
}

impl ParallelCompaction {
    fn new(work: SubcompactionContext) -> Arc<ParallelCompaction> {
        let outcomes = work.subcompactions.iter().map(|_| None).collect();
        let progress = ParallelCompactionState {
            context: Some(Arc::new(work)),
            next_index: 0,
            running: 0,
            outcomes,
            error: None,
        };
        Arc::new(ParallelCompaction {
            state: Mutex::new(progress),
            subcompaction_done: Condvar::new(),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Takes the next slice, if there is one to be done.
    fn claim_next(&self) -> Option<RunningSubcompaction<'_>> {
        let mut progress = self.state.lock();
        let work = progress.context.clone().filter(|work| progress.next_index < work.subcompactions.len())?;
        if progress.error.is_some() {
            return None;
        }
        let at = progress.next_index;
        progress.next_index += 1;
        progress.running += 1;
        Some(RunningSubcompaction { parallel: self, index: at, context: Some(work), outcome: None })
    }

    /// Does slices until none is left to be taken.
    fn run_until_empty(&self) {
        while let Some(mut taken) = self.claim_next() {
            taken.run();
        }
    }

    /// Ends the merge: nothing more is taken, and what is taken is done when this returns.
    fn finish(&self) -> (Vec<Option<CompactionOutput>>, Option<Error>) {
        let mut progress = self.state.lock();
        progress.context = None;
        while progress.running > 0 {
            self.subcompaction_done.wait(&mut progress);
        }
        (std::mem::take(&mut progress.outcomes), progress.error.take())
    }
}

/// A slice that a thread has taken. Done when dropped, even by a panic.
struct RunningSubcompaction<'a> {
    parallel: &'a ParallelCompaction,
    index: usize,
    context: Option<Arc<SubcompactionContext>>,
    outcome: Option<Result<CompactionOutput>>,
}

impl RunningSubcompaction<'_> {
    fn run(&mut self) {
        // The merge's own job holds the database, and waits for this.
        let Some((work, engine)) = self.context.as_ref().and_then(|work| Some((work, work.inner.upgrade()?)))
        else {
            return;
        };
        let _guard = PoisonOnPanic::new(&engine, |_| ());
        let environment =
            engine.compaction_context(&work.version, work.oldest_reader, &self.parallel.has_failed);
        self.outcome = Some(compaction::run_subcompaction(
            &work.compaction,
            &work.subcompactions[self.index],
            &environment,
        ));
    }
}

impl Drop for RunningSubcompaction<'_> {
    fn drop(&mut self) {
        // Before anybody can learn that it is done.
        self.context = None;
        let outcome = self.outcome.take().unwrap_or_else(|| Err(panic_error()));
        let mut progress = self.parallel.state.lock();
        progress.running -= 1;
        match outcome {
            Ok(outcome) => progress.outcomes[self.index] = Some(outcome),
            Err(error) => {
                self.parallel.has_failed.store(true, Ordering::Relaxed);
                // Those behind it fail because it did.
                progress.error.get_or_insert(error);
            }
        }
        drop(progress);
        self.parallel.subcompaction_done.notify_all();
    }
}

/// Ends a merge whose own thread panics: slices that are at work must not outlive it.
struct CancelOnPanic<'a>(&'a ParallelCompaction);

impl Drop for CancelOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
            self.0.finish();
        }
    }
}

impl DbInner {
    /// Does `job`, on several threads if it is worth that and there are any. On an error there are no new files.
    pub(super) fn run_compaction(&self, job: &Arc<Compaction>) -> Result<CompactionOutput> {
        let (version, never) = (Arc::clone(&self.state.lock().version_set.version), AtomicBool::new(false));
        let oldest_reader = self.snapshots.oldest(self.read_state.visible_seqno());
        let environment = self.compaction_context(&version, oldest_reader, &never);
        let threads = self.compaction_threads(job);
        let slices = match threads {
            1 => vec![Subcompaction::default()],
            _ => {
                compaction::split_into_subcompactions(job, &environment, threads * SUBCOMPACTIONS_PER_THREAD)?
            }
        };
        if let [slice] = &slices[..] {
            return compaction::run_subcompaction(job, slice, &environment);
        }
        drop(environment);
        let helpers = (threads - 1).min(slices.len() - 1);
        self.logger.log(format_args!("Merging in slices: slices={} threads={}", slices.len(), helpers + 1));
        let (engine, job) = (Weak::clone(&self.weak_self), Arc::clone(job));
        let shared = ParallelCompaction::new(SubcompactionContext {
            inner: engine,
            compaction: job,
            subcompactions: slices,
            version,
            oldest_reader,
        });
        let _guard = CancelOnPanic(&shared);
        for _ in 0..helpers {
            let shared = Arc::downgrade(&shared);
            let help = move || shared.upgrade().into_iter().for_each(|shared| shared.run_until_empty());
            self.options.env.scheduler.schedule(Priority::Compaction, Box::new(help));
        }
        shared.run_until_empty();
        let (outcomes, error) = shared.finish();
        let mut all = CompactionOutput::default();
        for outcome in outcomes.into_iter().flatten() {
            all.tables.extend(outcome.tables);
            all.bytes_written += outcome.bytes_written;
            all.entries_read += outcome.entries_read;
            all.entries_written += outcome.entries_written;
        }
        match error {
            None => Ok(all),
            Some(error) => {
                compaction::remove_tables(&self.options.env, &self.directory, &all.tables);
                Err(error)
            }
        }
    }

    /// How many threads may do `job`: all that there are if somebody waits for it, else all but one, which is left to the
    /// writers.
    fn compaction_threads(&self, job: &Compaction) -> usize {
        let all = self.options.env.scheduler.parallelism(Priority::Compaction);
        let is_asked_for = matches!(job.reason, CompactionReason::Manual(_));
        all.saturating_sub(usize::from(!is_asked_for)).max(1)
    }

    /// What a merge from `version` works with, that gives up when the database closes or `failed` is set.
    fn compaction_context<'a>(
        &'a self,
        version: &Arc<Version>,
        oldest_reader: SequenceNumber,
        failed: &'a AtomicBool,
    ) -> CompactionContext<'a> {
        CompactionContext {
            env: &self.options.env,
            directory: &self.directory,
            table_cache: &self.table_cache,
            table_options: &self.table_options,
            version: Arc::clone(version),
            smallest_snapshot: oldest_reader,
            next_file_number: Box::new(|| self.new_file_number()),
            is_cancelled: Box::new(|| {
                self.is_shutting_down.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
            }),
        }
    }
}
