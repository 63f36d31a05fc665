//! Running a model under loom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::model::Builder;

/// Steps of one execution, at most: beyond it, threads run in circles.
const MAX_BRANCHES: usize = 100_000;

/// Runs `model` in every schedule there is, and says how many that were; or in every one with at most so many
/// `preemptions`, places where a thread that could go on is held up for another. A panic of the model is a panic here.
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
