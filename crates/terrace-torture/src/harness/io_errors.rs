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

mod allowed_states;

use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{State, describe_difference, parse_state};
use crate::crash_workload::file_usage_checker::FileUsageChecker;
use crate::crash_workload::script::{POST_CRASH_KEY, Script, ScriptParams, ScriptStep, apply_changes};
use crate::crash_workload::terrace::{OpenConfig, TerraceStore};
use allowed_states::AllowedStates;

pub(super) const IO_ERRORS: Harness = Harness {
    id: 12,
    name: "io-errors",
    property: "whichever call fails, acknowledged writes survive and no answer is wrong",
    check_cases: 12,
    time_share: 11,
    run,
};

/// Faults that each call is tried with: one that passes, one that stays.
const ERROR_KINDS: &[&str] =
    &["EIO", "ENOSPC", "EMFILE", "EINTR", "EDQUOT", "EACCES", "short-read", "short-write"];

/// Calls of a life that fail in a case; a longer life is sampled.
const MAX_FAILED_CALLS: u64 = 250;

/// Reads from which on all are short, in a case.
const SHORT_READ_RUNS: u64 = 12;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = ScriptParams {
        writes: rng.pick(&[5, 10, 20]),
        non_write_one_in: rng.pick(&[3, 6]),
        ..ScriptParams::draw(&mut rng)
    };
    let case = FaultCase {
        config: OpenConfig::draw(&mut rng),
        mapped_logs: !rng.one_in(4),
        script: Script::draw(rng.next_u64(), shape),
    };
    let calls = case.run_with_fault(Fault::FailCalls(String::new()), seed)?;
    let stride = calls.div_ceil(MAX_FAILED_CALLS).max(1);
    for read in 1..=SHORT_READ_RUNS {
        case.run_with_fault(
            Fault::FailCalls(format!("read * #{} forever short-read", rng.below(calls / 8 + 1) + read)),
            seed,
        )?;
        counters.add(Counter::ErrorsInjected, 1);
    }
    for call in (1..=calls).step_by(stride as usize) {
        for times in ["once", "forever"] {
            let plan = format!("any * #{call} {times} {}", rng.pick(ERROR_KINDS));
            case.run_with_fault(Fault::FailCalls(plan), seed ^ call)?;
            counters.add(Counter::ErrorsInjected, 1);
        }
    }
    for before in 0.. {
        for cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
            if case
                .run_with_fault(Fault::FailSync { syncs_before: before, page_cache: cache }, seed ^ before)?
                == 0
            {
                return Ok(());
            }
            counters.add(Counter::ErrorsInjected, 1);
        }
    }
    Ok(())
}

/// What goes wrong in a life.
#[derive(Debug, Clone)]
enum Fault {
    FailCalls(String),
    /// A sync of a file, after `before` more: its pages count as clean afterwards.
    FailSync {
        syncs_before: u64,
        page_cache: FailedSyncEffect,
    },
}

struct FaultCase {
    config: OpenConfig,
    mapped_logs: bool,
    script: Script,
}

/// The world of one life.
struct FaultRun<'a> {
    case: &'a FaultCase,
    files: Arc<MemFs>,
    fault_fs: Arc<FaultFs>,
    db: Option<TerraceStore>,
    allowed: AllowedStates,
}

impl FaultCase {
    /// Lives once with a fault, and judges. Gives the number of calls; 0 if the sync that should fail never came.
    fn run_with_fault(&self, fault: Fault, seed: u64) -> Result<u64, String> {
        let files = Arc::new(MemFs::new());
        let guard = FileUsageChecker::new(Arc::clone(&files), self.mapped_logs);
        let plan = match &fault {
            Fault::FailCalls(plan) => plan.parse().map_err(|error| format!("{error}"))?,
            Fault::FailSync { .. } => FaultPlan::default(),
        };
        let faults = Arc::new(FaultFs::new(Arc::clone(&guard) as _, plan));
        if let Fault::FailSync { syncs_before: before, page_cache: cache } = fault {
            files.inject_sync_failure(before, cache);
        }
        let mut life =
            FaultRun { case: self, files, fault_fs: faults, db: None, allowed: AllowedStates::new() };
        let lived = life.run(&fault, seed).and_then(|()| guard.check_violations());
        if life.is_parent_dir_unsyncable(&fault) {
            return Ok(life.fault_fs.total_call_count());
        }
        let context = |what| {
            let failed = life
                .fault_fs
                .failed_calls()
                .into_iter()
                .map(|(op, path)| format!("{op:?} {}", path.display()));
            let failed = failed.take(8).collect::<Vec<_>>().join(", ");
            let script = self.script.summary();
            let how = format!("mapped logs: {}; {}", self.mapped_logs, self.config.settings);
            format!(
                "{fault:?}\nfailed: {failed}\n{what}\n{}\nlife: {script}; {how}",
                life.allowed.recent_outcomes()
            )
        };
        lived.map_err(context)?;
        let came = !matches!(fault, Fault::FailSync { .. }) || !life.files.has_injected_sync_failure();
        Ok(if came { life.fault_fs.total_call_count() } else { 0 })
    }
}

impl FaultRun<'_> {
    fn run(&mut self, fault: &Fault, seed: u64) -> Result<(), String> {
        // Pages that the cache dropped are gone for a process that starts anew, too.
        let kept = !matches!(fault, Fault::FailSync { page_cache: FailedSyncEffect::DropsPages, .. });
        self.allowed.restart_loses_unsynced = !kept;
        for step in &self.case.script.steps {
            if !self.allowed.has_too_many_states() {
                self.execute(step)?;
            }
        }
        self.check_crash_images(seed)?;
        self.fault_fs.set_plan(FaultPlan::default());
        self.recover_without_reopen(fault)?;
        if let Some(db) = self.db.take() {
            self.close_and_record(db.db().clone(), db);
        }
        self.check_crash_images(seed)
    }

    /// True if the directory around the database may not be synced: then making its name durable was left to whoever
    /// owns it, and power takes everything.
    fn is_parent_dir_unsyncable(&self, fault: &Fault) -> bool {
        let parent = (FileOp::SyncDir, std::path::PathBuf::from("/"));
        matches!(fault, Fault::FailCalls(plan) if plan.ends_with("EACCES"))
            && self.fault_fs.failed_calls().contains(&parent)
    }

    fn file_system(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.fault_fs) as _
    }

    fn execute(&mut self, step: &ScriptStep) -> Result<(), String> {
        if self.db.is_none() && !self.open()? {
            return Ok(());
        }
        let Some(db) = &self.db else { return Ok(()) };
        match step {
            ScriptStep::Write { changes, sync } => {
                let bytes: Vec<_> = changes
                    .iter()
                    .map(|(key, id)| (key.as_slice(), id.map(|id| self.case.script.values.bytes(id))))
                    .collect();
                let written = db.try_write(&bytes, *sync);
                self.allowed.record_write(changes, *sync, written.as_ref().err());
                if written.is_err() {
                    self.read_and_check()?;
                }
            }
            ScriptStep::Flush => {
                let done = db.db().flush();
                self.allowed.record_durable("flush", done.as_ref().err());
            }
            ScriptStep::Compact => {
                let done = db.db().compact_range(None, None);
                self.allowed.record_durable("compaction", done.as_ref().err());
                self.read_and_check()?;
            }
            ScriptStep::Reopen | ScriptStep::Repair => {
                let Some(db) = self.db.take() else { return Ok(()) };
                self.close_and_record(db.db().clone(), db);
                if matches!(step, ScriptStep::Repair) {
                    let options = self.case.config.options(&self.file_system());
                    let done = terrace::repair(
                        crate::crash_workload::terrace::DB_DIR,
                        &options,
                        &terrace::RepairOptions::default(),
                    );
                    self.allowed.record_outcome("repair", done.as_ref().err());
                    if done.is_ok_and(|report| report.changed) {
                        self.allowed.record_repair();
                    }
                }
                self.open()?;
            }
            ScriptStep::TakeSnapshot => self.read_and_check()?,
        }
        Ok(())
    }

    fn close_and_record(&mut self, clone: terrace::Db, db: TerraceStore) {
        drop(db);
        let done = clone.close();
        self.allowed.record_durable("close", done.as_ref().err());
    }

    /// Tries to open, and reads everything if that works.
    fn open(&mut self) -> Result<bool, String> {
        let opened = TerraceStore::try_open(&self.case.config.options(&self.file_system()));
        self.allowed.record_outcome("open", opened.as_ref().err());
        let Ok(db) = opened else { return Ok(false) };
        self.db = Some(db);
        self.allowed.record_reopen();
        self.read_and_check().map(|()| true)
    }

    /// Reads everything: it must be a state that the answers allow, or an error.
    fn read_and_check(&mut self) -> Result<(), String> {
        let Some(db) = &self.db else { return Ok(()) };
        match db.try_entries(None) {
            Ok(entries) => self.allowed.check_read(&parse_state(&entries?, &self.case.script.values)?),
            Err(error) if self.may_report_corruption() || error.kind() != terrace::ErrorKind::Corruption => {
                self.allowed.record_outcome("read", Some(&error));
                Ok(())
            }
            Err(error) => Err(format!("a failing file is taken for a damaged one: {error}")),
        }
    }

    /// A read that gives less than there is looks like a file that was cut.
    fn may_report_corruption(&self) -> bool {
        self.fault_fs.failed_calls().iter().any(|(op, _)| *op == FileOp::Read)
    }

    /// A process that is killed now, and power that is cut now, leave what was acknowledged.
    fn check_crash_images(&mut self, seed: u64) -> Result<(), String> {
        let profile = &POWER_LOSS_PROFILES[seed as usize % POWER_LOSS_PROFILES.len()];
        for (name, crash) in [
            ("killed", Crash::Kill),
            (POWER_LOSS_PROFILES[0].name, POWER_LOSS_PROFILES[0].crash_with_seed(seed)),
            (profile.name, profile.crash_with_seed(seed)),
        ] {
            let allowed = if crash == Crash::Kill {
                self.allowed.allowed_after_kill()
            } else {
                self.allowed.allowed_after_power_cut()
            };
            self.check_image(self.files.crash_clone(&crash), allowed)
                .map_err(|what| format!("{name}: {what}"))?;
        }
        Ok(())
    }

    fn check_image(&self, image: MemFs, allowed: &[State]) -> Result<(), String> {
        let case = self.case;
        let world = FileUsageChecker::new(Arc::new(image), case.mapped_logs) as Arc<dyn FileSystem>;
        let options = case.config.options(&world);
        let read = |db: &TerraceStore| -> Result<State, String> {
            parse_state(&db.try_entries(None).map_err(|error| error.to_string())??, &case.script.values)
        };
        let db = TerraceStore::try_open(&options).map_err(|error| format!("does not open: {error}"))?;
        let mut found = read(&db)?;
        if !allowed.contains(&found) {
            let what = describe_difference(&allowed[allowed.len() - 1], &found);
            return Err(format!("none of the {} states that the answers allow: {what}", allowed.len()));
        }
        let after = (POST_CRASH_KEY, Some(case.script.values.bytes(case.script.post_crash_value)));
        db.try_write(&[after], true).map_err(|error| format!("the first write: {error}"))?;
        drop(db);
        apply_changes(&mut found, &[(POST_CRASH_KEY.to_vec(), Some(case.script.post_crash_value))]);
        let db = TerraceStore::try_open(&options).map_err(|error| format!("does not open again: {error}"))?;
        let again = read(&db)?;
        if again == found {
            Ok(())
        } else {
            Err(format!("opened again: {}", describe_difference(&found, &again)))
        }
    }

    /// Files work again: reads are right, and if the system was only out of something, so are writes.
    fn recover_without_reopen(&mut self, fault: &Fault) -> Result<(), String> {
        if self.db.is_none() && !self.open()? {
            return Err("does not open although every file works again".into());
        }
        let failed = self.fault_fs.failed_calls();
        let Some(db) = &self.db else { return Ok(()) };
        let found = db.try_entries(None).map_err(|error| format!("files work, reading does not: {error}"))?;
        self.allowed.check_read(&parse_state(&found?, &self.case.script.values)?)?;
        let exhausted =
            |plan: &String| ["ENOSPC", "EDQUOT", "EMFILE"].iter().any(|errno| plan.ends_with(errno));
        let unclear = failed.iter().any(|(op, _)| matches!(op, FileOp::Sync | FileOp::SyncDir));
        if !matches!(fault, Fault::FailCalls(plan) if exhausted(plan)) || unclear {
            return Ok(());
        }
        let changes = [(POST_CRASH_KEY.to_vec(), Some(self.case.script.post_crash_value))];
        let bytes =
            [(POST_CRASH_KEY, Some(self.case.script.values.bytes(self.case.script.post_crash_value)))];
        for attempt in 1.. {
            let written = db.try_write(&bytes, true);
            self.allowed.record_write(&changes, true, written.as_ref().err());
            match written {
                Ok(()) => break,
                // One more, for work that failed meanwhile.
                Err(_) if attempt == 1 => {}
                Err(error) => return Err(format!("there is room again, and no write succeeds: {error}")),
            }
        }
        self.read_and_check()
    }
}
