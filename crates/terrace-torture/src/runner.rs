//! Runs the cases of an attack on several threads, up to a number of cases or a time limit.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::counters::Counters;
use crate::harness::Harness;
use crate::seed::Seed;

/// Condition that ends a run. Started cases are always finished.
#[derive(Debug, Clone, Copy)]
pub enum StopCondition {
    /// Stop after this number of cases.
    Cases(u64),
    /// Start no case after this time.
    Elapsed(Duration),
}

impl StopCondition {
    /// Returns true if a run that began at `started` must not start its case `index`.
    fn is_met(self, index: u64, started: Instant) -> bool {
        match self {
            StopCondition::Cases(cases) => index >= cases,
            StopCondition::Elapsed(time) => started.elapsed() >= time,
        }
    }
}

/// Case that failed.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Name of the attack.
    pub harness: &'static str,
    /// Seed that repeats the case.
    pub seed: Seed,
    /// Description of the failure.
    pub message: String,
}

/// Outcome of an attack.
#[derive(Debug, Default)]
pub struct HarnessOutcome {
    /// Number of cases that ran.
    pub cases: u64,
    /// Cases that failed.
    pub violations: Vec<Violation>,
    /// Duration of the run.
    pub elapsed: Duration,
}

/// Runs cases of `harness` on `threads` threads, with seeds drawn from `base_seed`.
///
/// The run also ends after `Counters::max_violations` violations.
pub fn run_harness(
    harness: &'static Harness,
    base_seed: u64,
    until: StopCondition,
    threads: usize,
    counters: &Counters,
) -> HarnessOutcome {
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let violations = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if until.is_met(index, started) || violations.lock().len() >= counters.max_violations() {
                        return;
                    }
                    let violation = run_case(harness, Seed::nth(harness, base_seed, index), counters);
                    done.fetch_add(1, Ordering::Relaxed);
                    violations.lock().extend(violation);
                }
            });
        }
    });
    HarnessOutcome {
        cases: done.load(Ordering::Relaxed),
        violations: violations.into_inner(),
        elapsed: started.elapsed(),
    }
}

/// Runs one case and returns its violation, if it fails or panics.
pub fn run_case(harness: &'static Harness, seed: Seed, counters: &Counters) -> Option<Violation> {
    let message = match catch_unwind(AssertUnwindSafe(|| (harness.run)(seed.value(), counters))) {
        Ok(Ok(())) => return None,
        Ok(Err(message)) => message,
        Err(panic) => format!("panic: {}", panic_message(panic.as_ref())),
    };
    Some(Violation { harness: harness.name, seed, message })
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

thread_local! {
    static PANICS_SILENCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without printing panics of this thread, because the caller catches and repeats them.
pub(crate) fn with_silenced_panics<T>(work: impl FnOnce() -> T) -> T {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !PANICS_SILENCED.get() {
                default_hook(info);
            }
        }));
    });
    PANICS_SILENCED.set(true);
    let result = work();
    PANICS_SILENCED.set(false);
    result
}
