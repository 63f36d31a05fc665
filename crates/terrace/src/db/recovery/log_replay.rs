//! Replay of the logs at open, into memtables.
//!
//! The replay follows LevelDB's rules: it skips damaged records and continues after them. It ends
//! only where a power cut has removed writes of Terrace and kept later ones
//! (`docs/design/0001-log-replay.md`). The proof has two parts:
//!
//! - Bytes are missing in a part of a mapped log that Terrace wrote, or before its first record.
//! - The next record has a sequence number above the next one.
//!
//! Another program continues a log at its end: after its close, or after the zeros that a killed
//! process has left. It leaves no unused bytes at the new end, or an end within a sector.
//!
//! Damage is reported to the info log and to the [`RecoveryReport`], or as an error with
//! `paranoid_checks`. An incomplete record at the end of a log is not damage: there the process was
//! killed. A read error is never taken for the end of a log, except by an open of a damaged
//! database, which reports it as damage.

use std::path::Path;

use terrace_env::Env;
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalComparator, SequenceNumber};
use terrace_format::log::{Continuity, LogEnd, LogItem, LogReader};
use terrace_format::{DecodeError, DecodeErrorKind};
use terrace_sync::mutant;

use super::parallel_insert::ParallelInserter;
use crate::db::components::recovery_report::{LogEndReason, RecoveredLog, RecoveryReport};
use crate::db::components::sorted_chunk;
use crate::error::{Corruption, Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::info_log::Logger;
use crate::memtable::{ChunkPool, Memtable};
use crate::sync::Arc;
use crate::version::{ClosedLog, LogWriteMethod};

/// Smallest unit of a file that a power cut keeps or loses, in bytes.
const MIN_SECTOR_SIZE: u64 = 512;

/// Arguments of a replay.
pub(super) struct LogReplay<'a> {
    pub(super) env: &'a Env,
    pub(super) directory: &'a Path,
    pub(super) comparator: &'a InternalComparator,
    /// Source of the memory of the memtables.
    pub(super) chunk_pool: &'a Arc<ChunkPool>,
    pub(super) logger: &'a dyn Logger,
    pub(super) paranoid_checks: bool,
    /// True if a log that cannot be read is damage instead of an error.
    pub(super) allows_damage: bool,
    /// Log that the last run has closed, by the MANIFEST.
    pub(super) closed_log: Option<ClosedLog>,
    /// Method of the logs, by the last edit of the MANIFEST.
    pub(super) log_method: LogWriteMethod,
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
    /// True if another program may have continued the last log, or has added the next one.
    is_last_log_foreign: bool,
    /// The last memtable, which may be empty. It is incomplete until the inserter has finished.
    pub(super) memtable: Arc<Memtable>,
    /// Approximate size of the memtable in bytes, with the records in the inserter. 0 if it is
    /// empty.
    memtable_bytes: usize,
    /// Greater than all sequence numbers so far.
    first_unseen_sequence: SequenceNumber,
    /// Logs with skipped complete records, which are archived.
    pub(super) skipped_logs: Vec<u64>,
    /// Length of the last log, if it was closed, and all of its records are in
    /// `memtable`.
    ///
    /// Only then the log is known to be durable. Otherwise a sync may have failed. The operating
    /// system may treat pages that it could not write as clean: readers see them, but no later sync
    /// writes them.
    pub(super) reusable_len: Option<u64>,
    /// End of each log, and damage.
    pub(super) report: RecoveryReport,
}

impl ReplayOutcome {
    /// Returns an error if sequence numbers are missing before `batch`, at `offset`, or if it
    /// repeats earlier ones. Before the first record, only a gap is an error: the MANIFEST may
    /// already contain sequence numbers of its oldest log.
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
    /// True if Terrace has mapped the log. Its end then tells whether another program continued it.
    is_mapped: bool,
    /// True in a part that Terrace wrote, in a log that can lose any page.
    is_ours: bool,
    /// True if the log ends as Terrace's mapped logs do. None if no record has needed this yet.
    has_mapped_end: Option<bool>,
    /// Length of the log at its close, if it was closed.
    closed_len: Option<u64>,
    /// True before the first record.
    is_at_start: bool,
    /// True while the memtable contains exactly the records of this log.
    matches_memtable: bool,
    /// Incomplete record, which is damage only if another record follows, and its bytes.
    truncated: Option<(DecodeError, u64)>,
    /// True if damage was reported after the last record.
    has_damaged_end: bool,
}

impl LogState {
    /// Returns true if another program may have added the record at `offset`. `has_gap` tells
    /// whether its sequence number is wrong.
    fn may_be_continued(&self, offset: u64, continuity: Continuity, has_gap: bool) -> bool {
        // A killed process may also leave the first fragments of a record, or an empty log.
        let follows_end = continuity != Continuity::Contiguous || (self.is_at_start && has_gap);
        let is_after_crash = self.is_mapped && follows_end;
        self.is_ours && (is_after_crash || self.closed_len.is_some_and(|len| offset >= len))
    }

    /// Returns true if bytes of Terrace may be missing before the next record.
    fn enter_record(&mut self, continuity: Continuity) -> bool {
        let is_first = std::mem::take(&mut self.is_at_start) && !mutant!(ReplayContinuesAfterDamagedWal);
        self.is_ours && (is_first || continuity != Continuity::Contiguous)
    }

    /// Returns true if a clean close proves that the record at `offset` was durable.
    fn was_closed_after(&self, offset: u64) -> bool {
        self.closed_len.is_some_and(|len| offset < len)
    }
}

impl LogReplay<'_> {
    /// Replays `logs`, in ascending order.
    pub(super) fn run(mut self, logs: &[u64]) -> Result<ReplayOutcome> {
        let mut outcome = ReplayOutcome {
            last_sequence: self.last_sequence,
            sequence_before_last_log: self.last_sequence,
            next_sequence: None,
            is_last_log_foreign: false,
            memtable: self.new_memtable(),
            memtable_bytes: 0,
            first_unseen_sequence: 0,
            skipped_logs: Vec::new(),
            reusable_len: None,
            report: RecoveryReport::default(),
        };
        let mut stopped = false;
        for &number in logs {
            let path = self.directory.join(FileName::Log(number).to_string());
            if stopped {
                self.skip_log(&path, number, &mut outcome)?;
                continue;
            }
            stopped = match self.replay_log(&path, number, &mut outcome) {
                Err(error) if self.allows_damage && error.is_unreadable_file() => {
                    outcome.report.damage.push(unreadable_file(&path, &error));
                    false
                }
                replayed => matches!(replayed?, ReplayFlow::Stop),
            };
        }
        self.inserter.finish_memtable(&outcome.memtable)?;
        Ok(outcome)
    }

    fn replay_log(&mut self, path: &Path, number: u64, outcome: &mut ReplayOutcome) -> Result<ReplayFlow> {
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        let length = self.env.fs.file_size(path)?;
        let mut log = LogState {
            is_mapped: self.log_method == LogWriteMethod::Mapped,
            is_ours: self.log_method != LogWriteMethod::Appended && !outcome.is_last_log_foreign,
            has_mapped_end: None,
            closed_len: self.closed_log.filter(|closed| closed.number == number).map(|closed| closed.len),
            is_at_start: true,
            matches_memtable: outcome.memtable_bytes == 0,
            truncated: None,
            has_damaged_end: false,
        };
        outcome.sequence_before_last_log = outcome.last_sequence;
        let mut is_first = true;
        while let Some(item) = read_record(&mut reader, path)? {
            if std::mem::take(&mut is_first) {
                self.logger.log(format_args!("Recovering log #{number}"));
            }
            let flow = match item {
                LogItem::Record { offset, continuity, data } => {
                    self.replay_record(path, (offset, continuity), data, &mut log, outcome)?
                }
                LogItem::Corruption { error, dropped } => {
                    log.matches_memtable = false;
                    match error.kind {
                        DecodeErrorKind::Truncated if log.is_ours => log.truncated = Some((error, dropped)),
                        _ => {
                            log.has_damaged_end = true;
                            self.report_dropped_bytes(path, &error, dropped, outcome)?;
                        }
                    }
                    ReplayFlow::Continue
                }
            };
            if matches!(flow, ReplayFlow::Stop) {
                return self.stop_at_gap(reader, path, number, length, outcome);
            }
        }
        let end = reader.log_end();
        // Perhaps all that another program has appended is damaged.
        let has_foreign_end = length > 0 && !is_mapped_end(length, &end);
        outcome.is_last_log_foreign = !log.is_ours
            || match log.closed_len {
                Some(closed) => closed == length || (length > closed && has_foreign_end),
                None => log.is_mapped && has_foreign_end,
            };
        let length = reader.bytes_read();
        self.finish_log(path, number, &end, length, &log, outcome)?;
        Ok(ReplayFlow::Continue)
    }

    /// Replays one record. Returns `Stop` at a gap that ends the replay.
    fn replay_record(
        &mut self,
        path: &Path,
        (offset, continuity): (u64, Continuity),
        data: &[u8],
        log: &mut LogState,
        outcome: &mut ReplayOutcome,
    ) -> Result<ReplayFlow> {
        if let Some((error, dropped)) = log.truncated.take() {
            self.report_dropped_bytes(path, &error, dropped, outcome)?;
        }
        log.has_damaged_end = false;
        let batch = match batch::validate(data) {
            Ok(batch) => batch,
            Err(error) => {
                log.matches_memtable = false;
                self.report_corruption(path, &error.offset_by(offset), outcome)?;
                return Ok(ReplayFlow::Continue);
            }
        };
        let sequence_error = outcome.sequence_error(offset, &batch);
        if log.may_be_continued(offset, continuity, sequence_error.is_some())
            && !mutant!(ForeignRecordsCountAsOurs)
        {
            log.is_ours = match log.has_mapped_end {
                Some(has_mapped_end) => has_mapped_end,
                None => *log.has_mapped_end.insert(self.has_mapped_end(path)?),
            };
        }
        let may_lack_bytes = log.enter_record(continuity);
        if let Some(error) = sequence_error.filter(|_| log.is_ours) {
            log.matches_memtable = false;
            self.report_corruption(path, &error, outcome)?;
            if outcome.is_repeated(&batch) {
                return Ok(ReplayFlow::Continue);
            }
            if may_lack_bytes && !log.was_closed_after(offset) && !mutant!(ReplayContinuesAfterLostRecord) {
                return Ok(ReplayFlow::Stop);
            }
        }
        log.matches_memtable &= !self.apply_batch(&batch, outcome)?;
        Ok(ReplayFlow::Continue)
    }

    /// Returns true if a log ends as a mapped log does.
    fn has_mapped_end(&self, path: &Path) -> Result<bool> {
        let length = self.env.fs.file_size(path)?;
        if !length.is_multiple_of(MIN_SECTOR_SIZE) {
            return Ok(false);
        }
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        count_records(&mut reader, path)?;
        Ok(is_mapped_end(length, &reader.log_end()))
    }

    /// Checks the end of a log of `length` bytes and decides whether the log can be reused.
    fn finish_log(
        &self,
        path: &Path,
        number: u64,
        end: &LogEnd,
        length: u64,
        log: &LogState,
        outcome: &mut ReplayOutcome,
    ) -> Result<()> {
        let is_closed = log.closed_len == Some(length);
        let mut has_damaged_end = log.has_damaged_end;
        let closed_log = log.closed_len.map(|len| ClosedLog { number, len });
        if let Some(error) =
            closed_log.filter(|_| !has_damaged_end).and_then(|closed| closed.damage(end.offset, length))
        {
            // LevelDB opens a log that has lost its end, also with `paranoid_checks`.
            let is_error = is_closed && self.paranoid_checks;
            self.report_damage(path, error.offset, error.to_string(), is_error, outcome)?;
            has_damaged_end = true;
        }
        let reason = match () {
            () if has_damaged_end => LogEndReason::Damage,
            () if end.offset == length => LogEndReason::EndOfFile,
            () if end.is_clean => LogEndReason::UnusedSpace,
            () => LogEndReason::IncompleteRecord,
        };
        self.report_end(RecoveredLog { number, end: end.offset, length, reason }, outcome);
        let is_durable = is_closed && end.offset == length;
        outcome.reusable_len = (log.matches_memtable && is_durable).then_some(length);
        if mutant!(TornWalReused) {
            outcome.reusable_len = log.matches_memtable.then_some(length);
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
            let next = self.new_memtable();
            (self.on_full_memtable)(std::mem::replace(&mut outcome.memtable, next))?;
        }
        Ok(is_full)
    }

    fn new_memtable(&self) -> Arc<Memtable> {
        Memtable::with_pool(self.comparator.clone(), self.chunk_pool, 0, false)
    }

    fn report_corruption(&self, path: &Path, error: &DecodeError, outcome: &mut ReplayOutcome) -> Result<()> {
        self.report_damage(path, error.offset, error.to_string(), self.paranoid_checks, outcome)
    }

    fn report_dropped_bytes(
        &self,
        path: &Path,
        error: &DecodeError,
        dropped: u64,
        outcome: &mut ReplayOutcome,
    ) -> Result<()> {
        let message = format!("{error}; {dropped} bytes dropped");
        self.report_damage(path, error.offset, message, self.paranoid_checks, outcome)
    }

    fn report_damage(
        &self,
        path: &Path,
        offset: u64,
        message: String,
        is_error: bool,
        outcome: &mut ReplayOutcome,
    ) -> Result<()> {
        let corruption = Corruption { path: path.to_path_buf(), offset: Some(offset), message };
        if is_error {
            return Err(Error::Corruption(corruption));
        }
        self.logger.log(format_args!("Ignoring error corruption: {corruption}"));
        outcome.report.damage.push(corruption);
        Ok(())
    }

    fn report_end(&self, log: RecoveredLog, outcome: &mut ReplayOutcome) {
        let RecoveredLog { number, end, length, reason } = log;
        if length > 0 {
            self.logger.log(format_args!("Log #{number} ended at {end} of {length} bytes: {reason}"));
        }
        outcome.report.logs.push(log);
    }

    /// Ends the replay at a record after a gap in the sequence numbers.
    fn stop_at_gap(
        &self,
        mut reader: LogReader<FileReader>,
        path: &Path,
        number: u64,
        length: u64,
        outcome: &mut ReplayOutcome,
    ) -> Result<ReplayFlow> {
        // The reader has returned the record after the gap.
        let end = outcome.report.damage.last().and_then(|gap| gap.offset).unwrap_or(0);
        self.report_end(RecoveredLog { number, end, length, reason: LogEndReason::SequenceGap }, outcome);
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
        let length = reader.bytes_read();
        let reason = LogEndReason::AfterSequenceGap;
        self.report_end(RecoveredLog { number, end: 0, length, reason }, outcome);
        self.logger.log(format_args!(
            "Skipping log #{number}: its {records} records follow a gap in the sequence numbers"
        ));
        if records > 0 {
            let message = format!("{records} records follow a gap in the sequence numbers of an earlier log");
            self.report_damage(path, 0, message, self.paranoid_checks, outcome)?;
            outcome.skipped_logs.push(number);
        }
        Ok(())
    }
}

/// Returns true if a log of `length` bytes ends as a mapped log does: at the end of a sector,
/// without a complete record there. The last bytes are zeros up to the end of a block, or parts of
/// a record that a crash interrupted. The log of another program ends at any byte, and with a
/// record if that is the end of a sector.
fn is_mapped_end(length: u64, end: &LogEnd) -> bool {
    length.is_multiple_of(MIN_SECTOR_SIZE) && end.has_unused_end
}

/// Returns the damage of a file that cannot be read because of `error`.
pub(super) fn unreadable_file(path: &Path, error: &Error) -> Corruption {
    Corruption { path: path.to_path_buf(), offset: None, message: error.to_string() }
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
