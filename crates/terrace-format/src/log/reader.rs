//! Log reader. It follows the rules of LevelDB's reader.
//!
//! ```text
//!                       FIRST
//!   +---------+ ---------------------> +----------+
//!   | between |                        | in a     | --+
//!   | records | <--------------------- | record   |   | MIDDLE
//!   +---------+   LAST: a record       +----------+ <-+
//!     |     ^       anything but MIDDLE and LAST:
//!     +-----+       corruption, and the partial record is dropped
//!      FULL: a record
//!      MIDDLE, LAST: corruption
//! ```
//!
//! The reader reports corruption as an item, like a record, and continues after it. After a wrong
//! length or checksum it skips the rest of the block, because the length may be the wrong part. A
//! file that ends within a fragment or a record ends without an error: a crash leaves such files.
//! The reader skips preallocated, unused space without a report.
//!
//! The memory use is at most the number of bytes read. The reader does not interpret records.

use std::io;

use super::fragment_reader::{DroppedBytes, FragmentPos, FragmentRead, FragmentReader, SkippedBytes};
use super::{LogSource, fragment_type};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Item of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// Complete record with correct checksums.
    Record {
        /// Offset of its first fragment from the start of the file, in bytes.
        offset: u64,
        /// Bytes between the previous record and this one.
        continuity: Continuity,
        /// Content of the record.
        data: &'a [u8],
    },
    /// Bytes that belong to no record.
    Corruption {
        /// Description of the corruption, with its offset in the file.
        error: DecodeError,
        /// Number of dropped bytes, as LevelDB counts them.
        dropped: u64,
    },
}

/// Bytes between two consecutive records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    /// None, or up to six zeros at the end of a block.
    Contiguous,
    /// Zeros to the end of a block: the end of a mapped log that another process has continued, or
    /// pages that a power cut has removed.
    AfterZeros,
    /// Corruption.
    AfterCorruption,
}

/// End of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// True if nothing or only zeros follow the last record.
    pub is_clean: bool,
    /// Offset of the end of the last complete record.
    pub offset: u64,
    /// True if zeros follow the last record: preallocated space, or the end of a block.
    pub saw_zeros: bool,
    /// True if the last bytes belong to no complete record. They are preallocated space, or an
    /// incomplete or damaged record.
    pub has_unused_end: bool,
}

/// Reader of the records of one log, from its start.
#[derive(Debug)]
pub struct LogReader<R> {
    fragment_reader: FragmentReader<R>,
    /// Fragments of the current record, or the last returned record if it had several fragments.
    partial_record: Vec<u8>,
    /// Offset of the record in `partial_record`, or `None` between records.
    partial_start: Option<u64>,
    /// Second corruption that the last read found. The next call returns it.
    pending_corruption: Option<DroppedBytes>,
    /// End of the last record.
    record_end: u64,
    /// True if corruption follows the last record.
    corruption_after_end: bool,
    /// Bytes before the last record.
    continuity: Continuity,
}

/// Next item. Its bytes are still in the reader.
enum NextItem {
    WholeRecord(FragmentPos),
    JoinedRecord(u64),
    Corruption(DroppedBytes),
    End,
}

impl<R: LogSource> LogReader<R> {
    /// Creates a reader of `source`, which is at the start of the log.
    pub fn new(source: R) -> LogReader<R> {
        LogReader::with_fragments(FragmentReader::new(source))
    }

    /// Creates a reader that salvages as many records as possible.
    ///
    /// If the length of a corrupt fragment leads to a fragment with a correct checksum, the reader
    /// drops only the corrupt one, not the rest of the block.
    pub fn salvaging(source: R) -> LogReader<R> {
        LogReader::with_fragments(FragmentReader::salvaging(source))
    }

    fn with_fragments(fragment_reader: FragmentReader<R>) -> LogReader<R> {
        LogReader {
            fragment_reader,
            partial_record: Vec::new(),
            partial_start: None,
            pending_corruption: None,
            record_end: 0,
            corruption_after_end: false,
            continuity: Continuity::Contiguous,
        }
    }

    /// Returns the next record or corruption, or `None` at the end of the file and ever after.
    ///
    /// An error of `source` says nothing about the log. The reader loses no data by it, and the
    /// next call continues at the same position. Interrupted reads are repeated.
    #[allow(clippy::should_implement_trait, reason = "an item borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<LogItem<'_>>> {
        Ok(match self.next_item()? {
            NextItem::WholeRecord(fragment) => {
                let data = self.fragment_reader.payload(&fragment);
                Some(LogItem::Record { offset: fragment.offset, continuity: self.continuity, data })
            }
            NextItem::JoinedRecord(offset) => {
                Some(LogItem::Record { offset, continuity: self.continuity, data: &self.partial_record })
            }
            NextItem::Corruption(DroppedBytes { error, len: dropped }) => {
                self.corruption_after_end = true;
                Some(LogItem::Corruption { error, dropped: dropped as u64 })
            }
            NextItem::End => None,
        })
    }

    /// Returns the end of the last returned record.
    pub fn end_offset(&self) -> u64 {
        self.record_end
    }

    /// Returns the number of bytes read so far. After [`next`](LogReader::next) has returned
    /// `None`, it is the file length.
    pub fn bytes_read(&self) -> u64 {
        self.fragment_reader.bytes_read()
    }

    /// Returns the end of the log. The result is valid after [`next`](LogReader::next) has returned
    /// `None`.
    pub fn log_end(&self) -> LogEnd {
        let SkippedBytes { saw_zeros, saw_other, is_last, .. } = self.fragment_reader.skipped;
        let is_clean = !self.corruption_after_end && !saw_other && self.partial_start.is_none();
        LogEnd {
            is_clean,
            offset: self.record_end,
            saw_zeros,
            has_unused_end: is_last || self.partial_start.is_some(),
        }
    }

    fn next_item(&mut self) -> io::Result<NextItem> {
        if let Some(dropped) = self.pending_corruption.take() {
            return Ok(NextItem::Corruption(dropped));
        }
        loop {
            let next = match self.fragment_reader.read_fragment()? {
                FragmentRead::Fragment(fragment) => self.add_fragment(fragment),
                FragmentRead::Unused => self.drop_partial_record().map(NextItem::Corruption),
                FragmentRead::Damaged(dropped) => {
                    self.pending_corruption = self.drop_partial_record();
                    Some(NextItem::Corruption(dropped))
                }
                FragmentRead::End => Some(NextItem::End),
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Processes one fragment. Returns `None` if it completes neither a record nor a corruption.
    fn add_fragment(&mut self, fragment: FragmentPos) -> Option<NextItem> {
        match (fragment.fragment_type, self.partial_start) {
            // Early writers left an empty FIRST at the end of a block and started the record again:
            // this loses no data.
            (fragment_type::FULL | fragment_type::FIRST, Some(_)) if !self.partial_record.is_empty() => {
                self.fragment_reader.unread(&fragment); // Processed again after the report.
                self.drop_partial_record().map(NextItem::Corruption)
            }
            (fragment_type::FULL, _) => {
                self.end_record();
                Some(NextItem::WholeRecord(fragment))
            }
            (fragment_type::FIRST, _) => {
                self.partial_start = Some(fragment.offset);
                self.partial_record.clear();
                self.append_payload(&fragment);
                None
            }
            (fragment_type::MIDDLE, Some(_)) => {
                self.append_payload(&fragment);
                None
            }
            (fragment_type::LAST, Some(start)) => {
                self.append_payload(&fragment);
                self.end_record();
                Some(NextItem::JoinedRecord(start))
            }
            _ => Some(NextItem::Corruption(self.unexpected_fragment(fragment))),
        }
    }

    fn append_payload(&mut self, fragment: &FragmentPos) {
        self.partial_record.extend_from_slice(self.fragment_reader.payload(fragment));
    }

    /// Ends the record at the current position.
    fn end_record(&mut self) {
        self.continuity = self.continuity_since_last_record();
        self.partial_start = None;
        self.record_end = self.fragment_reader.offset();
        self.corruption_after_end = false;
        self.fragment_reader.skipped = SkippedBytes::default();
    }

    fn continuity_since_last_record(&self) -> Continuity {
        let skipped = &self.fragment_reader.skipped;
        if self.corruption_after_end || skipped.saw_other {
            Continuity::AfterCorruption
        } else if skipped.saw_zero_tail {
            Continuity::AfterZeros
        } else {
            Continuity::Contiguous
        }
    }

    /// Drops the partial record, if there is one.
    fn drop_partial_record(&mut self) -> Option<DroppedBytes> {
        let start = self.partial_start.take()?;
        let dropped = self.partial_record.len();
        let found = format!("a record that breaks off after {dropped} bytes");
        Some(DroppedBytes {
            error: DecodeError::new(DecodeErrorKind::Truncated, start, found, "its next fragment"),
            len: dropped,
        })
    }

    /// Describes a fragment that continues no record, or whose type is unknown. It also drops the
    /// partial record.
    fn unexpected_fragment(&mut self, fragment: FragmentPos) -> DroppedBytes {
        let partial_len = self.drop_partial_record().map_or(0, |dropped| dropped.len);
        let (kind, found, expected) = match fragment.fragment_type {
            fragment_type::MIDDLE | fragment_type::LAST => {
                (DecodeErrorKind::Malformed, "a fragment of type", "1 or 2 between records")
            }
            _ => (DecodeErrorKind::Unknown, "record type", "1 to 4"),
        };
        let error =
            DecodeError::new(kind, fragment.offset, format!("{found} {}", fragment.fragment_type), expected);
        DroppedBytes { error, len: self.fragment_reader.payload(&fragment).len() + partial_len }
    }
}
