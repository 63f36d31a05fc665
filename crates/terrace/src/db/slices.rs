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

use terrace_env::Lane;
use terrace_format::key::Sequence;

use super::Engine;
use super::unwinding::{Unwinding, panicked};
use crate::compaction::{self, Environment, Job, Outcome, Reason, Slice};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, Weak};
use crate::version::Version;

/// Slices for each thread: the last one to end is then not far behind the others.
const FOR_A_THREAD: usize = 2;

/// A merge that several threads do.
struct Shared {
    progress: Mutex<Progress>,
    /// Notified when a slice is done.
    done: Condvar,
    /// Set when a slice fails: the others give up. Relaxed: a hint, the error itself is in `progress`.
    failed: AtomicBool,
}

struct Progress {
    /// None when the merge is over.
    work: Option<Arc<Work>>,
    /// The next slice to be taken.
    next: usize,
    /// How many are taken and not done.
    running: usize,
    /// By slice.
    outcomes: Vec<Option<Outcome>>,
    error: Option<Error>,
}

/// What is needed for any slice.
struct Work {
    engine: Weak<Engine>,
    job: Arc<Job>,
    slices: Vec<Slice>,
    version: Arc<Version>,
    oldest_reader: Sequence,
}

impl Shared {
    fn new(work: Work) -> Arc<Shared> {
        let outcomes = work.slices.iter().map(|_| None).collect();
        let progress = Progress { work: Some(Arc::new(work)), next: 0, running: 0, outcomes, error: None };
        Arc::new(Shared {
            progress: Mutex::new(progress),
            done: Condvar::new(),
            failed: AtomicBool::new(false),
        })
    }

    /// Takes the next slice, if there is one to be done.
    fn take(&self) -> Option<Taken<'_>> {
        let mut progress = self.progress.lock();
        let work = progress.work.clone().filter(|work| progress.next < work.slices.len())?;
        if progress.error.is_some() {
            return None;
        }
        let at = progress.next;
        progress.next += 1;
        progress.running += 1;
        Some(Taken { shared: self, at, work: Some(work), outcome: None })
    }

    /// Does slices until none is left to be taken.
    fn work(&self) {
        while let Some(mut taken) = self.take() {
            taken.run();
        }
    }

    /// Ends the merge: nothing more is taken, and what is taken is done when this returns.
    fn end(&self) -> (Vec<Option<Outcome>>, Option<Error>) {
        let mut progress = self.progress.lock();
        progress.work = None;
        while progress.running > 0 {
            self.done.wait(&mut progress);
        }
        (std::mem::take(&mut progress.outcomes), progress.error.take())
    }
}

/// A slice that a thread has taken. Done when dropped, even by a panic.
struct Taken<'a> {
    shared: &'a Shared,
    at: usize,
    work: Option<Arc<Work>>,
    outcome: Option<Result<Outcome>>,
}

impl Taken<'_> {
    fn run(&mut self) {
        // The merge's own job holds the database, and waits for this.
        let Some((work, engine)) = self.work.as_ref().and_then(|work| Some((work, work.engine.upgrade()?)))
        else {
            return;
        };
        let _guard = Unwinding::new(&engine, |_| ());
        let environment = engine.environment_of(&work.version, work.oldest_reader, &self.shared.failed);
        self.outcome = Some(compaction::run(&work.job, &work.slices[self.at], &environment));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Before anybody can learn that it is done.
        self.work = None;
        let outcome = self.outcome.take().unwrap_or_else(|| Err(panicked()));
        let mut progress = self.shared.progress.lock();
        progress.running -= 1;
        match outcome {
            Ok(outcome) => progress.outcomes[self.at] = Some(outcome),
            Err(error) => {
                self.shared.failed.store(true, Ordering::Relaxed);
                // Those behind it fail because it did.
                progress.error.get_or_insert(error);
            }
        }
        drop(progress);
        self.shared.done.notify_all();
    }
}

/// Ends a merge whose own thread panics: slices that are at work must not outlive it.
struct EndIfPanicking<'a>(&'a Shared);

impl Drop for EndIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
            self.0.end();
        }
    }
}

impl Engine {
    /// Does `job`, on several threads if it is worth that and there are any. On an error there are no new files.
    pub(super) fn run_merge(&self, job: &Arc<Job>) -> Result<Outcome> {
        let (version, never) = (Arc::clone(&self.state.lock().set.version), AtomicBool::new(false));
        let oldest_reader = self.snapshots.oldest(self.present.visible());
        let environment = self.environment_of(&version, oldest_reader, &never);
        let threads = self.merge_threads(job);
        let slices = match threads {
            1 => vec![Slice::default()],
            _ => compaction::slices(job, &environment, threads * FOR_A_THREAD)?,
        };
        if let [slice] = &slices[..] {
            return compaction::run(job, slice, &environment);
        }
        drop(environment);
        let helpers = (threads - 1).min(slices.len() - 1);
        self.logger.log(format_args!("Merging in slices: slices={} threads={}", slices.len(), helpers + 1));
        let (engine, job) = (Weak::clone(&self.me), Arc::clone(job));
        let shared = Shared::new(Work { engine, job, slices, version, oldest_reader });
        let _guard = EndIfPanicking(&shared);
        for _ in 0..helpers {
            let shared = Arc::downgrade(&shared);
            let help = move || shared.upgrade().into_iter().for_each(|shared| shared.work());
            self.options.env.scheduler.schedule(Lane::Compaction, Box::new(help));
        }
        shared.work();
        let (outcomes, error) = shared.end();
        let mut all = Outcome::default();
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
    fn merge_threads(&self, job: &Job) -> usize {
        let all = self.options.env.scheduler.parallelism(Lane::Compaction);
        let is_asked_for = matches!(job.reason, Reason::Manual(_));
        all.saturating_sub(usize::from(!is_asked_for)).max(1)
    }

    /// What a merge from `version` works with, that gives up when the database closes or `failed` is set.
    fn environment_of<'a>(
        &'a self,
        version: &Arc<Version>,
        oldest_reader: Sequence,
        failed: &'a AtomicBool,
    ) -> Environment<'a> {
        Environment {
            env: &self.options.env,
            directory: &self.directory,
            tables: &self.tables,
            options: &self.table_options,
            version: Arc::clone(version),
            oldest_reader,
            next_file: Box::new(|| self.new_file_number()),
            cancelled: Box::new(|| self.closing.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)),
        }
    }
}
