//! File that another process changes while it is open, and the identity of files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    FileIdentity { device: metadata.dev(), inode: metadata.ino() }
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
