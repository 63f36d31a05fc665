//! Sync of a file whose first error stays.
//!
//! ```text
//!   thread 1   sync ──> EIO                     error
//!   thread 2        waits ────────> no call     the same error
//! ```
//!
//! Linux reports a failed writeback once per open file: of two threads that sync the same file, one
//! gets the error and the other gets success, although the bytes of both may be lost.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use terrace_sync::{Mutex, mutant};

use crate::error::{FileError, Result};

/// Syncs of one open file, one at a time. After the first error, every sync fails with it.
///
/// A [`LogFile`](crate::LogFile) holds one value for its open file and wraps its system call:
///
/// ```
/// use terrace_env::{FileError, StickySync};
///
/// let log = "000007.log";
/// let syncs = StickySync::default();
/// let fail = || Err(FileError::new("fdatasync", log, std::io::Error::other("a bad sector")));
/// assert!(syncs.sync_with(|| Ok(())).is_ok());
/// assert!(syncs.sync_with(fail).is_err());
/// assert!(syncs.sync_with(|| Ok(())).is_err(), "the system forgets the error, the file does not");
/// ```
#[derive(Debug, Default)]
pub struct StickySync {
    /// First error. The lock is held during a sync: a thread that checked the error without it
    /// could miss the error of a call that has returned, and is not recorded yet.
    failure: Mutex<Option<SyncFailure>>,
}

impl StickySync {
    /// Calls `sync` and returns its result, or the first error if an earlier or a concurrent call
    /// has failed. A panic of `sync` counts as a failure.
    pub fn sync_with(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failure = self.failure.lock();
        if let Some(failure) = &*failure {
            return Err(failure.to_error());
        }
        let synced = match catch_unwind(AssertUnwindSafe(sync)) {
            Ok(synced) => synced,
            Err(panic) => {
                let error = io::Error::other("an earlier sync of it panicked");
                *failure = Some(SyncFailure::new(&FileError::new("sync", Path::new("file"), error)));
                drop(failure);
                resume_unwind(panic);
            }
        };
        if let Err(error) = &synced
            && !mutant!(SyncErrorReportedOnce)
        {
            *failure = Some(SyncFailure::new(error));
        }
        synced
    }
}

/// Copy of a [`FileError`], which can't be cloned.
#[derive(Debug)]
struct SyncFailure {
    op: &'static str,
    path: PathBuf,
    kind: io::ErrorKind,
    os_error: Option<i32>,
    message: String,
}

impl SyncFailure {
    fn new(error: &FileError) -> SyncFailure {
        SyncFailure {
            op: error.op,
            path: error.path.clone(),
            kind: error.kind(),
            os_error: error.source.raw_os_error(),
            message: error.source.to_string(),
        }
    }

    fn to_error(&self) -> FileError {
        let source = match self.os_error {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.message.clone()),
        };
        FileError::new(self.op, &self.path, source)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
#[allow(clippy::disallowed_methods)] // The test checks real threads.
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    use super::*;

    /// Open file of a kernel that reports a writeback error once: the first sync fails.
    #[derive(Default)]
    struct FailsOnce {
        calls: AtomicUsize,
    }

    impl FailsOnce {
        fn fdatasync(&self, error: io::Error) -> Result<()> {
            match self.calls.fetch_add(1, Ordering::SeqCst) {
                0 => Err(FileError::new("fdatasync", "000007.log", error)),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn later_syncs_return_the_first_error() {
        let os_error = || io::Error::from_raw_os_error(5);
        for (error, text) in [
            (os_error as fn() -> io::Error, os_error().to_string()),
            (|| io::Error::other("a bad sector"), "a bad sector".to_owned()),
        ] {
            let file = FailsOnce::default();
            let syncs = StickySync::default();
            for _ in 0..3 {
                let found = syncs.sync_with(|| file.fdatasync(error())).unwrap_err();
                assert_eq!(found.to_string(), format!("fdatasync 000007.log: {text}"));
                assert_eq!(found.kind(), error().kind());
            }
            assert_eq!(file.calls.into_inner(), 1, "the file is not synced again");
        }
    }

    /// Regression test: a close and a sync write synced one log at the same time. The system
    /// reported the lost pages to one of them, and the other acknowledged its writes.
    #[test]
    fn sync_beside_a_failing_one_fails() {
        let syncs = Arc::new(StickySync::default());
        let file = Arc::new(FailsOnce::default());
        let both_started = Arc::new(Barrier::new(2));
        let (entered, first_entered) = mpsc::channel();
        let first = {
            let syncs = Arc::clone(&syncs);
            let file = Arc::clone(&file);
            let both_started = Arc::clone(&both_started);
            thread::spawn(move || {
                syncs.sync_with(|| {
                    let result = file.fdatasync(io::Error::from_raw_os_error(5));
                    // The system has forgotten the error, and this call has not returned yet.
                    entered.send(()).unwrap();
                    both_started.wait();
                    result
                })
            })
        };
        first_entered.recv().unwrap();
        both_started.wait();
        let second = syncs.sync_with(|| file.fdatasync(io::Error::from_raw_os_error(5)));
        assert!(first.join().unwrap().is_err() && second.is_err());
    }
}
