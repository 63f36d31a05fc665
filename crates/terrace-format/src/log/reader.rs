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

use super::fragment_reader::{DroppedBytes, FragmentPos, FragmentRead, FragmentReader, SkippedBytes};
use super::fragment_type;
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// What a log holds at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// A whole record, its checksums verified.
    Record {
        /// Where its first fragment begins, in bytes from the start of the file.
        offset: u64,
        /// Its bytes.
        data: &'a [u8],
    },
    /// Bytes that are not part of any record.
    Corruption {
        /// What is wrong, and where in the file.
        error: DecodeError,
        /// The bytes given up for it, counted as LevelDB counts them.
        dropped: u64,
    },
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Behind the last record there is nothing, or nothing but zeros.
    pub is_clean: bool,
    /// Where the last whole record ends.
    pub offset: u64,
    /// There are zeros behind the last record: room that was set aside, or the end of a block.
    pub saw_zeros: bool,
}

/// A reader of the records of one log, from its start.
#[derive(Debug)]
pub struct LogReader<R> {
    fragment_reader: FragmentReader<R>,
    /// The record being joined, or the one returned last if it had to be.
    partial_record: Vec<u8>,
    /// Where the record being joined begins; None between records.
    partial_start: Option<u64>,
    /// Damage that was found together with the one returned last.
    pending_corruption: Option<DroppedBytes>,
    /// Where the last record ends, and whether there was damage behind it.
    record_end: u64,
    corruption_after_end: bool,
}

/// What to return; the bytes are still in the reader.
enum NextItem {
    WholeRecord(FragmentPos),
    JoinedRecord(u64),
    Corruption(DroppedBytes),
    End,
}

impl<R: Read> LogReader<R> {
    /// Reads from `source`, which stands at the start of the log.
    pub fn new(source: R) -> LogReader<R> {
        LogReader::with_fragments(FragmentReader::new(source))
    }

    /// As [`LogReader::new`], for whoever wants every record that can be had: where the length of a damaged fragment
    /// leads to one whose checksum is right, only the damaged one is given up, and not the rest of its block.
    pub fn salvaging(source: R) -> LogReader<R> {
        LogReader::with_fragments(FragmentReader::salvaging(source))
    }

    fn with_fragments(fragments: FragmentReader<R>) -> LogReader<R> {
        LogReader {
            fragment_reader: fragments,
            partial_record: Vec::new(),
            partial_start: None,
            pending_corruption: None,
            record_end: 0,
            corruption_after_end: false,
        }
    }

    /// The next record or damage; None at the end of the file, and ever after.
    ///
    /// An error of `source` says nothing about the log: nothing is lost by it, and the next call goes on where this
    /// one stopped. Interrupted reads are repeated.
    #[allow(clippy::should_implement_trait, reason = "an item borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<LogItem<'_>>> {
        Ok(match self.next_item()? {
            NextItem::WholeRecord(place) => {
                Some(LogItem::Record { offset: place.offset, data: self.fragment_reader.payload(&place) })
            }
            NextItem::JoinedRecord(offset) => Some(LogItem::Record { offset, data: &self.partial_record }),
            NextItem::Corruption(DroppedBytes { error, len: dropped }) => {
                self.corruption_after_end = true;
                Some(LogItem::Corruption { error, dropped: dropped as u64 })
            }
            NextItem::End => None,
        })
    }

    /// Where the last record that was returned ends.
    pub fn end_offset(&self) -> u64 {
        self.record_end
    }

    /// The bytes that were read of the file so far: once [`next`](LogReader::next) has returned None, its length.
    pub fn bytes_read(&self) -> u64 {
        self.fragment_reader.bytes_read()
    }

    /// How the log ends. Meaningful once [`next`](LogReader::next) has returned None.
    pub fn log_end(&self) -> LogEnd {
        let SkippedBytes { saw_zeros: zeros, saw_other: other } = self.fragment_reader.skipped;
        let clean = !self.corruption_after_end && !other && self.partial_start.is_none();
        LogEnd { is_clean: clean, offset: self.record_end, saw_zeros: zeros }
    }

    fn next_item(&mut self) -> io::Result<NextItem> {
        if let Some(damage) = self.pending_corruption.take() {
            return Ok(NextItem::Corruption(damage));
        }
        loop {
            let next = match self.fragment_reader.read_fragment()? {
                FragmentRead::Fragment(place) => self.add_fragment(place),
                FragmentRead::Unused => self.drop_partial_record().map(NextItem::Corruption),
                FragmentRead::Damaged(damage) => {
                    self.pending_corruption = self.drop_partial_record();
                    Some(NextItem::Corruption(damage))
                }
                FragmentRead::End => Some(NextItem::End),
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Takes in one fragment; None if that completes nothing.
    fn add_fragment(&mut self, place: FragmentPos) -> Option<NextItem> {
        match (place.fragment_type, self.partial_start) {
            // Early writers left an empty FIRST at the end of a block and began anew: then nothing is lost.
            (fragment_type::FULL | fragment_type::FIRST, Some(_)) if !self.partial_record.is_empty() => {
                self.fragment_reader.unread(&place); // it comes again after the report
                self.drop_partial_record().map(NextItem::Corruption)
            }
            (fragment_type::FULL, _) => {
                self.end_record();
                Some(NextItem::WholeRecord(place))
            }
            (fragment_type::FIRST, _) => {
                self.partial_start = Some(place.offset);
                self.partial_record.clear();
                self.append_payload(&place);
                None
            }
            (fragment_type::MIDDLE, Some(_)) => {
                self.append_payload(&place);
                None
            }
            (fragment_type::LAST, Some(begun)) => {
                self.append_payload(&place);
                self.end_record();
                Some(NextItem::JoinedRecord(begun))
            }
            _ => Some(NextItem::Corruption(self.unexpected_fragment(place))),
        }
    }

    fn append_payload(&mut self, place: &FragmentPos) {
        self.partial_record.extend_from_slice(self.fragment_reader.payload(place));
    }

    /// A record ends at the current place.
    fn end_record(&mut self) {
        self.partial_start = None;
        self.record_end = self.fragment_reader.offset();
        self.corruption_after_end = false;
        self.fragment_reader.skipped = SkippedBytes::default();
    }

    /// Gives up the record being joined, if there is one.
    fn drop_partial_record(&mut self) -> Option<DroppedBytes> {
        let begun = self.partial_start.take()?;
        let dropped = self.partial_record.len();
        let found = format!("a record that breaks off after {dropped} bytes");
        Some(DroppedBytes {
            error: DecodeError::new(DecodeErrorKind::Truncated, begun, found, "its next fragment"),
            len: dropped,
        })
    }

    /// A fragment that continues no record, or of a type that there is not; such a one ends the record being joined.
    fn unexpected_fragment(&mut self, place: FragmentPos) -> DroppedBytes {
        let joined = self.drop_partial_record().map_or(0, |damage| damage.len);
        let (kind, found, expected) = match place.fragment_type {
            fragment_type::MIDDLE | fragment_type::LAST => {
                (DecodeErrorKind::Malformed, "a fragment of type", "1 or 2 between records")
            }
            _ => (DecodeErrorKind::Unknown, "record type", "1 to 4"),
        };
        let error = DecodeError::new(kind, place.offset, format!("{found} {}", place.fragment_type), expected);
        DroppedBytes { error, len: self.fragment_reader.payload(&place).len() + joined }
    }
}
