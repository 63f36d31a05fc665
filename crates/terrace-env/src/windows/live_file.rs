//! File that another process changes while it is open, and the identity of files.

use std::fs::File;
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::calls;
use super::files::read_fully;
use super::open::open_for_attributes;
use crate::error::{FileError, Result};
use crate::fs::{DirectoryStamp, FileIdentity, LiveFile};

/// Times of files are multiples of 100 ns since 1601.
const NANOS_PER_TICK: i128 = 100;

/// Open file that is read by system calls.
#[derive(Debug)]
pub(super) struct WindowsLiveFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
}

impl WindowsLiveFile {
    pub(super) fn new(path: &Path, file: File) -> Result<WindowsLiveFile> {
        let identity = identity_of(&file).map_err(|e| FileError::new("stat", path, e))?;
        Ok(WindowsLiveFile { path: path.to_path_buf(), file, identity })
    }
}

impl LiveFile for WindowsLiveFile {
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

pub(super) fn identity_of(file: &File) -> io::Result<FileIdentity> {
    let information = calls::file_information(file)?;
    Ok(FileIdentity {
        device: information.volume,
        inode: information.index,
        // A new file gets the time of an old one with the same name that was removed a moment ago.
        created_at: None,
    })
}

pub(super) fn identity_of_path(path: &Path) -> io::Result<FileIdentity> {
    identity_of(&open_for_attributes(path)?)
}

pub(super) fn stamp_of(dir: &Path) -> io::Result<DirectoryStamp> {
    let file = open_for_attributes(dir)?;
    let changed_at = i128::from(file.metadata()?.last_write_time()) * NANOS_PER_TICK;
    Ok(DirectoryStamp { identity: identity_of(&file)?, changed_at })
}
