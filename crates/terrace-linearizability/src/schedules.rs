//! `schedules SEED COUNT`: runs the small scenario of a seed under COUNT schedules of the same
//! seed.
//!
//! Half of the schedules switch threads at random at every lock, atomic and file call. The others
//! follow random priorities with two random change points. They find each fault that needs three
//! ordered steps with a known probability (PCT, Burckhardt et al., ASPLOS 2010).
//!
//! Prints `SCHEDULES DIGEST`. After a violation, prints it and exits with 1.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use terrace_linearizability::runner::run_scenario;
use terrace_linearizability::scenario::{SMALL_SCENARIO, Scenario};

/// Ordered steps that a fault may need for PCT to find it with its known probability.
const PCT_DEPTH: usize = 3;
/// Bound far above the steps of a small scenario. More steps mean a livelock.
const MAX_STEPS: usize = 200_000;
/// Stack of a thread in bytes. The engine's frames exceed shuttle's default.
const STACK_SIZE: usize = 1 << 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(seed)), Some(Ok(count))) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: schedules SEED COUNT");
        return ExitCode::from(2);
    };
    let half = (count / 2) as usize;
    let done = [
        explore(seed, "random", RandomScheduler::new_from_seed(seed, half)),
        explore(seed, "PCT", PctScheduler::new_from_seed(seed, PCT_DEPTH, half)),
    ];
    match done.into_iter().sum::<Result<ScheduleTotals, String>>() {
        Ok(ScheduleTotals { schedules, digest }) => {
            println!("{schedules} {digest:016x}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}\nThe scenario: {:#?}", Scenario::draw(seed, &SMALL_SCENARIO));
            ExitCode::FAILURE
        }
    }
}

/// Number of schedules, and a hash of all results.
struct ScheduleTotals {
    schedules: u64,
    digest: u64,
}

impl std::iter::Sum for ScheduleTotals {
    fn sum<I: Iterator<Item = ScheduleTotals>>(parts: I) -> ScheduleTotals {
        parts.fold(ScheduleTotals { schedules: 0, digest: 0 }, |a, b| ScheduleTotals {
            schedules: a.schedules + b.schedules,
            digest: a.digest.rotate_left(1) ^ b.digest,
        })
    }
}

fn explore(seed: u64, name: &str, scheduler: impl Scheduler + 'static) -> Result<ScheduleTotals, String> {
    let mut config = Config::new();
    config.stack_size = STACK_SIZE;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    // The seed repeats the failure.
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let schedules = Arc::new(AtomicU64::new(0));
    let digest = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&schedules);
    let sum = Arc::clone(&digest);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(move || run_schedule(seed, &count, &sum))
    }));
    let schedules = schedules.load(Ordering::Relaxed);
    match ran {
        Ok(_) => Ok(ScheduleTotals { schedules, digest: digest.load(Ordering::Relaxed) }),
        Err(panic) => Err(format!("{name} schedule {schedules}: {}", panic_message(&*panic))),
    }
}

/// Runs the scenario of `seed` once. Counts the schedule and adds the result to `digest`.
fn run_schedule(seed: u64, schedules: &AtomicU64, digest: &AtomicU64) {
    let number = schedules.fetch_add(1, Ordering::Relaxed) + 1;
    match run_scenario(&Scenario::draw(seed, &SMALL_SCENARIO)) {
        Ok(outcome) => drop(digest.fetch_xor(outcome.digest.wrapping_mul(number | 1), Ordering::Relaxed)),
        Err(violation) => std::panic::panic_any(violation),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
