//! Texts of the errors of the system.

use std::io;

/// Returns the text of an error by its code on systems of the POSIX family, and on Windows.
fn text(posix: i32, windows: i32) -> String {
    io::Error::from_raw_os_error(if cfg!(windows) { windows } else { posix }).to_string()
}

/// `EACCES`, `ERROR_ACCESS_DENIED`.
pub(crate) fn permission_denied() -> String {
    text(13, 5)
}

/// `EROFS`, `ERROR_WRITE_PROTECT`.
pub(crate) fn read_only() -> String {
    text(30, 19)
}

/// `EMFILE`, `ERROR_TOO_MANY_OPEN_FILES`.
pub(crate) fn too_many_open_files() -> String {
    text(24, 4)
}

/// `EIO`, `ERROR_IO_DEVICE`.
pub(crate) fn input_output() -> String {
    text(5, 1117)
}
