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
use terrace_format::log::{LOG_BLOCK_SIZE, RecordWriter};
use terrace_sync::mutant;

use super::DbInner;
use super::log_replay::CLOSE_MARKER_LEN;
use super::panic_guard::PoisonOnPanic;
use super::wal_close_marker::CloseMarker;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::stats::Timer;
use crate::sync::Arc;

/// A log that is still needed.
#[derive(Clone)]
pub(crate) struct WalFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
}

/// Bytes of a log that is not known to fill fast, between two looks at the clock.
const FILL_RATE_CHECK_BYTES: u64 = 128 << 10;

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
    pub(super) fn create(options: &Options, directory: &Path, number: u64, room: usize) -> Result<WalFile> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let file = open_preallocated(room as u64, |room| fs.create_log(&path, room)).inspect_err(|_| {
            // On a full disk every write tries: nothing must pile up.
            let _ = fs.remove(&path);
        })?;
        Ok(WalFile { number, file })
    }

    /// Opens log `number`, which was closed and holds `length` bytes, to go on with: where the mark stands that it was
    /// closed with, which the seal is of. None where the file system has no way to.
    pub(super) fn reopen(
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
pub(super) struct WalWriter {
    pub(super) wal: WalFile,
    pub(super) record_writer: RecordWriter,
    /// Up to here the log has room that is ready, and nobody looks how fast it fills.
    pub(super) preallocated_to: u64,
    /// When somebody looked last, unless it is known that the log fills fast.
    pub(super) fill_rate_checked_at: Option<Duration>,
    pub(super) memtable: Arc<Memtable>,
    /// The memtable is full when it takes so many bytes. Since it was begun: the log has room for no more.
    pub(super) memtable_full_at: usize,
    /// When the memtable was begun.
    pub(super) memtable_created_at: Duration,
    /// The last number given out.
    pub(super) last_sequence: SequenceNumber,
    /// Bytes of keys and values that were put into the memtable, as writers pay for them.
    pub(super) user_bytes: u64,
    /// True after a store that failed for want of space: the log ends here, and the next write begins a new one.
    pub(super) is_torn: bool,
    /// True if an earlier run began the log.
    pub(super) is_reused: bool,
    /// Of the log, if it is still closed.
    pub(super) close_marker: Option<Arc<CloseMarker>>,
    /// The record under construction; kept for its memory.
    pub(super) record_buffer: Vec<u8>,
}

impl WalWriter {
    /// Stores a record at the end of the log. On an error the end has not moved.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<()> {
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
    pub(super) fn invalidate_close_marker(&mut self) -> Result<()> {
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
    pub(super) fn closed_len(&self) -> Option<u64> {
        self.has_close_marker().then(|| self.record_writer.end_offset() + CLOSE_MARKER_LEN as u64)
    }
}

impl DbInner {
    /// Has the log make room that is ready for a record of `len` bytes. [`WalWriter::append`] does not need it, and would
    /// meet the same errors; so it is known how long it took.
    #[inline]
    pub(super) fn preallocate_wal(&self, tail: &mut WalWriter, len: usize) -> Result<()> {
        // The next block, and a header for each begun block of it: never less than what the record takes.
        let end = tail.record_writer.end_offset() + (len + len / 1024) as u64 + LOG_BLOCK_SIZE as u64;
        if end <= tail.preallocated_to {
            return Ok(());
        }
        let ready = self.timed_stall(Timer::WalPreallocation, None, || tail.wal.file.preallocate(end))?;
        tail.preallocated_to = if ready == u64::MAX { self.check_fill_rate(tail) } else { ready };
        Ok(())
    }

    /// Finds out whether a log that was begun at leisure fills fast by now. Says where to look next.
    fn check_fill_rate(&self, tail: &mut WalWriter) -> u64 {
        let here = tail.record_writer.end_offset();
        if tail.wal.file.capacity().saturating_sub(here) < FILL_RATE_CHECK_BYTES {
            return u64::MAX;
        }
        let now = self.options.env.clock.monotonic();
        if let Some(looked) = tail.fill_rate_checked_at.replace(now)
            && self.memtable_sizer.is_fast_fill_rate(FILL_RATE_CHECK_BYTES, now.saturating_sub(looked))
        {
            tail.wal.file.expect_fast_fill(here);
            return here;
        }
        here + FILL_RATE_CHECK_BYTES
    }

    /// Returns when write number `write` is durable.
    pub(super) fn sync_wal_to(&self, write: u64) -> Result<()> {
        let flush = || {
            let _guard = PoisonOnPanic::new(self, |_| ());
            let synced = self.sync_wal();
            let synced = if mutant!(FsyncErrorIgnored) { synced.or(Ok(write)) } else { synced };
            // What the device has is unknown for good, so nobody may believe a later success; nor that an error for
            // want of space had no effect.
            synced.map_err(|error| {
                self.set_background_error(&error);
                Error::BackgroundError(Arc::new(error))
            })
        };
        let wait = || self.wal_sync.wait_until_durable(write, || self.background_error.check(), flush);
        self.timed_stall(Timer::SyncWait, None, wait)
    }

    /// Makes all that has been written durable, and says up to which write that is.
    pub(super) fn sync_wal(&self) -> Result<u64> {
        self.wal_sync.sync_logs(|| Ok(self.options.env.fs.sync_dir(&self.directory)?))
    }

    /// Removes the log of a database that could not be opened, if nothing is in it.
    pub(super) fn remove_empty_new_log(&self) {
        if let Some(tail) = self.commit.lock().take().filter(|tail| tail.record_writer.end_offset() == 0) {
            // A leftover is removed at the next open.
            let _ = self.options.env.fs.remove(&self.file_path(FileName::Log(tail.wal.number)));
        }
    }
}

/// The answer to a write after closing has begun.
pub(super) fn closed_error() -> Error {
    Error::NotSupported("a write to a database that is closed, or open for reading only".into())
}
