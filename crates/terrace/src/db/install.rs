//! Making an edit count, and removing what then counts no more.

use terrace_format::edit::VersionEdit;
use terrace_format::filename::FileName;
use terrace_sync::mutant;

use super::{Engine, State};
use crate::sync::{Arc, Ordering};
use crate::version::{FileMeta, Manifest, VersionSet};

pub(super) use crate::version::Failure;

impl Engine {
    /// Writes an edit, made by `make` from the present set, to the manifest, and shows readers its outcome. `also` is
    /// done to the state in the same instant. Nothing is written any more once writes are refused.
    pub(super) fn install(
        &self,
        make: impl FnOnce(&VersionSet) -> VersionEdit,
        also: impl FnOnce(&mut State),
    ) -> std::result::Result<(), Failure> {
        let mut manifest = self.manifest.lock();
        // A write whose sync failed may be in a new table: who made it waits for the manifest, and is then told that it failed.
        self.refusal.check().map_err(Failure::Before)?;
        let set = self.state.lock().set.clone();
        let mut edit = make(&set);
        edit.log_number.get_or_insert(set.log_number);
        edit.prev_log_number = Some(0);
        edit.last_sequence.get_or_insert(set.last_sequence);
        let path = self.path_of(FileName::Manifest(manifest.number()));
        let next = set.after(&edit, &path).map_err(Failure::Before)?;
        let doomed = gone(&set, &edit);
        self.seal.wipe().map_err(Failure::Before)?;
        self.write_edit(&mut manifest, &set, edit)?;
        let turn = {
            let mut state = self.state.lock();
            state.set = next;
            also(&mut state);
            state.doomed.extend(doomed);
            state.may_merge = true;
            let turn = self.set_pace(&state);
            self.publish(&state);
            self.announce(&mut state);
            turn
        };
        drop((set, manifest));
        self.tell_turn(turn);
        self.remove_doomed();
        Ok(())
    }

    fn write_edit(
        &self,
        manifest: &mut Manifest,
        set: &VersionSet,
        mut edit: VersionEdit,
    ) -> std::result::Result<(), Failure> {
        if manifest.is_due() {
            let number = self.new_file_number();
            edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
            return manifest.begin(number, set.snapshot(), &edit);
        }
        if !edit.added.is_empty() || edit.log_number != Some(set.log_number) {
            // The names of new tables and logs, before anything refers to them.
            self.options.env.fs.sync_dir(&self.directory).map_err(|error| Failure::Before(error.into()))?;
        }
        edit.next_file =
            (!mutant!(FileNumberReusedAfterCrash)).then(|| self.next_file.load(Ordering::Relaxed));
        manifest.append(&edit)
    }

    /// Removes the table files that belong to no version that counts or is read. After closing they are the next
    /// opener's to remove: a file of that name may be another by then.
    pub(super) fn remove_doomed(&self) {
        if !self.birth.is_here() {
            return;
        }
        let lock = self.lock.lock();
        if lock.is_none() {
            return;
        }
        let mut state = self.state.lock();
        let free = state.doomed.take_free();
        drop(state);
        for file in free {
            self.remove_table(&file);
        }
    }

    fn remove_table(&self, file: &FileMeta) {
        let fs = &self.options.env.fs;
        self.logger.log(format_args!("Delete table #{}", file.number));
        if fs.remove(&self.path_of(FileName::Table(file.number))).is_err_and(|error| error.is_not_found()) {
            let _ = fs.remove(&self.path_of(FileName::OldTable(file.number)));
        }
    }
}

/// The files of `set` that `edit` takes out of the tree, those of the deepest level first.
///
/// In that order a crash between two removals never leaves an old value whose delete is gone already: should the
/// manifest be lost too, a repair that has to take every table for live finds nothing come back to life.
fn gone(set: &VersionSet, edit: &VersionEdit) -> Vec<Arc<FileMeta>> {
    let mut deleted = edit.deleted.clone();
    deleted.retain(|(_, number)| edit.added.iter().all(|(_, file)| file.number != *number));
    deleted.sort_unstable_by(|a, b| b.cmp(a));
    let find = |(level, number): (usize, u64)| {
        set.version.levels[level].iter().find(|f| f.number == number).cloned()
    };
    deleted.into_iter().filter_map(find).collect()
}
