//! Detection of a standard output that a program of Windows does not have.
//!
//! The standard library ignores writes to a missing handle, and a backup made this way would be
//! lost without a message.

use std::io;
use std::os::windows::io::AsRawHandle;

/// Returns an error if the process has no standard output.
pub(super) fn check() -> io::Result<()> {
    if io::stdout().as_raw_handle().is_null() {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the process has no standard output"));
    }
    Ok(())
}
