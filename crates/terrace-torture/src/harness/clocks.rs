//! Clocks that jump and stand still, and background work that never gets its turn.
//!
//! A life is lived and crashed as in the attack `crash`, here and there, in a world where the wall clock steps a day at
//! every look, monotonic time stands still, and one of the two lanes of background work runs only when the other has
//! nothing to do. Nothing may depend on either.

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
use crate::crash_workload::file_usage_checker::FileUsageChecker;
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

/// One point in so many is crashed.
const CRASH_ONE_IN: u64 = 25;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape =
        ScriptParams { max_value_len: rng.pick(&[12_000, 20_000, 40_000]), ..ScriptParams::draw(&mut rng) };
    let first = rng.pick(&[Priority::Flush, Priority::Compaction]);
    let mut how = OpenConfig::draw(&mut rng);
    how.info_log = true;
    how.clock = Some(Arc::new(FaultyClock { reads: AtomicU64::new(0), behavior: rng.pick(CLOCK_BEHAVIORS) }));
    how.scheduler = Some(Arc::new(StarvingScheduler { preferred: first, jobs: Mutex::default() }));
    let script = Script::draw(rng.next_u64(), shape);
    let files = Arc::new(MemFs::new());
    let guard = FileUsageChecker::new(Arc::clone(&files), true);
    let mut judge = ImageChecker::<TerraceStore>::new(&script, &how, true);
    let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
    run_script::<TerraceStore>(&script, &how, &files, &world, &mut |point| {
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
        for (name, crash, least) in crashes {
            let judged = judge.check(point.fs.crash_clone(&crash), least, progress.started);
            let judged = judged.map_err(|what| format!("call {call}, {name}, {progress:?}: {what}"))?;
            counters.add(Counter::CrashImages, u64::from(judged.is_some()));
        }
        Ok(())
    })
    .and_then(|()| guard.check_violations())
    .map_err(|what| format!("{what}\nlife: {}; {:?} first; {}", script.summary(), first, how.settings))
}

#[derive(Debug, Clone, Copy)]
enum ClockBehavior {
    /// A day back at every look.
    Backward,
    /// A day forward.
    Forward,
    /// One and the other.
    Alternating,
    /// Always the same moment.
    Frozen,
}

const CLOCK_BEHAVIORS: &[ClockBehavior] =
    &[ClockBehavior::Backward, ClockBehavior::Forward, ClockBehavior::Alternating, ClockBehavior::Frozen];

/// A clock that cannot be relied on. Its monotonic time stands still, which is all that it promises.
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
        let looks = self.reads.fetch_add(1, Ordering::Relaxed);
        match self.behavior {
            ClockBehavior::Backward => START.saturating_sub(looks.saturating_mul(DAY)),
            ClockBehavior::Forward => START.saturating_add(looks.saturating_mul(DAY)),
            ClockBehavior::Alternating => START - looks % 2 * DAY,
            ClockBehavior::Frozen => START,
        }
    }

    fn sleep(&self, _pause: Duration) {}
}

/// Runs a job only when somebody waits, and one lane only when the other is empty.
struct StarvingScheduler {
    preferred: Priority,
    jobs: Mutex<Vec<(Priority, ScheduledJob)>>,
}

impl fmt::Debug for StarvingScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starving").field("first", &self.preferred).finish_non_exhaustive()
    }
}

impl Scheduler for StarvingScheduler {
    fn schedule(&self, lane: Priority, job: ScheduledJob) {
        self.jobs.lock().push((lane, job));
    }

    fn run_one_here(&self) -> bool {
        let mut jobs = self.jobs.lock();
        if jobs.is_empty() {
            return false;
        }
        let next = jobs.iter().position(|(lane, _)| *lane == self.preferred).unwrap_or(0);
        let (_, job) = jobs.remove(next);
        drop(jobs);
        job();
        true
    }
}
