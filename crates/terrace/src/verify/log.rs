//! All of one log, from its first record to its end.
//!
//! A log that ends inside a record simply ends there: that is how a crash looks. Everything else that is not the next
//! batch of operations is damage, reported and passed over, no more of it than must be: replay gives up the rest of a
//! block where this gives up one record. An error of a read is no damage, and ends the walk.

use std::path::Path;

use terrace_env::Env;
use terrace_format::DecodeErrorKind;
use terrace_format::batch::{self, BatchRef};
use terrace_format::key::SequenceNumber;
use terrace_format::log::{LogEnd, LogItem, LogReader};

use crate::error::{Corruption, Result};
use crate::file_io::{FileReader, file_error};

/// What a walk meets.
pub(crate) enum LogScanEvent<'a> {
    /// A whole batch.
    Batch(BatchRef<'a>),
    /// Something is wrong.
    Corruption(Corruption),
}

/// The numbers of the writes in a row of logs.
pub(crate) struct LogSequenceCheck {
    /// Terrace's logs have no gaps, and no number twice (`docs/design/0001-log-replay.md`); LevelDB's may.
    pub(crate) is_gapless: bool,
    /// The number of the last write, that of the tables to begin with.
    pub(crate) last_sequence: SequenceNumber,
    /// The greatest number in a table: what a log holds is newer, or a table made of it would be taken for a newer one.
    max_table_sequence: SequenceNumber,
    /// It was said that a write is not.
    reported_overlap: bool,
    /// The number that comes next, once there was a batch.
    next_sequence: Option<SequenceNumber>,
}

impl LogSequenceCheck {
    /// Before the first of some logs, whose tables' last number is `last` by the manifest, and `stored` by themselves.
    pub(crate) fn new(strict: bool, last: SequenceNumber, stored: SequenceNumber) -> LogSequenceCheck {
        LogSequenceCheck {
            is_gapless: strict,
            last_sequence: last,
            max_table_sequence: stored,
            reported_overlap: false,
            next_sequence: None,
        }
    }

    /// What is wrong with the number of `batch`, and whether its writes are others than those that came before. Before
    /// the first batch only a gap is wrong: the manifest may already tell of numbers that its oldest log holds.
    fn check(&mut self, batch: &BatchRef<'_>) -> (Option<String>, bool) {
        let (first, expected) = (batch.sequence(), self.next_sequence.unwrap_or(self.last_sequence + 1));
        let repeated = self.is_gapless && self.next_sequence.is_some_and(|next| first < next);
        if first <= self.max_table_sequence
            && !repeated
            && !std::mem::replace(&mut self.reported_overlap, true)
        {
            let what = format!(
                "sequence number {first}, expected more than {}, as in a table",
                self.max_table_sequence
            );
            return (Some(what), true);
        }
        let wrong = repeated || (self.is_gapless && first > expected);
        (wrong.then(|| format!("sequence number {first}, expected {expected}, the next")), !repeated)
    }

    fn advance(&mut self, batch: &BatchRef<'_>) {
        let next = batch.sequence() + batch.len() as u64;
        self.next_sequence = Some(next);
        self.last_sequence = self.last_sequence.max(next.saturating_sub(1));
    }
}

/// Walks over the log at `path`, the next one of `row`, and says how it ends.
pub(crate) fn scan_log(
    env: &Env,
    path: &Path,
    row: &mut LogSequenceCheck,
    meet: &mut dyn FnMut(LogScanEvent<'_>) -> Result<()>,
) -> Result<LogEnd> {
    let mut records = LogReader::salvaging(FileReader(env.fs.open_sequential(path)?));
    let damage = |at, what| {
        LogScanEvent::Corruption(Corruption { path: path.to_path_buf(), offset: Some(at), message: what })
    };
    // A record that breaks off in front of room that was set aside: where a process was killed, if nothing follows.
    let mut broken_off = None;
    while let Some(item) = records.next().map_err(|error| file_error(path, error))? {
        let (offset, data) = match item {
            LogItem::Record { offset, data } => (offset, data),
            LogItem::Corruption { error: flaw, dropped } => {
                let found = damage(flaw.offset, format!("{flaw}; {dropped} bytes dropped"));
                match flaw.kind {
                    DecodeErrorKind::Truncated if row.is_gapless => broken_off = Some(found),
                    _ => meet(found)?,
                }
                continue;
            }
        };
        broken_off.take().map_or(Ok(()), &mut *meet)?;
        let batch = match batch::validate(data) {
            Ok(batch) => batch,
            Err(flaw) => {
                meet(damage(offset, format!("batch: {flaw}")))?;
                continue;
            }
        };
        let (wrong, counts) = row.check(&batch);
        wrong.map_or(Ok(()), |what| meet(damage(offset, what)))?;
        if counts {
            row.advance(&batch);
            meet(LogScanEvent::Batch(batch))?;
        }
    }
    Ok(records.log_end())
}
