//! Paths that other languages pass as bytes.

use std::path::Path;

/// Returns the path that `bytes` name. All bytes are a path on systems of the POSIX family. On
/// Windows, they are UTF-8, and other bytes are no path.
///
/// ```
/// let path = terrace_env::path_from_bytes(b"directory/database");
/// assert_eq!(path, Some(std::path::Path::new("directory/database")));
/// ```
pub fn path_from_bytes(bytes: &[u8]) -> Option<&Path> {
    #[cfg(unix)]
    return Some(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)));
    #[cfg(windows)]
    std::str::from_utf8(bytes).ok().map(Path::new)
}
