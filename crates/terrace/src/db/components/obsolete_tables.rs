//! Tables that the current version no longer contains, until no reader needs them.
//!
//! A reader holds a read state, the read state a version, and the version its tables. A table in
//! this list is not in the current version. When the list has the last reference, no thread can get
//! another one.

use terrace_sync::mutant;

use crate::sync::Arc;
use crate::table::FinishedTable;

/// List of obsolete tables, those with the newest data last.
pub(crate) struct ObsoleteTables<F> {
    files: Vec<Arc<F>>,
    /// True while a job that removes tables is queued or running.
    is_removal_scheduled: bool,
    /// Numbers of installed tables whose event is not reported yet.
    unreported: Vec<u64>,
    /// Those of them that were removed already.
    removed_unreported: Vec<u64>,
}

impl<F> Default for ObsoleteTables<F> {
    fn default() -> ObsoleteTables<F> {
        ObsoleteTables {
            files: Vec::new(),
            is_removal_scheduled: false,
            unreported: Vec::new(),
            removed_unreported: Vec::new(),
        }
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
        self.unreported.extend(tables.into_iter().map(|table| table.file.number));
    }

    /// Records the removal of table `number`. Returns true if the caller has to report it.
    /// Otherwise the thread that reports the table does so afterwards.
    pub(crate) fn note_removed(&mut self, number: u64) -> bool {
        let is_reported = !self.unreported.contains(&number);
        if !is_reported {
            self.removed_unreported.push(number);
        }
        is_reported
    }

    /// Records that the event of `tables` was reported. Returns the tables whose removal the caller
    /// has to report now.
    pub(crate) fn end_report<'t>(&mut self, tables: impl IntoIterator<Item = &'t FinishedTable>) -> Vec<u64> {
        let numbers: Vec<u64> = tables.into_iter().map(|table| table.file.number).collect();
        self.unreported.retain(|number| !numbers.contains(number));
        self.removed_unreported.extract_if(.., |number| numbers.contains(number)).collect()
    }

    /// Removes and returns the first tables without readers, at most `max` of them.
    pub(crate) fn take_unreferenced(&mut self, max: usize) -> Vec<Arc<F>> {
        self.files.extract_if(.., |file| is_unreferenced(file)).take(max).collect()
    }
}

fn is_unreferenced<F>(file: &Arc<F>) -> bool {
    Arc::strong_count(file) == 1 || mutant!(ObsoleteFileRemovedWhileInUse)
}
