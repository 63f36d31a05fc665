//! Comparison of the first and the last key of a table with the key range in the MANIFEST.
//!
//! ```text
//!   MANIFEST    000007  size 2,113,402   'apple' @ 17 .. 'cherry' @ 4
//!                             |               |               |
//!   file        first block, ..... last block, .. index, footer | ignored bytes
//! ```
//!
//! A checksum detects damage within a block. It does not detect that a whole table was replaced by
//! another one: by a misplaced write, by a wrong restore of a backup, or by a renamed file. The
//! first and the last internal key identify a table. Every internal key exists once, and every
//! LevelDB that writes a table records both keys in the MANIFEST.
//!
//! The check reads two blocks at each open of a table. A damaged block is not reported here, but to
//! the reads that need it.

use terrace_format::key::InternalKey;
use terrace_sync::mutant;

use super::table_iter::TableIter;
use super::table_reader::{BlockReadOptions, TableReader};
use crate::error::{Error, ErrorKind, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Returns an error if the first or the last key of `table` differs from the MANIFEST.
pub(super) fn check_key_bounds(
    table: &Arc<TableReader>,
    smallest: &InternalKey,
    largest: &InternalKey,
) -> Result<()> {
    if mutant!(TableKeyBoundsNotCompared) {
        return Ok(());
    }
    let mut entries = TableIter::new(Arc::clone(table), BlockReadOptions::BULK);
    entries.seek_to_first();
    check_end_key(table, &entries, "first", smallest)?;
    entries.seek_to_last();
    check_end_key(table, &entries, "last", largest)
}

/// Compares the current key, the first or the last one, with the key in the MANIFEST.
fn check_end_key(table: &TableReader, entries: &TableIter, end: &str, expected: &InternalKey) -> Result<()> {
    match entries.status() {
        // The reads that need the damaged block report it.
        Err(error) if error.kind() == ErrorKind::Corruption => return Ok(()),
        status => status?,
    }
    if entries.valid() && table.order().compare(entries.key(), expected.as_bytes()).is_eq() {
        return Ok(());
    }
    let found = match entries.valid() {
        true => format!("'{}'", entries.key().escape_ascii()),
        false => "none".to_owned(),
    };
    let expected = expected.as_bytes().escape_ascii();
    let message = format!("{end} key {found}, expected '{expected}' (from the manifest)");
    Err(Error::corruption(table.path(), None, message))
}
