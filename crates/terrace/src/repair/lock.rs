//! Lock of a repair, also of a database whose LOCK cannot be locked.
//!
//! ```text
//!   LOCK is a link, a directory, a FIFO or another special file
//!     ──> lock the target of a link ──> LOCK to lost/ ──> new LOCK, locked
//! ```

use std::path::Path;

use terrace_env::{Env, FileLock, LockMode};
use terrace_format::filename::FileName;

use super::install::archive_files;
use super::report::RepairReport;
use crate::db::{LostDirectory, lock_directory};
use crate::error::{Error, Result};
use crate::verify::{Problem, lock_for_check};

/// Held lock of a repair.
pub(super) struct RepairLock {
    /// Lock of LOCK, and of the target of a link in its place.
    _held: Vec<Box<dyn FileLock>>,
    replaced: Option<ReplacedLock>,
}

/// LOCK that no program can lock.
struct ReplacedLock {
    problem: Problem,
    /// Its new path, relative to the directory of the database.
    moved_to: String,
}

/// Locks a database for a repair, or for a dry run, which writes nothing.
///
/// Two repairs that replace LOCK at the same time are not excluded from each other.
pub(super) fn lock_for_repair(env: &Env, directory: &Path, dry_run: bool) -> Result<RepairLock> {
    if !dry_run {
        match lock_directory(env, directory, LockMode::Exclusive) {
            Err(Error::Io(error)) if error.unexpected_file().is_some() => {}
            locked => return Ok(RepairLock { _held: vec![locked?], replaced: None }),
        }
    }
    let target = lock_for_check(env, directory)?;
    let mut held: Vec<_> = target.held.into_iter().collect();
    let name = FileName::Lock.to_string();
    let replaced = match target.problem {
        Some(problem) => {
            let moved_to = LostDirectory::new(env, directory).unused_path(&name)?;
            Some(ReplacedLock { problem, moved_to })
        }
        None => None,
    };
    if !dry_run {
        if let Some(ReplacedLock { moved_to, .. }) = &replaced {
            archive_files(env, directory, &[(name, moved_to.clone())])?;
        }
        held.push(lock_directory(env, directory, LockMode::Exclusive)?);
    }
    Ok(RepairLock { _held: held, replaced })
}

impl RepairLock {
    /// Adds the replacement of LOCK to the report of the other changes. Releases the lock.
    pub(super) fn add_to_report(self, report: &mut RepairReport) {
        let Some(ReplacedLock { problem, moved_to }) = self.replaced else { return };
        report.changed = true;
        report.problems.insert(0, problem);
        report.actions.insert(0, "LOCK: a new file replaces it".to_owned());
        report.moved.insert(0, (FileName::Lock.to_string(), moved_to));
    }
}
