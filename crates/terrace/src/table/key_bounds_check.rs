//! A small table is held against what the manifest says of it.
//!
//! Checksums tell of damage within a block. They say nothing if a device puts one whole table in the place of another,
//! which takes a single misplaced write if both fit into a sector. Such a table is known by its first and its last key:
//! every LevelDB that writes a table writes those into the manifest. Keys outside of the manifest's bounds are never right.
//! Bounds that are wider than the table are no fault to LevelDB, which reads it; so it is here, with a line in the info
//! log, and with `paranoid_checks` it is an error.

use super::TableRef;
use super::table_iter::TableIter;
use super::table_reader::{BlockReadOptions, TableReader};
use crate::error::{Error, ErrorKind, Result};
use crate::info_log::Logger;
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// The largest sector of a device, in bytes. A larger table is not replaced by one write.
const SECTOR_SIZE: u64 = 4_096;

/// Checks the first and last keys of a table that fits into a sector. Damage in its blocks is left to those who read them.
pub(super) fn check_key_bounds(
    table: &Arc<TableReader>,
    file: &TableRef<'_>,
    logger: &dyn Logger,
    strict: bool,
) -> Result<()> {
    if file.size > SECTOR_SIZE {
        return Ok(());
    }
    let mut entries = TableIter::new(Arc::clone(table), BlockReadOptions { fill_cache: false });
    let mut end = |seek: fn(&mut _)| {
        seek(&mut entries);
        match entries.status() {
            Ok(()) => Ok(entries.valid().then(|| entries.key().to_vec())),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (first, last) = (end(InternalIterator::seek_to_first)?, end(InternalIterator::seek_to_last)?);
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let order = table.order();
    let (below, above) =
        (order.compare(file.smallest.as_bytes(), &first), order.compare(&last, file.largest.as_bytes()));
    if below.is_eq() && above.is_eq() {
        return Ok(());
    }
    let what = format!(
        "keys from '{}' to '{}', expected '{}' to '{}' as the manifest says",
        first.escape_ascii(),
        last.escape_ascii(),
        file.smallest.as_bytes().escape_ascii(),
        file.largest.as_bytes().escape_ascii(),
    );
    let error = Error::corruption(table.path(), None, what);
    if strict || below.is_gt() || above.is_gt() {
        return Err(error);
    }
    logger.log(format_args!("{error}; it is read as it is"));
    Ok(())
}
