//! Background work on the program's `Schedule`.
//!
//! The environment may run one job at a time, because no job waits for another. A program may
//! delete its environment right after its databases: a close waits until all jobs have dropped
//! their references.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace::env::{Priority, ScheduledJob, Scheduler};

use super::UserObject;
use super::env::EnvCallbacks;

/// The scheduler of the program's environment.
pub(super) struct UserScheduler(pub(super) Arc<UserObject<EnvCallbacks>>);

impl fmt::Debug for UserScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserScheduler")
    }
}

impl Scheduler for UserScheduler {
    fn schedule(&self, _priority: Priority, job: ScheduledJob) {
        let UserObject { callbacks, object } = *self.0;
        // SAFETY: the program keeps the environment alive, and the environment calls `run_job` once
        // with the given pointer.
        unsafe { (callbacks.schedule)(object, run_job, Box::into_raw(Box::new(job)).cast()) };
    }

    fn run_one_here(&self) -> bool {
        false
    }
}

extern "C" fn run_job(job: *mut c_void) {
    // SAFETY: the pointer comes from `Box::into_raw` in `schedule`, and the environment passes it
    // once.
    let job = unsafe { Box::from_raw(job.cast::<ScheduledJob>()) };
    // The engine has already handled a panic that arrives here.
    let _ = catch_unwind(AssertUnwindSafe(*job));
}
