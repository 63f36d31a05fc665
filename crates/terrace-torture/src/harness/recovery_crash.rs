//! A crash at every call of the recovery from a crash.
//!
//! Points of a workload are drawn. From each point, either a power cut or a kill is recovered.
//! After a kill, a later power cut may still take unsynced writes. The recovery continues with a
//! synced write and a close. At each call of this, the power fails again in some profiles, and the
//! second recovery is checked.

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{State, describe_difference, fingerprint, parse_state};
use crate::crash_workload::file_usage_checker::{FileUsageChecker, LogKind};
use crate::crash_workload::script::{POST_CRASH_KEY, Script, ScriptParams};
use crate::crash_workload::script_runner::{CrashPoint, run_script};
use crate::crash_workload::store::CrashableStore;
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};
use crate::database_under_test::max_mappings;

pub(super) const RECOVERY_CRASH: Harness = Harness {
    id: 11,
    name: "recovery-crash",
    property: "a crash during recovery loses no more than the first crash",
    check_cases: 10,
    time_share: 3,
    run,
};

/// Number of points of a case from which the database recovers.
const POINTS_PER_CASE: u64 = 12;

/// Number of crashes at each call of a recovery.
const CRASHES_PER_CALL: usize = 3;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let params = ScriptParams::draw(&mut rng);
    let config = OpenConfig::draw(&mut rng);
    let logs = LogKind::draw_without_gaps(&mut rng);
    let script = Script::draw(rng.next_u64(), params);
    for point in sample_crash_points(&script, &config, logs, &mut rng)? {
        let mut config = config.clone();
        config.settings.reuse_logs = rng.one_in(2);
        let crasher = RecoveryCrasher { script: &script, config: &config, logs, counters };
        crasher.crash_and_recover(point, &mut rng).map_err(|message| {
            format!("{message}\nworkload: {}; {logs}; {}", script.summary(), config.settings)
        })?;
    }
    Ok(())
}

/// Draws crash points of the workload, with equal probability.
fn sample_crash_points(
    script: &Script,
    config: &OpenConfig,
    logs: LogKind,
    rng: &mut Rng,
) -> Result<Vec<CrashPoint>, String> {
    let files = Arc::new(MemFs::new());
    files.set_max_mappings(max_mappings(config.seed));
    let fs = FileUsageChecker::new(Arc::clone(&files), logs) as Arc<dyn FileSystem>;
    let mut sample = Vec::<CrashPoint>::new();
    let mut point_count = 0;
    run_script::<TerraceStore>(script, config, &files, &fs, &mut |point| {
        point_count += 1;
        if (sample.len() as u64) < POINTS_PER_CASE {
            sample.push(point);
        } else if let Some(replaced) = sample.get_mut(rng.below(point_count) as usize) {
            *replaced = point;
        }
        Ok(())
    })?;
    Ok(sample)
}

/// Files after the first crash.
struct FirstCrash {
    files: MemFs,
    /// Minimum number of writes in the files.
    min_writes: usize,
    /// Maximum number of writes in the files.
    max_writes: usize,
    /// Number of durable writes, or None if all writes in the files are durable.
    durable_writes: Option<usize>,
}

/// Crashes the recovery, and checks the next one.
struct RecoveryCrasher<'a> {
    script: &'a Script,
    config: &'a OpenConfig,
    logs: LogKind,
    counters: &'a Counters,
}

impl RecoveryCrasher<'_> {
    fn crash_and_recover(&self, point: CrashPoint, rng: &mut Rng) -> Result<(), String> {
        let call = point.fs.mutation_count();
        let progress = point.progress;
        let (name, first) = if rng.one_in(2) {
            (
                "kill",
                FirstCrash {
                    files: point.fs,
                    min_writes: progress.acknowledged,
                    max_writes: progress.started,
                    durable_writes: Some(progress.durable),
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
        self.crash_recovery(first, rng)
            .map_err(|message| format!("{name} at call {call}, {progress:?}; {message}"))
    }

    /// Recovers from the first crash, with another crash at each call.
    fn crash_recovery(&self, first: FirstCrash, rng: &mut Rng) -> Result<(), String> {
        let FirstCrash { files, min_writes, max_writes, durable_writes } = first;
        let files = Arc::new(files);
        let checker = FileUsageChecker::new(Arc::clone(&files), self.logs);
        let fs = Arc::clone(&checker) as Arc<dyn FileSystem>;
        drop(files.take_crash_points());
        let mut store = TerraceStore::open(&fs, self.config).map_err(|error| format!("open: {error}"))?;
        let found = parse_state(&store.entries()?, &self.script.values)?;
        let count = self.matching_write_count(&found, min_writes, max_writes)?;
        let open_points = files.take_crash_points();
        store
            .write(&[(POST_CRASH_KEY, Some(self.script.values.bytes(self.script.post_crash_value)))], true)?;
        let write_points = files.take_crash_points();
        store.close()?;
        let mut close_points = files.take_crash_points();
        close_points.push(files.fork());
        checker.check_violations()?;
        let before: Vec<State> = (durable_writes.unwrap_or(count)..=count)
            .map(|count| self.script.states[count].clone())
            .collect();
        let after = vec![self.script.state_with_post_crash_write(count)];
        let during: Vec<State> = before.iter().chain(&after).cloned().collect();
        for (phase, points, allowed) in [
            ("open", open_points, before),
            ("first write", write_points, during),
            ("close", close_points, after),
        ] {
            for point in points {
                let call = point.mutation_count();
                self.crash_again(&point, &allowed, rng)
                    .map_err(|error| format!("write {count} recovered; {phase}, call {call}, {error}"))?;
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
        let checker = FileUsageChecker::new(files, self.logs);
        let fs = Arc::clone(&checker) as Arc<dyn FileSystem>;
        let store = TerraceStore::open(&fs, self.config).map_err(|error| format!("open: {error}"))?;
        let found = parse_state(&store.entries()?, &self.script.values)?;
        if !allowed.contains(&found) {
            let writes = self.script.write_count_of(&found);
            let difference = describe_difference(&allowed[allowed.len() - 1], &found);
            return Err(format!("found the state after write {writes:?}: {difference}"));
        }
        store.close()?;
        checker.check_violations()?;
        checker.check_no_leftovers()
    }

    fn matching_write_count(&self, found: &State, min: usize, max: usize) -> Result<usize, String> {
        let found_fingerprint = fingerprint(found);
        let count = (min..=max).rev().find(|&count| self.script.fingerprints[count] == found_fingerprint);
        count.ok_or_else(|| {
            let difference = describe_difference(&self.script.states[max], found);
            format!("first recovery: expected {min} to {max} writes; compared with {max}: {difference}")
        })
    }
}
