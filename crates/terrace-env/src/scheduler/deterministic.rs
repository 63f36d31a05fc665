//! Deterministic scheduler for tests, without threads: a seed chooses the queue of the next job.
//!
//! Jobs run only within [`Scheduler::run_one_here`] and [`DeterministicScheduler::run_until_idle`],
//! on the caller's thread. With one calling thread, the same seed gives the same order on every
//! machine.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::Arc;

use terrace_sync::native_locks::Mutex;

use super::{Priority, ScheduledJob, Scheduler};
use crate::random::{Random, SeededRandom};

/// Scheduler that runs a job only on request.
///
/// The panic of a job reaches the caller that requested it.
pub struct DeterministicScheduler {
    rng: SeededRandom,
    queues: Mutex<PendingJobs>,
}

#[derive(Default)]
struct PendingJobs {
    flush: VecDeque<ScheduledJob>,
    compaction: VecDeque<ScheduledJob>,
}

impl DeterministicScheduler {
    /// Creates a scheduler with empty queues that chooses by `seed`.
    pub fn new(seed: u64) -> Arc<DeterministicScheduler> {
        Arc::new(DeterministicScheduler { rng: SeededRandom::new(seed), queues: Mutex::default() })
    }

    /// Runs jobs until no job is left, including the jobs that they schedule. Returns their number.
    pub fn run_until_idle(&self) -> usize {
        std::iter::from_fn(|| self.run_one_here().then_some(())).count()
    }

    /// Returns the number of queued jobs.
    pub fn pending_jobs(&self) -> usize {
        let queues = self.queues.lock();
        queues.flush.len() + queues.compaction.len()
    }

    /// Removes the first job of a random non-empty queue.
    fn pop_random(&self) -> Option<ScheduledJob> {
        let mut queues = self.queues.lock();
        let flush = match (queues.flush.is_empty(), queues.compaction.is_empty()) {
            (true, true) => return None,
            (false, false) => self.rng.uniform(2) == 0,
            (empty, _) => !empty,
        };
        if flush { queues.flush.pop_front() } else { queues.compaction.pop_front() }
    }
}

impl Scheduler for DeterministicScheduler {
    fn schedule(&self, priority: Priority, job: ScheduledJob) {
        let mut queues = self.queues.lock();
        match priority {
            Priority::Flush => queues.flush.push_back(job),
            Priority::Compaction => queues.compaction.push_back(job),
        }
    }

    /// Returns 3, so that operations split their work into several jobs.
    fn parallelism(&self, _priority: Priority) -> usize {
        3
    }

    fn run_one_here(&self) -> bool {
        // The queues are unlocked while the job runs, because it may schedule more jobs.
        let job = self.pop_random();
        job.map(|job| job()).is_some()
    }
}

impl Debug for DeterministicScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeterministicScheduler")
            .field("pending", &self.pending_jobs())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the execution order of ten flushes (f) and eleven compactions (c). The last
    /// compaction schedules one more.
    fn order(seed: u64) -> String {
        let scheduler = DeterministicScheduler::new(seed);
        let log = Arc::new(Mutex::new(String::new()));
        let note = |text: String| {
            let log = Arc::clone(&log);
            Box::new(move || log.lock().push_str(&text)) as ScheduledJob
        };
        for i in 0..10 {
            scheduler.schedule(Priority::Flush, note(format!("f{i} ")));
            scheduler.schedule(Priority::Compaction, note(format!("c{i} ")));
        }
        let own = Arc::clone(&scheduler);
        let more = note("c+ ".into());
        scheduler.schedule(Priority::Compaction, Box::new(move || own.schedule(Priority::Compaction, more)));
        assert_eq!(scheduler.pending_jobs(), 21);
        assert_eq!(scheduler.run_until_idle(), 22);
        log.lock().clone()
    }

    #[test]
    fn same_seed_same_order() {
        for seed in 0..100 {
            assert_eq!(order(seed), order(seed), "seed {seed}");
        }
    }

    #[test]
    fn different_seeds_give_different_orders() {
        let orders: std::collections::BTreeSet<String> = (0..20).map(order).collect();
        assert!(orders.len() > 15, "{} different orders of 20", orders.len());
    }

    #[test]
    fn each_priority_runs_in_order() {
        let order = order(7);
        let queue = |name| order.split(' ').filter(|job| job.starts_with(name)).collect::<Vec<_>>().join(" ");
        assert_eq!(queue("f"), "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9");
        assert_eq!(queue("c"), "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 c+");
    }

    #[test]
    fn jobs_run_only_on_request() {
        let scheduler = DeterministicScheduler::new(0);
        assert!(!scheduler.run_one_here());
        scheduler.schedule(Priority::Flush, Box::new(|| ()));
        assert_eq!(scheduler.pending_jobs(), 1);
        assert!(scheduler.run_one_here());
        assert_eq!(scheduler.pending_jobs(), 0);
    }
}
