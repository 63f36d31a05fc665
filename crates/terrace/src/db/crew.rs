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

use terrace_env::{Lane, Scheduler};

use super::unwinding::panicked;
use crate::error::Result;
use crate::sync::{Arc, Condvar, Mutex};

/// What it holds is dropped before anybody can learn that it is done.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Tasks, in the order in which they are begun.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// Notified when a task is done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Task>,
    running: usize,
    /// Helpers that were called and have not found the board empty.
    helpers: usize,
    panicked: bool,
}

impl Board {
    /// Puts up a task. Says how many wait, and whether there is to be another helper, of `most`.
    pub(crate) fn put(&self, task: Task, most: usize) -> (usize, bool) {
        let mut state = self.state.lock();
        state.waiting.push_back(task);
        let call = state.helpers < most;
        state.helpers += usize::from(call);
        (state.waiting.len(), call)
    }

    /// Does a task; false if none waits.
    pub(crate) fn do_one(&self) -> bool {
        self.take(false).map(Taken::run).is_some()
    }

    /// What a helper does: tasks until none waits.
    pub(crate) fn help(&self) {
        while let Some(taken) = self.take(true) {
            taken.run();
        }
    }

    fn take(&self, helps: bool) -> Option<Taken<'_>> {
        let mut state = self.state.lock();
        let Some(task) = state.waiting.pop_front() else {
            state.helpers -= usize::from(helps);
            return None;
        };
        state.running += 1;
        Some(Taken { board: self, task: Some(task) })
    }

    /// Does what waits and returns when all is done. False if a task panicked.
    pub(crate) fn finish(&self) -> bool {
        while self.do_one() {}
        self.wait()
    }

    /// Forgets what waits, and returns when nothing runs.
    fn give_up(&self) {
        let forgotten = std::mem::take(&mut self.state.lock().waiting);
        drop(forgotten);
        self.wait();
    }

    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.running > 0 {
            self.done.wait(&mut state);
        }
        !state.panicked
    }
}

/// A task that a thread has taken. Done when dropped, even by a panic.
struct Taken<'a> {
    board: &'a Board,
    task: Option<Task>,
}

impl Taken<'_> {
    fn run(mut self) {
        self.task.take().into_iter().for_each(|task| task());
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.board.state.lock();
        state.running -= 1;
        state.panicked |= std::thread::panicking();
        drop(state);
        self.board.done.notify_all();
    }
}

/// A board, and who helps.
pub(super) struct Crew {
    scheduler: Arc<dyn Scheduler>,
    lane: Lane,
    /// So many may help at a time.
    helpers: usize,
    board: Arc<Board>,
}

impl Crew {
    pub(super) fn new(scheduler: &Arc<dyn Scheduler>, lane: Lane, helpers: usize) -> Crew {
        Crew { scheduler: Arc::clone(scheduler), lane, helpers, board: Arc::default() }
    }

    /// Has `task` done by whoever comes first. Does one itself if more wait than there are helpers.
    pub(super) fn give(&self, task: Task) {
        let (waiting, call) = self.board.put(task, self.helpers);
        if call {
            let board = Arc::downgrade(&self.board);
            let help = move || board.upgrade().into_iter().for_each(|board| board.help());
            self.scheduler.schedule(self.lane, Box::new(help));
        }
        if waiting > self.helpers && !self.scheduler.assist() {
            self.board.do_one();
        }
    }

    /// Forgets what nobody has begun, and returns when nothing is at work.
    pub(super) fn give_up(&self) {
        self.board.give_up();
    }

    /// Returns when every task is done, with an error if one panicked.
    pub(super) fn finish(&self) -> Result<()> {
        if self.board.finish() { Ok(()) } else { Err(panicked()) }
    }
}

impl Drop for Crew {
    /// What is at work must not outlive the opener's lock.
    fn drop(&mut self) {
        self.board.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use terrace_env::{Deterministic, Pool};

    use super::*;

    fn check(scheduler: &Arc<dyn Scheduler>, helpers: usize) {
        let crew = Crew::new(scheduler, Lane::Compaction, helpers);
        let done = Arc::new(AtomicUsize::new(0));
        for round in 1..=3 {
            for n in 0..20 {
                let done = Arc::clone(&done);
                crew.give(Box::new(move || {
                    done.fetch_add(n, Ordering::SeqCst);
                }));
            }
            crew.finish().unwrap();
            assert_eq!(done.load(Ordering::SeqCst), round * 190);
            assert_eq!(Arc::strong_count(&done), 1, "nothing is held by a task that is done");
        }
    }

    #[test]
    fn every_task_is_done_once() {
        for helpers in 0..4 {
            check(&(Arc::new(Pool::new(1, 2)) as Arc<dyn Scheduler>), helpers);
            check(&(Deterministic::new(7) as Arc<dyn Scheduler>), helpers);
        }
    }

    #[test]
    fn a_task_that_panics_is_an_error() {
        let pool: Arc<dyn Scheduler> = Arc::new(Pool::new(1, 1));
        let crew = Crew::new(&pool, Lane::Compaction, 1);
        let (begun, begins) = std::sync::mpsc::channel();
        crew.give(Box::new(move || {
            begun.send(()).unwrap();
            // As a panic, but without a word on the terminal.
            std::panic::resume_unwind(Box::new("once"))
        }));
        begins.recv().unwrap();
        assert!(crew.finish().is_err());
    }

    #[test]
    fn what_waits_is_forgotten_with_the_crew() {
        let scheduler: Arc<dyn Scheduler> = Deterministic::new(7);
        let crew = Crew::new(&scheduler, Lane::Compaction, 1);
        crew.give(Box::new(|| panic!("nobody does it")));
        drop(crew);
        assert!(scheduler.assist(), "a helper was called");
        assert!(!scheduler.assist());
    }
}
