//! Capture: the files of a database at one moment, for a copy of it.
//!
//! ```text
//!   lock commit, then state:   last sequence number, end of the WAL, logs, version   no file call
//!   without locks:             open the logs;   a flush has removed one -> capture again
//! ```
//!
//! The lock `commit` makes the parts consistent: each record before the captured end of the WAL is
//! stored completely and has a sequence number up to the captured one, and all later records have
//! later ones. No log and no table leaves the version set while `state` is locked. So the tables
//! and the captured parts of the logs are the state at the captured sequence number.
//!
//! The captured version keeps its tables. A log has no such reference, so it is opened: an open
//! file stays readable after its removal. The same holds for the tables of a follower.

use std::collections::HashMap;

use terrace_env::RandomAccessFile;
use terrace_format::filename::FileName;
use terrace_sync::mutant;

use super::components::database_capture::{CapturedLog, DatabaseCapture};
use super::inner::DbInner;
use crate::error::{Error, Result};
use crate::sync::{Arc, Ordering};
use crate::version::Version;

/// Number and length of a log.
type LogLength = (u64, u64);

impl DbInner {
    /// Captures the current state. Writers wait for no file call of this method.
    pub(super) fn capture(&self) -> Result<DatabaseCapture> {
        if self.is_read_only {
            return Ok(self.capture_read_only());
        }
        let mut missing: Option<(u64, Error)> = None;
        loop {
            let (mut capture, logs) = self.capture_under_locks()?;
            match missing {
                // Not a flush has removed the log: the database still needs it.
                Some((number, error)) if logs.iter().any(|log| log.0 == number) => return Err(error),
                _ => {}
            }
            match self.open_captured_logs(&logs) {
                Ok(opened) => {
                    capture.logs = opened;
                    return Ok(capture);
                }
                Err((number, Error::Io(error))) if error.is_not_found() => {
                    missing = Some((number, Error::Io(error)));
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    fn capture_under_locks(&self) -> Result<(DatabaseCapture, Vec<LogLength>)> {
        let commit = self.commit.lock();
        // After an unknown error, the WAL may hold writes that readers never see.
        self.background_error.check()?;
        let writer = commit.as_ref().ok_or_else(|| self.closed_error())?;
        let current = (writer.wal.number, writer.record_writer.end_offset());
        let state = self.state.lock();
        let older = state.immutable_memtables.iter().map(|memtable| (memtable.log_number, memtable.log_len));
        let logs = older.chain([current]).collect();
        let capture = DatabaseCapture {
            version_set: state.version_set.clone(),
            held_tables: HashMap::new(),
            last_sequence: writer.last_sequence,
            next_file_number: self.next_file_number.load(Ordering::Relaxed),
            logs: Vec::new(),
            memtables: Vec::new(),
        };
        Ok((capture, logs))
    }

    /// Opens the logs. An error comes with the number of its log.
    fn open_captured_logs(&self, logs: &[LogLength]) -> std::result::Result<Vec<CapturedLog>, (u64, Error)> {
        logs.iter()
            .map(|&(number, len)| self.open_captured_log(number, len).map_err(|error| (number, error)))
            .collect()
    }

    fn open_captured_log(&self, number: u64, len: u64) -> Result<CapturedLog> {
        let len = if mutant!(CheckpointCutTooLate) { u64::MAX } else { len };
        let file = self.options.env.fs.open_sequential(&self.file_path(FileName::Log(number)))?;
        Ok(CapturedLog { number, len, file })
    }

    /// Captures the state that the replay of the logs has found. Only a follower changes it.
    fn capture_read_only(&self) -> DatabaseCapture {
        // A follower installs both under this lock.
        let state = self.state.lock();
        let mut version_set = state.version_set.clone();
        let read_state = Arc::clone(&self.read_state.current());
        drop(state);
        if let Some(sequence) = read_state.followed_sequence {
            // That of the tables alone would hide the memtables.
            version_set.last_sequence = sequence;
        }
        let newest_first = [&read_state.memtable].into_iter().chain(&read_state.immutable_memtables);
        let mut memtables: Vec<_> = newest_first.map(Arc::clone).collect();
        memtables.reverse();
        DatabaseCapture {
            last_sequence: version_set.last_sequence,
            held_tables: self.held_tables(&version_set.version),
            version_set,
            next_file_number: 0,
            logs: Vec::new(),
            memtables,
        }
    }

    /// Returns the open files of the tables of a follower, whose writer may remove the names.
    fn held_tables(&self, version: &Version) -> HashMap<u64, Arc<dyn RandomAccessFile>> {
        if self.follow_schedule.is_none() {
            return HashMap::new();
        }
        let files = version.levels.iter().flatten();
        files.filter_map(|file| Some((file.number, self.table_cache.open_file(file.table_ref())?))).collect()
    }
}
