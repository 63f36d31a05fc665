//! Background work on a program's `Schedule`.
//!
//! It need not run two jobs at once: none waits for another. A program may delete its environment as soon as its
//! databases are: closing waits until every job has let go of them.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace::env::{Job, Lane, Scheduler};

use super::Foreign;
use super::env::EnvCalls;

/// The queue of the program's environment.
pub(super) struct Queue(pub(super) Arc<Foreign<EnvCalls>>);

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Scheduler for Queue {
    fn schedule(&self, _lane: Lane, job: Job) {
        let Foreign { calls, object } = *self.0;
        // SAFETY: the program's promise that the object is alive, and calls `run` once with what we give it.
        unsafe { (calls.schedule)(object, run, Box::into_raw(Box::new(job)).cast()) };
    }

    fn assist(&self) -> bool {
        false
    }
}

extern "C" fn run(job: *mut c_void) {
    // SAFETY: made by `schedule`, given to us once.
    let job = unsafe { Box::from_raw(job.cast::<Job>()) };
    // The engine has drawn its conclusions from a panic when it arrives here.
    let _ = catch_unwind(AssertUnwindSafe(*job));
}
