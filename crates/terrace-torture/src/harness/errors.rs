//! Every call on a file fails: once, or from then on; and every sync fails and forgets.
//!
//! A case is a life of a database. It is lived once to count its calls, and then again for each call, which fails. The
//! database may refuse what was asked, open nothing, close with an error; but it must not answer wrongly, lose what it
//! acknowledged, or keep failing once files work again. In the end its process is killed, and its power is cut: each time
//! it must open with a state that the answers allow.
//!
//! ```text
//!   write acknowledged     it is there from now on
//!   write failed           it is there, or not; never in part
//!   write refused          it is not there
//! ```

mod history;

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::fault::{FaultFs, Op, Plan};
use terrace_env::mem::{AfterFailedSync, Crash, MemFs, PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::life::contents::{State, difference, state};
use crate::life::guard::Guard;
use crate::life::script::{AFTER, Script, Shape, Step, apply};
use crate::life::terrace::{How, Terrace};
use crate::tally::{Figure, Tally};
use history::History;

pub(super) const ERRORS: Harness = Harness {
    id: 12,
    name: "errors",
    shows: "whatever call fails, what was acknowledged stays and no answer is wrong",
    check: 12,
    share: 11,
    run,
};

/// Faults that each call is tried with: one that passes, one that stays.
const FAULTS: &[&str] =
    &["EIO", "ENOSPC", "EMFILE", "EINTR", "EDQUOT", "EACCES", "short-read", "short-write"];

/// Calls of a life that fail in a case; a longer life is sampled.
const CALLS: u64 = 250;

/// Reads from which on all are short, in a case.
const READS: u64 = 12;

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape =
        Shape { writes: rng.pick(&[5, 10, 20]), other_one_in: rng.pick(&[3, 6]), ..Shape::draw(&mut rng) };
    let case = Case {
        how: How::draw(&mut rng),
        mapped: !rng.one_in(4),
        script: Script::draw(rng.next_u64(), shape),
    };
    let calls = case.live(Fault::Plan(String::new()), seed)?;
    let stride = calls.div_ceil(CALLS).max(1);
    for read in 1..=READS {
        case.live(
            Fault::Plan(format!("read * #{} forever short-read", rng.below(calls / 8 + 1) + read)),
            seed,
        )?;
        tally.add(Figure::ErrorsInjected, 1);
    }
    for call in (1..=calls).step_by(stride as usize) {
        for times in ["once", "forever"] {
            let plan = format!("any * #{call} {times} {}", rng.pick(FAULTS));
            case.live(Fault::Plan(plan), seed ^ call)?;
            tally.add(Figure::ErrorsInjected, 1);
        }
    }
    for before in 0.. {
        for cache in [AfterFailedSync::Keeps, AfterFailedSync::Reverts] {
            if case.live(Fault::Sync { before, cache }, seed ^ before)? == 0 {
                return Ok(());
            }
            tally.add(Figure::ErrorsInjected, 1);
        }
    }
    Ok(())
}

/// What goes wrong in a life.
#[derive(Debug, Clone)]
enum Fault {
    Plan(String),
    /// A sync of a file, after `before` more: its pages count as clean afterwards.
    Sync {
        before: u64,
        cache: AfterFailedSync,
    },
}

struct Case {
    how: How,
    mapped: bool,
    script: Script,
}

/// The world of one life.
struct Life<'a> {
    case: &'a Case,
    files: Arc<MemFs>,
    faults: Arc<FaultFs>,
    db: Option<Terrace>,
    history: History,
}

impl Case {
    /// Lives once with a fault, and judges. Gives the number of calls; 0 if the sync that should fail never came.
    fn live(&self, fault: Fault, seed: u64) -> Result<u64, String> {
        let files = Arc::new(MemFs::new());
        let guard = Guard::new(Arc::clone(&files), self.mapped);
        let plan = match &fault {
            Fault::Plan(plan) => plan.parse().map_err(|error| format!("{error}"))?,
            Fault::Sync { .. } => Plan::default(),
        };
        let faults = Arc::new(FaultFs::new(Arc::clone(&guard) as _, plan));
        if let Fault::Sync { before, cache } = fault {
            files.fail_sync(before, cache);
        }
        let mut life = Life { case: self, files, faults, db: None, history: History::new() };
        let lived = life.run(&fault, seed).and_then(|()| guard.verdict());
        if life.parent_is_hidden(&fault) {
            return Ok(life.faults.all_calls());
        }
        let context = |what| {
            let failed =
                life.faults.failed().into_iter().map(|(op, path)| format!("{op:?} {}", path.display()));
            let failed = failed.take(8).collect::<Vec<_>>().join(", ");
            let script = self.script.summary();
            let how = format!("mapped logs: {}; {}", self.mapped, self.how.settings);
            format!("{fault:?}\nfailed: {failed}\n{what}\n{}\nlife: {script}; {how}", life.history.log())
        };
        lived.map_err(context)?;
        let came = !matches!(fault, Fault::Sync { .. }) || !life.files.sync_will_fail();
        Ok(if came { life.faults.all_calls() } else { 0 })
    }
}

impl Life<'_> {
    fn run(&mut self, fault: &Fault, seed: u64) -> Result<(), String> {
        // Pages that the cache dropped are gone for a process that starts anew, too.
        let kept = !matches!(fault, Fault::Sync { cache: AfterFailedSync::Reverts, .. });
        self.history.reopening_may_lose = !kept;
        for step in &self.case.script.steps {
            if !self.history.is_unclear() {
                self.step(step)?;
            }
        }
        self.crash_now(seed)?;
        self.faults.set_plan(Plan::default());
        self.recover_in_place(fault)?;
        if let Some(db) = self.db.take() {
            self.closed(db.db().clone(), db);
        }
        self.crash_now(seed)
    }

    /// True if the directory around the database may not be synced: then making its name durable was left to whoever
    /// owns it, and power takes everything.
    fn parent_is_hidden(&self, fault: &Fault) -> bool {
        let parent = (Op::SyncDir, std::path::PathBuf::from("/"));
        matches!(fault, Fault::Plan(plan) if plan.ends_with("EACCES"))
            && self.faults.failed().contains(&parent)
    }

    fn world(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.faults) as _
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if self.db.is_none() && !self.open()? {
            return Ok(());
        }
        let Some(db) = &self.db else { return Ok(()) };
        match step {
            Step::Write { changes, sync } => {
                let bytes: Vec<_> = changes
                    .iter()
                    .map(|(key, id)| (key.as_slice(), id.map(|id| self.case.script.values.bytes(id))))
                    .collect();
                let written = db.try_write(&bytes, *sync);
                self.history.write(changes, *sync, written.as_ref().err());
                if written.is_err() {
                    self.read()?;
                }
            }
            Step::Flush => {
                let done = db.db().flush();
                self.history.settle("flush", done.as_ref().err());
            }
            Step::Compact => {
                let done = db.db().compact_range(None, None);
                self.history.settle("compaction", done.as_ref().err());
                self.read()?;
            }
            Step::Reopen | Step::Repair => {
                let Some(db) = self.db.take() else { return Ok(()) };
                self.closed(db.db().clone(), db);
                if matches!(step, Step::Repair) {
                    let options = self.case.how.options(&self.world());
                    let done = terrace::repair(
                        crate::life::terrace::DIR,
                        &options,
                        &terrace::RepairOptions::default(),
                    );
                    self.history.note("repair", done.as_ref().err());
                    if done.is_ok_and(|report| report.changed) {
                        self.history.repaired();
                    }
                }
                self.open()?;
            }
            Step::Hold => self.read()?,
        }
        Ok(())
    }

    fn closed(&mut self, clone: terrace::Db, db: Terrace) {
        drop(db);
        let done = clone.close();
        self.history.settle("close", done.as_ref().err());
    }

    /// Tries to open, and reads everything if that works.
    fn open(&mut self) -> Result<bool, String> {
        let opened = Terrace::try_open(&self.case.how.options(&self.world()));
        self.history.note("open", opened.as_ref().err());
        let Ok(db) = opened else { return Ok(false) };
        self.db = Some(db);
        self.history.reopened();
        self.read().map(|()| true)
    }

    /// Reads everything: it must be a state that the answers allow, or an error.
    fn read(&mut self) -> Result<(), String> {
        let Some(db) = &self.db else { return Ok(()) };
        match db.try_entries(None) {
            Ok(entries) => self.history.saw(&state(&entries?, &self.case.script.values)?),
            Err(error) if self.may_look_damaged() || error.kind() != terrace::ErrorKind::Corruption => {
                self.history.note("read", Some(&error));
                Ok(())
            }
            Err(error) => Err(format!("a failing file is taken for a damaged one: {error}")),
        }
    }

    /// A read that gives less than there is looks like a file that was cut.
    fn may_look_damaged(&self) -> bool {
        self.faults.failed().iter().any(|(op, _)| *op == Op::Read)
    }

    /// A process that is killed now, and power that is cut now, leave what was acknowledged.
    fn crash_now(&mut self, seed: u64) -> Result<(), String> {
        let profile = &PROFILES[seed as usize % PROFILES.len()];
        for (name, crash) in [
            ("killed", Crash::Kill),
            (PROFILES[0].name, PROFILES[0].with_seed(seed)),
            (profile.name, profile.with_seed(seed)),
        ] {
            let allowed =
                if crash == Crash::Kill { self.history.after_kill() } else { self.history.after_power_cut() };
            self.judge(self.files.crash(&crash), allowed).map_err(|what| format!("{name}: {what}"))?;
        }
        Ok(())
    }

    fn judge(&self, image: MemFs, allowed: &[State]) -> Result<(), String> {
        let case = self.case;
        let world = Guard::new(Arc::new(image), case.mapped) as Arc<dyn FileSystem>;
        let options = case.how.options(&world);
        let read = |db: &Terrace| -> Result<State, String> {
            state(&db.try_entries(None).map_err(|error| error.to_string())??, &case.script.values)
        };
        let db = Terrace::try_open(&options).map_err(|error| format!("does not open: {error}"))?;
        let mut found = read(&db)?;
        if !allowed.contains(&found) {
            let what = difference(&allowed[allowed.len() - 1], &found);
            return Err(format!("none of the {} states that the answers allow: {what}", allowed.len()));
        }
        let after = (AFTER, Some(case.script.values.bytes(case.script.after)));
        db.try_write(&[after], true).map_err(|error| format!("the first write: {error}"))?;
        drop(db);
        apply(&mut found, &[(AFTER.to_vec(), Some(case.script.after))]);
        let db = Terrace::try_open(&options).map_err(|error| format!("does not open again: {error}"))?;
        let again = read(&db)?;
        if again == found { Ok(()) } else { Err(format!("opened again: {}", difference(&found, &again))) }
    }

    /// Files work again: reads are right, and if the system was only out of something, so are writes.
    fn recover_in_place(&mut self, fault: &Fault) -> Result<(), String> {
        if self.db.is_none() && !self.open()? {
            return Err("does not open although every file works again".into());
        }
        let failed = self.faults.failed();
        let Some(db) = &self.db else { return Ok(()) };
        let found = db.try_entries(None).map_err(|error| format!("files work, reading does not: {error}"))?;
        self.history.saw(&state(&found?, &self.case.script.values)?)?;
        let exhausted =
            |plan: &String| ["ENOSPC", "EDQUOT", "EMFILE"].iter().any(|errno| plan.ends_with(errno));
        let unclear = failed.iter().any(|(op, _)| matches!(op, Op::Sync | Op::SyncDir));
        if !matches!(fault, Fault::Plan(plan) if exhausted(plan)) || unclear {
            return Ok(());
        }
        let changes = [(AFTER.to_vec(), Some(self.case.script.after))];
        let bytes = [(AFTER, Some(self.case.script.values.bytes(self.case.script.after)))];
        for attempt in 1.. {
            let written = db.try_write(&bytes, true);
            self.history.write(&changes, true, written.as_ref().err());
            match written {
                Ok(()) => break,
                // One more, for work that failed meanwhile.
                Err(_) if attempt == 1 => {}
                Err(error) => return Err(format!("there is room again, and no write succeeds: {error}")),
            }
        }
        self.read()
    }
}
