//! A crash at every call that changes a file, in every power-loss profile.
//!
//! A case is a workload on a database with files in memory. Before each mutating call, including
//! those of open and close, the files are copied with all unsynced changes. One copy is killed,
//! which loses nothing. The others lose power, in each profile with one random choice of lost
//! writes, or in some profiles if the files are large. One or two profiles in rotation use every
//! kind of choice: no write survives, all, all but one, only one, the first few, a random subset.
//! Stock LevelDB opens one image in a thousand.
//!
//! `settle-crash` does so only after the last write of a load: at each call of the compactions that
//! bring the levels to their target sizes.

mod leveldb_check;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::file_usage_checker::{FileUsageChecker, LogKind};
use crate::crash_workload::image_checker::{ImageChecker, RecoveredImage};
use crate::crash_workload::script::{Script, ScriptParams};
use crate::crash_workload::script_runner::{CrashPoint, run_script};
use crate::crash_workload::store::CrashableStore;
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};
use crate::database_under_test::max_mappings;

pub(super) const CRASH: Harness = Harness {
    id: 10,
    name: "crash",
    property: "a crash at any call leaves a prefix of the writes, including every synced one",
    check_cases: 12,
    time_share: 20,
    run,
};

pub(super) const SETTLE_CRASH: Harness = Harness {
    id: 16,
    name: "settle-crash",
    property: "a crash at any call of the compactions after a load loses no durable write",
    check_cases: 6,
    time_share: 2,
    run: run_settle,
};

/// Number of crashes at a point. Larger files make each crash more expensive.
#[derive(Debug, Clone, Copy)]
struct CrashSampling {
    /// Choices of each kind, for the exhaustive profiles of a point.
    choices_per_kind: usize,
    /// Number of exhaustive profiles at a point, chosen in rotation.
    exhaustive_profiles: usize,
    /// One of this many other profiles is tried.
    sample_one_in: usize,
}

/// Total length of the values in bytes above which a script makes large files.
const LARGE_SCRIPT_BYTES: usize = 150 << 10;

impl CrashSampling {
    fn for_script(script: &Script) -> CrashSampling {
        if script.values.total_bytes() < LARGE_SCRIPT_BYTES {
            CrashSampling { choices_per_kind: 2, exhaustive_profiles: 2, sample_one_in: 1 }
        } else {
            CrashSampling { choices_per_kind: 1, exhaustive_profiles: 1, sample_one_in: 4 }
        }
    }
}

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let params = ScriptParams::draw(&mut rng);
    let config = OpenConfig::draw(&mut rng);
    let logs = LogKind::draw(&mut rng);
    let script = Script::draw(rng.next_u64(), params);
    crash_terrace(&script, &config, logs, 0, seed, counters)
}

fn run_settle(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut config = OpenConfig::draw(&mut rng);
    config.settings.leveled = false;
    config.settings.write_buffer_size = 64 << 10;
    let logs = LogKind::draw(&mut rng);
    let script = Script::draw_load(rng.next_u64());
    let writes = script.states.len() - 1;
    crash_terrace(&script, &config, logs, writes, seed, counters)
}

/// Crashes a database of Terrace at each call after the start of write number `from_write`.
fn crash_terrace(
    script: &Script,
    config: &OpenConfig,
    logs: LogKind,
    from_write: usize,
    seed: u64,
    counters: &Counters,
) -> Result<(), String> {
    let mut post_check = |recovered: &RecoveredImage, raw: Option<&MemFs>| {
        if config.settings.zstd {
            return Ok(());
        }
        leveldb_check::check_sampled_image(recovered, raw, script, counters)
    };
    crash_everywhere::<TerraceStore>(script, config, logs, from_write, seed, counters, &mut post_check)
        .map_err(|message| format!("{message}\nworkload: {}; {logs}; {}", script.summary(), config.settings))
}

/// Additional check of a recovered image. Its second argument is the image before recovery, if the
/// crash was a kill.
type PostCheck<'a> = &'a mut dyn FnMut(&RecoveredImage, Option<&MemFs>) -> Result<(), String>;

fn crash_everywhere<S: CrashableStore>(
    script: &Script,
    options: &S::Options,
    logs: LogKind,
    from_write: usize,
    seed: u64,
    counters: &Counters,
    post_check: PostCheck<'_>,
) -> Result<(), String> {
    let files = Arc::new(MemFs::new());
    files.set_max_mappings(max_mappings(seed));
    let usage_checker = FileUsageChecker::new(Arc::clone(&files), logs);
    let fs = Arc::clone(&usage_checker) as Arc<dyn FileSystem>;
    let mut image_checker = ImageChecker::<S>::new(script, options, logs);
    let sampling = CrashSampling::for_script(script);
    run_script::<S>(script, options, &files, &fs, &mut |point| {
        if point.progress.started < from_write {
            return Ok(());
        }
        counters.add(Counter::CrashPoints, 1);
        crash_at_point(&point, seed, sampling, &mut image_checker, counters, post_check)
    })?;
    usage_checker.check_violations()
}

/// Tries all crashes at one point.
fn crash_at_point<S: CrashableStore>(
    point: &CrashPoint,
    seed: u64,
    sampling: CrashSampling,
    image_checker: &mut ImageChecker<'_, S>,
    counters: &Counters,
    post_check: PostCheck<'_>,
) -> Result<(), String> {
    let call = point.fs.mutation_count();
    for (name, crash) in crashes_at_point(point, seed, sampling) {
        let min_writes = match crash {
            Crash::Kill => point.progress.acknowledged,
            Crash::PowerLoss(_) => point.progress.durable,
        };
        let image = point.fs.crash_clone(&crash);
        let raw = (crash == Crash::Kill).then(|| image.fork());
        let context = |message| format!("call {call}, {name}, {:?}\n{crash:?}\n{message}", point.progress);
        let writes = min_writes..=point.progress.started;
        let recovered = image_checker.check(image, writes, crash == Crash::Kill).map_err(context)?;
        if let Some(recovered) = recovered {
            counters.add(Counter::CrashImages, 1);
            post_check(&recovered, raw.as_ref()).map_err(context)?;
        }
    }
    Ok(())
}

fn crashes_at_point(point: &CrashPoint, seed: u64, sampling: CrashSampling) -> Vec<(&'static str, Crash)> {
    let call = point.fs.mutation_count();
    let seed = seed ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut crashes = vec![("P0 kill", Crash::Kill)];
    let first = call as usize * sampling.exhaustive_profiles % POWER_LOSS_PROFILES.len();
    for (index, profile) in POWER_LOSS_PROFILES.iter().enumerate() {
        let rotation = (index + POWER_LOSS_PROFILES.len() - first) % POWER_LOSS_PROFILES.len();
        if rotation < sampling.exhaustive_profiles {
            let choices = point.fs.power_losses(profile, sampling.choices_per_kind, seed);
            crashes.extend(choices.into_iter().map(|crash| (profile.name, crash)));
        } else if rotation.is_multiple_of(sampling.sample_one_in) {
            crashes.push((profile.name, profile.crash_with_seed(seed)));
        }
    }
    crashes
}
