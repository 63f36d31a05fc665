//! Large records of a mapped log, from the caller's slices.
//!
//! ```text
//!   block                block                block
//!   +--------------------+--------------------+--------------------+
//!   | records | part 1   | part 2             | part 3   | zeros   |
//!   +--------------------+--------------------+--------------------+
//!                        ^ 1. the file grows, by one ftruncate
//!             ^ 2.       ^ 3.                 ^ 4. two system calls for each block
//! ```
//!
//! New pages of the page cache cost less by a system call than by page faults. As in every write to
//! a mapped log, the file ends with a block at any moment, also after a kill or a power cut: the
//! replay recognises a log of Terrace by its end. The first bytes of a block, which have the header
//! of its fragment, come last. So a kill leaves zeros, which readers take for the end of the log.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;

use super::{LOG_ZEROS, PosixLogFile};
use crate::fs::{LOG_FILE_BLOCK_SIZE, MIN_LOG_END_ZEROS};

/// Maximum number of slices of a system call, below the limit of each system.
const MAX_SLICES: usize = 512;

/// Slices whose bytes follow each other in the file.
struct Parts<'a> {
    /// Remaining bytes of the first slice.
    first: &'a [u8],
    rest: &'a [&'a [u8]],
}

impl<'a> Parts<'a> {
    /// Takes slices with the next `len` bytes, or with all if there are fewer. Takes at most
    /// [`MAX_SLICES`].
    fn take(&mut self, mut len: u64) -> Vec<IoSlice<'a>> {
        let mut taken = Vec::new();
        while len > 0 && taken.len() < MAX_SLICES {
            if self.first.is_empty() {
                let Some((first, rest)) = self.rest.split_first() else { break };
                self.first = first;
                self.rest = rest;
                continue;
            }
            let (now, later) = self.first.split_at((self.first.len() as u64).min(len) as usize);
            taken.push(IoSlice::new(now));
            self.first = later;
            len -= now.len() as u64;
        }
        taken
    }
}

fn total_len(slices: &[IoSlice<'_>]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

impl PosixLogFile {
    /// Writes `parts` from `offset` on. After an error, the file has zeros there.
    pub(super) fn write_large(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        let old_len = self.len.load(Ordering::Relaxed);
        let grown_len = end
            .checked_add(MIN_LOG_END_ZEROS)
            .and_then(|end| end.checked_next_multiple_of(LOG_FILE_BLOCK_SIZE))
            .ok_or(io::ErrorKind::FileTooLarge)?;
        let new_len = grown_len.max(old_len);
        if new_len > old_len {
            self.growth.lock().size_limit.check(new_len)?;
            self.file.with(|file| file.set_len(new_len))?;
            self.len.store(new_len, Ordering::Relaxed);
        }
        // Stores need allocated space up to the end of the file, so the new zeros are written, too.
        let zeros = if new_len > old_len { &LOG_ZEROS[..(new_len - end) as usize] } else { &[] };
        self.write_blocks(offset, Parts { first: &[], rest: parts }, end, zeros)
            .inspect_err(|_| self.clear_from(offset))?;
        let mut growth = self.growth.lock();
        if new_len > old_len && growth.allocated >= old_len {
            growth.allocated = growth.allocated.max(new_len);
            self.store_end.store(new_len.min(self.capacity), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes `parts`, which end at `end`, and then `zeros`.
    fn write_blocks(&self, mut offset: u64, mut parts: Parts<'_>, end: u64, zeros: &[u8]) -> io::Result<()> {
        while offset < end {
            let block_end = (offset + 1).next_multiple_of(LOG_FILE_BLOCK_SIZE);
            let mut slices = parts.take(block_end - offset);
            let len = total_len(&slices);
            if offset + len == end {
                slices.push(IoSlice::new(zeros));
            }
            let Some((head, body)) = slices.split_first_mut() else { break };
            self.pwrite_all(offset + head.len() as u64, body)?;
            self.pwrite_all(offset, std::slice::from_mut(head))?;
            offset += len;
        }
        Ok(())
    }
}
