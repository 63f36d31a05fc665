//! Replay of the logs at open, into memtables.
//!
//! There are two sets of rules (`docs/design/0001-log-replay.md`):
//!
//! - *Terrace's rules* hold for logs beside a MANIFEST that Terrace wrote. Sequence numbers have no
//!   gap within a log and between a log and the next. The replay ends at the first gap, whatever
//!   its cause, because later records may depend on lost ones. Two gaps are accepted: in a log that
//!   was closed, because no crash has caused it, and between a closed log and the next one, which
//!   another program may have added.
//! - *LevelDB's rules* hold for all other logs: the replay skips damaged records.
//!
//! Damage is reported to the info log, or as an error with `paranoid_checks`. An incomplete record
//! at the end of a log is not damage: there the process was killed. A read error is never taken for
//! the end of a log.

use std::io;
use std::path::Path;

use terrace_env::{AccessMode, Env};
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalComparator, SequenceNumber};
use terrace_format::log::{LogEnd, LogItem, LogReader, LogSource};
use terrace_format::{DecodeError, DecodeErrorKind};
use terrace_sync::mutant;

use super::parallel_insert::ParallelInserter;
use crate::db::components::sorted_chunk;
use crate::db::components::wal_close_marker::CLOSE_MARKER_LEN;
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::info_log::Logger;
use crate::memtable::Memtable;
use crate::sync::Arc;

/// Arguments of a replay.
pub(super) struct LogReplay<'a> {
    pub(super) env: &'a Env,
    pub(super) directory: &'a Path,
    pub(super) comparator: &'a InternalComparator,
    pub(super) logger: &'a dyn Logger,
    pub(super) paranoid_checks: bool,
    /// True if Terrace's rules apply.
    pub(super) is_point_in_time: bool,
    /// Approximate size in bytes at which a memtable is passed to `on_full_memtable`.
    pub(super) memtable_size: usize,
    pub(super) inserter: ParallelInserter,
    /// Last sequence number in the tables.
    pub(super) last_sequence: SequenceNumber,
    /// Flushes a full memtable, or keeps it.
    pub(super) on_full_memtable: &'a mut dyn FnMut(Arc<Memtable>) -> Result<()>,
}

/// Result of a replay, also in progress.
pub(super) struct ReplayOutcome {
    pub(super) last_sequence: SequenceNumber,
    /// Last sequence number before the last log.
    pub(super) sequence_before_last_log: SequenceNumber,
    /// Sequence number after the last record, or None before the first record.
    next_sequence: Option<SequenceNumber>,
    /// True if the last log so far was closed: it ends with an empty batch.
    pub(super) is_last_log_closed: bool,
    /// The last memtable, which may be empty. It is incomplete until the inserter has finished.
    pub(super) memtable: Arc<Memtable>,
    /// Approximate size of the memtable in bytes, with the records in the inserter. 0 if it is
    /// empty.
    memtable_bytes: usize,
    /// Greater than all sequence numbers so far.
    first_unseen_sequence: SequenceNumber,
    /// Logs with skipped complete records, which are archived.
    pub(super) skipped_logs: Vec<u64>,
    /// Length of the last log, if it was closed or is empty, and all of its records are in
    /// `memtable`.
    ///
    /// Only then the log is known to be durable. Otherwise a sync may have failed. The operating
    /// system may treat pages that it could not write as clean: readers see them, but no later sync
    /// writes them.
    pub(super) reusable_len: Option<u64>,
}

impl ReplayOutcome {
    /// Checks that `batch`, at `offset`, has the next sequence number. Before the first record,
    /// only a gap is an error: the MANIFEST may already contain sequence numbers of its oldest log.
    fn sequence_error(&self, offset: u64, batch: &BatchRef<'_>) -> Option<DecodeError> {
        let expected = self.next_sequence.unwrap_or(self.last_sequence + 1);
        let found = format!("sequence number {}", batch.sequence());
        let wrong = batch.sequence() > expected || self.is_repeated(batch);
        wrong.then(|| {
            DecodeError::new(DecodeErrorKind::OutOfOrder, offset, found, format!("{expected}, the next"))
        })
    }

    /// Returns true if `batch` has sequence numbers of earlier records.
    fn is_repeated(&self, batch: &BatchRef<'_>) -> bool {
        self.next_sequence.is_some_and(|next| batch.sequence() < next)
    }
}

/// Decision whether the replay continues with the next log.
enum ReplayFlow {
    Continue,
    Stop,
}

/// Progress of the replay of one log.
struct LogState {
    /// True while a gap in the sequence numbers ends the replay.
    is_strict: bool,
    /// True while the memtable contains exactly the records of this log.
    matches_memtable: bool,
    /// True if the first record may have any sequence number.
    may_start_anywhere: bool,
    /// Incomplete record, which is damage only if another record follows.
    truncated: Option<DecodeError>,
}

impl LogReplay<'_> {
    /// Replays `logs`, in ascending order.
    pub(super) fn run(mut self, logs: &[u64]) -> Result<ReplayOutcome> {
        let mut outcome = ReplayOutcome {
            last_sequence: self.last_sequence,
            sequence_before_last_log: self.last_sequence,
            next_sequence: None,
            is_last_log_closed: false,
            memtable: Memtable::new(self.comparator.clone()),
            memtable_bytes: 0,
            first_unseen_sequence: 0,
            skipped_logs: Vec::new(),
            reusable_len: None,
        };
        let mut stopped = false;
        for &number in logs {
            if mutant!(ReplayContinuesAfterDamagedWal) && std::mem::take(&mut stopped) {
                self.is_point_in_time = false;
            }
            let path = self.directory.join(FileName::Log(number).to_string());
            if stopped {
                self.skip_log(&path, number, &mut outcome)?;
                continue;
            }
            stopped = matches!(self.replay_log(&path, number, &mut outcome)?, ReplayFlow::Stop);
        }
        self.inserter.finish_memtable(&outcome.memtable)?;
        Ok(outcome)
    }

    fn replay_log(&mut self, path: &Path, number: u64, outcome: &mut ReplayOutcome) -> Result<ReplayFlow> {
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        // Terrace adds no log after a closed log unless the MANIFEST makes that one obsolete.
        // Another program has added this log, which may start at any sequence number.
        let mut log = LogState {
            is_strict: self.is_point_in_time,
            matches_memtable: outcome.memtable_bytes == 0,
            may_start_anywhere: std::mem::take(&mut outcome.is_last_log_closed),
            truncated: None,
        };
        outcome.sequence_before_last_log = outcome.last_sequence;
        let mut is_first = true;
        while let Some(item) = read_record(&mut reader, path)? {
            if std::mem::take(&mut is_first) {
                self.logger.log(format_args!("Recovering log #{number}"));
            }
            let flow = match item {
                LogItem::Record { offset, data } => {
                    self.replay_record(path, offset, data, &mut log, outcome)?
                }
                LogItem::Corruption { error, .. } => {
                    log.matches_memtable = false;
                    outcome.is_last_log_closed = false;
                    match error.kind {
                        DecodeErrorKind::Truncated if log.is_strict => log.truncated = Some(error),
                        _ => self.report_corruption(path, &error)?,
                    }
                    ReplayFlow::Continue
                }
            };
            if matches!(flow, ReplayFlow::Stop) {
                return self.stop_at_gap(reader, path, number, outcome);
            }
        }
        let end = reader.log_end();
        let length = reader.bytes_read();
        self.finish_log(path, number, &end, length, log.matches_memtable, outcome)?;
        Ok(ReplayFlow::Continue)
    }

    /// Replays one record. Returns `Stop` at a gap that ends the replay.
    fn replay_record(
        &mut self,
        path: &Path,
        offset: u64,
        data: &[u8],
        log: &mut LogState,
        outcome: &mut ReplayOutcome,
    ) -> Result<ReplayFlow> {
        if let Some(error) = log.truncated.take() {
            self.report_corruption(path, &error)?;
        }
        let batch = match batch::validate(data) {
            Ok(batch) => batch,
            Err(error) => {
                log.matches_memtable = false;
                self.report_corruption(path, &error.offset_by(offset))?;
                return Ok(ReplayFlow::Continue);
            }
        };
        outcome.is_last_log_closed = batch.is_empty();
        let may_start_anywhere = std::mem::take(&mut log.may_start_anywhere);
        let error = outcome.sequence_error(offset, &batch);
        if let Some(error) = error.filter(|_| log.is_strict && !mutant!(ReplayContinuesAfterLostRecord)) {
            log.matches_memtable = false;
            self.report_corruption(path, &error)?;
            if outcome.is_repeated(&batch) {
                return Ok(ReplayFlow::Continue);
            }
            if !may_start_anywhere && !self.was_log_closed(path)? {
                return Ok(ReplayFlow::Stop);
            }
            log.is_strict = may_start_anywhere;
        }
        log.matches_memtable &= !self.apply_batch(&batch, outcome)?;
        Ok(ReplayFlow::Continue)
    }

    /// Checks the end of a log of `length` bytes and decides whether the log can be reused.
    fn finish_log(
        &self,
        path: &Path,
        number: u64,
        end: &LogEnd,
        length: u64,
        matches_memtable: bool,
        outcome: &mut ReplayOutcome,
    ) -> Result<()> {
        // False for a log with preallocated space or an incomplete record after the close marker.
        let is_closed = outcome.is_last_log_closed && length == end.offset;
        if self.is_point_in_time && !is_closed && length > 0 && self.ends_with_close_marker(path)? {
            // A flipped bit in a length makes a record seem incomplete and hides all later records.
            let found = "an incomplete record in a closed log";
            self.report_corruption(
                path,
                &DecodeError::new(DecodeErrorKind::Truncated, end.offset, found, "complete records"),
            )?;
        }
        if !end.is_clean {
            self.logger
                .log(format_args!("Log #{number} is truncated: incomplete record at offset {}", end.offset));
        }
        outcome.reusable_len = (matches_memtable && (is_closed || length == 0)).then_some(end.offset);
        if mutant!(TornWalReused) {
            outcome.reusable_len = matches_memtable.then_some(length);
        }
        Ok(())
    }

    /// Passes a batch to the inserter. Returns true if the memtable was full then, and handed over.
    fn apply_batch(&mut self, batch: &BatchRef<'_>, outcome: &mut ReplayOutcome) -> Result<bool> {
        let first = batch.sequence();
        let count = batch.len() as u64;
        if first >= outcome.first_unseen_sequence {
            self.inserter.add(&outcome.memtable, batch);
        } else {
            // A repeated sequence number replaces the earlier record, which must be inserted first.
            self.inserter.finish_memtable(&outcome.memtable)?;
            sorted_chunk::insert_batch(&outcome.memtable, batch);
        }
        outcome.first_unseen_sequence = outcome.first_unseen_sequence.max(first + count);
        outcome.next_sequence = Some(first + count);
        outcome.last_sequence = outcome.last_sequence.max((first + count).saturating_sub(1));
        outcome.memtable_bytes += if count > 0 { sorted_chunk::approx_memtable_bytes(batch) } else { 0 };
        let is_full = outcome.memtable_bytes > self.memtable_size;
        if is_full {
            self.inserter.finish_memtable(&outcome.memtable)?;
            outcome.memtable_bytes = 0;
            let next = Memtable::new(self.comparator.clone());
            (self.on_full_memtable)(std::mem::replace(&mut outcome.memtable, next))?;
        }
        Ok(is_full)
    }

    fn report_corruption(&self, path: &Path, error: &DecodeError) -> Result<()> {
        let error = Error::from_decode_error(path, error);
        if self.paranoid_checks {
            return Err(error);
        }
        self.logger.log(format_args!("Ignoring error {error}"));
        Ok(())
    }

    /// Ends the replay at a record after a gap in the sequence numbers.
    fn stop_at_gap(
        &self,
        mut reader: LogReader<FileReader>,
        path: &Path,
        number: u64,
        outcome: &mut ReplayOutcome,
    ) -> Result<ReplayFlow> {
        let records = 1 + count_records(&mut reader, path)?;
        self.logger.log(format_args!(
            "Skipping the last {records} records of log #{number}: they follow a gap in the sequence numbers"
        ));
        outcome.skipped_logs.push(number);
        outcome.reusable_len = None;
        Ok(ReplayFlow::Stop)
    }

    fn skip_log(&self, path: &Path, number: u64, outcome: &mut ReplayOutcome) -> Result<()> {
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        let records = count_records(&mut reader, path)?;
        self.logger.log(format_args!(
            "Skipping log #{number}: its {records} records follow a gap in the sequence numbers"
        ));
        if records > 0 {
            outcome.skipped_logs.push(number);
        }
        Ok(())
    }

    /// Returns true if the log was closed: its last record is the close marker.
    fn was_log_closed(&self, path: &Path) -> Result<bool> {
        if self.ends_with_close_marker(path)? {
            return Ok(true);
        }
        // Preallocated space may follow the marker.
        let reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        is_last_record_close_marker(reader).map_err(|error| file_error(path, error))
    }

    /// Returns true if the last bytes of the log are the close marker, whatever precedes them.
    fn ends_with_close_marker(&self, path: &Path) -> Result<bool> {
        let file = self.env.fs.open_random_access(path, AccessMode::Pread)?;
        let Some(start) = file.len().checked_sub(CLOSE_MARKER_LEN as u64) else { return Ok(false) };
        let mut end = [0; CLOSE_MARKER_LEN];
        let read = file.read_at(start, &mut end)?;
        is_last_record_close_marker(LogReader::new(&end[..read])).map_err(|error| file_error(path, error))
    }
}

fn is_last_record_close_marker(mut reader: LogReader<impl LogSource>) -> io::Result<bool> {
    let mut is_marker = false;
    while let Some(item) = reader.next()? {
        is_marker = match item {
            LogItem::Record { data, .. } => batch::validate(data).is_ok_and(|batch| batch.is_empty()),
            LogItem::Corruption { .. } => false,
        };
    }
    Ok(is_marker)
}

fn read_record<'a>(reader: &'a mut LogReader<FileReader>, path: &Path) -> Result<Option<LogItem<'a>>> {
    match reader.next() {
        Err(_) if mutant!(ReadErrorTreatedAsEof) => Ok(None),
        next => next.map_err(|error| file_error(path, error)),
    }
}

fn count_records(reader: &mut LogReader<FileReader>, path: &Path) -> Result<usize> {
    let mut records = 0;
    while let Some(item) = reader.next().map_err(|error| file_error(path, error))? {
        records += usize::from(matches!(item, LogItem::Record { .. }));
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
