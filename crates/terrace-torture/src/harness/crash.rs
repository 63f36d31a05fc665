//! A crash at every call that changes a file, in every way that power fails.
//!
//! A case is a life of a database on files in memory. Before each mutating call of it, opening and closing included, the
//! files are copied with all that is pending. Each copy is killed, which loses nothing, and loses power in each profile
//! with one choice that the seed makes (where files are large, in some profiles); for one or two profiles, in turns, with
//! every kind of choice: nothing arrives, all, all but one, only one, the first few, any. One image in a thousand goes to
//! stock LevelDB in the end.

mod stock;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{Crash, MemFs, PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::life::guard::Guard;
use crate::life::judge::{Judge, Recovered};
use crate::life::play::{Point, play};
use crate::life::script::{Script, Shape};
use crate::life::store::Store;
use crate::life::terrace::{How, Terrace};
use crate::tally::{Figure, Tally};

pub(super) const CRASH: Harness = Harness {
    id: 10,
    name: "crash",
    shows: "a crash at any call leaves a prefix of the writes, and every synced one",
    check: 12,
    share: 20,
    run,
};

/// How many of the crashes at a point are tried: the larger the files, the dearer each is.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Choices of each kind, for the profiles whose turn it is.
    few: usize,
    /// Profiles whose turn it is at a point.
    in_turn: usize,
    /// Of the others, one in so many is tried.
    one_in: usize,
}

/// Values of so many bytes in all make large files.
const LARGE: usize = 150 << 10;

impl Effort {
    fn of(script: &Script) -> Effort {
        if script.values.total() < LARGE {
            Effort { few: 2, in_turn: 2, one_in: 1 }
        } else {
            Effort { few: 1, in_turn: 1, one_in: 4 }
        }
    }
}

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = Shape::draw(&mut rng);
    let (how, mapped) = (How::draw(&mut rng), !rng.one_in(4));
    let script = Script::draw(rng.next_u64(), shape);
    let mut after =
        |recovered: &Recovered, raw: Option<&MemFs>| stock::sample(recovered, raw, &script, tally);
    crash_everywhere::<Terrace>(&script, &how, mapped, seed, tally, &mut after).map_err(|what| {
        format!("{what}\nlife: {}; mapped logs: {mapped}; {}", script.summary(), how.settings)
    })
}

/// What else is done with an image that stood the test: the files afterwards, and the files before if it was a kill.
type After<'a> = &'a mut dyn FnMut(&Recovered, Option<&MemFs>) -> Result<(), String>;

fn crash_everywhere<S: Store>(
    script: &Script,
    options: &S::Options,
    mapped: bool,
    seed: u64,
    tally: &Tally,
    after: After<'_>,
) -> Result<(), String> {
    let files = Arc::new(MemFs::new());
    let guard = Guard::new(Arc::clone(&files), mapped);
    let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
    let mut judge = Judge::<S>::new(script, options, mapped);
    let effort = Effort::of(script);
    play::<S>(script, options, &files, &world, &mut |point| {
        tally.add(Figure::CrashPoints, 1);
        at(&point, seed, effort, &mut judge, tally, after)
    })?;
    guard.verdict()
}

/// Every crash at one point.
fn at<S: Store>(
    point: &Point,
    seed: u64,
    effort: Effort,
    judge: &mut Judge<'_, S>,
    tally: &Tally,
    after: After<'_>,
) -> Result<(), String> {
    let call = point.fs.mutations();
    for (name, crash) in crashes(point, seed, effort) {
        let least = match crash {
            Crash::Kill => point.progress.acknowledged,
            Crash::Power(_) => point.progress.durable,
        };
        let image = point.fs.crash(&crash);
        let raw = (crash == Crash::Kill).then(|| image.fork());
        let context = |what| format!("call {call}, {name}, {:?}\n{crash:?}\n{what}", point.progress);
        let judged = judge.judge(image, least, point.progress.begun).map_err(context)?;
        if let Some(recovered) = judged {
            tally.add(Figure::CrashImages, 1);
            after(&recovered, raw.as_ref()).map_err(context)?;
        }
    }
    Ok(())
}

fn crashes(point: &Point, seed: u64, effort: Effort) -> Vec<(&'static str, Crash)> {
    let call = point.fs.mutations();
    let seed = seed ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut crashes = vec![("P0 kill", Crash::Kill)];
    let first = call as usize * effort.in_turn % PROFILES.len();
    for (row, profile) in PROFILES.iter().enumerate() {
        let turn = (row + PROFILES.len() - first) % PROFILES.len();
        if turn < effort.in_turn {
            let choices = point.fs.losses(profile, effort.few, seed);
            crashes.extend(choices.into_iter().map(|crash| (profile.name, crash)));
        } else if turn.is_multiple_of(effort.one_in) {
            crashes.push((profile.name, profile.with_seed(seed)));
        }
    }
    crashes
}
