//! Background work on a program's `Schedule`.
//!
//! It need not run two jobs at once: none waits for another. A program may delete its environment as soon as its
//! databases are: closing waits until every job has let go of them.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace::env::{Priority, ScheduledJob, Scheduler};

use super::UserObject;
use super::env::EnvCallbacks;

/// The queue of the program's environment.
pub(super) struct UserScheduler(pub(super) Arc<UserObject<EnvCallbacks>>);

impl fmt::Debug for UserScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Scheduler for UserScheduler {
    fn schedule(&self, _lane: Priority, job: ScheduledJob) {
        let UserObject { callbacks: calls, object } = *self.0;
        // SAFETY: the program's promise that the object is alive, and calls `run` once with what we give it.
        unsafe { (calls.schedule)(object, run_job, Box::into_raw(Box::new(job)).cast()) };
    }

    fn run_one_here(&self) -> bool {
        false
    }
}

extern "C" fn run_job(job: *mut c_void) {
    // SAFETY: made by `schedule`, given to us once.
    let job = unsafe { Box::from_raw(job.cast::<ScheduledJob>()) };
    // The engine has drawn its conclusions from a panic when it arrives here.
    let _ = catch_unwind(AssertUnwindSafe(*job));
}
