//! Holder of a lock that the system refuses: this process, another one, or an unknown one.
//!
//! This process can hold a lock that Terrace does not know: a second copy of the library, or
//! LevelDB itself, may have opened the database. A record lock tells the process that holds it,
//! unless it belongs to an open file description. Then the files of this process tell whether it is
//! theirs.
// This module is one of those that may use the file system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::lock::{FileId, file_id};
use crate::error::LockHolder;

/// Maps the two system errors that mean a conflicting lock. `EACCES` may also mean that the system
/// forbids the call.
pub(super) fn map_lock_error(e: io::Error, file: &File, id: FileId) -> io::Error {
    match e.raw_os_error() {
        Some(libc::EAGAIN) => find_holder(file, id).unwrap_or(LockHolder::Unknown).into(),
        Some(libc::EACCES) => match conflicting_process(file) {
            Some(_) => find_holder(file, id).unwrap_or(LockHolder::Unknown).into(),
            None => e,
        },
        _ => e,
    }
}

/// Returns the holder of a lock on `file`, whose identity is `id`, if it is known.
fn find_holder(file: &File, id: FileId) -> Option<LockHolder> {
    let own = libc::pid_t::try_from(std::process::id()).ok()?;
    match conflicting_process(file) {
        Some(pid) if pid == own => Some(LockHolder::ThisProcess),
        Some(pid) if pid > 0 => Some(LockHolder::OtherProcess),
        _ => match is_locked_by_this_process(id, file.as_raw_fd()) {
            Ok(true) => Some(LockHolder::ThisProcess),
            Ok(false) => Some(LockHolder::OtherProcess),
            Err(_) => None,
        },
    }
}

/// Returns the process of a record lock on `file`. It is -1 if an open file description owns the
/// lock. None without a record lock.
#[allow(unsafe_code)] // No safe wrapper supports locks of open file descriptions.
fn conflicting_process(file: &File) -> Option<libc::pid_t> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COMMANDS: [libc::c_int; 2] = [libc::F_OFD_GETLK, libc::F_GETLK];
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const COMMANDS: [libc::c_int; 1] = [libc::F_GETLK];
    COMMANDS.into_iter().find_map(|command| {
        // SAFETY: `flock` is a C struct of integers, and zero is a valid value of every integer.
        // Zeros request the range from 0 to the end, and a lock of a file description requires
        // process id 0.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_whence = libc::SEEK_SET as libc::c_short;
        request.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: `file` keeps the descriptor open during the call. For these commands, `fcntl`
        // reads and writes `request`, which is a local variable.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut request) };
        let is_conflict = result != -1 && request.l_type != libc::F_UNLCK as libc::c_short;
        is_conflict.then_some(request.l_pid)
    })
}

/// Returns true if a file of this process, except for `asking`, has a lock on the file `id`. Linux
/// lists the locks of each open file in `/proc`.
fn is_locked_by_this_process(id: FileId, asking: RawFd) -> io::Result<bool> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let is_asking = name.to_str().and_then(|name| name.parse().ok()) == Some(asking);
        // Other threads may close their files meanwhile.
        let Ok(metadata) = fs::metadata(std::path::Path::new("/proc/self/fd").join(&name)) else { continue };
        if is_asking || file_id(&metadata) != id {
            continue;
        }
        let info = fs::read_to_string(std::path::Path::new("/proc/self/fdinfo").join(&name));
        if info.is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:"))) {
            return Ok(true);
        }
    }
    Ok(false)
}
