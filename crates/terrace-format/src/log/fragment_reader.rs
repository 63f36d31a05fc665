//! Reads a log block by block and cuts it into fragments. What they mean for records is the reader's question.
//!
//! Holds one block, and never more memory than was read.

use std::io::{self, Read};
use std::ops::Range;

use terrace_sync::mutant;

use super::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, fragment_checksum, fragment_type};
use crate::decode_error::{DecodeError, DecodeErrorKind};

#[derive(Debug)]
pub(super) struct FragmentReader<R> {
    source: R,
    /// What was read of the current block.
    block: Vec<u8>,
    /// The place in it of the next header.
    block_pos: usize,
    /// Where it begins in the file.
    block_start: u64,
    /// It is whole, or it is the last of the file and shorter.
    block_complete: bool,
    /// A damaged fragment costs only itself where its length leads to a sound one.
    resyncs: bool,
    pub(super) skipped: SkippedBytes,
}

/// What was passed over without being read as a fragment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SkippedBytes {
    pub(super) saw_zeros: bool,
    pub(super) saw_other: bool,
}

/// Bytes that are given up, with the reason.
#[derive(Debug)]
pub(super) struct DroppedBytes {
    pub(super) error: DecodeError,
    pub(super) len: usize,
}

/// What stood at one place of the file.
pub(super) enum FragmentRead {
    /// A fragment whose checksum is right.
    Fragment(FragmentPos),
    /// Room that was set aside.
    Unused,
    Damaged(DroppedBytes),
    End,
}

/// A fragment in the current block.
pub(super) struct FragmentPos {
    pub(super) fragment_type: u8,
    /// Of its header in the file.
    pub(super) offset: u64,
    payload: Range<usize>,
}

impl<R: Read> FragmentReader<R> {
    pub(super) fn new(source: R) -> FragmentReader<R> {
        let skipped = SkippedBytes::default();
        FragmentReader {
            source,
            block: Vec::new(),
            block_pos: 0,
            block_start: 0,
            block_complete: false,
            resyncs: false,
            skipped,
        }
    }

    pub(super) fn salvaging(source: R) -> FragmentReader<R> {
        FragmentReader { resyncs: true, ..FragmentReader::new(source) }
    }

    /// Reads one fragment, or passes over what is not one.
    pub(super) fn read_fragment(&mut self) -> io::Result<FragmentRead> {
        loop {
            self.fill_block()?;
            let rest = &self.block[self.block_pos..];
            if let Some(header) = rest.first_chunk() {
                return Ok(self.parse_fragment(*header));
            }
            self.skip_rest();
            if self.is_last_block() {
                return Ok(FragmentRead::End);
            }
            self.block_start += self.block.len() as u64;
            self.block.clear();
            self.block_pos = 0;
            self.block_complete = false;
        }
    }

    /// The payload of the fragment that was read last.
    pub(super) fn payload(&self, place: &FragmentPos) -> &[u8] {
        &self.block[place.payload.clone()]
    }

    /// Makes the fragment that was read last the next one again.
    pub(super) fn unread(&mut self, place: &FragmentPos) {
        self.block_pos = place.payload.start - FRAGMENT_HEADER_SIZE;
    }

    /// The place in the file of what comes next.
    pub(super) fn offset(&self) -> u64 {
        self.block_start + self.block_pos as u64
    }

    /// How much of the file was read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.block_start + self.block.len() as u64
    }

    /// Judges the fragment at the current place by its header.
    fn parse_fragment(&mut self, header: [u8; FRAGMENT_HEADER_SIZE]) -> FragmentRead {
        let [c0, c1, c2, c3, l0, l1, kind] = header;
        let offset = self.offset();
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        let start = self.block_pos + FRAGMENT_HEADER_SIZE;
        let Some(payload) = self.block.get(start..start + len) else {
            return self.truncated_fragment(offset, len, self.block.len() - start);
        };
        if kind == fragment_type::ZERO && len == 0 {
            self.skip_rest();
            return FragmentRead::Unused;
        }
        let (computed, stored) = (fragment_checksum(kind, payload), u32::from_le_bytes([c0, c1, c2, c3]));
        if computed != stored {
            let dropped = match self.find_valid_fragment(start + len).filter(|_| self.resyncs) {
                Some(next) => self.skip_to(next),
                None => self.skip_rest(),
            };
            return FragmentRead::Damaged(DroppedBytes {
                error: DecodeError::checksum_mismatch(offset, computed, stored),
                len: dropped,
            });
        }
        self.block_pos = start + len;
        FragmentRead::Fragment(FragmentPos { fragment_type: kind, offset, payload: start..self.block_pos })
    }

    /// The first place, from `at` on and from one length to the next, where a fragment's checksum is right.
    fn find_valid_fragment(&self, mut at: usize) -> Option<usize> {
        loop {
            let [c0, c1, c2, c3, l0, l1, kind] = *self.block.get(at..)?.first_chunk()?;
            let start = at + FRAGMENT_HEADER_SIZE;
            let payload = self.block.get(start..start + usize::from(u16::from_le_bytes([l0, l1])))?;
            if fragment_checksum(kind, payload) == u32::from_le_bytes([c0, c1, c2, c3])
                && kind != fragment_type::ZERO
            {
                return Some(at);
            }
            at = start + payload.len();
        }
    }

    /// A fragment that is longer than what is left: damage, or the end of the file before its writer was done.
    fn truncated_fragment(&mut self, offset: u64, len: usize, room: usize) -> FragmentRead {
        let dropped = self.skip_rest();
        if self.is_last_block() {
            return FragmentRead::End;
        }
        let found = format!("a fragment of {len} bytes");
        let error = DecodeError::new(DecodeErrorKind::OutOfBounds, offset, found, format!("at most {room}"));
        FragmentRead::Damaged(DroppedBytes { error, len: dropped })
    }

    /// Reads until the block is whole or the file ends; a short read is neither.
    fn fill_block(&mut self) -> io::Result<()> {
        if !self.block_complete {
            let mut end = self.block.len();
            // Whole blocks at a time: `read_to_end` would begin with small ones.
            self.block.reserve_exact(LOG_BLOCK_SIZE - end);
            self.block.resize(LOG_BLOCK_SIZE, 0);
            let mut outcome = Ok(());
            while end < LOG_BLOCK_SIZE {
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
            self.block_complete = true;
        }
        Ok(())
    }

    /// The block that was read is shorter than a block: the file ends here.
    fn is_last_block(&self) -> bool {
        self.block.len() < LOG_BLOCK_SIZE
    }

    fn skip_to(&mut self, next: usize) -> usize {
        let skipped = next - self.block_pos;
        self.skipped.saw_other = true;
        self.block_pos = next;
        skipped
    }

    /// Passes over the rest of the block and says how much that was.
    fn skip_rest(&mut self) -> usize {
        let rest = &self.block[self.block_pos..];
        let skipped = rest.len();
        let zeros = rest.iter().all(|&byte| byte == 0);
        self.skipped.saw_zeros |= zeros && skipped > 0;
        self.skipped.saw_other |= !zeros;
        self.block_pos = self.block.len();
        skipped
    }
}
