//! Making an edit count, and removing what then counts no more.

use terrace_format::filename::FileName;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::inner::{DbInner, DbState};
use crate::sync::{Arc, Ordering};
use crate::version::{CommitError, FileMeta, Manifest, VersionSet};

impl DbInner {
    /// Writes an edit, made by `make` from the present set, to the manifest, and shows readers its outcome. `also` is
    /// done to the state in the same instant. Nothing is written any more once writes are refused.
    pub(super) fn log_and_apply(
        &self,
        make: impl FnOnce(&VersionSet) -> VersionEdit,
        also: impl FnOnce(&mut DbState),
    ) -> std::result::Result<(), CommitError> {
        let mut manifest = self.manifest.lock();
        // A write whose sync failed may be in a new table: who made it waits for the manifest, and is then told that it failed.
        self.background_error.check().map_err(CommitError::NotApplied)?;
        let set = self.state.lock().version_set.clone();
        let mut edit = make(&set);
        edit.log_number.get_or_insert(set.log_number);
        edit.prev_log_number = Some(0);
        edit.last_sequence.get_or_insert(set.last_sequence);
        let path = self.file_path(FileName::Manifest(manifest.number()));
        let next = set.apply_edit(&edit, &path).map_err(CommitError::NotApplied)?;
        let doomed = files_removed_by(&set, &edit);
        self.wal_close_marker.invalidate().map_err(CommitError::NotApplied)?;
        self.write_manifest_edit(&mut manifest, &set, edit)?;
        let turn = {
            let mut state = self.state.lock();
            state.version_set = next;
            also(&mut state);
            state.obsolete_tables.extend(doomed);
            state.is_compaction_enabled = true;
            let turn = self.recalculate_write_delay(&state);
            self.install_read_state(&state);
            self.notify_state_changed(&mut state);
            turn
        };
        drop((set, manifest));
        self.log_delay_change(turn);
        self.remove_obsolete_files();
        Ok(())
    }

    fn write_manifest_edit(
        &self,
        manifest: &mut Manifest,
        set: &VersionSet,
        mut edit: VersionEdit,
    ) -> std::result::Result<(), CommitError> {
        if manifest.needs_rotation() {
            let number = self.new_file_number();
            edit.next_file_number = Some(self.next_file_number.load(Ordering::Relaxed));
            return manifest.rotate(number, set.snapshot_edit(), &edit);
        }
        if !edit.new_files.is_empty() || edit.log_number != Some(set.log_number) {
            // The names of new tables and logs, before anything refers to them.
            self.options
                .env
                .fs
                .sync_dir(&self.directory)
                .map_err(|error| CommitError::NotApplied(error.into()))?;
        }
        edit.next_file_number =
            (!mutant!(FileNumberReusedAfterCrash)).then(|| self.next_file_number.load(Ordering::Relaxed));
        manifest.append(&edit)
    }
}

/// The files of `set` that `edit` takes out of the tree, those of the deepest level first.
///
/// In that order a crash between two removals never leaves an old value whose delete is gone already: should the
/// manifest be lost too, a repair that has to take every table for live finds nothing come back to life.
fn files_removed_by(set: &VersionSet, edit: &VersionEdit) -> Vec<Arc<FileMeta>> {
    let mut deleted = edit.deleted_files.clone();
    deleted.retain(|(_, number)| edit.new_files.iter().all(|(_, file)| file.number != *number));
    deleted.sort_unstable_by(|a, b| b.cmp(a));
    let find = |(level, number): (usize, u64)| {
        set.version.levels[level].iter().find(|f| f.number == number).cloned()
    };
    deleted.into_iter().filter_map(find).collect()
}
