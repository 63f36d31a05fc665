//! Large records of a mapped log: one system call from the caller's slices.
//!
//! ```text
//!   block                block                block
//!   +--------------------+--------------------+--------------------+
//!   | records | part 1   | part 2             | part 3   | zeros   |
//!   +--------------------+--------------------+--------------------+
//!             ^ 1. into the zeros of the file: payloads, then headers
//!                        ^ 2. one pwritev at the end of the file, with the zeros
//! ```
//!
//! New pages of the page cache cost less by a system call than by page faults. A process that is
//! killed during step 2 leaves a file that ends within the record, with a page, like a log of
//! LevelDB. Readers take this for the end of the log. Zeros after the first fragments would be
//! worse: LevelDB with `paranoid_checks` refuses them.
//!
//! LevelDB with `reuse_logs` appends to such a file and cannot read what it appends to the same
//! block. It does the same to its own logs after a kill.

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
    /// Writes `parts` from `offset` on. After an error, the file is as before.
    pub(super) fn write_large(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let new_len = offset
            .checked_add(len + MIN_LOG_END_ZEROS)
            .and_then(|end| end.checked_next_multiple_of(LOG_FILE_BLOCK_SIZE))
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.write_parts(offset, Parts { first: &[], rest: parts }, new_len)
            .inspect_err(|_| self.clear_from(offset))
    }

    fn write_parts(&self, mut offset: u64, mut parts: Parts<'_>, new_len: u64) -> io::Result<()> {
        let old_len = self.len.load(Ordering::Relaxed);
        let mut heads = Vec::new();
        while offset < old_len {
            let block_end = (offset + 1).next_multiple_of(LOG_FILE_BLOCK_SIZE);
            let mut slices = parts.take(block_end - offset);
            let Some((head, body)) = slices.split_first_mut() else { break };
            heads.push((offset, *head));
            let body_offset = offset + head.len() as u64;
            self.pwrite_all(body_offset, body)?;
            offset = body_offset + total_len(body);
        }
        // Zeros after the first fragments are unlikely: a kill would have to hit these short calls.
        for (offset, mut head) in heads {
            self.pwrite_all(offset, std::slice::from_mut(&mut head))?;
        }
        if new_len <= old_len {
            return Ok(());
        }
        let mut growth = self.growth.lock();
        growth.size_limit.check(new_len)?;
        loop {
            let mut slices = parts.take(u64::MAX);
            let len = total_len(&slices);
            let is_last = slices.len() < MAX_SLICES;
            if is_last {
                slices.push(IoSlice::new(&LOG_ZEROS[..(new_len - offset - len) as usize]));
            }
            self.pwrite_all(offset, &mut slices)?;
            offset += len;
            if is_last {
                break;
            }
        }
        self.len.store(new_len, Ordering::Relaxed);
        if growth.allocated >= old_len {
            // Written pages have space, so they take stores.
            growth.allocated = growth.allocated.max(new_len);
            self.store_end.store(new_len.min(self.capacity), Ordering::Relaxed);
        }
        Ok(())
    }
}
