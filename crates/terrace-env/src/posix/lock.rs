//! Database lock: one lock file, and three mechanisms of exclusion.
//!
//! ```text
//!   this process      a set of (device, inode)   also for another path or a link
//!   C++ LevelDB       a record lock              Terrace's belongs to the open file description
//!   Go LevelDB        flock
//! ```
//!
//! An ordinary record lock belongs to the process, and the first close of *any* descriptor of the
//! file releases it. A lock of an open file description lasts until its own close, and still
//! conflicts with ordinary locks.
//!
//! Some systems have only ordinary locks: WSL1, gVisor, a sandbox that filters `fcntl`. There the
//! process takes an ordinary lock. Therefore the set is checked before the file is opened, so that
//! a refused opener closes nothing, and a file is closed only when the process has no other lock of
//! it. A system without `flock` for this file gives the record lock only, like C++ LevelDB.
//!
//! A file name that is removed and created again could be locked twice. The thread that removes the
//! lock file with the database therefore holds the lock meanwhile, and a new holder checks that its
//! file still has the name.
//!
//! A child that is forked while the lock is held shares it until it executes another program or
//! exits. A lock is therefore released before its file is closed, which releases it for both.
// This module is one of those that may use the file system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use terrace_sync::mutant;
use terrace_sync::native_locks::Mutex;

use super::lock_owner::OwnerProcess;
use super::{lock_holder, open};
use crate::error::{FileError, LockHolder, Result};
use crate::fs::{FileLock, LockMode, LockOwner};
use crate::lock_table::LockTable;
use crate::process::ProcessToken;

/// Identity of a file, independent of its path: device and inode.
pub(super) type FileId = (u64, u64);

/// Locks of this process. The mutex is held while a lock is taken or released, so that the table
/// agrees with the system. A thread that forks holds it, too.
pub(super) static PROCESS_LOCKS: Mutex<ProcessLocks> =
    Mutex::new(ProcessLocks { table: LockTable::new(), kept_files: Vec::new() });

/// Locks of this process, and the files that it must not close yet.
#[derive(Debug)]
pub(super) struct ProcessLocks {
    table: LockTable<FileId>,
    /// Files of released or failed locks. Closing one would release an ordinary record lock that
    /// the process still holds on the same file.
    kept_files: Vec<(FileId, LockedFile)>,
}

impl ProcessLocks {
    fn check(&self, file_id: FileId, mode: LockMode) -> io::Result<()> {
        if self.table.can_lock(&file_id, mode) {
            return Ok(());
        }
        Err(LockHolder::ThisProcess.into())
    }

    /// Returns a kept file of this process, for another shared lock. Its ordinary record lock is
    /// still held.
    fn take_kept_file(&mut self, file_id: FileId) -> Option<LockedFile> {
        let mut kept_files = self.kept_files.iter();
        let position = kept_files.position(|(id, file)| *id == file_id && file.process.is_current())?;
        Some(self.kept_files.swap_remove(position).1)
    }

    /// Closes `file`, or keeps it open until the process has no lock of the file.
    fn close(&mut self, file_id: FileId, file: LockedFile) {
        if self.table.can_lock(&file_id, LockMode::Exclusive) {
            self.kept_files.retain(|(kept_id, _)| *kept_id != file_id);
        } else if mutant!(InheritedLockFileClosed) && !file.process.is_current() {
            // Drops the file.
        } else if file.record_lock == RecordLock::Process {
            self.kept_files.push((file_id, file));
        }
    }
}

/// Held lock. Its drop releases the lock.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    shared: Arc<SharedLock>,
}

/// Lock of a [`PosixFileLock`], which forked children see as [`LockOwner`].
#[derive(Debug)]
struct SharedLock {
    file_id: FileId,
    /// Process that took an exclusive lock.
    owner: Option<OwnerProcess>,
    fallbacks: Vec<String>,
    /// None after the release. Locked only with [`PROCESS_LOCKS`], so that a fork finds it free.
    file: Mutex<Option<LockedFile>>,
}

/// Owner of a record lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordLock {
    /// The open file description.
    FileDescription,
    /// The process: an ordinary record lock.
    Process,
}

/// Possibly locked file. Dropping it releases the locks. A forked child that drops its copy leaves
/// them to its parent.
#[derive(Debug)]
struct LockedFile {
    file: File,
    record_lock: RecordLock,
    /// Process that locked the file.
    process: ProcessToken,
    /// Lines for [`FileLock::fallbacks`].
    fallbacks: Vec<String>,
}

impl LockedFile {
    fn new(file: File, record_lock: RecordLock) -> LockedFile {
        LockedFile { file, record_lock, process: ProcessToken::current(), fallbacks: Vec::new() }
    }

    /// Releases the locks. If that fails, closing the file releases them, unless a forked child
    /// still has it open.
    fn unlock(&self) {
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
        let _ = set_record_lock(&self.file, self.record_lock, libc::F_UNLCK as libc::c_short);
    }

    /// Releases the locks that this forked child shares with the processes that have the file open.
    /// `fork` does not copy an ordinary record lock.
    fn unlock_inherited(&self) {
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
        if self.record_lock == RecordLock::FileDescription {
            let _ = set_record_lock(&self.file, self.record_lock, libc::F_UNLCK as libc::c_short);
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.unlock();
        }
    }
}

impl SharedLock {
    fn new(file_id: FileId, file: LockedFile, mode: LockMode) -> SharedLock {
        let owner = (mode == LockMode::Exclusive).then(OwnerProcess::current);
        SharedLock { file_id, owner, fallbacks: file.fallbacks.clone(), file: Mutex::new(Some(file)) }
    }
}

impl LockOwner for SharedLock {
    fn record_fork(&self) {
        if let Some(owner) = &self.owner {
            owner.record_fork();
        }
    }

    fn has_exited(&self) -> bool {
        self.owner.as_ref().is_some_and(OwnerProcess::has_exited)
    }

    fn wait_for_exit(&self) -> bool {
        self.owner.as_ref().is_some_and(OwnerProcess::wait_for_exit)
    }

    fn release_inherited_lock(&self) {
        let mut locks = PROCESS_LOCKS.lock();
        if let Some(file) = self.file.lock().take_if(|file| !file.process.is_current()) {
            file.unlock_inherited();
            locks.table.remove(&self.file_id);
            locks.close(self.file_id, file);
        }
    }

    fn is_lock_file(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| file_id(&metadata) == self.file_id)
    }
}

/// Takes the lock or fails at once.
pub(super) fn lock_file(path: &Path, mode: LockMode) -> Result<PosixFileLock> {
    let fail = |e| FileError::new("lock", path, e);
    let mut locks = PROCESS_LOCKS.lock();
    if let Ok(metadata) = fs::metadata(path)
        && !mutant!(LockReleasedByFailedOpen)
    {
        let file_id = file_id(&metadata);
        locks.check(file_id, mode).map_err(fail)?;
        if let Some(file) = locks.take_kept_file(file_id) {
            locks.table.insert(file_id, mode);
            return Ok(PosixFileLock { shared: Arc::new(SharedLock::new(file_id, file, mode)) });
        }
    }
    // The operation tells a file that cannot be opened from one that cannot be locked.
    let file = open_lock_file(path, mode)
        .map_err(|e| FileError::new("open", path, name_required_permission(path, mode, e)))?;
    lock_opened_file(&mut locks, path, file, mode, PREFERRED_RECORD_LOCK).map_err(fail)
}

/// Locks `file`, with `record_lock` or with an ordinary record lock if the system refuses that.
fn lock_opened_file(
    locks: &mut ProcessLocks,
    path: &Path,
    file: File,
    mode: LockMode,
    record_lock: RecordLock,
) -> io::Result<PosixFileLock> {
    let file_id = self::file_id(&file.metadata()?);
    let mut file = LockedFile::new(file, record_lock);
    let locked = locks.check(file_id, mode).and_then(|()| take_locks(&mut file, path, file_id, mode));
    if let Err(e) = locked {
        locks.close(file_id, file);
        return Err(e);
    }
    locks.table.insert(file_id, mode);
    Ok(PosixFileLock { shared: Arc::new(SharedLock::new(file_id, file, mode)) })
}

/// Takes both kinds of lock.
fn take_locks(file: &mut LockedFile, path: &Path, file_id: FileId, mode: LockMode) -> io::Result<()> {
    lock_record(file, mode).map_err(|e| lock_holder::map_lock_error(e, &file.file, file_id))?;
    if !mutant!(LockReleasedByFailedOpen) {
        lock_flock(file, mode).map_err(|e| lock_holder::map_lock_error(e, &file.file, file_id))?;
    }
    if fs::metadata(path).is_ok_and(|metadata| self::file_id(&metadata) == file_id) {
        return Ok(());
    }
    // Another opener has destroyed the database and removed the file since it was opened.
    Err(LockHolder::Unknown.into())
}

impl Drop for PosixFileLock {
    fn drop(&mut self) {
        let mut locks = PROCESS_LOCKS.lock();
        let file = self.shared.file.lock().take();
        if let Some(file) = file {
            locks.table.remove(&self.shared.file_id);
            locks.close(self.shared.file_id, file);
        }
    }
}

impl FileLock for PosixFileLock {
    fn fallbacks(&self) -> &[String] {
        &self.shared.fallbacks
    }

    fn owner(&self) -> Option<Arc<dyn LockOwner>> {
        self.shared.owner.as_ref()?;
        Some(Arc::clone(&self.shared) as Arc<dyn LockOwner>)
    }
}

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn open_lock_file(path: &Path, mode: LockMode) -> io::Result<File> {
    match mode {
        LockMode::Exclusive => open::open_for_lock(path),
        LockMode::Shared => open::open_for_reading(path),
    }
}

/// Takes the lock of Go LevelDB, if the system has it for this file.
fn lock_flock(file: &mut LockedFile, mode: LockMode) -> io::Result<()> {
    let operation = match mode {
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
    };
    match flock(&file.file, operation).map_err(io::Error::from) {
        Err(e) if is_refusal(&e) => {
            file.fallbacks.push(format!("Locking with fcntl only, without flock: {e}"));
            Ok(())
        }
        locked => locked,
    }
}

/// Returns true for the errors of a file system, a system or a sandbox without a kind of lock.
fn is_refusal(e: &io::Error) -> bool {
    const REFUSALS: [i32; 6] =
        [libc::ENOSYS, libc::EOPNOTSUPP, libc::ENOLCK, libc::EPERM, libc::EINVAL, libc::ENOMEM];
    e.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno))
}

/// Adds the permission that the open of the lock file needs to the error of a missing permission.
fn name_required_permission(path: &Path, mode: LockMode, e: io::Error) -> io::Error {
    if e.kind() != io::ErrorKind::PermissionDenied {
        return e;
    }
    let needed = match (fs::symlink_metadata(path), mode) {
        (Ok(_), LockMode::Exclusive) => "a writer needs read and write permission for this file",
        (Ok(_), LockMode::Shared) => "a reader needs read permission for this file",
        (Err(missing), _) if missing.kind() == io::ErrorKind::NotFound => {
            "a writer needs write permission for the directory, to create this file"
        }
        (Err(_), _) => "the process needs search permission for the directory",
    };
    io::Error::new(e.kind(), format!("{e}: {needed}"))
}

const PREFERRED_RECORD_LOCK: RecordLock = if cfg!(any(target_os = "linux", target_os = "android")) {
    RecordLock::FileDescription
} else {
    RecordLock::Process
};

/// Takes the lock of C++ LevelDB: the kind in `file`, or an ordinary one if the system refuses it.
fn lock_record(file: &mut LockedFile, mode: LockMode) -> io::Result<()> {
    let kind = match mode {
        LockMode::Exclusive => libc::F_WRLCK,
        LockMode::Shared => libc::F_RDLCK,
    };
    if mutant!(RecordLockNotTakenInForkedChild) && super::fork_count() > 0 {
        return Ok(());
    }
    match set_record_lock(&file.file, file.record_lock, kind as libc::c_short) {
        Err(e) if file.record_lock == RecordLock::FileDescription && is_refusal(&e) => {
            file.record_lock = RecordLock::Process;
            file.fallbacks.push(format!("Locking with F_SETLK instead of F_OFD_SETLK: {e}"));
            set_record_lock(&file.file, RecordLock::Process, kind as libc::c_short)
        }
        locked => locked,
    }
}

/// Sets or removes a record lock on the whole file.
#[allow(unsafe_code)] // No safe wrapper supports locks of open file descriptions.
fn set_record_lock(file: &File, owner: RecordLock, kind: libc::c_short) -> io::Result<()> {
    // SAFETY: `flock` is a C struct of integers, and zero is a valid value of every integer. Zeros
    // request the range from 0 to the end, and a lock of a file description requires process id 0.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = kind;
    let command = match owner {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        RecordLock::FileDescription if !mutant!(LockReleasedByFailedOpen) => libc::F_OFD_SETLK,
        _ => libc::F_SETLK,
    };
    // SAFETY: `file` keeps the descriptor open during the call. For these commands, `fcntl` only
    // reads `request`, which lives until the call returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &request) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a program with child processes closed its database and could not open it
    /// again. A forked child that had not yet executed its own program still held the lock.
    #[test]
    fn forked_child_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let lock = lock_file(&path, mode).unwrap();
            // Shares the file description, like a forked child.
            let forked = lock.shared.file.lock().as_ref().unwrap().file.try_clone().unwrap();
            drop(lock);
            lock_file(&path, LockMode::Exclusive).unwrap();
            drop(forked);
        }
    }

    /// Regression test: an opener had opened the lock file of a database that was being destroyed.
    /// It got a lock on an unlinked file, while another process locked the next lock file.
    #[test]
    fn unlinked_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for creates_another in [false, true] {
            let unlinked = open_lock_file(&path, LockMode::Exclusive).unwrap();
            fs::remove_file(&path).unwrap();
            let other = creates_another.then(|| lock_file(&path, LockMode::Exclusive).unwrap());
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                let file = unlinked.try_clone().unwrap();
                let result =
                    lock_opened_file(&mut PROCESS_LOCKS.lock(), &path, file, mode, PREFERRED_RECORD_LOCK);
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            }
            drop(other);
            drop(lock_file(&path, LockMode::Exclusive).unwrap());
        }
    }

    /// Regression: a lock that this process held without Terrace, for example with LevelDB, gave
    /// "the database is open in another process".
    #[cfg(target_os = "linux")]
    #[test]
    fn holder_of_a_lock_of_this_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        fs::write(&path, "").unwrap();
        let record =
            |file: &File, owner| set_record_lock(file, owner, libc::F_WRLCK as libc::c_short).unwrap();
        let takes: [&dyn Fn(&File); 3] = [
            &|file| record(file, RecordLock::Process),
            &|file| record(file, RecordLock::FileDescription),
            &|file| flock(file, FlockOperation::NonBlockingLockExclusive).unwrap(),
        ];
        for (kind, take) in takes.iter().enumerate() {
            let holder = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            take(&holder);
            let error = lock_file(&path, LockMode::Exclusive).unwrap_err();
            assert_eq!(error.lock_holder(), Some(LockHolder::ThisProcess), "kind {kind}");
            // The refused file is closed only after this, or its close would release the lock.
            drop(holder);
        }
    }

    /// Regression: a system that forbids locks gave "the database is open in another process".
    #[test]
    fn forbidden_lock_is_no_other_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("LOCK")).unwrap();
        let id = file_id(&file.metadata().unwrap());
        let forbidden = lock_holder::map_lock_error(io::Error::from_raw_os_error(libc::EACCES), &file, id);
        assert_eq!(forbidden.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn required_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let existing = dir.path().join("LOCK");
        fs::write(&existing, "").unwrap();
        let missing = dir.path().join("LOCK2");
        for (path, mode, needed) in [
            (&existing, LockMode::Exclusive, "a writer needs read and write permission for this file"),
            (&existing, LockMode::Shared, "a reader needs read permission for this file"),
            (&missing, LockMode::Exclusive, "a writer needs write permission for the directory"),
        ] {
            let error = name_required_permission(path, mode, io::Error::from_raw_os_error(libc::EACCES));
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let expect = format!("Permission denied (os error 13): {needed}");
            assert!(error.to_string().starts_with(&expect), "{error}");
        }
    }

    #[test]
    fn forked_child_leaves_the_lock_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = lock_file(&path, LockMode::Exclusive).unwrap();
        let mut copy = {
            let locked = lock.shared.file.lock();
            let locked = locked.as_ref().unwrap();
            LockedFile::new(locked.file.try_clone().unwrap(), locked.record_lock)
        };
        copy.process = ProcessToken::of_other_process();
        drop(copy);
        let mut probe = LockedFile::new(File::open(&path).unwrap(), PREFERRED_RECORD_LOCK);
        assert!(lock_record(&mut probe, LockMode::Shared).is_err());
        assert!(lock_flock(&mut probe, LockMode::Shared).is_err());
    }

    /// Takes a lock in a process with ordinary record locks only.
    #[cfg(target_os = "linux")]
    fn lock_with_process_lock(path: &Path, mode: LockMode) -> PosixFileLock {
        let file = open_lock_file(path, mode).unwrap();
        lock_opened_file(&mut PROCESS_LOCKS.lock(), path, file, mode, RecordLock::Process).unwrap()
    }

    /// Returns true if another owner, such as another process, can take an exclusive lock.
    #[cfg(target_os = "linux")]
    fn can_be_locked(path: &Path) -> bool {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        // A lock of a file description conflicts with the ordinary lock of the same process.
        let locked = set_record_lock(&file, RecordLock::FileDescription, libc::F_WRLCK as libc::c_short);
        // Closing the file would release the ordinary lock of this process.
        Box::leak(Box::new(file));
        locked.is_ok()
    }

    /// Two shared locks of one process are one ordinary record lock, which the close of either file
    /// would release.
    #[cfg(target_os = "linux")]
    #[test]
    fn process_lock_lasts_until_the_last_shared_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        fs::write(&path, "").unwrap();
        let [first, second] = [(); 2].map(|()| lock_with_process_lock(&path, LockMode::Shared));
        drop(first);
        assert!(!can_be_locked(&path));
        let kept_files = || {
            let id = file_id(&fs::metadata(&path).unwrap());
            PROCESS_LOCKS.lock().kept_files.iter().filter(|(kept_id, _)| *kept_id == id).count()
        };
        for _ in 0..3 {
            drop(lock_file(&path, LockMode::Shared).unwrap());
            assert_eq!(kept_files(), 1, "a kept file is reused");
        }
        drop(second);
        assert_eq!(kept_files(), 0);
        assert!(can_be_locked(&path));
    }

    /// An opener that is refused after it has opened the file keeps it open: its close would
    /// release the ordinary record lock of the holder.
    #[cfg(target_os = "linux")]
    #[test]
    fn refused_opener_does_not_release_a_process_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = lock_with_process_lock(&path, LockMode::Exclusive);
        let file = open_lock_file(&path, LockMode::Exclusive).unwrap();
        let refused = lock_opened_file(
            &mut PROCESS_LOCKS.lock(),
            &path,
            file,
            LockMode::Exclusive,
            RecordLock::Process,
        );
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!can_be_locked(&path));
        drop(held);
        assert!(can_be_locked(&path));
    }

    #[test]
    fn errors_of_a_missing_mechanism_and_of_a_held_lock() {
        let is_refusal = |errno| is_refusal(&io::Error::from_raw_os_error(errno));
        assert!([libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::ENOLCK].into_iter().all(is_refusal));
        assert!(![libc::EAGAIN, libc::EACCES, libc::EBADF, libc::EIO].into_iter().any(is_refusal));
    }
}
