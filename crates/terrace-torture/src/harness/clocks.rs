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
use terrace_env::mem::{Crash, MemFs, PROFILES};
use terrace_env::{Clock, FileSystem, Job, Lane, Scheduler};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::life::guard::Guard;
use crate::life::judge::Judge;
use crate::life::play::play;
use crate::life::script::{Script, Shape};
use crate::life::terrace::{How, Terrace};
use crate::tally::{Figure, Tally};

pub(super) const CLOCKS: Harness = Harness {
    id: 14,
    name: "clocks",
    shows: "no promise depends on a clock, or on when background work gets its turn",
    check: 40,
    share: 1,
    run,
};

/// One point in so many is crashed.
const STRIDE: u64 = 25;

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = Shape { longest: rng.pick(&[12_000, 20_000, 40_000]), ..Shape::draw(&mut rng) };
    let first = rng.pick(&[Lane::Flush, Lane::Compaction]);
    let mut how = How::draw(&mut rng);
    how.info_log = true;
    how.clock = Some(Arc::new(BadClock { looks: AtomicU64::new(0), habit: rng.pick(HABITS) }));
    how.scheduler = Some(Arc::new(Starving { first, jobs: Mutex::default() }));
    let script = Script::draw(rng.next_u64(), shape);
    let files = Arc::new(MemFs::new());
    let guard = Guard::new(Arc::clone(&files), true);
    let mut judge = Judge::<Terrace>::new(&script, &how, true);
    let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
    play::<Terrace>(&script, &how, &files, &world, &mut |point| {
        let call = point.fs.mutations();
        if call % STRIDE != seed % STRIDE {
            return Ok(());
        }
        tally.add(Figure::CrashPoints, 1);
        let progress = point.progress;
        let mut crashes = vec![("P0 kill", Crash::Kill, progress.acknowledged)];
        crashes.extend(PROFILES.iter().map(|row| (row.name, row.with_seed(seed ^ call), progress.durable)));
        for (name, crash, least) in crashes {
            let judged = judge.judge(point.fs.crash(&crash), least, progress.begun);
            let judged = judged.map_err(|what| format!("call {call}, {name}, {progress:?}: {what}"))?;
            tally.add(Figure::CrashImages, u64::from(judged.is_some()));
        }
        Ok(())
    })
    .and_then(|()| guard.verdict())
    .map_err(|what| format!("{what}\nlife: {}; {:?} first; {}", script.summary(), first, how.settings))
}

#[derive(Debug, Clone, Copy)]
enum Habit {
    /// A day back at every look.
    Back,
    /// A day forward.
    Forward,
    /// One and the other.
    ToAndFro,
    /// Always the same moment.
    Frozen,
}

const HABITS: &[Habit] = &[Habit::Back, Habit::Forward, Habit::ToAndFro, Habit::Frozen];

/// A clock that cannot be relied on. Its monotonic time stands still, which is all that it promises.
#[derive(Debug)]
struct BadClock {
    looks: AtomicU64,
    habit: Habit,
}

impl Clock for BadClock {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_us(&self) -> u64 {
        const DAY: u64 = 24 * 3600 * 1_000_000;
        const START: u64 = 20_000 * DAY;
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        match self.habit {
            Habit::Back => START.saturating_sub(looks.saturating_mul(DAY)),
            Habit::Forward => START.saturating_add(looks.saturating_mul(DAY)),
            Habit::ToAndFro => START - looks % 2 * DAY,
            Habit::Frozen => START,
        }
    }

    fn sleep(&self, _pause: Duration) {}
}

/// Runs a job only when somebody waits, and one lane only when the other is empty.
struct Starving {
    first: Lane,
    jobs: Mutex<Vec<(Lane, Job)>>,
}

impl fmt::Debug for Starving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starving").field("first", &self.first).finish_non_exhaustive()
    }
}

impl Scheduler for Starving {
    fn schedule(&self, lane: Lane, job: Job) {
        self.jobs.lock().push((lane, job));
    }

    fn assist(&self) -> bool {
        let mut jobs = self.jobs.lock();
        if jobs.is_empty() {
            return false;
        }
        let next = jobs.iter().position(|(lane, _)| *lane == self.first).unwrap_or(0);
        let (_, job) = jobs.remove(next);
        drop(jobs);
        job();
        true
    }
}
