//! Comparison of the keys of a small table with the key range in the MANIFEST.
//!
//! A checksum detects damage within a block. It does not detect that a single misplaced write
//! replaced one whole table by another, which is possible if both fit into a sector. The smallest
//! and the largest key identify such a table, because every LevelDB that writes a table records
//! them in the MANIFEST. Keys outside of the recorded range are damage. A recorded range that is
//! wider than the table is accepted by LevelDB. Terrace accepts it too and writes a line to the
//! info log; with `paranoid_checks` it is an error.

use terrace_format::key::InternalKey;

use super::table_iter::TableIter;
use super::table_reader::{BlockReadOptions, TableReader};
use crate::error::{Error, ErrorKind, Result};
use crate::info_log::Logger;
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Size of the largest sector of a storage device in bytes. A single write cannot replace a larger
/// table.
pub(super) const SECTOR_SIZE: u64 = 4_096;

/// Checks the smallest and the largest key of a table that fits into a sector. Damaged blocks are
/// not reported here, but to the reads that need them.
pub(super) fn check_key_bounds(
    table: &Arc<TableReader>,
    smallest: &InternalKey,
    largest: &InternalKey,
    logger: &dyn Logger,
    is_strict: bool,
) -> Result<()> {
    let mut entries = TableIter::new(Arc::clone(table), BlockReadOptions { fill_cache: false });
    entries.seek_to_first();
    let first = current_key(&entries)?;
    entries.seek_to_last();
    let last = current_key(&entries)?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let order = table.order();
    let lower = order.compare(&first, smallest.as_bytes());
    let upper = order.compare(&last, largest.as_bytes());
    if lower.is_eq() && upper.is_eq() {
        return Ok(());
    }
    let message = format!(
        "key range '{}' .. '{}', expected '{}' .. '{}' (from the manifest)",
        first.escape_ascii(),
        last.escape_ascii(),
        smallest.as_bytes().escape_ascii(),
        largest.as_bytes().escape_ascii(),
    );
    let error = Error::corruption(table.path(), None, message);
    if is_strict || lower.is_lt() || upper.is_gt() {
        return Err(error);
    }
    logger.log(format_args!("{error}; the table is read anyway"));
    Ok(())
}

/// Returns the key of the current entry, or None if there is none or its block is damaged.
fn current_key(entries: &TableIter) -> Result<Option<Vec<u8>>> {
    match entries.status() {
        Ok(()) => Ok(entries.valid().then(|| entries.key().to_vec())),
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
        Err(error) => Err(error),
    }
}
