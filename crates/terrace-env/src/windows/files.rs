//! Files that are read or written sequentially.

use std::fs::File;
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{FileError, Result};
use crate::fs::{SequentialFile, WritableFile};
use crate::shared_files;
use crate::sticky_sync::StickySync;
use crate::write_buffer::WriteBuffer;

/// File that is read from its start.
pub(super) struct WindowsSequentialFile {
    path: PathBuf,
    file: File,
    offset: u64,
}

impl WindowsSequentialFile {
    pub(super) fn new(path: &Path, file: File) -> WindowsSequentialFile {
        WindowsSequentialFile { path: path.to_path_buf(), file, offset: 0 }
    }
}

impl SequentialFile for WindowsSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let read = self.file.seek_read(buf, self.offset);
        let n = read.map_err(|e| FileError::new("read", &self.path, e))?;
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let end = self.file.metadata().map_err(|e| FileError::new("stat", &self.path, e))?.len();
        self.offset = self.offset.saturating_add(n).min(end.max(self.offset));
        Ok(())
    }
}

/// Reads until `buf` is full or the file ends, and returns the number of bytes.
///
/// An offset beyond the greatest length of a file is after the end of each file. The system would
/// return an error for it.
pub(super) fn read_fully(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    if i64::try_from(offset).is_err() {
        return Ok(0);
    }
    shared_files::read_fully(offset, buf, |offset, buf| file.seek_read(buf, offset))
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

/// File that is appended to through a buffer.
pub(super) struct WindowsWritableFile {
    target: WriteTarget,
    buffer: WriteBuffer,
    syncs: StickySync,
}

/// File that takes the bytes of a buffer.
struct WriteTarget {
    path: PathBuf,
    /// None after `close`.
    file: Option<File>,
    /// Size of the file in bytes, without the buffer.
    len: u64,
}

impl WindowsWritableFile {
    /// Creates a writer that appends to `file`, which has `len` bytes.
    pub(super) fn new(path: &Path, file: File, len: u64) -> WindowsWritableFile {
        WindowsWritableFile {
            target: WriteTarget { path: path.to_path_buf(), file: Some(file), len },
            buffer: WriteBuffer::default(),
            syncs: StickySync::default(),
        }
    }
}

impl WriteTarget {
    fn open_file(&self) -> Result<&File> {
        self.file
            .as_ref()
            .ok_or_else(|| FileError::new("write", &self.path, io::Error::other("the file was closed")))
    }

    fn write(&mut self, data: &[u8]) -> Result<()> {
        let file = self.open_file()?;
        let written = write_fully(file, self.len, data);
        written.map_err(|e| {
            // Removes the bytes of a failed write, if the system allows it: a later reader could
            // take a part of a record for the end of the file.
            let _ = file.set_len(self.len);
            FileError::new("write", &self.path, e)
        })?;
        self.len += data.len() as u64;
        Ok(())
    }
}

impl WritableFile for WindowsWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.target.open_file()?;
        self.buffer.append(data, |bytes| self.target.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.buffer.flush(|bytes| self.target.write(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let file = self.target.open_file()?;
        let path = &self.target.path;
        self.syncs.sync_with(|| file.sync_data().map_err(|e| FileError::new("fdatasync", path, e)))
    }

    fn close(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.target.file = None;
        flushed
    }
}

impl Drop for WindowsWritableFile {
    fn drop(&mut self) {
        let _ = self.flush(); // Ignores errors, as the trait documents.
    }
}
