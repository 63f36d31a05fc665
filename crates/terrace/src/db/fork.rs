//! Forks of the process: the locks of a database during a fork, and its adoption by a child.
//!
//! ```text
//!   parent                            child
//!   fork: locks the database ──────>  reads the state at the fork; writes fail
//!   exits (for example `daemon`)      its next operation opens the database again: adoption
//! ```
//!
//! Between the fork and its exit, the parent may write, flush and compact. The state in the memory
//! of the child is then older than the files. The child therefore treats the parent as crashed: it
//! recovers the database from the files, with every write that the parent has finished.
//!
//! Iterators and snapshots from before the adoption continue with the state at the fork.

use std::path::Path;

use terrace_format::filename::FileName;
use terrace_sync::mutant;

use super::DbHandle;
use super::components::background_error::lost_in_fork_error;
use super::inner::DbInner;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::sync::{Arc, ForkLocks, ForkParticipant, Ordering};

impl ForkParticipant for DbInner {
    /// Waits until no writer is between its WAL record and its publication, so that the child finds
    /// all latches of the memtable free. Without success, the child does not use its copy of the
    /// database.
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        if let Some(owner) = &self.lock_owner
            && self.owner_process.is_current()
        {
            owner.record_fork();
        }
        if !self.is_adoption_lost()
            && locks.lock_in_time(&self, |inner| &inner.fork_state.adoption, |()| ()).is_none()
        {
            let inner = Arc::clone(&self);
            locks.run_in_child(move || inner.fork_state.is_adoption_lost.store(true, Ordering::Relaxed));
        }
        let len = locks.len();
        if !self.is_lost_in_fork() && !self.lock_writers(locks) {
            locks.truncate(len);
            let inner = Arc::clone(&self);
            locks.run_in_child(move || inner.fork_state.is_lost.store(true, Ordering::Relaxed));
        }
        Arc::clone(&self.chunk_pool).lock_for_fork(locks);
        Arc::clone(&self.table_cache).lock_for_fork(locks);
    }
}

impl DbInner {
    fn lock_writers(self: &Arc<Self>, locks: &mut ForkLocks) -> bool {
        if mutant!(ForkDuringWrite) {
            return true;
        }
        // No catch-up changes a memtable.
        if locks.lock_in_time(self, |inner| &inner.follower_tail, |_| ()).is_none() {
            return false;
        }
        let last_sequence = locks.lock_in_time(
            self,
            |inner| &inner.commit,
            |commit| commit.as_ref().map(|writer| writer.last_sequence),
        );
        let Some(last_sequence) = last_sequence else { return false };
        while last_sequence.is_some_and(|last| !self.read_state.publisher().is_next(last + 1)) {
            if !locks.may_wait() {
                return false;
            }
        }
        locks.lock_in_time(self, |inner| &inner.state, |_| ()).is_some()
    }

    /// Returns true in a child that cannot adopt the database: during the fork, another thread
    /// adopted it.
    fn is_adoption_lost(&self) -> bool {
        // Relaxed: the only thread of a new child stores it.
        self.fork_state.is_adoption_lost.load(Ordering::Relaxed)
    }

    /// Returns true in a child whose copy of the database is unusable: during the fork, another
    /// thread held a lock for too long. The child can still adopt the database.
    #[inline]
    pub(super) fn is_lost_in_fork(&self) -> bool {
        // The owner only reads a field that no thread writes. Relaxed: the only thread of a new
        // child stores it.
        !self.owner_process.is_current() && self.fork_state.is_lost.load(Ordering::Relaxed)
    }

    /// Returns an error if [`DbInner::is_lost_in_fork`].
    #[inline]
    pub(super) fn check_not_lost_in_fork(&self) -> Result<()> {
        if self.is_lost_in_fork() { Err(lost_in_fork_error()) } else { Ok(()) }
    }

    /// Opens the database of an owner that has exited. The caller holds `adoption`.
    fn open_again(&self) -> Result<Arc<DbInner>> {
        let owner = self.lock_owner.as_ref().ok_or_else(|| self.forked_process_error())?;
        // `daemon` changes the current directory.
        let directory = [&self.absolute_directory, &self.directory]
            .into_iter()
            .find(|directory| owner.is_lock_file(&directory.join(FileName::Lock.to_string())))
            .ok_or_else(|| moved_error(&self.absolute_directory))?;
        owner.release_inherited_lock();
        let options = Options { create_if_missing: false, error_if_exists: false, ..self.options.clone() };
        DbInner::open(directory, &options)
    }
}

fn moved_error(directory: &Path) -> Error {
    let path = directory.display();
    Error::NotSupported(format!("{path}: is no longer the database that the parent process opened"))
}

impl DbHandle {
    /// Returns the handle for this process, which did not open the database of `self`. Returns the
    /// handle of the parent while the parent runs, and if the child cannot adopt the database.
    #[cold]
    pub(super) fn after_fork(self: &Arc<DbHandle>) -> &Arc<DbHandle> {
        let handle = self.newest();
        let inner = &handle.inner;
        if inner.owner_process.is_current() || inner.is_shutting_down.load(Ordering::Relaxed) {
            return handle;
        }
        let may_adopt = !inner.fork_state.is_adoption_refused.load(Ordering::Relaxed)
            && inner.lock_owner.as_ref().is_some_and(|owner| owner.has_exited());
        if may_adopt { handle.adopt().unwrap_or(handle) } else { handle }
    }

    /// Returns the handle for a write in this process, like [`DbHandle::after_fork`]. Shortly after
    /// the fork, waits for a parent that may be about to exit.
    #[cold]
    pub(super) fn after_fork_for_write(self: &Arc<DbHandle>) -> Result<&Arc<DbHandle>> {
        let handle = self.newest();
        let inner = &handle.inner;
        let is_closed = inner.is_read_only || inner.is_shutting_down.load(Ordering::Relaxed);
        if inner.owner_process.is_current() || is_closed {
            return Ok(handle);
        }
        let has_exited = inner.lock_owner.as_ref().is_some_and(|owner| owner.wait_for_exit());
        if mutant!(ForkedChildWritesBesideParent) {
            return Ok(handle);
        }
        if has_exited { handle.adopt() } else { Err(inner.forked_process_error()) }
    }

    /// Returns the handle of the last adoption.
    pub(super) fn newest(self: &Arc<DbHandle>) -> &Arc<DbHandle> {
        let mut handle = self;
        while let Some(successor) = handle.successor.get() {
            handle = successor;
        }
        handle
    }

    /// Opens the database of an owner that has exited, unless another thread has done so.
    fn adopt(self: &Arc<DbHandle>) -> Result<&Arc<DbHandle>> {
        let inner = &self.inner;
        if inner.is_adoption_lost() {
            return Err(lost_in_fork_error());
        }
        let adopting = inner.fork_state.adoption.lock();
        if self.successor.get().is_none() {
            let opened = inner.open_again();
            inner.fork_state.is_adoption_refused.store(opened.is_err(), Ordering::Relaxed);
            terrace_sync::set_for_fork(&self.successor, Arc::new(DbHandle::new(opened?)));
        }
        drop(adopting);
        Ok(self.newest())
    }
}
