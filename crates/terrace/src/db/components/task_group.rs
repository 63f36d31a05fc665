//! Work that an opener shares out, and of which it does itself what nobody else has begun.
//!
//! ```text
//!   opener     gives 1, 2, 3 ... 7: too many wait, so it does 4 .. finishes: does what waits, waits for what runs
//!   a helper        [ 1 ][ 2 ][ 3 ] ...                    a job of a lane, if a thread is free
//!   a late helper                                          (nothing)
//! ```
//!
//! It never waits for a helper that has not begun a task: the lane may be busy with other databases, and the schedulers of
//! tests run nothing by themselves. A helper that comes late finds nothing and holds nothing.

use std::collections::VecDeque;

use terrace_env::{Priority, Scheduler};

use super::background_error::panic_error;
use crate::error::Result;
use crate::sync::{Arc, Condvar, Mutex};

/// What it holds is dropped before anybody can learn that it is done.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Tasks, in the order in which they are begun.
#[derive(Default)]
pub(crate) struct TaskQueue {
    state: Mutex<TaskQueueState>,
    /// Notified when a task is done.
    task_done: Condvar,
}

#[derive(Default)]
struct TaskQueueState {
    pending: VecDeque<Task>,
    running: usize,
    /// Helpers that were called and have not found the board empty.
    helpers: usize,
    has_panicked: bool,
}

impl TaskQueue {
    /// Puts up a task. Says how many wait, and whether there is to be another helper, of `most`.
    pub(crate) fn push(&self, task: Task, most: usize) -> (usize, bool) {
        let mut state = self.state.lock();
        state.pending.push_back(task);
        let call = state.helpers < most;
        state.helpers += usize::from(call);
        (state.pending.len(), call)
    }

    /// Does a task; false if none waits.
    pub(crate) fn run_one(&self) -> bool {
        self.pop(false).map(RunningTask::run).is_some()
    }

    /// What a helper does: tasks until none waits.
    pub(crate) fn run_until_empty(&self) {
        while let Some(taken) = self.pop(true) {
            taken.run();
        }
    }

    fn pop(&self, helps: bool) -> Option<RunningTask<'_>> {
        let mut state = self.state.lock();
        let Some(task) = state.pending.pop_front() else {
            state.helpers -= usize::from(helps);
            return None;
        };
        state.running += 1;
        Some(RunningTask { queue: self, task: Some(task) })
    }

    /// Does what waits and returns when all is done. False if a task panicked.
    pub(crate) fn finish(&self) -> bool {
        while self.run_one() {}
        self.wait_for_running()
    }

    /// Forgets what waits, and returns when nothing runs.
    fn cancel(&self) {
        let forgotten = std::mem::take(&mut self.state.lock().pending);
        drop(forgotten);
        self.wait_for_running();
    }

    fn wait_for_running(&self) -> bool {
        let mut state = self.state.lock();
        while state.running > 0 {
            self.task_done.wait(&mut state);
        }
        !state.has_panicked
    }
}

/// A task that a thread has taken. Done when dropped, even by a panic.
struct RunningTask<'a> {
    queue: &'a TaskQueue,
    task: Option<Task>,
}

impl RunningTask<'_> {
    fn run(mut self) {
        self.task.take().into_iter().for_each(|task| task());
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.running -= 1;
        state.has_panicked |= std::thread::panicking();
        drop(state);
        self.queue.task_done.notify_all();
    }
}

/// A board, and who helps.
pub(crate) struct TaskGroup {
    scheduler: Arc<dyn Scheduler>,
    lane: Priority,
    /// So many may help at a time.
    max_helpers: usize,
    queue: Arc<TaskQueue>,
}

impl TaskGroup {
    pub(crate) fn new(scheduler: &Arc<dyn Scheduler>, lane: Priority, helpers: usize) -> TaskGroup {
        TaskGroup { scheduler: Arc::clone(scheduler), lane, max_helpers: helpers, queue: Arc::default() }
    }

    /// Has `task` done by whoever comes first. Does one itself if more wait than there are helpers.
    pub(crate) fn spawn(&self, task: Task) {
        let (waiting, call) = self.queue.push(task, self.max_helpers);
        if call {
            let board = Arc::downgrade(&self.queue);
            let help = move || board.upgrade().into_iter().for_each(|board| board.run_until_empty());
            self.scheduler.schedule(self.lane, Box::new(help));
        }
        if waiting > self.max_helpers && !self.scheduler.run_one_here() {
            self.queue.run_one();
        }
    }

    /// Forgets what nobody has begun, and returns when nothing is at work.
    pub(crate) fn cancel(&self) {
        self.queue.cancel();
    }

    /// Returns when every task is done, with an error if one panicked.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.queue.finish() { Ok(()) } else { Err(panic_error()) }
    }
}

impl Drop for TaskGroup {
    /// What is at work must not outlive the opener's lock.
    fn drop(&mut self) {
        self.queue.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use terrace_env::{DeterministicScheduler, ThreadPool};

    use super::*;

    fn check(scheduler: &Arc<dyn Scheduler>, helpers: usize) {
        let crew = TaskGroup::new(scheduler, Priority::Compaction, helpers);
        let done = Arc::new(AtomicUsize::new(0));
        for round in 1..=3 {
            for n in 0..20 {
                let done = Arc::clone(&done);
                crew.spawn(Box::new(move || {
                    done.fetch_add(n, Ordering::SeqCst);
                }));
            }
            crew.finish().unwrap();
            assert_eq!(done.load(Ordering::SeqCst), round * 190);
            assert_eq!(Arc::strong_count(&done), 1, "nothing is held by a task that is done");
        }
    }

    #[test]
    fn every_task_runs_once() {
        for helpers in 0..4 {
            check(&(Arc::new(ThreadPool::new(1, 2)) as Arc<dyn Scheduler>), helpers);
            check(&(DeterministicScheduler::new(7) as Arc<dyn Scheduler>), helpers);
        }
    }

    #[test]
    fn a_task_that_panics_is_an_error() {
        let pool: Arc<dyn Scheduler> = Arc::new(ThreadPool::new(1, 1));
        let crew = TaskGroup::new(&pool, Priority::Compaction, 1);
        let (begun, begins) = std::sync::mpsc::channel();
        crew.spawn(Box::new(move || {
            begun.send(()).unwrap();
            // As a panic, but without a word on the terminal.
            std::panic::resume_unwind(Box::new("once"))
        }));
        begins.recv().unwrap();
        assert!(crew.finish().is_err());
    }

    #[test]
    fn pending_tasks_are_dropped_with_the_group() {
        let scheduler: Arc<dyn Scheduler> = DeterministicScheduler::new(7);
        let crew = TaskGroup::new(&scheduler, Priority::Compaction, 1);
        crew.spawn(Box::new(|| panic!("nobody does it")));
        drop(crew);
        assert!(scheduler.run_one_here(), "a helper was called");
        assert!(!scheduler.run_one_here());
    }
}
