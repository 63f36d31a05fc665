//! Runs cases on every core, until so many are done or so much time is gone.

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

/// When a run has had enough. A case that has begun is finished.
#[derive(Debug, Clone, Copy)]
pub enum StopCondition {
    /// That many cases are done.
    Cases(u64),
    /// That much time is gone.
    Elapsed(Duration),
}

/// A case that showed a fault.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The attack's name.
    pub harness: &'static str,
    /// Repeats it.
    pub seed: Seed,
    /// What was found.
    pub message: String,
}

/// What came of running an attack.
#[derive(Debug, Default)]
pub struct HarnessOutcome {
    /// Cases that were run.
    pub cases: u64,
    /// Those that showed a fault.
    pub violations: Vec<Violation>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs cases of `harness`, the first of them drawn from `start`, on `threads` threads. After [`Tally::max_violations`]
/// violations it has made its point.
pub fn run_harness(
    harness: &'static Harness,
    start: u64,
    until: StopCondition,
    threads: usize,
    tally: &Counters,
) -> HarnessOutcome {
    let began = Instant::now();
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let violations = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let enough = match until {
                StopCondition::Cases(cases) => index >= cases,
                StopCondition::Elapsed(time) => began.elapsed() >= time,
            };
            if enough || violations.lock().len() >= tally.max_violations() {
                return;
            }
            let found = run_case(harness, Seed::nth(harness, start, index), tally);
            done.fetch_add(1, Ordering::Relaxed);
            violations.lock().extend(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(worker);
        }
    });
    HarnessOutcome {
        cases: done.load(Ordering::Relaxed),
        violations: violations.into_inner(),
        elapsed: began.elapsed(),
    }
}

/// Runs one case.
pub fn run_case(harness: &'static Harness, seed: Seed, tally: &Counters) -> Option<Violation> {
    let what = match catch_unwind(AssertUnwindSafe(|| (harness.run)(seed.value(), tally))) {
        Ok(Ok(())) => return None,
        Ok(Err(what)) => what,
        Err(panic) => format!("panic: {}", panic_message(panic.as_ref())),
    };
    Some(Violation { harness: harness.name, seed, message: what })
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

thread_local! {
    static PANICS_SILENCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; panics of this thread meanwhile are not printed, for they are caught and it repeats them many times.
pub(crate) fn with_silenced_panics<T>(work: impl FnOnce() -> T) -> T {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !PANICS_SILENCED.get() {
                loud(info);
            }
        }));
    });
    PANICS_SILENCED.set(true);
    let done = work();
    PANICS_SILENCED.set(false);
    done
}
