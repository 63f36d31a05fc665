//! Guard of an open table for one read.

use std::ops::Deref;

use super::table_reader::TableReader;
use crate::sync::{Arc, HazardGuard};

/// Open table that a read uses. It stays open as long as the guard.
pub(crate) enum TableGuard {
    Hazard(HazardGuard<TableReader>),
    Counted(Arc<TableReader>),
}

impl TableGuard {
    /// Returns shared ownership of the table.
    pub(crate) fn to_arc(&self) -> Arc<TableReader> {
        match self {
            TableGuard::Hazard(guard) => guard.to_arc(),
            TableGuard::Counted(table) => Arc::clone(table),
        }
    }
}

impl Deref for TableGuard {
    type Target = TableReader;

    #[inline]
    fn deref(&self) -> &TableReader {
        match self {
            TableGuard::Hazard(guard) => guard,
            TableGuard::Counted(table) => table,
        }
    }
}
