//! Finds the records of a log again, by the rules that every LevelDB follows.
//!
//! ```text
//!                 FIRST                   MIDDLE
//!                +------->  in a record  <------+
//!   between      |             |    |    -------+
//!   records  ----+   LAST: a record;  anything that does not continue it: damage, and what was joined is dropped
//!     FULL: a record   MIDDLE, LAST: damage
//! ```
//!
//! Damage in the file is an item like a record and reading goes on behind it: a header whose length or checksum is
//! wrong costs the rest of its block, since the length may be the wrong part. A file that ends inside a fragment or a
//! record simply ends: that is how a crash looks. Room that was set aside and not used is passed over in silence.
//!
//! Holds one block and the record being joined, never more than was read. Judges no contents.

use std::io::{self, Read};
use std::ops::Range;

use super::{BLOCK_SIZE, HEADER_SIZE, checksum, kind};
use crate::flaw::{Flaw, FlawKind};

/// What a log holds at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A whole record, its checksums verified.
    Record {
        /// Where its first fragment begins, in bytes from the start of the file.
        offset: u64,
        /// Its bytes.
        data: &'a [u8],
    },
    /// Bytes that are not part of any record.
    Damage {
        /// What is wrong, and where in the file.
        flaw: Flaw,
        /// The bytes given up for it, counted as LevelDB counts them.
        dropped: u64,
    },
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Behind the last record there is nothing, or nothing but zeros.
    pub clean: bool,
    /// Where the last whole record ends.
    pub end: u64,
    /// There are zeros behind the last record: room that was set aside.
    pub saw_zeros: bool,
}

/// A reader of the records of one log, from its start.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    /// What was read of the current block, and the place in it.
    block: Vec<u8>,
    at: usize,
    /// Where the block begins in the file.
    block_start: u64,
    /// The block is whole, or is the last of the file.
    filled: bool,
    /// The record being joined, and where it began; None between records.
    joined: Vec<u8>,
    begun: Option<u64>,
    /// Damage that was found together with the one returned last.
    pending: Option<Damage>,
    tail: Tail,
}

#[derive(Debug)]
struct Damage {
    flaw: Flaw,
    dropped: usize,
}

/// What stands at the current place of the file.
enum Physical {
    /// A fragment with a right checksum. Its place in the block is that of its payload.
    Fragment {
        kind: u8,
        payload: Range<usize>,
    },
    /// Set-aside room, skipped.
    Unused,
    /// Something else, skipped.
    Damaged(Damage),
    End,
}

/// What the next call returns; the bytes are still in the reader.
enum Found {
    InBlock(u64, Range<usize>),
    Joined(u64),
    Damage(Damage),
    End,
}

impl<R: Read> LogReader<R> {
    /// Reads from `source`, which stands at the start of the log.
    pub fn new(source: R) -> LogReader<R> {
        LogReader {
            source,
            block: Vec::new(),
            at: 0,
            block_start: 0,
            filled: false,
            joined: Vec::new(),
            begun: None,
            pending: None,
            tail: Tail { clean: true, end: 0, saw_zeros: false },
        }
    }

    /// The next record or damage; None at the end of the file, and ever after.
    ///
    /// An error of `source` says nothing about the log: nothing is lost by it, and the next call goes on where this
    /// one stopped. Interrupted reads are repeated.
    #[allow(clippy::should_implement_trait)] // items borrow from the reader
    pub fn next(&mut self) -> io::Result<Option<Item<'_>>> {
        Ok(match self.find()? {
            Found::InBlock(offset, payload) => Some(Item::Record { offset, data: &self.block[payload] }),
            Found::Joined(offset) => Some(Item::Record { offset, data: &self.joined }),
            Found::Damage(damage) => {
                self.tail.clean = false;
                Some(Item::Damage { flaw: damage.flaw, dropped: damage.dropped as u64 })
            }
            Found::End => None,
        })
    }

    /// Where the last record that was returned ends.
    pub fn end_offset(&self) -> u64 {
        self.tail.end
    }

    /// How the log ends. Meaningful once [`next`](LogReader::next) has returned None.
    pub fn tail(&self) -> Tail {
        Tail { clean: self.tail.clean && self.begun.is_none(), ..self.tail }
    }

    fn find(&mut self) -> io::Result<Found> {
        if let Some(damage) = self.pending.take() {
            return Ok(Found::Damage(damage));
        }
        loop {
            let found = match self.physical()? {
                Physical::Fragment { kind, payload } => self.join(kind, payload),
                Physical::Unused => self.break_off().map(Found::Damage),
                Physical::Damaged(damage) => {
                    self.pending = self.break_off();
                    Some(Found::Damage(damage))
                }
                Physical::End => Some(Found::End),
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Takes in one fragment; None if that completes nothing.
    fn join(&mut self, kind: u8, payload: Range<usize>) -> Option<Found> {
        let offset = self.file_offset(payload.start - HEADER_SIZE);
        match (kind, self.begun) {
            // Early writers left an empty FIRST at the end of a block: then nothing is lost.
            (kind::FULL | kind::FIRST, Some(_)) if !self.joined.is_empty() => {
                self.at = payload.start - HEADER_SIZE; // it comes again after the report
                self.break_off().map(Found::Damage)
            }
            (kind::FULL, _) => {
                self.ended();
                Some(Found::InBlock(offset, payload))
            }
            (kind::FIRST, _) => {
                self.begun = Some(offset);
                self.joined.clear();
                self.joined.extend_from_slice(&self.block[payload]);
                None
            }
            (kind::MIDDLE, Some(_)) => {
                self.joined.extend_from_slice(&self.block[payload]);
                None
            }
            (kind::LAST, Some(begun)) => {
                self.joined.extend_from_slice(&self.block[payload]);
                self.ended();
                Some(Found::Joined(begun))
            }
            (kind::MIDDLE | kind::LAST, None) => {
                let found = format!("a fragment of type {kind} outside of a record");
                let flaw = Flaw::new(FlawKind::Malformed, offset, found, "type 1 or 2");
                Some(Found::Damage(Damage { flaw, dropped: payload.len() }))
            }
            _ => {
                let joined = self.break_off().map_or(0, |damage| damage.dropped);
                let flaw = Flaw::new(FlawKind::Unknown, offset, format!("record type {kind}"), "1 to 4");
                Some(Found::Damage(Damage { flaw, dropped: payload.len() + joined }))
            }
        }
    }

    /// A record ends at the current place.
    fn ended(&mut self) {
        self.begun = None;
        self.tail = Tail { clean: true, end: self.file_offset(self.at), saw_zeros: false };
    }

    /// Gives up the record being joined, if there is one.
    fn break_off(&mut self) -> Option<Damage> {
        let begun = self.begun.take()?;
        let dropped = self.joined.len();
        let found = format!("a record that breaks off after {dropped} bytes");
        Some(Damage { flaw: Flaw::new(FlawKind::Malformed, begun, found, "its next fragment"), dropped })
    }

    /// Reads one fragment, or skips what is not one.
    fn physical(&mut self) -> io::Result<Physical> {
        loop {
            self.fill()?;
            let rest = &self.block[self.at..];
            if let Some(header) = rest.first_chunk() {
                return Ok(self.fragment(*header));
            }
            self.skip_rest();
            if self.is_last() {
                return Ok(Physical::End);
            }
            self.block_start += self.block.len() as u64;
            self.block.clear();
            self.at = 0;
            self.filled = false;
        }
    }

    /// Judges the fragment at the current place by its header.
    fn fragment(&mut self, header: [u8; HEADER_SIZE]) -> Physical {
        let [c0, c1, c2, c3, l0, l1, kind] = header;
        let offset = self.file_offset(self.at);
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        let start = self.at + HEADER_SIZE;
        let Some(payload) = self.block.get(start..start + len) else {
            let room = self.block.len() - start;
            let dropped = self.skip_rest();
            if self.is_last() {
                return Physical::End;
            }
            let found = format!("a fragment of {len} bytes");
            let flaw = Flaw::new(FlawKind::OutOfBounds, offset, found, format!("at most {room}"));
            return Physical::Damaged(Damage { flaw, dropped });
        };
        if kind == kind::ZERO && len == 0 {
            self.skip_rest();
            return Physical::Unused;
        }
        let (computed, stored) = (checksum(kind, payload), u32::from_le_bytes([c0, c1, c2, c3]));
        if computed != stored {
            let dropped = self.skip_rest();
            return Physical::Damaged(Damage { flaw: Flaw::checksum(offset, computed, stored), dropped });
        }
        self.at = start + len;
        Physical::Fragment { kind, payload: start..start + len }
    }

    /// Reads until the block is whole or the file ends; a short read is neither.
    fn fill(&mut self) -> io::Result<()> {
        if !self.filled {
            let missing = BLOCK_SIZE - self.block.len();
            self.block.reserve_exact(missing);
            self.source.by_ref().take(missing as u64).read_to_end(&mut self.block)?;
            self.filled = true;
        }
        Ok(())
    }

    /// The block that was read is the last: only there is a part of a fragment no damage.
    fn is_last(&self) -> bool {
        self.block.len() < BLOCK_SIZE
    }

    /// Passes over the rest of the block and says how much that was.
    fn skip_rest(&mut self) -> usize {
        let rest = &self.block[self.at..];
        let skipped = rest.len();
        if rest.iter().any(|&byte| byte != 0) {
            self.tail.clean = false;
        } else if skipped > 0 {
            self.tail.saw_zeros = true;
        }
        self.at = self.block.len();
        skipped
    }

    fn file_offset(&self, in_block: usize) -> u64 {
        self.block_start + in_block as u64
    }
}
