//! Directory for the files of tests.

use std::path::PathBuf;

/// Returns `$TEST_TMPDIR`, or else a directory for temporary files that is specific to this user.
/// It need not exist.
pub fn test_directory() -> PathBuf {
    let configured = std::env::var_os("TEST_TMPDIR").filter(|configured| !configured.is_empty());
    configured.map_or_else(default_test_directory, PathBuf::from)
}

#[cfg(unix)]
fn default_test_directory() -> PathBuf {
    // SAFETY: `geteuid` has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/leveldbtest-{user}"))
}

/// The directory for temporary files of Windows belongs to the user.
#[cfg(windows)]
fn default_test_directory() -> PathBuf {
    std::env::temp_dir().join("leveldbtest")
}
