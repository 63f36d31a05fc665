//! Background work: jobs on lanes, never threads that the engine owns.
//!
//! The engine never blocks a job on another job, unless that one runs already. A thread that must wait for background work first offers to
//! do some itself ([`Scheduler::run_one_here`]): on the deterministic scheduler that is the only way anything runs,
//! which is why a seed replays exactly.

mod deterministic;
mod thread_pool;

use std::fmt::Debug;

pub use deterministic::DeterministicScheduler;
pub use thread_pool::ThreadPool;

/// A piece of background work. It must not block on another job, but on one that runs already.
pub type ScheduledJob = Box<dyn FnOnce() + Send + 'static>;

/// Which queue a job waits in. A job waits only behind jobs of its own lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Memtables to tables: writers wait for these.
    Flush,
    /// Merges.
    Compaction,
}

/// Runs jobs, in the order in which a lane received them, possibly several at once.
pub trait Scheduler: Debug + Send + Sync {
    /// Queues `job`. It runs once, on any thread, never inside this call.
    fn schedule(&self, lane: Priority, job: ScheduledJob);

    /// About how many jobs of `lane` can run at once. Default: 1.
    fn parallelism(&self, lane: Priority) -> usize {
        let _ = lane;
        1
    }

    /// Runs one queued job on the calling thread, if this scheduler has no threads of its own.
    /// False if there was nothing to run, or if threads take care of it.
    fn run_one_here(&self) -> bool;
}
