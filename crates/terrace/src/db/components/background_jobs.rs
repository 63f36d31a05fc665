//! Count of the background jobs that hold the database.

use crate::sync::{Arc, Condvar, Mutex};

/// How many jobs hold the engine. A job says that it is done while it still does: what a closed database shared with its
/// opener, who may take it apart when `close` returns, has to wait for the last one to let go.
#[derive(Default)]
pub(crate) struct BackgroundJobs {
    count: Mutex<usize>,
    all_done: Condvar,
}

/// One of them.
pub(crate) struct JobGuard(Arc<BackgroundJobs>);

impl BackgroundJobs {
    pub(crate) fn register(jobs: &Arc<BackgroundJobs>) -> JobGuard {
        *jobs.count.lock() += 1;
        JobGuard(Arc::clone(jobs))
    }

    /// Returns when there is none.
    pub(crate) fn wait_until_idle(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.all_done.wait(&mut count);
        }
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.all_done.notify_all();
    }
}
