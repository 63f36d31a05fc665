//! Models of the thread that opens a database with a task group, and of a helping thread: early,
//! late, or with a task that panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize as UntrackedAtomic, Ordering::Relaxed};

use terrace_sync::thread;

use crate::db::components::task_group::TaskQueue;
use crate::sync::Arc;

/// Returns a task that adds `weight` to `done`. The end of the task drops its reference to `done`.
fn task(done: &Arc<UntrackedAtomic>, weight: usize) -> Box<dyn FnOnce() + Send> {
    let done = Arc::clone(done);
    Box::new(move || {
        done.fetch_add(weight, Relaxed);
    })
}

pub(super) fn helping_thread() {
    let queue = Arc::<TaskQueue>::default();
    let done = Arc::new(UntrackedAtomic::new(0));
    let (_, needs_helper) = queue.push(task(&done, 1), 1);
    assert!(needs_helper);
    let other = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.run_until_empty())
    };
    queue.push(task(&done, 10), 1);
    assert!(queue.finish());
    assert_eq!(done.load(Relaxed), 11, "each task runs once");
    assert_eq!(Arc::strong_count(&done), 1, "no task is left");
    other.join().unwrap();
}

pub(super) fn panicking_task() {
    let queue = Arc::<TaskQueue>::default();
    // A panic without a message on the terminal.
    queue.push(Box::new(|| resume_unwind(Box::new("once"))), 1);
    let other = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || catch_unwind(AssertUnwindSafe(|| queue.run_until_empty())).is_err())
    };
    let finished = catch_unwind(AssertUnwindSafe(|| queue.finish()));
    assert!(!finished.unwrap_or(false), "the group fails, whichever thread ran the task");
    other.join().unwrap();
}
