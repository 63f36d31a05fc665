//! All of one log, from its first record to its end.
//!
//! A log that ends inside a record simply ends there: that is how a crash looks. Everything else that is not a batch
//! of operations is damage, reported and passed over. An error of a read is no damage, and ends the walk.

use std::path::Path;

use terrace_env::Env;
use terrace_format::batch::{self, BatchRef};
use terrace_format::key::Sequence;
use terrace_format::log::{Item, LogReader};

use crate::error::{Corruption, Result};
use crate::stream::{Reading, file_error};

/// What a walk meets.
pub(crate) enum Logged<'a> {
    /// A whole batch.
    Batch { at: u64, batch: BatchRef<'a> },
    /// Something is wrong.
    Damage(Corruption),
}

/// Walks over the log at `path`.
pub(crate) fn walk_log(env: &Env, path: &Path, meet: &mut dyn FnMut(Logged<'_>) -> Result<()>) -> Result<()> {
    let mut records = LogReader::new(Reading(env.fs.open_sequential(path)?));
    let damage = |at, what| Logged::Damage(Corruption { path: path.to_path_buf(), at: Some(at), what });
    while let Some(item) = records.next().map_err(|error| file_error(path, error))? {
        meet(match item {
            Item::Damage { flaw, dropped } => damage(flaw.at, format!("{flaw}; {dropped} bytes dropped")),
            Item::Record { offset, data } => match batch::check(data) {
                Ok(batch) => Logged::Batch { at: offset, batch },
                Err(flaw) => damage(offset, format!("batch: {flaw}")),
            },
        })?;
    }
    Ok(())
}

/// The numbers of the writes in a row of logs: in logs of Terrace they have no gap
/// (`docs/design/0001-log-borders.md`).
pub(crate) struct Row {
    /// The number of the last write, that of the tables to begin with.
    pub(crate) last: Sequence,
}

impl Row {
    /// Takes in a batch, and says so if writes are missing before it.
    pub(crate) fn gap_before(&mut self, batch: &BatchRef<'_>) -> Option<String> {
        let (first, expected) = (batch.sequence(), self.last + 1);
        self.last = self.last.max((first + batch.len() as u64).saturating_sub(1));
        (first > expected).then(|| format!("sequence number {first}, expected {expected}, the next"))
    }
}
