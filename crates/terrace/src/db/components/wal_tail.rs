//! WAL of a database that another process has open: reads records into a memtable as they appear.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use terrace_env::{Env, FileIdentity, LiveFile};
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::log::{TailItem, TailReader, TailVerdict};
use terrace_format::{DecodeError, DecodeErrorKind};

use super::sorted_chunk::{SortedChunk, approx_memtable_bytes, insert_batch};
use crate::error::{Error, Result};
use crate::file_io::file_error;
use crate::memtable::{InsertMode, Memtable};
use crate::sync::Arc;

/// Size of a chunk of records that are sorted before they are inserted, in bytes in the memtable.
const MAX_CHUNK_BYTES: usize = 4 << 20;

/// Minimum number of operations for which sorting pays.
const MIN_SORTED_OPERATIONS: usize = 256;

/// WAL with the memtable of its records.
pub(crate) struct WalTail {
    pub(crate) number: u64,
    path: PathBuf,
    file: Box<dyn LiveFile>,
    reader: TailReader,
    pub(crate) memtable: Arc<Memtable>,
}

/// Result of [`WalTail::read`].
pub(crate) enum WalRead {
    /// No whole record follows now.
    End,
    /// The budget is spent.
    BudgetSpent,
    /// A whole record follows that cannot be the next one, or is malformed.
    Unexpected(Error),
}

/// Limit of one catch-up. It ends after this number of operations, and not before the goal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadBudget {
    /// Number of operations that may still be read.
    pub(crate) operations: usize,
    /// Offset in the log that must be reached, if records exist up to there.
    pub(crate) goal: u64,
}

impl WalTail {
    /// Opens log `number`, whose records `memtable` receives. Returns None if it does not exist.
    pub(crate) fn open(
        env: &Env,
        directory: &Path,
        number: u64,
        memtable: &Arc<Memtable>,
    ) -> Result<Option<WalTail>> {
        let path = directory.join(FileName::Log(number).to_string());
        let file = match env.fs.open_live(&path) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let memtable = Arc::clone(memtable);
        Ok(Some(WalTail { number, path, file, reader: TailReader::new(), memtable }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn identity(&self) -> FileIdentity {
        self.file.identity()
    }

    /// Returns the current length of the log in bytes, with unused space at its end.
    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.file.len()?)
    }

    /// Returns the number of bytes after the last record that was read, with unused space.
    pub(crate) fn unread_bytes(&self) -> Result<u64> {
        Ok(self.len()?.saturating_sub(self.reader.end_offset()))
    }

    /// Returns true if a record follows whose sequence number is in `expected`.
    pub(crate) fn has_next(&self, expected: &RangeInclusive<SequenceNumber>) -> Result<bool> {
        let mut reader = self.reader.clone();
        let next = reader
            .next(&mut self.read_at(), &mut |record| verdict(record, expected))
            .map_err(|error| file_error(&self.path, error))?;
        Ok(matches!(next, TailItem::Record { .. }))
    }

    /// Inserts the next records into the memtable. `expected` returns the range of the sequence
    /// number that follows the given last one, or that of the first record.
    pub(crate) fn read(
        &mut self,
        last: &mut Option<SequenceNumber>,
        expected: impl Fn(Option<SequenceNumber>) -> RangeInclusive<SequenceNumber>,
        budget: &mut ReadBudget,
    ) -> Result<WalRead> {
        let mut chunk = SortedChunk::default();
        let result = self.read_into(&mut chunk, last, expected, budget);
        // Also after an error: `last` includes these records.
        self.insert(&mut chunk);
        result
    }

    fn read_into(
        &mut self,
        chunk: &mut SortedChunk,
        last: &mut Option<SequenceNumber>,
        expected: impl Fn(Option<SequenceNumber>) -> RangeInclusive<SequenceNumber>,
        budget: &mut ReadBudget,
    ) -> Result<WalRead> {
        let WalTail { path, file, reader, memtable, .. } = self;
        let mut read_at = |offset: u64, buf: &mut [u8]| file.read_at(offset, buf).map_err(io::Error::other);
        loop {
            if budget.operations == 0 && reader.end_offset() >= budget.goal {
                return Ok(WalRead::BudgetSpent);
            }
            let range = expected(*last);
            let next = reader.next(&mut read_at, &mut |record| verdict(record, &range));
            match next.map_err(|error| file_error(path, error))? {
                TailItem::End => return Ok(WalRead::End),
                TailItem::Other { offset, data } => {
                    let found = format!("sequence number {}", sequence_of(data).unwrap_or(0));
                    let wanted = format!("{}", range.start());
                    let error = DecodeError::new(DecodeErrorKind::OutOfOrder, offset, found, wanted);
                    return Ok(WalRead::Unexpected(Error::from_decode_error(path, &error)));
                }
                TailItem::Record { offset, data } => {
                    let batch = match batch::validate(data) {
                        Ok(batch) => batch,
                        Err(error) => return Err(Error::from_decode_error(path, &error.offset_by(offset))),
                    };
                    *last = Some(batch.sequence() + (batch.len() as u64).saturating_sub(1));
                    budget.operations = budget.operations.saturating_sub(batch.len());
                    add(memtable, chunk, &batch);
                }
            }
        }
    }

    fn insert(&self, chunk: &mut SortedChunk) {
        let should_sort = self.memtable.is_bytewise() && chunk.len() >= MIN_SORTED_OPERATIONS;
        chunk.insert_into(&self.memtable, should_sort, InsertMode::Exclusive);
    }

    fn read_at(&self) -> impl FnMut(u64, &mut [u8]) -> io::Result<usize> {
        |offset, buf| self.file.read_at(offset, buf).map_err(io::Error::other)
    }
}

/// Adds a batch to `chunk`, and inserts a full chunk.
fn add(memtable: &Memtable, chunk: &mut SortedChunk, batch: &BatchRef<'_>) {
    if approx_memtable_bytes(batch) > MAX_CHUNK_BYTES / 2 {
        // A copy of a large batch costs more than it saves.
        return insert_batch(memtable, batch);
    }
    chunk.push(batch);
    if chunk.memtable_bytes > MAX_CHUNK_BYTES {
        chunk.insert_into(memtable, memtable.is_bytewise(), InsertMode::Exclusive);
    }
}

/// Returns the sequence number of a record, if it has a header of a batch.
fn sequence_of(record: &[u8]) -> Option<SequenceNumber> {
    record.first_chunk().map(|bytes| SequenceNumber::from_le_bytes(*bytes))
}

fn verdict(record: &[u8], expected: &RangeInclusive<SequenceNumber>) -> TailVerdict {
    const COUNT_OFFSET: usize = 8;
    let count = record.get(COUNT_OFFSET..).and_then(<[u8]>::first_chunk);
    match (sequence_of(record), count.map(|count| u32::from_le_bytes(*count))) {
        // An empty batch. It changes nothing, wherever it is.
        (Some(_), Some(0)) => TailVerdict::Marker,
        (Some(sequence), Some(_)) if expected.contains(&sequence) => TailVerdict::Next,
        _ => TailVerdict::Other,
    }
}
