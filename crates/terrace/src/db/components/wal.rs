//! End of the WAL, where writes are appended.
//!
//! ```text
//!   log 7 (immutable, not synced)   log 9 (current)
//!   [ r r r r r r r 0 0 0 ]         [ r r r r | preallocated zeros ... ]
//!                                             ^ record writer
//! ```

use std::path::Path;
use std::time::Duration;

use terrace_env::{LogFile, StickySync};
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::log::RecordWriter;
use terrace_sync::mutant;

use super::wal_close_marker::{CLOSE_MARKER_LEN, CloseMarker};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::sync::Arc;

/// Log file that the database still needs.
#[derive(Clone)]
pub(crate) struct WalFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
    syncs: Arc<StickySync>,
}

/// Preallocation on a nearly full disk, in bytes. Beyond it, the log grows with each record.
const MIN_PREALLOCATED_BYTES: u64 = 64 << 10;

/// Opens a log with `capacity` preallocated bytes, or with fewer on a nearly full disk.
fn open_preallocated(
    capacity: u64,
    open: impl Fn(u64) -> terrace_env::Result<Box<dyn LogFile>>,
) -> terrace_env::Result<Arc<dyn LogFile>> {
    let opened = match open(capacity) {
        Err(error) if error.is_no_space() => open(MIN_PREALLOCATED_BYTES),
        opened => opened,
    };
    opened.map(Arc::from)
}

impl WalFile {
    pub(crate) fn new(number: u64, file: Arc<dyn LogFile>) -> WalFile {
        WalFile { number, file, syncs: Arc::default() }
    }

    /// Makes the log durable. After an error, every later or concurrent call fails, too: a custom
    /// file system may report an error only once.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.syncs.sync_with(|| self.file.sync())?)
    }

    /// Creates log `number` with `capacity` preallocated bytes. After an error the file does not
    /// exist.
    pub(crate) fn create(
        options: &Options,
        directory: &Path,
        number: u64,
        capacity: usize,
    ) -> Result<WalFile> {
        let fs = &options.env.fs;
        let path = directory.join(FileName::Log(number).to_string());
        let file = open_preallocated(capacity as u64, |capacity| fs.create_log(&path, capacity))
            .inspect_err(|_| {
                // On a full disk, every write retries this: no files may accumulate.
                let _ = fs.remove(&path);
            })?;
        Ok(WalFile::new(number, file))
    }

    /// Opens log `number`, which was closed with `length` bytes, for reuse. The record writer
    /// continues at the close marker. Returns None if the file system does not support this.
    pub(crate) fn reopen(
        options: &Options,
        directory: &Path,
        number: u64,
        length: u64,
    ) -> Result<Option<(WalFile, RecordWriter, Arc<CloseMarker>)>> {
        let fs = &options.env.fs;
        let path = directory.join(FileName::Log(number).to_string());
        let capacity = length.saturating_add(options.initial_memtable_size() as u64);
        let file = match open_preallocated(capacity, |capacity| fs.reopen_log(&path, capacity)) {
            Err(error) if error.is_unsupported() => return Ok(None),
            file => file?,
        };
        let end = length.saturating_sub(CLOSE_MARKER_LEN as u64);
        let close_marker = if end < length { CloseMarker::new(&file, end) } else { CloseMarker::default() };
        Ok(Some((WalFile::new(number, file), RecordWriter::resume_at(end), Arc::new(close_marker))))
    }
}

/// State of the WAL for the next write.
pub(crate) struct WalWriter {
    pub(crate) wal: WalFile,
    pub(crate) record_writer: RecordWriter,
    /// Offset up to which the log is preallocated and no check of the fill rate is due.
    pub(crate) preallocated_to: u64,
    /// Time of the last check of the fill rate. None if the log is known to fill fast.
    pub(crate) fill_rate_checked_at: Option<Duration>,
    pub(crate) memtable: Arc<Memtable>,
    /// Bytes at which the memtable is full. Fixed when the memtable is created, because the log is
    /// preallocated for this size.
    pub(crate) memtable_full_at: usize,
    /// Time when the memtable was created.
    pub(crate) memtable_created_at: Duration,
    /// Last used sequence number.
    pub(crate) last_sequence: SequenceNumber,
    /// Bytes of keys and values in the memtable, as the write controller counts them.
    pub(crate) user_bytes: u64,
    /// True after a write failed for lack of space: the log ends here, and the next write starts a
    /// new one.
    pub(crate) is_torn: bool,
    /// True if an earlier run created the log.
    pub(crate) is_reused: bool,
    /// Close marker of the log, if it is still present.
    pub(crate) close_marker: Option<Arc<CloseMarker>>,
    /// Buffer of the last record, for reuse.
    pub(crate) record_buffer: Vec<u8>,
}

impl WalWriter {
    /// Appends a record to the log. An error does not move the end of the log.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<()> {
        self.invalidate_close_marker()?;
        let mut record_writer = self.record_writer.clone();
        // The blocks of a preallocated log may become durable in any order. There, a record that
        // fits in a block is never split, so a reader of a torn log loses the whole record or
        // nothing. A growing log is torn only at its end, and has the same bytes as LevelDB's.
        let whole = self.wal.file.capacity() > 0;
        for fragment in record_writer.add_record(record, whole) {
            let stored = self.wal.file.write_at(fragment.offset, &fragment.header, fragment.payload);
            if mutant!(TornRecordLeftAfterNoSpace) {
                self.record_writer = RecordWriter::resume_at(
                    fragment.offset + (fragment.header.len() + fragment.payload.len()) as u64,
                );
            }
            stored?;
        }
        self.record_writer = record_writer;
        Ok(())
    }

    /// Invalidates the close marker, before the log or a later log is written.
    pub(crate) fn invalidate_close_marker(&mut self) -> Result<()> {
        if let Some(close_marker) = &self.close_marker {
            close_marker.invalidate()?;
            self.close_marker = None;
        }
        Ok(())
    }

    /// Returns true if the log is unchanged since its close.
    fn has_close_marker(&self) -> bool {
        self.close_marker.as_ref().is_some_and(|close_marker| close_marker.is_present())
    }

    /// Returns the length of the log with its close marker, if nothing was written since the close.
    pub(crate) fn closed_len(&self) -> Option<u64> {
        self.has_close_marker().then(|| self.record_writer.end_offset() + CLOSE_MARKER_LEN as u64)
    }
}
