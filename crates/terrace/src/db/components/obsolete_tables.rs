//! Tables that the current version no longer contains, until no reader needs them.
//!
//! A reader holds a read state, the read state a version, and the version its tables. A table in
//! this list is not in the current version. When the list has the last reference, no thread can get
//! another one.

use std::collections::BTreeMap;

use terrace_sync::mutant;

use crate::sync::Arc;
use crate::table::FinishedTable;

/// List of obsolete tables, those with the newest data last.
pub(crate) struct ObsoleteTables<F> {
    files: Vec<Arc<F>>,
    /// True while a job that removes tables is queued or running.
    is_removal_scheduled: bool,
    /// Installed tables whose event is not reported yet, by number: true if already removed.
    unreported: BTreeMap<u64, bool>,
}

impl<F> Default for ObsoleteTables<F> {
    fn default() -> ObsoleteTables<F> {
        ObsoleteTables { files: Vec::new(), is_removal_scheduled: false, unreported: BTreeMap::new() }
    }
}

impl<F> ObsoleteTables<F> {
    pub(crate) fn extend(&mut self, files: impl IntoIterator<Item = Arc<F>>) {
        self.files.extend(files);
    }

    /// Returns true, and records that a removal job is scheduled, if there is a table without
    /// readers and no such job. The caller schedules the job.
    pub(crate) fn start_removal(&mut self) -> bool {
        let is_due = !self.is_removal_scheduled && self.files.iter().any(is_unreferenced);
        self.is_removal_scheduled |= is_due;
        is_due
    }

    /// Records that the removal job has ended, or that none could be scheduled.
    pub(crate) fn end_removal(&mut self) {
        self.is_removal_scheduled = false;
    }

    pub(crate) fn is_removal_scheduled(&self) -> bool {
        self.is_removal_scheduled
    }

    /// Adds installed tables whose event is not reported yet.
    pub(crate) fn add_unreported<'t>(&mut self, tables: impl IntoIterator<Item = &'t FinishedTable>) {
        self.unreported.extend(tables.into_iter().map(|table| (table.file.number, false)));
    }

    /// Records the removal of table `number`. Returns true if the caller has to report it.
    /// Otherwise the thread that reports the table does so afterwards.
    pub(crate) fn note_removed(&mut self, number: u64) -> bool {
        self.unreported.get_mut(&number).map(|is_removed| *is_removed = true).is_none()
    }

    /// Records that the event of `tables` was reported. Returns the tables whose removal the caller
    /// has to report now.
    pub(crate) fn end_report<'t>(&mut self, tables: impl IntoIterator<Item = &'t FinishedTable>) -> Vec<u64> {
        let numbers = tables.into_iter().map(|table| table.file.number);
        numbers.filter(|number| self.unreported.remove(number) == Some(true)).collect()
    }

    /// Removes and returns the first tables without readers, at most `max` of them.
    pub(crate) fn take_unreferenced(&mut self, max: usize) -> Vec<Arc<F>> {
        self.files.extract_if(.., |file| is_unreferenced(file)).take(max).collect()
    }
}

fn is_unreferenced<F>(file: &Arc<F>) -> bool {
    Arc::strong_count(file) == 1 || mutant!(ObsoleteFileRemovedWhileInUse)
}
