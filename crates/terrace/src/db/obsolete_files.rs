//! Removal of obsolete and leftover files.

use std::collections::BTreeSet;

use terrace_env::Priority;
use terrace_format::filename::FileName;

use super::components::directory::list_db_files;
use super::inner::{DbInner, DbState};
use super::panic_guard::PoisonOnPanic;
use crate::event::Event;
use crate::sync::Ordering;
use crate::table::FinishedTable;
use crate::version::FileMeta;

/// Maximum number of tables that one job removes. The removal of a file takes about 4 ms, and a
/// flush may wait for the thread.
const REMOVED_TABLES_PER_JOB: usize = 4;

impl DbInner {
    /// Removes the tables that no live version and no reader needs. Does nothing after close: the
    /// next opener removes the remaining ones, and its new files may have the same names.
    pub(super) fn remove_obsolete_files(&self) {
        self.remove_first_obsolete_files(usize::MAX);
    }

    /// Removes at most `max` of these tables.
    fn remove_first_obsolete_files(&self, max: usize) {
        if !self.owner_process.is_current() {
            return;
        }
        let db_lock = self.db_lock.lock();
        if db_lock.is_none() {
            return;
        }
        let unreferenced = self.state.lock().obsolete_tables.take_unreferenced(max);
        for file in unreferenced {
            self.remove_table_file(&file);
        }
    }

    /// Schedules the removal of these tables, if there are any. For readers, which must not wait
    /// for the file system.
    #[cold]
    pub(super) fn schedule_obsolete_file_removal(&self) {
        if self.owner_process.is_current() {
            self.schedule_removal_job(&mut self.state.lock());
        }
    }

    /// The job has the priority of a flush, so that it does not wait for a compaction.
    fn schedule_removal_job(&self, state: &mut DbState) {
        if !state.is_shut_down
            && state.obsolete_tables.start_removal()
            && !self.schedule_job(Priority::Flush, DbInner::removal_job)
        {
            state.obsolete_tables.end_removal();
        }
    }

    /// Removes some obsolete tables. The remaining ones are left to another job, after the flushes
    /// that were scheduled meanwhile.
    fn removal_job(&self) {
        let _guard = PoisonOnPanic::new(self, |state| state.obsolete_tables.end_removal());
        self.remove_first_obsolete_files(REMOVED_TABLES_PER_JOB);
        let mut state = self.state.lock();
        state.obsolete_tables.end_removal();
        // A reader that released a table meanwhile has scheduled no job.
        self.schedule_removal_job(&mut state);
        self.notify_state_changed(&mut state);
    }

    /// Reports the removal of those of `tables` that were removed before their own event was
    /// reported. The caller has reported it now.
    pub(super) fn end_report_of_tables<'t>(&self, tables: impl IntoIterator<Item = &'t FinishedTable>) {
        let removed = self.state.lock().obsolete_tables.end_report(tables);
        for table in removed {
            self.report(&Event::TableDeleted { table });
        }
    }

    fn remove_table_file(&self, file: &FileMeta) {
        let fs = &self.options.env.fs;
        let is_reported = self.state.lock().obsolete_tables.note_removed(file.number);
        if is_reported {
            self.report(&Event::TableDeleted { table: file.number });
        }
        if fs.remove(&self.file_path(FileName::Table(file.number))).is_err_and(|error| error.is_not_found()) {
            let _ = fs.remove(&self.file_path(FileName::OldTable(file.number)));
        }
    }

    /// Removes leftover files of earlier runs if `files`, listed before recovery, contains any. The
    /// caller calls this before the database is in use.
    pub(super) fn remove_leftovers(&self, files: &[FileName]) {
        let mut manifest = self.manifest.lock();
        let manifest_number = manifest.number();
        let state = self.state.lock();
        let live_tables = state.version_set.version.levels.iter().flatten();
        let live_tables: BTreeSet<u64> = live_tables.map(|file| file.number).collect();
        let log_number = state.version_set.log_number;
        drop(state);
        let is_leftover = |file: &FileName| match *file {
            FileName::Log(number) => number < log_number,
            FileName::Manifest(number) => number != manifest_number,
            FileName::Table(number) | FileName::OldTable(number) => !live_tables.contains(&number),
            FileName::Temp(_) => true,
            FileName::Current | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => false,
        };
        if !files.iter().any(is_leftover) || manifest.confirm_durable().is_err() {
            return;
        }
        // Recovery has removed some of `files`, such as the last MANIFEST. If the directory cannot
        // be listed now, the next open removes the leftovers.
        let next_file = self.next_file_number.load(Ordering::Relaxed);
        let Ok(files) = list_db_files(&self.options.env, &self.directory, next_file) else { return };
        for file in files.into_iter().filter(is_leftover) {
            self.logger.log(format_args!("Delete {file}"));
            let _ = self.options.env.fs.remove(&self.file_path(file));
        }
    }
}
