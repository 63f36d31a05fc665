//! What the manifests still say.
//!
//! ```text
//!   CURRENT -> manifest whole                      the tree: every live table, with its level
//!   CURRENT bad, the newest manifest whole,
//!     and every table that it names is there       the same
//!   anything else                                  facts, from every edit that can be read, of every manifest
//! ```
//!
//! Facts never say that a table is live and the others are not: edits that can't be read may have added any. They say
//! which tables and logs are *not* live any more, so that what was deleted in them does not come back.

use std::collections::{BTreeMap, BTreeSet};

use terrace_format::filename::FileName;
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::recovered_table::EntryStats;
use super::table_output::TableOutput;
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::verify::{Problem, find_table_file};
use crate::version::{MAX_FILE_NUMBER, ManifestRecovery, has_incompatible_suffix, read_current};

/// What is known about the tree of tables.
pub(super) enum ManifestInfo {
    /// All of it, and whether CURRENT says so.
    Complete { recovered: Box<ManifestRecovery>, named_by_current: bool },
    /// Only facts.
    Partial(ManifestFacts),
}

/// Reads CURRENT and the manifests among `files`. What is wrong with them goes to `problems`.
pub(super) fn read_manifests(
    shop: &TableOutput<'_>,
    files: &[FileName],
    problems: &mut Vec<Problem>,
) -> Result<ManifestInfo> {
    let (env, directory) = (shop.env(), shop.directory);
    let named = match read_current(env, directory) {
        Ok(number) => Some(number),
        Err(error) => {
            problems.push(Problem::from_error(FileName::Current, repairable_error(error)?));
            None
        }
    };
    let newest = files.iter().filter_map(manifest_number).max();
    let Some(number) = named.or(newest) else { return Ok(ManifestInfo::Partial(ManifestFacts::default())) };
    let name = FileName::Manifest(number);
    match ManifestRecovery::read_manifest(env, directory, number, &shop.order) {
        Ok(recovered) if is_complete(&recovered, files, named.is_some()) => {
            return Ok(ManifestInfo::Complete {
                recovered: Box::new(recovered),
                named_by_current: named.is_some(),
            });
        }
        Ok(recovered) => {
            let missing = || {
                Error::corruption(
                    &shop.path(name),
                    None,
                    "names a table that is missing, and CURRENT is no witness",
                )
            };
            problems.push(Problem::from_error(name, recovered.torn_tail.unwrap_or_else(missing)));
        }
        Err(error) => problems.push(Problem::from_error(name, repairable_error(error)?)),
    }
    ManifestFacts::read(shop, files, named, problems).map(ManifestInfo::Partial)
}

/// True if `recovered` can be all that there is to know.
fn is_complete(recovered: &ManifestRecovery, files: &[FileName], named: bool) -> bool {
    let set = &recovered.version_set;
    let whole = set.version.levels.iter().flatten().all(|file| find_table_file(file.number, files).is_some());
    (named || whole) && recovered.lost_edit(files).is_none()
}

/// Damage and absence are what a repair is for; other errors are not.
pub(super) fn repairable_error(error: Error) -> Result<Error> {
    match &error {
        Error::Corruption(_) => Ok(error),
        Error::Io(io) if io.is_not_found() => Ok(error),
        _ => Err(error),
    }
}

fn manifest_number(file: &FileName) -> Option<u64> {
    if let FileName::Manifest(number) = *file { Some(number) } else { None }
}

/// What edits said, as far as they can be read.
#[derive(Default)]
pub(super) struct ManifestFacts {
    /// Tables that were live by the last edit that speaks of them.
    pub(super) live_tables: BTreeMap<u64, NewFile>,
    /// Tables that are not, for good: a number is used once.
    obsolete_tables: BTreeSet<u64>,
    /// The newest manifest whose snapshot can be read: it names every table that was live when it was begun.
    newest_manifest: Option<u64>,
    /// The greatest number in a table at that time.
    snapshot_last_sequence: Option<SequenceNumber>,
    log_number: u64,
    prev_log_number: u64,
    pub(super) next_file_number: u64,
    pub(super) last_sequence: SequenceNumber,
    pub(super) is_incompatible: bool,
    /// True if the comparator is known to be the right one.
    pub(super) comparator_known: bool,
}

impl ManifestFacts {
    /// Reads every manifest, the oldest first, up to the one that CURRENT names: a later one never counted.
    pub(super) fn read(
        shop: &TableOutput<'_>,
        files: &[FileName],
        named: Option<u64>,
        problems: &mut Vec<Problem>,
    ) -> Result<ManifestFacts> {
        let counts = |number: &u64| named.is_none_or(|named| *number <= named);
        let numbers: BTreeSet<u64> = files.iter().filter_map(manifest_number).filter(counts).collect();
        let mut facts = ManifestFacts::default();
        for number in numbers {
            facts.read_manifest(shop, number, problems)?;
        }
        Ok(facts)
    }

    fn read_manifest(
        &mut self,
        shop: &TableOutput<'_>,
        number: u64,
        problems: &mut Vec<Problem>,
    ) -> Result<()> {
        let name = FileName::Manifest(number);
        let path = shop.path(name);
        let mut records = LogReader::new(FileReader(shop.env().fs.open_sequential(&path)?));
        while let Some(item) = records.next().map_err(|error| file_error(&path, error))? {
            let flaw = match item {
                LogItem::Corruption { error: flaw, .. } => flaw,
                LogItem::Record { offset, data } => match VersionEdit::decode(data) {
                    Ok(edit) => {
                        self.apply_edit(shop, (offset == 0).then_some(number), &edit)?;
                        continue;
                    }
                    Err(flaw) => flaw.offset_by(offset),
                },
            };
            let problem = Problem::from_error(name, Error::from_decode_error(&path, &flaw));
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Ok(())
    }

    /// Takes in an edit; the first of a manifest is a snapshot.
    fn apply_edit(
        &mut self,
        shop: &TableOutput<'_>,
        snapshot_of: Option<u64>,
        edit: &VersionEdit,
    ) -> Result<()> {
        if let Some(stored) = &edit.comparator {
            self.is_incompatible = has_incompatible_suffix(stored, &shop.order)?;
            self.comparator_known = true;
        }
        if let Some(number) = snapshot_of {
            self.obsolete_tables.extend(std::mem::take(&mut self.live_tables).into_keys());
            self.newest_manifest = Some(number);
            self.snapshot_last_sequence = None;
        }
        for (_, number) in &edit.deleted_files {
            self.live_tables.remove(number);
            self.obsolete_tables.insert(*number);
        }
        for (_, file) in &edit.new_files {
            self.obsolete_tables.remove(&file.number);
            self.live_tables.insert(file.number, file.clone());
        }
        self.snapshot_last_sequence = self.snapshot_last_sequence.or(edit.last_sequence);
        self.log_number = self.log_number.max(edit.log_number.unwrap_or(0));
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        let possible = |number: &u64| *number <= MAX_FILE_NUMBER;
        self.next_file_number =
            self.next_file_number.max(edit.next_file_number.filter(possible).unwrap_or(0));
        let possible = |number: &u64| *number <= MAX_SEQUENCE_NUMBER;
        self.last_sequence = self.last_sequence.max(edit.last_sequence.filter(possible).unwrap_or(0));
        Ok(())
    }

    /// True if all that log `number` held is in tables.
    pub(super) fn is_obsolete_log(&self, number: u64) -> bool {
        number < self.log_number && number != self.prev_log_number
    }

    /// True if table `number`, which holds `tally`, is not part of the database any more.
    ///
    /// A table that no edit speaks of, and that is older than the manifest, was replaced before the manifest was begun.
    /// Or it was being written then, and an edit that can't be read made it live: then it holds later writes than any
    /// table did, or what it replaced is among the `missing`.
    pub(super) fn is_obsolete_table(
        &self,
        number: u64,
        tally: &EntryStats,
        missing: &[NewFile],
        shop: &TableOutput<'_>,
    ) -> bool {
        if self.obsolete_tables.contains(&number) {
            return true;
        }
        let older = self.newest_manifest.is_some_and(|manifest| number < manifest);
        if self.live_tables.contains_key(&number) || !older {
            return false;
        }
        let newer_data = tally.max_sequence() > self.snapshot_last_sequence.unwrap_or(0);
        let replaces = missing.iter().any(|file| tally.overlaps_user_keys(file, &shop.order));
        !newer_data && !replaces
    }

    /// Tables that were live and are not in the directory.
    pub(super) fn missing_tables(&self, files: &[FileName]) -> Vec<NewFile> {
        self.live_tables
            .values()
            .filter(|file| find_table_file(file.number, files).is_none())
            .cloned()
            .collect()
    }
}
