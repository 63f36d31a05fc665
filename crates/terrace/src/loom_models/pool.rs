//! The threads of the env's pool: jobs that are handed over, jobs that hand over jobs, and the end.

use std::sync::atomic::{AtomicUsize as Unseen, Ordering::Relaxed};

use terrace_env::{Priority, Scheduler, ThreadPool};
use terrace_sync::thread;

use crate::sync::Arc;

pub(super) fn jobs() {
    let pool = Arc::new(ThreadPool::new(1, 1));
    let ran = Arc::new(Unseen::new(0));
    let job = |weight: usize| {
        let ran = Arc::clone(&ran);
        Box::new(move || {
            ran.fetch_add(weight, Relaxed);
        })
    };
    let other = {
        let (pool, job) = (Arc::clone(&pool), job(1));
        thread::spawn(move || pool.schedule(Priority::Flush, job))
    };
    pool.schedule(Priority::Flush, job(10));
    other.join().unwrap();
    drop(pool);
    assert_eq!(ran.load(Relaxed), 11, "each job ran once, before the pool was gone");
}
