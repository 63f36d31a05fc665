//! Opening and creation of files in a directory that may be hostile.
//!
//! ```text
//!   operation                   symbolic link   other kinds     several hard links
//!   read                        is followed     are refused     allowed
//!   create                      is refused      are refused     only this name is replaced
//!   append, continue a log      is refused      are refused     refused
//!   lock                        is refused      are refused     allowed: nothing is written
//! ```
//!
//! "Other kinds" are directories. Reserved names such as `NUL` have no file information, so their
//! open fails. The standard library converts paths to UTF-16, and gives absolute paths above 260
//! characters the prefix of long paths.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::{
    FILE_ADD_FILE, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_DELETE,
    FILE_SHARE_READ,
};

use super::{calls, names};
use crate::error::UnexpectedFile;

/// Opens a regular file for reading. Links are followed.
pub(super) fn open_for_reading(path: &Path) -> io::Result<File> {
    open_existing(path, OpenOptions::new().read(true))
}

/// Creates a file, which replaces an existing regular file. Other hard links of that file keep
/// their contents.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    match options.open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            check_regular(&fs::symlink_metadata(path)?)?;
            names::remove(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Opens a lock file, which the handle shares with readers and with its removal only. The mode
/// [`LockMode::Exclusive`](crate::LockMode) creates it, and refuses links.
pub(super) fn open_for_lock(path: &Path, is_exclusive: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    match is_exclusive {
        true => open_no_follow(path, options.write(true).create(true)),
        false => open_existing(path, &options),
    }
}

/// Opens a file whose contents stay, for more writes.
///
/// Links and files with several hard links are refused with [`ErrorKind::Unsupported`]. The file
/// system contract has this error for files that cannot be continued, so the database creates a new
/// file.
pub(super) fn open_for_more_writes(path: &Path, create: bool) -> io::Result<File> {
    let opened = open_no_follow(path, OpenOptions::new().read(true).write(true).create(create));
    let opened = opened.and_then(|file| {
        check_single_link(&file)?;
        Ok(file)
    });
    opened.map_err(|e| match UnexpectedFile::of(&e) {
        Some(found) => io::Error::new(ErrorKind::Unsupported, found),
        None => e,
    })
}

/// Opens a directory with the right to create files in it.
pub(super) fn open_for_new_files(dir: &Path) -> io::Result<File> {
    OpenOptions::new().access_mode(FILE_ADD_FILE).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(dir)
}

/// Opens a file or directory for its attributes only. No sharing mode of other handles prevents it.
pub(super) fn open_for_attributes(path: &Path) -> io::Result<File> {
    OpenOptions::new().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

fn open_existing(path: &Path, options: &OpenOptions) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn open_no_follow(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        check_regular(&metadata)?;
    }
    let file = options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kinds = [(metadata.is_symlink(), "a symbolic link"), (metadata.is_dir(), "a directory")];
    let found =
        kinds.iter().find(|(is_kind, _)| *is_kind).map_or("an unknown kind of file", |(_, name)| name);
    Err(UnexpectedFile { found, expected: "a regular file" }.into())
}

fn check_single_link(file: &File) -> io::Result<()> {
    if calls::file_information(file)?.links <= 1 {
        return Ok(());
    }
    Err(UnexpectedFile { found: "a file with several hard links", expected: "one hard link" }.into())
}
