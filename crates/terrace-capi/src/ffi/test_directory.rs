//! Where tests may write.

use std::path::PathBuf;

/// `$TEST_TMPDIR`, else a directory of this user's below `/tmp`. It need not exist.
pub fn test_directory() -> PathBuf {
    let given = std::env::var_os("TEST_TMPDIR").filter(|given| !given.is_empty());
    given.map_or_else(default_test_directory, PathBuf::from)
}

fn default_test_directory() -> PathBuf {
    // SAFETY: asks, and never fails.
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/leveldbtest-{user}"))
}
