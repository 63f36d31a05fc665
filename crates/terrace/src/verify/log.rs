//! Scan of one log, from the first record to the end.
//!
//! A log that ends inside a record ends there: this is the trace of a crash. Anything other than
//! the next batch of operations is damage. The scan reports it and skips as few bytes as possible:
//! it gives up one record where replay gives up the rest of a block. A part of the file that the
//! disk cannot read is damage, too.

use std::path::Path;

use terrace_env::Env;
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::log::{Continuity, LogEnd, LogItem, LogReader};
use terrace_format::{DecodeError, DecodeErrorKind};

use super::unreadable_parts::{SalvagingFileReader, UnreadableParts, read_twice};
use crate::error::{Corruption, Error, Result};
use crate::file_io::file_error;
use crate::version::ClosedLog;

/// Event of a scan.
pub(crate) enum LogScanEvent<'a> {
    /// A complete batch.
    Batch(BatchRef<'a>),
    /// Damage.
    Corruption(Corruption),
}

/// Check of the sequence numbers in consecutive logs.
pub(crate) struct LogSequenceCheck {
    /// Whether a gap after missing bytes, or a repeated sequence number, is damage. It is in mapped
    /// logs of Terrace (`docs/design/0001-log-replay.md`), but not in other logs.
    pub(crate) is_gapless: bool,
    /// Sequence number of the last write; before the first batch, that of the tables.
    pub(crate) last_sequence: SequenceNumber,
    /// Largest sequence number in a table. Writes of a log must be newer, or a table made of them
    /// would be taken for a newer one.
    max_table_sequence: SequenceNumber,
    /// Whether a write that is not newer was already reported.
    reported_overlap: bool,
    /// Sequence number of the next batch; None before the first batch.
    next_sequence: Option<SequenceNumber>,
    /// Log that a clean close has left with complete records.
    closed_log: Option<ClosedLog>,
}

impl LogSequenceCheck {
    /// Creates a check for the logs after the tables. The last sequence number of the tables is
    /// `last_sequence` in the manifest and `max_table_sequence` in the tables themselves.
    pub(crate) fn new(
        is_gapless: bool,
        last_sequence: SequenceNumber,
        max_table_sequence: SequenceNumber,
    ) -> LogSequenceCheck {
        LogSequenceCheck {
            is_gapless,
            last_sequence,
            max_table_sequence,
            reported_overlap: false,
            next_sequence: None,
            closed_log: None,
        }
    }

    /// Returns the check for logs of which the last run has closed one.
    pub(crate) fn with_closed_log(self, closed_log: Option<ClosedLog>) -> LogSequenceCheck {
        LogSequenceCheck { closed_log, ..self }
    }

    /// Returns the problem with the sequence number of `batch`, if any, and whether its writes are
    /// new. Before the first batch only a gap is a problem: the manifest may already count writes
    /// of its oldest log.
    fn check(&mut self, batch: &BatchRef<'_>, may_lack_bytes: bool) -> (Option<String>, bool) {
        let first = batch.sequence();
        let expected = self.next_sequence.unwrap_or(self.last_sequence + 1);
        let repeated = self.is_gapless && self.next_sequence.is_some_and(|next| first < next);
        if first <= self.max_table_sequence
            && !repeated
            && !std::mem::replace(&mut self.reported_overlap, true)
        {
            let message = format!(
                "sequence number {first}, expected more than {}, the largest in a table",
                self.max_table_sequence
            );
            return (Some(message), true);
        }
        let problem = repeated || (self.is_gapless && may_lack_bytes && first > expected);
        (problem.then(|| format!("sequence number {first}, expected {expected}, the next")), !repeated)
    }

    /// Returns the damage of log `number` if it has lost records since its clean close.
    fn damage_after_close(&self, number: u64, end: u64, length: u64) -> Option<DecodeError> {
        let closed_log = self.closed_log.filter(|closed| closed.number == number);
        closed_log.and_then(|closed| closed.damage(end, length))
    }

    fn advance(&mut self, batch: &BatchRef<'_>) {
        let next = batch.sequence() + batch.len() as u64;
        self.next_sequence = Some(next);
        self.last_sequence = self.last_sequence.max(next.saturating_sub(1));
    }
}

/// Scans log `number` in `directory` and returns how it ends. `sequence_check` has seen the logs
/// before it.
pub(crate) fn scan_log(
    env: &Env,
    directory: &Path,
    number: u64,
    sequence_check: &mut LogSequenceCheck,
    visit: &mut dyn FnMut(LogScanEvent<'_>) -> Result<()>,
) -> Result<LogEnd> {
    let path = &directory.join(FileName::Log(number).to_string());
    let damage = |offset, message| {
        LogScanEvent::Corruption(Corruption { path: path.to_path_buf(), offset: Some(offset), message })
    };
    let (source, unreadable) = match read_twice(|| open_log(env, path)) {
        Err(error) if error.is_unreadable_file() => {
            visit(damage_of_file(path, &error))?;
            return Ok(LogEnd { is_clean: true, ..LogReader::new(&[][..]).log_end() });
        }
        opened => opened?,
    };
    let mut records = LogReader::salvaging(source);
    // A record that ends before preallocated space. A killed process leaves it, if no record
    // follows.
    let mut incomplete = None;
    let mut is_first = true;
    while let Some(item) = records.next().map_err(|error| file_error(path, error))? {
        report_unreadable_parts(&unreadable, damage, visit)?;
        let (offset, data, may_lack_bytes) = match item {
            LogItem::Record { offset, continuity, data } => {
                (offset, data, std::mem::take(&mut is_first) || continuity != Continuity::Contiguous)
            }
            LogItem::Corruption { error, dropped } => {
                let found = damage(error.offset, format!("{error}; {dropped} bytes dropped"));
                match error.kind {
                    DecodeErrorKind::Truncated if sequence_check.is_gapless => incomplete = Some(found),
                    _ => visit(found)?,
                }
                continue;
            }
        };
        if let Some(corruption) = incomplete.take() {
            visit(corruption)?;
        }
        match batch::validate(data) {
            Ok(batch) => {
                let (problem, is_new) = sequence_check.check(&batch, may_lack_bytes);
                problem.map_or(Ok(()), |message| visit(damage(offset, message)))?;
                if is_new {
                    sequence_check.advance(&batch);
                    visit(LogScanEvent::Batch(batch))?;
                }
            }
            Err(error) => visit(damage(offset, format!("batch: {error}")))?,
        }
    }
    report_unreadable_parts(&unreadable, damage, visit)?;
    let end = records.log_end();
    if let Some(error) = sequence_check.damage_after_close(number, end.offset, records.bytes_read()) {
        visit(damage(error.offset, error.to_string()))?;
    }
    Ok(end)
}

fn open_log(env: &Env, path: &Path) -> Result<(SalvagingFileReader, UnreadableParts)> {
    let file = env.fs.open_sequential(path)?;
    Ok(SalvagingFileReader::new(file, env.fs.file_size(path)?))
}

fn damage_of_file<'a>(path: &Path, error: &Error) -> LogScanEvent<'a> {
    let message = error.to_string();
    LogScanEvent::Corruption(Corruption { path: path.to_path_buf(), offset: None, message })
}

/// Reports the unreadable parts that the reader has found since the last report.
fn report_unreadable_parts(
    unreadable: &UnreadableParts,
    damage: impl Fn(u64, String) -> LogScanEvent<'static>,
    visit: &mut dyn FnMut(LogScanEvent<'_>) -> Result<()>,
) -> Result<()> {
    for (offset, len, error) in unreadable.borrow_mut().drain(..) {
        visit(damage(offset, format!("io: {error}; {len} bytes unreadable")))?;
    }
    Ok(())
}
