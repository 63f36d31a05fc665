//! Finds the records of a log again, by the rules that every LevelDB follows.
//!
//! ```text
//!                       FIRST
//!   +---------+ ---------------------> +----------+
//!   | between |                        | in a     | --+
//!   | records | <--------------------- | record   |   | MIDDLE
//!   +---------+   LAST: a record       +----------+ <-+
//!     |     ^       anything but MIDDLE and LAST:
//!     +-----+       damage, and what was joined is dropped
//!      FULL: a record
//!      MIDDLE, LAST: damage
//! ```
//!
//! Damage in the file is an item like a record, and reading goes on behind it: a header whose length or checksum is
//! wrong costs the rest of its block, since the length may be the wrong part. A file that ends inside a fragment or a
//! record simply ends: that is how a crash looks. Room that was set aside and not used is passed over in silence.
//!
//! Memory is bounded by what was read. What a record says is not looked at.

use std::io::{self, Read};

use super::fragments::{Damage, Found, Fragments, Place, Skipped};
use super::kind;
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
    /// There are zeros behind the last record: room that was set aside, or the end of a block.
    pub saw_zeros: bool,
}

/// A reader of the records of one log, from its start.
#[derive(Debug)]
pub struct LogReader<R> {
    fragments: Fragments<R>,
    /// The record being joined, or the one returned last if it had to be.
    joined: Vec<u8>,
    /// Where the record being joined begins; None between records.
    begun: Option<u64>,
    /// Damage that was found together with the one returned last.
    pending: Option<Damage>,
    /// Where the last record ends, and whether there was damage behind it.
    end: u64,
    damaged: bool,
}

/// What to return; the bytes are still in the reader.
enum Next {
    Whole(Place),
    Joined(u64),
    Damage(Damage),
    End,
}

impl<R: Read> LogReader<R> {
    /// Reads from `source`, which stands at the start of the log.
    pub fn new(source: R) -> LogReader<R> {
        LogReader::of(Fragments::new(source))
    }

    /// As [`LogReader::new`], for whoever wants every record that can be had: where the length of a damaged fragment
    /// leads to one whose checksum is right, only the damaged one is given up, and not the rest of its block.
    pub fn salvaging(source: R) -> LogReader<R> {
        LogReader::of(Fragments::salvaging(source))
    }

    fn of(fragments: Fragments<R>) -> LogReader<R> {
        LogReader { fragments, joined: Vec::new(), begun: None, pending: None, end: 0, damaged: false }
    }

    /// The next record or damage; None at the end of the file, and ever after.
    ///
    /// An error of `source` says nothing about the log: nothing is lost by it, and the next call goes on where this
    /// one stopped. Interrupted reads are repeated.
    #[allow(clippy::should_implement_trait, reason = "an item borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Item<'_>>> {
        Ok(match self.find()? {
            Next::Whole(place) => {
                Some(Item::Record { offset: place.offset, data: self.fragments.payload(&place) })
            }
            Next::Joined(offset) => Some(Item::Record { offset, data: &self.joined }),
            Next::Damage(Damage { flaw, dropped }) => {
                self.damaged = true;
                Some(Item::Damage { flaw, dropped: dropped as u64 })
            }
            Next::End => None,
        })
    }

    /// Where the last record that was returned ends.
    pub fn end_offset(&self) -> u64 {
        self.end
    }

    /// The bytes that were read of the file so far: once [`next`](LogReader::next) has returned None, its length.
    pub fn bytes_read(&self) -> u64 {
        self.fragments.bytes_read()
    }

    /// How the log ends. Meaningful once [`next`](LogReader::next) has returned None.
    pub fn tail(&self) -> Tail {
        let Skipped { zeros, other } = self.fragments.skipped;
        let clean = !self.damaged && !other && self.begun.is_none();
        Tail { clean, end: self.end, saw_zeros: zeros }
    }

    fn find(&mut self) -> io::Result<Next> {
        if let Some(damage) = self.pending.take() {
            return Ok(Next::Damage(damage));
        }
        loop {
            let next = match self.fragments.read()? {
                Found::Fragment(place) => self.join(place),
                Found::Unused => self.break_off().map(Next::Damage),
                Found::Damaged(damage) => {
                    self.pending = self.break_off();
                    Some(Next::Damage(damage))
                }
                Found::End => Some(Next::End),
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Takes in one fragment; None if that completes nothing.
    fn join(&mut self, place: Place) -> Option<Next> {
        match (place.kind, self.begun) {
            // Early writers left an empty FIRST at the end of a block and began anew: then nothing is lost.
            (kind::FULL | kind::FIRST, Some(_)) if !self.joined.is_empty() => {
                self.fragments.put_back(&place); // it comes again after the report
                self.break_off().map(Next::Damage)
            }
            (kind::FULL, _) => {
                self.complete();
                Some(Next::Whole(place))
            }
            (kind::FIRST, _) => {
                self.begun = Some(place.offset);
                self.joined.clear();
                self.append(&place);
                None
            }
            (kind::MIDDLE, Some(_)) => {
                self.append(&place);
                None
            }
            (kind::LAST, Some(begun)) => {
                self.append(&place);
                self.complete();
                Some(Next::Joined(begun))
            }
            _ => Some(Next::Damage(self.misplaced(place))),
        }
    }

    fn append(&mut self, place: &Place) {
        self.joined.extend_from_slice(self.fragments.payload(place));
    }

    /// A record ends at the current place.
    fn complete(&mut self) {
        self.begun = None;
        self.end = self.fragments.offset();
        self.damaged = false;
        self.fragments.skipped = Skipped::default();
    }

    /// Gives up the record being joined, if there is one.
    fn break_off(&mut self) -> Option<Damage> {
        let begun = self.begun.take()?;
        let dropped = self.joined.len();
        let found = format!("a record that breaks off after {dropped} bytes");
        Some(Damage { flaw: Flaw::new(FlawKind::Truncated, begun, found, "its next fragment"), dropped })
    }

    /// A fragment that continues no record, or of a type that there is not; such a one ends the record being joined.
    fn misplaced(&mut self, place: Place) -> Damage {
        let joined = self.break_off().map_or(0, |damage| damage.dropped);
        let (kind, found, expected) = match place.kind {
            kind::MIDDLE | kind::LAST => {
                (FlawKind::Malformed, "a fragment of type", "1 or 2 between records")
            }
            _ => (FlawKind::Unknown, "record type", "1 to 4"),
        };
        let flaw = Flaw::new(kind, place.offset, format!("{found} {}", place.kind), expected);
        Damage { flaw, dropped: self.fragments.payload(&place).len() + joined }
    }
}
