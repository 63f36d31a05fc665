//! A crash at every call of the recovery from a crash.
//!
//! Points of a life are drawn. From each, either what a power cut left is recovered, or what a kill left, whose unsynced
//! part a later power cut still takes. The recovery runs on: a synced write, a close. At every call of all that, power
//! fails again, in some profiles, and the second recovery is judged.

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{State, describe_difference, fingerprint, parse_state};
use crate::crash_workload::file_usage_checker::FileUsageChecker;
use crate::crash_workload::script::{POST_CRASH_KEY, Script, ScriptParams};
use crate::crash_workload::script_runner::{CrashPoint, run_script};
use crate::crash_workload::store::CrashableStore;
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};

pub(super) const RECOVERY_CRASH: Harness = Harness {
    id: 11,
    name: "recovery-crash",
    property: "a crash during recovery loses no more than the first crash",
    check_cases: 10,
    time_share: 3,
    run,
};

/// Points that are recovered from in a case.
const POINTS_PER_CASE: u64 = 12;

/// Crashes at each call of a recovery.
const CRASHES_PER_CALL: usize = 3;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = ScriptParams::draw(&mut rng);
    let (how, mapped) = (OpenConfig::draw(&mut rng), !rng.one_in(4));
    let script = Script::draw(rng.next_u64(), shape);
    let mut points = sample_crash_points(&script, &how, mapped, &mut rng)?;
    points
        .drain(..)
        .try_for_each(|point| {
            let mut how = how.clone();
            how.settings.reuse_logs = rng.one_in(2);
            let second = RecoveryCrasher { script: &script, config: &how, mapped_logs: mapped, counters };
            second.crash_and_recover(point, &mut rng)
        })
        .map_err(|what| {
            format!("{what}\nlife: {}; mapped logs: {mapped}; {}", script.summary(), how.settings)
        })
}

/// Some points of the life, each as likely as any other.
fn sample_crash_points(
    script: &Script,
    how: &OpenConfig,
    mapped: bool,
    rng: &mut Rng,
) -> Result<Vec<CrashPoint>, String> {
    let files = Arc::new(MemFs::new());
    let world = FileUsageChecker::new(Arc::clone(&files), mapped) as Arc<dyn FileSystem>;
    let (mut kept, mut seen) = (Vec::<CrashPoint>::new(), 0);
    run_script::<TerraceStore>(script, how, &files, &world, &mut |point| {
        seen += 1;
        if (kept.len() as u64) < POINTS_PER_CASE {
            kept.push(point);
        } else if let Some(place) = kept.get_mut(rng.below(seen) as usize) {
            *place = point;
        }
        Ok(())
    })?;
    Ok(kept)
}

/// What the first crash left.
struct FirstCrash {
    files: MemFs,
    /// The writes that are in it, at least.
    min_writes: usize,
    /// At most.
    max_writes: usize,
    /// Of those, the ones that a power cut can't take any more; None if they all are.
    durable_writes: Option<usize>,
}

/// The recovery that is crashed, and the one after.
struct RecoveryCrasher<'a> {
    script: &'a Script,
    config: &'a OpenConfig,
    mapped_logs: bool,
    counters: &'a Counters,
}

impl RecoveryCrasher<'_> {
    fn crash_and_recover(&self, point: CrashPoint, rng: &mut Rng) -> Result<(), String> {
        let (call, progress) = (point.fs.mutation_count(), point.progress);
        let (name, first) = if rng.one_in(2) {
            let (least, safe) = (progress.acknowledged, Some(progress.durable));
            (
                "kill",
                FirstCrash {
                    files: point.fs,
                    min_writes: least,
                    max_writes: progress.started,
                    durable_writes: safe,
                },
            )
        } else {
            let profile = &POWER_LOSS_PROFILES[rng.below(POWER_LOSS_PROFILES.len() as u64) as usize];
            let files = point.fs.crash_clone(&profile.crash_with_seed(rng.next_u64()));
            (
                profile.name,
                FirstCrash {
                    files,
                    min_writes: progress.durable,
                    max_writes: progress.started,
                    durable_writes: None,
                },
            )
        };
        self.crash_recovery(first, rng).map_err(|what| format!("{name} at call {call}, {progress:?}; {what}"))
    }

    /// Recovers from the first crash, and crashes that.
    fn crash_recovery(&self, first: FirstCrash, rng: &mut Rng) -> Result<(), String> {
        let FirstCrash { files, min_writes: least, max_writes: most, durable_writes: safe } = first;
        let files = Arc::new(files);
        let guard = FileUsageChecker::new(Arc::clone(&files), self.mapped_logs);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        drop(files.take_crash_points());
        let mut store = TerraceStore::open(&world, self.config).map_err(|error| format!("open: {error}"))?;
        let found = parse_state(&store.entries()?, &self.script.values)?;
        let count = self.matching_write_count(&found, least, most)?;
        let opening = files.take_crash_points();
        store
            .write(&[(POST_CRASH_KEY, Some(self.script.values.bytes(self.script.post_crash_value)))], true)?;
        let writing = files.take_crash_points();
        store.close()?;
        let mut closing = files.take_crash_points();
        closing.push(files.fork());
        guard.check_violations()?;
        let before: Vec<State> =
            (safe.unwrap_or(count)..=count).map(|count| self.script.states[count].clone()).collect();
        let after = vec![self.script.state_with_post_crash_write(count)];
        let during: Vec<State> = before.iter().chain(&after).cloned().collect();
        for (what, points, allowed) in
            [("opening", opening, before), ("the first write", writing, during), ("closing", closing, after)]
        {
            for point in points {
                let call = point.mutation_count();
                self.crash_again(&point, &allowed, rng)
                    .map_err(|error| format!("write {count} recovered; {what}, call {call}, {error}"))?;
            }
        }
        Ok(())
    }

    fn crash_again(&self, point: &MemFs, allowed: &[State], rng: &mut Rng) -> Result<(), String> {
        for _ in 0..CRASHES_PER_CALL {
            let profile = &POWER_LOSS_PROFILES[rng.below(POWER_LOSS_PROFILES.len() as u64) as usize];
            let choices = point.power_losses(profile, 2, rng.next_u64());
            let Some(crash) = choices.get(rng.below(choices.len().max(1) as u64) as usize) else { continue };
            self.check_image(point.crash_clone(crash), allowed)
                .map_err(|error| format!("{}, {crash:?}: {error}", profile.name))?;
            self.counters.add(Counter::RecoveryCrashes, 1);
            self.counters.add(Counter::CrashImages, 1);
        }
        Ok(())
    }

    fn check_image(&self, image: MemFs, allowed: &[State]) -> Result<(), String> {
        let files = Arc::new(image);
        let guard = FileUsageChecker::new(files, self.mapped_logs);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        let store = TerraceStore::open(&world, self.config).map_err(|error| format!("open: {error}"))?;
        let found = parse_state(&store.entries()?, &self.script.values)?;
        if !allowed.contains(&found) {
            let (nearest, last) = (self.script.write_count_of(&found), &allowed[allowed.len() - 1]);
            return Err(format!("the state of write {nearest:?}: {}", describe_difference(last, &found)));
        }
        store.close()?;
        guard.check_violations()?;
        guard.check_no_leftovers()
    }

    fn matching_write_count(&self, found: &State, least: usize, most: usize) -> Result<usize, String> {
        let print = fingerprint(found);
        (least..=most).rev().find(|&count| self.script.fingerprints[count] == print).ok_or_else(|| {
            let what = describe_difference(&self.script.states[most], found);
            format!("the first recovery: expected {least} to {most} writes, against {most}: {what}")
        })
    }
}
