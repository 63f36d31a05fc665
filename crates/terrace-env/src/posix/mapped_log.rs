//! A log file filled by stores into a shared mapping: no system call for a record.
//!
//! ```text
//!   0                                          capacity
//!   +------+------+---- ... ----+--------------+ - - - - - - - - +
//!   | head | body | head | body | zeros        :  pwrite beyond  :
//!   +------+------+---- ... ----+--------------+ - - - - - - - - +
//!            1. body   2. head without its last four bytes   3. those four, by one instruction
//! ```
//!
//! What is stored is in the page cache at once: it survives the death of the process, and `fdatasync` makes it
//! durable as if it had been written. A process killed between two instructions leaves either zeros in those four
//! bytes, or a whole record.
//!
//! In a hurry the pages come in large pieces, by `pwrite`s of zeros a little ahead of the stores: a fault for every four
//! kilobytes costs more than all else about a record. But a sync writes such a piece whole, however little was stored
//! into it through the mapping. So after a sync stores are `pwrite`s, which the kernel keeps account of by the four
//! kilobytes, until so many went by as take the time of writing a piece.
//!
//! Memory safety: the mapping lives as long as the log, stores are bounds-checked against it, and no reference into
//! it is ever made, only raw stores. Two threads that store into the same range break the trait's rule; that is a
//! race of plain stores on bytes that nothing in this process reads.
//!
//! SIGBUS: the room is allocated before it is mapped, so a full disk can't strike here. A failing medium, or
//! another process that cuts the file short, ends the process by SIGBUS, as a kill would. Databases on such
//! media are written through [`AppendingLog`].
#![allow(unsafe_code)] // stores into the mapping

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::files::PosixWritableFile;
use crate::error::{FileError, Result};
use crate::fs::{AppendingLog, LogFile};

/// Capacities are multiples of the log format's block.
const LOG_CAPACITY_UNIT: u64 = 32 * 1024;

/// What is zeroed at a time, in a hurry. Larger pieces are hardly cheaper, and dearer to sync.
const ZERO_FILL_SIZE: u64 = 256 * 1024;

/// Stores after a sync that go by system calls, of a microsecond or two each, in a hurry: a piece takes some hundred
/// microseconds to be written.
const PWRITES_AFTER_SYNC: usize = 200;

/// A mapped log on an empty `file`, or an appending one where the file system can't preallocate or map.
pub(super) fn create(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    match rounded_capacity(capacity).and_then(|capacity| allocate_and_map(&file, capacity, 0)) {
        Ok(map) => Ok(Box::new(MappedLogFile::new(path, file, map.len() as u64, Some(map)))),
        Err(e) if is_unsupported(&e) => {
            Ok(Box::new(AppendingLog::new(path, Box::new(PosixWritableFile::new(path, file)))))
        }
        Err(e) => Err(FileError::new("allocate", path, e)),
    }
}

/// A mapped log on a `file` that holds something. It gets its room when something is stored behind that: many databases
/// are opened to be read.
pub(super) fn reopen(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    let capacity = rounded_capacity(capacity.max(len)).map_err(|e| FileError::new("allocate", path, e))?;
    Ok(Box::new(MappedLogFile { reopened_len: len, ..MappedLogFile::new(path, file, capacity, None) }))
}

fn rounded_capacity(capacity: u64) -> io::Result<u64> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_CAPACITY_UNIT).ok_or(Errno::FBIG)?;
    usize::try_from(rounded).map(|_| rounded).map_err(|_| Errno::FBIG.into())
}

/// Gives `file`, which holds `len` bytes, its room, which is rounded, and maps it. After an error it is as it was.
fn allocate_and_map(file: &File, capacity: u64, len: u64) -> io::Result<MmapRaw> {
    let allocated = rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, capacity));
    let map = || MmapOptions::new().len(capacity as usize).map_raw(file);
    // A half-done allocation takes room.
    allocated.map_err(io::Error::from).and_then(|()| map()).or_else(|e| file.set_len(len).and(Err(e)))
}

/// True for the answers of a file system that knows no preallocation or no shared mappings.
fn is_unsupported(e: &io::Error) -> bool {
    let unsupported = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NODEV, Errno::INVAL];
    Errno::from_io_error(e).is_some_and(|e| unsupported.contains(&e))
}

#[derive(Debug)]
struct MappedLogFile {
    path: PathBuf,
    file: File,
    capacity: u64,
    /// What the file held when it was reopened.
    reopened_len: u64,
    /// The room, mapped; None where the file system can't. Made under `making`.
    mapping: OnceLock<Option<MmapRaw>>,
    closed: AtomicBool,
    /// In a hurry, up to where there are pages; else [`NO_FAST_FILL`]. Raised under `making`, with Release; who loads it with
    /// Acquire stores behind the zeros.
    zero_filled_to: AtomicU64,
    grow_lock: Mutex<()>,
    /// The next so many stores, about, go by system calls. Relaxed: either way of storing is right at any time.
    pwrites_left: AtomicUsize,
}

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

    /// The mapped room for a store up to `end`, which is within the capacity. None if it should go by system calls.
    fn mapping_for(&self, end: u64) -> io::Result<Option<&MmapRaw>> {
        if let Some(room) = self.mapping.get() {
            return Ok(room.as_ref());
        } else if end <= self.reopened_len {
            return Ok(None);
        }
        let _making = self.grow_lock.lock();
        if self.mapping.get().is_none() {
            let room = match allocate_and_map(&self.file, self.capacity, self.reopened_len) {
                Ok(map) => Some(map),
                Err(e) if is_unsupported(&e) => None,
                Err(e) => return Err(e),
            };
            self.mapping.get_or_init(|| room);
        }
        Ok(self.mapping.get().and_then(Option::as_ref))
    }

    /// Sees to it, in a hurry, that there are pages up to `end`, which is within the capacity. No store is beyond them,
    /// so that the zeros go over none.
    fn zero_fill_to(&self, end: u64) -> io::Result<()> {
        static ZEROS: [u8; ZERO_FILL_SIZE as usize] = [0; ZERO_FILL_SIZE as usize];
        if end <= self.zero_filled_to.load(Ordering::Acquire) {
            return Ok(());
        }
        let _making = self.grow_lock.lock();
        let mut pages = self.zero_filled_to.load(Ordering::Acquire);
        while pages < end {
            let len = (ZERO_FILL_SIZE - pages % ZERO_FILL_SIZE).min(self.capacity - pages);
            self.file.write_all_at(&ZEROS[..len as usize], pages)?;
            pages += len;
            self.zero_filled_to.store(pages, Ordering::Release);
        }
        Ok(())
    }

    /// True if the next store should go by system calls.
    fn should_pwrite(&self) -> bool {
        let left = self.pwrites_left.load(Ordering::Relaxed);
        if left > 0 {
            self.pwrites_left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl LogFile for MappedLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn expect_fast_fill(&self, from: u64) {
        let _making = self.grow_lock.lock();
        if self.zero_filled_to.load(Ordering::Acquire) == NO_FAST_FILL {
            // Never over what the file held.
            self.zero_filled_to.store(from.max(self.reopened_len), Ordering::Release);
        }
    }

    fn preallocate(&self, end: u64) -> Result<u64> {
        let end = end.min(self.capacity); // what lies beyond grows the file
        self.zero_fill_to(end).map_err(|e| FileError::new("store", &self.path, e))?;
        self.mapping_for(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
        let made = match self.mapping.get() {
            Some(_) => self.zero_filled_to.load(Ordering::Acquire),
            None => self.reopened_len,
        };
        Ok(if made < self.capacity { made } else { u64::MAX })
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = |e| FileError::new("store", &self.path, e);
        let Some((front, last)) = head.split_last_chunk::<4>() else {
            let reason = format!("a head of {} bytes, where 4 are the least", head.len());
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        };
        if self.closed.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log was finished")));
        }
        let len = head.len() as u64 + body.len() as u64;
        if let Some(end) = offset.checked_add(len).filter(|&end| end <= self.capacity) {
            self.zero_fill_to(end).map_err(fail)?;
            let room = self.mapping_for(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
            if let Some(room) = room.filter(|_| !self.should_pwrite()) {
                copy_to_mapping(room, offset as usize, front, *last, body);
                return Ok(());
            }
        }
        self.pwrite(offset, head, body).map_err(fail)
    }

    fn sync(&self) -> Result<()> {
        let fail = |e| FileError::new("fdatasync", &self.path, e);
        // Only Linux promises that syncing the descriptor covers what was stored through a mapping.
        #[cfg(not(target_os = "linux"))]
        if let Some(Some(room)) = self.room.get() {
            room.flush().map_err(fail)?;
        }
        if self.zero_filled_to.load(Ordering::Relaxed) != NO_FAST_FILL {
            self.pwrites_left.store(PWRITES_AFTER_SYNC, Ordering::Relaxed);
        }
        self.file.sync_data().map_err(fail)
    }

    /// The mapping itself goes when the log is dropped: a store that breaks the rule and comes late fails, or in a
    /// race ends the process, but never touches memory that is somebody else's.
    fn truncate_and_close(&self, len: u64) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        if self.mapping.get().is_none() && len == self.reopened_len {
            return Ok(()); // as it was
        }
        self.file.set_len(len).map_err(|e| FileError::new("truncate", &self.path, e))
    }
}

impl MappedLogFile {
    /// Also beyond the capacity, where that grows the file; in the same order, so that a kill between two calls leaves no
    /// head without body.
    fn pwrite(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let behind = offset.checked_add(head.len() as u64).ok_or(Errno::FBIG)?;
        self.file.write_all_at(body, behind)?;
        self.file.write_all_at(head, offset)
    }
}

/// Stores `body`, then `front`, then `last`; the caller has checked that all of it lies in the mapping.
fn copy_to_mapping(room: &MmapRaw, offset: usize, front: &[u8], last: [u8; 4], body: &[u8]) {
    debug_assert!(offset + front.len() + last.len() + body.len() <= room.len());
    // SAFETY: offset + front + last + body end within the mapping, so all three places do.
    let at_front = unsafe { room.as_mut_ptr().add(offset) };
    // SAFETY: as above.
    let at_last = unsafe { at_front.add(front.len()) };
    // SAFETY: as above.
    let at_body = unsafe { at_last.add(last.len()) };
    // SAFETY: the room is ours to write as shown, and a caller's slice can't overlap it: no reference into the
    // mapping exists.
    unsafe { at_body.copy_from_nonoverlapping(body.as_ptr(), body.len()) };
    // SAFETY: as for the body.
    unsafe { at_front.copy_from_nonoverlapping(front.as_ptr(), front.len()) };
    // What a killed process leaves behind is decided by the order of its instructions, and another process may
    // read on another core: neither the compiler nor the processor may move the stores above below this.
    fence(Ordering::Release);
    // SAFETY: as for the body. An array of bytes may stand anywhere; a volatile store of four bytes is one
    // instruction where the processor stores to unaligned addresses (x86-64, AArch64), else four in an order.
    unsafe { at_last.cast::<[u8; 4]>().write_volatile(last) };
}
