//! Thread pool for background jobs, with separate threads for each priority.
//!
//! ```text
//!   schedule(Flush)       -> queue -> terrace-flush-1
//!   schedule(Compaction)  -> queue -> terrace-compaction-1 .. n
//! ```
//!
//! The pool starts a thread when a job finds no idle one, up to the limit of its priority. A
//! process without an open database has no threads, and a process with little work has few. A panic
//! ends only its job, and the thread continues. A forked child starts threads of its own.
// This module implements the replacement that the first lint names. The time of the delayed jobs is
// that of the condition variable.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use terrace_sync::thread::{self, JoinHandle};
use terrace_sync::{
    Condvar, ForkLocks, ForkParticipant, ForkRank, Mutex, get_or_init_for_fork, mutant,
    register_fork_participant,
};

use super::{Priority, ScheduledJob, Scheduler};
use crate::MemMapping;
use crate::system::has_little_address_space;

/// Flush threads of the shared pool: one can use the processor while the other waits for the disk.
const SHARED_FLUSH_THREADS: usize = 2;

/// Maximum number of compaction threads of the shared pool. With more threads, the disk is the
/// bottleneck.
const MAX_SHARED_COMPACTION_THREADS: usize = 4;

/// Stack size of a thread in bytes. Jobs need a few KiB; comparators, filters and loggers of the
/// program run in these threads, too.
const STACK_SIZE: usize = 1 << 20;

/// Memory in bytes that must be free besides the stack of a new thread: its signal stack, and the
/// requests of other threads until it has started.
const FREE_MEMORY_FOR_THREAD: usize = 16 << 20;

/// Address space in bytes that glibc's allocator reserves for a new thread.
const ALLOCATOR_ARENA: usize = 64 << 20;

/// Returns true if the system has memory for a new thread.
///
/// A thread of the standard library aborts the process if there is none for its signal stack.
fn has_memory_for_thread() -> bool {
    let arena = if has_little_address_space() { ALLOCATOR_ARENA } else { 0 };
    MemMapping::new(STACK_SIZE + FREE_MEMORY_FOR_THREAD + arena).is_ok()
}

/// Thread pool with a maximum number of threads for each priority.
///
/// Dropping it runs all queued jobs and then ends the threads.
pub struct ThreadPool {
    flush: Workers,
    compaction: Workers,
}

impl ThreadPool {
    /// Returns the pool that all databases of the process share: two flush threads, and one
    /// compaction thread per core, at most 4. If the process has a limit on its address space below
    /// 4 GiB (`ulimit -v`), the pool has one thread of each kind.
    pub fn shared() -> Arc<dyn Scheduler> {
        // The standard `OnceLock`, because each model has a pool of its own.
        static SHARED: OnceLock<Arc<ThreadPool>> = OnceLock::new();
        let pool = get_or_init_for_fork(&SHARED, || {
            if has_little_address_space() {
                return Arc::new(ThreadPool::new(1, 1));
            }
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            Arc::new(ThreadPool::new(SHARED_FLUSH_THREADS, cores.clamp(1, MAX_SHARED_COMPACTION_THREADS)))
        });
        Arc::clone(pool) as Arc<dyn Scheduler>
    }

    /// Creates a pool with at most the given numbers of threads. 0 counts as 1.
    pub fn new(flush: usize, compaction: usize) -> ThreadPool {
        ThreadPool { flush: Workers::new("flush", flush), compaction: Workers::new("compaction", compaction) }
    }

    fn workers(&self, priority: Priority) -> &Workers {
        match priority {
            Priority::Flush => &self.flush,
            Priority::Compaction => &self.compaction,
        }
    }
}

impl Scheduler for ThreadPool {
    fn schedule(&self, priority: Priority, job: ScheduledJob) {
        self.workers(priority).push(job);
    }

    fn schedule_after(&self, priority: Priority, delay: Duration, job: ScheduledJob) {
        self.workers(priority).push_delayed(delay, job);
    }

    fn parallelism(&self, priority: Priority) -> usize {
        self.workers(priority).max_threads
    }

    /// Returns true only if the system refused to start any thread of a priority. No other thread
    /// would then run its jobs.
    fn run_one_here(&self) -> bool {
        self.flush.run_one_here() || self.compaction.run_one_here()
    }
}

impl Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("flush", &self.flush.max_threads)
            .field("compaction", &self.compaction.max_threads)
            .finish_non_exhaustive()
    }
}

/// Threads of one priority.
struct Workers {
    name: &'static str,
    max_threads: usize,
    queue: Arc<WorkerQueue>,
}

/// Job queue of the threads of one priority.
struct WorkerQueue {
    state: Mutex<WorkerQueueState>,
    job_available: Condvar,
}

type JobsAndThreads = (VecDeque<ScheduledJob>, Vec<DelayedJob>, Vec<JoinHandle<()>>);

/// Job with the time from which on it may run.
type DelayedJob = (Instant, ScheduledJob);

struct WorkerQueueState {
    jobs: VecDeque<ScheduledJob>,
    /// Jobs whose time has not come, in any order. There are at most a few for each database.
    delayed_jobs: Vec<DelayedJob>,
    threads: Vec<JoinHandle<()>>,
    idle_threads: usize,
    shutting_down: bool,
    /// Jobs and threads of the processes that forked this one. They stay reachable for detectors of
    /// memory leaks.
    of_parents: Vec<ManuallyDrop<JobsAndThreads>>,
}

impl Workers {
    fn new(name: &'static str, max_threads: usize) -> Workers {
        let state = WorkerQueueState {
            jobs: VecDeque::new(),
            delayed_jobs: Vec::new(),
            threads: Vec::new(),
            idle_threads: 0,
            shutting_down: false,
            of_parents: Vec::new(),
        };
        let queue = Arc::new(WorkerQueue { state: Mutex::new(state), job_available: Condvar::new() });
        let weak: Weak<WorkerQueue> = Arc::downgrade(&queue);
        register_fork_participant(ForkRank::Env, weak);
        Workers { name, max_threads: max_threads.max(1), queue }
    }

    fn push(&self, job: ScheduledJob) {
        let mut state = self.queue.state.lock();
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle_threads && state.threads.len() < self.max_threads {
            self.spawn_worker(&mut state);
        }
        drop(state);
        self.queue.job_available.notify_one();
    }

    /// Queues `job` after `delay`. The time of a model does not pass, so a model queues it at once.
    fn push_delayed(&self, delay: Duration, job: ScheduledJob) {
        if cfg!(any(feature = "loom", feature = "shuttle")) {
            return self.push(job);
        }
        let mut state = self.queue.state.lock();
        state.delayed_jobs.push((Instant::now() + delay, job));
        if state.threads.is_empty() {
            self.spawn_worker(&mut state);
        }
        drop(state);
        // The woken thread waits at most until the time of the job.
        self.queue.job_available.notify_one();
    }

    /// Starts a thread. If the system refuses, an existing thread runs the job, or a caller of
    /// `run_one_here` if there is none.
    fn spawn_worker(&self, state: &mut WorkerQueueState) {
        if !has_memory_for_thread() {
            return;
        }
        let name = format!("terrace-{}-{}", self.name, state.threads.len() + 1);
        let queue = Arc::clone(&self.queue);
        let builder = thread::Builder::new().name(name).stack_size(STACK_SIZE);
        if let Ok(thread) = builder.spawn(move || queue.run_worker()) {
            state.threads.push(thread);
        }
    }

    fn run_one_here(&self) -> bool {
        let mut state = self.queue.state.lock();
        let job = if state.threads.is_empty() {
            state.queue_due_jobs();
            state.jobs.pop_front()
        } else {
            None
        };
        drop(state);
        job.map(run_job).is_some()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        while self.run_one_here() {}
        let mut state = self.queue.state.lock();
        state.shutting_down = true;
        let threads = std::mem::take(&mut state.threads);
        let delayed_jobs = std::mem::take(&mut state.delayed_jobs);
        drop(state);
        drop(delayed_jobs);
        self.queue.job_available.notify_all();
        for thread in threads {
            // A job may drop the last handle of its own pool, and a thread cannot join itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join(); // `run_job` catches panics, so there is nothing to report.
            }
        }
    }
}

impl ForkParticipant for WorkerQueue {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |queue| &queue.state);
        locks.run_in_child(move || self.set_parent_aside());
    }
}

impl WorkerQueue {
    /// Sets aside the threads and the jobs of the parent in a forked child, so that the next job
    /// starts a thread of the child. The jobs belong to databases of the parent, and the handles
    /// to threads that do not exist: none of them can be dropped.
    fn set_parent_aside(&self) {
        if mutant!(ParentThreadsKeptInForkedChild) {
            return;
        }
        let mut state = self.state.lock();
        let jobs = std::mem::take(&mut state.jobs);
        let delayed_jobs = std::mem::take(&mut state.delayed_jobs);
        let threads = std::mem::take(&mut state.threads);
        if !(jobs.is_empty() && delayed_jobs.is_empty() && threads.is_empty()) {
            state.of_parents.push(ManuallyDrop::new((jobs, delayed_jobs, threads)));
        }
        state.idle_threads = 0;
    }

    fn run_worker(&self) {
        while let Some(job) = self.next_job() {
            run_job(job);
        }
    }

    /// Waits for the next job. Returns `None` when the pool shuts down and no job is left.
    fn next_job(&self) -> Option<ScheduledJob> {
        let mut state = self.state.lock();
        loop {
            let next_time = state.queue_due_jobs();
            if !state.jobs.is_empty() || state.shutting_down {
                return state.jobs.pop_front();
            }
            state.idle_threads += 1;
            match next_time {
                Some(time) => {
                    self.job_available.wait_for(&mut state, time.saturating_duration_since(Instant::now()));
                }
                None => self.job_available.wait(&mut state),
            }
            state.idle_threads -= 1;
        }
    }
}

impl WorkerQueueState {
    /// Queues the delayed jobs whose time has come. Returns the time of the next one.
    fn queue_due_jobs(&mut self) -> Option<Instant> {
        if self.delayed_jobs.is_empty() {
            return None;
        }
        let now = Instant::now();
        for (_, job) in self.delayed_jobs.extract_if(.., |(time, _)| *time <= now) {
            self.jobs.push_back(job);
        }
        self.delayed_jobs.iter().map(|(time, _)| *time).min()
    }
}

/// Runs a job and catches its panic. The panic hook has already printed it.
fn run_job(job: ScheduledJob) {
    // Unwind safety: other threads see the panic only as dropped guards.
    let _ = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_thread_runs_jobs_in_order() {
        let pool = ThreadPool::new(1, 1);
        let (send, receive) = mpsc::channel();
        for i in 0..100 {
            let send = send.clone();
            pool.schedule(Priority::Flush, Box::new(move || send.send(i).unwrap()));
        }
        drop((pool, send));
        assert_eq!(receive.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn flush_runs_while_a_compaction_blocks() {
        let pool = ThreadPool::new(1, 1);
        let (open, gate) = mpsc::channel::<()>();
        pool.schedule(Priority::Compaction, Box::new(move || gate.recv().unwrap()));
        pool.schedule(Priority::Flush, Box::new(move || open.send(()).unwrap()));
        drop(pool); // Would hang if the flush waited for the compaction.
    }

    #[test]
    fn delayed_job_runs_after_its_delay() {
        let pool = ThreadPool::new(1, 1);
        let (send, receive) = mpsc::channel();
        let start = Instant::now();
        for millis in [60, 20] {
            let send = send.clone();
            let job = Box::new(move || send.send((millis, start.elapsed())).unwrap());
            pool.schedule_after(Priority::Flush, Duration::from_millis(millis), job);
        }
        pool.schedule(Priority::Flush, Box::new(move || send.send((0, start.elapsed())).unwrap()));
        let order: Vec<_> = receive.iter().collect();
        assert_eq!(order.iter().map(|(millis, _)| *millis).collect::<Vec<_>>(), [0, 20, 60]);
        assert!(order.iter().all(|(millis, time)| *time >= Duration::from_millis(*millis)));
    }

    #[test]
    fn dropped_pool_drops_delayed_jobs() {
        let pool = ThreadPool::new(1, 1);
        let (send, receive) = mpsc::channel();
        let hour = Duration::from_secs(3600);
        pool.schedule_after(Priority::Compaction, hour, Box::new(move || send.send(()).unwrap()));
        drop(pool);
        assert!(receive.recv().is_err(), "the job ran, or still exists");
    }

    #[test]
    fn two_compaction_threads_run_in_parallel() {
        let pool = ThreadPool::new(1, 2);
        let left = mpsc::channel::<()>();
        let right = mpsc::channel::<()>();
        pool.schedule(
            Priority::Compaction,
            Box::new(move || {
                left.0.send(()).unwrap();
                right.1.recv().unwrap();
            }),
        );
        pool.schedule(
            Priority::Compaction,
            Box::new(move || {
                right.0.send(()).unwrap();
                left.1.recv().unwrap();
            }),
        );
        drop(pool); // Would hang if one job had to end before the other starts.
    }

    #[test]
    fn job_panic_does_not_stop_the_thread() {
        let pool = ThreadPool::new(1, 1);
        let done = Arc::new(AtomicUsize::new(0));
        pool.schedule(Priority::Flush, Box::new(|| std::panic::resume_unwind(Box::new("job"))));
        let count = Arc::clone(&done);
        pool.schedule(Priority::Flush, Box::new(move || count.store(1, Ordering::SeqCst)));
        drop(pool);
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn job_drops_the_last_pool_handle() {
        let pool = Arc::new(ThreadPool::new(1, 1));
        let (send, receive) = mpsc::channel();
        let (gate, wait) = mpsc::channel::<()>();
        let own = Arc::clone(&pool);
        pool.schedule(
            Priority::Flush,
            Box::new(move || {
                wait.recv().unwrap();
                drop(own);
                send.send("alive").unwrap();
            }),
        );
        drop(pool);
        gate.send(()).unwrap();
        assert_eq!(receive.recv().unwrap(), "alive");
    }

    #[test]
    fn threads_are_named_and_run_one_here_is_idle() {
        let pool = ThreadPool::new(1, 1);
        let (send, receive) = mpsc::channel();
        pool.schedule(
            Priority::Compaction,
            Box::new(move || send.send(thread::current().name().map(str::to_owned)).unwrap()),
        );
        assert_eq!(receive.recv().unwrap().as_deref(), Some("terrace-compaction-1"));
        assert!(!pool.run_one_here());
    }
}
