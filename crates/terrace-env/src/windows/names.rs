//! Removal and replacement of names, also while a handle has the file open.
//!
//! ```text
//!   remove   POSIX semantics (NTFS since Windows 10)   the name is free at once
//!            other file systems                        rename to another name, then remove
//!   rename   POSIX semantics, then MoveFileEx          another try while a handle is open
//! ```
//!
//! Without POSIX semantics, a removed name stays in its directory until the last handle is closed,
//! and no file can be created with it. The other name is none of a database, so that every LevelDB
//! ignores a file that a crash left. The removal of the directory removes it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use windows_sys::Win32::Storage::FileSystem::{DELETE, FILE_FLAG_OPEN_REPARSE_POINT};

use super::{calls, platform, system_errors};

/// Extension of removed files that a handle keeps.
const REMOVED_EXTENSION: &str = "removed";

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
    let number = platform::random_seed().unwrap_or_default();
    let other = path.with_file_name(format!("{number:016x}.{REMOVED_EXTENSION}"));
    match fs::rename(path, &other) {
        Ok(()) => fs::remove_file(&other),
        Err(_) => fs::remove_file(path),
    }
}

/// Removes a directory that is empty, except for removed files that a crash left.
pub(super) fn remove_dir(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {
            remove_leftovers(dir)?;
            fs::remove_dir(dir)
        }
        removed => removed,
    }
}

fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(REMOVED_EXTENSION)) {
            // If a handle still keeps it, the directory stays.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Renames a file and replaces a file with the new name.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    retry(|e| may_be_replaceable_soon(e, to), || fs::rename(from, to))
}

/// The error of a file that another handle has open is that of a missing right, too.
fn may_be_replaceable_soon(error: &io::Error, to: &Path) -> bool {
    is_in_use(error) || (error.kind() == io::ErrorKind::PermissionDenied && to.is_file())
}

fn is_in_use(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| system_errors::IN_USE.contains(&code))
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
