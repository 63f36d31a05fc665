//! Threads for commands that may wait: long scans, writes that would stall, reads of files.

use std::collections::VecDeque;

use terrace_sync::native_locks::{Condvar, Mutex};

use crate::store::Scratch;

/// Number of the threads.
pub(crate) const SLOW_THREADS: usize = 2;

type Job = Box<dyn FnOnce(&mut Scratch) + Send>;

#[derive(Default)]
struct SlowQueue {
    jobs: VecDeque<Job>,
    is_stopped: bool,
}

/// Queue of the jobs. Each connection has at most one, so the number of clients bounds it.
#[derive(Default)]
pub(crate) struct SlowPool {
    queue: Mutex<SlowQueue>,
    changed: Condvar,
}

impl SlowPool {
    /// Queues a job.
    pub(crate) fn submit(&self, job: impl FnOnce(&mut Scratch) + Send + 'static) {
        self.queue.lock().jobs.push_back(Box::new(job));
        self.changed.notify_one();
    }

    /// Runs jobs on this thread until [`SlowPool::stop`].
    pub(crate) fn run(&self, scratch: &mut Scratch) {
        while let Some(job) = self.next_job() {
            job(scratch);
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
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
