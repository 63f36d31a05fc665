//! All of one log, from its first record to its end.
//!
//! A log that ends inside a record simply ends there: that is how a crash looks. Everything else that is not the next
//! batch of operations is damage, reported and passed over, no more of it than must be: replay gives up the rest of a
//! block where this gives up one record. An error of a read is no damage, and ends the walk.

use std::path::Path;

use terrace_env::Env;
use terrace_format::FlawKind;
use terrace_format::batch::{self, BatchRef};
use terrace_format::key::Sequence;
use terrace_format::log::{Item, LogReader, Tail};

use crate::error::{Corruption, Result};
use crate::stream::{Reading, file_error};

/// What a walk meets.
pub(crate) enum Logged<'a> {
    /// A whole batch.
    Batch(BatchRef<'a>),
    /// Something is wrong.
    Damage(Corruption),
}

/// The numbers of the writes in a row of logs.
pub(crate) struct Row {
    /// Terrace's logs have no gaps, and no number twice (`docs/design/0001-log-replay.md`); LevelDB's may.
    pub(crate) strict: bool,
    /// The number of the last write, that of the tables to begin with.
    pub(crate) last: Sequence,
    /// The greatest number in a table: what a log holds is newer, or a table made of it would be taken for a newer one.
    stored: Sequence,
    /// It was said that a write is not.
    told: bool,
    /// The number that comes next, once there was a batch.
    next: Option<Sequence>,
}

impl Row {
    /// Before the first of some logs, whose tables' last number is `last` by the manifest, and `stored` by themselves.
    pub(crate) fn new(strict: bool, last: Sequence, stored: Sequence) -> Row {
        Row { strict, last, stored, told: false, next: None }
    }

    /// What is wrong with the number of `batch`, and whether its writes are others than those that came before. Before
    /// the first batch only a gap is wrong: the manifest may already tell of numbers that its oldest log holds.
    fn judge(&mut self, batch: &BatchRef<'_>) -> (Option<String>, bool) {
        let (first, expected) = (batch.sequence(), self.next.unwrap_or(self.last + 1));
        let repeated = self.strict && self.next.is_some_and(|next| first < next);
        if first <= self.stored && !repeated && !std::mem::replace(&mut self.told, true) {
            let what = format!("sequence number {first}, expected more than {}, as in a table", self.stored);
            return (Some(what), true);
        }
        let wrong = repeated || (self.strict && first > expected);
        (wrong.then(|| format!("sequence number {first}, expected {expected}, the next")), !repeated)
    }

    fn take(&mut self, batch: &BatchRef<'_>) {
        let next = batch.sequence() + batch.len() as u64;
        self.next = Some(next);
        self.last = self.last.max(next.saturating_sub(1));
    }
}

/// Walks over the log at `path`, the next one of `row`, and says how it ends.
pub(crate) fn walk_log(
    env: &Env,
    path: &Path,
    row: &mut Row,
    meet: &mut dyn FnMut(Logged<'_>) -> Result<()>,
) -> Result<Tail> {
    let mut records = LogReader::salvaging(Reading(env.fs.open_sequential(path)?));
    let damage = |at, what| Logged::Damage(Corruption { path: path.to_path_buf(), at: Some(at), what });
    // A record that breaks off in front of room that was set aside: where a process was killed, if nothing follows.
    let mut broken_off = None;
    while let Some(item) = records.next().map_err(|error| file_error(path, error))? {
        let (offset, data) = match item {
            Item::Record { offset, data } => (offset, data),
            Item::Damage { flaw, dropped } => {
                let found = damage(flaw.at, format!("{flaw}; {dropped} bytes dropped"));
                match flaw.kind {
                    FlawKind::Truncated if row.strict => broken_off = Some(found),
                    _ => meet(found)?,
                }
                continue;
            }
        };
        broken_off.take().map_or(Ok(()), &mut *meet)?;
        let batch = match batch::check(data) {
            Ok(batch) => batch,
            Err(flaw) => {
                meet(damage(offset, format!("batch: {flaw}")))?;
                continue;
            }
        };
        let (wrong, counts) = row.judge(&batch);
        wrong.map_or(Ok(()), |what| meet(damage(offset, what)))?;
        if counts {
            row.take(&batch);
            meet(Logged::Batch(batch))?;
        }
    }
    Ok(records.tail())
}
