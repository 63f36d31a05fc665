//! Tasks that a thread shares with helpers, and executes itself if no helper has started them.
//!
//! ```text
//!   opener     pushes 1, 2, 3 ... 7; too many are pending: it runs 4 .. finish: runs the pending
//!              tasks, waits for the running ones
//!   helper         [ 1 ][ 2 ][ 3 ] ...              a job of the scheduler, if a thread is free
//!   late helper                                           (nothing)
//! ```
//!
//! The opener never waits for a helper that has not started a task. The threads of the scheduler
//! may be busy with other databases, and the schedulers of tests run nothing by themselves. A late
//! helper finds no task and holds no data.

use std::collections::VecDeque;

use terrace_env::{Priority, Scheduler};

use super::background_error::panic_error;
use crate::error::Result;
use crate::sync::{Arc, Condvar, Mutex};

/// Task of a group. Its captured values are dropped before another thread can see its end.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Queue of tasks, which start in order.
#[derive(Default)]
pub(crate) struct TaskQueue {
    state: Mutex<TaskQueueState>,
    /// Notified when a task ends.
    task_done: Condvar,
}

#[derive(Default)]
struct TaskQueueState {
    pending: VecDeque<Task>,
    running: usize,
    /// Number of scheduled helpers that have not found the queue empty.
    helpers: usize,
    has_panicked: bool,
}

impl TaskQueue {
    /// Adds a task. Returns the number of pending tasks, and whether the caller should schedule
    /// another helper, of at most `max_helpers`.
    pub(crate) fn push(&self, task: Task, max_helpers: usize) -> (usize, bool) {
        let mut state = self.state.lock();
        state.pending.push_back(task);
        let call = state.helpers < max_helpers;
        state.helpers += usize::from(call);
        (state.pending.len(), call)
    }

    /// Runs a task. Returns false if none is pending.
    pub(crate) fn run_one(&self) -> bool {
        self.pop(false).map(RunningTask::run).is_some()
    }

    /// Runs tasks until none is pending. This is the job of a helper.
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
        Some(RunningTask { queue: self, task: Some(task), has_returned: false })
    }

    /// Runs the pending tasks and waits for the running ones. Returns false if a task panicked.
    pub(crate) fn finish(&self) -> bool {
        while self.run_one() {}
        self.wait_for_running()
    }

    /// Drops the pending tasks and waits for the running ones.
    fn cancel(&self) {
        let cancelled = std::mem::take(&mut self.state.lock().pending);
        drop(cancelled);
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

/// Task that a thread has claimed. It ends when this is dropped, also by a panic.
struct RunningTask<'a> {
    queue: &'a TaskQueue,
    task: Option<Task>,
    /// False after a panic. A thread that unwinds an earlier panic may run tasks, too.
    has_returned: bool,
}

impl RunningTask<'_> {
    fn run(mut self) {
        if let Some(task) = self.task.take() {
            task();
        }
        self.has_returned = true;
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.running -= 1;
        state.has_panicked |= !self.has_returned;
        drop(state);
        self.queue.task_done.notify_all();
    }
}

/// Queue of tasks with its helpers.
pub(crate) struct TaskGroup {
    scheduler: Arc<dyn Scheduler>,
    priority: Priority,
    /// Maximum number of helpers at the same time.
    max_helpers: usize,
    queue: Arc<TaskQueue>,
}

impl TaskGroup {
    pub(crate) fn new(scheduler: &Arc<dyn Scheduler>, priority: Priority, max_helpers: usize) -> TaskGroup {
        TaskGroup { scheduler: Arc::clone(scheduler), priority, max_helpers, queue: Arc::default() }
    }

    /// Adds `task`. Runs a task on this thread if more tasks are pending than helpers are allowed.
    pub(crate) fn spawn(&self, task: Task) {
        let (pending, needs_helper) = self.queue.push(task, self.max_helpers);
        if needs_helper {
            let queue = Arc::downgrade(&self.queue);
            self.scheduler.schedule(
                self.priority,
                Box::new(move || {
                    if let Some(queue) = queue.upgrade() {
                        queue.run_until_empty();
                    }
                }),
            );
        }
        if pending > self.max_helpers && !self.scheduler.run_one_here() {
            self.queue.run_one();
        }
    }

    /// Drops the pending tasks and waits for the running ones.
    pub(crate) fn cancel(&self) {
        self.queue.cancel();
    }

    /// Waits until all tasks have ended. Returns an error if one of them panicked.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.queue.finish() { Ok(()) } else { Err(panic_error()) }
    }
}

impl Drop for TaskGroup {
    /// No task may outlive the directory lock of the opener.
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
        let group = TaskGroup::new(scheduler, Priority::Compaction, helpers);
        let done = Arc::new(AtomicUsize::new(0));
        for round in 1..=3 {
            for n in 0..20 {
                let done = Arc::clone(&done);
                group.spawn(Box::new(move || {
                    done.fetch_add(n, Ordering::SeqCst);
                }));
            }
            group.finish().unwrap();
            assert_eq!(done.load(Ordering::SeqCst), round * 190);
            assert_eq!(Arc::strong_count(&done), 1, "an ended task holds a value");
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
        let group = TaskGroup::new(&pool, Priority::Compaction, 1);
        let (begun, begins) = std::sync::mpsc::channel();
        group.spawn(Box::new(move || {
            begun.send(()).unwrap();
            // Panics without a message on the terminal.
            std::panic::resume_unwind(Box::new("once"))
        }));
        begins.recv().unwrap();
        assert!(group.finish().is_err());
    }

    #[test]
    fn pending_tasks_are_dropped_with_the_group() {
        let scheduler: Arc<dyn Scheduler> = DeterministicScheduler::new(7);
        let group = TaskGroup::new(&scheduler, Priority::Compaction, 1);
        group.spawn(Box::new(|| panic!("a cancelled task ran")));
        drop(group);
        assert!(scheduler.run_one_here(), "no helper was scheduled");
        assert!(!scheduler.run_one_here());
    }
}
