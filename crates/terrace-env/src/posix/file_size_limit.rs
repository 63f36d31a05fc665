//! Limit on the size of files (`ulimit -f`).
//!
//! A write beyond the limit kills the process by SIGXFSZ, unless the program handles this signal. A
//! library must not change the signals of its program. Therefore a write checks the limit before
//! its system call, and fails with the error of a handled signal.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Growth of a file between two reads of the limit, in bytes. A program sets the limit when it
/// starts, so a read for each small write would only cost time.
const RECHECK_BYTES: u64 = 1 << 20;

/// Check of the limit for one growing file.
#[derive(Debug, Default)]
pub(super) struct FileSizeLimit {
    /// File size in bytes up to which no check is necessary.
    checked_to: u64,
}

impl FileSizeLimit {
    /// Returns an error of kind [`io::ErrorKind::FileTooLarge`] if the file may not grow to `end`
    /// bytes. Otherwise returns the size up to which no check is necessary.
    pub(super) fn check(&mut self, end: u64) -> io::Result<u64> {
        if end <= self.checked_to {
            return Ok(self.checked_to);
        }
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if end > limit {
            return Err(Errno::FBIG.into());
        }
        self.checked_to = limit.min(end.saturating_add(RECHECK_BYTES));
        Ok(self.checked_to)
    }
}
