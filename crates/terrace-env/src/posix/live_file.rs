//! File that another process changes while it is open, and the identity of files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::process::{Resource, getrlimit};

use super::files::read_fully;
use crate::error::{FileError, Result};
use crate::fs::{DirectoryStamp, FileIdentity, LiveFile};

/// Open file that is read by system calls.
#[derive(Debug)]
pub(super) struct PosixLiveFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
}

impl PosixLiveFile {
    pub(super) fn new(path: &Path, file: File) -> Result<PosixLiveFile> {
        let metadata = file.metadata().map_err(|e| FileError::new("stat", path, e))?;
        Ok(PosixLiveFile { path: path.to_path_buf(), file, identity: identity_of(&metadata) })
    }
}

impl LiveFile for PosixLiveFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| FileError::new("stat", &self.path, e))?.len())
    }

    fn identity(&self) -> FileIdentity {
        self.identity
    }
}

pub(super) fn identity_of(metadata: &Metadata) -> FileIdentity {
    let created_at = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        created_at: created_at.map(|time| time.as_nanos().cast_signed()),
    }
}

pub(super) fn stamp_of(metadata: &Metadata) -> DirectoryStamp {
    const NANOS_PER_SECOND: i128 = 1_000_000_000;
    let changed_at = i128::from(metadata.mtime()) * NANOS_PER_SECOND + i128::from(metadata.mtime_nsec());
    DirectoryStamp { identity: identity_of(metadata), changed_at }
}

/// Adds the limit on open files to the error of an open that exceeds it. A caller that keeps its
/// files open cannot work with fewer descriptors.
pub(super) fn name_limit(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return error;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    io::Error::other(format!("{error}; the limit RLIMIT_NOFILE is {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_limit_on_open_files() {
        let text = |errno| name_limit(io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::EMFILE).contains("(os error 24); the limit RLIMIT_NOFILE is "));
        assert!(!text(libc::EACCES).contains("RLIMIT_NOFILE"));
    }

    #[test]
    fn changes_of_an_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"one").unwrap();
        let live = PosixLiveFile::new(&path, File::open(&path).unwrap()).unwrap();
        let identity = |path: &Path| identity_of(&std::fs::metadata(path).unwrap());
        let read = |offset| {
            let mut bytes = [0; 8];
            let len = live.read_at(offset, &mut bytes).unwrap();
            bytes[..len].to_vec()
        };
        assert_eq!(
            (read(0), live.len().unwrap(), identity(&path) == live.identity()),
            (b"one".to_vec(), 3, true)
        );
        std::fs::write(&path, b"one two").unwrap();
        assert_eq!((read(4), live.len().unwrap()), (b"two".to_vec(), 7));
        std::fs::write(&path, b"o").unwrap();
        assert_eq!((read(4), live.len().unwrap()), (vec![], 1));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"another file").unwrap();
        assert_eq!(read(0), b"o");
        assert_ne!(identity(&path), live.identity());
        let before = stamp_of(&std::fs::metadata(dir.path()).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(dir.path().join("new"), b"").unwrap();
        let after = stamp_of(&std::fs::metadata(dir.path()).unwrap());
        assert!(after.identity == before.identity && after.changed_at > before.changed_at);
    }
}
