//! Opening and creating files in a directory that an attacker may have prepared.
//!
//! ```text
//!   purpose                     link           other kinds     several hard links
//!   read                        is followed    are refused     allowed
//!   create                      is refused     are refused     only this name is replaced
//!   append, continue a log      is refused     are refused     refused
//!   lock                        is refused     are refused     allowed: nothing is written
//! ```
//!
//! "Other kinds" are directories, FIFOs, sockets and special files of devices. A FIFO would block
//! the process, and opening some special files has an effect at once. Therefore the kind is checked
//! before the file is opened, and again for the open file.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use terrace_sync::mutant;

use crate::error::UnexpectedFile;

/// Opens a regular file for reading. Links are followed.
pub(super) fn open_for_reading(path: &Path) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Creates a file that every user may read, subject to the umask. Replaces an existing regular
/// file, whose other hard links keep their contents.
pub(super) fn create_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            check_regular(&fs::symlink_metadata(path)?)?;
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Opens a file for a lock, and creates it if it does not exist. Links are refused.
pub(super) fn open_for_lock(path: &Path) -> io::Result<File> {
    open_no_follow(path, OpenOptions::new().read(true).write(true).create(true).mode(0o644))
}

/// Opens a file whose contents stay, for more writes. `options` may create it.
///
/// Links and files with several hard links are refused with [`ErrorKind::Unsupported`]. The file
/// system contract has this error for files that cannot be continued, so the database creates a new
/// file.
pub(super) fn open_for_more_writes(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = open_no_follow(path, options).and_then(|file| {
        check_single_link(&file.metadata()?)?;
        Ok(file)
    });
    opened.map_err(|e| match UnexpectedFile::of(&e) {
        Some(found) => io::Error::new(ErrorKind::Unsupported, found),
        None => e,
    })
}

/// Maximum total size of the holes in a log that is continued, in bytes. The limit exceeds the size
/// of most logs, because file systems with compression report less storage for files without holes.
const MAX_HOLES_IN_CONTINUED_LOG: u64 = 64 << 20;

/// Opens a log for more writes. The log allocates its whole length, so a log with large holes is
/// refused like a link: it could fill the disk.
pub(super) fn open_log_for_more_writes(path: &Path) -> io::Result<File> {
    let file = open_for_more_writes(path, OpenOptions::new().read(true).write(true))?;
    let metadata = file.metadata()?;
    // The system counts blocks of 512 bytes.
    let holes = metadata.len().saturating_sub(metadata.blocks().saturating_mul(512));
    if holes > MAX_HOLES_IN_CONTINUED_LOG {
        let reason = UnexpectedFile { found: "a file with large holes", expected: "storage for every byte" };
        return Err(io::Error::new(ErrorKind::Unsupported, reason));
    }
    Ok(file)
}

fn open_no_follow(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if mutant!(LinkFollowedForWriting) {
        return options.open(path);
    }
    if let Ok(metadata) = fs::symlink_metadata(path) {
        check_regular(&metadata)?;
    }
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(UnexpectedFile { found: kind_name(metadata.file_type()), expected: "a regular file" }.into())
}

fn check_single_link(metadata: &Metadata) -> io::Result<()> {
    if metadata.nlink() <= 1 || mutant!(LinkFollowedForWriting) {
        return Ok(());
    }
    Err(UnexpectedFile { found: "a file with several hard links", expected: "one hard link" }.into())
}

fn kind_name(kind: FileType) -> &'static str {
    let kinds = [
        (kind.is_symlink(), "a symbolic link"),
        (kind.is_dir(), "a directory"),
        (kind.is_fifo(), "a FIFO"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device() || kind.is_block_device(), "a special file"),
    ];
    kinds.iter().find(|(is_kind, _)| *is_kind).map_or("an unknown kind of file", |(_, name)| name)
}
