//! Calls of the system for files that are read or written sequentially.

use std::fs::File;
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file_identity::identity_of;
use crate::error::{FileError, Result};
use crate::fs::FileIdentity;
use crate::system_files::{
    self, AppendTarget, FileCalls, SystemLiveFile, SystemSequentialFile, SystemWritableFile, closed_error,
};

pub(super) type WindowsSequentialFile = SystemSequentialFile<WindowsCalls>;
pub(super) type WindowsLiveFile = SystemLiveFile<WindowsCalls>;
pub(super) type WindowsWritableFile = SystemWritableFile<WriteTarget>;

/// Calls of Windows.
#[derive(Debug)]
pub(super) enum WindowsCalls {}

impl FileCalls for WindowsCalls {
    /// An offset beyond the greatest length of a file is after the end of each file. The system
    /// would return an error for it.
    fn read_once(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if i64::try_from(offset).is_err() {
            return Ok(0);
        }
        file.seek_read(buf, offset)
    }

    /// Returns `offset`: holes are read as zeros.
    fn next_data(_file: &File, offset: u64, _end: u64) -> u64 {
        offset
    }

    fn identity(file: &File) -> io::Result<FileIdentity> {
        identity_of(file)
    }
}

/// Reads until `buf` is full or the file ends, and returns the number of bytes.
pub(super) fn read_fully(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    system_files::read_fully::<WindowsCalls>(file, offset, buf)
}

/// Writes all bytes of `data` at `offset`.
pub(super) fn write_fully(file: &File, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.seek_write(data, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => {
                offset += n as u64;
                data = &data[n..];
            }
        }
    }
    Ok(())
}

/// File that takes the bytes of a buffer.
pub(super) struct WriteTarget {
    path: PathBuf,
    /// None after `close`.
    file: Option<File>,
    /// Size of the file in bytes, without the buffer.
    len: u64,
}

impl WriteTarget {
    /// Creates the target for `file`, which has `len` bytes.
    pub(super) fn new(path: &Path, file: File, len: u64) -> WriteTarget {
        WriteTarget { path: path.to_path_buf(), file: Some(file), len }
    }

    fn open_file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| closed_error(&self.path))
    }
}

impl AppendTarget for WriteTarget {
    fn open(&mut self) -> Result<()> {
        self.open_file().map(drop)
    }

    fn write(&mut self, data: &[u8]) -> Result<()> {
        let file = self.open_file()?;
        write_fully(file, self.len, data).map_err(|e| {
            let _ = file.set_len(self.len); // The caller gets the error of the write.
            FileError::new("write", &self.path, e)
        })?;
        self.len += data.len() as u64;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.open_file()?.sync_data().map_err(|e| FileError::new("fdatasync", &self.path, e))
    }

    fn close(&mut self) {
        self.file = None;
    }

    /// Does nothing: a process may have millions of handles.
    fn release(&mut self) {}
}
