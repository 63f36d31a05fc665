//! Process that took a database lock, as its forked children see it.
//!
//! ```text
//!   owner       record lock of the process on a file in memory; fork does not copy it
//!   child       has the same file open, and asks whether a process holds that lock
//! ```
//!
//! The system releases the record lock after the last instruction of the owner's threads. It does
//! not depend on process ids, which the system reuses, and works for children of children. The
//! database lock itself cannot answer the question, because the children share it.
// This module is one of those that may use the file system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
#![allow(unsafe_code)] // No safe wrapper supports record locks that belong to the process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use terrace_sync::mutant;

/// Maximum time from the fork until a child treats its parent as a process that continues. A
/// parent that calls `daemon` exits at once, but it may have to wait for a processor.
const EXIT_GRACE: Duration = Duration::from_millis(200);

/// The same time for a parent whose forking thread has run ever since the fork. A thread that waits
/// in a system call does not exit next.
const RUNNING_EXIT_GRACE: Duration = Duration::from_secs(2);

/// The same time for a parent that is exiting: the system may have to unmap much memory.
const EXITING_GRACE: Duration = Duration::from_secs(20);

/// Pause between two checks of the parent.
const EXIT_CHECK_PAUSE: Duration = Duration::from_millis(1);

/// Flag in `/proc/PID/stat` of a thread that is exiting: `PF_EXITING` of Linux.
const PF_EXITING: u64 = 4;

#[derive(Debug)]
pub(super) struct OwnerProcess {
    pid: u32,
    /// File with the record lock, created by the first fork. None if the system does not support
    /// it.
    life: OnceLock<Option<LifeFile>>,
    /// Thread of the owner that forked last. Relaxed, like `forked_at_ms`: the child reads the
    /// value of its only thread.
    forking_thread: AtomicI32,
    /// Time of the last fork, in milliseconds since `START`.
    forked_at_ms: AtomicU64,
}

#[derive(Debug)]
struct LifeFile {
    file: File,
    /// Device and inode. A child that closed all files and opened others does not take one of them
    /// for this file.
    file_id: (u64, u64),
}

/// Observation of the owner's forking thread.
enum ForkingThread {
    Exiting,
    Running,
    Other,
}

impl OwnerProcess {
    /// Returns the current process.
    pub(super) fn current() -> OwnerProcess {
        OwnerProcess {
            pid: std::process::id(),
            life: OnceLock::new(),
            forking_thread: AtomicI32::new(0),
            forked_at_ms: AtomicU64::new(0),
        }
    }

    /// Records that this thread of the owner forks now.
    pub(super) fn record_fork(&self) {
        self.life.get_or_init(LifeFile::create);
        self.forking_thread.store(current_thread_id(), Ordering::Relaxed);
        self.forked_at_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Returns true if the owner has exited. False if the system cannot say.
    pub(super) fn has_exited(&self) -> bool {
        if mutant!(ForkedChildAdoptsEarly) {
            return true;
        }
        // A process that closes all of its files loses the record lock and continues.
        let is_parent = std::os::unix::process::parent_id() == self.pid;
        !is_parent && self.life().is_some_and(LifeFile::is_unlocked)
    }

    /// Waits for the exit of an owner that seems to exit right after its fork. Returns true if it
    /// has exited.
    pub(super) fn wait_for_exit(&self) -> bool {
        if self.life().is_none() {
            return false;
        }
        loop {
            if self.has_exited() {
                return true;
            }
            let grace = match self.observe_forking_thread() {
                ForkingThread::Exiting => EXITING_GRACE,
                ForkingThread::Running => RUNNING_EXIT_GRACE,
                ForkingThread::Other => EXIT_GRACE,
            };
            let since_fork = now_ms().saturating_sub(self.forked_at_ms.load(Ordering::Relaxed));
            if Duration::from_millis(since_fork) >= grace {
                return false;
            }
            thread::sleep(EXIT_CHECK_PAUSE);
        }
    }

    fn life(&self) -> Option<&LifeFile> {
        self.life.get()?.as_ref()
    }

    fn observe_forking_thread(&self) -> ForkingThread {
        let thread = self.forking_thread.load(Ordering::Relaxed);
        let stat = std::fs::read_to_string(format!("/proc/{}/task/{thread}/stat", self.pid));
        // The name of the thread, in parentheses, may contain any character.
        let fields = stat.as_deref().ok().and_then(|stat| stat.rsplit_once(") ")).map(|(_, fields)| fields);
        let mut fields = fields.unwrap_or_default().split(' ');
        let state = fields.next();
        let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
        if flags & PF_EXITING != 0 || matches!(state, Some("Z" | "X")) {
            ForkingThread::Exiting
        } else if state == Some("R") {
            ForkingThread::Running
        } else {
            ForkingThread::Other
        }
    }
}

/// Returns the time since the first call in this process or in one of its ancestors.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = terrace_sync::get_or_init_for_fork(&START, Instant::now);
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl LifeFile {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn create() -> Option<LifeFile> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("terrace-owner", flags).ok()?);
        let file_id = file_id(&file)?;
        let mut lock = write_lock();
        // SAFETY: `file` keeps the descriptor open during the call. For this command, `fcntl` only
        // reads `lock`, which lives until the call returns.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &mut lock) };
        (result == 0).then_some(LifeFile { file, file_id })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn create() -> Option<LifeFile> {
        None
    }

    /// Returns true if no process holds the record lock.
    fn is_unlocked(&self) -> bool {
        if file_id(&self.file) != Some(self.file_id) {
            return false;
        }
        let mut lock = write_lock();
        // SAFETY: `file` keeps the descriptor open during the call. `fcntl` reads and writes
        // `lock`, which lives until the call returns.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLK, &mut lock) };
        result == 0 && lock.l_type == libc::F_UNLCK as libc::c_short
    }
}

fn file_id(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns a request for a lock on the whole file.
fn write_lock() -> libc::flock {
    // SAFETY: `flock` is a C struct of integers, and zero is a valid value of every integer. Zeros
    // request the range from 0 to the end.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = libc::F_WRLCK as libc::c_short;
    request
}

fn current_thread_id() -> i32 {
    // SAFETY: the function has no precondition.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return unsafe { libc::gettid() };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return 0;
}
