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

use super::files::Writable;
use crate::error::{FileError, Result};
use crate::fs::{AppendingLog, LogFile};

/// Capacities are multiples of the log format's block.
const UNIT: u64 = 32 * 1024;

/// What is zeroed at a time, in a hurry. Larger pieces are hardly cheaper, and dearer to sync.
const PIECE: u64 = 256 * 1024;

/// Stores after a sync that go by system calls, of a microsecond or two each, in a hurry: a piece takes some hundred
/// microseconds to be written.
const BY_CALL: usize = 200;

/// A mapped log on an empty `file`, or an appending one where the file system can't preallocate or map.
pub(super) fn create(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    match rounded(capacity).and_then(|capacity| preallocate(&file, capacity, 0)) {
        Ok(map) => Ok(Box::new(MappedLog::new(path, file, map.len() as u64, Some(map)))),
        Err(e) if is_unsupported(&e) => {
            Ok(Box::new(AppendingLog::new(path, Box::new(Writable::new(path, file)))))
        }
        Err(e) => Err(FileError::new("allocate", path, e)),
    }
}

/// A mapped log on a `file` that holds something. It gets its room when something is stored behind that: many databases
/// are opened to be read.
pub(super) fn reopen(path: &Path, file: File, capacity: u64) -> Result<Box<dyn LogFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    let capacity = rounded(capacity.max(len)).map_err(|e| FileError::new("allocate", path, e))?;
    Ok(Box::new(MappedLog { len, ..MappedLog::new(path, file, capacity, None) }))
}

fn rounded(capacity: u64) -> io::Result<u64> {
    let rounded = capacity.max(1).checked_next_multiple_of(UNIT).ok_or(Errno::FBIG)?;
    usize::try_from(rounded).map(|_| rounded).map_err(|_| Errno::FBIG.into())
}

/// Gives `file`, which holds `len` bytes, its room, which is rounded, and maps it. After an error it is as it was.
fn preallocate(file: &File, capacity: u64, len: u64) -> io::Result<MmapRaw> {
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
struct MappedLog {
    path: PathBuf,
    file: File,
    capacity: u64,
    /// What the file held when it was reopened.
    len: u64,
    /// The room, mapped; None where the file system can't. Made under `making`.
    room: OnceLock<Option<MmapRaw>>,
    finished: AtomicBool,
    /// In a hurry, up to where there are pages; else [`NO_HURRY`]. Raised under `making`, with Release; who loads it with
    /// Acquire stores behind the zeros.
    pages: AtomicU64,
    making: Mutex<()>,
    /// The next so many stores, about, go by system calls. Relaxed: either way of storing is right at any time.
    by_call: AtomicUsize,
}

const NO_HURRY: u64 = u64::MAX;

impl MappedLog {
    fn new(path: &Path, file: File, capacity: u64, map: Option<MmapRaw>) -> MappedLog {
        MappedLog {
            path: path.to_path_buf(),
            file,
            capacity,
            len: 0,
            room: map.map_or_else(OnceLock::new, |map| OnceLock::from(Some(map))),
            finished: AtomicBool::new(false),
            pages: AtomicU64::new(NO_HURRY),
            making: Mutex::new(()),
            by_call: AtomicUsize::new(0),
        }
    }

    /// The mapped room for a store up to `end`, which is within the capacity. None if it should go by system calls.
    fn room(&self, end: u64) -> io::Result<Option<&MmapRaw>> {
        if let Some(room) = self.room.get() {
            return Ok(room.as_ref());
        } else if end <= self.len {
            return Ok(None);
        }
        let _making = self.making.lock();
        if self.room.get().is_none() {
            let room = match preallocate(&self.file, self.capacity, self.len) {
                Ok(map) => Some(map),
                Err(e) if is_unsupported(&e) => None,
                Err(e) => return Err(e),
            };
            self.room.get_or_init(|| room);
        }
        Ok(self.room.get().and_then(Option::as_ref))
    }

    /// Sees to it, in a hurry, that there are pages up to `end`, which is within the capacity. No store is beyond them,
    /// so that the zeros go over none.
    fn make_pages(&self, end: u64) -> io::Result<()> {
        static ZEROS: [u8; PIECE as usize] = [0; PIECE as usize];
        if end <= self.pages.load(Ordering::Acquire) {
            return Ok(());
        }
        let _making = self.making.lock();
        let mut pages = self.pages.load(Ordering::Acquire);
        while pages < end {
            let len = (PIECE - pages % PIECE).min(self.capacity - pages);
            self.file.write_all_at(&ZEROS[..len as usize], pages)?;
            pages += len;
            self.pages.store(pages, Ordering::Release);
        }
        Ok(())
    }

    /// True if the next store should go by system calls.
    fn goes_by_call(&self) -> bool {
        let left = self.by_call.load(Ordering::Relaxed);
        if left > 0 {
            self.by_call.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl LogFile for MappedLog {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn hurry(&self, from: u64) {
        let _making = self.making.lock();
        if self.pages.load(Ordering::Acquire) == NO_HURRY {
            // Never over what the file held.
            self.pages.store(from.max(self.len), Ordering::Release);
        }
    }

    fn prepare(&self, end: u64) -> Result<u64> {
        let end = end.min(self.capacity); // what lies beyond grows the file
        self.make_pages(end).map_err(|e| FileError::new("store", &self.path, e))?;
        self.room(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
        let made = match self.room.get() {
            Some(_) => self.pages.load(Ordering::Acquire),
            None => self.len,
        };
        Ok(if made < self.capacity { made } else { u64::MAX })
    }

    fn store(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = |e| FileError::new("store", &self.path, e);
        let Some((front, last)) = head.split_last_chunk::<4>() else {
            let reason = format!("a head of {} bytes, where 4 are the least", head.len());
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        };
        if self.finished.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log was finished")));
        }
        let len = head.len() as u64 + body.len() as u64;
        if let Some(end) = offset.checked_add(len).filter(|&end| end <= self.capacity) {
            self.make_pages(end).map_err(fail)?;
            let room = self.room(end).map_err(|e| FileError::new("allocate", &self.path, e))?;
            if let Some(room) = room.filter(|_| !self.goes_by_call()) {
                store_mapped(room, offset as usize, front, *last, body);
                return Ok(());
            }
        }
        self.store_by_call(offset, head, body).map_err(fail)
    }

    fn sync(&self) -> Result<()> {
        let fail = |e| FileError::new("fdatasync", &self.path, e);
        // Only Linux promises that syncing the descriptor covers what was stored through a mapping.
        #[cfg(not(target_os = "linux"))]
        if let Some(Some(room)) = self.room.get() {
            room.flush().map_err(fail)?;
        }
        if self.pages.load(Ordering::Relaxed) != NO_HURRY {
            self.by_call.store(BY_CALL, Ordering::Relaxed);
        }
        self.file.sync_data().map_err(fail)
    }

    /// The mapping itself goes when the log is dropped: a store that breaks the rule and comes late fails, or in a
    /// race ends the process, but never touches memory that is somebody else's.
    fn finish(&self, len: u64) -> Result<()> {
        self.finished.store(true, Ordering::Relaxed);
        if self.room.get().is_none() && len == self.len {
            return Ok(()); // as it was
        }
        self.file.set_len(len).map_err(|e| FileError::new("truncate", &self.path, e))
    }
}

impl MappedLog {
    /// Also beyond the capacity, where that grows the file; in the same order, so that a kill between two calls leaves no
    /// head without body.
    fn store_by_call(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let behind = offset.checked_add(head.len() as u64).ok_or(Errno::FBIG)?;
        self.file.write_all_at(body, behind)?;
        self.file.write_all_at(head, offset)
    }
}

/// Stores `body`, then `front`, then `last`; the caller has checked that all of it lies in the mapping.
fn store_mapped(room: &MmapRaw, offset: usize, front: &[u8], last: [u8; 4], body: &[u8]) {
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
