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
use terrace_format::edit::{LEVELS, VersionEdit};
use terrace_format::filename::{FileName, current};
use terrace_format::log::Framer;
use terrace_sync::mutant;

use crate::error::{Error, Result};

/// Whether an edit that failed may count all the same.
pub(crate) enum Failure {
    /// It does not: its new files can go.
    Before(Error),
    /// Nobody knows: its new files must stay.
    Unknown(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Before(error) | Failure::Unknown(error) => error,
        }
    }
}

/// The deletion that marks a manifest as Terrace's.
const MARK: (usize, u64) = (LEVELS - 1, 0);

/// True if `first`, the first record of a manifest, has the mark.
pub(super) fn is_marked(first: &VersionEdit) -> bool {
    first.deleted.contains(&MARK)
}

/// The open manifest of a database. One user at a time.
pub(crate) struct Manifest {
    env: Env,
    directory: PathBuf,
    /// The size in bytes from which the next edit begins a new manifest.
    limit: u64,
    number: u64,
    /// None before the first edit, and after a failed one: then the next begins a new manifest.
    open: Option<Open>,
}

struct Open {
    file: Box<dyn WritableFile>,
    framer: Framer,
    /// The size of the snapshot that it begins with.
    snapshot: u64,
    /// False while all that it is known by, an earlier run's word, may be wrong.
    proven: bool,
}

/// A manifest grows to this many times its first record, if that is more than the limit.
const GROWTH: u64 = 4;

impl Manifest {
    /// A manifest that begins with the first edit.
    pub(crate) fn new(env: &Env, directory: &Path, limit: u64) -> Manifest {
        Manifest { env: env.clone(), directory: directory.to_path_buf(), limit, number: 0, open: None }
    }

    /// Goes on with manifest `number`, which ends in good order after `length` bytes.
    ///
    /// The run before says that it closed the database, and so that all of it is durable.
    pub(crate) fn resume(&mut self, number: u64, length: u64) -> Result<()> {
        let file = self.env.fs.append(&self.directory.join(FileName::Manifest(number).to_string()))?;
        self.number = number;
        self.open = Some(Open { file, framer: Framer::at(length), snapshot: 0, proven: false });
        Ok(())
    }

    /// Called before anything is removed that the manifest makes needless. If all of that is an earlier run's doing, its
    /// last edit, or the switch to this manifest, may still lack a sync: a run that was killed can look like one that
    /// closed, where a failed sync brought an older state back.
    ///
    /// After an error the next edit begins a new manifest: a second sync would say nothing.
    pub(crate) fn prove(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take_if(|open| !open.proven) else { return Ok(()) };
        open.file.sync()?;
        self.env.fs.sync_dir(&self.directory)?;
        open.proven = true;
        self.open = Some(open);
        Ok(())
    }

    /// The number of the manifest that CURRENT names.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// True if the next edit begins a new manifest.
    pub(crate) fn is_due(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.framer.offset() >= self.limit.max(GROWTH * open.snapshot))
    }

    /// True if every edit so far is known to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_some()
    }

    /// Writes `edit` and makes it durable.
    ///
    /// On an error it may not be known whether the edit counts; the next edit then begins a new manifest, which
    /// settles it.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> std::result::Result<(), Failure> {
        self.prove().map_err(Failure::Before)?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.write(edit).map_err(Failure::Unknown)?;
        open.file.sync().map_err(|error| Failure::Unknown(error.into()))?;
        self.open = Some(open);
        Ok(())
    }

    /// Begins manifest `number` with `snapshot` and `edit`, makes CURRENT name it, and removes the one before.
    ///
    /// On an error before CURRENT was renamed the old manifest counts, without `edit`.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        mut snapshot: VersionEdit,
        edit: &VersionEdit,
    ) -> std::result::Result<(), Failure> {
        self.open = None;
        snapshot.deleted.push(MARK);
        let path = self.directory.join(FileName::Manifest(number).to_string());
        let created = self.create(&path, &snapshot, edit).map_err(Failure::Before);
        let begun = created.and_then(|open| set_current(&self.env, &self.directory, number).map(|()| open));
        let open = begun.inspect_err(|failure| {
            if let Failure::Before(_) = failure {
                // Not named by CURRENT: without it nothing is lost, and each try would leave another.
                let _ = self.env.fs.remove(&path);
            }
        })?;
        let old = std::mem::replace(&mut self.number, number);
        self.open = Some(open);
        if old != 0 {
            // A leftover is removed at the next open.
            let _ = self.env.fs.remove(&self.directory.join(FileName::Manifest(old).to_string()));
        }
        Ok(())
    }

    fn create(&self, path: &Path, snapshot: &VersionEdit, edit: &VersionEdit) -> Result<Open> {
        let mut open =
            Open { file: self.env.fs.create(path)?, framer: Framer::at(0), snapshot: 0, proven: true };
        open.write(snapshot)?;
        open.snapshot = open.framer.offset();
        open.write(edit)?;
        open.file.sync()?;
        // The tables that the snapshot names, and the manifest itself, before anything names the manifest.
        self.env.fs.sync_dir(&self.directory)?;
        Ok(open)
    }

    /// Tells the manifest that it took over from manifest `number` and has to remove it.
    pub(crate) fn succeeds(&mut self, number: u64) {
        self.number = number;
    }
}

impl Open {
    fn write(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        let mut end = self.framer.offset();
        let mut bytes = Vec::with_capacity(record.len() + 64);
        for fragment in self.framer.frame(&record, false) {
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
pub(crate) fn set_current(env: &Env, directory: &Path, number: u64) -> std::result::Result<(), Failure> {
    let temp = directory.join(FileName::Temp(number).to_string());
    let write = || {
        let mut file = env.fs.create(&temp)?;
        file.append(&current::encode(number))?;
        file.sync()?;
        file.close()
    };
    let rename = || env.fs.rename(&temp, &directory.join(FileName::Current.to_string()));
    let written = write().map_err(|error| Failure::Before(error.into()));
    // A rename that failed may have been done all the same, on a file system that is somewhere else.
    let renamed = written.and_then(|()| rename().map_err(|error| Failure::Unknown(error.into())));
    renamed.inspect_err(|_| drop(env.fs.remove(&temp)))?;
    if mutant!(CurrentRenameNotSynced) {
        return Ok(());
    }
    env.fs.sync_dir(directory).map_err(|error| Failure::Unknown(error.into()))
}
