//! MANIFEST: the log of version edits, and CURRENT, which names it.
//!
//! ```text
//!   MANIFEST-000007   [ snapshot of all files ] [ edit ] [ edit ] ...
//!   CURRENT           MANIFEST-000007\n
//! ```
//!
//! An edit takes effect when it is synced. A new MANIFEST takes effect when CURRENT, renamed into
//! place, is durable in the directory. Until then, the old MANIFEST is valid and is not removed.
//!
//! A MANIFEST of Terrace carries marks ([`super::manifest_mark`]): one in each edit, and one as its
//! last edit after a clean close.

use std::path::{Path, PathBuf};

use terrace_env::{Env, WritableFile};
use terrace_format::filename::{FileName, current};
use terrace_format::log::RecordWriter;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::manifest_mark::{ClosedLog, LogWriteMethod, ManifestMark};
use super::manifest_recovery::check_next_file_number;
use crate::error::{Error, Result};

/// Error of an edit, with the knowledge whether the edit took effect.
pub(crate) enum CommitError {
    /// The edit did not take effect. The caller removes its new files.
    NotApplied(Error),
    /// The edit may have taken effect. Its new files must stay.
    Indeterminate(Error),
}

impl CommitError {
    pub(crate) fn cause(&self) -> &Error {
        match self {
            CommitError::NotApplied(error) | CommitError::Indeterminate(error) => error,
        }
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            CommitError::NotApplied(error) | CommitError::Indeterminate(error) => error,
        }
    }
}

/// Writer of the MANIFEST of a database. The caller serialises the calls.
pub(crate) struct Manifest {
    env: Env,
    directory: PathBuf,
    /// Size in bytes from which the next edit starts a new MANIFEST, unless the snapshot is large.
    size_limit: u64,
    number: u64,
    /// Method of the logs of this run.
    log_method: LogWriteMethod,
    /// True if the comparator name of the MANIFEST has the marker that makes LevelDB refuse it.
    is_marked: bool,
    /// Open file. It is None before the first edit and after a failed edit; then the next edit
    /// starts a new MANIFEST.
    current: Option<OpenManifest>,
    /// New tables of edits that may have taken effect. The next MANIFEST decides it.
    undecided_tables: Vec<u64>,
    /// MANIFESTs that CURRENT may name since a failed rotation. The next one decides it.
    undecided_manifests: Vec<u64>,
}

/// Open MANIFEST file.
struct OpenManifest {
    file: Box<dyn WritableFile>,
    record_writer: RecordWriter,
    /// Size of the snapshot at its start, in bytes.
    snapshot_size: u64,
    /// False while only the clean end of an earlier process suggests that the file is durable.
    is_confirmed_durable: bool,
}

/// Factor by which a MANIFEST outgrows its snapshot before rotation, if this exceeds the size
/// limit.
const SNAPSHOT_GROWTH_FACTOR: u64 = 4;

impl Manifest {
    /// Creates a writer whose first edit starts a new MANIFEST.
    pub(crate) fn new(env: &Env, directory: &Path, size_limit: u64) -> Manifest {
        Manifest {
            env: env.clone(),
            directory: directory.to_path_buf(),
            size_limit,
            number: 0,
            log_method: LogWriteMethod::Appended,
            is_marked: false,
            current: None,
            undecided_tables: Vec::new(),
            undecided_manifests: Vec::new(),
        }
    }

    /// Returns the path of the MANIFEST `number`.
    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(FileName::Manifest(number).to_string())
    }

    /// Sets the method of the logs of this run.
    pub(crate) fn with_log_method(self, log_method: LogWriteMethod) -> Manifest {
        Manifest { log_method, ..self }
    }

    /// Returns `edit` with the mark of this run.
    fn marked(&self, edit: &VersionEdit) -> VersionEdit {
        let mark = ManifestMark::Written { number: self.number, log_method: self.log_method };
        let mut edit = edit.clone();
        edit.compact_pointers.push(mark.to_compact_pointer());
        edit
    }

    /// Continues the MANIFEST `number`, whose `length` bytes are intact. A snapshot of the database
    /// takes about `snapshot_size` bytes.
    ///
    /// The earlier process closed the database cleanly, so the file should be durable.
    pub(crate) fn reuse(&mut self, number: u64, length: u64, snapshot_size: u64) -> Result<()> {
        let path = self.path(number);
        let mut file = self.env.fs.open_append(&path)?;
        file.release_descriptor();
        self.number = number;
        self.current = Some(OpenManifest {
            file,
            record_writer: RecordWriter::resume_at(length),
            snapshot_size,
            is_confirmed_durable: false,
        });
        Ok(())
    }

    /// Makes the MANIFEST durable. The caller calls it before it removes files that the MANIFEST
    /// made obsolete.
    ///
    /// A MANIFEST of an earlier process needs a sync: its last edit, or the switch to this
    /// MANIFEST, may not be durable. A killed process can look like a cleanly closed one if a
    /// failed sync restored an older state.
    ///
    /// After an error, the next edit starts a new MANIFEST, because a second sync of the same file
    /// would prove nothing.
    pub(crate) fn confirm_durable(&mut self) -> Result<()> {
        let Some(mut open) = self.current.take_if(|open| !open.is_confirmed_durable) else { return Ok(()) };
        let confirmed = open.file.sync().and_then(|()| self.env.fs.sync_dir(&self.directory));
        if let Err(error) = confirmed {
            // The page cache may still hold edits that the disk has lost. The next process must not
            // take the MANIFEST for closed and durable. If this fails, too, nothing else can help.
            if !mutant!(LostManifestStaysClosed) {
                let edit = self.marked(&VersionEdit::default());
                let _ = open.write_edit(&edit).and_then(|()| Ok(open.file.flush()?));
            }
            return Err(error.into());
        }
        open.is_confirmed_durable = true;
        self.current = Some(open);
        Ok(())
    }

    /// Returns the number of the MANIFEST that CURRENT names.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Opens the descriptor of the MANIFEST. If the process may not, because it has changed its
    /// user since, the next edit starts a new MANIFEST.
    pub(crate) fn acquire_descriptor(&mut self) {
        let opened = self.current.as_mut().map(|open| open.file.acquire_descriptor());
        // Any other error is that of the next append.
        if matches!(opened, Some(Err(error)) if error.is_permission_denied()) {
            self.current = None;
        }
    }

    /// Returns true if the next edit starts a new MANIFEST, for a database that needs the marker or
    /// does not.
    pub(crate) fn needs_rotation(&self, needs_marker: bool) -> bool {
        self.is_marked != needs_marker
            || self.current.as_ref().is_none_or(|open| {
                open.record_writer.end_offset()
                    >= self.size_limit.max(SNAPSHOT_GROWTH_FACTOR * open.snapshot_size)
            })
    }

    /// Returns true if all edits of this process are known to be durable.
    pub(crate) fn has_only_durable_edits(&self) -> bool {
        self.current.is_some()
    }

    /// Returns true if this process has not appended to the MANIFEST that it reuses.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.current.as_ref().is_some_and(|open| !open.is_confirmed_durable)
    }

    /// Appends the statement that `log` is closed, without a sync: if a power cut removes it, the
    /// next open recovers the log as after a crash. So does a process that may not open the
    /// MANIFEST again.
    pub(crate) fn record_close(&mut self, log: ClosedLog) -> Result<()> {
        self.acquire_descriptor();
        let Some(open) = &mut self.current else { return Ok(()) };
        let mut edit = VersionEdit::default();
        edit.compact_pointers.push(ManifestMark::Closed(log).to_compact_pointer());
        open.write_edit(&edit)?;
        Ok(open.file.flush()?)
    }

    /// Appends `edit` and makes it durable.
    ///
    /// After an error, it may be unknown whether the edit took effect. The next edit then starts a
    /// new MANIFEST, which decides it.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> std::result::Result<(), CommitError> {
        check_next_file_number(edit, &self.path(self.number)).map_err(CommitError::NotApplied)?;
        self.confirm_durable().map_err(CommitError::NotApplied)?;
        let edit = self.marked(edit);
        let Some(mut open) = self.current.take() else { return Ok(()) };
        let end = open.record_writer.end_offset();
        if let Err(error) = open.write_edit(&edit).and_then(|()| Ok(open.file.flush()?)) {
            // The drop may write a rest of the buffer.
            drop(open);
            return Err(self.unwritten_edit_error(error, end));
        }
        open.file.sync().map_err(|error| CommitError::Indeterminate(error.into()))?;
        // Edits are rare, and a process may have thousands of databases open.
        open.file.release_descriptor();
        self.current = Some(open);
        Ok(())
    }

    /// Returns the error of an edit whose write failed. A full disk has no space for a new MANIFEST
    /// either, so the caller has to remove the new tables if it can.
    fn unwritten_edit_error(&self, error: Error, old_len: u64) -> CommitError {
        match self.env.fs.file_size(&self.path(self.number)) {
            Ok(len) if len == old_len => CommitError::NotApplied(error),
            _ => CommitError::Indeterminate(error),
        }
    }

    /// Starts the MANIFEST `number` with `snapshot` and `edit`, makes CURRENT name it, and removes
    /// the old MANIFEST.
    ///
    /// After an error before the rename of CURRENT, the old MANIFEST is valid, without `edit`.
    pub(crate) fn rotate(
        &mut self,
        number: u64,
        snapshot: VersionEdit,
        edit: &VersionEdit,
    ) -> std::result::Result<(), CommitError> {
        let path = self.path(number);
        check_next_file_number(edit, &path).map_err(CommitError::NotApplied)?;
        self.current = None;
        let old = std::mem::replace(&mut self.number, number);
        let snapshot = self.marked(&snapshot);
        let edit = &self.marked(edit);
        self.number = old;
        let created = self.create_file(&path, &snapshot, edit).map_err(CommitError::NotApplied);
        let switched =
            created.and_then(|open| set_current_file(&self.env, &self.directory, number).map(|()| open));
        let mut open = switched.inspect_err(|error| match error {
            CommitError::NotApplied(_) => {
                // CURRENT does not name the new file, and each attempt would leave one.
                let _ = self.env.fs.remove(&path);
            }
            CommitError::Indeterminate(_) => self.undecided_manifests.push(number),
        })?;
        let old = std::mem::replace(&mut self.number, number);
        open.file.release_descriptor();
        self.current = Some(open);
        // A repair would take the edit of an undecided one for a part of the history.
        let undecided = std::mem::take(&mut self.undecided_manifests);
        for number in undecided.into_iter().chain((old != 0).then_some(old)) {
            // If the removal fails, the next open removes the leftover file.
            let _ = self.env.fs.remove(&self.path(number));
        }
        self.remove_undecided_tables(&[&snapshot, edit]);
        Ok(())
    }

    /// Records tables of a compaction or an ingest after [`CommitError::Indeterminate`]. The caller
    /// does not install them again.
    pub(crate) fn add_undecided_tables(&mut self, tables: impl Iterator<Item = u64>) {
        self.undecided_tables.extend(tables);
    }

    /// Removes the undecided tables that `edits`, the whole new MANIFEST, do not name. A repair
    /// would take them for live ones.
    fn remove_undecided_tables(&mut self, edits: &[&VersionEdit]) {
        for number in self.undecided_tables.drain(..) {
            let is_live =
                edits.iter().any(|edit| edit.new_files.iter().any(|(_, file)| file.number == number));
            let names = [FileName::Table(number), FileName::OldTable(number)];
            for name in names.iter().filter(|_| !is_live) {
                let _ = self.env.fs.remove(&self.directory.join(name.to_string()));
            }
        }
    }

    /// Creates the MANIFEST `number` of a copied database, whose only edits are `snapshot`, `edit`
    /// and the statement that `log` is closed. Then creates CURRENT.
    ///
    /// The caller has made all files of the database durable, but not their names in the directory:
    /// they become durable before CURRENT exists.
    pub(crate) fn create_closed(
        mut self,
        number: u64,
        snapshot: &VersionEdit,
        edit: &VersionEdit,
        log: ClosedLog,
    ) -> Result<()> {
        let path = self.path(number);
        check_next_file_number(edit, &path)?;
        self.number = number;
        let mut open = OpenManifest::create(&self.env, &path)?;
        open.write_edit(&self.marked(snapshot))?;
        open.write_edit(&self.marked(edit))?;
        let mut close = VersionEdit::default();
        close.compact_pointers.push(ManifestMark::Closed(log).to_compact_pointer());
        open.write_edit(&close)?;
        open.file.sync()?;
        open.file.close()?;
        self.env.fs.sync_dir(&self.directory)?;
        set_current_file(&self.env, &self.directory, number).map_err(CommitError::into_error)
    }

    fn create_file(&self, path: &Path, snapshot: &VersionEdit, edit: &VersionEdit) -> Result<OpenManifest> {
        let mut open = OpenManifest::create(&self.env, path)?;
        open.write_edit(snapshot)?;
        open.snapshot_size = open.record_writer.end_offset();
        open.write_edit(edit)?;
        open.file.sync()?;
        // The names of the tables in the snapshot, and of the MANIFEST itself, must be durable
        // before CURRENT names the MANIFEST.
        self.env.fs.sync_dir(&self.directory)?;
        Ok(open)
    }

    /// Sets the number of the old MANIFEST, which the next rotation removes, and whether it has the
    /// marker.
    pub(crate) fn replaces(&mut self, number: u64, is_marked: bool) {
        self.number = number;
        self.is_marked = is_marked;
    }

    /// States that the snapshot of the last [`Manifest::rotate`] has the marker, or has none.
    pub(crate) fn set_marked(&mut self, is_marked: bool) {
        self.is_marked = is_marked;
    }
}

impl OpenManifest {
    /// Creates an empty file.
    fn create(env: &Env, path: &Path) -> Result<OpenManifest> {
        Ok(OpenManifest {
            file: env.fs.create(path)?,
            record_writer: RecordWriter::resume_at(0),
            snapshot_size: 0,
            is_confirmed_durable: true,
        })
    }

    /// Appends `edit` without a sync.
    fn write_edit(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        let start = self.record_writer.end_offset();
        let mut bytes = Vec::with_capacity(record.len() + 64);
        for fragment in self.record_writer.add_record(&record) {
            fragment.append_to(&mut bytes, start);
        }
        self.file.append(&bytes)?;
        Ok(())
    }
}

/// Makes CURRENT name the MANIFEST `number`, atomically and durably.
pub(crate) fn set_current_file(
    env: &Env,
    directory: &Path,
    number: u64,
) -> std::result::Result<(), CommitError> {
    let temp = directory.join(FileName::Temp(number).to_string());
    let written = write_temp_file(env, &temp, number).map_err(CommitError::NotApplied);
    let renamed = written.and_then(|()| {
        // On a network file system, a rename that failed may have taken effect.
        let renamed = env.fs.rename(&temp, &directory.join(FileName::Current.to_string()));
        renamed.map_err(|error| CommitError::Indeterminate(error.into()))
    });
    renamed.inspect_err(|_| drop(env.fs.remove(&temp)))?;
    if mutant!(CurrentRenameNotSynced) {
        return Ok(());
    }
    env.fs.sync_dir(directory).map_err(|error| CommitError::Indeterminate(error.into()))
}

/// Writes the contents of CURRENT for the MANIFEST `number` to the file `temp` and syncs it.
fn write_temp_file(env: &Env, temp: &Path, number: u64) -> Result<()> {
    let mut file = env.fs.create(temp)?;
    file.append(&current::encode(number))?;
    file.sync()?;
    file.close()?;
    Ok(())
}
