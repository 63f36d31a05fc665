//! Log file with writes through a shared mapping: a record needs no system call.
//!
//! ```text
//!   0                                          capacity
//!   +------+------+---- ... ----+--------------+ - - - - - - - - +
//!   | head | body | head | body | zeros        :  pwrite beyond  :
//!   +------+------+---- ... ----+--------------+ - - - - - - - - +
//!            1. body   2. head without its last four bytes   3. those four, by one instruction
//! ```
//!
//! Written bytes are in the page cache at once: they survive a crash of the process, and
//! `fdatasync` makes them durable like bytes of `write`. A process that is killed between two
//! instructions leaves zeros in the last four bytes of the head, or a complete record.
//!
//! During a fast fill, the log allocates pages in large pieces: it writes zeros with `pwrite` a
//! little ahead of the records. A page fault for every 4 KiB would cost more than the rest of a
//! record. But a sync writes such a piece as a whole, even if the mapping changed only a few bytes
//! of it. After a sync, records are therefore written with `pwrite`, because the kernel then tracks
//! changes by 4 KiB. This ends after as many records as cost the time of one piece.
//!
//! Memory safety: the mapping lives as long as the log, writes are bounds-checked against it, and
//! no reference into it ever exists, only raw pointers. Two threads that write into the same range
//! violate the contract of the trait. That is a race of plain writes to bytes that this process
//! never reads.
//!
//! SIGBUS: the space is allocated before it is mapped, so a full disk causes none. A failing disk,
//! or another process that truncates the file, ends the process by SIGBUS, like a kill. Databases
//! on such storage use [`AppendingLog`].
#![allow(unsafe_code)] // Writes into the mapping.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use terrace_sync::native_locks::Mutex;

use super::files::PosixWritableFile;
use crate::error::{FileError, Result};
use crate::fs::{AppendingLog, LOG_CAPACITY_UNIT, LogFile};

/// Size of one zero fill, in bytes, during a fast fill. Larger fills save hardly any time and cost
/// more to sync.
const ZERO_FILL_SIZE: u64 = 256 * 1024;

/// Number of writes with `pwrite` after a sync during a fast fill. Each takes one or two
/// microseconds, and the storage takes some hundred microseconds to write one zero-filled piece.
const PWRITES_AFTER_SYNC: usize = 200;

/// Creates a mapped log on an empty `file`, or an appending log where the file system supports no
/// preallocation or mapping.
pub(super) fn create(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    match rounded_capacity(capacity).and_then(|capacity| allocate_and_map(&file, capacity, 0)) {
        Ok(map) => Ok(Box::new(MappedLogFile::new(path, file, map.len() as u64, Some(map)))),
        Err(e) if is_unsupported(&e) => {
            Ok(Box::new(AppendingLog::new(path, Box::new(PosixWritableFile::new(path, file)))))
        }
        Err(e) => Err(FileError::new("allocate", path, e)),
    }
}

/// Reopens a mapped log on a `file` with contents. It allocates space only at the first write after
/// the contents, because many databases are opened only for reading.
pub(super) fn reopen(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    let capacity = rounded_capacity(capacity.max(len)).map_err(|e| FileError::new("allocate", path, e))?;
    Ok(Box::new(MappedLogFile { reopened_len: len, ..MappedLogFile::new(path, file, capacity, None) }))
}

fn rounded_capacity(capacity: u64) -> io::Result<u64> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_CAPACITY_UNIT).ok_or(Errno::FBIG)?;
    usize::try_from(rounded).map(|_| rounded).map_err(|_| Errno::FBIG.into())
}

/// Allocates `capacity` bytes, which is rounded, for a file of `len` bytes and maps them. After an
/// error the file is unchanged.
fn allocate_and_map(file: &File, capacity: u64, len: u64) -> io::Result<MmapRaw> {
    let allocated = rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, capacity));
    let mapped = allocated
        .map_err(io::Error::from)
        .and_then(|()| MmapOptions::new().len(capacity as usize).map_raw(file));
    // A partial allocation uses disk space, so it is undone.
    mapped.or_else(|e| file.set_len(len).and(Err(e)))
}

/// Returns true for the errors of a file system without preallocation or without shared mappings.
fn is_unsupported(e: &io::Error) -> bool {
    let unsupported = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NODEV, Errno::INVAL];
    Errno::from_io_error(e).is_some_and(|e| unsupported.contains(&e))
}

#[derive(Debug)]
struct MappedLogFile {
    path: PathBuf,
    file: File,
    capacity: u64,
    /// Size of the file when it was reopened, in bytes.
    reopened_len: u64,
    /// Mapped space, or `None` inside if the file system supports no mapping. Initialised under
    /// `grow_lock`.
    mapping: OnceLock<Option<MmapRaw>>,
    closed: AtomicBool,
    /// End of the zero-filled pages during a fast fill, otherwise [`NO_FAST_FILL`].
    ///
    /// It rises under `grow_lock`. The Release store in `zero_fill_to` pairs with the Acquire loads
    /// of writers, so that they write after the zeros.
    zero_filled_to: AtomicU64,
    grow_lock: Mutex<()>,
    /// Approximate number of writes that still use `pwrite`. Relaxed: both ways of writing are
    /// correct at any time.
    pwrites_left: AtomicUsize,
}

/// Value of `zero_filled_to` without a fast fill.
const NO_FAST_FILL: u64 = u64::MAX;

impl MappedLogFile {
    fn new(path: &Path, file: File, capacity: u64, map: Option<MmapRaw>) -> MappedLogFile {
        MappedLogFile {
            path: path.to_path_buf(),
            file,
            capacity,
            reopened_len: 0,
            mapping: map.map_or_else(OnceLock::new, |map| OnceLock::from(Some(map))),
            closed: AtomicBool::new(false),
            zero_filled_to: AtomicU64::new(NO_FAST_FILL),
            grow_lock: Mutex::new(()),
            pwrites_left: AtomicUsize::new(0),
        }
    }

    /// Returns the mapping for a write up to `end`, which is within the capacity. Returns `None` if
    /// the write should use `pwrite`.
    fn mapping_for(&self, end: u64) -> io::Result<Option<&MmapRaw>> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping.as_ref());
        } else if end <= self.reopened_len {
            return Ok(None);
        }
        let _growing = self.grow_lock.lock();
        if self.mapping.get().is_none() {
            let mapping = match allocate_and_map(&self.file, self.capacity, self.reopened_len) {
                Ok(map) => Some(map),
                Err(e) if is_unsupported(&e) => None,
                Err(e) => return Err(e),
            };
            self.mapping.get_or_init(|| mapping);
        }
        Ok(self.mapping.get().and_then(Option::as_ref))
    }

    /// Fills pages with zeros up to `end`, which is within the capacity, during a fast fill. No
    /// record is beyond the filled pages, so the zeros overwrite none.
    fn zero_fill_to(&self, end: u64) -> io::Result<()> {
        static ZEROS: [u8; ZERO_FILL_SIZE as usize] = [0; ZERO_FILL_SIZE as usize];
        if end <= self.zero_filled_to.load(Ordering::Acquire) {
            return Ok(());
        }
        let _growing = self.grow_lock.lock();
        let mut filled = self.zero_filled_to.load(Ordering::Acquire);
        while filled < end {
            let len = (ZERO_FILL_SIZE - filled % ZERO_FILL_SIZE).min(self.capacity - filled);
            self.file.write_all_at(&ZEROS[..len as usize], filled)?;
            filled += len;
            // Pairs with the Acquire load at the start of this function.
            self.zero_filled_to.store(filled, Ordering::Release);
        }
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

impl LogFile for MappedLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn expect_fast_fill(&self, from: u64) {
        let _growing = self.grow_lock.lock();
        if self.zero_filled_to.load(Ordering::Acquire) == NO_FAST_FILL {
            // Never overwrite the old contents.
            self.zero_filled_to.store(from.max(self.reopened_len), Ordering::Release);
        }
    }

    fn preallocate(&self, end: u64) -> Result<u64> {
        let end = end.min(self.capacity); // Bytes beyond the capacity grow the file.
        self.zero_fill_to(end).map_err(|e| FileError::new("write", &self.path, e))?;
        self.mapping_for(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
        let prepared = match self.mapping.get() {
            Some(_) => self.zero_filled_to.load(Ordering::Acquire),
            None => self.reopened_len,
        };
        Ok(if prepared < self.capacity { prepared } else { u64::MAX })
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = |e| FileError::new("write", &self.path, e);
        let Some((front, last)) = head.split_last_chunk::<4>() else {
            let reason = format!("a head of {} bytes, expected at least 4", head.len());
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        };
        if self.closed.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log file is closed")));
        }
        let len = head.len() as u64 + body.len() as u64;
        if let Some(end) = offset.checked_add(len).filter(|&end| end <= self.capacity) {
            self.zero_fill_to(end).map_err(fail)?;
            let mapping = self.mapping_for(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
            if let Some(mapping) = mapping.filter(|_| !self.should_pwrite()) {
                copy_to_mapping(mapping, offset as usize, front, *last, body);
                return Ok(());
            }
        }
        self.pwrite(offset, head, body).map_err(fail)
    }

    fn sync(&self) -> Result<()> {
        let fail = |e| FileError::new("fdatasync", &self.path, e);
        // Only Linux guarantees that a sync of the descriptor covers writes through a mapping.
        #[cfg(not(target_os = "linux"))]
        if let Some(Some(mapping)) = self.mapping.get() {
            mapping.flush().map_err(fail)?;
        }
        if self.zero_filled_to.load(Ordering::Relaxed) != NO_FAST_FILL {
            self.pwrites_left.store(PWRITES_AFTER_SYNC, Ordering::Relaxed);
        }
        self.file.sync_data().map_err(fail)
    }

    /// Keeps the mapping until the log is dropped. A write that comes too late fails, or in a race
    /// ends the process, but never touches foreign memory.
    fn truncate_and_close(&self, len: u64) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        if self.mapping.get().is_none() && len == self.reopened_len {
            return Ok(()); // The file is unchanged.
        }
        self.file.set_len(len).map_err(|e| FileError::new("truncate", &self.path, e))
    }
}

impl MappedLogFile {
    /// Writes with system calls, also beyond the capacity, where it grows the file. The body is
    /// written first, so that a kill between the two calls leaves no head without a body.
    fn pwrite(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let body_offset = offset.checked_add(head.len() as u64).ok_or(Errno::FBIG)?;
        self.file.write_all_at(body, body_offset)?;
        self.file.write_all_at(head, offset)
    }
}

/// Copies `body`, then `front`, then `last` into the mapping. The caller has checked that all of
/// them lie within it.
fn copy_to_mapping(mapping: &MmapRaw, offset: usize, front: &[u8], last: [u8; 4], body: &[u8]) {
    debug_assert!(offset + front.len() + last.len() + body.len() <= mapping.len());
    // SAFETY: `offset` is at most the length of the mapping, because all bytes from there on end
    // within it.
    let to_front = unsafe { mapping.as_mut_ptr().add(offset) };
    // SAFETY: `front` ends within the mapping, so the pointer after it is in bounds too.
    let to_last = unsafe { to_front.add(front.len()) };
    // SAFETY: `last` ends within the mapping, so the pointer after it is in bounds too.
    let to_body = unsafe { to_last.add(last.len()) };
    // SAFETY: the destination has `body.len()` bytes, because the body ends within the mapping,
    // which is writable. It cannot overlap `body`, because no reference into the mapping exists.
    unsafe { to_body.copy_from_nonoverlapping(body.as_ptr(), body.len()) };
    // SAFETY: the destination has `front.len()` bytes before `to_last`, in the writable mapping. It
    // cannot overlap `front`, because no reference into the mapping exists.
    unsafe { to_front.copy_from_nonoverlapping(front.as_ptr(), front.len()) };
    // The order of instructions decides the bytes that a killed process leaves, and another process
    // may read them on another core. Neither the compiler nor the processor may move the copies
    // above after the write below.
    fence(Ordering::Release);
    // SAFETY: `to_last` has four bytes before the body, in the writable mapping, and an array of
    // bytes needs no alignment. A volatile write of four bytes is one instruction on processors
    // with unaligned writes (x86-64, AArch64). Other processors write the four bytes in some order.
    unsafe { to_last.cast::<[u8; 4]>().write_volatile(last) };
}
