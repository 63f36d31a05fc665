//! The end of the log, where writes go.
//!
//! ```text
//!   log 7 (frozen, not synced)   log 9 (current)
//!   [ r r r r r r r 0 0 0 ]      [ r r r r | room, zeros ... ]
//!                                          ^ framer
//! ```

use std::path::Path;
use std::time::Duration;

use terrace_env::LogFile;
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::log::RecordWriter;
use terrace_sync::mutant;

use super::wal_close_marker::{CLOSE_MARKER_LEN, CloseMarker};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::sync::Arc;

/// A log that is still needed.
#[derive(Clone)]
pub(crate) struct WalFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
}

/// Room that even a nearly full disk has for a log; beyond it the log grows with each record.
const MIN_PREALLOCATED_BYTES: u64 = 64 << 10;

/// The file that `open` gives for `room` bytes, or for fewer on a nearly full disk.
fn open_preallocated(
    room: u64,
    open: impl Fn(u64) -> terrace_env::Result<Box<dyn LogFile>>,
) -> terrace_env::Result<Arc<dyn LogFile>> {
    let opened = match open(room) {
        Err(error) if error.is_no_space() => open(MIN_PREALLOCATED_BYTES),
        opened => opened,
    };
    opened.map(Arc::from)
}

impl WalFile {
    /// Creates log `number` with `room` for a memtable, in bytes. On an error there is no file.
    pub(crate) fn create(options: &Options, directory: &Path, number: u64, room: usize) -> Result<WalFile> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let file = open_preallocated(room as u64, |room| fs.create_log(&path, room)).inspect_err(|_| {
            // On a full disk every write tries: nothing must pile up.
            let _ = fs.remove(&path);
        })?;
        Ok(WalFile { number, file })
    }

    /// Opens log `number`, which was closed and holds `length` bytes, to go on with: where the mark stands that it was
    /// closed with, which the seal is of. None where the file system has no way to.
    pub(crate) fn reopen(
        options: &Options,
        directory: &Path,
        number: u64,
        length: u64,
    ) -> Result<Option<(WalFile, RecordWriter, Arc<CloseMarker>)>> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let room = length.saturating_add(options.initial_memtable_size() as u64);
        let file = match open_preallocated(room, |room| fs.reopen_log(&path, room)) {
            Err(error) if error.is_unsupported() => return Ok(None),
            file => file?,
        };
        let end = length.saturating_sub(CLOSE_MARKER_LEN as u64);
        let seal = if end < length { CloseMarker::new(&file, end) } else { CloseMarker::default() };
        Ok(Some((WalFile { number, file }, RecordWriter::resume_at(end), Arc::new(seal))))
    }
}

/// Where the next write goes.
pub(crate) struct WalWriter {
    pub(crate) wal: WalFile,
    pub(crate) record_writer: RecordWriter,
    /// Up to here the log has room that is ready, and nobody looks how fast it fills.
    pub(crate) preallocated_to: u64,
    /// When somebody looked last, unless it is known that the log fills fast.
    pub(crate) fill_rate_checked_at: Option<Duration>,
    pub(crate) memtable: Arc<Memtable>,
    /// The memtable is full when it takes so many bytes. Since it was begun: the log has room for no more.
    pub(crate) memtable_full_at: usize,
    /// When the memtable was begun.
    pub(crate) memtable_created_at: Duration,
    /// The last number given out.
    pub(crate) last_sequence: SequenceNumber,
    /// Bytes of keys and values that were put into the memtable, as writers pay for them.
    pub(crate) user_bytes: u64,
    /// True after a store that failed for want of space: the log ends here, and the next write begins a new one.
    pub(crate) is_torn: bool,
    /// True if an earlier run began the log.
    pub(crate) is_reused: bool,
    /// Of the log, if it is still closed.
    pub(crate) close_marker: Option<Arc<CloseMarker>>,
    /// The record under construction; kept for its memory.
    pub(crate) record_buffer: Vec<u8>,
}

impl WalWriter {
    /// Stores a record at the end of the log. On an error the end has not moved.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<()> {
        self.invalidate_close_marker()?;
        let mut framer = self.record_writer.clone();
        // In a log that is filled in any order a record that fits a block is never split: a reader of a torn log then
        // loses it whole or not at all. One that grows is torn at its end only, and is LevelDB's byte for byte.
        let whole = self.wal.file.capacity() > 0;
        for fragment in framer.add_record(record, whole) {
            let stored = self.wal.file.write_at(fragment.offset, &fragment.header, fragment.payload);
            if mutant!(TornRecordLeftAfterNoSpace) {
                self.record_writer = RecordWriter::resume_at(
                    fragment.offset + (fragment.header.len() + fragment.payload.len()) as u64,
                );
            }
            stored?;
        }
        self.record_writer = framer;
        Ok(())
    }

    /// Wipes the mark of a closed log, before anything is written to it or follows it.
    pub(crate) fn invalidate_close_marker(&mut self) -> Result<()> {
        if let Some(seal) = &self.close_marker {
            seal.invalidate()?;
            self.close_marker = None;
        }
        Ok(())
    }

    /// True if the log is as it was closed.
    fn has_close_marker(&self) -> bool {
        self.close_marker.as_ref().is_some_and(|seal| seal.is_present())
    }

    /// The length of the log, should it be closed now.
    pub(crate) fn closed_len(&self) -> Option<u64> {
        self.has_close_marker().then(|| self.record_writer.end_offset() + CLOSE_MARKER_LEN as u64)
    }
}
