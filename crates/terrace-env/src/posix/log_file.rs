//! Log file of the operating system, mapped or appended.
//!
//! ```text
//!   block 0              block 1              block 2
//!   +--------------------+--------------------+ - - - - - - - - - - - - +
//!   | records            | records | zeros    :  allocated, not in the  :
//!   +--------------------+--------------------+  file yet               +
//!                                  ^ stores   ^ end of the file
//! ```
//!
//! A *mapped* log ends at the end of a block. Records within the file are stored into the mapping.
//! Before a record beyond it, the file grows to the end of a block, by a single `ftruncate`: it
//! doubles, by 256 KiB at most. A kill at any moment therefore leaves zeros that reach exactly to
//! the end of a block, and never less than the seven bytes of a fragment header. Readers take them
//! for the end of the log, and another program that continues the log starts at a new block.
//! Records of 64 KiB and more are an exception, which `large_record` explains.
//!
//! Stores need allocated space, so that they never meet a full disk. On a full disk, and beyond the
//! mapping, the file grows all the same, by a hole. Its records are written by system calls, which
//! return errors. Allocations double, so that a small log is small on disk.
//!
//! An *appended* log takes every record by a system call and equals LevelDB's.
//!
//! During a fast fill, the log writes zeros to a new block with `pwrite`: page faults for each
//! 4 KiB would cost more. But a sync writes such a block as a whole, even if only a few bytes
//! changed. After a sync, some records are therefore written with `pwrite`.

mod large_record;

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;
use terrace_sync::mutant;
use terrace_sync::native_locks::Mutex;

use super::file_size_limit::FileSizeLimit;
use super::limits::{ResourceLimits, ResourcePermit};
use super::log_method::LogMethod;
use super::mapped_log::LogMapping;
use super::platform;
use super::reopened_file::ReopenedFile;
use crate::error::{FileError, Result};
use crate::fs::{LOG_FILE_BLOCK_SIZE, LogFile, MIN_LOG_END_ZEROS, MappedLogs};

/// Largest step of an allocation, in bytes.
const MAX_ALLOCATION_STEP: u64 = 1 << 20;

/// Largest number of zeros at the end of a mapped log, in bytes, except for the rest of a block.
/// Larger extensions save hardly any time and cost more to sync.
const MAX_EXTENSION: u64 = 256 << 10;

/// Zeros for the end of a log.
static LOG_ZEROS: [u8; (MAX_EXTENSION + LOG_FILE_BLOCK_SIZE) as usize] =
    [0; (MAX_EXTENSION + LOG_FILE_BLOCK_SIZE) as usize];

/// Page size of the page cache, in bytes. A kill can interrupt a write between two pages.
const PAGE_SIZE: u64 = 4096;

/// Number of writes with `pwrite` after a sync during a fast fill. Each takes about a microsecond,
/// and the storage takes some hundred microseconds to write one zero-filled block.
const PWRITES_AFTER_SYNC: usize = 200;

/// Log file of the operating system.
#[derive(Debug)]
pub(super) struct PosixLogFile {
    path: PathBuf,
    file: LogDescriptor,
    method: LogMethod,
    /// Bytes of the mapping. 0 for an appended log.
    capacity: u64,
    mapping: Option<LogMapping>,
    /// Length of the file. Only the writing thread changes it. Relaxed: the lock of the writers
    /// orders their accesses.
    len: AtomicU64,
    /// Stores into the mapping end here: the bytes before it have space. Relaxed, like `len`.
    store_end: AtomicU64,
    /// Appends end here without a check of the limit on the size of files. Relaxed, like `len`.
    append_limit: AtomicU64,
    growth: Mutex<Growth>,
    fills_fast: AtomicBool,
    /// Approximate number of writes that still use `pwrite`. Relaxed: both ways of writing are
    /// correct at any time.
    pwrites_left: AtomicUsize,
    /// True after the first write. Until then, a reopened file is unchanged.
    is_written: AtomicBool,
    is_closed: AtomicBool,
    /// True if a failed write may have left bytes.
    is_torn: AtomicBool,
}

/// Descriptor of a log.
#[derive(Debug)]
enum LogDescriptor {
    /// The permit is None before [`PosixLogFile::limit_descriptors`], and for an appended log,
    /// which needs its descriptor for each record.
    Kept(File, Option<ResourcePermit>),
    /// The file is opened for each call that the mapping cannot do. The mapping keeps the error
    /// state of the file for syncs.
    Released(ReopenedFile),
}

impl LogDescriptor {
    /// Calls `work` with the file.
    fn with<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match self {
            LogDescriptor::Kept(file, _) => work(file),
            LogDescriptor::Released(file) => work(&file.open(OpenOptions::new().read(true).write(true))?),
        }
    }
}

/// Space beyond the end of the file.
#[derive(Debug)]
struct Growth {
    /// Bytes from the start of the file with allocated space.
    allocated: u64,
    /// False after a failed allocation: from then on, the file grows by holes.
    can_allocate: bool,
    size_limit: FileSizeLimit,
}

impl Growth {
    /// Allocates space up to `end` or further, without a change of the file's length.
    fn allocate(&mut self, file: &LogDescriptor, end: u64, capacity: u64) -> io::Result<()> {
        self.size_limit.check(end)?;
        if end <= self.allocated {
            return Ok(());
        }
        let allocate_to = |goal: u64| {
            file.with(|file| {
                let len = goal - self.allocated;
                Ok(rustix::io::retry_on_intr(|| platform::allocate(file, self.allocated, len))?)
            })
        };
        let doubled = self.allocated + self.allocated.min(MAX_ALLOCATION_STEP);
        let goal = doubled.min(capacity).max(end);
        self.allocated = match allocate_to(goal) {
            Ok(()) => goal,
            Err(_) => allocate_to(end).map(|()| end)?,
        };
        Ok(())
    }
}

/// Returns true for an error that ends with free space.
fn is_out_of_space(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

impl PosixLogFile {
    /// Creates the log on `file`, which is empty or was closed by an earlier process. If the system
    /// refuses the mapping, the log is appended.
    pub(super) fn new(path: &Path, file: File, capacity: u64, mapped: MappedLogs) -> Result<PosixLogFile> {
        let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
        let mut method = LogMethod::choose(&file, mapped);
        let mut mapping = None;
        if method.is_mapped {
            let rounded = rounded_capacity(capacity.max(len)).map_err(|e| FileError::new("open", path, e))?;
            match LogMapping::new(&file, rounded) {
                Ok(mapped) => mapping = Some(mapped),
                Err(error) => method = LogMethod::appended(format!("the system refuses a mapping: {error}")),
            }
        }
        Ok(PosixLogFile {
            path: path.to_path_buf(),
            file: LogDescriptor::Kept(file, None),
            method,
            capacity: mapping.as_ref().map_or(0, LogMapping::len),
            mapping,
            len: AtomicU64::new(len),
            store_end: AtomicU64::new(0),
            append_limit: AtomicU64::new(0),
            growth: Mutex::new(Growth {
                allocated: len,
                can_allocate: true,
                size_limit: FileSizeLimit::default(),
            }),
            fills_fast: AtomicBool::new(false),
            pwrites_left: AtomicUsize::new(0),
            is_written: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
        })
    }

    /// Allocates the first block of a new log. If the system refuses this for another reason than a
    /// full disk, the log is appended.
    pub(super) fn allocate_first_block(&mut self) {
        if self.mapping.is_none() {
            return;
        }
        let growth = self.growth.get_mut();
        match growth.allocate(&self.file, LOG_FILE_BLOCK_SIZE, self.capacity) {
            Err(error) if !is_out_of_space(&error) => {
                self.mapping = None;
                self.capacity = 0;
                self.method = LogMethod::appended(format!("the system allocates no space: {error}"));
            }
            allocated => growth.can_allocate = allocated.is_ok(),
        }
    }

    /// Releases the descriptor of a mapped log if too many logs have one.
    pub(super) fn limit_descriptors(&mut self, limits: &ResourceLimits) -> Result<()> {
        let LogDescriptor::Kept(file, permit) = &mut self.file else { return Ok(()) };
        if self.mapping.is_none() {
            return Ok(());
        }
        *permit = limits.open_logs.acquire();
        if permit.is_none() {
            let released = ReopenedFile::new(&self.path, file);
            self.file = LogDescriptor::Released(released.map_err(|e| FileError::new("stat", &self.path, e))?);
        }
        Ok(())
    }

    /// Makes the file durable. The mapping does it for a released descriptor, because it knows the
    /// errors since the log was created. It does not reach the end of a log without space.
    fn sync_file(&self) -> io::Result<()> {
        if let (LogDescriptor::Released(_), Some(mapping)) = (&self.file, &self.mapping) {
            mapping.flush()?;
            if self.len.load(Ordering::Relaxed) <= self.capacity {
                return Ok(());
            }
        }
        self.file.with(platform::sync_file)
    }

    /// Writes into the last block of the file, over zeros.
    fn write_within(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let end = offset + (head.len() + body.len()) as u64;
        let takes_stores = end <= self.store_end.load(Ordering::Relaxed) && !self.should_pwrite();
        if let (Some(mapping), Some((front, last))) = (&self.mapping, head.split_last_chunk::<4>())
            && takes_stores
        {
            mapping.store(offset, front, *last, body);
            return Ok(());
        }
        self.pwrite_within(offset, head, body).inspect_err(|_| self.clear_from(offset))
    }

    fn pwrite_within(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let end = offset + (head.len() + body.len()) as u64;
        if offset / PAGE_SIZE == (end - 1) / PAGE_SIZE {
            return self.pwrite_all(offset, &mut [IoSlice::new(head), IoSlice::new(body)]);
        }
        // A kill between the two calls leaves zeros in the head.
        self.file.with(|file| {
            file.write_all_at(body, offset + head.len() as u64)?;
            file.write_all_at(head, offset)
        })
    }

    /// Appends to the file, with up to six zeros before `offset`.
    fn append(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let old_len = self.len.load(Ordering::Relaxed);
        let zeros = [0; 6];
        let Some(gap) = offset.checked_sub(old_len).and_then(|gap| zeros.get(..gap as usize)) else {
            let reason = format!("write at {offset} of a file of {old_len} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let end = offset.saturating_add((head.len() + body.len()) as u64);
        if end > self.append_limit.load(Ordering::Relaxed) {
            self.raise_append_limit(end)?;
        }
        let mut parts = [IoSlice::new(gap), IoSlice::new(head), IoSlice::new(body)];
        let written = match (gap, body) {
            // One buffer is cheaper for the system than a list of them.
            ([], []) => self.pwrite_one(old_len, head),
            _ => self.pwrite_all(old_len, &mut parts),
        };
        written.inspect_err(|_| {
            // Without this, the bytes of a part of the record would stay.
            let is_restored = self.file.with(|file| file.set_len(old_len)).is_ok();
            self.is_torn.fetch_or(!is_restored, Ordering::Relaxed);
        })?;
        self.len.store(end, Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    fn raise_append_limit(&self, end: u64) -> io::Result<()> {
        let limit = self.growth.lock().size_limit.check(end)?;
        self.append_limit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// Replaces the bytes from `offset` on by zeros, after a failed write. This frees their space.
    fn clear_from(&self, offset: u64) {
        let mut growth = self.growth.lock();
        growth.allocated = growth.allocated.min(offset);
        self.store_end.store(0, Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        let cleared = self.file.with(|file| file.set_len(offset).and_then(|()| file.set_len(len)));
        self.is_torn.fetch_or(cleared.is_err(), Ordering::Relaxed);
    }

    /// Extends the file with zeros, to the end of the block before `end` or further, and allocates
    /// their space. With no space, or beyond the mapping, the extension is a hole, which takes no
    /// stores.
    fn extend(&self, end: u64) -> io::Result<()> {
        let mut growth = self.growth.lock();
        let old_len = self.len.load(Ordering::Relaxed);
        let block_end = end.next_multiple_of(LOG_FILE_BLOCK_SIZE);
        let mut new_len = block_end;
        if growth.can_allocate && block_end <= self.capacity {
            let step = old_len.min(MAX_EXTENSION);
            new_len = (end + step).next_multiple_of(LOG_FILE_BLOCK_SIZE).min(self.capacity);
            growth.can_allocate = growth.allocate(&self.file, new_len, self.capacity).is_ok();
        }
        let is_allocated = new_len <= growth.allocated;
        if !is_allocated {
            new_len = block_end;
        }
        growth.size_limit.check(new_len)?;
        self.file.with(|file| file.set_len(new_len))?;
        self.len.store(new_len, Ordering::Relaxed);
        if !is_allocated {
            return Ok(());
        }
        self.store_end.store(new_len, Ordering::Relaxed);
        if self.fills_fast.load(Ordering::Relaxed) {
            let zeros = (new_len - old_len).min(LOG_ZEROS.len() as u64);
            // Only saves page faults: the bytes are zero already.
            let _ = self.file.with(|file| file.write_all_at(&LOG_ZEROS[..zeros as usize], old_len));
        }
        Ok(())
    }

    /// Writes all bytes of `bytes` at `offset`, without the cancellation point of the C library.
    fn pwrite_one(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.pwrite_until_done(bytes.len(), |file, done| {
            rustix::io::pwrite(file, bytes.get(done..).unwrap_or_default(), offset + done as u64)
        })
    }

    /// Writes all bytes of `parts` at `offset`.
    fn pwrite_all(&self, offset: u64, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut skipped = 0;
        self.pwrite_until_done(len, |file, done| {
            IoSlice::advance_slices(&mut parts, done - skipped);
            skipped = done;
            rustix::io::pwritev(file, parts, offset + done as u64)
        })
    }

    /// Calls `pwrite` with the number of written bytes until `len` bytes are written.
    fn pwrite_until_done(
        &self,
        len: usize,
        mut pwrite: impl FnMut(&File, usize) -> rustix::io::Result<usize>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            match self.file.with(|file| Ok(rustix::io::retry_on_intr(|| pwrite(file, done))?))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
        }
        Ok(())
    }

    /// Returns an error if the log takes no more writes.
    fn begin_write(&self) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) || self.is_torn.load(Ordering::Relaxed) {
            return Err(io::Error::other("the log file takes no more writes"));
        }
        self.is_written.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if the next write should use `pwrite`.
    fn should_pwrite(&self) -> bool {
        let pwrites_left = self.pwrites_left.load(Ordering::Relaxed);
        if pwrites_left > 0 {
            self.pwrites_left.store(pwrites_left - 1, Ordering::Relaxed);
        }
        pwrites_left > 0
    }
}

fn rounded_capacity(capacity: u64) -> io::Result<u64> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_FILE_BLOCK_SIZE).ok_or(Errno::FBIG)?;
    usize::try_from(rounded).map(|_| rounded).map_err(|_| Errno::FBIG.into())
}

impl LogFile for PosixLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn may_lose_pages(&self) -> bool {
        self.mapping.is_some()
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn write_method(&self) -> String {
        self.method.to_string()
    }

    fn expect_fast_fill(&self) {
        self.fills_fast.store(true, Ordering::Relaxed);
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = |e| FileError::new("write", &self.path, e);
        self.begin_write().map_err(fail)?;
        let zeros = if self.mapping.is_some() { MIN_LOG_END_ZEROS } else { 0 };
        let file_end = offset.checked_add((head.len() + body.len()) as u64 + zeros);
        let file_end = file_end.ok_or_else(|| fail(Errno::FBIG.into()))?;
        let written = match (&self.mapping, file_end <= self.len.load(Ordering::Relaxed)) {
            (_, true) => self.write_within(offset, head, body),
            (Some(_), false) => self.extend(file_end).and_then(|()| {
                // A store would end the process if the disk can't read the end of a reused log.
                self.pwrite_within(offset, head, body).inspect_err(|_| self.clear_from(offset))
            }),
            (None, false) => self.append(offset, head, body),
        };
        written.map_err(fail)
    }

    fn takes_large_records(&self) -> bool {
        self.mapping.is_some()
    }

    fn write_large_record(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let written = self.begin_write().and_then(|()| self.write_large(offset, parts));
        written.map_err(|e| FileError::new("write", &self.path, e))
    }

    fn is_intact(&self) -> bool {
        !self.is_torn.load(Ordering::Relaxed)
    }

    fn sync(&self) -> Result<()> {
        if mutant!(LogFileNotSynced) {
            return Ok(());
        }
        // Only Linux guarantees that a sync of the descriptor covers writes through a mapping.
        #[cfg(not(target_os = "linux"))]
        if let Some(mapping) = &self.mapping {
            mapping.flush().map_err(|e| FileError::new("msync", &self.path, e))?;
        }
        if self.fills_fast.load(Ordering::Relaxed) {
            self.pwrites_left.store(PWRITES_AFTER_SYNC, Ordering::Relaxed);
        }
        self.sync_file().map_err(|e| FileError::new("fdatasync", &self.path, e))
    }

    /// Keeps the mapping until the log is dropped. A write that comes too late fails, or in a race
    /// ends the process, but never touches foreign memory.
    fn truncate_and_close(&self, len: u64) -> Result<()> {
        self.is_closed.store(true, Ordering::Relaxed);
        let is_unchanged =
            !self.is_written.load(Ordering::Relaxed) && len == self.len.load(Ordering::Relaxed);
        if is_unchanged && self.growth.lock().allocated == len {
            return Ok(());
        }
        let truncated = self.file.with(|file| file.set_len(len));
        truncated.map_err(|e| FileError::new("truncate", &self.path, e))
    }
}
