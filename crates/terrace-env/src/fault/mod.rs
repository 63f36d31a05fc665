//! Fault injection: a file system whose calls fail by a plan.
//!
//! [`FaultFs`] wraps another file system. It counts every call, including calls on the files that
//! it opened, and the [`FaultPlan`] decides which calls fail. The plan can change at any time, also
//! for open files.
//!
//! Files are not mapped unless the test asks for it: each read is a call that can fail.

mod faulty_files;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_sync::Mutex;

use crate::clock::{Clock, SystemClock};

use crate::error::{FileError, Result};
use crate::fs::{
    AccessMode, DirectoryStamp, FileIdentity, FileLock, FileSystem, LiveFile, LockMode, LogFile, MappedLogs,
    RandomAccessFile, SequentialFile, WritableFile,
};
use faulty_files::{FaultyLogFile, FaultyRandomAccessFile, FaultySequentialFile, FaultyWritableFile};

pub use plan::{Errno, Fault, FaultPlan, FaultPlanError, FaultRule, FileOp};

/// File system with injected faults.
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    state: Arc<Mutex<FaultState>>,
    maps_files: bool,
}

impl fmt::Debug for FaultFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultFs({:?})", self.inner)
    }
}

impl FaultFs {
    /// Wraps `inner` with faults by `plan`.
    pub fn new(inner: Arc<dyn FileSystem>, plan: FaultPlan) -> FaultFs {
        let state = FaultState { match_counts: vec![0; plan.rules.len()], plan, ..FaultState::default() };
        FaultFs { inner, state: Arc::new(Mutex::new(state)), maps_files: false }
    }

    /// Returns a file system that maps files if the wrapped one does. Reads of a mapped file are no
    /// calls and cannot fail.
    pub fn with_mapped_files(self) -> FaultFs {
        FaultFs { maps_files: true, ..self }
    }

    /// Replaces the plan. Its rules start to count now, and the counts of [`FaultFs::call_count`]
    /// continue.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.state.lock();
        state.match_counts = vec![0; plan.rules.len()];
        state.plan = plan;
    }

    /// Returns the number of calls of kind `op`, including failed ones.
    pub fn call_count(&self, op: FileOp) -> u64 {
        self.state.lock().call_counts.get(&op).copied().unwrap_or(0)
    }

    /// Returns the kinds of failed calls with their files, each pair once.
    pub fn failed_calls(&self) -> Vec<(FileOp, PathBuf)> {
        self.state.lock().failed_calls.iter().cloned().collect()
    }

    /// Returns the number of calls of all kinds.
    pub fn total_call_count(&self) -> u64 {
        self.state.lock().call_counts.values().sum()
    }

    /// Counts a call on `path` that has no partial effect when it fails.
    fn check_call(&self, op: FileOp, call: &'static str, path: &Path) -> Result<()> {
        self.injector(path).check_call(op, call)
    }

    fn injector(&self, path: &Path) -> FaultInjector {
        FaultInjector { state: Arc::clone(&self.state), path: path.to_path_buf() }
    }
}

/// Plan and counters.
#[derive(Debug, Default)]
struct FaultState {
    plan: FaultPlan,
    /// Number of calls that each rule of the plan has matched.
    match_counts: Vec<u64>,
    call_counts: BTreeMap<FileOp, u64>,
    /// Failed calls.
    failed_calls: BTreeSet<(FileOp, PathBuf)>,
    /// Files whose syncs have no effect any more.
    ignored_syncs: BTreeSet<PathBuf>,
}

impl FaultState {
    /// Counts a call with one of these paths, and returns its fault.
    fn fault_for_call(&mut self, op: FileOp, paths: &[&Path]) -> Option<Fault> {
        *self.call_counts.entry(op).or_default() += 1;
        let mut fault = None;
        for (rule, matches) in self.plan.rules.iter().zip(&mut self.match_counts) {
            if paths.iter().any(|path| rule.matches(op, path)) {
                *matches += 1;
                fault = fault.or_else(|| rule.applies_to_call(*matches).then_some(rule.fault));
            }
        }
        let is_failure = fault.is_some_and(|fault| fault != Fault::Delay);
        if let (true, Some(path)) = (is_failure, paths.first()) {
            self.failed_calls.insert((op, path.to_path_buf()));
        }
        fault
    }
}

/// File, and the plan for calls on it.
#[derive(Debug)]
struct FaultInjector {
    state: Arc<Mutex<FaultState>>,
    path: PathBuf,
}

impl FaultInjector {
    fn fault_for_call(&self, op: FileOp) -> Option<Fault> {
        let fault = self.state.lock().fault_for_call(op, &[&self.path]);
        after_delay(fault)
    }

    /// Counts a call that has no partial effect when it fails.
    fn check_call(&self, op: FileOp, call: &'static str) -> Result<()> {
        self.fault_for_call(op).map_or(Ok(()), |fault| Err(self.injected_error(fault, call)))
    }

    fn injected_error(&self, fault: Fault, call: &'static str) -> FileError {
        if fault == Fault::Panic {
            // A panic without a message on the terminal.
            resume_unwind(Box::new("planned"));
        }
        FileError::new(call, &self.path, errno_of(fault).to_io_error())
    }

    /// Counts a sync, and returns true if it should have an effect.
    fn should_sync(&self) -> Result<bool> {
        let fault = self.fault_for_call(FileOp::Sync);
        let ignored_syncs = &mut self.state.lock().ignored_syncs;
        if fault == Some(Fault::SyncLosesData) {
            ignored_syncs.insert(self.path.clone());
        }
        match fault {
            Some(fault) => Err(self.injected_error(fault, "fdatasync")),
            None => Ok(!ignored_syncs.contains(&self.path)),
        }
    }
}

/// Waits if `fault` is a delay. Returns the fault otherwise.
fn after_delay(fault: Option<Fault>) -> Option<Fault> {
    const DELAY: Duration = Duration::from_millis(10);
    if fault == Some(Fault::Delay) {
        SystemClock.sleep(DELAY);
        return None;
    }
    fault
}

/// Returns the error number of a fault.
fn errno_of(fault: Fault) -> Errno {
    match fault {
        Fault::Error(errno) => errno,
        Fault::ShortRead | Fault::ShortWrite | Fault::SyncLosesData | Fault::Panic | Fault::Delay => {
            Errno::Eio
        }
    }
}

impl FileSystem for FaultFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.check_call(FileOp::Open, "open", path)?;
        Ok(Box::new(FaultySequentialFile {
            file: self.inner.open_sequential(path)?,
            injector: self.injector(path),
        }))
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.check_call(FileOp::Open, "open", path)?;
        Ok(Arc::new(FaultyRandomAccessFile {
            file: self.inner.open_random_access(path, access)?,
            injector: self.injector(path),
            is_mapped: self.maps_files,
        }))
    }

    fn open_live(&self, path: &Path) -> Result<Box<dyn LiveFile>> {
        self.check_call(FileOp::Open, "open", path)?;
        self.inner.open_live(path)
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.check_call(FileOp::Stat, "stat", path)?;
        self.inner.identity(path)
    }

    fn directory_stamp(&self, dir: &Path) -> Result<DirectoryStamp> {
        self.check_call(FileOp::Stat, "stat", dir)?;
        self.inner.directory_stamp(dir)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.check_call(FileOp::Create, "open", path)?;
        let file = self.inner.create(path)?;
        self.state.lock().ignored_syncs.remove(path);
        Ok(Box::new(FaultyWritableFile::new(file, self.injector(path))))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.check_call(FileOp::OpenAppend, "open", path)?;
        Ok(Box::new(FaultyWritableFile::new(self.inner.open_append(path)?, self.injector(path))))
    }

    fn create_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        self.check_call(FileOp::CreateLog, "open", path)?;
        let file = self.inner.create_log(path, capacity, mapped)?;
        self.state.lock().ignored_syncs.remove(path);
        Ok(Box::new(FaultyLogFile::new(file, self.injector(path))))
    }

    fn reopen_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        self.check_call(FileOp::CreateLog, "open", path)?;
        let file = self.inner.reopen_log(path, capacity, mapped)?;
        Ok(Box::new(FaultyLogFile::new(file, self.injector(path))))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.check_call(FileOp::Stat, "stat", path)?;
        self.inner.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.check_call(FileOp::Stat, "stat", path)?;
        self.inner.is_dir(path)
    }

    fn is_symlink(&self, path: &Path) -> Result<bool> {
        self.check_call(FileOp::Stat, "stat", path)?;
        self.inner.is_symlink(path)
    }

    fn check_writable(&self, dir: &Path) -> Result<()> {
        self.check_call(FileOp::Stat, "stat", dir)?;
        self.inner.check_writable(dir)
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        self.check_call(FileOp::Stat, "stat", path)?;
        self.inner.file_size(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        self.check_call(FileOp::List, "list", dir)?;
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.check_call(FileOp::CreateDir, "mkdir", dir)?;
        self.inner.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.check_call(FileOp::RemoveDir, "rmdir", dir)?;
        self.inner.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check_call(FileOp::Remove, "remove", path)?;
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let fault = self.state.lock().fault_for_call(FileOp::Rename, &[from, to]);
        if let Some(fault) = after_delay(fault) {
            return Err(self.injector(from).injected_error(fault, "rename"));
        }
        self.inner.rename(from, to)?;
        let mut state = self.state.lock();
        state.ignored_syncs.remove(to);
        if state.ignored_syncs.remove(from) {
            state.ignored_syncs.insert(to.to_path_buf());
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let fault = self.state.lock().fault_for_call(FileOp::Link, &[to, from]);
        if let Some(fault) = after_delay(fault) {
            return Err(self.injector(to).injected_error(fault, "link"));
        }
        self.inner.link(from, to)?;
        let mut state = self.state.lock();
        if state.ignored_syncs.contains(from) {
            state.ignored_syncs.insert(to.to_path_buf());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.check_call(FileOp::SyncDir, "fsync", dir)?;
        self.inner.sync_dir(dir)
    }

    fn refused_directory_sync(&self) -> Option<&str> {
        self.inner.refused_directory_sync()
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        self.check_call(FileOp::Lock, "lock", path)?;
        self.inner.lock(path, mode)
    }
}
