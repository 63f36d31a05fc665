//! Record writer: positions of a record's fragments in a log.
//!
//! ```text
//!   [FULL|...][FIRST|...][LAST|...][FULL|....    as LevelDB writes: every block is filled
//!   block ---------------^ block
//! ```
//!
//! It computes positions and checksums only. The caller owns the bytes of the file, and makes sure
//! that skipped space holds zeros.

use super::{
    FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, MAX_FRAGMENT_PAYLOAD, fragment_type, split_fragment_checksum,
};

/// Part of a record and its position in the file. The payload follows the header directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Offset of the header from the start of the file, in bytes.
    pub offset: u64,
    /// Checksum, length and type.
    pub header: [u8; FRAGMENT_HEADER_SIZE],
    /// Bytes after the header.
    pub payload: &'a [u8],
}

/// Part of a record of two slices, and its position in the file. The two parts of the payload
/// follow the header directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitFragment<'a> {
    /// Offset of the header from the start of the file, in bytes.
    pub offset: u64,
    /// Checksum, length and type.
    pub header: [u8; FRAGMENT_HEADER_SIZE],
    /// Bytes after the header. Each part may be empty.
    pub payload: [&'a [u8]; 2],
}

/// End of a log. It moves forward with each record.
#[derive(Debug, Clone)]
pub struct RecordWriter {
    end: u64,
}

impl RecordWriter {
    /// Creates a writer for a log whose last record ends at `offset`, or at 0 in a new log.
    pub fn resume_at(offset: u64) -> RecordWriter {
        RecordWriter { end: offset }
    }

    /// Returns the end of the last record.
    pub fn end_offset(&self) -> u64 {
        self.end
    }

    /// Returns the offset of the next record.
    pub fn next_offset(&self) -> u64 {
        let left = LOG_BLOCK_SIZE - offset_in_block(self.end);
        if left < FRAGMENT_HEADER_SIZE { self.end + left as u64 } else { self.end }
    }

    /// Reserves space for `record` and returns its fragments in order: at least one, even for an
    /// empty record.
    ///
    /// The space is reserved on return, even before the caller takes the fragments. It can
    /// therefore compute the checksums after it releases the lock of the writer.
    ///
    /// The bytes between the old end and the first fragment must be zero in the file. They are
    /// fewer than seven.
    pub fn add_record<'a>(&mut self, record: &'a [u8]) -> impl Iterator<Item = Fragment<'a>> + use<'a> {
        self.add_split_record([record, &[]]).map(|fragment| Fragment {
            offset: fragment.offset,
            header: fragment.header,
            payload: fragment.payload[0],
        })
    }

    /// Reserves space for a record that consists of two slices, as [`RecordWriter::add_record`]
    /// does for one.
    #[inline]
    pub fn add_split_record<'a>(
        &mut self,
        record: [&'a [u8]; 2],
    ) -> impl Iterator<Item = SplitFragment<'a>> + use<'a> {
        let start = self.next_offset();
        self.end = record_end(start, record[0].len() + record[1].len());
        RecordFragments { offset: start, rest: Some(record), first: true }
    }
}

impl Fragment<'_> {
    /// Returns the offset of the end of the payload.
    pub fn end(&self) -> u64 {
        self.offset + (FRAGMENT_HEADER_SIZE + self.payload.len()) as u64
    }

    /// Appends the fragment to `bytes`, whose first byte has the offset `start` in the file. Zeros
    /// fill the end of a block that is too short for a header.
    pub fn append_to(&self, bytes: &mut Vec<u8>, start: u64) {
        bytes.resize((self.offset - start) as usize, 0);
        bytes.extend_from_slice(&self.header);
        bytes.extend_from_slice(self.payload);
    }
}

fn offset_in_block(offset: u64) -> usize {
    (offset % LOG_BLOCK_SIZE as u64) as usize
}

/// Returns the end of a record of `len` bytes whose first fragment is at `start`.
fn record_end(start: u64, len: usize) -> u64 {
    let available = LOG_BLOCK_SIZE - offset_in_block(start) - FRAGMENT_HEADER_SIZE;
    if len <= available {
        return start + (FRAGMENT_HEADER_SIZE + len) as u64;
    }
    let rest = len - available;
    let full_blocks = rest / MAX_FRAGMENT_PAYLOAD;
    let last = match rest % MAX_FRAGMENT_PAYLOAD {
        0 => 0,
        payload => FRAGMENT_HEADER_SIZE + payload,
    };
    start + (FRAGMENT_HEADER_SIZE + available + full_blocks * LOG_BLOCK_SIZE + last) as u64
}

struct RecordFragments<'a> {
    /// Offset of the next fragment. Its block has space for at least a header.
    offset: u64,
    /// Remaining bytes of the record, or `None` after the last fragment.
    rest: Option<[&'a [u8]; 2]>,
    first: bool,
}

impl<'a> Iterator for RecordFragments<'a> {
    type Item = SplitFragment<'a>;

    #[inline]
    fn next(&mut self) -> Option<SplitFragment<'a>> {
        let [head, tail] = self.rest?;
        let available = LOG_BLOCK_SIZE - offset_in_block(self.offset) - FRAGMENT_HEADER_SIZE;
        let (head, rest_of_head) = head.split_at(available.min(head.len()));
        let (tail, rest_of_tail) = tail.split_at((available - head.len()).min(tail.len()));
        let payload = [head, tail];
        let last = rest_of_head.is_empty() && rest_of_tail.is_empty();
        let kind = match (self.first, last) {
            (true, true) => fragment_type::FULL,
            (true, false) => fragment_type::FIRST,
            (false, false) => fragment_type::MIDDLE,
            (false, true) => fragment_type::LAST,
        };
        let fragment = SplitFragment { offset: self.offset, header: header(kind, payload), payload };
        self.offset += (FRAGMENT_HEADER_SIZE + head.len() + tail.len()) as u64;
        self.rest = (!last).then_some([rest_of_head, rest_of_tail]);
        self.first = false;
        Some(fragment)
    }
}

#[inline]
fn header(kind: u8, payload: [&[u8]; 2]) -> [u8; FRAGMENT_HEADER_SIZE] {
    let [c0, c1, c2, c3] = split_fragment_checksum(kind, payload).to_le_bytes();
    // A payload is at most MAX_FRAGMENT_PAYLOAD bytes, which fits two bytes.
    let [l0, l1] = ((payload[0].len() + payload[1].len()) as u16).to_le_bytes();
    [c0, c1, c2, c3, l0, l1, kind]
}
