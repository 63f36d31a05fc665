//! Removal and replacement of names, also while a handle has the file open.
//!
//! ```text
//!   remove   POSIX semantics (NTFS since Windows 10)   the name is free at once
//!            other file systems                        rename to a temporary name, then remove
//!   rename   POSIX semantics, then MoveFileEx          another try while a handle is open
//! ```
//!
//! Without POSIX semantics, a removed name stays in its directory until the last handle is closed,
//! and no file can be created with it. The temporary name ends with `.dbtmp`, so that every LevelDB
//! removes a file that a crash left.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use windows_sys::Win32::Storage::FileSystem::{DELETE, FILE_FLAG_OPEN_REPARSE_POINT};

use super::{calls, error_codes, platform};

/// Extension of the temporary files of LevelDB.
const TEMPORARY_EXTENSION: &str = "dbtmp";

/// Number of tries while another program has a file open. Virus scanners and indexers open new
/// files for some milliseconds.
const MAX_TRIES: u32 = 20;

/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Removes the name of a file. Open handles keep working.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    retry(is_in_use, || {
        let mut options = OpenOptions::new();
        let file = options.access_mode(DELETE).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
        if calls::remove_at_once(&file).is_ok() {
            return Ok(());
        }
        drop(file);
        remove_under_other_name(path)
    })
}

/// Frees the name first, if the directory takes another one.
fn remove_under_other_name(path: &Path) -> io::Result<()> {
    if path.extension() == Some(OsStr::new(TEMPORARY_EXTENSION)) {
        return fs::remove_file(path);
    }
    let number = platform::random_seed().unwrap_or_default();
    let temporary = path.with_file_name(format!("{number}.{TEMPORARY_EXTENSION}"));
    match fs::rename(path, &temporary) {
        Ok(()) => fs::remove_file(&temporary),
        Err(_) => fs::remove_file(path),
    }
}

/// Renames a file and replaces a file with the new name.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    // The error of a file that another handle has open is that of a missing right, too.
    let may_pass =
        |e: &io::Error| is_in_use(e) || (e.kind() == io::ErrorKind::PermissionDenied && to.is_file());
    retry(may_pass, || fs::rename(from, to))
}

fn is_in_use(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| error_codes::IN_USE.contains(&code))
}

/// Calls `work` again after a pause, as long as its error may pass.
fn retry(may_pass: impl Fn(&io::Error) -> bool, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..MAX_TRIES {
        match work() {
            Err(e) if may_pass(&e) => thread::sleep(RETRY_PAUSE),
            done => return done,
        }
    }
    work()
}
