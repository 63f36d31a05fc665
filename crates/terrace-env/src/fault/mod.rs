//! Files that fail by a written plan.
//!
//! A [`FaultFs`] stands in front of another file system. Every call through it, on files that it opened included, is
//! counted and shown to the [`Plan`]; most pass through, some fail as the plan says. The plan can be changed at
//! any time, also for files that are open.
//!
//! Files are never mapped here: each read is a call that can fail.

mod files;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_sync::Mutex;

use crate::error::{FileError, Result};
use crate::fs::{
    Access, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile, WritableFile,
};
use files::{Log, Random, Sequential, Writable};

pub use plan::{Errno, Fault, Op, Plan, PlanError, Rule};

/// A file system some of whose calls fail.
#[derive(Debug)]
pub struct FaultFs {
    behind: Arc<dyn FileSystem>,
    faults: Arc<Mutex<Faults>>,
}

impl FaultFs {
    /// `behind`, with calls that fail by `plan`.
    pub fn new(behind: Arc<dyn FileSystem>, plan: Plan) -> FaultFs {
        let faults = Faults { hits: vec![0; plan.rules.len()], plan, ..Faults::default() };
        FaultFs { behind, faults: Arc::new(Mutex::new(faults)) }
    }

    /// Replaces the plan. Its rules begin to count here; the counts of [`FaultFs::calls`] go on.
    pub fn set_plan(&self, plan: Plan) {
        let mut faults = self.faults.lock();
        faults.hits = vec![0; plan.rules.len()];
        faults.plan = plan;
    }

    /// How many calls of this kind there were, those that failed included.
    pub fn calls(&self, op: Op) -> u64 {
        self.faults.lock().calls.get(&op).copied().unwrap_or(0)
    }

    /// The kinds of calls that failed so far, and on which files; each pair once.
    pub fn failed(&self) -> Vec<(Op, PathBuf)> {
        self.faults.lock().failed.iter().cloned().collect()
    }

    /// How many calls there were of any kind.
    pub fn all_calls(&self) -> u64 {
        self.faults.lock().calls.values().sum()
    }

    /// Counts a call on `path` that can only fail as a whole.
    fn pass(&self, op: Op, call: &'static str, path: &Path) -> Result<()> {
        self.site(path).pass(op, call)
    }

    fn site(&self, path: &Path) -> Site {
        Site { faults: Arc::clone(&self.faults), path: path.to_path_buf() }
    }
}

/// The plan and how far it has come.
#[derive(Debug, Default)]
struct Faults {
    plan: Plan,
    /// How many calls each rule of the plan has matched.
    hits: Vec<u64>,
    calls: BTreeMap<Op, u64>,
    /// What failed.
    failed: BTreeSet<(Op, PathBuf)>,
    /// Files whose syncs do nothing any more.
    forgotten: BTreeSet<PathBuf>,
}

impl Faults {
    /// Counts a call that goes by one of these names, and decides about it.
    fn decide(&mut self, op: Op, paths: &[&Path]) -> Option<Fault> {
        *self.calls.entry(op).or_default() += 1;
        let mut decision = None;
        for (rule, hits) in self.plan.rules.iter().zip(&mut self.hits) {
            if paths.iter().any(|path| rule.matches(op, path)) {
                *hits += 1;
                decision = decision.or_else(|| rule.hits(*hits).then_some(rule.fault));
            }
        }
        if let (Some(_), Some(path)) = (decision, paths.first()) {
            self.failed.insert((op, path.to_path_buf()));
        }
        decision
    }
}

/// A file, and the plan that decides about calls on it.
#[derive(Debug)]
struct Site {
    faults: Arc<Mutex<Faults>>,
    path: PathBuf,
}

impl Site {
    fn decide(&self, op: Op) -> Option<Fault> {
        self.faults.lock().decide(op, &[&self.path])
    }

    /// Counts a call that can only fail as a whole.
    fn pass(&self, op: Op, call: &'static str) -> Result<()> {
        self.decide(op).map_or(Ok(()), |fault| Err(self.error(fault, call)))
    }

    fn error(&self, fault: Fault, call: &'static str) -> FileError {
        FileError::new(call, &self.path, errno(fault).error())
    }

    /// Counts a sync, and says whether it does anything.
    fn does_sync(&self) -> Result<bool> {
        let decision = self.decide(Op::Sync);
        let forgotten = &mut self.faults.lock().forgotten;
        if decision == Some(Fault::SyncForgets) {
            forgotten.insert(self.path.clone());
        }
        match decision {
            Some(fault) => Err(self.error(fault, "fdatasync")),
            None => Ok(!forgotten.contains(&self.path)),
        }
    }
}

/// The reason that goes with a fault.
fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Error(errno) => errno,
        Fault::ShortRead | Fault::ShortWrite | Fault::SyncForgets => Errno::Eio,
    }
}

impl FileSystem for FaultFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.pass(Op::Open, "open", path)?;
        Ok(Box::new(Sequential { file: self.behind.open_sequential(path)?, site: self.site(path) }))
    }

    fn open_random(&self, path: &Path, access: Access) -> Result<Arc<dyn RandomAccessFile>> {
        self.pass(Op::Open, "open", path)?;
        Ok(Arc::new(Random { file: self.behind.open_random(path, access)?, site: self.site(path) }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.pass(Op::Create, "open", path)?;
        let file = self.behind.create(path)?;
        self.faults.lock().forgotten.remove(path);
        Ok(Box::new(Writable::new(file, self.site(path))))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.pass(Op::OpenAppend, "open", path)?;
        Ok(Box::new(Writable::new(self.behind.append(path)?, self.site(path))))
    }

    fn create_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.pass(Op::CreateLog, "open", path)?;
        let file = self.behind.create_log(path, capacity)?;
        self.faults.lock().forgotten.remove(path);
        Ok(Box::new(Log { file, site: self.site(path) }))
    }

    fn reopen_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.pass(Op::CreateLog, "open", path)?;
        Ok(Box::new(Log { file: self.behind.reopen_log(path, capacity)?, site: self.site(path) }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.pass(Op::Stat, "stat", path)?;
        self.behind.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.pass(Op::Stat, "stat", path)?;
        self.behind.is_dir(path)
    }

    fn len(&self, path: &Path) -> Result<u64> {
        self.pass(Op::Stat, "stat", path)?;
        self.behind.len(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        self.pass(Op::List, "list", dir)?;
        self.behind.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.pass(Op::CreateDir, "mkdir", dir)?;
        self.behind.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.pass(Op::RemoveDir, "rmdir", dir)?;
        self.behind.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.pass(Op::Remove, "remove", path)?;
        self.behind.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let decision = self.faults.lock().decide(Op::Rename, &[from, to]);
        if let Some(fault) = decision {
            return Err(self.site(from).error(fault, "rename"));
        }
        self.behind.rename(from, to)?;
        let mut faults = self.faults.lock();
        faults.forgotten.remove(to);
        if faults.forgotten.remove(from) {
            faults.forgotten.insert(to.to_path_buf());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.pass(Op::SyncDir, "fsync", dir)?;
        self.behind.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        self.pass(Op::Lock, "lock", path)?;
        self.behind.lock(path, mode)
    }
}
