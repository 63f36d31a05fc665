//! The manifest: the log of version edits, and CURRENT, which names it.
//!
//! ```text
//!   MANIFEST-000007   [ snapshot of the files ] [ edit ] [ edit ] ...
//!   CURRENT           MANIFEST-000007\n
//! ```
//!
//! An edit counts when it is synced. A new manifest counts when CURRENT, renamed into place, is durable in the
//! directory; until then the old one does, and stays.
//!
//! A manifest that Terrace wrote carries a mark: its first record deletes table 0 of level 6, which never exists, so
//! that every reader of the format takes it for nothing. The mark says whose rules the logs beside it follow
//! (`docs/design/0001-log-replay.md`).

use std::path::{Path, PathBuf};

use terrace_env::{Env, WritableFile};
use terrace_format::filename::{FileName, current};
use terrace_format::log::RecordWriter;
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};
use terrace_sync::mutant;

use crate::error::{Error, Result};

/// Whether an edit that failed may count all the same.
pub(crate) enum CommitError {
    /// It does not: its new files can go.
    NotApplied(Error),
    /// Nobody knows: its new files must stay.
    Indeterminate(Error),
}

impl CommitError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            CommitError::NotApplied(error) | CommitError::Indeterminate(error) => error,
        }
    }
}

/// The deletion that marks a manifest as Terrace's.
const TERRACE_MARK: (usize, u64) = (NUM_LEVELS - 1, 0);

/// True if `first`, the first record of a manifest, has the mark.
pub(super) fn has_terrace_mark(first: &VersionEdit) -> bool {
    first.deleted_files.contains(&TERRACE_MARK)
}

/// The open manifest of a database. One user at a time.
pub(crate) struct Manifest {
    env: Env,
    directory: PathBuf,
    /// The size in bytes from which the next edit begins a new manifest.
    size_limit: u64,
    number: u64,
    /// None before the first edit, and after a failed one: then the next begins a new manifest.
    current: Option<OpenManifest>,
}

struct OpenManifest {
    file: Box<dyn WritableFile>,
    record_writer: RecordWriter,
    /// The size of the snapshot that it begins with.
    snapshot_size: u64,
    /// False while all that it is known by, an earlier run's word, may be wrong.
    is_confirmed_durable: bool,
}

/// A manifest grows to this many times its first record, if that is more than the limit.
const SNAPSHOT_GROWTH_FACTOR: u64 = 4;

impl Manifest {
    /// A manifest that begins with the first edit.
    pub(crate) fn new(env: &Env, directory: &Path, limit: u64) -> Manifest {
        Manifest {
            env: env.clone(),
            directory: directory.to_path_buf(),
            size_limit: limit,
            number: 0,
            current: None,
        }
    }

    /// Goes on with manifest `number`, which ends in good order after `length` bytes.
    ///
    /// The run before says that it closed the database, and so that all of it is durable.
    pub(crate) fn reuse(&mut self, number: u64, length: u64) -> Result<()> {
        let file = self.env.fs.open_append(&self.directory.join(FileName::Manifest(number).to_string()))?;
        self.number = number;
        self.current = Some(OpenManifest {
            file,
            record_writer: RecordWriter::resume_at(length),
            snapshot_size: 0,
            is_confirmed_durable: false,
        });
        Ok(())
    }

    /// Called before anything is removed that the manifest makes needless. If all of that is an earlier run's doing, its
    /// last edit, or the switch to this manifest, may still lack a sync: a run that was killed can look like one that
    /// closed, where a failed sync brought an older state back.
    ///
    /// After an error the next edit begins a new manifest: a second sync would say nothing.
    pub(crate) fn confirm_durable(&mut self) -> Result<()> {
        let Some(mut open) = self.current.take_if(|open| !open.is_confirmed_durable) else { return Ok(()) };
        open.file.sync()?;
        self.env.fs.sync_dir(&self.directory)?;
        open.is_confirmed_durable = true;
        self.current = Some(open);
        Ok(())
    }

    /// The number of the manifest that CURRENT names.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// True if the next edit begins a new manifest.
    pub(crate) fn needs_rotation(&self) -> bool {
        self.current.as_ref().is_none_or(|open| {
            open.record_writer.end_offset()
                >= self.size_limit.max(SNAPSHOT_GROWTH_FACTOR * open.snapshot_size)
        })
    }

    /// True if every edit so far is known to be durable.
    pub(crate) fn has_only_durable_edits(&self) -> bool {
        self.current.is_some()
    }

    /// Writes `edit` and makes it durable.
    ///
    /// On an error it may not be known whether the edit counts; the next edit then begins a new manifest, which
    /// settles it.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> std::result::Result<(), CommitError> {
        self.confirm_durable().map_err(CommitError::NotApplied)?;
        let Some(mut open) = self.current.take() else { return Ok(()) };
        open.write_edit(edit).map_err(CommitError::Indeterminate)?;
        open.file.sync().map_err(|error| CommitError::Indeterminate(error.into()))?;
        self.current = Some(open);
        Ok(())
    }

    /// Begins manifest `number` with `snapshot` and `edit`, makes CURRENT name it, and removes the one before.
    ///
    /// On an error before CURRENT was renamed the old manifest counts, without `edit`.
    pub(crate) fn rotate(
        &mut self,
        number: u64,
        mut snapshot: VersionEdit,
        edit: &VersionEdit,
    ) -> std::result::Result<(), CommitError> {
        self.current = None;
        snapshot.deleted_files.push(TERRACE_MARK);
        let path = self.directory.join(FileName::Manifest(number).to_string());
        let created = self.create_file(&path, &snapshot, edit).map_err(CommitError::NotApplied);
        let begun =
            created.and_then(|open| set_current_file(&self.env, &self.directory, number).map(|()| open));
        let open = begun.inspect_err(|failure| {
            if let CommitError::NotApplied(_) = failure {
                // Not named by CURRENT: without it nothing is lost, and each try would leave another.
                let _ = self.env.fs.remove(&path);
            }
        })?;
        let old = std::mem::replace(&mut self.number, number);
        self.current = Some(open);
        if old != 0 {
            // A leftover is removed at the next open.
            let _ = self.env.fs.remove(&self.directory.join(FileName::Manifest(old).to_string()));
        }
        Ok(())
    }

    fn create_file(&self, path: &Path, snapshot: &VersionEdit, edit: &VersionEdit) -> Result<OpenManifest> {
        let mut open = OpenManifest {
            file: self.env.fs.create(path)?,
            record_writer: RecordWriter::resume_at(0),
            snapshot_size: 0,
            is_confirmed_durable: true,
        };
        open.write_edit(snapshot)?;
        open.snapshot_size = open.record_writer.end_offset();
        open.write_edit(edit)?;
        open.file.sync()?;
        // The tables that the snapshot names, and the manifest itself, before anything names the manifest.
        self.env.fs.sync_dir(&self.directory)?;
        Ok(open)
    }

    /// Tells the manifest that it took over from manifest `number` and has to remove it.
    pub(crate) fn replaces(&mut self, number: u64) {
        self.number = number;
    }
}

impl OpenManifest {
    fn write_edit(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        let mut end = self.record_writer.end_offset();
        let mut bytes = Vec::with_capacity(record.len() + 64);
        for fragment in self.record_writer.add_record(&record, false) {
            // The end of a block that is too short for a header.
            bytes.resize(bytes.len() + (fragment.offset - end) as usize, 0);
            bytes.extend_from_slice(&fragment.header);
            bytes.extend_from_slice(fragment.payload);
            end = fragment.offset + (fragment.header.len() + fragment.payload.len()) as u64;
        }
        self.file.append(&bytes)?;
        Ok(())
    }
}

/// Makes CURRENT name manifest `number`, atomically and durably.
pub(crate) fn set_current_file(
    env: &Env,
    directory: &Path,
    number: u64,
) -> std::result::Result<(), CommitError> {
    let temp = directory.join(FileName::Temp(number).to_string());
    let write = || {
        let mut file = env.fs.create(&temp)?;
        file.append(&current::encode(number))?;
        file.sync()?;
        file.close()
    };
    let rename = || env.fs.rename(&temp, &directory.join(FileName::Current.to_string()));
    let written = write().map_err(|error| CommitError::NotApplied(error.into()));
    // A rename that failed may have been done all the same, on a file system that is somewhere else.
    let renamed = written.and_then(|()| rename().map_err(|error| CommitError::Indeterminate(error.into())));
    renamed.inspect_err(|_| drop(env.fs.remove(&temp)))?;
    if mutant!(CurrentRenameNotSynced) {
        return Ok(());
    }
    env.fs.sync_dir(directory).map_err(|error| CommitError::Indeterminate(error.into()))
}
