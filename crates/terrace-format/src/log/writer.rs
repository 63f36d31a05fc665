//! Where the fragments of a record go in a log.
//!
//! ```text
//!   whole = false   fills every block: [FIRST|..][LAST|....      as LevelDB writes
//!   whole = true    [000000][FULL|......                         a record that fits one block is never split
//! ```
//!
//! Arithmetic and checksums only: the caller owns the bytes of the file, and sees to it that the room that is skipped
//! holds zeros.

use super::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, MAX_FRAGMENT_PAYLOAD, fragment_checksum, fragment_type};

/// A piece of a record and its place in the file. The payload follows the header at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Where the header goes, in bytes from the start of the file.
    pub offset: u64,
    /// Checksum, length and type.
    pub header: [u8; FRAGMENT_HEADER_SIZE],
    /// The bytes behind the header.
    pub payload: &'a [u8],
}

/// The end of a log, moving forward as records are framed.
#[derive(Debug, Clone)]
pub struct RecordWriter {
    end: u64,
}

impl RecordWriter {
    /// A log whose last record ends at `offset`; 0 for a new one.
    pub fn resume_at(offset: u64) -> RecordWriter {
        RecordWriter { end: offset }
    }

    /// Where the last record ends.
    pub fn end_offset(&self) -> u64 {
        self.end
    }

    /// Takes the room for `record` and gives its fragments in order: at least one, even for an empty record.
    ///
    /// The room is taken when this returns, whether or not the fragments are then asked for, so that the checksums
    /// can be computed outside of the lock that guards the framer. Bytes between the old end and the first fragment,
    /// fewer than seven unless `whole`, must be zero in the file. With `whole`, a record that fits one block is not
    /// split: a crash can then leave no part of it that a reader would take for damage. Longer records start at the
    /// end in any case.
    pub fn add_record<'a>(
        &mut self,
        record: &'a [u8],
        whole: bool,
    ) -> impl Iterator<Item = Fragment<'a>> + use<'a> {
        let left = LOG_BLOCK_SIZE - offset_in_block(self.end);
        let moves =
            whole && record.len() <= MAX_FRAGMENT_PAYLOAD && left < FRAGMENT_HEADER_SIZE + record.len();
        let start = if moves || left < FRAGMENT_HEADER_SIZE { self.end + left as u64 } else { self.end };
        self.end = record_end(start, record.len());
        RecordFragments { offset: start, rest: Some(record), first: true }
    }
}

fn offset_in_block(offset: u64) -> usize {
    (offset % LOG_BLOCK_SIZE as u64) as usize
}

/// Where a record of `len` bytes ends whose first fragment is at `start`.
fn record_end(start: u64, len: usize) -> u64 {
    let room = LOG_BLOCK_SIZE - offset_in_block(start) - FRAGMENT_HEADER_SIZE;
    if len <= room {
        return start + (FRAGMENT_HEADER_SIZE + len) as u64;
    }
    let rest = len - room;
    let (blocks, last) = (rest / MAX_FRAGMENT_PAYLOAD, rest % MAX_FRAGMENT_PAYLOAD);
    let last = if last == 0 { 0 } else { FRAGMENT_HEADER_SIZE + last };
    start + (FRAGMENT_HEADER_SIZE + room + blocks * LOG_BLOCK_SIZE + last) as u64
}

struct RecordFragments<'a> {
    /// Of the next fragment; at least a header is left in its block.
    offset: u64,
    /// What is not framed yet. None behind the last fragment.
    rest: Option<&'a [u8]>,
    first: bool,
}

impl<'a> Iterator for RecordFragments<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Fragment<'a>> {
        let rest = self.rest?;
        let room = LOG_BLOCK_SIZE - offset_in_block(self.offset) - FRAGMENT_HEADER_SIZE;
        let (payload, rest) = rest.split_at(room.min(rest.len()));
        let last = rest.is_empty();
        let kind = match (self.first, last) {
            (true, true) => fragment_type::FULL,
            (true, false) => fragment_type::FIRST,
            (false, false) => fragment_type::MIDDLE,
            (false, true) => fragment_type::LAST,
        };
        let fragment = Fragment { offset: self.offset, header: header(kind, payload), payload };
        self.offset += (FRAGMENT_HEADER_SIZE + payload.len()) as u64;
        self.rest = (!last).then_some(rest);
        self.first = false;
        Some(fragment)
    }
}

fn header(kind: u8, payload: &[u8]) -> [u8; FRAGMENT_HEADER_SIZE] {
    let [c0, c1, c2, c3] = fragment_checksum(kind, payload).to_le_bytes();
    // A payload is at most MAX_PAYLOAD, which fits two bytes.
    let [l0, l1] = (payload.len() as u16).to_le_bytes();
    [c0, c1, c2, c3, l0, l1, kind]
}
