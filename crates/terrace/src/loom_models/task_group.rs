//! An opener who shares out work, and one who helps: soon, late, or with a task that panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize as Unseen, Ordering::Relaxed};

use terrace_sync::thread;

use crate::db::components::task_group::TaskQueue;
use crate::sync::Arc;

/// A task that adds `weight`, and holds `done` no longer than it must.
fn task(done: &Arc<Unseen>, weight: usize) -> Box<dyn FnOnce() + Send> {
    let done = Arc::clone(done);
    Box::new(move || {
        done.fetch_add(weight, Relaxed);
    })
}

pub(super) fn helping_thread() {
    let (board, done) = (Arc::<TaskQueue>::default(), Arc::new(Unseen::new(0)));
    let (_, called) = board.push(task(&done, 1), 1);
    assert!(called);
    let other = {
        let board = Arc::clone(&board);
        thread::spawn(move || board.run_until_empty())
    };
    board.push(task(&done, 10), 1);
    assert!(board.finish());
    assert_eq!(done.load(Relaxed), 11, "each was done once");
    assert_eq!(Arc::strong_count(&done), 1, "nobody holds anything any more");
    other.join().unwrap();
}

pub(super) fn panicking_task() {
    let board = Arc::<TaskQueue>::default();
    // As a panic, but without a word on the terminal.
    board.push(Box::new(|| resume_unwind(Box::new("once"))), 1);
    let other = {
        let board = Arc::clone(&board);
        thread::spawn(move || catch_unwind(AssertUnwindSafe(|| board.run_until_empty())).is_err())
    };
    let finished = catch_unwind(AssertUnwindSafe(|| board.finish()));
    assert!(!finished.unwrap_or(false), "whoever did it, it is no success");
    other.join().unwrap();
}
