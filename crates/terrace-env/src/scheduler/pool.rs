//! Threads for background work, some for each lane.
//!
//! ```text
//!   schedule(Flush)       -> queue -> terrace-flush-1
//!   schedule(Compaction)  -> queue -> terrace-compaction-1 .. n
//! ```
//!
//! A thread is started when a job finds no idle one, up to the lane's number: a process that opens no database
//! has none, and one with little to do has few. A job that panics ends alone; its thread goes on.
#![allow(clippy::disallowed_methods)] // This is the room the lint points to.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use terrace_sync::thread::{self, JoinHandle};
use terrace_sync::{Condvar, Mutex};

use super::{Job, Lane, Scheduler};

/// The flush threads of the shared pool: while one waits for the device, the other has the processor.
const SHARED_FLUSHES: usize = 2;

/// The most compaction threads of the shared pool: beyond this the disk is the bottleneck.
const SHARED_COMPACTIONS_MAX: usize = 4;

/// A fixed number of threads for each lane.
///
/// Dropping it runs what is queued, then ends the threads.
pub struct Pool {
    flush: Crew,
    compaction: Crew,
}

impl Pool {
    /// The pool that all databases of the process share: two flush threads, and a compaction thread for each core, at
    /// most 4.
    pub fn shared() -> Arc<dyn Scheduler> {
        // Not of the facade: a model has a pool of its own.
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        let pool = SHARED.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            Arc::new(Pool::new(SHARED_FLUSHES, cores.clamp(1, SHARED_COMPACTIONS_MAX)))
        });
        Arc::clone(pool) as Arc<dyn Scheduler>
    }

    /// A pool of its own with that many threads for each lane; 0 is taken as 1.
    pub fn new(flush: usize, compaction: usize) -> Pool {
        Pool { flush: Crew::new("flush", flush), compaction: Crew::new("compaction", compaction) }
    }

    fn crew(&self, lane: Lane) -> &Crew {
        match lane {
            Lane::Flush => &self.flush,
            Lane::Compaction => &self.compaction,
        }
    }
}

impl Scheduler for Pool {
    fn schedule(&self, lane: Lane, job: Job) {
        self.crew(lane).push(job);
    }

    fn parallelism(&self, lane: Lane) -> usize {
        self.crew(lane).size
    }

    /// True only where the system gave a lane no thread at all: then nobody else would run its jobs.
    fn assist(&self) -> bool {
        self.flush.assist() || self.compaction.assist()
    }
}

impl Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("flush", &self.flush.size)
            .field("compaction", &self.compaction.size)
            .finish_non_exhaustive()
    }
}

/// The threads of one lane.
struct Crew {
    lane: &'static str,
    size: usize,
    post: Arc<Post>,
}

/// Where the threads of a lane wait for jobs.
struct Post {
    state: Mutex<State>,
    arrival: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    closed: bool,
}

impl Crew {
    fn new(lane: &'static str, size: usize) -> Crew {
        let state = State { queue: VecDeque::new(), threads: Vec::new(), idle: 0, closed: false };
        let post = Post { state: Mutex::new(state), arrival: Condvar::new() };
        Crew { lane, size: size.max(1), post: Arc::new(post) }
    }

    fn push(&self, job: Job) {
        let mut state = self.post.state.lock();
        state.queue.push_back(job);
        if state.queue.len() > state.idle && state.threads.len() < self.size {
            self.hire(&mut state);
        }
        drop(state);
        self.post.arrival.notify_one();
    }

    /// Starts a thread. Where the system refuses, the threads there are take the job, or `assist` if there is none.
    fn hire(&self, state: &mut State) {
        let name = format!("terrace-{}-{}", self.lane, state.threads.len() + 1);
        let post = Arc::clone(&self.post);
        if let Ok(thread) = thread::Builder::new().name(name).spawn(move || post.work()) {
            state.threads.push(thread);
        }
    }

    fn assist(&self) -> bool {
        let mut state = self.post.state.lock();
        let job = if state.threads.is_empty() { state.queue.pop_front() } else { None };
        drop(state);
        job.map(run).is_some()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        while self.assist() {}
        let mut state = self.post.state.lock();
        state.closed = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.post.arrival.notify_all();
        for thread in threads {
            // A job may hold the last handle of its own pool; a thread can't wait for itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join(); // jobs' panics were caught: there is nothing to report
            }
        }
    }
}

impl Post {
    fn work(&self) {
        while let Some(job) = self.next() {
            run(job);
        }
    }

    /// The next job, as soon as there is one; `None` when the crew is sent home and nothing is left.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        while state.queue.is_empty() && !state.closed {
            state.idle += 1;
            self.arrival.wait(&mut state);
            state.idle -= 1;
        }
        state.queue.pop_front()
    }
}

/// Runs a job; a panic ends the job and nothing else (the panic hook has printed it).
fn run(job: Job) {
    // Unwind safety: whatever the job shared sees the panic as a guard that was dropped.
    let _ = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_thread_keeps_the_order() {
        let pool = Pool::new(1, 1);
        let (send, receive) = mpsc::channel();
        for i in 0..100 {
            let send = send.clone();
            pool.schedule(Lane::Flush, Box::new(move || send.send(i).unwrap()));
        }
        drop((pool, send));
        assert_eq!(receive.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let pool = Pool::new(1, 1);
        let (open, gate) = mpsc::channel::<()>();
        pool.schedule(Lane::Compaction, Box::new(move || gate.recv().unwrap()));
        pool.schedule(Lane::Flush, Box::new(move || open.send(()).unwrap()));
        drop(pool); // would hang if the flush waited behind the compaction
    }

    #[test]
    fn two_threads_work_at_once() {
        let pool = Pool::new(1, 2);
        let (left, right) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        pool.schedule(
            Lane::Compaction,
            Box::new(move || {
                left.0.send(()).unwrap();
                right.1.recv().unwrap();
            }),
        );
        pool.schedule(
            Lane::Compaction,
            Box::new(move || {
                right.0.send(()).unwrap();
                left.1.recv().unwrap();
            }),
        );
        drop(pool); // would hang if one had to end before the other
    }

    #[test]
    fn panic_ends_the_job_alone() {
        let pool = Pool::new(1, 1);
        let done = Arc::new(AtomicUsize::new(0));
        pool.schedule(Lane::Flush, Box::new(|| std::panic::resume_unwind(Box::new("job"))));
        let count = Arc::clone(&done);
        pool.schedule(Lane::Flush, Box::new(move || count.store(1, Ordering::SeqCst)));
        drop(pool);
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn dropped_by_its_own_job() {
        let pool = Arc::new(Pool::new(1, 1));
        let (send, receive) = mpsc::channel();
        let (gate, wait) = mpsc::channel::<()>();
        let own = Arc::clone(&pool);
        pool.schedule(
            Lane::Flush,
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
    fn threads_are_named_and_assist_has_nothing_to_do() {
        let pool = Pool::new(1, 1);
        let (send, receive) = mpsc::channel();
        let name = move || send.send(thread::current().name().map(str::to_owned)).unwrap();
        pool.schedule(Lane::Compaction, Box::new(name));
        assert_eq!(receive.recv().unwrap().as_deref(), Some("terrace-compaction-1"));
        assert!(!pool.assist());
    }
}
