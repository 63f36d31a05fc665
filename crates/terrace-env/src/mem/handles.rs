//! Open files in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_sync::native_locks::{Mutex, MutexGuard};

use super::directories::Inode;
use super::file_content::FileChange;
use super::state::MemFsState;
use crate::error::{FileError, Result};
use crate::fs::{
    FileIdentity, FileLock, LOG_FILE_BLOCK_SIZE, LiveFile, LogFile, MIN_LOG_END_ZEROS, RandomAccessFile,
    SequentialFile, WritableFile,
};

/// Size of the write buffer, in bytes. A kill loses its contents, as with files of the operating
/// system.
const MEM_FILE_BUFFER_SIZE: usize = 64 * 1024;

/// Open file. It stays readable after its name is removed.
#[derive(Debug)]
pub(super) struct MemFileHandle {
    fs_state: Arc<Mutex<MemFsState>>,
    inode: Inode,
    path: PathBuf,
}

impl MemFileHandle {
    /// Creates a handle of `inode`. `state` is the locked contents of `fs_state`.
    pub(super) fn new(
        fs_state: &Arc<Mutex<MemFsState>>,
        state: &mut MemFsState,
        inode: Inode,
        path: &Path,
    ) -> MemFileHandle {
        state.add_handle(inode);
        MemFileHandle { fs_state: Arc::clone(fs_state), inode, path: path.to_path_buf() }
    }

    fn lock_state(&self) -> MutexGuard<'_, MemFsState> {
        self.fs_state.lock()
    }

    fn file_error(&self, op: &'static str) -> impl Fn(io::Error) -> FileError {
        move |e| FileError::new(op, &self.path, e)
    }

    /// Makes the bytes of the file durable with one mutating call.
    fn sync(&self) -> io::Result<()> {
        self.lock_state().sync_file(self.inode)
    }
}

impl Drop for MemFileHandle {
    fn drop(&mut self) {
        self.lock_state().drop_handle(self.inode);
    }
}

/// Bytes of the header of a fragment.
const LARGE_RECORD_HEAD: usize = 7;
/// Page of the page cache, in bytes.
const MEM_PAGE_SIZE: usize = 4096;

/// File that is read from its start.
pub(super) struct MemSequentialFile {
    handle: MemFileHandle,
    offset: usize,
}

impl MemSequentialFile {
    pub(super) fn new(handle: MemFileHandle) -> MemSequentialFile {
        MemSequentialFile { handle, offset: 0 }
    }
}

impl SequentialFile for MemSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut state = self.handle.lock_state();
        let content = state.file_content(self.handle.inode).map_err(self.handle.file_error("read"))?;
        let n = read_at(&content.live, self.offset, buf);
        drop(state);
        self.offset += n;
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let mut state = self.handle.lock_state();
        let end = state.file_content(self.handle.inode).map_err(self.handle.file_error("skip"))?.live.len();
        drop(state);
        let wanted = self.offset.saturating_add(usize::try_from(n).unwrap_or(usize::MAX));
        self.offset = wanted.min(end.max(self.offset));
        Ok(())
    }
}

fn read_at(bytes: &[u8], offset: usize, buf: &mut [u8]) -> usize {
    let found = &bytes[offset.min(bytes.len())..];
    let n = found.len().min(buf.len());
    buf[..n].copy_from_slice(&found[..n]);
    n
}

/// File that may change while it is open.
#[derive(Debug)]
pub(super) struct MemLiveFile(pub(super) MemFileHandle);

impl LiveFile for MemLiveFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let MemLiveFile(handle) = self;
        let mut state = handle.lock_state();
        let content = state.file_content(handle.inode).map_err(handle.file_error("read"))?;
        Ok(read_at(&content.live, usize::try_from(offset).unwrap_or(usize::MAX), buf))
    }

    fn len(&self) -> Result<u64> {
        let MemLiveFile(handle) = self;
        let mut state = handle.lock_state();
        Ok(state.file_content(handle.inode).map_err(handle.file_error("stat"))?.live.len() as u64)
    }

    fn identity(&self) -> FileIdentity {
        identity_of(self.0.inode)
    }
}

/// Returns the identity of a file or directory in memory.
pub(super) fn identity_of(inode: Inode) -> FileIdentity {
    FileIdentity { device: 0, inode, created_at: None }
}

/// Bytes of a file when it was opened. The trait forbids later changes.
#[derive(Debug)]
pub(super) struct MemRandomAccessFile {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Count of the mapping, if the file is mapped.
    pub(super) mapping: Option<Arc<()>>,
}

impl RandomAccessFile for MemRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(read_at(&self.bytes, usize::try_from(offset).unwrap_or(usize::MAX), buf))
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mapped_slice(&self) -> Option<&[u8]> {
        self.mapping.as_ref().map(|_| self.bytes.as_slice())
    }
}

/// File that is appended to through a buffer.
pub(super) struct MemWritableFile {
    handle: MemFileHandle,
    buffer: Vec<u8>,
    closed: bool,
}

impl MemWritableFile {
    pub(super) fn new(handle: MemFileHandle) -> MemWritableFile {
        MemWritableFile { handle, buffer: Vec::new(), closed: false }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            Err(self.handle.file_error("write")(io::Error::other("the file was closed")))
        } else {
            Ok(())
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<()> {
        let mut state = self.handle.lock_state();
        let offset = state.file_content(self.handle.inode)?.live.len();
        state.change_file(self.handle.inode, FileChange::Write { offset, data: data.into() })
    }
}

impl WritableFile for MemWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        if self.buffer.len() + data.len() > MEM_FILE_BUFFER_SIZE {
            self.flush()?;
        }
        if data.len() >= MEM_FILE_BUFFER_SIZE {
            return self.write(data).map_err(self.handle.file_error("write"));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.write(&self.buffer).map_err(self.handle.file_error("write"));
        self.buffer.clear();
        written
    }

    fn sync(&mut self) -> Result<()> {
        self.check_open()?;
        self.flush()?;
        self.handle.sync().map_err(self.handle.file_error("fdatasync"))
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.flush()
    }
}

impl Drop for MemWritableFile {
    fn drop(&mut self) {
        let _ = self.flush(); // Ignores errors, as the trait documents.
    }
}

/// Log file, mapped or appended, with the moments of a real one.
///
/// A write is several mutating calls, because a process can be killed between two of them. Each of
/// these moments is a crash point.
#[derive(Debug)]
pub(super) struct MemLogFile {
    handle: MemFileHandle,
    /// Size of the mapping in bytes, or 0 for an appended log.
    capacity: u64,
    closed: AtomicBool, // Accessed with the state locked.
}

impl MemLogFile {
    pub(super) fn new(handle: MemFileHandle, capacity: u64) -> MemLogFile {
        MemLogFile { handle, capacity, closed: AtomicBool::new(false) }
    }

    /// Writes over zeros of the file, in the order of a mapped log.
    fn write_within(
        &self,
        state: &mut MemFsState,
        offset: usize,
        head: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let (front, last) = head.split_at(head.len().saturating_sub(4));
        self.write(state, offset + head.len(), body)?;
        self.write(state, offset, front)?;
        self.write(state, offset + front.len(), last)
    }

    fn write(&self, state: &mut MemFsState, offset: usize, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        state.change_file(self.handle.inode, FileChange::Write { offset, data: data.into() })
    }

    /// Writes the fragments of a large record to a file of `len` bytes: within the file first all
    /// payloads and then the headers, and then pages at its end.
    fn write_large(
        &self,
        state: &mut MemFsState,
        len: usize,
        mut offset: usize,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        let mut heads = Vec::new();
        while !bytes.is_empty() && offset < len {
            let (now, later) = split_at_block_end(offset, bytes);
            bytes = later;
            let (head, body) = now.split_at(now.len().min(LARGE_RECORD_HEAD));
            heads.push((offset, head));
            self.write(state, offset + head.len(), body)?;
            offset += now.len();
        }
        for (offset, head) in heads {
            self.write_within(state, offset, head, &[])?;
        }
        while !bytes.is_empty() {
            let (now, later) = split_at_block_end(offset, bytes);
            bytes = later;
            // A kill can interrupt the call between any two pages.
            let (first, second) = now.split_at(now.len() / 2 / MEM_PAGE_SIZE * MEM_PAGE_SIZE);
            self.write(state, offset, first)?;
            self.write(state, offset + first.len(), second)?;
            offset += now.len();
        }
        Ok(())
    }

    /// Appends to a file of `len` bytes, with zeros before `offset`.
    fn append(&self, state: &mut MemFsState, len: usize, offset: usize, parts: [&[u8]; 2]) -> io::Result<()> {
        let mut bytes = vec![0; offset - len];
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        self.write(state, len, &bytes)
    }
}

/// Splits bytes of a log, which begin at `offset`, at the end of their first block.
fn split_at_block_end(offset: usize, bytes: &[u8]) -> (&[u8], &[u8]) {
    let block_end = (offset + 1).next_multiple_of(LOG_FILE_BLOCK_SIZE as usize);
    bytes.split_at(bytes.len().min(block_end - offset))
}

impl LogFile for MemLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn write_method(&self) -> String {
        let method = if self.capacity > 0 { "mapped" } else { "appended" };
        format!("{method}: file system in memory")
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = self.handle.file_error("write");
        let mut state = self.handle.lock_state();
        if self.closed.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log file is closed")));
        }
        let end =
            offset.checked_add((head.len() + body.len()) as u64).and_then(|end| usize::try_from(end).ok());
        let end = end.ok_or_else(|| fail(io::ErrorKind::FileTooLarge.into()))?;
        let offset = offset as usize;
        let len = state.file_content(self.handle.inode).map_err(&fail)?.live.len();
        let file_end = end + if self.capacity > 0 { MIN_LOG_END_ZEROS as usize } else { 0 };
        if file_end <= len {
            return self.write_within(&mut state, offset, head, body).map_err(fail);
        }
        if offset.saturating_sub(len) > 6 || offset < len && self.capacity == 0 {
            let reason = format!("write at {offset} of a file of {len} bytes");
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        if self.capacity == 0 {
            return self.append(&mut state, len, offset, [head, body]).map_err(fail);
        }
        let block_end = file_end.next_multiple_of(LOG_FILE_BLOCK_SIZE as usize);
        state.change_file(self.handle.inode, FileChange::SetLen(block_end)).map_err(&fail)?;
        self.write_within(&mut state, offset, head, body).map_err(fail)
    }

    fn takes_large_records(&self) -> bool {
        self.capacity > 0
    }

    fn write_large_record(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let fail = self.handle.file_error("write");
        let mut state = self.handle.lock_state();
        if self.closed.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log file is closed")));
        }
        let mut bytes = parts.concat();
        let (start, end) = usize::try_from(offset)
            .ok()
            .and_then(|start| Some((start, start.checked_add(bytes.len())?)))
            .ok_or_else(|| fail(io::ErrorKind::FileTooLarge.into()))?;
        let len = state.file_content(self.handle.inode).map_err(&fail)?.live.len();
        let new_len = (end + MIN_LOG_END_ZEROS as usize).next_multiple_of(LOG_FILE_BLOCK_SIZE as usize);
        if new_len > len {
            // The same call writes the zeros at the end, so that its last page is whole.
            bytes.resize(new_len - start, 0);
        }
        self.write_large(&mut state, len, start, &bytes).map_err(fail)
    }

    fn is_intact(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync().map_err(self.handle.file_error("fdatasync"))
    }

    fn truncate_and_close(&self, len: u64) -> Result<()> {
        let fail = self.handle.file_error("truncate");
        let len = usize::try_from(len).map_err(|_| fail(io::ErrorKind::FileTooLarge.into()))?;
        let mut state = self.handle.lock_state();
        self.closed.store(true, Ordering::Relaxed);
        state.change_file(self.handle.inode, FileChange::SetLen(len)).map_err(fail)
    }
}

/// Held lock.
#[derive(Debug)]
pub(super) struct MemFileLock(pub(super) MemFileHandle);

impl FileLock for MemFileLock {}

impl Drop for MemFileLock {
    fn drop(&mut self) {
        self.0.lock_state().locks.remove(&self.0.inode);
    }
}
