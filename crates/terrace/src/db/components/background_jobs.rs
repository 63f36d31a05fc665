//! Count of the background jobs that hold the database.

use terrace_env::ProcessToken;

use crate::sync::{Arc, Condvar, Mutex};

/// Number of jobs that hold a reference to the shared state. A job reports its end while it still
/// holds the reference. After close, its caller may drop values that it shared with the database,
/// so close waits until the last job has dropped its reference.
pub(crate) struct BackgroundJobs {
    /// Process that runs the jobs.
    process: ProcessToken,
    count: Mutex<usize>,
    all_done: Condvar,
}

impl Default for BackgroundJobs {
    fn default() -> BackgroundJobs {
        BackgroundJobs { process: ProcessToken::current(), count: Mutex::new(0), all_done: Condvar::new() }
    }
}

/// Registration of one job. The job ends when this is dropped.
pub(crate) struct JobGuard(Arc<BackgroundJobs>);

impl BackgroundJobs {
    pub(crate) fn register(jobs: &Arc<BackgroundJobs>) -> JobGuard {
        *jobs.count.lock() += 1;
        JobGuard(Arc::clone(jobs))
    }

    /// Waits until no job is registered.
    pub(crate) fn wait_until_idle(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.all_done.wait(&mut count);
        }
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        // A thread that a forked child does not have may hold the lock.
        if self.0.process.is_current() {
            *self.0.count.lock() -= 1;
            self.0.all_done.notify_all();
        }
    }
}
