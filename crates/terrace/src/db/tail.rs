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
use terrace_format::key::Sequence;
use terrace_format::log::{BLOCK_SIZE, Framer};
use terrace_sync::mutant;

use super::Engine;
use super::replay::MARK;
use super::seal::Seal;
use super::unwinding::Unwinding;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Span;
use crate::options::Options;
use crate::sync::Arc;

/// A log that is still needed.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
}

/// Bytes of a log that is not known to fill fast, between two looks at the clock.
const LOOK: u64 = 128 << 10;

/// Room that even a nearly full disk has for a log; beyond it the log grows with each record.
const LEAST_ROOM: u64 = 64 << 10;

/// The file that `open` gives for `room` bytes, or for fewer on a nearly full disk.
fn with_room(
    room: u64,
    open: impl Fn(u64) -> terrace_env::Result<Box<dyn LogFile>>,
) -> terrace_env::Result<Arc<dyn LogFile>> {
    let opened = match open(room) {
        Err(error) if error.is_no_space() => open(LEAST_ROOM),
        opened => opened,
    };
    opened.map(Arc::from)
}

impl Log {
    /// Creates log `number` with `room` for a memtable, in bytes. On an error there is no file.
    pub(super) fn create(options: &Options, directory: &Path, number: u64, room: usize) -> Result<Log> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let file = with_room(room as u64, |room| fs.create_log(&path, room)).inspect_err(|_| {
            // On a full disk every write tries: nothing must pile up.
            let _ = fs.remove(&path);
        })?;
        Ok(Log { number, file })
    }

    /// Opens log `number`, which was closed and holds `length` bytes, to go on with: where the mark stands that it was
    /// closed with, which the seal is of. None where the file system has no way to.
    pub(super) fn resume(
        options: &Options,
        directory: &Path,
        number: u64,
        length: u64,
    ) -> Result<Option<(Log, Framer, Arc<Seal>)>> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let room = length.saturating_add(options.memtable_size() as u64);
        let file = match with_room(room, |room| fs.reopen_log(&path, room)) {
            Err(error) if error.is_unsupported() => return Ok(None),
            file => file?,
        };
        let end = length.saturating_sub(MARK as u64);
        let seal = if end < length { Seal::new(&file, end) } else { Seal::default() };
        Ok(Some((Log { number, file }, Framer::at(end), Arc::new(seal))))
    }
}

/// Where the next write goes.
pub(super) struct LogTail {
    pub(super) log: Log,
    pub(super) framer: Framer,
    /// Up to here the log has room that is ready, and nobody looks how fast it fills.
    pub(super) ready: u64,
    /// When somebody looked last, unless it is known that the log fills fast.
    pub(super) looked: Option<Duration>,
    pub(super) memtable: Arc<Memtable>,
    /// The memtable is full when it takes so many bytes. Since it was begun: the log has room for no more.
    pub(super) full: usize,
    /// When the memtable was begun.
    pub(super) begun: Duration,
    /// The last number given out.
    pub(super) sequence: Sequence,
    /// Bytes of keys and values that were put into the memtable, as writers pay for them.
    pub(super) put: u64,
    /// True after a store that failed for want of space: the log ends here, and the next write begins a new one.
    pub(super) broken: bool,
    /// True if an earlier run began the log.
    pub(super) resumed: bool,
    /// Of the log, if it is still closed.
    pub(super) seal: Option<Arc<Seal>>,
    /// The record under construction; kept for its memory.
    pub(super) record: Vec<u8>,
}

impl LogTail {
    /// Stores a record at the end of the log. On an error the end has not moved.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<()> {
        self.wipe_mark()?;
        let mut framer = self.framer.clone();
        // In a log that is filled in any order a record that fits a block is never split: a reader of a torn log then
        // loses it whole or not at all. One that grows is torn at its end only, and is LevelDB's byte for byte.
        let whole = self.log.file.capacity() > 0;
        for fragment in framer.frame(record, whole) {
            let stored = self.log.file.store(fragment.offset, &fragment.header, fragment.payload);
            if mutant!(TornRecordLeftAfterNoSpace) {
                self.framer =
                    Framer::at(fragment.offset + (fragment.header.len() + fragment.payload.len()) as u64);
            }
            stored?;
        }
        self.framer = framer;
        Ok(())
    }

    /// Wipes the mark of a closed log, before anything is written to it or follows it.
    pub(super) fn wipe_mark(&mut self) -> Result<()> {
        if let Some(seal) = &self.seal {
            seal.wipe()?;
            self.seal = None;
        }
        Ok(())
    }

    /// True if the log is as it was closed.
    fn is_sealed(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.stands())
    }

    /// The length of the log, should it be closed now.
    pub(super) fn closed_len(&self) -> Option<u64> {
        self.is_sealed().then(|| self.framer.offset() + MARK as u64)
    }
}

impl Engine {
    /// Has the log make room that is ready for a record of `len` bytes. [`LogTail::append`] does not need it, and would
    /// meet the same errors; so it is known how long it took.
    #[inline]
    pub(super) fn make_log_room(&self, tail: &mut LogTail, len: usize) -> Result<()> {
        // The next block, and a header for each begun block of it: never less than what the record takes.
        let end = tail.framer.offset() + (len + len / 1024) as u64 + BLOCK_SIZE as u64;
        if end <= tail.ready {
            return Ok(());
        }
        let ready = self.wait_timed(Span::Room, None, || tail.log.file.prepare(end))?;
        tail.ready = if ready == u64::MAX { self.look_for_hurry(tail) } else { ready };
        Ok(())
    }

    /// Finds out whether a log that was begun at leisure fills fast by now. Says where to look next.
    fn look_for_hurry(&self, tail: &mut LogTail) -> u64 {
        let here = tail.framer.offset();
        if tail.log.file.capacity().saturating_sub(here) < LOOK {
            return u64::MAX;
        }
        let now = self.options.env.clock.monotonic();
        if let Some(looked) = tail.looked.replace(now)
            && self.buffer.fills_fast_at(LOOK, now.saturating_sub(looked))
        {
            tail.log.file.hurry(here);
            return here;
        }
        here + LOOK
    }

    /// Returns when write number `write` is durable.
    pub(super) fn sync_to(&self, write: u64) -> Result<()> {
        let flush = || {
            let _guard = Unwinding::new(self, |_| ());
            let synced = self.sync_logs();
            let synced = if mutant!(FsyncErrorIgnored) { synced.or(Ok(write)) } else { synced };
            // What the device has is unknown for good, so nobody may believe a later success; nor that an error for
            // want of space had no effect.
            synced.map_err(|error| {
                self.refuse(&error);
                Error::Refused(Arc::new(error))
            })
        };
        let wait = || self.durability.wait_for(write, || self.refusal.check(), flush);
        self.wait_timed(Span::ForDevice, None, wait)
    }

    /// Makes all that has been written durable, and says up to which write that is.
    pub(super) fn sync_logs(&self) -> Result<u64> {
        self.durability.sync_logs(|| Ok(self.options.env.fs.sync_dir(&self.directory)?))
    }

    /// Removes the log of a database that could not be opened, if nothing is in it.
    pub(super) fn give_up_new_log(&self) {
        if let Some(tail) = self.commit.lock().take().filter(|tail| tail.framer.offset() == 0) {
            // A leftover is removed at the next open.
            let _ = self.options.env.fs.remove(&self.path_of(FileName::Log(tail.log.number)));
        }
    }
}

/// The answer to a write after closing has begun.
pub(super) fn closed() -> Error {
    Error::NotSupported("a write to a database that is closed, or open for reading only".into())
}
