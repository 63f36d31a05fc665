//! Removal of obsolete and leftover files.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;

use super::components::directory::list_db_files;
use super::inner::DbInner;
use crate::sync::Ordering;
use crate::version::FileMeta;

impl DbInner {
    /// Removes the table files that belong to no version that counts or is read. After closing they are the next
    /// opener's to remove: a file of that name may be another by then.
    pub(super) fn remove_obsolete_files(&self) {
        if !self.owner_process.is_current() {
            return;
        }
        let lock = self.db_lock.lock();
        if lock.is_none() {
            return;
        }
        let mut state = self.state.lock();
        let free = state.obsolete_tables.take_unreferenced();
        drop(state);
        for file in free {
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

    /// Removes the leftovers of earlier runs, if there are any among `files`, which were there before. Called before the
    /// database is in use.
    pub(super) fn remove_leftovers(&self, files: &[FileName]) {
        let mut manifest = self.manifest.lock();
        let number_of_manifest = manifest.number();
        let state = self.state.lock();
        let live: BTreeSet<u64> =
            state.version_set.version.levels.iter().flatten().map(|file| file.number).collect();
        let log_number = state.version_set.log_number;
        drop(state);
        let is_needless = |file: &FileName| !match *file {
            FileName::Log(number) => number >= log_number,
            FileName::Manifest(number) => number == number_of_manifest,
            FileName::Table(number) | FileName::OldTable(number) => live.contains(&number),
            FileName::Temp(_) => false,
            FileName::Current | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => true,
        };
        if !files.iter().any(is_needless) || manifest.confirm_durable().is_err() {
            return;
        }
        // Some are gone by now: the last manifest, logs that were set aside. Unreadable now, it will be swept another time.
        let next_file = self.next_file_number.load(Ordering::Relaxed);
        let Ok(files) = list_db_files(&self.options.env, &self.directory, next_file) else { return };
        for file in files.into_iter().filter(is_needless) {
            self.logger.log(format_args!("Delete {file}"));
            let _ = self.options.env.fs.remove(&self.file_path(file));
        }
    }
}
