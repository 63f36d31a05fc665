//! Where tests may write.

use std::path::PathBuf;

/// `$TEST_TMPDIR`, else a directory of this user's below `/tmp`. It need not exist.
pub fn test_directory() -> PathBuf {
    let given = std::env::var_os("TEST_TMPDIR").filter(|given| !given.is_empty());
    given.map_or_else(of_this_user, PathBuf::from)
}

fn of_this_user() -> PathBuf {
    // SAFETY: asks, and never fails.
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/leveldbtest-{user}"))
}
