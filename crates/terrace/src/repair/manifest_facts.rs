//! Recovery of facts from the manifests.
//!
//! ```text
//!   CURRENT -> a complete manifest                 every live table, with its level
//!   CURRENT unreadable, the newest manifest
//!     complete, and all of its tables stored       the same
//!   otherwise                                      facts from all readable edits of all manifests
//! ```
//!
//! Facts never prove that the known tables are the only live ones: an unreadable edit may have
//! added others. Facts prove which tables and logs are obsolete, so that deleted entries do not
//! come back.

use std::collections::{BTreeMap, BTreeSet};

use terrace_format::filename::FileName;
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::recovered_table::EntryStats;
use super::table_output::TableOutput;
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::verify::{Problem, find_table_file, read_twice};
use crate::version::{MAX_FILE_NUMBER, ManifestRecovery, has_incompatible_suffix, read_current};

/// Knowledge about the live tables.
pub(super) enum ManifestInfo {
    /// Every live table, and whether CURRENT names the manifest.
    Complete { recovered: Box<ManifestRecovery>, named_by_current: bool },
    /// Facts only.
    Partial(ManifestFacts),
}

/// Reads CURRENT and the manifests among `files`. Adds their problems to `problems`.
pub(super) fn read_manifests(
    output: &TableOutput<'_>,
    files: &[FileName],
    problems: &mut Vec<Problem>,
) -> Result<ManifestInfo> {
    let env = output.env();
    let directory = output.directory;
    let named = match read_twice(|| read_current(env, directory)) {
        Ok(number) => Some(number),
        Err(error) => {
            problems.push(Problem::from_error(FileName::Current, repairable_error(error)?));
            None
        }
    };
    let newest = files.iter().filter_map(manifest_number).max();
    let Some(number) = named.or(newest) else { return Ok(ManifestInfo::Partial(ManifestFacts::default())) };
    let name = FileName::Manifest(number);
    match read_twice(|| ManifestRecovery::read_manifest(env, directory, number, &output.order)) {
        Ok(recovered) if is_complete(&recovered, files, named.is_some()) => {
            return Ok(ManifestInfo::Complete {
                recovered: Box::new(recovered),
                named_by_current: named.is_some(),
            });
        }
        Ok(recovered) => {
            let error = recovered.torn_tail.unwrap_or_else(|| {
                Error::corruption(
                    &output.path(name),
                    None,
                    "lists a missing table, and CURRENT does not point to this manifest",
                )
            });
            problems.push(Problem::from_error(name, error));
        }
        Err(error) => problems.push(Problem::from_error(name, repairable_error(error)?)),
    }
    ManifestFacts::read(output, files, named, problems).map(ManifestInfo::Partial)
}

/// Returns whether `recovered` can be complete.
fn is_complete(recovered: &ManifestRecovery, files: &[FileName], named_by_current: bool) -> bool {
    let set = &recovered.version_set;
    let tables_present =
        set.version.levels.iter().flatten().all(|file| find_table_file(file.number, files).is_some());
    (named_by_current || tables_present) && recovered.lost_edit(files).is_none()
}

/// Returns errors that a repair can fix: corruption, and missing or unreadable files. Fails with
/// all others.
pub(super) fn repairable_error(error: Error) -> Result<Error> {
    match &error {
        Error::Corruption(_) => Ok(error),
        Error::Io(io) if io.is_unreadable() => Ok(error),
        _ => Err(error),
    }
}

fn manifest_number(file: &FileName) -> Option<u64> {
    if let FileName::Manifest(number) = *file { Some(number) } else { None }
}

/// Contents of all readable edits.
#[derive(Default)]
pub(super) struct ManifestFacts {
    /// Tables that are live according to the last edit that names them.
    pub(super) live_tables: BTreeMap<u64, NewFile>,
    /// Tables that were deleted. They stay so, because a file number is used once.
    obsolete_tables: BTreeSet<u64>,
    /// Live tables of an earlier manifest that a later snapshot lacks.
    superseded_tables: BTreeSet<u64>,
    /// The newest manifest whose first edit, the snapshot, is readable. The snapshot names every
    /// table that was live when the manifest was created.
    newest_manifest: Option<u64>,
    /// Largest sequence number in a table when that manifest was created.
    snapshot_last_sequence: Option<SequenceNumber>,
    log_number: u64,
    prev_log_number: u64,
    pub(super) next_file_number: u64,
    pub(super) last_sequence: SequenceNumber,
    pub(super) is_incompatible: bool,
    /// Whether a manifest confirmed the comparator.
    pub(super) comparator_known: bool,
}

impl ManifestFacts {
    /// Reads the manifests, oldest first, up to the one that CURRENT names. A later one never
    /// became live.
    pub(super) fn read(
        output: &TableOutput<'_>,
        files: &[FileName],
        named: Option<u64>,
        problems: &mut Vec<Problem>,
    ) -> Result<ManifestFacts> {
        let numbers: BTreeSet<u64> = files
            .iter()
            .filter_map(manifest_number)
            .filter(|&number| named.is_none_or(|named| number <= named))
            .collect();
        let mut facts = ManifestFacts::default();
        for number in numbers {
            facts.read_manifest(output, number, problems)?;
        }
        Ok(facts)
    }

    fn read_manifest(
        &mut self,
        output: &TableOutput<'_>,
        number: u64,
        problems: &mut Vec<Problem>,
    ) -> Result<()> {
        let name = FileName::Manifest(number);
        let path = output.path(name);
        let mut add_problem = |error| {
            let problem = Problem::from_error(name, error);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        };
        let mut records = match read_twice(|| Ok(output.env().fs.open_sequential(&path)?)) {
            Err(error) => return repairable_error(error).map(add_problem),
            Ok(file) => LogReader::new(FileReader(file)),
        };
        let mut has_failed = false;
        loop {
            let item = match records.next() {
                // The facts of the edits before the unreadable part stay.
                Err(error) if has_failed => {
                    return repairable_error(file_error(&path, error)).map(add_problem);
                }
                Err(_) => {
                    // The reader continues at the same position.
                    has_failed = true;
                    continue;
                }
                Ok(None) => return Ok(()),
                Ok(Some(item)) => item,
            };
            has_failed = false;
            let error = match item {
                LogItem::Corruption { error, .. } => error,
                LogItem::Record { offset, data, .. } => match VersionEdit::decode(data) {
                    Ok(edit) => {
                        self.apply_edit(output, (offset == 0).then_some(number), &edit)?;
                        continue;
                    }
                    Err(error) => error.offset_by(offset),
                },
            };
            add_problem(Error::from_decode_error(&path, &error));
        }
    }

    /// Applies an edit. The first edit of a manifest is a snapshot.
    fn apply_edit(
        &mut self,
        output: &TableOutput<'_>,
        snapshot_of: Option<u64>,
        edit: &VersionEdit,
    ) -> Result<()> {
        if let Some(stored) = &edit.comparator {
            self.is_incompatible = has_incompatible_suffix(stored, &output.order)?;
            self.comparator_known = true;
        }
        if let Some(number) = snapshot_of {
            self.superseded_tables.extend(std::mem::take(&mut self.live_tables).into_keys());
            self.newest_manifest = Some(number);
            self.snapshot_last_sequence = None;
            // The last flush of an earlier manifest may have been abandoned.
            self.log_number = 0;
        }
        for (_, number) in &edit.deleted_files {
            self.live_tables.remove(number);
            self.obsolete_tables.insert(*number);
        }
        for (_, file) in &edit.new_files {
            self.obsolete_tables.remove(&file.number);
            self.superseded_tables.remove(&file.number);
            self.live_tables.insert(file.number, file.clone());
        }
        self.snapshot_last_sequence = self.snapshot_last_sequence.or(edit.last_sequence);
        self.log_number = self.log_number.max(edit.log_number.unwrap_or(0));
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        if let Some(number) = edit.next_file_number.filter(|&number| number <= MAX_FILE_NUMBER) {
            self.next_file_number = self.next_file_number.max(number);
        }
        if let Some(sequence) = edit.last_sequence.filter(|&sequence| sequence <= MAX_SEQUENCE_NUMBER) {
            self.last_sequence = self.last_sequence.max(sequence);
        }
        Ok(())
    }

    /// Returns whether all writes of log `number` are in tables.
    pub(super) fn is_obsolete_log(&self, number: u64) -> bool {
        number < self.log_number && number != self.prev_log_number
    }

    /// Returns whether table `number`, with the entries `stats`, is no longer part of the database.
    ///
    /// A table that no edit names and that is older than the manifest was replaced before the
    /// manifest was created. The exception is a table that was being written at that time and
    /// became live by an edit that is unreadable now. Such a table holds later writes than any
    /// table before, or it replaced one of the `missing` tables.
    ///
    /// A table that only an earlier manifest lists was replaced, too. The exception is the flush of
    /// an abandoned manifest, which the later one repeats: it holds later writes.
    pub(super) fn is_obsolete_table(
        &self,
        number: u64,
        stats: &EntryStats,
        missing: &[NewFile],
        output: &TableOutput<'_>,
    ) -> bool {
        if self.obsolete_tables.contains(&number) {
            return true;
        }
        let is_superseded = self.superseded_tables.contains(&number);
        let predates_manifest = self.newest_manifest.is_some_and(|manifest| number < manifest);
        if self.live_tables.contains_key(&number) || !(predates_manifest || is_superseded) {
            return false;
        }
        let unknown = if is_superseded { SequenceNumber::MAX } else { 0 };
        let newer_data = stats.max_sequence() > self.snapshot_last_sequence.unwrap_or(unknown);
        let replaces =
            !is_superseded && missing.iter().any(|file| stats.overlaps_user_keys(file, &output.order));
        !newer_data && !replaces
    }

    /// Returns the live tables that are not in the directory.
    pub(super) fn missing_tables(&self, files: &[FileName]) -> Vec<NewFile> {
        self.live_tables
            .values()
            .filter(|file| find_table_file(file.number, files).is_none())
            .cloned()
            .collect()
    }
}
