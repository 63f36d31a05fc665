//! Reads a log block by block and cuts it into fragments. What they mean for records is the reader's question.
//!
//! Holds one block, and never more memory than was read.

use std::io::{self, Read};
use std::ops::Range;

use terrace_sync::mutant;

use super::{BLOCK_SIZE, HEADER_SIZE, checksum, kind};
use crate::flaw::{Flaw, FlawKind};

#[derive(Debug)]
pub(super) struct Fragments<R> {
    source: R,
    /// What was read of the current block.
    block: Vec<u8>,
    /// The place in it of the next header.
    at: usize,
    /// Where it begins in the file.
    block_start: u64,
    /// It is whole, or it is the last of the file and shorter.
    filled: bool,
    /// A damaged fragment costs only itself where its length leads to a sound one.
    salvages: bool,
    pub(super) skipped: Skipped,
}

/// What was passed over without being read as a fragment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Skipped {
    pub(super) zeros: bool,
    pub(super) other: bool,
}

/// Bytes that are given up, with the reason.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) flaw: Flaw,
    pub(super) dropped: usize,
}

/// What stood at one place of the file.
pub(super) enum Found {
    /// A fragment whose checksum is right.
    Fragment(Place),
    /// Room that was set aside.
    Unused,
    Damaged(Damage),
    End,
}

/// A fragment in the current block.
pub(super) struct Place {
    pub(super) kind: u8,
    /// Of its header in the file.
    pub(super) offset: u64,
    payload: Range<usize>,
}

impl<R: Read> Fragments<R> {
    pub(super) fn new(source: R) -> Fragments<R> {
        let skipped = Skipped::default();
        Fragments {
            source,
            block: Vec::new(),
            at: 0,
            block_start: 0,
            filled: false,
            salvages: false,
            skipped,
        }
    }

    pub(super) fn salvaging(source: R) -> Fragments<R> {
        Fragments { salvages: true, ..Fragments::new(source) }
    }

    /// Reads one fragment, or passes over what is not one.
    pub(super) fn read(&mut self) -> io::Result<Found> {
        loop {
            self.fill()?;
            let rest = &self.block[self.at..];
            if let Some(header) = rest.first_chunk() {
                return Ok(self.judge(*header));
            }
            self.skip_rest();
            if self.is_last() {
                return Ok(Found::End);
            }
            self.block_start += self.block.len() as u64;
            self.block.clear();
            self.at = 0;
            self.filled = false;
        }
    }

    /// The payload of the fragment that was read last.
    pub(super) fn payload(&self, place: &Place) -> &[u8] {
        &self.block[place.payload.clone()]
    }

    /// Makes the fragment that was read last the next one again.
    pub(super) fn put_back(&mut self, place: &Place) {
        self.at = place.payload.start - HEADER_SIZE;
    }

    /// The place in the file of what comes next.
    pub(super) fn offset(&self) -> u64 {
        self.block_start + self.at as u64
    }

    /// How much of the file was read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.block_start + self.block.len() as u64
    }

    /// Judges the fragment at the current place by its header.
    fn judge(&mut self, header: [u8; HEADER_SIZE]) -> Found {
        let [c0, c1, c2, c3, l0, l1, kind] = header;
        let offset = self.offset();
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        let start = self.at + HEADER_SIZE;
        let Some(payload) = self.block.get(start..start + len) else {
            return self.cut_off(offset, len, self.block.len() - start);
        };
        if kind == kind::ZERO && len == 0 {
            self.skip_rest();
            return Found::Unused;
        }
        let (computed, stored) = (checksum(kind, payload), u32::from_le_bytes([c0, c1, c2, c3]));
        if computed != stored {
            let dropped = match self.sound_behind(start + len).filter(|_| self.salvages) {
                Some(next) => self.skip_to(next),
                None => self.skip_rest(),
            };
            return Found::Damaged(Damage { flaw: Flaw::checksum(offset, computed, stored), dropped });
        }
        self.at = start + len;
        Found::Fragment(Place { kind, offset, payload: start..self.at })
    }

    /// The first place, from `at` on and from one length to the next, where a fragment's checksum is right.
    fn sound_behind(&self, mut at: usize) -> Option<usize> {
        loop {
            let [c0, c1, c2, c3, l0, l1, kind] = *self.block.get(at..)?.first_chunk()?;
            let start = at + HEADER_SIZE;
            let payload = self.block.get(start..start + usize::from(u16::from_le_bytes([l0, l1])))?;
            if checksum(kind, payload) == u32::from_le_bytes([c0, c1, c2, c3]) && kind != kind::ZERO {
                return Some(at);
            }
            at = start + payload.len();
        }
    }

    /// A fragment that is longer than what is left: damage, or the end of the file before its writer was done.
    fn cut_off(&mut self, offset: u64, len: usize, room: usize) -> Found {
        let dropped = self.skip_rest();
        if self.is_last() {
            return Found::End;
        }
        let found = format!("a fragment of {len} bytes");
        let flaw = Flaw::new(FlawKind::OutOfBounds, offset, found, format!("at most {room}"));
        Found::Damaged(Damage { flaw, dropped })
    }

    /// Reads until the block is whole or the file ends; a short read is neither.
    fn fill(&mut self) -> io::Result<()> {
        if !self.filled {
            let mut end = self.block.len();
            // Whole blocks at a time: `read_to_end` would begin with small ones.
            self.block.reserve_exact(BLOCK_SIZE - end);
            self.block.resize(BLOCK_SIZE, 0);
            let mut outcome = Ok(());
            while end < BLOCK_SIZE {
                match self.source.read(&mut self.block[end..]) {
                    Ok(0) => break,
                    Ok(read) => {
                        end += read;
                        if mutant!(ShortReadTreatedAsEof) {
                            break;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            // What came before an error stays.
            self.block.truncate(end);
            outcome?;
            self.filled = true;
        }
        Ok(())
    }

    /// The block that was read is shorter than a block: the file ends here.
    fn is_last(&self) -> bool {
        self.block.len() < BLOCK_SIZE
    }

    fn skip_to(&mut self, next: usize) -> usize {
        let skipped = next - self.at;
        self.skipped.other = true;
        self.at = next;
        skipped
    }

    /// Passes over the rest of the block and says how much that was.
    fn skip_rest(&mut self) -> usize {
        let rest = &self.block[self.at..];
        let skipped = rest.len();
        let zeros = rest.iter().all(|&byte| byte == 0);
        self.skipped.zeros |= zeros && skipped > 0;
        self.skipped.other |= !zeros;
        self.at = self.block.len();
        skipped
    }
}
