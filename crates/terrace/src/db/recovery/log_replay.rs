//! Replaying logs: from what a crash or a close left to memtables and tables.
//!
//! Two sets of rules (`docs/design/0001-log-replay.md`):
//!
//! - *Terrace's*, for logs beside a manifest that Terrace wrote. Sequence numbers run without a gap through a log and
//!   into the next, so replay ends for good at the first gap, whatever made it: behind it lie writes that came after
//!   lost ones. In a log that was closed a gap is no crash's, and is passed over; so is one between a log that was closed
//!   and the next, which somebody else put there.
//! - *LevelDB's*, for all others: what is damaged is left out.
//!
//! Damage is reported to the info log, or with `paranoid_checks` an error. A record that breaks off with nothing behind
//! it is no damage, but where a process was killed. An error of a read is never taken for the end of a log.

use std::io::{self, Read};
use std::path::Path;

use terrace_env::{AccessMode, Env};
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalComparator, SequenceNumber};
use terrace_format::log::{LogItem, LogReader};
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

/// What a replay works with.
pub(super) struct LogReplay<'a> {
    pub(super) env: &'a Env,
    pub(super) directory: &'a Path,
    pub(super) comparator: &'a InternalComparator,
    pub(super) logger: &'a dyn Logger,
    pub(super) paranoid_checks: bool,
    /// Whether Terrace's rules apply.
    pub(super) is_point_in_time: bool,
    /// The size at which a memtable is handed to `full`, in bytes, about.
    pub(super) memtable_size: usize,
    pub(super) inserter: ParallelInserter,
    /// The last number in the tables.
    pub(super) last_sequence: SequenceNumber,
    /// Turns a memtable into a table, or keeps it.
    pub(super) on_full_memtable: &'a mut dyn FnMut(Arc<Memtable>) -> Result<()>,
}

/// What came of it.
pub(super) struct ReplayOutcome {
    pub(super) last_sequence: SequenceNumber,
    /// The last number before the last log.
    pub(super) sequence_before_last_log: SequenceNumber,
    /// The number behind the last record, once there was one.
    next_sequence: Option<SequenceNumber>,
    /// True if the last log so far was closed: it ends with a batch without operations.
    pub(super) is_last_log_closed: bool,
    /// The last memtable, which may be empty. While records are on their way to it nobody looks into it.
    pub(super) memtable: Arc<Memtable>,
    /// About what it takes with them, in bytes; 0 if it is empty.
    memtable_bytes: usize,
    /// No record so far has this number or a greater one.
    first_unseen_sequence: SequenceNumber,
    /// Logs from which whole records were left out, for somebody to look at.
    pub(super) skipped_logs: Vec<u64>,
    /// The length of the last log, if it was closed or is empty, and its records are all in `memtable`.
    ///
    /// Only then is it known to be durable. A sync of a log that was not closed may have failed, and the system may take
    /// pages that it could not write for written: readers see them, and no later sync makes them last.
    pub(super) reusable_len: Option<u64>,
}

impl ReplayOutcome {
    /// What is wrong with `batch`, at `offset`, if it is not the next. Before the first record of all only a gap is
    /// wrong: the manifest may already tell of numbers that its oldest log holds.
    fn sequence_error(&self, offset: u64, batch: &BatchRef<'_>) -> Option<DecodeError> {
        let expected = self.next_sequence.unwrap_or(self.last_sequence + 1);
        let found = format!("sequence number {}", batch.sequence());
        let wrong = batch.sequence() > expected || self.is_repeated(batch);
        wrong.then(|| {
            DecodeError::new(DecodeErrorKind::OutOfOrder, offset, found, format!("{expected}, the next"))
        })
    }

    /// True if `batch` has numbers that came before.
    fn is_repeated(&self, batch: &BatchRef<'_>) -> bool {
        self.next_sequence.is_some_and(|next| batch.sequence() < next)
    }
}

/// Whether a replay goes on behind some log.
enum ReplayFlow {
    Continue,
    Stop,
}

impl LogReplay<'_> {
    /// Replays `logs`, given in their order.
    pub(super) fn run(mut self, logs: &[u64]) -> Result<ReplayOutcome> {
        let mut done = ReplayOutcome {
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
                self.skip_log(&path, number, &mut done)?;
                continue;
            }
            stopped = matches!(self.replay_log(&path, number, &mut done)?, ReplayFlow::Stop);
        }
        self.inserter.finish_memtable(&done.memtable)?;
        Ok(done)
    }

    fn replay_log(&mut self, path: &Path, number: u64, done: &mut ReplayOutcome) -> Result<ReplayFlow> {
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        let mut strict = self.is_point_in_time;
        // True while the memtable holds what is in this log, no less and no more.
        let mut whole = done.memtable_bytes == 0;
        let (mut broken_off, mut is_first) = (None, true);
        // Nothing of ours follows a closed log without a manifest that makes it needless: what does follow is none of
        // our logs, and may begin anywhere.
        let mut may_jump = std::mem::take(&mut done.is_last_log_closed);
        done.sequence_before_last_log = done.last_sequence;
        while let Some(item) = read_record(&mut reader, path)? {
            if std::mem::take(&mut is_first) {
                self.logger.log(format_args!("Recovering log #{number}"));
            }
            let (offset, data) = match item {
                LogItem::Record { offset, data } => (offset, data),
                LogItem::Corruption { error: flaw, .. } => {
                    (whole, done.is_last_log_closed) = (false, false);
                    match flaw.kind {
                        DecodeErrorKind::Truncated if strict => broken_off = Some(flaw),
                        _ => self.report_corruption(path, &flaw)?,
                    }
                    continue;
                }
            };
            broken_off.take().map_or(Ok(()), |flaw| self.report_corruption(path, &flaw))?;
            let batch = match batch::validate(data) {
                Ok(batch) => batch,
                Err(flaw) => {
                    whole = false;
                    self.report_corruption(path, &flaw.offset_by(offset))?;
                    continue;
                }
            };
            done.is_last_log_closed = batch.is_empty();
            let jumps = std::mem::take(&mut may_jump);
            if let Some(flaw) = done
                .sequence_error(offset, &batch)
                .filter(|_| strict && !mutant!(ReplayContinuesAfterLostRecord))
            {
                whole = false;
                self.report_corruption(path, &flaw)?;
                if done.is_repeated(&batch) {
                    continue;
                }
                if !jumps && !self.was_log_closed(path)? {
                    return self.stop_at_gap(reader, path, number, done);
                }
                strict = jumps;
            }
            whole &= !self.apply_batch(&batch, done)?;
        }
        let (tail, length) = (reader.log_end(), reader.bytes_read());
        // Not with room behind the end, or a torn record.
        let closed = done.is_last_log_closed && length == tail.offset;
        if self.is_point_in_time && !closed && length > 0 && self.ends_with_close_marker(path)? {
            // A length that rotted makes a record seem to break off, and takes all behind it along.
            let found = "a record that breaks off in a log that was closed";
            self.report_corruption(
                path,
                &DecodeError::new(DecodeErrorKind::Truncated, tail.offset, found, "whole records"),
            )?;
        }
        if !tail.is_clean {
            self.logger.log(format_args!(
                "Log #{number} ends in the middle of a record, behind {} bytes",
                tail.offset
            ));
        }
        done.reusable_len = (whole && (closed || length == 0)).then_some(tail.offset);
        if mutant!(TornWalReused) {
            done.reusable_len = whole.then_some(length);
        }
        Ok(ReplayFlow::Continue)
    }

    /// Sends a batch on its way into the memtable. True if that was full then, and handed over.
    fn apply_batch(&mut self, batch: &BatchRef<'_>, done: &mut ReplayOutcome) -> Result<bool> {
        let (first, count) = (batch.sequence(), batch.len() as u64);
        if first >= done.first_unseen_sequence {
            self.inserter.add(&done.memtable, batch);
        } else {
            // Of a write that comes twice the later counts.
            self.inserter.finish_memtable(&done.memtable)?;
            sorted_chunk::insert_batch(&done.memtable, batch);
        }
        done.first_unseen_sequence = done.first_unseen_sequence.max(first + count);
        done.next_sequence = Some(first + count);
        done.last_sequence = done.last_sequence.max((first + count).saturating_sub(1));
        done.memtable_bytes += if count > 0 { sorted_chunk::approx_memtable_bytes(batch) } else { 0 };
        let full = done.memtable_bytes > self.memtable_size;
        if full {
            self.inserter.finish_memtable(&done.memtable)?;
            done.memtable_bytes = 0;
            let next = Memtable::new(self.comparator.clone());
            (self.on_full_memtable)(std::mem::replace(&mut done.memtable, next))?;
        }
        Ok(full)
    }

    fn report_corruption(&self, path: &Path, flaw: &DecodeError) -> Result<()> {
        let error = Error::from_decode_error(path, flaw);
        if self.paranoid_checks {
            return Err(error);
        }
        self.logger.log(format_args!("Ignoring {error}"));
        Ok(())
    }

    /// Ends the replay at a record that follows lost ones.
    fn stop_at_gap(
        &self,
        mut reader: LogReader<FileReader>,
        path: &Path,
        number: u64,
        done: &mut ReplayOutcome,
    ) -> Result<ReplayFlow> {
        let records = 1 + count_records(&mut reader, path)?;
        self.logger.log(format_args!(
            "Leaving out the last {records} records of log #{number}: they follow lost ones"
        ));
        done.skipped_logs.push(number);
        done.reusable_len = None;
        Ok(ReplayFlow::Stop)
    }

    fn skip_log(&self, path: &Path, number: u64, done: &mut ReplayOutcome) -> Result<()> {
        let mut reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        let records = count_records(&mut reader, path)?;
        self.logger.log(format_args!("Leaving out log #{number}: its {records} records follow lost ones"));
        if records > 0 {
            done.skipped_logs.push(number);
        }
        Ok(())
    }

    /// True if the log was closed: its last record is the mark.
    fn was_log_closed(&self, path: &Path) -> Result<bool> {
        if self.ends_with_close_marker(path)? {
            return Ok(true);
        }
        // There may be room behind it still.
        let reader = LogReader::new(FileReader(self.env.fs.open_sequential(path)?));
        is_last_record_close_marker(reader).map_err(|error| file_error(path, error))
    }

    /// True if the last bytes of the log are the mark of a log that was closed, whatever stands before them.
    fn ends_with_close_marker(&self, path: &Path) -> Result<bool> {
        let file = self.env.fs.open_random_access(path, AccessMode::Pread)?;
        let Some(start) = file.len().checked_sub(CLOSE_MARKER_LEN as u64) else { return Ok(false) };
        let mut end = [0; CLOSE_MARKER_LEN];
        let read = file.read_at(start, &mut end)?;
        is_last_record_close_marker(LogReader::new(&end[..read])).map_err(|error| file_error(path, error))
    }
}

fn is_last_record_close_marker(mut reader: LogReader<impl Read>) -> io::Result<bool> {
    let mut mark = false;
    while let Some(item) = reader.next()? {
        mark = match item {
            LogItem::Record { data, .. } => batch::validate(data).is_ok_and(|batch| batch.is_empty()),
            LogItem::Corruption { .. } => false,
        };
    }
    Ok(mark)
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
