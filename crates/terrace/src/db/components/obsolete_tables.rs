//! Tables that the current version no longer contains, until no reader needs them.
//!
//! A reader holds a read state, the read state a version, and the version its tables. A table in
//! this list is not in the current version. When the list has the last reference, no thread can get
//! another one.

use crate::sync::Arc;

/// List of obsolete tables, those with the newest data last.
pub(crate) struct ObsoleteTables<F> {
    files: Vec<Arc<F>>,
}

impl<F> Default for ObsoleteTables<F> {
    fn default() -> ObsoleteTables<F> {
        ObsoleteTables { files: Vec::new() }
    }
}

impl<F> ObsoleteTables<F> {
    pub(crate) fn extend(&mut self, files: impl IntoIterator<Item = Arc<F>>) {
        self.files.extend(files);
    }

    /// Removes and returns the tables without readers.
    pub(crate) fn take_unreferenced(&mut self) -> Vec<Arc<F>> {
        let unreferenced = self.files.extract_if(.., |file| {
            Arc::strong_count(file) == 1 || terrace_sync::mutant!(ObsoleteFileRemovedWhileInUse)
        });
        unreferenced.collect()
    }
}
