//! A crash at every call that changes a file, in every way that power fails.
//!
//! A case is a life of a database on files in memory. Before each mutating call of it, opening and closing included, the
//! files are copied with all that is pending. Each copy is killed, which loses nothing, and loses power in each profile
//! with one choice that the seed makes (where files are large, in some profiles); for one or two profiles, in turns, with
//! every kind of choice: nothing arrives, all, all but one, only one, the first few, any. One image in a thousand goes to
//! stock LevelDB in the end.

mod leveldb_check;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::file_usage_checker::FileUsageChecker;
use crate::crash_workload::image_checker::{ImageChecker, RecoveredImage};
use crate::crash_workload::script::{Script, ScriptParams};
use crate::crash_workload::script_runner::{CrashPoint, run_script};
use crate::crash_workload::store::CrashableStore;
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};

pub(super) const CRASH: Harness = Harness {
    id: 10,
    name: "crash",
    property: "a crash at any call leaves a prefix of the writes, including every synced one",
    check_cases: 12,
    time_share: 20,
    run,
};

/// How many of the crashes at a point are tried: the larger the files, the dearer each is.
#[derive(Debug, Clone, Copy)]
struct CrashSampling {
    /// Choices of each kind, for the profiles whose turn it is.
    choices_per_kind: usize,
    /// Profiles whose turn it is at a point.
    exhaustive_profiles: usize,
    /// Of the others, one in so many is tried.
    sample_one_in: usize,
}

/// Values of so many bytes in all make large files.
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
    let shape = ScriptParams::draw(&mut rng);
    let (how, mapped) = (OpenConfig::draw(&mut rng), !rng.one_in(4));
    let script = Script::draw(rng.next_u64(), shape);
    let mut after = |recovered: &RecoveredImage, raw: Option<&MemFs>| {
        leveldb_check::check_sampled_image(recovered, raw, &script, counters)
    };
    crash_everywhere::<TerraceStore>(&script, &how, mapped, seed, counters, &mut after).map_err(|what| {
        format!("{what}\nlife: {}; mapped logs: {mapped}; {}", script.summary(), how.settings)
    })
}

/// What else is done with an image that stood the test: the files afterwards, and the files before if it was a kill.
type PostCheck<'a> = &'a mut dyn FnMut(&RecoveredImage, Option<&MemFs>) -> Result<(), String>;

fn crash_everywhere<S: CrashableStore>(
    script: &Script,
    options: &S::Options,
    mapped: bool,
    seed: u64,
    counters: &Counters,
    after: PostCheck<'_>,
) -> Result<(), String> {
    let files = Arc::new(MemFs::new());
    let guard = FileUsageChecker::new(Arc::clone(&files), mapped);
    let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
    let mut judge = ImageChecker::<S>::new(script, options, mapped);
    let effort = CrashSampling::for_script(script);
    run_script::<S>(script, options, &files, &world, &mut |point| {
        counters.add(Counter::CrashPoints, 1);
        crash_at_point(&point, seed, effort, &mut judge, counters, after)
    })?;
    guard.check_violations()
}

/// Every crash at one point.
fn crash_at_point<S: CrashableStore>(
    point: &CrashPoint,
    seed: u64,
    effort: CrashSampling,
    judge: &mut ImageChecker<'_, S>,
    counters: &Counters,
    after: PostCheck<'_>,
) -> Result<(), String> {
    let call = point.fs.mutation_count();
    for (name, crash) in crashes_at_point(point, seed, effort) {
        let least = match crash {
            Crash::Kill => point.progress.acknowledged,
            Crash::PowerLoss(_) => point.progress.durable,
        };
        let image = point.fs.crash_clone(&crash);
        let raw = (crash == Crash::Kill).then(|| image.fork());
        let context = |what| format!("call {call}, {name}, {:?}\n{crash:?}\n{what}", point.progress);
        let judged = judge.check(image, least, point.progress.started).map_err(context)?;
        if let Some(recovered) = judged {
            counters.add(Counter::CrashImages, 1);
            after(&recovered, raw.as_ref()).map_err(context)?;
        }
    }
    Ok(())
}

fn crashes_at_point(point: &CrashPoint, seed: u64, effort: CrashSampling) -> Vec<(&'static str, Crash)> {
    let call = point.fs.mutation_count();
    let seed = seed ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut crashes = vec![("P0 kill", Crash::Kill)];
    let first = call as usize * effort.exhaustive_profiles % POWER_LOSS_PROFILES.len();
    for (row, profile) in POWER_LOSS_PROFILES.iter().enumerate() {
        let turn = (row + POWER_LOSS_PROFILES.len() - first) % POWER_LOSS_PROFILES.len();
        if turn < effort.exhaustive_profiles {
            let choices = point.fs.power_losses(profile, effort.choices_per_kind, seed);
            crashes.extend(choices.into_iter().map(|crash| (profile.name, crash)));
        } else if turn.is_multiple_of(effort.sample_one_in) {
            crashes.push((profile.name, profile.crash_with_seed(seed)));
        }
    }
    crashes
}
