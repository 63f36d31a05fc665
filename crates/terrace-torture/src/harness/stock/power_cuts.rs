//! What a power cut leaves of a database is the same to both engines.
//!
//! Ours loses its power in memory, at any call that changes a file. Theirs knows only real files: there the end of the
//! log goes missing. Where a cut leaves holes in a log, or the end of one is gone and the next one is there, LevelDB reads on
//! behind them and Terrace does not: that is not compared, see docs/design/0001-log-replay.md.
//!
//! One thing they say differently: Terrace's logs have their room ahead of the records, so a record of several pieces may
//! break off with zeros behind it, where LevelDB's file would end. With paranoid checks LevelDB refuses to open that, and
//! without it shows what Terrace shows.

use std::path::Path;
use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{MemFs, PROFILES};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Answer, Plan};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::{Stock, stock_or_skip};

use super::{Harness, Owner, contents, difference, text};
use crate::subject::{Engine, Threads, World};
use crate::tally::{Figure, Tally};

/// Operations of a life.
const OPERATIONS: usize = 600;

/// The ways to lose data that leave no hole.
const WITHOUT_HOLES: [&str; 3] = ["P1", "P2", "P5"];

/// What LevelDB says of a record that breaks off with room behind it.
const BROKE_OFF: &str = "error in middle of record";

pub(in super::super) const POWER_CUTS: Harness = Harness {
    id: 42,
    name: "power-cuts",
    shows: "what a power cut leaves holds the same for Terrace and for stock LevelDB, whoever wrote it",
    check: 60,
    share: 1,
    run: power_cuts,
};

fn power_cuts(seed: u64, tally: &Tally) -> Result<(), String> {
    let Some(stock) = stock_or_skip() else { return Ok(()) };
    let plan = Plan::draw(seed, OPERATIONS, |shape, _| (shape.own, shape.sync_one_in) = (false, 20));
    let dir = tempfile::tempdir().map_err(text)?;
    let mut rng = Rng::new(!seed);
    let writer = rng.pick(&[Owner::Ours, Owner::Theirs]);
    let what = match writer {
        Owner::Ours => ours_loses_power(&plan, &mut rng, dir.path())?,
        Owner::Theirs => theirs_loses_its_end(stock, &plan, &mut rng, dir.path())?,
    };
    if writer == Owner::Ours && may_have_a_hole(dir.path()).map_err(text)? {
        return Ok(());
    }
    let look = |owner: Owner, settings: &Settings| {
        let copy = tempfile::tempdir().map_err(text)?;
        copy_files(dir.path(), copy.path()).map_err(text)?;
        let opened = owner.open(stock, copy.path(), settings);
        let seen = opened.and_then(|mut subject| contents(&mut *subject));
        seen.map_err(|error| format!("{what}: {owner:?} says {error}"))
    };
    let ours = look(Owner::Ours, &plan.settings)?;
    let theirs = match look(Owner::Theirs, &plan.settings) {
        Err(refused) if writer == Owner::Ours && refused.contains(BROKE_OFF) => {
            look(Owner::Theirs, &Settings { paranoid_checks: false, ..plan.settings.clone() })?
        }
        seen => seen?,
    };
    difference(&ours, &theirs).map_err(|error| format!("[{}], {what}: {error}", plan.settings))?;
    tally.add(Figure::Relays, 1);
    Ok(())
}

/// A life of ours until any call that changes a file, and what a power cut leaves of it in `dir`.
fn ours_loses_power(plan: &Plan, rng: &mut Rng, dir: &Path) -> Answer<String> {
    let whole = live(plan, None)?;
    let (call, calls) = (rng.below(whole.mutations()), whole.mutations());
    let profiles: Vec<_> = PROFILES
        .iter()
        .filter(|profile| WITHOUT_HOLES.iter().any(|name| profile.name.starts_with(name)))
        .collect();
    let profile = rng.pick(&profiles);
    let image = live(plan, Some(call))?.crash(&profile.with_seed(plan.seed));
    write_out(&image, Path::new(World::PATH), dir).map_err(text)?;
    Ok(format!("ours, cut at call {call} of {calls}, {}", profile.name))
}

fn live(plan: &Plan, until: Option<u64>) -> Answer<Arc<MemFs>> {
    let world = World::new(Threads::None, plan.seed);
    let files = world.files();
    if let Some(call) = until {
        files.freeze_at(call);
    }
    let opened = Engine::in_memory(world, &plan.settings);
    let lived = opened.map_err(text).and_then(|mut engine| {
        let mut model = Model::new(plan.shape.order);
        plan.run(&mut engine, &mut model).map_err(text)
    });
    // Where it was cut off, an error is what it should meet.
    if until.is_none() { lived.map(|()| files) } else { Ok(files) }
}

fn write_out(files: &MemFs, from: &Path, to: &Path) -> std::io::Result<()> {
    let other = |error: terrace_env::FileError| std::io::Error::other(error.to_string());
    if !files.exists(from).map_err(other)? {
        return Ok(());
    }
    for name in files.list(from).map_err(other)? {
        let path = from.join(&name);
        let mut bytes = vec![0; files.len(&path).map_err(other)? as usize];
        let file = files.open_random(&path, terrace_env::Access::Read).map_err(other)?;
        file.read_at(0, &mut bytes).map_err(other)?;
        std::fs::write(to.join(name), bytes)?;
    }
    Ok(())
}

/// A life of theirs in `dir`, whose newest log then ends too early.
fn theirs_loses_its_end(stock: &'static Stock, plan: &Plan, rng: &mut Rng, dir: &Path) -> Answer<String> {
    let mut subject = Owner::Theirs.open(stock, dir, &plan.settings)?;
    plan.run(&mut *subject, &mut Model::new(plan.shape.order)).map_err(text)?;
    drop(subject);
    let log = super::repairs::files(dir, ".log").map_err(text)?.pop().ok_or("no log")?;
    let file = std::fs::File::options().write(true).open(&log).map_err(text)?;
    let (len, full) =
        (rng.below(file.metadata().map_err(text)?.len() + 1), file.metadata().map_err(text)?.len());
    file.set_len(len).map_err(text)?;
    Ok(format!("theirs, {len} of {full} bytes of {} left", log.display()))
}

/// True if there are several logs with something in them: a power cut may have taken the end of any.
fn may_have_a_hole(dir: &Path) -> std::io::Result<bool> {
    let mut filled = 0;
    for log in super::repairs::files(dir, ".log")? {
        filled += usize::from(std::fs::read(log)?.iter().any(|byte| *byte != 0));
    }
    Ok(filled > 1)
}

pub(super) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
