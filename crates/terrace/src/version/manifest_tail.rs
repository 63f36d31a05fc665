//! MANIFEST of a database that another process has open: reads version edits as they appear.
//!
//! ```text
//!   CURRENT names another MANIFEST  ->  read that one whole
//!   otherwise                       ->  read the edits after the last one
//! ```
//!
//! The stamp of the directory says whether CURRENT can have changed. File systems round the time of
//! a change, so that two changes may have one stamp. An equal stamp is therefore trusted only if
//! the names were read [`STAMP_ROUNDING`] after the stamp appeared, or later.
//!
//! A database that was repaired, restored or replaced is another one, even in the same directory.
//! Its history does not continue the old one, so the reader returns [`Error::Replaced`]. It knows
//! such a database by numbers that would have to increase, and by the identities of its files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace_env::{DirectoryStamp, Env, FileIdentity, LiveFile};
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::log::{TailItem, TailReader, TailVerdict};
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::manifest_mark::ManifestMark;
use super::manifest_recovery::ManifestNumbers;
use super::{VersionBuilder, VersionSet, has_incompatible_suffix, read_current};
use crate::error::{Error, Result};
use crate::file_io::file_error;
use crate::sync::Arc;

/// Maximum time to which a file system rounds the times of a directory, with a reserve. FAT rounds
/// to two seconds, and other file systems to a few milliseconds.
const STAMP_ROUNDING: Duration = Duration::from_secs(3);

/// Reader of the MANIFEST of a database that another process may have open.
pub(crate) struct ManifestTail {
    env: Env,
    directory: PathBuf,
    comparator: InternalComparator,
    identity: FileIdentity,
    watch: DirectoryWatch,
    number: u64,
    file: Box<dyn LiveFile>,
    reader: TailReader,
    version_set: VersionSet,
    /// True if the MANIFEST marks the database as unreadable for stock LevelDB.
    is_marked: bool,
    numbers: ManifestNumbers,
    /// Mark of the last edit of this MANIFEST.
    is_written_by_terrace: bool,
}

/// Last stamp of the directory.
struct DirectoryWatch {
    stamp: DirectoryStamp,
    /// Time when the stamp was first seen.
    since: Duration,
    /// True if the names were read after the stamp was final.
    is_final: bool,
    /// True if names may have changed since they were read last.
    may_differ: bool,
}

impl DirectoryWatch {
    /// Takes a new stamp into account.
    fn update(&mut self, stamp: DirectoryStamp, now: Duration) {
        if stamp != self.stamp {
            self.stamp = stamp;
            self.since = now;
            self.is_final = false;
        }
        self.may_differ = !self.is_final;
        self.is_final = now.saturating_sub(self.since) >= STAMP_ROUNDING;
    }
}

impl ManifestTail {
    /// Reads the MANIFEST that CURRENT names.
    pub(crate) fn open(env: &Env, directory: &Path, comparator: &InternalComparator) -> Result<ManifestTail> {
        let stamp = env.fs.directory_stamp(directory)?;
        let since = env.clock.monotonic();
        let mut number = read_current(env, directory)?;
        let file = loop {
            match env.fs.open_live(&directory.join(FileName::Manifest(number).to_string())) {
                Err(error) if error.is_not_found() => {
                    // The writer may have switched to another MANIFEST.
                    let named = std::mem::replace(&mut number, read_current(env, directory)?);
                    if named == number {
                        return Err(missing_manifest(directory, number));
                    }
                }
                opened => break opened?,
            }
        };
        let mut tail = ManifestTail {
            env: env.clone(),
            directory: directory.to_path_buf(),
            comparator: comparator.clone(),
            identity: stamp.identity,
            watch: DirectoryWatch { stamp, since, is_final: false, may_differ: true },
            number,
            file,
            reader: TailReader::new(),
            version_set: VersionSet::empty(comparator.clone()),
            is_marked: false,
            numbers: ManifestNumbers::default(),
            is_written_by_terrace: false,
        };
        tail.read_edits()?;
        tail.numbers.check(&tail.path())?;
        Ok(tail)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the version set after the last edit.
    pub(crate) fn version_set(&self) -> &VersionSet {
        &self.version_set
    }

    /// Returns the next file number of the last edit.
    pub(crate) fn next_file_number(&self) -> u64 {
        // Checked after each read.
        self.numbers.check(&self.path()).unwrap_or(0)
    }

    /// Returns true if Terrace wrote the last edit. Terrace's logs have no gaps in their sequence
    /// numbers, and its MANIFEST counts only writes that are in tables.
    pub(crate) fn is_written_by_terrace(&self) -> bool {
        self.is_written_by_terrace
    }

    /// Returns true if files may have been created, removed or renamed before the last poll and
    /// after the one before.
    pub(crate) fn names_may_differ(&self) -> bool {
        self.watch.may_differ
    }

    /// Lets the next poll read the names again, after an error.
    pub(crate) fn distrust_names(&mut self) {
        self.watch.is_final = false;
    }

    /// Reads the edits that appeared since the last call. Returns true if there are any.
    ///
    /// # Errors
    ///
    /// [`Error::Replaced`] if the directory holds another database. Otherwise errors of the
    /// MANIFEST; nothing is changed then.
    pub(crate) fn poll(&mut self) -> Result<bool> {
        let stamp = match self.env.fs.directory_stamp(&self.directory) {
            Err(error) if error.is_not_found() => return Err(self.replaced("the directory is gone".into())),
            stamp => stamp?,
        };
        if stamp.identity != self.identity {
            return Err(self.replaced("another directory has its name".into()));
        }
        self.watch.update(stamp, self.env.clock.monotonic());
        if self.watch.may_differ && !mutant!(OldManifestFollowed) {
            let current = self.current_number()?;
            if current != self.number {
                return self.switch_to_current().map(|()| true);
            }
        }
        if self.file.len()? < self.reader.end_offset() {
            return Err(self.replaced(format!("{} became shorter", FileName::Manifest(self.number))));
        }
        self.read_edits()
    }

    /// Returns the number of the MANIFEST that CURRENT names, if this database can have it.
    fn current_number(&self) -> Result<u64> {
        let name = FileName::Manifest(self.number);
        loop {
            let number = match read_current(&self.env, &self.directory) {
                Err(Error::Io(error)) if error.is_not_found() => {
                    return Err(self.replaced("CURRENT is gone".into()));
                }
                number => number?,
            };
            if number > self.number {
                return Ok(number);
            }
            if number < self.number {
                let found = FileName::Manifest(number);
                return Err(self.replaced(format!("CURRENT names {found} after {name}")));
            }
            match self.env.fs.identity(&self.path()) {
                Ok(identity) if identity == self.file.identity() => return Ok(number),
                // The writer has just switched to another MANIFEST.
                Err(error) if error.is_not_found() && self.is_switched()? => {}
                Err(error) if error.is_not_found() => return Err(missing_manifest(&self.directory, number)),
                identity => drop(identity?),
            }
            if !self.is_switched()? {
                return Err(self.replaced(format!("another file has the name {name}")));
            }
        }
    }

    /// Returns true if CURRENT names another MANIFEST.
    fn is_switched(&self) -> Result<bool> {
        Ok(read_current(&self.env, &self.directory)? != self.number)
    }

    /// Reads another MANIFEST whole.
    fn switch_to_current(&mut self) -> Result<()> {
        let tail = ManifestTail::open(&self.env, &self.directory, &self.comparator)?;
        if let Some(repaired) = tail.version_set.repaired_manifest.filter(|number| *number > self.number) {
            return Err(self.replaced(format!("a repair wrote {}", FileName::Manifest(repaired))));
        }
        let next_file = tail.next_file_number();
        if tail.number < self.number || next_file < self.next_file_number() {
            let reason =
                format!("next file number {next_file}, expected at least {}", self.next_file_number());
            return Err(self.replaced(reason));
        }
        *self = tail;
        Ok(())
    }

    /// Applies the edits after the last one. Returns true if there are any.
    fn read_edits(&mut self) -> Result<bool> {
        let path = self.path();
        let mut builder = VersionBuilder::default();
        let mut next = self.version_set.clone();
        let mut numbers = self.numbers;
        let mut is_ours = self.is_written_by_terrace;
        let mut is_marked = self.is_marked;
        let base = Arc::clone(&self.version_set.version);
        let mut has_edits = false;
        let file = &self.file;
        let mut read_at = |offset: u64, buf: &mut [u8]| file.read_at(offset, buf).map_err(io::Error::other);
        // An error in an edit leaves the version set unchanged, and the reader before the edit.
        let mut reader = self.reader.clone();
        while let TailItem::Record { offset, data } =
            reader.next(&mut read_at, &mut |_| TailVerdict::Next).map_err(|error| file_error(&path, error))?
        {
            let edit = VersionEdit::decode(data)
                .map_err(|error| Error::from_decode_error(&path, &error.offset_by(offset)))?;
            if let Some(stored) = &edit.comparator {
                is_marked = has_incompatible_suffix(stored, &self.comparator)?;
            }
            is_ours = match ManifestMark::in_edit(&edit) {
                Some(ManifestMark::Written { number, .. }) => number == self.number,
                Some(ManifestMark::Closed(_)) => is_ours,
                Some(ManifestMark::Repaired { .. }) | None => false,
            };
            builder.apply_with_known_files(&edit, 0, |number| {
                base.levels.iter().flatten().find(|file| file.number == number).cloned()
            });
            next.apply_numbers(&edit);
            numbers.apply(&edit);
            has_edits = true;
        }
        if has_edits {
            numbers.check(&path)?;
            next.version = Arc::new(builder.build(&base, &path)?);
            next.mark_all_tables_if(is_marked);
            self.version_set = next;
            self.is_marked = is_marked;
            self.numbers = numbers;
            self.is_written_by_terrace = is_ours;
        }
        self.reader = reader;
        Ok(has_edits)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(FileName::Manifest(self.number).to_string())
    }

    fn replaced(&self, reason: String) -> Error {
        Error::Replaced { path: self.directory.clone(), reason }
    }
}

fn missing_manifest(directory: &Path, number: u64) -> Error {
    let message = format!("names {}, which does not exist", FileName::Manifest(number));
    Error::corruption(&directory.join(FileName::Current.to_string()), None, message)
}
