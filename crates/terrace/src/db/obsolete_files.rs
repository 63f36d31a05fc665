//! Removal of obsolete and leftover files.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;

use super::components::directory::list_db_files;
use super::inner::DbInner;
use crate::sync::Ordering;
use crate::version::FileMeta;

impl DbInner {
    /// Removes the tables that no live version and no reader needs. Does nothing after close: the
    /// next opener removes the remaining ones, and its new files may have the same names.
    pub(super) fn remove_obsolete_files(&self) {
        if !self.owner_process.is_current() {
            return;
        }
        let db_lock = self.db_lock.lock();
        if db_lock.is_none() {
            return;
        }
        let unreferenced = self.state.lock().obsolete_tables.take_unreferenced();
        for file in unreferenced {
            self.remove_table_file(&file);
        }
    }

    fn remove_table_file(&self, file: &FileMeta) {
        let fs = &self.options.env.fs;
        self.logger.log(format_args!("Delete table #{}", file.number));
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
