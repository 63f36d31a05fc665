//! Subcompactions of one compaction, which several threads claim one after the other.

use super::background_error::panic_error;
use crate::compaction::CompactionOutput;
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};

/// Queue of the subcompactions of one compaction. `C` is the context that each of them needs.
pub(crate) struct SubcompactionQueue<C> {
    state: Mutex<SubcompactionQueueState<C>>,
    /// Notified when a subcompaction ends.
    subcompaction_done: Condvar,
    /// Set when a subcompaction fails, so that the others give up. Relaxed: a hint, the error
    /// itself is in `state`.
    has_failed: AtomicBool,
}

struct SubcompactionQueueState<C> {
    /// None after the end of the compaction.
    context: Option<Arc<C>>,
    /// Index of the next subcompaction to be claimed.
    next_index: usize,
    /// Number of claimed subcompactions that have not ended.
    running: usize,
    /// Results by index of the subcompaction.
    outputs: Vec<Option<CompactionOutput>>,
    error: Option<Error>,
}

impl<C> SubcompactionQueue<C> {
    /// Creates a queue of `count` subcompactions.
    pub(crate) fn new(context: C, count: usize) -> Arc<SubcompactionQueue<C>> {
        let state = SubcompactionQueueState {
            context: Some(Arc::new(context)),
            next_index: 0,
            running: 0,
            outputs: (0..count).map(|_| None).collect(),
            error: None,
        };
        Arc::new(SubcompactionQueue {
            state: Mutex::new(state),
            subcompaction_done: Condvar::new(),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Claims subcompactions and executes them with `run` until none is left to be claimed.
    ///
    /// `run` gets the context, the index and the flag that cancels the subcompaction. It returns
    /// None if the database is being dropped.
    pub(crate) fn run_until_empty(
        &self,
        run: impl Fn(&C, usize, &AtomicBool) -> Option<Result<CompactionOutput>>,
    ) {
        while let Some(mut claimed) = self.claim_next() {
            let context = claimed.context.as_deref();
            claimed.output = context.and_then(|context| run(context, claimed.index, &self.has_failed));
        }
    }

    /// Claims the next subcompaction, if one is left and none has failed.
    fn claim_next(&self) -> Option<RunningSubcompaction<'_, C>> {
        let mut state = self.state.lock();
        if state.next_index >= state.outputs.len() || state.error.is_some() {
            return None;
        }
        let context = state.context.clone()?;
        let index = state.next_index;
        state.next_index += 1;
        state.running += 1;
        Some(RunningSubcompaction { queue: self, index, context: Some(context), output: None })
    }

    /// Prevents further claims and waits until the claimed subcompactions have ended. Returns their
    /// outputs and the first error.
    pub(crate) fn finish(&self) -> (Vec<Option<CompactionOutput>>, Option<Error>) {
        let mut state = self.state.lock();
        state.context = None;
        while state.running > 0 {
            self.subcompaction_done.wait(&mut state);
        }
        (std::mem::take(&mut state.outputs), state.error.take())
    }
}

/// Subcompaction that a thread has claimed. It ends when this is dropped, also by a panic.
struct RunningSubcompaction<'a, C> {
    queue: &'a SubcompactionQueue<C>,
    index: usize,
    context: Option<Arc<C>>,
    output: Option<Result<CompactionOutput>>,
}

impl<C> Drop for RunningSubcompaction<'_, C> {
    fn drop(&mut self) {
        // Dropped before another thread can see the end of this subcompaction.
        self.context = None;
        let output = self.output.take().unwrap_or_else(|| Err(panic_error()));
        let mut state = self.queue.state.lock();
        state.running -= 1;
        match output {
            Ok(output) => state.outputs[self.index] = Some(output),
            Err(error) => {
                self.queue.has_failed.store(true, Ordering::Relaxed);
                // Later errors are consequences of the first one.
                state.error.get_or_insert(error);
            }
        }
        drop(state);
        self.queue.subcompaction_done.notify_all();
    }
}

/// Ends the compaction if its own thread panics: no claimed subcompaction may outlive it.
pub(crate) struct CancelOnPanic<'a, C>(pub(crate) &'a SubcompactionQueue<C>);

impl<C> Drop for CancelOnPanic<'_, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
            self.0.finish();
        }
    }
}
