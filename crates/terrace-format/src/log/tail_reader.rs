//! Tail reader: reads the records of a log while another process appends to it.
//!
//! ```text
//!   bytes where the next record should begin     action
//!   whole record, the next one                   take it
//!   whole record, a close marker                 stay, or skip it if the next record follows it
//!   whole record, any other                      report it and stay
//!   zeros, or an incomplete record               stay, or skip to the start of a later block
//!   end of the file                              stay
//! ```
//!
//! The caller recognises the next record, usually by its sequence number. A [`LogReader`] does not
//! fit: for it, the end of the file is final, and it keeps a block that may change.
//!
//! A record is final once its checksums are correct. All other bytes may change until the next
//! call, so no result depends on old ones: the reader reads them again before it stays. It also
//! reads them again before it skips them. A writer writes from the start to the end, so bytes that
//! are no record although a later record is complete never become one.
//!
//! The first byte of a block is never inside of a value. So a value that contains a whole log
//! cannot mislead a skip.
//!
//! [`LogReader`]: super::LogReader

use std::io;
use std::ops::Range;

use terrace_sync::mutant;

use super::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, fragment_checksum, fragment_type};

/// Size in bytes of the first read after the end of the log. A reader at the end copies no more.
const MIN_READ_BYTES: usize = 512;

/// Maximum size of a read, in bytes.
const MAX_READ_BYTES: usize = 256 << 10;

/// Maximum number of block starts at which the reader searches the next record. A killed process
/// leaves up to 256 KiB of zeros, after which another program may continue the log.
const MAX_SKIPPED_BLOCKS: u64 = 16;

/// Decision of the caller about a whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailVerdict {
    /// The record is the next one.
    Next,
    /// The record states that the log was closed. The next run of the writer replaces it.
    Marker,
    /// The record is none of these.
    Other,
}

/// Result of [`TailReader::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailItem<'a> {
    /// The next record. The reader has moved after it.
    Record {
        /// Offset of its first fragment from the start of the file, in bytes.
        offset: u64,
        /// Content of the record.
        data: &'a [u8],
    },
    /// A whole record that is not the next one. The reader stays before it.
    Other {
        /// Offset of its first fragment from the start of the file, in bytes.
        offset: u64,
        /// Content of the record.
        data: &'a [u8],
    },
    /// No whole record follows now.
    End,
}

/// Whole record in the buffers of the reader.
struct FoundRecord {
    offset: u64,
    end: u64,
    /// Place of a record of one fragment in the buffer. A longer record is in `record`.
    in_buffer: Option<Range<usize>>,
}

/// Function that reads bytes at an offset and returns their number. A short read means the end of
/// the file.
pub type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> io::Result<usize> + 'a;

/// Function that decides about the content of a whole record.
pub type JudgeRecord<'a> = dyn FnMut(&[u8]) -> TailVerdict + 'a;

type JudgedRecord = (FoundRecord, TailVerdict);

/// Reader of a log that grows.
#[derive(Debug, Clone, Default)]
pub struct TailReader {
    /// End of the last record that was returned.
    end: u64,
    /// Bytes of the log from `buffer_start` on, as the last reads found them.
    buffer: Vec<u8>,
    buffer_start: u64,
    /// Size of the next read, in bytes.
    read_bytes: usize,
    /// Content of the last record with several fragments.
    record: Vec<u8>,
}

impl TailReader {
    /// Creates a reader at the start of a log.
    pub fn new() -> TailReader {
        TailReader::default()
    }

    /// Returns the end of the last record, as an offset from the start of the file in bytes.
    pub fn end_offset(&self) -> u64 {
        self.end
    }

    /// Returns the next record if it is complete. `verdict` decides about whole records, and may
    /// see one several times.
    ///
    /// # Errors
    ///
    /// Those of `read_at`. The reader stays at its position.
    pub fn next<'a>(
        &'a mut self,
        read_at: &mut ReadAt<'_>,
        verdict: &mut JudgeRecord<'_>,
    ) -> io::Result<TailItem<'a>> {
        let has_old_bytes = !self.buffer.is_empty();
        let mut found = self.find_next(read_at, verdict)?;
        if has_old_bytes && !matches!(found, Some((_, TailVerdict::Next))) {
            self.buffer.clear();
            found = self.find_next(read_at, verdict)?;
        }
        match found {
            Some((record, TailVerdict::Next)) => {
                self.end = record.end;
                Ok(TailItem::Record { offset: record.offset, data: self.content(&record) })
            }
            Some((record, TailVerdict::Other)) => {
                Ok(TailItem::Other { offset: record.offset, data: self.content(&record) })
            }
            Some((_, TailVerdict::Marker)) | None => {
                self.buffer.clear();
                Ok(TailItem::End)
            }
        }
    }

    fn content(&self, record: &FoundRecord) -> &[u8] {
        record.in_buffer.clone().map_or(&self.record, |range| &self.buffer[range])
    }

    /// Searches the next record at the current position, after markers, and at the starts of the
    /// next blocks. Returns another record at the current position if there is no next one.
    fn find_next(
        &mut self,
        read_at: &mut ReadAt<'_>,
        verdict: &mut JudgeRecord<'_>,
    ) -> io::Result<Option<JudgedRecord>> {
        let mut position = self.end;
        let later = loop {
            match self.judged_record_at(position, read_at, verdict)? {
                Some((marker, TailVerdict::Marker)) => {
                    // A whole record follows the marker before this one, so that one is final.
                    self.end = position;
                    position = marker.end;
                }
                here @ Some(_) if position == self.end => return Ok(here),
                Some((_, TailVerdict::Next)) => break position,
                _ => match self.next_block_after(position, read_at, verdict)? {
                    Some(offset) => break offset,
                    None => return Ok(None),
                },
            }
        };
        // The skipped bytes may have become a record since they were read.
        self.buffer.clear();
        match self.judged_record_at(self.end, read_at, verdict)? {
            Some((record, TailVerdict::Next)) => Ok(Some((record, TailVerdict::Next))),
            _ => self.judged_record_at(later, read_at, verdict),
        }
    }

    /// Returns the start of the first block after `position` that begins with the next record.
    fn next_block_after(
        &mut self,
        position: u64,
        read_at: &mut ReadAt<'_>,
        verdict: &mut JudgeRecord<'_>,
    ) -> io::Result<Option<u64>> {
        let block = LOG_BLOCK_SIZE as u64;
        let first = (position / block + 1) * block;
        for offset in (0..MAX_SKIPPED_BLOCKS).map(|index| first + index * block) {
            if self.bytes_at(offset, FRAGMENT_HEADER_SIZE, read_at)?.is_none() {
                break; // the file ends before
            }
            if matches!(self.judged_record_at(offset, read_at, verdict)?, Some((_, TailVerdict::Next))) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    fn judged_record_at(
        &mut self,
        offset: u64,
        read_at: &mut ReadAt<'_>,
        verdict: &mut JudgeRecord<'_>,
    ) -> io::Result<Option<JudgedRecord>> {
        Ok(self.record_at(offset, read_at)?.map(|record| {
            let decision = verdict(self.content(&record));
            (record, decision)
        }))
    }

    /// Reads the record that begins at `offset`, or at the next block if `offset` is too close to
    /// the end of its block.
    fn record_at(&mut self, offset: u64, read_at: &mut ReadAt<'_>) -> io::Result<Option<FoundRecord>> {
        self.record.clear();
        let mut position = offset;
        let mut start = None;
        loop {
            position = first_header_at(position);
            let Some((kind, payload)) = self.fragment_at(position, read_at)? else {
                return Ok(None);
            };
            let end = position + (FRAGMENT_HEADER_SIZE + payload.len()) as u64;
            // Early writers left an empty FIRST at the end of a block and started the record again.
            let is_between = start.is_none() || self.record.is_empty();
            match kind {
                fragment_type::FULL if is_between => {
                    return Ok(Some(FoundRecord { offset: position, end, in_buffer: Some(payload) }));
                }
                fragment_type::FIRST if is_between => start = Some(position),
                fragment_type::MIDDLE | fragment_type::LAST if start.is_some() => {}
                _ => return Ok(None),
            }
            self.record.extend_from_slice(&self.buffer[payload]);
            if let (fragment_type::LAST, Some(offset)) = (kind, start) {
                return Ok(Some(FoundRecord { offset, end, in_buffer: None }));
            }
            position = end;
        }
    }

    /// Returns the type of the fragment at `offset` and the place of its payload in the buffer, or
    /// None if no whole fragment is there.
    fn fragment_at(
        &mut self,
        offset: u64,
        read_at: &mut ReadAt<'_>,
    ) -> io::Result<Option<(u8, Range<usize>)>> {
        let Some(header) = self.bytes_at(offset, FRAGMENT_HEADER_SIZE, read_at)? else { return Ok(None) };
        let [c0, c1, c2, c3, l0, l1, kind] = self.buffer[header] else { return Ok(None) };
        let len = FRAGMENT_HEADER_SIZE + usize::from(u16::from_le_bytes([l0, l1]));
        let is_type = (fragment_type::FULL..=fragment_type::LAST).contains(&kind);
        let left_in_block = LOG_BLOCK_SIZE as u64 - offset % LOG_BLOCK_SIZE as u64;
        if !is_type || len as u64 > left_in_block {
            return Ok(None);
        }
        let Some(fragment) = self.bytes_at(offset, len, read_at)? else { return Ok(None) };
        let payload = fragment.start + FRAGMENT_HEADER_SIZE..fragment.end;
        let checksum = u32::from_le_bytes([c0, c1, c2, c3]);
        let is_whole =
            fragment_checksum(kind, &self.buffer[payload.clone()]) == checksum || mutant!(TornRecordTaken);
        Ok(is_whole.then_some((kind, payload)))
    }

    /// Returns the place of `len` bytes at `offset` in the buffer, or None if the file ends before.
    /// They are at most one block.
    fn bytes_at(
        &mut self,
        offset: u64,
        len: usize,
        read_at: &mut ReadAt<'_>,
    ) -> io::Result<Option<Range<usize>>> {
        let buffer_end = self.buffer_start + self.buffer.len() as u64;
        if offset < self.buffer_start || offset + len as u64 > buffer_end {
            self.fill_buffer(offset, len, read_at)?;
        }
        let start = (offset - self.buffer_start) as usize;
        Ok((start + len <= self.buffer.len()).then_some(start..start + len))
    }

    /// Reads at least `len` bytes at `offset` into the buffer, or up to the end of the file. Reads
    /// more with each call that continues the last one.
    fn fill_buffer(&mut self, offset: u64, len: usize, read_at: &mut ReadAt<'_>) -> io::Result<()> {
        let buffer_end = self.buffer_start + self.buffer.len() as u64;
        let continues = !self.buffer.is_empty() && (self.buffer_start..=buffer_end).contains(&offset);
        self.read_bytes = if continues { (self.read_bytes * 4).min(MAX_READ_BYTES) } else { MIN_READ_BYTES };
        self.buffer.resize(self.read_bytes.max(len), 0);
        self.buffer_start = offset;
        let read = read_at(offset, &mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

/// Returns `offset`, or the start of the next block if no header fits before it.
fn first_header_at(offset: u64) -> u64 {
    let block = LOG_BLOCK_SIZE as u64;
    let left = block - offset % block;
    if left < FRAGMENT_HEADER_SIZE as u64 { offset + left } else { offset }
}

#[cfg(test)]
mod tests;
