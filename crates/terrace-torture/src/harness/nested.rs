//! A crash at every call of the recovery from a crash.
//!
//! Points of a life are drawn. From each, either what a power cut left is recovered, or what a kill left, whose unsynced
//! part a later power cut still takes. The recovery runs on: a synced write, a close. At every call of all that, power
//! fails again, in some profiles, and the second recovery is judged.

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{MemFs, PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::life::contents::{State, difference, fingerprint, state};
use crate::life::guard::Guard;
use crate::life::play::{Point, play};
use crate::life::script::{AFTER, Script, Shape};
use crate::life::store::Store;
use crate::life::terrace::{How, Terrace};
use crate::tally::{Figure, Tally};

pub(super) const NESTED: Harness = Harness {
    id: 11,
    name: "nested",
    shows: "a crash during recovery, or soon after a kill, does no more harm than one",
    check: 10,
    share: 3,
    run,
};

/// Points that are recovered from in a case.
const POINTS: u64 = 12;

/// Crashes at each call of a recovery.
const CRASHES: usize = 3;

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = Shape::draw(&mut rng);
    let (how, mapped) = (How::draw(&mut rng), !rng.one_in(4));
    let script = Script::draw(rng.next_u64(), shape);
    let mut points = draw_points(&script, &how, mapped, &mut rng)?;
    points
        .drain(..)
        .try_for_each(|point| {
            let mut how = how.clone();
            how.settings.reuse_logs = rng.one_in(2);
            let second = Second { script: &script, how: &how, mapped, tally };
            second.recover(point, &mut rng)
        })
        .map_err(|what| {
            format!("{what}\nlife: {}; mapped logs: {mapped}; {}", script.summary(), how.settings)
        })
}

/// Some points of the life, each as likely as any other.
fn draw_points(script: &Script, how: &How, mapped: bool, rng: &mut Rng) -> Result<Vec<Point>, String> {
    let files = Arc::new(MemFs::new());
    let world = Guard::new(Arc::clone(&files), mapped) as Arc<dyn FileSystem>;
    let (mut kept, mut seen) = (Vec::<Point>::new(), 0);
    play::<Terrace>(script, how, &files, &world, &mut |point| {
        seen += 1;
        if (kept.len() as u64) < POINTS {
            kept.push(point);
        } else if let Some(place) = kept.get_mut(rng.below(seen) as usize) {
            *place = point;
        }
        Ok(())
    })?;
    Ok(kept)
}

/// What the first crash left.
struct First {
    files: MemFs,
    /// The writes that are in it, at least.
    least: usize,
    /// At most.
    most: usize,
    /// Of those, the ones that a power cut can't take any more; None if they all are.
    safe: Option<usize>,
}

/// The recovery that is crashed, and the one after.
struct Second<'a> {
    script: &'a Script,
    how: &'a How,
    mapped: bool,
    tally: &'a Tally,
}

impl Second<'_> {
    fn recover(&self, point: Point, rng: &mut Rng) -> Result<(), String> {
        let (call, progress) = (point.fs.mutations(), point.progress);
        let (name, first) = if rng.one_in(2) {
            let (least, safe) = (progress.acknowledged, Some(progress.durable));
            ("kill", First { files: point.fs, least, most: progress.begun, safe })
        } else {
            let profile = &PROFILES[rng.below(PROFILES.len() as u64) as usize];
            let files = point.fs.crash(&profile.with_seed(rng.next_u64()));
            (profile.name, First { files, least: progress.durable, most: progress.begun, safe: None })
        };
        self.crash_recovery(first, rng).map_err(|what| format!("{name} at call {call}, {progress:?}; {what}"))
    }

    /// Recovers from the first crash, and crashes that.
    fn crash_recovery(&self, first: First, rng: &mut Rng) -> Result<(), String> {
        let First { files, least, most, safe } = first;
        let files = Arc::new(files);
        let guard = Guard::new(Arc::clone(&files), self.mapped);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        drop(files.take_points());
        let mut store = Terrace::open(&world, self.how).map_err(|error| format!("open: {error}"))?;
        let found = state(&store.entries()?, &self.script.values)?;
        let count = self.count(&found, least, most)?;
        let opening = files.take_points();
        store.write(&[(AFTER, Some(self.script.values.bytes(self.script.after)))], true)?;
        let writing = files.take_points();
        store.close()?;
        let mut closing = files.take_points();
        closing.push(files.fork());
        guard.verdict()?;
        let before: Vec<State> =
            (safe.unwrap_or(count)..=count).map(|count| self.script.states[count].clone()).collect();
        let after = vec![self.script.with_after(count)];
        let during: Vec<State> = before.iter().chain(&after).cloned().collect();
        for (what, points, allowed) in
            [("opening", opening, before), ("the first write", writing, during), ("closing", closing, after)]
        {
            for point in points {
                let call = point.mutations();
                self.crash_again(&point, &allowed, rng)
                    .map_err(|error| format!("write {count} recovered; {what}, call {call}, {error}"))?;
            }
        }
        Ok(())
    }

    fn crash_again(&self, point: &MemFs, allowed: &[State], rng: &mut Rng) -> Result<(), String> {
        for _ in 0..CRASHES {
            let profile = &PROFILES[rng.below(PROFILES.len() as u64) as usize];
            let choices = point.losses(profile, 2, rng.next_u64());
            let Some(crash) = choices.get(rng.below(choices.len().max(1) as u64) as usize) else { continue };
            self.judge(point.crash(crash), allowed)
                .map_err(|error| format!("{}, {crash:?}: {error}", profile.name))?;
            self.tally.add(Figure::NestedCrashes, 1);
            self.tally.add(Figure::CrashImages, 1);
        }
        Ok(())
    }

    fn judge(&self, image: MemFs, allowed: &[State]) -> Result<(), String> {
        let files = Arc::new(image);
        let guard = Guard::new(files, self.mapped);
        let world = Arc::clone(&guard) as Arc<dyn FileSystem>;
        let store = Terrace::open(&world, self.how).map_err(|error| format!("open: {error}"))?;
        let found = state(&store.entries()?, &self.script.values)?;
        if !allowed.contains(&found) {
            let (nearest, last) = (self.script.count_of(&found), &allowed[allowed.len() - 1]);
            return Err(format!("the state of write {nearest:?}: {}", difference(last, &found)));
        }
        store.close()?;
        guard.verdict()?;
        guard.leftovers()
    }

    fn count(&self, found: &State, least: usize, most: usize) -> Result<usize, String> {
        let print = fingerprint(found);
        (least..=most).rev().find(|&count| self.script.prints[count] == print).ok_or_else(|| {
            let what = difference(&self.script.states[most], found);
            format!("the first recovery: expected {least} to {most} writes, against {most}: {what}")
        })
    }
}
