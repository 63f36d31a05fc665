//! Open files of the system, in the form that all systems share.
//!
//! ```text
//!   SystemSequentialFile  reads from the start       + calls of the system: FileCalls
//!   SystemLiveFile        reads a changing file      + calls of the system: FileCalls
//!   SystemWritableFile    buffers, keeps sync errors + file of the system: AppendTarget
//! ```
//!
//! The calls are type parameters, so a build has one direct call for each.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types)]

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::error::{FileError, Result};
use crate::fs::{FileIdentity, LiveFile, SequentialFile, WritableFile};
use crate::sticky_sync::StickySync;
use crate::write_buffer::WriteBuffer;

/// Calls of a system for a file that is read.
pub(crate) trait FileCalls: Debug + Send + Sync + 'static {
    /// Reads at `offset` and returns the number of bytes. Only 0 means the end of the file.
    fn read_once(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Returns the offset of the first data at or after `offset`, and `end` if there are none.
    /// Returns `offset` if the system does not know.
    fn next_data(file: &File, offset: u64, end: u64) -> u64;

    fn identity(file: &File) -> io::Result<FileIdentity>;
}

/// Reads until `buf` is full or the file ends, and returns the number of bytes.
pub(crate) fn read_fully<C: FileCalls>(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match C::read_once(file, offset.saturating_add(done as u64), &mut buf[done..])? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// File that is read from its start.
pub(crate) struct SystemSequentialFile<C> {
    path: PathBuf,
    file: File,
    offset: u64,
    calls: PhantomData<C>,
}

impl<C: FileCalls> SystemSequentialFile<C> {
    pub(crate) fn new(path: &Path, file: File) -> SystemSequentialFile<C> {
        SystemSequentialFile { path: path.to_path_buf(), file, offset: 0, calls: PhantomData }
    }

    fn end(&self) -> Result<u64> {
        len_of(&self.path, &self.file)
    }
}

impl<C: FileCalls> SequentialFile for SystemSequentialFile<C> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let read = C::read_once(&self.file, self.offset, buf);
        let n = read.map_err(|e| FileError::new("read", &self.path, e))?;
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let end = self.end()?;
        self.offset = self.offset.saturating_add(n).min(end.max(self.offset));
        Ok(())
    }

    fn skip_hole(&mut self, unit: u64) -> Result<u64> {
        let end = self.end()?;
        let data = C::next_data(&self.file, self.offset, end);
        let hole = data.min(end).saturating_sub(self.offset);
        let skipped = hole - hole % unit.max(1);
        self.offset += skipped;
        Ok(skipped)
    }
}

/// File that another process changes while it is open. It is read by system calls.
#[derive(Debug)]
pub(crate) struct SystemLiveFile<C> {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    calls: PhantomData<C>,
}

impl<C: FileCalls> SystemLiveFile<C> {
    pub(crate) fn new(path: &Path, file: File) -> Result<SystemLiveFile<C>> {
        let identity = C::identity(&file).map_err(|e| FileError::new("stat", path, e))?;
        Ok(SystemLiveFile { path: path.to_path_buf(), file, identity, calls: PhantomData })
    }
}

impl<C: FileCalls> LiveFile for SystemLiveFile<C> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully::<C>(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> Result<u64> {
        len_of(&self.path, &self.file)
    }

    fn identity(&self) -> FileIdentity {
        self.identity
    }
}

fn len_of(path: &Path, file: &File) -> Result<u64> {
    Ok(file.metadata().map_err(|e| FileError::new("stat", path, e))?.len())
}

/// File of a system that takes the bytes of a buffer at its end.
pub(crate) trait AppendTarget: Send {
    /// Prepares a write or a sync: opens a released file again.
    ///
    /// # Errors
    ///
    /// [`closed_error`] after [`AppendTarget::close`], and the error of the open.
    fn open(&mut self) -> Result<()>;

    /// Appends `data`. After an error, the file has its former end, if the system allows it: a
    /// later reader could take a part of a record for the end of the file.
    fn write(&mut self, data: &[u8]) -> Result<()>;

    /// Makes the written bytes durable. The caller has called [`AppendTarget::open`].
    fn sync(&self) -> Result<()>;

    fn close(&mut self);

    /// Implements [`WritableFile::release_descriptor`]. The buffer is empty.
    fn release(&mut self);
}

/// Error of a write to the file at `path`, which was closed.
pub(crate) fn closed_error(path: &Path) -> FileError {
    FileError::new("write", path, io::Error::other("the file was closed"))
}

/// File that is appended to through a buffer.
pub(crate) struct SystemWritableFile<T: AppendTarget> {
    target: T,
    buffer: WriteBuffer,
    syncs: StickySync,
}

impl<T: AppendTarget> SystemWritableFile<T> {
    pub(crate) fn new(target: T) -> SystemWritableFile<T> {
        SystemWritableFile { target, buffer: WriteBuffer::default(), syncs: StickySync::default() }
    }
}

impl<T: AppendTarget> WritableFile for SystemWritableFile<T> {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.target.open()?;
        self.buffer.append(data, |bytes| self.target.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.buffer.flush(|bytes| self.target.write(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.target.open()?;
        self.syncs.sync_with(|| self.target.sync())
    }

    fn close(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.target.close();
        flushed
    }

    fn release_descriptor(&mut self) {
        if self.buffer.is_empty() {
            self.target.release();
        }
    }

    fn acquire_descriptor(&mut self) -> Result<()> {
        self.target.open()
    }

    fn use_huge_pages(&mut self) {
        self.buffer.use_huge_pages();
    }
}

impl<T: AppendTarget> Drop for SystemWritableFile<T> {
    fn drop(&mut self) {
        let _ = self.flush(); // Ignores errors, as the trait documents.
    }
}
