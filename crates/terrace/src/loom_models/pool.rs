//! Model of the thread pool of the env: jobs from several threads, and the end of the pool.

use std::sync::atomic::{AtomicUsize as UntrackedAtomic, Ordering::Relaxed};

use terrace_env::{Priority, Scheduler, ThreadPool};
use terrace_sync::thread;

use crate::sync::Arc;

pub(super) fn jobs() {
    let pool = Arc::new(ThreadPool::new(1, 1));
    let ran = Arc::new(UntrackedAtomic::new(0));
    let job = |weight: usize| {
        let ran = Arc::clone(&ran);
        Box::new(move || {
            ran.fetch_add(weight, Relaxed);
        })
    };
    let other = {
        let pool = Arc::clone(&pool);
        let job = job(1);
        thread::spawn(move || pool.schedule(Priority::Flush, job))
    };
    pool.schedule(Priority::Flush, job(10));
    other.join().unwrap();
    drop(pool);
    assert_eq!(ran.load(Relaxed), 11, "each job runs once, before the end of the pool");
}
