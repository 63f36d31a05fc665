//! Runs models under loom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::model::Builder;

/// Maximum number of steps of one execution. Beyond it, the threads are in an endless loop.
const MAX_BRANCHES: usize = 100_000;

/// Runs `model` in every schedule and returns the number of schedules.
///
/// `preemptions` limits the number of preemptions of a schedule: points at which a runnable thread
/// is paused for another one. A panic of the model is a panic of this function.
pub fn explore(preemptions: Option<usize>, model: fn()) -> u64 {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = MAX_BRANCHES;
    let executions = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    executions.load(Ordering::Relaxed)
}
