//! Scan of one log, from the first record to the end.
//!
//! A log that ends inside a record ends there: this is the trace of a crash. Anything other than
//! the next batch of operations is damage. The scan reports it and skips as few bytes as possible:
//! it gives up one record where replay gives up the rest of a block. A read error is not damage; it
//! ends the scan.

use std::path::Path;

use terrace_env::Env;
use terrace_format::DecodeErrorKind;
use terrace_format::batch::{self, BatchRef};
use terrace_format::key::SequenceNumber;
use terrace_format::log::{Continuity, LogEnd, LogItem, LogReader};

use crate::error::{Corruption, Result};
use crate::file_io::{FileReader, file_error};

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
        }
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

    fn advance(&mut self, batch: &BatchRef<'_>) {
        let next = batch.sequence() + batch.len() as u64;
        self.next_sequence = Some(next);
        self.last_sequence = self.last_sequence.max(next.saturating_sub(1));
    }
}

/// Scans the log at `path` and returns how it ends. `sequence_check` has seen the logs before it.
pub(crate) fn scan_log(
    env: &Env,
    path: &Path,
    sequence_check: &mut LogSequenceCheck,
    visit: &mut dyn FnMut(LogScanEvent<'_>) -> Result<()>,
) -> Result<LogEnd> {
    let mut records = LogReader::salvaging(FileReader(env.fs.open_sequential(path)?));
    let damage = |offset, message| {
        LogScanEvent::Corruption(Corruption { path: path.to_path_buf(), offset: Some(offset), message })
    };
    // A record that ends before preallocated space. A killed process leaves it, if no record
    // follows.
    let mut incomplete = None;
    let mut is_first = true;
    while let Some(item) = records.next().map_err(|error| file_error(path, error))? {
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
        let batch = match batch::validate(data) {
            Ok(batch) => batch,
            Err(error) => {
                visit(damage(offset, format!("batch: {error}")))?;
                continue;
            }
        };
        let (problem, is_new) = sequence_check.check(&batch, may_lack_bytes);
        if let Some(message) = problem {
            visit(damage(offset, message))?;
        }
        if is_new {
            sequence_check.advance(&batch);
            visit(LogScanEvent::Batch(batch))?;
        }
    }
    Ok(records.log_end())
}
