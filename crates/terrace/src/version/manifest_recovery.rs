//! MANIFEST recovery: reads the current version back from the MANIFEST at open.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::filename::{FileName, current};
use terrace_format::key::{InternalComparator, MAX_SEQUENCE_NUMBER};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::VersionEdit;

use super::VersionBuilder;
use super::manifest_mark::{ClosedLog, LogWriteMethod, ManifestMark};
use super::version_set::{INCOMPATIBLE_SUFFIX, VersionSet};
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::sync::Arc;

/// Recovered state of a MANIFEST.
pub(crate) struct ManifestRecovery {
    pub(crate) version_set: VersionSet,
    pub(crate) next_file_number: u64,
    pub(crate) manifest_number: u64,
    /// Length of the MANIFEST in bytes, if its end is intact, so that the database can append to
    /// it.
    pub(crate) reusable_len: Option<u64>,
    /// True if Terrace wrote the MANIFEST.
    pub(crate) is_written_by_terrace: bool,
    /// Log that the last edit states to be closed.
    pub(crate) closed_log: Option<ClosedLog>,
    /// Method of the logs, if the last edit is one of Terrace. After a close it is `Custom`,
    /// because the length of the closed log tells more. Without a mark it is `Appended`.
    pub(crate) log_method: LogWriteMethod,
    /// True if the MANIFEST marks the database as unreadable for stock LevelDB.
    pub(crate) is_marked: bool,
    /// Damage at the end of the MANIFEST: a torn version edit after a power cut, or bit rot. If all
    /// files of the edits before it exist, the damaged edit was never applied.
    pub(crate) torn_tail: Option<Error>,
}

/// Returns the number of the MANIFEST that CURRENT names.
pub(crate) fn read_current(env: &Env, directory: &Path) -> Result<u64> {
    let path = directory.join(FileName::Current.to_string());
    let mut contents = Vec::new();
    // The longest valid contents are shorter. The decoder rejects longer contents.
    const CURRENT_FILE_SIZE_MAX: u64 = 64;
    let file = FileReader(env.fs.open_sequential(&path)?);
    file.take(CURRENT_FILE_SIZE_MAX).read_to_end(&mut contents).map_err(|error| file_error(&path, error))?;
    current::decode(&contents).map_err(|error| Error::from_decode_error(&path, &error))
}

/// First file number of a new database. LevelDB's first MANIFEST has the number before it.
const FIRST_FILE_NUMBER: u64 = 2;

impl ManifestRecovery {
    /// Returns the damage at the end of the MANIFEST if the damaged edit may have been applied.
    /// Then `files` lacks the files that the edit made obsolete.
    ///
    /// Otherwise a power cut tore the edit, and it was never applied: the database removes a log,
    /// or the inputs of a compaction, only after the edit that makes them obsolete is durable.
    pub(crate) fn lost_edit(&self, files: &[FileName]) -> Option<&Error> {
        let has_all_files =
            files.contains(&FileName::Log(self.version_set.log_number))
                && self.version_set.version.levels.iter().flatten().all(|table| {
                    files.iter().any(|file| file.is_table() && file.number() == Some(table.number))
                });
        self.torn_tail.as_ref().filter(|_| !has_all_files)
    }

    /// Returns the state of a database that does not exist yet.
    pub(crate) fn for_new_database(comparator: &InternalComparator) -> ManifestRecovery {
        ManifestRecovery {
            version_set: VersionSet::empty(comparator.clone()),
            next_file_number: FIRST_FILE_NUMBER,
            manifest_number: 0,
            reusable_len: None,
            is_written_by_terrace: true,
            closed_log: None,
            log_method: LogWriteMethod::Appended,
            is_marked: false,
            torn_tail: None,
        }
    }

    /// Reads the MANIFEST that CURRENT names. Damage before its end is an error.
    pub(crate) fn read_current_manifest(
        env: &Env,
        directory: &Path,
        comparator: &InternalComparator,
    ) -> Result<ManifestRecovery> {
        ManifestRecovery::read_manifest(env, directory, read_current(env, directory)?, comparator)
    }

    /// Reads the MANIFEST with the number `manifest`. If it does not exist, the error names
    /// CURRENT.
    pub(crate) fn read_manifest(
        env: &Env,
        directory: &Path,
        manifest: u64,
        comparator: &InternalComparator,
    ) -> Result<ManifestRecovery> {
        let path = directory.join(FileName::Manifest(manifest).to_string());
        let file = match env.fs.open_sequential(&path) {
            Err(error) if error.is_not_found() => {
                let message = format!("names {}, which does not exist", FileName::Manifest(manifest));
                return Err(Error::corruption(&directory.join("CURRENT"), None, message));
            }
            opened => opened?,
        };
        // Finds the edits after a damaged one, which show that it is no torn edit: each edit is
        // durable before the next one is written.
        ManifestReader { path, comparator: comparator.clone() }
            .read(LogReader::salvaging(FileReader(file)), manifest)
    }
}

/// Reader of the version edits of one MANIFEST.
struct ManifestReader {
    path: PathBuf,
    comparator: InternalComparator,
}

impl ManifestReader {
    fn read(&self, mut records: LogReader<FileReader>, manifest: u64) -> Result<ManifestRecovery> {
        let mut set = VersionSet::empty(self.comparator.clone());
        let mut builder = VersionBuilder::default();
        let mut numbers = ManifestNumbers::default();
        let mut is_ours = false;
        let mut is_marked = false;
        let mut mark = None;
        let mut torn_tail = None;
        while let Some(item) = records.next().map_err(|error| file_error(&self.path, error))? {
            let (offset, data) = match (item, &torn_tail) {
                (LogItem::Record { offset, data, .. }, None) => (offset, data),
                // A record follows the damage, so the damage is not a torn edit at the end.
                (LogItem::Record { .. }, Some(error)) => return Err(Error::clone(error)),
                (LogItem::Corruption { .. }, Some(_)) => continue,
                (LogItem::Corruption { error, .. }, None) => {
                    torn_tail = Some(Error::from_decode_error(&self.path, &error));
                    continue;
                }
            };
            let edit = VersionEdit::decode(data)
                .map_err(|error| Error::from_decode_error(&self.path, &error.offset_by(offset)))?;
            is_marked = self.check_comparator(&edit)?.unwrap_or(is_marked);
            mark = ManifestMark::in_edit(&edit);
            is_ours |= matches!(mark, Some(ManifestMark::Written { number, .. }) if number == manifest);
            set.apply_numbers(&edit);
            numbers.apply(&edit);
            builder.apply_to_empty(edit);
        }
        if let Some(error) = torn_tail.take_if(|_| !is_ours) {
            return Err(error);
        }
        let next_file_number = numbers.check(&self.path)?;
        set.version = Arc::new(builder.build(&set.version, &self.path)?);
        set.mark_all_tables_if(is_marked);
        let end = records.log_end().offset;
        let length = records.bytes_read();
        let reusable_len = (torn_tail.is_none() && end == length).then_some(length);
        if end < length && is_ours {
            let message = format!("{length} bytes, expected {end}: truncated version edit");
            torn_tail.get_or_insert(Error::corruption(&self.path, Some(end), message));
        }
        Ok(ManifestRecovery {
            next_file_number,
            manifest_number: manifest,
            reusable_len,
            is_written_by_terrace: is_ours,
            closed_log: match mark {
                Some(ManifestMark::Closed(log)) if torn_tail.is_none() => Some(log),
                _ => None,
            },
            log_method: match mark.filter(|_| is_ours) {
                Some(ManifestMark::Written { log_method, .. }) => log_method,
                Some(ManifestMark::Closed(_)) => LogWriteMethod::Custom,
                Some(ManifestMark::Repaired { .. }) | None => LogWriteMethod::Appended,
            },
            is_marked,
            version_set: set,
            torn_tail,
        })
    }

    /// Returns true if the comparator name of `edit` has the marker, or None without a name.
    fn check_comparator(&self, edit: &VersionEdit) -> Result<Option<bool>> {
        edit.comparator.as_ref().map(|stored| has_incompatible_suffix(stored, &self.comparator)).transpose()
    }
}

/// Returns the tables in `files` that no readable edit of the MANIFEST `manifest` adds or deletes.
pub(crate) fn tables_without_edit(
    env: &Env,
    directory: &Path,
    manifest: u64,
    files: &[FileName],
) -> Result<Vec<FileName>> {
    let path = directory.join(FileName::Manifest(manifest).to_string());
    let mut records = LogReader::salvaging(FileReader(env.fs.open_sequential(&path)?));
    let mut tables = BTreeSet::new();
    while let Some(item) = records.next().map_err(|error| file_error(&path, error))? {
        if let LogItem::Record { data, .. } = item
            && let Ok(edit) = VersionEdit::decode(data)
        {
            tables.extend(edit.new_files.iter().map(|(_, file)| file.number));
            tables.extend(edit.deleted_files.iter().map(|(_, number)| *number));
        }
    }
    let mut unlisted = files.to_vec();
    unlisted.retain(|file| file.is_table() && file.number().is_some_and(|n| !tables.contains(&n)));
    Ok(unlisted)
}

/// Returns the name of the comparator with which the database in `directory` was created, without
/// [`INCOMPATIBLE_SUFFIX`]. None if the first edit of the MANIFEST has no name.
pub(crate) fn read_comparator_name(env: &Env, directory: &Path) -> Result<Option<Vec<u8>>> {
    let path = directory.join(FileName::Manifest(read_current(env, directory)?).to_string());
    let mut records = LogReader::new(FileReader(env.fs.open_sequential(&path)?));
    let first = records.next().map_err(|error| file_error(&path, error))?;
    let Some(LogItem::Record { data, .. }) = first else { return Ok(None) };
    let edit = VersionEdit::decode(data).map_err(|error| Error::from_decode_error(&path, &error))?;
    let name = edit.comparator.map(|mut name| {
        let len = name.strip_suffix(INCOMPATIBLE_SUFFIX.as_bytes()).map_or(name.len(), <[u8]>::len);
        name.truncate(len);
        name
    });
    Ok(name)
}

/// Returns true if `stored`, the comparator name of a MANIFEST, is the name of `comparator` with
/// [`INCOMPATIBLE_SUFFIX`]. The name of another comparator is an error.
pub(crate) fn has_incompatible_suffix(stored: &[u8], comparator: &InternalComparator) -> Result<bool> {
    let name = comparator.user_comparator().name_bytes();
    let prefix = stored.strip_suffix(INCOMPATIBLE_SUFFIX.as_bytes());
    if stored != name && prefix != Some(name) {
        let stored = stored.escape_ascii().to_string();
        return Err(Error::ComparatorMismatch { stored, expected: name.escape_ascii().to_string() });
    }
    Ok(stored != name)
}

/// Counters that every MANIFEST must contain.
#[derive(Clone, Copy, Default)]
pub(super) struct ManifestNumbers {
    next_file_number: Option<u64>,
    log_number: Option<u64>,
    last_sequence: Option<u64>,
}

/// Maximum next file number of a MANIFEST. No database reaches it, and further increments cannot
/// overflow. The database reads and writes no greater one.
pub(crate) const MAX_FILE_NUMBER: u64 = u64::MAX / 2;

/// Maximum number of a file that the MANIFEST does not list. The database ignores such files with
/// greater numbers, unless its own file numbers are as great.
pub(crate) const MAX_UNLISTED_FILE_NUMBER: u64 = MAX_FILE_NUMBER / 2;

/// Returns an error that names the MANIFEST at `path` if `number` exceeds `max`.
fn check_number(path: &Path, name: &str, number: u64, max: u64) -> Result<u64> {
    match number <= max {
        true => Ok(number),
        false => Err(Error::corruption(path, None, format!("{name} {number}, expected at most {max}"))),
    }
}

/// Returns an error that names the MANIFEST at `path` if no open could read the next file number of
/// `edit`.
pub(super) fn check_next_file_number(edit: &VersionEdit, path: &Path) -> Result<()> {
    let number = edit.next_file_number.unwrap_or(0);
    check_number(path, "next file number", number, MAX_FILE_NUMBER).map(drop)
}

impl ManifestNumbers {
    pub(super) fn apply(&mut self, edit: &VersionEdit) {
        self.next_file_number = edit.next_file_number.or(self.next_file_number);
        self.log_number = edit.log_number.or(self.log_number);
        self.last_sequence = edit.last_sequence.or(self.last_sequence);
    }

    /// Returns the next file number. A missing counter, or one above its maximum, is an error.
    pub(super) fn check(&self, path: &Path) -> Result<u64> {
        let check = |number: Option<u64>, name: &str, max: u64| match number {
            Some(number) => check_number(path, name, number, max),
            None => Err(Error::corruption(path, None, format!("no {name}"))),
        };
        check(self.last_sequence, "last sequence number", MAX_SEQUENCE_NUMBER)?;
        check(self.log_number, "log number", MAX_FILE_NUMBER)?;
        check(self.next_file_number, "next file number", MAX_FILE_NUMBER)
    }
}
