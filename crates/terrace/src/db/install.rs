//! Installation of version edits: MANIFEST first, then the shared state.

use std::collections::{HashMap, HashSet};

use terrace_format::filename::FileName;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::inner::{DbInner, DbState};
use crate::error::Error;
use crate::event::{TableChangeCause, TableChanges};
use crate::sync::{Arc, Ordering};
use crate::table::FinishedTable;
use crate::table_info::TableInfo;
use crate::version::{CommitError, FileMeta, Manifest, VersionSet};

impl DbInner {
    /// Writes a version edit to the MANIFEST and publishes the new version to readers. `make_edit`
    /// creates the edit from the current version set. `new_tables` are the tables of the edit that
    /// no version had before. `update_state` runs together with the publication. Returns an error
    /// without a write if the database refuses writes. The caller removes obsolete files, without a
    /// lock.
    ///
    /// `cause` tells listeners the cause of a change of tables. Without one, they hear nothing.
    pub(super) fn log_and_apply(
        &self,
        cause: Option<TableChangeCause>,
        new_tables: &[FinishedTable],
        make_edit: impl FnOnce(&VersionSet) -> VersionEdit,
        update_state: impl FnOnce(&mut DbState),
    ) -> std::result::Result<(), CommitError> {
        let mut manifest = self.manifest.lock();
        // A new table may contain a write whose sync failed. `retract` waits for `manifest` before
        // it hides that write and returns the error to its caller.
        self.background_error.check().map_err(CommitError::NotApplied)?;
        let version_set = self.state.lock().version_set.clone();
        let mut edit = make_edit(&version_set);
        edit.log_number.get_or_insert(version_set.log_number);
        edit.prev_log_number = Some(0);
        edit.last_sequence.get_or_insert(version_set.last_sequence);
        if mutant!(ManifestSequenceAheadOfLog) {
            edit.last_sequence = Some(self.read_state.visible_seqno().load(Ordering::Acquire));
        }
        let path = self.file_path(FileName::Manifest(manifest.number()));
        let mut next_version_set = version_set.apply_edit(&edit, &path).map_err(CommitError::NotApplied)?;
        let marked_tables = new_tables.iter().filter(|table| table.needs_marker);
        next_version_set.mark_tables(marked_tables.map(|table| table.file.number));
        let removed_files = files_removed_by(&version_set, &edit);
        let changes = self.table_changes(cause, &edit, new_tables);
        let needs_marker = next_version_set.needs_marker();
        self.write_manifest_edit(&mut manifest, &version_set, edit, needs_marker)?;
        let delay_change = {
            let mut state = self.state.lock();
            state.version_set = next_version_set;
            update_state(&mut state);
            state.obsolete_tables.extend(removed_files);
            state.is_compaction_enabled = true;
            let delay_change = self.recalculate_write_delay(&state);
            self.install_read_state(&state);
            self.notify_state_changed(&mut state);
            delay_change
        };
        drop(version_set);
        if let (Some(listener), Some(changes)) = (&self.options.listener, &changes) {
            // Under the lock of the MANIFEST, so that changes come in their order.
            listener.on_table_changes(changes);
        }
        drop(manifest);
        self.report_delay_change(delay_change);
        Ok(())
    }

    /// Refuses writes after an error of [`DbInner::log_and_apply`], and returns it. After a failed
    /// sync, the durable content of the MANIFEST or of the directory is unknown, and no later sync
    /// proves it. Without space or descriptors, the caller can try again. A background job does the
    /// same at its end.
    pub(super) fn refuse_writes_after(&self, error: CommitError) -> CommitError {
        // Nothing was written for an edit that does not fit the version.
        let is_rejected = matches!(&error, CommitError::NotApplied(Error::Corruption(_)));
        if !error.cause().is_retryable() && !is_rejected {
            self.set_background_error(error.cause());
        }
        error
    }

    /// Describes the change of tables by `edit`, if there is one and a listener.
    fn table_changes(
        &self,
        cause: Option<TableChangeCause>,
        edit: &VersionEdit,
        new_tables: &[FinishedTable],
    ) -> Option<TableChanges> {
        self.options.listener.as_ref()?;
        let cause = cause.filter(|_| !edit.new_files.is_empty() || !edit.deleted_files.is_empty())?;
        let entries_of: HashMap<u64, u64> =
            new_tables.iter().map(|table| (table.file.number, table.stats.properties.num_entries)).collect();
        let added = edit.new_files.iter().map(|(level, file)| {
            let smallest = file.smallest.user_key().to_vec();
            let largest = file.largest.user_key().to_vec();
            let entries = entries_of.get(&file.number).copied();
            (*level, TableInfo { entries, ..TableInfo::new(file.number, file.size, smallest, largest) })
        });
        Some(TableChanges { cause, added: added.collect(), removed: edit.deleted_files.clone() })
    }

    fn write_manifest_edit(
        &self,
        manifest: &mut Manifest,
        version_set: &VersionSet,
        mut edit: VersionEdit,
        needs_marker: bool,
    ) -> std::result::Result<(), CommitError> {
        manifest.acquire_descriptor();
        if manifest.needs_rotation(needs_marker) {
            let number = self.new_file_number();
            edit.next_file_number = Some(self.next_file_number.load(Ordering::Relaxed));
            manifest.rotate(number, version_set.snapshot_edit(needs_marker), &edit)?;
            manifest.set_marked(needs_marker);
            return Ok(());
        }
        if !edit.new_files.is_empty() || edit.log_number != Some(version_set.log_number) {
            // New tables and logs must be durable under their names before the MANIFEST refers to
            // them.
            let synced = self.options.env.fs.sync_dir(&self.directory);
            synced.map_err(|error| CommitError::NotApplied(error.into()))?;
        }
        edit.next_file_number =
            (!mutant!(FileNumberReusedAfterCrash)).then(|| self.next_file_number.load(Ordering::Relaxed));
        manifest.append(&edit)
    }
}

/// Returns the files that `edit` removes from the version, those of the deepest level first.
///
/// With this order, a crash between two removals never leaves an old value without the tombstone
/// that hides it. If the MANIFEST is lost, too, a repair takes all tables as live, and no deleted
/// key reappears.
fn files_removed_by(version_set: &VersionSet, edit: &VersionEdit) -> Vec<Arc<FileMeta>> {
    if edit.deleted_files.is_empty() {
        return Vec::new();
    }
    let added: HashSet<u64> = edit.new_files.iter().map(|(_, file)| file.number).collect();
    let mut deleted = edit.deleted_files.clone();
    deleted.retain(|(_, number)| !added.contains(number));
    deleted.sort_unstable_by(|a, b| b.cmp(a));
    let numbers: HashSet<u64> = deleted.iter().map(|(_, number)| *number).collect();
    let files = version_set.version.levels.iter().flatten();
    let live: HashMap<u64, &Arc<FileMeta>> =
        files.filter(|file| numbers.contains(&file.number)).map(|file| (file.number, file)).collect();
    deleted.iter().filter_map(|(_, number)| live.get(number).map(|file| Arc::clone(file))).collect()
}
