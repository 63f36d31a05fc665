//! Threads for commands that may wait, or that are long.
//!
//! Many commands may wait for storage at the same time, because their reads keep a disk busy
//! together. Few long ones run at the same time, because each takes a processor, or much memory.

use std::collections::VecDeque;

use terrace_sync::native_locks::{Condvar, Mutex};

use crate::store::{Allowed, Scratch};

/// Number of the threads.
pub(crate) const SLOW_THREADS: usize = 16;
/// Maximum number of long jobs that run at the same time.
pub(crate) const MAX_LONG_JOBS: usize = 2;

type Job = Box<dyn FnOnce(&mut Scratch) + Send>;

#[derive(Default)]
struct SlowQueue {
    waiting: VecDeque<Job>,
    long: VecDeque<Job>,
    /// Number of long jobs that run.
    running_long: usize,
    is_stopped: bool,
}

/// Queues of the jobs. Each connection has at most one job, so the number of clients bounds them.
pub(crate) struct SlowPool {
    queue: Mutex<SlowQueue>,
    changed: Condvar,
    max_long: usize,
}

impl SlowPool {
    /// Creates a pool that runs at most `max_long` long jobs at the same time.
    pub(crate) fn new(max_long: usize) -> SlowPool {
        SlowPool { queue: Mutex::default(), changed: Condvar::new(), max_long }
    }

    /// Queues a long job.
    pub(crate) fn submit_long(&self, job: impl FnOnce(&mut Scratch) + Send + 'static) {
        self.queue.lock().long.push_back(Box::new(job));
        self.changed.notify_one();
    }

    /// Queues a job that may wait for storage. It meets long commands as an error.
    pub(crate) fn submit_waiting(&self, job: impl FnOnce(&mut Scratch) + Send + 'static) {
        self.queue.lock().waiting.push_back(Box::new(job));
        self.changed.notify_one();
    }

    /// Runs jobs on this thread until [`SlowPool::stop`].
    pub(crate) fn run(&self, scratch: &mut Scratch) {
        while let Some((job, allowed)) = self.next_job() {
            scratch.allowed = allowed;
            job(scratch);
            if allowed == Allowed::Long {
                // This thread takes the next long job, so no other one has to wake up.
                self.queue.lock().running_long -= 1;
            }
        }
    }

    fn next_job(&self) -> Option<(Job, Allowed)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.running_long < self.max_long
                && let Some(job) = queue.long.pop_front()
            {
                queue.running_long += 1;
                return Some((job, Allowed::Long));
            }
            if let Some(job) = queue.waiting.pop_front() {
                return Some((job, Allowed::Waiting));
            }
            if queue.is_stopped {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Ends the threads after the queued jobs.
    pub(crate) fn stop(&self) {
        self.queue.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn waiting_jobs_run_beside_long_ones() {
        let pool = SlowPool::new(1);
        let (started, starts) = channel();
        let (release, released) = channel::<()>();
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let pool = &pool;
                scope.spawn(move || pool.run(&mut Scratch::new(slot, Allowed::Waiting)));
            }
            let first = started.clone();
            pool.submit_long(move |scratch| {
                first.send(("first", scratch.allowed)).unwrap();
                released.recv().unwrap();
            });
            assert_eq!(starts.recv(), Ok(("first", Allowed::Long)));
            let second = started.clone();
            pool.submit_long(move |scratch| second.send(("second", scratch.allowed)).unwrap());
            pool.submit_waiting(move |scratch| started.send(("waiting", scratch.allowed)).unwrap());
            assert_eq!(starts.recv(), Ok(("waiting", Allowed::Waiting)));
            assert!(starts.try_recv().is_err(), "two long jobs run at the same time");
            release.send(()).unwrap();
            assert_eq!(starts.recv(), Ok(("second", Allowed::Long)));
            pool.stop();
        });
    }
}
