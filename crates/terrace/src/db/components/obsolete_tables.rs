//! Files that no version that counts has any more, until nobody reads them.
//!
//! A reader holds a view, the view a version, and the version its files. What is here was taken out of the newest
//! version before; so once the list's own reference is the last one, nobody can come by another.

use crate::sync::Arc;

/// The list, newest data last.
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

    /// Takes out those that nobody reads.
    pub(crate) fn take_unreferenced(&mut self) -> Vec<Arc<F>> {
        let is_free = |file: &mut Arc<F>| {
            Arc::strong_count(file) == 1 || terrace_sync::mutant!(ObsoleteFileRemovedWhileInUse)
        };
        self.files.extract_if(.., is_free).collect()
    }
}
