//! Background jobs in two priorities. The engine owns no threads.
//!
//! No job of the engine blocks on a job that has not started. A thread that waits for background
//! work first offers to run a job itself ([`Scheduler::run_one_here`]). On the deterministic
//! scheduler, jobs run in no other way, so a seed replays exactly.

mod deterministic;
mod thread_pool;

use std::fmt::Debug;
use std::time::Duration;

pub use deterministic::DeterministicScheduler;
pub use thread_pool::ThreadPool;

/// Background job. It must not block on another job that has not started.
pub type ScheduledJob = Box<dyn FnOnce() + Send + 'static>;

/// Queue of a job. A job waits only for jobs of its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Flushes of memtables. Writers wait for them.
    Flush,
    /// Compactions.
    Compaction,
}

/// Scheduler of background jobs. It starts the jobs of a queue in their order, and may run several
/// at once.
pub trait Scheduler: Debug + Send + Sync {
    /// Queues `job`. It runs once, on any thread, and never within this call.
    fn schedule(&self, priority: Priority, job: ScheduledJob);

    /// Queues `job` after `delay`, or earlier if this scheduler has no clock. A scheduler that is
    /// dropped before drops the job. The default queues it at once.
    fn schedule_after(&self, priority: Priority, delay: Duration, job: ScheduledJob) {
        let _ = delay;
        self.schedule(priority, job);
    }

    /// Returns the approximate number of jobs of `priority` that can run at once. The default is 1.
    fn parallelism(&self, priority: Priority) -> usize {
        let _ = priority;
        1
    }

    /// Runs one queued job on the calling thread, if this scheduler has no threads.
    ///
    /// Returns false if no job is queued, or if threads run them.
    fn run_one_here(&self) -> bool;
}
