//! Clocks that jump or stand still, and starved background jobs.
//!
//! A workload runs and crashes as in the attack `crash`, at sampled calls. The wall clock steps by
//! a day at each read, monotonic time stands still, and one of the two job queues runs only when
//! the other is empty. No result may depend on either.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{Clock, FileSystem, Priority, ScheduledJob, Scheduler};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::file_usage_checker::{FileUsageChecker, LogKind};
use crate::crash_workload::image_checker::ImageChecker;
use crate::crash_workload::script::{Script, ScriptParams};
use crate::crash_workload::script_runner::run_script;
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};

pub(super) const CLOCKS: Harness = Harness {
    id: 14,
    name: "clocks",
    property: "no promise depends on a clock or on when background jobs run",
    check_cases: 40,
    time_share: 1,
    run,
};

/// One call of this many is crashed.
const CRASH_ONE_IN: u64 = 25;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let params =
        ScriptParams { max_value_len: rng.pick(&[12_000, 20_000, 40_000]), ..ScriptParams::draw(&mut rng) };
    let preferred = rng.pick(&[Priority::Flush, Priority::Compaction]);
    let mut config = OpenConfig::draw(&mut rng);
    config.info_log = true;
    config.clock =
        Some(Arc::new(FaultyClock { reads: AtomicU64::new(0), behavior: rng.pick(CLOCK_BEHAVIORS) }));
    config.scheduler = Some(Arc::new(StarvingScheduler { preferred, jobs: Mutex::default() }));
    let script = Script::draw(rng.next_u64(), params);
    let files = Arc::new(MemFs::new());
    let usage_checker = FileUsageChecker::new(Arc::clone(&files), LogKind::Mapped);
    let mut image_checker = ImageChecker::<TerraceStore>::new(&script, &config, LogKind::Mapped);
    let fs = Arc::clone(&usage_checker) as Arc<dyn FileSystem>;
    run_script::<TerraceStore>(&script, &config, &files, &fs, &mut |point| {
        let call = point.fs.mutation_count();
        if call % CRASH_ONE_IN != seed % CRASH_ONE_IN {
            return Ok(());
        }
        counters.add(Counter::CrashPoints, 1);
        let progress = point.progress;
        let mut crashes = vec![("P0 kill", Crash::Kill, progress.acknowledged)];
        crashes.extend(
            POWER_LOSS_PROFILES
                .iter()
                .map(|row| (row.name, row.crash_with_seed(seed ^ call), progress.durable)),
        );
        for (name, crash, min_writes) in crashes {
            let recovered = image_checker
                .check(point.fs.crash_clone(&crash), min_writes..=progress.started, crash == Crash::Kill)
                .map_err(|message| format!("call {call}, {name}, {progress:?}: {message}"))?;
            counters.add(Counter::CrashImages, u64::from(recovered.is_some()));
        }
        Ok(())
    })
    .and_then(|()| usage_checker.check_violations())
    .map_err(|message| {
        format!("{message}\nworkload: {}; {preferred:?} first; {}", script.summary(), config.settings)
    })
}

#[derive(Debug, Clone, Copy)]
enum ClockBehavior {
    /// Steps back by a day at each read.
    Backward,
    /// Steps forward by a day at each read.
    Forward,
    /// Alternates between two days.
    Alternating,
    /// Stands still.
    Frozen,
}

const CLOCK_BEHAVIORS: &[ClockBehavior] =
    &[ClockBehavior::Backward, ClockBehavior::Forward, ClockBehavior::Alternating, ClockBehavior::Frozen];

/// An unreliable clock. Its monotonic time stands still, which the interface allows.
#[derive(Debug)]
struct FaultyClock {
    reads: AtomicU64,
    behavior: ClockBehavior,
}

impl Clock for FaultyClock {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_us(&self) -> u64 {
        const DAY: u64 = 24 * 3600 * 1_000_000;
        const START: u64 = 20_000 * DAY;
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        match self.behavior {
            ClockBehavior::Backward => START.saturating_sub(reads.saturating_mul(DAY)),
            ClockBehavior::Forward => START.saturating_add(reads.saturating_mul(DAY)),
            ClockBehavior::Alternating => START - reads % 2 * DAY,
            ClockBehavior::Frozen => START,
        }
    }

    fn sleep(&self, _pause: Duration) {}
}

/// Runs a job only when a thread waits for one, and a job of the other queue only when the
/// preferred one is empty.
struct StarvingScheduler {
    preferred: Priority,
    jobs: Mutex<Vec<(Priority, ScheduledJob)>>,
}

impl fmt::Debug for StarvingScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StarvingScheduler").field("preferred", &self.preferred).finish_non_exhaustive()
    }
}

impl Scheduler for StarvingScheduler {
    fn schedule(&self, priority: Priority, job: ScheduledJob) {
        self.jobs.lock().push((priority, job));
    }

    fn run_one_here(&self) -> bool {
        let mut jobs = self.jobs.lock();
        if jobs.is_empty() {
            return false;
        }
        let next = jobs.iter().position(|(priority, _)| *priority == self.preferred).unwrap_or(0);
        let (_, job) = jobs.remove(next);
        drop(jobs);
        job();
        true
    }
}
