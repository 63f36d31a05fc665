//! Flush: writes a memtable to a table.

use std::path::Path;

use terrace_env::Env;
use terrace_format::table::TableOptions;

use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::table::{FinishedTable, TableWriter};

/// Writes `memtable` to the table file `number`. Returns None, and leaves no file, if it is empty.
///
/// The contents are durable on return; the caller syncs the directory. After an error, there is no
/// file.
pub(crate) fn build_table(
    memtable: &Arc<Memtable>,
    env: &Env,
    directory: &Path,
    number: u64,
    options: &TableOptions,
) -> Result<Option<FinishedTable>> {
    let mut table = TableWriter::create(env, directory, number, options)?;
    let mut entries = memtable.iter();
    entries.seek_to_first();
    while let Some((key, value)) = entries.entry() {
        // A damaged log may hold one write twice; the memtable returns the later one first.
        if let Err(error) = table.add_unless_duplicate(key, value) {
            table.abandon();
            return Err(error);
        }
        entries.next();
    }
    table.finish()
}
