//! The end of the log, where writes go, and how syncing writers share one flush of the device.
//!
//! ```text
//!   log 7 (frozen, not synced)   log 9 (current)
//!   [ r r r r r r r 0 0 0 ]      [ r r r r | room, zeros ... ]
//!                                          ^ framer
//! ```
//!
//! A sync covers the older logs first: no acknowledged write may lie behind one that a power cut can still take.

use std::path::Path;

use terrace_env::LogFile;
use terrace_format::filename::FileName;
use terrace_format::key::Sequence;
use terrace_format::log::Framer;
use terrace_mutants::mutant;

use super::Engine;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::sync::{Arc, Condvar, Mutex, Ordering};

/// A log that is still needed.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) number: u64,
    pub(super) file: Arc<dyn LogFile>,
}

/// Room that even a nearly full disk has for a log; beyond it the log grows with each record.
const LEAST_ROOM: u64 = 64 << 10;

impl Log {
    /// Creates log `number` with room for a memtable. On an error there is no file.
    pub(super) fn create(options: &Options, directory: &Path, number: u64) -> Result<Log> {
        let (fs, path) = (&options.env.fs, directory.join(FileName::Log(number).to_string()));
        let room = options.write_buffer_size as u64;
        let created = match fs.create_log(&path, room) {
            Err(error) if error.is_no_space() => fs.create_log(&path, LEAST_ROOM),
            created => created,
        };
        let file = created.inspect_err(|_| {
            // On a full disk every write tries: nothing must pile up.
            let _ = fs.remove(&path);
        })?;
        Ok(Log { number, file: Arc::from(file) })
    }
}

/// Where the next write goes.
pub(super) struct LogTail {
    pub(super) log: Log,
    pub(super) framer: Framer,
    pub(super) memtable: Arc<Memtable>,
    /// The last number given out.
    pub(super) sequence: Sequence,
    /// True after a store that failed for want of space: the log ends here, and the next write begins a new one.
    pub(super) broken: bool,
    /// True if an earlier run began the log.
    pub(super) resumed: bool,
    /// The record under construction; kept for its memory.
    pub(super) record: Vec<u8>,
}

impl LogTail {
    /// Stores a record at the end of the log. On an error the end has not moved.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<()> {
        let mut framer = self.framer.clone();
        // In a log that is filled in any order a record that fits a block is never split: a reader of a torn log then
        // loses it whole or not at all. One that grows is torn at its end only, and is LevelDB's byte for byte.
        let whole = self.log.file.capacity() > 0;
        for fragment in framer.frame(record, whole) {
            let stored = self.log.file.store(fragment.offset, &fragment.header, fragment.payload);
            if mutant!(NoSpaceTearsLog) {
                self.framer =
                    Framer::at(fragment.offset + (fragment.header.len() + fragment.payload.len()) as u64);
            }
            stored?;
        }
        self.framer = framer;
        Ok(())
    }
}

/// Lets one syncing writer at a time flush the device, for all that wait.
#[derive(Default)]
pub(super) struct Syncer {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Writes up to this number are durable.
    durable: u64,
    /// True while somebody flushes.
    busy: bool,
}

impl Engine {
    /// Returns when write number `write` is durable.
    pub(super) fn sync_to(&self, write: u64) -> Result<()> {
        if mutant!(SyncNotAwaited) {
            return Ok(());
        }
        let mut state = self.syncer.state.lock();
        while state.durable < write {
            self.check_refusal()?;
            if state.busy {
                self.syncer.changed.wait(&mut state);
                continue;
            }
            state.busy = true;
            drop(state);
            let synced = self.sync_logs();
            let synced = if mutant!(SyncErrorIgnored) { synced.or(Ok(write)) } else { synced };
            if let Err(error) = &synced {
                // What the device has is unknown for good, so nobody may believe a later success.
                self.refuse(error);
            }
            state = self.syncer.state.lock();
            state.busy = false;
            self.syncer.changed.notify_all();
            state.durable = state.durable.max(synced?);
        }
        Ok(())
    }

    /// Removes the log of a database that could not be opened, if nothing is in it.
    pub(super) fn give_up_new_log(&self) {
        if let Some(tail) = self.commit.lock().take().filter(|tail| tail.framer.offset() == 0) {
            // A leftover is removed at the next open.
            let _ = self.options.env.fs.remove(&self.path_of(FileName::Log(tail.log.number)));
        }
    }

    /// Makes all that has been written durable, and says up to which write that is.
    pub(super) fn sync_logs(&self) -> Result<u64> {
        // First the number, then the logs: a log that is switched to in between only adds to the work.
        let writes = self.writes.load(Ordering::Acquire);
        let logs = self.logs.lock().clone();
        for log in &logs {
            log.file.sync()?;
        }
        let last = logs.last().map_or(0, |log| log.number);
        if self.named.load(Ordering::Relaxed) < last && !mutant!(LogNameNotSynced) {
            self.options.env.fs.sync_dir(&self.directory)?;
            self.named.fetch_max(last, Ordering::Relaxed);
        }
        Ok(writes)
    }
}

/// The answer to a write after closing has begun.
pub(super) fn closed() -> Error {
    Error::NotSupported("a write to a database that is closed, or open for reading only".into())
}
