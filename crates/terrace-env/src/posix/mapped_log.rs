//! Mapping of a log file: a store into it writes a record without a system call.
//!
//! ```text
//!   +------+------+---- ... ----+--------------+
//!   | head | body | head | body | zeros        |  end of the block and of the file
//!   +------+------+---- ... ----+--------------+
//!            1. body   2. head without its last four bytes   3. those four, by one instruction
//! ```
//!
//! Written bytes are in the page cache at once: they survive a crash of the process, and
//! `fdatasync` makes them durable like bytes of `write`. A process that is killed between two
//! instructions leaves zeros in the last four bytes of the head, or a complete record.
//!
//! Memory safety: the mapping lives as long as the log, writes are bounds-checked against it, and
//! no reference into it ever exists, only raw pointers. Two threads that write into the same range
//! violate the contract of the trait. That is a race of plain writes to bytes that this process
//! never reads.
//!
//! SIGBUS: the log stores only into bytes of the file, whose space is allocated on a file system
//! that writes in place. So a full disk causes none. A failing disk, or another process that
//! truncates the file, ends the process by SIGBUS, like a kill.
#![allow(unsafe_code)] // Writes into the mapping.

use std::fs::File;
use std::io;
use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};

/// Shared mapping of the first bytes of a file, which may be shorter.
#[derive(Debug)]
pub(super) struct LogMapping(MmapRaw);

impl LogMapping {
    pub(super) fn new(file: &File, capacity: u64) -> io::Result<LogMapping> {
        let len = usize::try_from(capacity).map_err(|_| io::ErrorKind::FileTooLarge)?;
        MmapOptions::new().len(len).map_raw(file).map(LogMapping)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Makes the bytes of the mapping durable.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    /// Copies `body`, then `front`, then `last`, to `offset` and after it, in the order front,
    /// last, body. The caller has checked that the file holds all of these bytes.
    pub(super) fn store(&self, offset: u64, front: &[u8], last: [u8; 4], body: &[u8]) {
        let LogMapping(mapping) = self;
        let offset = offset as usize;
        assert!(offset + front.len() + last.len() + body.len() <= mapping.len());
        // SAFETY: `offset` is at most the length of the mapping, because all bytes from there on
        // end within it.
        let to_front = unsafe { mapping.as_mut_ptr().add(offset) };
        // SAFETY: `front` ends within the mapping, so the pointer after it is in bounds too.
        let to_last = unsafe { to_front.add(front.len()) };
        // SAFETY: `last` ends within the mapping, so the pointer after it is in bounds too.
        let to_body = unsafe { to_last.add(last.len()) };
        // SAFETY: the destination has `body.len()` bytes, because the body ends within the mapping,
        // which is writable. It cannot overlap `body`: no reference into the mapping exists.
        unsafe { to_body.copy_from_nonoverlapping(body.as_ptr(), body.len()) };
        // SAFETY: the destination has `front.len()` bytes before `to_last`, in the mapping, which
        // is writable. It cannot overlap `front`: no reference into the mapping exists.
        unsafe { to_front.copy_from_nonoverlapping(front.as_ptr(), front.len()) };
        // The order of instructions decides the bytes that a killed process leaves, and another
        // process may read them on another core. Neither the compiler nor the processor may move
        // the copies above after the write below.
        fence(Ordering::Release);
        // SAFETY: `to_last` has four bytes before the body, in the writable mapping, and an array
        // of bytes needs no alignment. A volatile write of four bytes is one instruction on
        // processors with unaligned writes (x86-64, AArch64). Other processors write the four bytes
        // in some order.
        unsafe { to_last.cast::<[u8; 4]>().write_volatile(last) };
    }
}
