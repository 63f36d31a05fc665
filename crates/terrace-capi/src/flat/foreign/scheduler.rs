//! Background work on a program's `Schedule`.
//!
//! A program may delete its environment as soon as the database is deleted. A job holds the engine, the engine holds
//! files of that environment, and whoever lets go last closes them: so the jobs are counted, and closing waits for the
//! last one, dropped and not only done.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use terrace::env::{Job, Lane, Scheduler};

use super::Foreign;
use super::env::EnvCalls;

/// How many jobs have not ended yet.
#[derive(Default)]
pub(in super::super) struct Jobs {
    open: Mutex<usize>,
    ended: Condvar,
}

impl Jobs {
    /// Returns when every job has ended.
    pub(in super::super) fn wait(&self) {
        let mut open = self.open.lock();
        while *open > 0 {
            self.ended.wait(&mut open);
        }
    }
}

/// The queue of the program's environment. It need not run two jobs at once: none waits for another.
pub(super) struct Queue {
    env: Arc<Foreign<EnvCalls>>,
    jobs: Arc<Jobs>,
}

impl Queue {
    pub(super) fn new(env: Arc<Foreign<EnvCalls>>, jobs: Arc<Jobs>) -> Queue {
        Queue { env, jobs }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Scheduler for Queue {
    fn schedule(&self, _lane: Lane, job: Job) {
        *self.jobs.open.lock() += 1;
        let queued = Box::new(Queued { job, jobs: Arc::clone(&self.jobs) });
        let Foreign { calls, object } = *self.env;
        // SAFETY: the program's promise that the object is alive, and calls `run` once with what we give it.
        unsafe { (calls.schedule)(object, run, Box::into_raw(queued).cast()) };
    }

    fn assist(&self) -> bool {
        false
    }
}

struct Queued {
    job: Job,
    jobs: Arc<Jobs>,
}

extern "C" fn run(queued: *mut c_void) {
    // SAFETY: made by `schedule`, given to us once.
    let Queued { job, jobs } = *unsafe { Box::from_raw(queued.cast::<Queued>()) };
    // The engine has drawn its conclusions from a panic when it arrives here.
    let _ = catch_unwind(AssertUnwindSafe(job));
    let mut open = jobs.open.lock();
    *open -= 1;
    jobs.ended.notify_all();
}
