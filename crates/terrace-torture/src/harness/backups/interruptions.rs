//! A crash and an error at each call of a checkpoint, a backup, a restore and a prune.
//!
//! After each interruption the target is absent or complete, the original and the earlier backups
//! are undamaged, and the call succeeds when it is repeated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{Backups, Db, Env, MappedLogs, Options, WriteOptions};
use terrace_env::FileSystem;
use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;

use super::{compare, read_entries};
use crate::counters::{Counter, Counters};

/// Interrupted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Checkpoint,
    Create,
    Restore,
    Prune,
}

const DB: &str = "/db";
const TARGET: &str = "/target";
const BACKUPS: &str = "/backups";

pub(super) fn run(rng: &mut Rng, counters: &Counters) -> Result<(), String> {
    let case = Case {
        call: rng.pick(&[Call::Checkpoint, Call::Create, Call::Restore, Call::Prune]),
        has_links: !rng.one_in(3),
        is_read_only: rng.one_in(4),
        mapped_logs: rng.pick(&[MappedLogs::Auto, MappedLogs::Never]),
    };
    let context = |message| format!("{case:?}: {message}");
    let prepared = case.prepare(rng).map_err(context)?;
    case.crash_at_each_call(&prepared, rng, counters).map_err(context)?;
    case.fail_each_call(&prepared, rng, counters).map_err(context)
}

#[derive(Debug)]
struct Case {
    call: Call,
    has_links: bool,
    is_read_only: bool,
    mapped_logs: MappedLogs,
}

/// Files before the interrupted call. All of them are durable.
struct Prepared {
    files: MemFs,
    /// State of the database.
    entries: Vec<Entry>,
    /// States of the two backups.
    backups: [Vec<Entry>; 2],
}

impl Case {
    fn options(&self, fs: Arc<dyn FileSystem>) -> Options {
        let mut options = Options::default().create_if_missing(true);
        options.env = Env { fs, ..Env::in_memory() };
        options.mapped_logs = self.mapped_logs;
        options
    }

    /// Returns a plan with `rules`, and without links if the case has none.
    fn plan(&self, rules: &str) -> Result<FaultPlan, String> {
        let links = if self.has_links { "" } else { ";link * #1 forever ENOSYS" };
        format!("{rules}{links}").trim_start_matches(';').parse().map_err(text)
    }

    /// Returns a file system on `files` that fails by `plan`.
    fn faulty(&self, files: &Arc<MemFs>) -> Result<Arc<FaultFs>, String> {
        Ok(Arc::new(FaultFs::new(Arc::clone(files) as _, self.plan("")?)))
    }

    fn prepare(&self, rng: &mut Rng) -> Result<Prepared, String> {
        let files = Arc::new(MemFs::new());
        let options = self.options(self.faulty(&files)? as _);
        let db = Db::open(DB, &options).map_err(text)?;
        let backups = Backups::open(BACKUPS, &options).map_err(text)?;
        let mut states = Vec::new();
        for turn in 0..3u32 {
            for _ in 0..1 + rng.below(3) {
                for _ in 0..rng.below(20) {
                    let key = format!("key {:03}", rng.below(40));
                    db.put(key, format!("{turn} {}", rng.next_u64())).map_err(text)?;
                }
                if rng.one_in(2) {
                    db.flush().map_err(text)?;
                }
            }
            let sync = WriteOptions::default().sync(true);
            db.put_with("turn", turn.to_string(), &sync).map_err(text)?;
            states.push(super::all_entries(&db).map_err(text)?);
            if turn < 2 {
                backups.create(&db).map_err(text)?;
            }
        }
        if self.is_read_only {
            db.close().map_err(text)?;
        }
        let [first, second, entries] = <[_; 3]>::try_from(states).map_err(|_| "three states")?;
        let durable = files.crash_clone(&Crash::Kill);
        Ok(Prepared { files: durable, entries, backups: [first, second] })
    }

    /// Executes the call on `fs`.
    fn call(&self, fs: Arc<dyn FileSystem>, on_open: impl FnOnce()) -> Result<(), String> {
        let options = self.options(fs);
        let opened =
            if self.is_read_only { Db::open_read_only(DB, &options) } else { Db::open(DB, &options) };
        let db = opened.map_err(|error| format!("open: {error}"))?;
        let backups = match self.call {
            Call::Checkpoint => None,
            _ => Some(Backups::open(BACKUPS, &options).map_err(|error| format!("open: {error}"))?),
        };
        on_open();
        let outcome = match (self.call, &backups) {
            (Call::Create, Some(backups)) => backups.create(&db).map(drop),
            (Call::Restore, Some(backups)) => backups.restore(2, TARGET),
            (Call::Prune, Some(backups)) => backups.prune(1).map(drop),
            _ => db.checkpoint(TARGET).map(drop),
        };
        outcome.map_err(|error| error.to_string())
    }

    fn crash_at_each_call(
        &self,
        before: &Prepared,
        rng: &mut Rng,
        counters: &Counters,
    ) -> Result<(), String> {
        let files = Arc::new(before.files.fork());
        let fs = self.faulty(&files)?;
        self.call(fs as _, || drop(files.take_crash_points()))?;
        let mut points = files.take_crash_points();
        points.push(files.fork());
        for (number, point) in points.iter().enumerate() {
            let mut crashes = vec![Crash::Kill];
            crashes.extend((0..3).map(|_| {
                let profile = &POWER_LOSS_PROFILES[rng.below(POWER_LOSS_PROFILES.len() as u64) as usize];
                profile.crash_with_seed(rng.next_u64())
            }));
            crashes.push(POWER_LOSS_PROFILES[0].crash_with_seed(0));
            for crash in crashes {
                let image = Arc::new(point.crash_clone(&crash));
                let is_done = number + 1 == points.len();
                self.check(before, &image, is_done).map_err(|message| {
                    format!("crash at call {number} of {}, {crash:?}: {message}", points.len())
                })?;
                counters.add(Counter::CrashImages, 1);
            }
            counters.add(Counter::CrashPoints, 1);
        }
        Ok(())
    }

    fn fail_each_call(&self, before: &Prepared, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        for number in 1.. {
            let fault = rng.pick(&["once EIO", "once ENOSPC", "forever ENOSPC", "once EMFILE"]);
            let files = Arc::new(before.files.fork());
            let fs = self.faulty(&files)?;
            let plan = self.plan(&format!("any * #{number} {fault}"))?;
            let outcome = self.call(Arc::clone(&fs) as _, || fs.set_plan(plan));
            let failed = fs.failed_calls();
            let is_done = outcome.is_ok();
            self.check(before, &files, is_done)
                .map_err(|message| format!("call {number}, {fault}, {failed:?}, {outcome:?}: {message}"))?;
            counters.add(Counter::ErrorsInjected, 1);
            if is_done && failed.iter().all(|(op, _)| *op == FileOp::Link) {
                break;
            }
        }
        Ok(())
    }

    /// Checks the files after an interruption. `is_done` is true if the call must have taken
    /// effect.
    fn check(&self, before: &Prepared, files: &Arc<MemFs>, is_done: bool) -> Result<(), String> {
        let options = self.options(self.faulty(files)? as _);
        compare("original", &read_entries(Path::new(DB), &options)?, &before.entries)?;
        let expected = if self.call == Call::Restore { &before.backups[1] } else { &before.entries };
        check_no_partial_database(files, &options, expected)?;
        let has_target = files.exists(Path::new(TARGET)).map_err(text)?;
        if matches!(self.call, Call::Checkpoint | Call::Restore) {
            if has_target {
                compare("target", &read_entries(Path::new(TARGET), &options)?, expected)?;
            } else if is_done {
                return Err("the target is missing".into());
            }
        }
        self.check_backups(before, &options, is_done)?;
        if !has_target && !is_done {
            self.call(Arc::clone(&options.env.fs), || ()).map_err(|error| format!("repeated: {error}"))?;
            if files.exists(Path::new("/target.partial")).map_err(text)? {
                return Err("the leftover remains after the repeated call".into());
            }
        }
        Ok(())
    }

    fn check_backups(&self, before: &Prepared, options: &Options, is_done: bool) -> Result<(), String> {
        let backups = Backups::open(BACKUPS, options).map_err(text)?;
        let infos = backups.list().map_err(text)?;
        let ids: Vec<u64> = infos.iter().map(|info| info.id).collect();
        let allowed: &[&[u64]] = match (self.call, is_done) {
            (Call::Create, true) => &[&[1, 2, 3]],
            (Call::Create, false) => &[&[1, 2], &[1, 2, 3]],
            (Call::Prune, true) => &[&[2]],
            (Call::Prune, false) => &[&[1, 2], &[2]],
            _ => &[&[1, 2]],
        };
        if !allowed.contains(&ids.as_slice()) {
            return Err(format!("backups {ids:?}, expected one of {allowed:?}"));
        }
        for id in ids {
            let report = backups.verify(id).map_err(text)?;
            if let Some(problem) = report.problems.first() {
                return Err(format!("backup {id}: {problem}"));
            }
            let expected = before.backups.get(id as usize - 1).unwrap_or(&before.entries);
            let path = Path::new(BACKUPS).join(format!("{id:06}"));
            compare(&format!("backup {id}"), &read_entries(&path, options)?, expected)?;
        }
        Ok(())
    }
}

/// Checks that an interrupted copy does not open, or is complete.
fn check_no_partial_database(files: &MemFs, options: &Options, expected: &[Entry]) -> Result<(), String> {
    for partial in ["/target.partial/database", "/backups/000003.partial/database"] {
        let path = PathBuf::from(partial);
        if files.exists(&path.join("CURRENT")).map_err(text)? {
            compare("interrupted copy", &read_entries(&path, options)?, expected)?;
        }
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
