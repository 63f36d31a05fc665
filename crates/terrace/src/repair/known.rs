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

use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::filename::FileName;
use terrace_format::key::{MAX_SEQUENCE, Sequence};
use terrace_format::log::{Item, LogReader};

use super::piece::Tally;
use super::workshop::Workshop;
use crate::error::{Error, Result};
use crate::stream::{Reading, file_error};
use crate::verify::{Problem, table_name};
use crate::version::{MAX_FILE_NUMBER, Recovered, is_guarded, read_current};

/// What is known about the tree of tables.
pub(super) enum Known {
    /// All of it, and whether CURRENT says so.
    Tree { recovered: Box<Recovered>, named: bool },
    /// Only facts.
    Facts(Facts),
}

/// Reads CURRENT and the manifests among `files`. What is wrong with them goes to `problems`.
pub(super) fn learn(shop: &Workshop<'_>, files: &[FileName], problems: &mut Vec<Problem>) -> Result<Known> {
    let (env, directory) = (shop.env(), shop.directory);
    let named = match read_current(env, directory) {
        Ok(number) => Some(number),
        Err(error) => {
            problems.push(Problem::of(FileName::Current, bearable(error)?));
            None
        }
    };
    let newest = files.iter().filter_map(manifest_number).max();
    let Some(number) = named.or(newest) else { return Ok(Known::Facts(Facts::default())) };
    let name = FileName::Manifest(number);
    match Recovered::read_manifest(env, directory, number, &shop.order) {
        Ok(recovered) if stands(&recovered, files, named.is_some()) => {
            return Ok(Known::Tree { recovered: Box::new(recovered), named: named.is_some() });
        }
        Ok(recovered) => {
            let missing = || {
                Error::corruption(
                    &shop.path(name),
                    None,
                    "names a table that is missing, and CURRENT is no witness",
                )
            };
            problems.push(Problem::of(name, recovered.torn.unwrap_or_else(missing)));
        }
        Err(error) => problems.push(Problem::of(name, bearable(error)?)),
    }
    Facts::read(shop, files, named, problems).map(Known::Facts)
}

/// True if `recovered` can be all that there is to know.
fn stands(recovered: &Recovered, files: &[FileName], named: bool) -> bool {
    let set = &recovered.set;
    let whole = set.version.levels.iter().flatten().all(|file| table_name(file.number, files).is_some());
    (named || whole) && recovered.lost_edit(files).is_none()
}

/// Damage and absence are what a repair is for; other errors are not.
pub(super) fn bearable(error: Error) -> Result<Error> {
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
pub(super) struct Facts {
    /// Tables that were live by the last edit that speaks of them.
    pub(super) live: BTreeMap<u64, NewFile>,
    /// Tables that are not, for good: a number is used once.
    gone: BTreeSet<u64>,
    /// The newest manifest whose snapshot can be read: it names every table that was live when it was begun.
    manifest: Option<u64>,
    /// The greatest number in a table at that time.
    at_start: Option<Sequence>,
    log_number: u64,
    prev_log_number: u64,
    pub(super) next_file: u64,
    pub(super) last_sequence: Sequence,
    pub(super) guarded: bool,
    /// True if the comparator is known to be the right one.
    pub(super) named: bool,
}

impl Facts {
    /// Reads every manifest, the oldest first, up to the one that CURRENT names: a later one never counted.
    pub(super) fn read(
        shop: &Workshop<'_>,
        files: &[FileName],
        named: Option<u64>,
        problems: &mut Vec<Problem>,
    ) -> Result<Facts> {
        let counts = |number: &u64| named.is_none_or(|named| *number <= named);
        let numbers: BTreeSet<u64> = files.iter().filter_map(manifest_number).filter(counts).collect();
        let mut facts = Facts::default();
        for number in numbers {
            facts.manifest(shop, number, problems)?;
        }
        Ok(facts)
    }

    fn manifest(&mut self, shop: &Workshop<'_>, number: u64, problems: &mut Vec<Problem>) -> Result<()> {
        let name = FileName::Manifest(number);
        let path = shop.path(name);
        let mut records = LogReader::new(Reading(shop.env().fs.open_sequential(&path)?));
        while let Some(item) = records.next().map_err(|error| file_error(&path, error))? {
            let flaw = match item {
                Item::Damage { flaw, .. } => flaw,
                Item::Record { offset, data } => match VersionEdit::decode(data) {
                    Ok(edit) => {
                        self.take(shop, (offset == 0).then_some(number), &edit)?;
                        continue;
                    }
                    Err(flaw) => flaw.moved(offset),
                },
            };
            let problem = Problem::of(name, Error::flaw(&path, &flaw));
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Ok(())
    }

    /// Takes in an edit; the first of a manifest is a snapshot.
    fn take(&mut self, shop: &Workshop<'_>, snapshot_of: Option<u64>, edit: &VersionEdit) -> Result<()> {
        if let Some(stored) = &edit.comparator {
            self.guarded = is_guarded(stored, &shop.order)?;
            self.named = true;
        }
        if let Some(number) = snapshot_of {
            self.gone.extend(std::mem::take(&mut self.live).into_keys());
            self.manifest = Some(number);
            self.at_start = None;
        }
        for (_, number) in &edit.deleted {
            self.live.remove(number);
            self.gone.insert(*number);
        }
        for (_, file) in &edit.added {
            self.gone.remove(&file.number);
            self.live.insert(file.number, file.clone());
        }
        self.at_start = self.at_start.or(edit.last_sequence);
        self.log_number = self.log_number.max(edit.log_number.unwrap_or(0));
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        let possible = |number: &u64| *number <= MAX_FILE_NUMBER;
        self.next_file = self.next_file.max(edit.next_file.filter(possible).unwrap_or(0));
        let possible = |number: &u64| *number <= MAX_SEQUENCE;
        self.last_sequence = self.last_sequence.max(edit.last_sequence.filter(possible).unwrap_or(0));
        Ok(())
    }

    /// True if all that log `number` held is in tables.
    pub(super) fn is_old_log(&self, number: u64) -> bool {
        number < self.log_number && number != self.prev_log_number
    }

    /// True if table `number`, which holds `tally`, is not part of the database any more.
    ///
    /// A table that no edit speaks of, and that is older than the manifest, was replaced before the manifest was begun.
    /// Or it was being written then, and an edit that can't be read made it live: then it holds later writes than any
    /// table did, or what it replaced is among the `missing`.
    pub(super) fn is_old_table(
        &self,
        number: u64,
        tally: &Tally,
        missing: &[NewFile],
        shop: &Workshop<'_>,
    ) -> bool {
        if self.gone.contains(&number) {
            return true;
        }
        let older = self.manifest.is_some_and(|manifest| number < manifest);
        if self.live.contains_key(&number) || !older {
            return false;
        }
        let newer_data = tally.newest() > self.at_start.unwrap_or(0);
        let replaces = missing.iter().any(|file| tally.overlaps(file, &shop.order));
        !newer_data && !replaces
    }

    /// Tables that were live and are not in the directory.
    pub(super) fn missing(&self, files: &[FileName]) -> Vec<NewFile> {
        self.live.values().filter(|file| table_name(file.number, files).is_none()).cloned().collect()
    }
}
