//! Failing file system calls: each call fails once or from then on, and each sync fails and loses
//! data.
//!
//! A case is a workload on one database. It runs once to count its calls, and then once more for
//! each call, which fails. The database may return errors from operations, from open and from
//! close. It must not answer wrongly, lose acknowledged writes, or keep failing after files work
//! again. At the end the process is killed and the power is cut. After each, the database must open
//! in a state that the results of its operations allow.
//!
//! ```text
//!   write acknowledged     present from now on
//!   write failed           present or absent, never in part
//!   write rejected         absent
//!   file not readable      a repair keeps it in lost/, reports it, and saves all other files
//! ```

mod allowed_states;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::RepairOptions;
use terrace_env::FileSystem;
use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES};
use terrace_format::filename::FileName;
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{State, describe_difference, parse_state};
use crate::crash_workload::file_usage_checker::{FileUsageChecker, LogKind};
use crate::crash_workload::manifest::read_live_files;
use crate::crash_workload::script::{POST_CRASH_KEY, Script, ScriptParams, ScriptStep, apply_changes};
use crate::crash_workload::terrace::{DB_DIR, OpenConfig, TerraceStore};
use crate::database_under_test::max_mappings;
use allowed_states::AllowedStates;

pub(super) const IO_ERRORS: Harness = Harness {
    id: 12,
    name: "io-errors",
    property: "whichever call fails, acknowledged writes survive and no answer is wrong",
    check_cases: 12,
    time_share: 11,
    run,
};

/// Faults that each call is tried with: one temporary, one permanent.
const ERROR_KINDS: &[&str] =
    &["EIO", "ENOSPC", "EMFILE", "EINTR", "EDQUOT", "EACCES", "short-read", "short-write"];

/// Maximum number of calls that fail in a case. A longer workload is sampled.
const MAX_FAILED_CALLS: u64 = 250;

/// Number of runs of a case with a repair in which files of one kind cannot be read from some call
/// on.
const UNREADABLE_FILE_RUNS: usize = 12;

/// Number of runs of a case in which all reads from some call on are short.
const SHORT_READ_RUNS: u64 = 12;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let params = ScriptParams {
        writes: rng.pick(&[5, 10, 20]),
        non_write_one_in: rng.pick(&[2, 3, 6]),
        reopens_often: rng.one_in(2),
        ..ScriptParams::draw(&mut rng)
    };
    let case = FaultCase {
        config: OpenConfig::draw(&mut rng),
        logs: LogKind::draw_without_gaps(&mut rng),
        mapped_tables: seed & 8 == 0,
        script: Script::draw(rng.next_u64(), params),
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
    if case.script.steps.iter().any(|step| matches!(step, ScriptStep::Repair)) {
        for _ in 0..UNREADABLE_FILE_RUNS {
            let op = rng.pick(&["open", "read"]);
            let files = rng.pick(&[".ldb", ".ldb", ".log", "MANIFEST"]);
            let plan = format!("{op} {files} #{} forever EIO", 1 + rng.skewed(calls / 8));
            case.run_with_fault(Fault::FailCalls(plan), seed)?;
            counters.add(Counter::ErrorsInjected, 1);
        }
    }
    for call in (1..=calls).step_by(stride as usize) {
        for times in ["once", "forever"] {
            let plan = format!("any * #{call} {times} {}", rng.pick(ERROR_KINDS));
            case.run_with_fault(Fault::FailCalls(plan), seed ^ call)?;
            counters.add(Counter::ErrorsInjected, 1);
        }
    }
    for syncs_before in 0.. {
        for page_cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
            let fault = Fault::FailSync { syncs_before, page_cache };
            if case.run_with_fault(fault, seed ^ syncs_before)? == 0 {
                return Ok(());
            }
            counters.add(Counter::ErrorsInjected, 1);
        }
    }
    Ok(())
}

/// Fault of one run.
#[derive(Debug, Clone)]
enum Fault {
    FailCalls(String),
    /// A sync of a file fails after `syncs_before` syncs. Its pages count as clean afterwards.
    FailSync {
        syncs_before: u64,
        page_cache: FailedSyncEffect,
    },
}

struct FaultCase {
    config: OpenConfig,
    logs: LogKind,
    /// True if tables are mapped, up to the limit of the file system.
    mapped_tables: bool,
    script: Script,
}

/// State of one run.
struct FaultRun<'a> {
    case: &'a FaultCase,
    files: Arc<MemFs>,
    fault_fs: Arc<FaultFs>,
    db: Option<TerraceStore>,
    allowed: AllowedStates,
}

impl FaultCase {
    /// Runs the workload with a fault and checks the results. Returns the number of calls, or 0 if
    /// the sync that should fail never happened.
    fn run_with_fault(&self, fault: Fault, seed: u64) -> Result<u64, String> {
        let files = Arc::new(MemFs::new());
        files.set_max_mappings(max_mappings(self.config.seed));
        let checker = FileUsageChecker::new(Arc::clone(&files), self.logs);
        let plan = match &fault {
            Fault::FailCalls(plan) => plan.parse().map_err(|error| format!("{error}"))?,
            Fault::FailSync { .. } => FaultPlan::default(),
        };
        let mut fault_fs = FaultFs::new(Arc::clone(&checker) as _, plan);
        if self.mapped_tables {
            fault_fs = fault_fs.with_mapped_files();
        }
        let fault_fs = Arc::new(fault_fs);
        if let Fault::FailSync { syncs_before, page_cache } = fault {
            files.inject_sync_failure(syncs_before, page_cache);
        }
        let mut run = FaultRun { case: self, files, fault_fs, db: None, allowed: AllowedStates::new() };
        let result = run.run(&fault, seed).and_then(|()| checker.check_violations());
        if run.is_parent_dir_unsyncable(&fault) {
            return Ok(run.fault_fs.total_call_count());
        }
        result.map_err(|message| run.describe_failure(&fault, &message))?;
        let happened = !matches!(fault, Fault::FailSync { .. }) || !run.files.has_injected_sync_failure();
        Ok(if happened { run.fault_fs.total_call_count() } else { 0 })
    }
}

impl FaultRun<'_> {
    fn run(&mut self, fault: &Fault, seed: u64) -> Result<(), String> {
        // A restarted process does not find pages that the page cache dropped.
        self.allowed.restart_loses_unsynced =
            matches!(fault, Fault::FailSync { page_cache: FailedSyncEffect::DropsPages, .. });
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

    fn describe_failure(&self, fault: &Fault, message: &str) -> String {
        let failed_calls = self.fault_fs.failed_calls().into_iter().take(8);
        let failed_calls: Vec<String> =
            failed_calls.map(|(op, path)| format!("{op:?} {}", path.display())).collect();
        format!(
            "{fault:?}\nfailed calls: {}\n{message}\n{}\nworkload: {}; {}; {}",
            failed_calls.join(", "),
            self.allowed.recent_outcomes(),
            self.case.script.summary(),
            self.case.logs,
            self.case.config.settings
        )
    }

    /// Returns true if a sync of the database's parent directory failed for lack of permission. The
    /// owner of that directory must then make the database's name durable, and a power cut may take
    /// everything.
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
                let result = db.db().flush();
                self.allowed.record_durable("flush", result.as_ref().err());
            }
            ScriptStep::Compact => {
                let result = db.db().compact_range(None, None);
                self.allowed.record_durable("compaction", result.as_ref().err());
                self.read_and_check()?;
            }
            ScriptStep::Reopen | ScriptStep::Repair => {
                let Some(db) = self.db.take() else { return Ok(()) };
                self.close_and_record(db.db().clone(), db);
                if matches!(step, ScriptStep::Repair) {
                    self.repair()?;
                }
                self.open()?;
            }
            ScriptStep::Settle | ScriptStep::TakeSnapshot => self.read_and_check()?,
        }
        Ok(())
    }

    /// Repairs the closed database. After an error, the repaired database may be live, too.
    fn repair(&mut self) -> Result<(), String> {
        let before = self.files.fork();
        let options = self.case.config.options(&self.file_system());
        let result = terrace::repair(DB_DIR, &options, &RepairOptions::default());
        self.allowed.record_outcome("repair", result.as_ref().err());
        let unreadable = self.unreadable_files();
        if result.as_ref().is_ok_and(|report| report.changed) {
            self.allowed.record_repair();
        }
        if unreadable.is_empty() || result.as_ref().is_ok_and(|report| !report.changed) {
            return Ok(());
        }
        let problem_count = result.as_ref().ok().map(|report| report.problems.len());
        self.check_kept(&before, &unreadable, problem_count)?;
        let salvaged = self.contents_without(before, &unreadable)?;
        self.allowed.record_unreadable_files(salvaged);
        Ok(())
    }

    /// Returns the files of the database of which a call has failed that reads them. A repair may
    /// have been able to read some of them.
    fn unreadable_files(&self) -> BTreeSet<FileName> {
        let reads = [FileOp::Open, FileOp::Read, FileOp::Stat];
        let failed_calls = self.fault_fs.failed_calls().into_iter();
        let paths = failed_calls.filter(|(op, _)| reads.contains(op)).map(|(_, path)| path);
        paths.filter_map(|path| FileName::parse(path.file_name()?.to_str()?)).collect()
    }

    /// Checks that each of the unreadable files is live or in `lost/`. If one was moved there, the
    /// repair must have reported a problem. After an error, it may be at both places.
    fn check_kept(
        &self,
        before: &MemFs,
        unreadable: &BTreeSet<FileName>,
        problem_count: Option<usize>,
    ) -> Result<(), String> {
        let directory = Path::new(DB_DIR);
        let exists = |files: &MemFs, path: PathBuf| files.exists(&path).is_ok_and(|exists| exists);
        let live = read_live_files(&*self.files, directory);
        for &file in unreadable {
            let name = file.to_string();
            let has_data = file.is_table() || matches!(file, FileName::Log(_) | FileName::Manifest(_));
            if !has_data || !exists(before, directory.join(&name)) {
                continue;
            }
            let is_kept = exists(&self.files, directory.join(&name));
            let is_live = live.as_ref().is_some_and(|live| live.is_needed(file));
            if is_kept && (problem_count.is_none() || is_live) {
                continue;
            }
            if !exists(&self.files, directory.join("lost").join(&name)) {
                return Err(format!("a repair that could not read {file} did not keep it"));
            }
            if problem_count == Some(0) && !matches!(file, FileName::Manifest(_)) {
                return Err(format!("a repair moved {file}, which it could not read, without a report"));
            }
        }
        Ok(())
    }

    /// Returns the contents of a repaired copy of `files` without the files `unreadable`.
    fn contents_without(&self, files: MemFs, unreadable: &BTreeSet<FileName>) -> Result<State, String> {
        for file in unreadable {
            // CURRENT may be missing, and the lock is free.
            let _ = files.remove(&Path::new(DB_DIR).join(file.to_string()));
        }
        let fs = FileUsageChecker::new(Arc::new(files), self.case.logs) as Arc<dyn FileSystem>;
        let options = self.case.config.options(&fs);
        if let Err(error) = terrace::repair(DB_DIR, &options, &RepairOptions::default()) {
            let has_no_data = error.kind() == terrace::ErrorKind::InvalidArgument;
            return has_no_data.then(State::new).ok_or_else(|| format!("a repair without faults: {error}"));
        }
        let db = TerraceStore::try_open(&options).map_err(|error| error.to_string())?;
        parse_state(&db.try_entries(None).map_err(|error| error.to_string())??, &self.case.script.values)
    }

    fn close_and_record(&mut self, clone: terrace::Db, db: TerraceStore) {
        drop(db);
        let result = clone.close();
        self.allowed.record_durable("close", result.as_ref().err());
    }

    /// Tries to open the database, and reads all entries if that works.
    fn open(&mut self) -> Result<bool, String> {
        let opened = TerraceStore::try_open(&self.case.config.options(&self.file_system()));
        self.allowed.record_outcome("open", opened.as_ref().err());
        let Ok(db) = opened else { return Ok(false) };
        self.db = Some(db);
        self.allowed.record_reopen();
        self.read_and_check().map(|()| true)
    }

    /// Reads all entries. The result must be an allowed state or an error.
    fn read_and_check(&mut self) -> Result<(), String> {
        let Some(db) = &self.db else { return Ok(()) };
        match db.try_entries(None) {
            Ok(entries) => self.allowed.check_read(&parse_state(&entries?, &self.case.script.values)?),
            Err(error) if self.may_report_corruption() || error.kind() != terrace::ErrorKind::Corruption => {
                self.allowed.record_outcome("read", Some(&error));
                Ok(())
            }
            Err(error) => Err(format!("a failing read is reported as corruption: {error}")),
        }
    }

    /// Returns true after a failed or short read, because a short read looks like a truncated file.
    fn may_report_corruption(&self) -> bool {
        self.fault_fs.failed_calls().iter().any(|(op, _)| *op == FileOp::Read)
    }

    /// Checks that a kill and a power cut at this point leave all acknowledged writes.
    fn check_crash_images(&mut self, seed: u64) -> Result<(), String> {
        if self.allowed.may_lack_unreadable_data() {
            return Ok(());
        }
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
                .map_err(|message| format!("{name}: {message}"))?;
        }
        Ok(())
    }

    fn check_image(&self, image: MemFs, allowed: &[State]) -> Result<(), String> {
        let case = self.case;
        let fs = FileUsageChecker::new(Arc::new(image), case.logs) as Arc<dyn FileSystem>;
        let options = case.config.options(&fs);
        let read = |db: &TerraceStore| -> Result<State, String> {
            parse_state(&db.try_entries(None).map_err(|error| error.to_string())??, &case.script.values)
        };
        let db = TerraceStore::try_open(&options).map_err(|error| format!("open failed: {error}"))?;
        let mut found = read(&db)?;
        if !allowed.contains(&found) {
            let difference = describe_difference(&allowed[allowed.len() - 1], &found);
            return Err(format!(
                "the contents are none of the {} allowed states: {difference}",
                allowed.len()
            ));
        }
        let post_crash_write = (POST_CRASH_KEY, Some(case.script.values.bytes(case.script.post_crash_value)));
        db.try_write(&[post_crash_write], true)
            .map_err(|error| format!("the first write failed: {error}"))?;
        drop(db);
        apply_changes(&mut found, &[(POST_CRASH_KEY.to_vec(), Some(case.script.post_crash_value))]);
        let db = TerraceStore::try_open(&options).map_err(|error| format!("second open failed: {error}"))?;
        let reread = read(&db)?;
        if reread == found {
            Ok(())
        } else {
            Err(format!("after the second open: {}", describe_difference(&found, &reread)))
        }
    }

    /// Checks the database after all calls work again. Reads must be right. Writes must work if the
    /// system had only run out of a resource.
    fn recover_without_reopen(&mut self, fault: &Fault) -> Result<(), String> {
        if self.db.is_none() && !self.open()? {
            return Err("open failed although all calls work again".into());
        }
        let failed_calls = self.fault_fs.failed_calls();
        let Some(db) = &self.db else { return Ok(()) };
        let found = db
            .try_entries(None)
            .map_err(|error| format!("a scan failed although all calls work again: {error}"))?;
        self.allowed.check_read(&parse_state(&found?, &self.case.script.values)?)?;
        let sync_failed = failed_calls.iter().any(|(op, _)| matches!(op, FileOp::Sync | FileOp::SyncDir));
        if !matches!(fault, Fault::FailCalls(plan) if is_out_of_resources(plan)) || sync_failed {
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
                // A background job may have failed meanwhile, so the first failure is allowed.
                Err(_) if attempt == 1 => {}
                Err(error) => {
                    return Err(format!("space is available again, but no write succeeds: {error}"));
                }
            }
        }
        self.read_and_check()
    }
}

/// Returns true if the failed calls of `plan` report that the system ran out of a resource.
fn is_out_of_resources(plan: &str) -> bool {
    ["ENOSPC", "EDQUOT", "EMFILE"].iter().any(|errno| plan.ends_with(errno))
}
