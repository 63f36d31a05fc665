//! Fragment reader: reads a log block by block and splits it into fragments. The log reader joins
//! them into records.
//!
//! It holds one block, and never more memory than it has read. After [`MIN_UNUSED_BEFORE_HOLES`] it
//! skips holes instead of reading them.

use std::io;
use std::ops::Range;

use terrace_sync::mutant;

use super::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, LogSource, fragment_checksum, fragment_type};
use crate::decode_error::{DecodeError, DecodeErrorKind};

/// Unused space in bytes that is read before holes are skipped. Logs that databases preallocate
/// have less, so their recovery never depends on reports of holes, in which some file systems had
/// bugs.
pub const MIN_UNUSED_BEFORE_HOLES: u64 = 64 << 20;

static ZEROS: [u8; LOG_BLOCK_SIZE] = [0; LOG_BLOCK_SIZE];

#[derive(Debug)]
pub(super) struct FragmentReader<R> {
    source: R,
    /// Bytes of the current block that were read.
    block: Vec<u8>,
    /// Position of the next header within the block.
    block_pos: usize,
    /// Offset of the block in the file.
    block_start: u64,
    /// True if the block is complete, or is the shorter last one of the file.
    block_complete: bool,
    /// True if the reader drops only a corrupt fragment, as long as its length leads to a valid
    /// one.
    resyncs: bool,
    /// Bytes of unused space that were read.
    unused_bytes: u64,
    /// True if the current block ends with unused space. More unused blocks then change nothing.
    ends_unused: bool,
    pub(super) skipped: SkippedBytes,
}

/// Kinds of bytes that the reader skipped instead of reading them as a fragment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SkippedBytes {
    pub(super) saw_zeros: bool,
    pub(super) saw_other: bool,
    /// True if the reader skipped more zeros than a full block ends with.
    pub(super) saw_zero_tail: bool,
    /// True if no complete fragment has followed the last skipped bytes. The rest of a full block
    /// does not count.
    pub(super) is_last: bool,
}

/// Dropped bytes and the reason.
#[derive(Debug)]
pub(super) struct DroppedBytes {
    pub(super) error: DecodeError,
    pub(super) len: usize,
}

/// Result of reading at one position.
pub(super) enum FragmentRead {
    /// Fragment with a correct checksum.
    Fragment(FragmentPos),
    /// Preallocated, unused space.
    Unused,
    Damaged(DroppedBytes),
    End,
}

/// Position of a fragment in the current block.
pub(super) struct FragmentPos {
    pub(super) fragment_type: u8,
    /// Offset of the header in the file.
    pub(super) offset: u64,
    payload: Range<usize>,
}

impl<R: LogSource> FragmentReader<R> {
    pub(super) fn new(source: R) -> FragmentReader<R> {
        let skipped = SkippedBytes::default();
        FragmentReader {
            source,
            block: Vec::new(),
            block_pos: 0,
            block_start: 0,
            block_complete: false,
            resyncs: false,
            unused_bytes: 0,
            ends_unused: false,
            skipped,
        }
    }

    pub(super) fn salvaging(source: R) -> FragmentReader<R> {
        FragmentReader { resyncs: true, ..FragmentReader::new(source) }
    }

    /// Reads one fragment, or skips bytes that are none.
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
            self.skip_hole()?;
        }
    }

    /// Skips whole blocks of a hole at the start of a block, after unused space. A reader of these
    /// blocks would find more unused space.
    fn skip_hole(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.ends_unused) && self.unused_bytes >= MIN_UNUSED_BEFORE_HOLES {
            let skipped = self.source.skip_hole(LOG_BLOCK_SIZE as u64)?;
            self.skipped.saw_zeros |= skipped > 0;
            self.skipped.is_last |= skipped > 0;
            self.block_start += skipped;
        }
        Ok(())
    }

    /// Returns the payload of the last fragment.
    pub(super) fn payload(&self, fragment: &FragmentPos) -> &[u8] {
        &self.block[fragment.payload.clone()]
    }

    /// Moves back to the start of the last fragment.
    pub(super) fn unread(&mut self, fragment: &FragmentPos) {
        self.block_pos = fragment.payload.start - FRAGMENT_HEADER_SIZE;
    }

    /// Returns the offset of the next fragment in the file.
    pub(super) fn offset(&self) -> u64 {
        self.block_start + self.block_pos as u64
    }

    /// Returns the number of bytes read from the file.
    pub(super) fn bytes_read(&self) -> u64 {
        self.block_start + self.block.len() as u64
    }

    /// Checks the fragment at the current position.
    fn parse_fragment(&mut self, header: [u8; FRAGMENT_HEADER_SIZE]) -> FragmentRead {
        let [c0, c1, c2, c3, l0, l1, kind] = header;
        let offset = self.offset();
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        let start = self.block_pos + FRAGMENT_HEADER_SIZE;
        let Some(payload) = self.block.get(start..start + len) else {
            return self.truncated_fragment(offset, len, self.block.len() - start);
        };
        if kind == fragment_type::ZERO && len == 0 {
            self.ends_unused = true;
            self.unused_bytes += self.skip_rest() as u64;
            return FragmentRead::Unused;
        }
        let computed = fragment_checksum(kind, payload);
        let stored = u32::from_le_bytes([c0, c1, c2, c3]);
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
        self.skipped.is_last = false;
        FragmentRead::Fragment(FragmentPos { fragment_type: kind, offset, payload: start..self.block_pos })
    }

    /// Returns the position of the first valid fragment at or after `pos`. The search follows the
    /// stored lengths.
    fn find_valid_fragment(&self, mut pos: usize) -> Option<usize> {
        loop {
            let [c0, c1, c2, c3, l0, l1, kind] = *self.block.get(pos..)?.first_chunk()?;
            let start = pos + FRAGMENT_HEADER_SIZE;
            let payload = self.block.get(start..start + usize::from(u16::from_le_bytes([l0, l1])))?;
            if fragment_checksum(kind, payload) == u32::from_le_bytes([c0, c1, c2, c3])
                && kind != fragment_type::ZERO
            {
                return Some(pos);
            }
            pos = start + payload.len();
        }
    }

    /// Returns true if a valid fragment begins anywhere after the current position. Unlike
    /// [`FragmentReader::find_valid_fragment`], it trusts no length, so the fragment may also be
    /// part of a value: it proves that bytes exist, and not that they are a record.
    fn is_valid_fragment_ahead(&self) -> bool {
        let rest = &self.block[self.block_pos..];
        let mut headers = rest.windows(FRAGMENT_HEADER_SIZE).enumerate().skip(1);
        headers.any(|(at, header)| {
            let [c0, c1, c2, c3, l0, l1, kind] = *header else { return false };
            let start = at + FRAGMENT_HEADER_SIZE;
            let is_type = (fragment_type::FULL..=fragment_type::LAST).contains(&kind);
            let payload = rest.get(start..start + usize::from(u16::from_le_bytes([l0, l1])));
            payload.filter(|_| is_type).is_some_and(|payload| {
                fragment_checksum(kind, payload) == u32::from_le_bytes([c0, c1, c2, c3])
            })
        })
    }

    /// Handles a fragment that is longer than its block: corruption, or the end of a file that its
    /// writer did not complete. After such an end, no fragment follows.
    fn truncated_fragment(&mut self, offset: u64, len: usize, available: usize) -> FragmentRead {
        let is_end = self.is_last_block() && !self.is_valid_fragment_ahead();
        let dropped = self.skip_rest();
        if is_end {
            return FragmentRead::End;
        }
        let found = format!("a fragment of {len} bytes");
        let error =
            DecodeError::new(DecodeErrorKind::OutOfBounds, offset, found, format!("at most {available}"));
        FragmentRead::Damaged(DroppedBytes { error, len: dropped })
    }

    /// Reads until the block is complete or the file ends. A short read is neither.
    fn fill_block(&mut self) -> io::Result<()> {
        if !self.block_complete {
            let mut end = self.block.len();
            // Read whole blocks: `read_to_end` would start with small reads.
            self.block.reserve_exact(LOG_BLOCK_SIZE - end);
            self.block.resize(LOG_BLOCK_SIZE, 0);
            let mut result = Ok(());
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
                        result = Err(error);
                        break;
                    }
                }
            }
            // Keep the bytes that were read before an error.
            self.block.truncate(end);
            result?;
            self.block_complete = true;
        }
        Ok(())
    }

    /// Returns true if the current block is short, so the file ends with it.
    fn is_last_block(&self) -> bool {
        self.block.len() < LOG_BLOCK_SIZE
    }

    fn skip_to(&mut self, next: usize) -> usize {
        let skipped = next - self.block_pos;
        self.skipped.saw_other = true;
        self.block_pos = next;
        skipped
    }

    /// Skips the rest of the block and returns its length.
    fn skip_rest(&mut self) -> usize {
        let rest = &self.block[self.block_pos..];
        let skipped = rest.len();
        let zeros = *rest == ZEROS[..skipped];
        self.skipped.saw_zeros |= zeros && skipped > 0;
        self.skipped.saw_other |= !zeros;
        self.skipped.saw_zero_tail |= zeros && skipped >= FRAGMENT_HEADER_SIZE;
        self.skipped.is_last |= skipped >= FRAGMENT_HEADER_SIZE;
        self.block_pos = self.block.len();
        skipped
    }
}
