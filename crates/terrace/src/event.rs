//! Events of a database: flushes, compactions, removed tables, stalls, refused writes.
//!
//! ```text
//!   background jobs, stalled writes --Event--> info log       one line
//!                                          \-> EventListener  the fields
//! ```
//!
//! The line of an event in the info log is its `Display` text, so that both tell the same.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::table_info::TableInfo;

/// Receiver of the events of a database, see [`Options::listener`](crate::Options::listener).
///
/// Any thread may call it, sometimes while it holds locks of the database. An implementation must
/// not call the database, and it should return within microseconds: a background job or a writer
/// waits for it. A panic of the listener is treated like that of a
/// [`Logger`](crate::Logger): the database then refuses writes.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use terrace::{Db, Env, Event, EventListener, Options};
///
/// #[derive(Default)]
/// struct FlushedBytes(Mutex<u64>);
///
/// impl EventListener for FlushedBytes {
///     fn on_event(&self, event: &Event) {
///         if let Event::FlushEnd { tables, .. } = event {
///             *self.0.lock().unwrap() += tables.iter().map(|table| table.bytes).sum::<u64>();
///         }
///     }
/// }
///
/// let flushed = Arc::new(FlushedBytes::default());
/// let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// let db = Db::open("cities", &options.listener(Arc::clone(&flushed) as _))?;
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// db.flush()?;
/// db.close()?; // waits for the background jobs, which report their events last
/// assert!(*flushed.0.lock().unwrap() > 0);
/// # Ok::<(), terrace::Error>(())
/// ```
pub trait EventListener: Send + Sync {
    /// Receives an event that has just happened.
    fn on_event(&self, event: &Event);

    /// Receives a change of the set of tables that has just been installed. The changes come in
    /// their order. The default implementation ignores them.
    fn on_table_changes(&self, changes: &TableChanges) {
        let _ = changes;
    }
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// Event of a database. The `Display` text is the line of the info log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A job begins to write a memtable to a table.
    FlushBegin {
        /// File number of the first table.
        table: u64,
        /// Number of the log with the same writes.
        log: u64,
        /// Bytes of the memtable.
        memtable_bytes: usize,
    },
    /// The tables of a memtable were installed: its writes are durable.
    FlushEnd {
        /// File number of the first table, as in `FlushBegin`.
        table: u64,
        /// Number of the log with the same writes, which is removed now.
        log: u64,
        /// Tables in the order of their keys; none if the memtable was empty. A flush has several
        /// if the writes have several ascending sequences of keys.
        tables: Vec<FlushedTable>,
        /// Number of puts and deletions since the last flush.
        entries: u64,
        /// Bytes of the memtable.
        memtable_bytes: usize,
        /// Time from the begin of the flush to the installation.
        time: Duration,
    },
    /// A compaction begins.
    CompactionBegin(CompactionInputs),
    /// The output tables of a compaction were installed.
    CompactionEnd {
        /// Inputs of the compaction.
        inputs: CompactionInputs,
        /// File numbers and sizes in bytes of the output tables.
        tables: Vec<(u64, u64)>,
        /// Number of entries that the compaction read.
        entries_read: u64,
        /// Number of entries that the compaction wrote.
        entries_written: u64,
        /// Time from the begin of the compaction to the installation.
        time: Duration,
    },
    /// A compaction moved tables to its output level without rewriting them.
    TablesMoved {
        /// Inputs of the compaction.
        inputs: CompactionInputs,
        /// File numbers of the tables.
        tables: Vec<u64>,
    },
    /// A table that no reader needs any more was removed.
    TableDeleted {
        /// File number of the table.
        table: u64,
    },
    /// A write waited for ten milliseconds or more.
    WriteStall {
        /// Name of the cause, as in the property `terrace.stats`.
        cause: &'static str,
        /// Time of the wait.
        time: Duration,
        /// State of the database at the begin of the wait.
        state: StallState,
    },
    /// The delay of writes began, or ended.
    WriteDelay {
        /// Delay in nanoseconds for each KiB written; 0 at the end of the delay.
        nanos_per_kib: u64,
        /// Number of flushes on level 0. A flush may have several tables.
        level_0_runs: usize,
        /// Expected time of the compactions that are needed now.
        remaining_time: Duration,
        /// Bytes that may arrive before writers have to wait for a compaction.
        headroom_bytes: u64,
    },
    /// The compactions after a load have ended: all levels have at most their target sizes.
    Settled,
    /// A flush or a compaction failed. A retry may succeed, for example when there is disk space.
    BackgroundRetry {
        /// Cause of the failure.
        error: Error,
    },
    /// The database refuses writes until it is opened again. Reads continue.
    WritesRefused {
        /// First error after which the content of the disk is unknown.
        cause: Error,
    },
}

/// Change of the set of tables.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableChanges {
    /// Cause of the change.
    pub cause: TableChangeCause,
    /// Added tables with their levels. Their reads are 0. A moved table is added and removed.
    pub added: Vec<(usize, TableInfo)>,
    /// File numbers of the removed tables with their levels.
    pub removed: Vec<(usize, u64)>,
}

/// Cause of a change of the set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableChangeCause {
    /// Flush of a memtable.
    Flush,
    /// Compaction.
    Compaction,
    /// Move of tables to a deeper level.
    Move,
    /// Deletion of a range of keys.
    DeleteRange,
    /// Installation of finished tables.
    Ingest,
}

/// Table of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushedTable {
    /// File number.
    pub number: u64,
    /// Level into which it was installed.
    pub level: usize,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Inputs of a compaction.
#[derive(Debug, Clone)]
pub struct CompactionInputs {
    /// Reason for the compaction.
    pub reason: CompactionReason,
    /// File numbers of the input tables by level, from the start level to the output level.
    pub tables: Vec<(usize, Vec<u64>)>,
    /// Level of the output tables.
    pub output_level: usize,
    /// Bytes of the input tables.
    pub bytes: u64,
}

/// Reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionReason {
    /// A level is over its target size.
    LevelSize,
    /// The database needs one more level for its size, or a sorted run moves down.
    AddLevel,
    /// The sorted runs of a load are large enough to be compacted into the bottom level.
    SortedRuns,
    /// Many gets probed a table without success.
    ReadTriggered,
    /// Tombstones and the entries that they hide take space.
    Tombstones,
    /// A caller requested the compaction. The number identifies the request.
    Manual(u64),
}

/// State of a database during a write stall.
#[derive(Debug, Clone, Copy)]
pub struct StallState {
    /// Number of memtables that wait for their flush.
    pub immutable_memtables: usize,
    /// Number of sorted runs on level 0. All tables of one flush are one run.
    pub level_0_runs: usize,
    /// Input level of the running compaction, its input bytes, and its time so far.
    pub running_compaction: Option<(usize, u64, Duration)>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::FlushBegin { table, log, memtable_bytes } => {
                write!(f, "Flushing log #{log} to table #{table} bytes_in={memtable_bytes}")
            }
            Event::FlushEnd { table, log, tables, entries, memtable_bytes, time } => {
                let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
                let level = tables.iter().map(|table| table.level).min().unwrap_or(0);
                write!(
                    f,
                    "Level-0 table #{table}: {bytes} bytes OK level={level} files_out={} log={log} \
                     entries={entries} bytes_in={memtable_bytes} bytes_out={bytes} us={}",
                    tables.len(),
                    time.as_micros()
                )
            }
            Event::CompactionBegin(inputs) => write!(f, "Compacting {inputs} bytes_in={}", inputs.bytes),
            Event::CompactionEnd { inputs, tables, entries_read, entries_written, time } => {
                let bytes: u64 = tables.iter().map(|(_, bytes)| bytes).sum();
                let CompactionInputs { output_level, bytes: bytes_read, .. } = inputs;
                write!(
                    f,
                    "Compacted {inputs} => {bytes} bytes into={output_level} files_out={} \
                     entries_in={entries_read} entries_out={entries_written} bytes_in={bytes_read} \
                     bytes_out={bytes} us={}",
                    tables.len(),
                    time.as_micros()
                )
            }
            Event::TablesMoved { inputs, tables } => {
                write!(f, "Moved {inputs} into={} tables={tables:?}", inputs.output_level)
            }
            Event::TableDeleted { table } => write!(f, "Delete table #{table}"),
            Event::WriteStall { cause, time, state } => {
                write!(f, "Write stall: cause={cause} us={} {state}", time.as_micros())
            }
            Event::WriteDelay { nanos_per_kib, level_0_runs, remaining_time, headroom_bytes } => {
                let event = if *nanos_per_kib > 0 { "Write delay" } else { "Write delay ended" };
                let micros = remaining_time.as_micros();
                write!(
                    f,
                    "{event}: ns_per_kib={nanos_per_kib} level_0={level_0_runs} remaining_us={micros} \
                     headroom_bytes={headroom_bytes}"
                )
            }
            Event::Settled => f.write_str("Settled: the compactions after a load have ended"),
            Event::BackgroundRetry { error } => write!(f, "Background error, will be retried: {error}"),
            Event::WritesRefused { cause } => write!(f, "Background error, writes are disabled: {cause}"),
        }
    }
}

/// Text of the info log: `files=4@0+0@1+23@2 reason=LevelSize`.
impl fmt::Display for CompactionInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (level, tables)) in self.tables.iter().enumerate() {
            write!(f, "{}{}@{level}", if i == 0 { "files=" } else { "+" }, tables.len())?;
        }
        write!(f, " reason={:?}", self.reason)
    }
}

impl fmt::Display for StallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "immutable_memtables={} level_0={}", self.immutable_memtables, self.level_0_runs)?;
        match self.running_compaction {
            Some((level, bytes, time)) => {
                let micros = time.as_micros();
                write!(f, " compaction_level={level} compaction_bytes={bytes} compaction_us={micros}")
            }
            None => f.write_str(" compaction=none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(running_compaction: Option<(usize, u64, Duration)>, expected: &str) {
        let state = StallState { immutable_memtables: 2, level_0_runs: 7, running_compaction };
        assert_eq!(state.to_string(), expected);
    }

    #[test]
    fn displays_stall_state() {
        check(None, "immutable_memtables=2 level_0=7 compaction=none");
        check(
            Some((0, 1 << 20, Duration::from_millis(3))),
            "immutable_memtables=2 level_0=7 compaction_level=0 compaction_bytes=1048576 compaction_us=3000",
        );
    }

    #[test]
    fn displays_compaction() {
        let inputs = CompactionInputs {
            reason: CompactionReason::LevelSize,
            tables: vec![(0, vec![9, 8, 7, 6]), (1, vec![]), (2, vec![3])],
            output_level: 2,
            bytes: 500,
        };
        let event = Event::CompactionEnd {
            inputs,
            tables: vec![(10, 200), (11, 100)],
            entries_read: 50,
            entries_written: 30,
            time: Duration::from_micros(1234),
        };
        assert_eq!(
            event.to_string(),
            "Compacted files=4@0+0@1+1@2 reason=LevelSize => 300 bytes into=2 files_out=2 entries_in=50 \
             entries_out=30 bytes_in=500 bytes_out=300 us=1234"
        );
    }
}
