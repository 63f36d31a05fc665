//! Making a damaged database open again, with all that can still be read of it.
//!
//! ```text
//!   what do the manifests say?                                        (known)
//!     all:     live tables stay on their levels     nothing:  every table and log that is not known to be old,
//!                                                             in order of sequence numbers, on level 6
//!   damaged tables and logs: what can be read, in new tables          (salvage, blocks)
//!   tables that may not stand side by side: merged                    (place, merge)
//!   manifest, CURRENT, and what was replaced goes to lost/            (settle)
//! ```
//!
//! Never changes a file of the database: new ones are written, and count all at once, when CURRENT names a new manifest.
//! Never removes one either. Entries keep their sequence numbers, so what is newer stays newer, and deletes stay, so what
//! they hide stays hidden. `docs/design/0002-repair.md` tells why it is so and what it costs.

mod blocks;
mod known;
mod merge;
mod piece;
mod place;
mod report;
mod salvage;
mod settle;
#[cfg(test)]
mod tests;
mod workshop;

pub use report::RepairReport;

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::{FileLock, LockMode};
use terrace_format::edit::{LEVELS, NewFile};
use terrace_format::filename::FileName;

use crate::db::{lock, lock_shared};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::verify::{Problem, stored, table_name};
use crate::version::{Recovered, set_current};
use known::{Facts, Known, learn};
use piece::Piece;
use place::Overlap;
use salvage::{Inspected, inspect, inspect_logs, rescue_log, rescue_table};
use settle::Outcome;
use workshop::Workshop;

/// How to repair.
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    /// Only say what would be done: nothing is written. Default: false.
    pub dry_run: bool,
}

/// Makes the database in directory `path` open again, with everything that can still be read of it.
///
/// A healthy database is left as it is. Otherwise what can be read of damaged tables and logs goes on in new tables;
/// where the manifest is lost, the order of writes is found again by their sequence numbers. Files that are replaced
/// are moved to the folder `lost` in the directory and not removed: remove it when the report satisfies you. What a
/// damaged block held is lost, and if it held the newest version of a key, or its delete, an older version that is
/// stored elsewhere shows again.
///
/// Reads every table and every log, and takes the database's lock: it is refused while the database is open, and no
/// other opener gets in meanwhile. Needs room for the tables that it writes, and memory for a memtable.
///
/// Durable when it returns. A crash meanwhile leaves the database as it was or repaired, and another repair goes on
/// from there.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if there is no database, or one with another comparator; [`ErrorKind::Io`] if it is
/// open ([`Error::is_locked`]), or a file can't be read or written: a failing read is never taken for damage, so a
/// failing disk wants to be copied first. After an error the database is as it was, or, if only moving files to `lost`
/// failed, repaired.
///
/// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: crate::ErrorKind::Io
///
/// ```
/// # use std::path::Path;
/// # use terrace::{Db, Env, Options, RepairOptions, repair};
/// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// options.env.fs.remove(Path::new("cities/CURRENT"))?;
/// let report = repair("cities", &options, &RepairOptions::default())?;
/// assert!(report.changed, "{report}");
/// assert!(Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn repair(path: impl AsRef<Path>, options: &Options, how: &RepairOptions) -> Result<RepairReport> {
    let (directory, options) = (path.as_ref(), &options.clipped());
    stored(options, directory)?;
    let _lock = claim(directory, options, how)?;
    // Listed again: now nobody else changes anything.
    let files = written_so(stored(options, directory)?, directory, options)?;
    let mut job = Job {
        shop: Workshop::new(directory, options, how.dry_run),
        files,
        report: RepairReport { dry_run: how.dry_run, ..RepairReport::default() },
        outcome: Outcome::default(),
        retired: Vec::new(),
        scrap: Vec::new(),
    };
    job.run()?;
    for action in &job.report.actions {
        if let Some(logger) = options.logger.as_ref().filter(|_| !how.dry_run) {
            logger.log(format_args!("Repair: {action}"));
        }
    }
    Ok(job.report)
}

fn claim(directory: &Path, options: &Options, how: &RepairOptions) -> Result<Option<Box<dyn FileLock>>> {
    if how.dry_run {
        return lock_shared(&options.env, directory);
    }
    lock(&options.env, directory, LockMode::Exclusive).map(Some)
}

/// Those of `files` whose names are spelled as an engine would: it would not find the others.
fn written_so(files: Vec<FileName>, directory: &Path, options: &Options) -> Result<Vec<FileName>> {
    let mut found = Vec::new();
    for file in files {
        if options.env.fs.exists(&directory.join(file.to_string()))? && !found.contains(&file) {
            found.push(file);
        }
    }
    found.sort_unstable();
    Ok(found)
}

struct Job<'a> {
    shop: Workshop<'a>,
    files: Vec<FileName>,
    report: RepairReport,
    outcome: Outcome,
    /// Files that are no part of the outcome.
    retired: Vec<FileName>,
    /// Tables that were made only to be merged.
    scrap: Vec<u64>,
}

impl Job<'_> {
    fn run(&mut self) -> Result<()> {
        let prepared = self.prepare();
        if prepared.is_err() {
            self.shop.clear();
        }
        match prepared? {
            Remedy::None => Ok(()),
            Remedy::Current(manifest) => self.name_manifest(manifest),
            Remedy::Manifest => self.finish(),
        }
    }

    /// Writes every new table, and finds out what is to be done.
    fn prepare(&mut self) -> Result<Remedy> {
        let used = self.files.iter().filter_map(FileName::number).max().unwrap_or(0);
        self.shop.next_file = used.saturating_add(1);
        match learn(&self.shop, &self.files, &mut self.report.problems)? {
            Known::Tree { recovered, named } => match self.behind(&recovered)? {
                true => {
                    let facts = Facts::read(
                        &self.shop,
                        &self.files,
                        Some(recovered.manifest),
                        &mut self.report.problems,
                    )?;
                    self.from_facts(&facts)
                }
                false => self.from_tree(&recovered, named),
            },
            Known::Facts(facts) => self.from_facts(&facts),
        }
    }

    /// True if the end of the manifest is lost without a trace: what it names is missing, and tables that it does not
    /// name can have taken the place.
    ///
    /// A log goes only after the edit that says that its writes are in a table; a table, after the one that replaces it.
    fn behind(&self, recovered: &Recovered) -> Result<bool> {
        let set = &recovered.set;
        let live: Vec<NewFile> = set.version.levels.iter().flatten().map(|file| file.to_edit()).collect();
        let is_stored = |file: &&NewFile| table_name(file.number, &self.files).is_some();
        let (_, missing): (Vec<&NewFile>, Vec<&NewFile>) = live.iter().partition(is_stored);
        let log_missing = set.log_number != 0 && !self.files.contains(&FileName::Log(set.log_number));
        if missing.is_empty() && !log_missing {
            return Ok(false);
        }
        let known: BTreeSet<u64> = live.iter().map(|file| file.number).collect();
        for table in self.files.iter().filter(|file| file.is_table()) {
            if table.number().is_none_or(|number| number <= recovered.manifest || known.contains(&number)) {
                continue;
            }
            let tally = inspect(&self.shop, *table)?.tally;
            if log_missing || missing.iter().any(|file| tally.overlaps(file, &self.shop.order)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The manifest says what is live, and where.
    fn from_tree(&mut self, recovered: &Recovered, named: bool) -> Result<Remedy> {
        let set = &recovered.set;
        self.shop.next_file = self.shop.next_file.max(recovered.next_file);
        self.outcome.guarded = set.guarded || !self.shop.options.compression.portable;
        let mut changes = false;
        if let Some(torn) = &recovered.torn {
            // It never counted, and the next open begins a new manifest.
            self.report.problems.push(Problem::of(FileName::Manifest(recovered.manifest), torn.clone()));
        }
        let mut levels: [Vec<Piece>; LEVELS] = Default::default();
        for (level, pieces) in levels.iter_mut().enumerate() {
            for file in &set.version.levels[level] {
                changes |= self.live_table(&file.to_edit(), pieces)?;
            }
        }
        let newest = levels.iter().flatten().map(|piece| piece.newest).max().unwrap_or(0);
        changes |= levels
            .iter()
            .enumerate()
            .any(|(level, pieces)| self.groups(level, pieces.clone()).iter().any(|group| group.len() > 1));
        let logs = self.needed_logs(|number| number >= set.log_number || number == set.prev_log_number);
        let seen = inspect_logs(&self.shop, &logs, recovered.ours, set.last_sequence)?;
        if newest > set.last_sequence.max(seen.last) {
            let what =
                format!("last sequence number {}, expected {newest}, as in a table", set.last_sequence);
            self.note(FileName::Manifest(recovered.manifest), what);
            changes = true;
        }
        self.outcome.last_sequence = newest.max(set.last_sequence);
        let damaged = !seen.damage.is_empty();
        self.report.problems.extend(seen.damage);
        // A new manifest is one of Terrace, which has rules of its own for logs.
        if damaged || (changes && !recovered.ours) {
            self.outcome.last_sequence = self.outcome.last_sequence.max(seen.last);
            levels[0].extend(self.turn_logs(&logs)?);
            changes |= !logs.is_empty();
        } else {
            self.report.logs_kept = logs.len() as u64;
            self.outcome.log_number = Some(set.log_number);
            self.outcome.prev_log_number = set.prev_log_number;
        }
        if !changes {
            self.report.tables_kept = levels.iter().map(|pieces| pieces.len() as u64).sum();
            return Ok(if named { Remedy::None } else { Remedy::Current(recovered.manifest) });
        }
        for (level, pieces) in levels.into_iter().enumerate() {
            self.place(level, self.groups(level, pieces))?;
        }
        Ok(Remedy::Manifest)
    }

    /// Takes in a table that the manifest names. True if that is not simply to leave it.
    fn live_table(&mut self, file: &NewFile, pieces: &mut Vec<Piece>) -> Result<bool> {
        let Some(name) = table_name(file.number, &self.files) else {
            self.note(FileName::Table(file.number), "missing, and the manifest says that it is live");
            self.act(format!("{}: what only it held is lost", FileName::Table(file.number)));
            self.report.tables_missing += 1;
            return Ok(true);
        };
        let seen = inspect(&self.shop, name)?;
        if !seen.damage.is_empty() {
            pieces.extend(self.salvage(name, seen)?);
            return Ok(true);
        }
        let exceeds = seen.tally.entries > 0 && seen.tally.exceeds(file, &self.shop.order);
        let right = file.size == seen.size && !exceeds;
        let stays = if right {
            file.clone()
        } else {
            seen.tally.file(file.number, seen.size).unwrap_or(file.clone())
        };
        if !right {
            self.note(name, format!("holds {stays:?}, expected {file:?} as in the manifest"));
            self.act(format!("{name}: the manifest takes its size and its keys from it"));
        }
        pieces.push(Piece::new(stays, &seen.tally, name, true));
        Ok(!right)
    }

    /// Nobody knows what is live: all that is not known to be old.
    fn from_facts(&mut self, facts: &Facts) -> Result<Remedy> {
        self.shop.next_file = self.shop.next_file.max(facts.next_file);
        self.outcome.guarded = facts.guarded || !self.shop.options.compression.portable;
        self.outcome.last_sequence = facts.last_sequence;
        let missing = facts.missing(&self.files);
        let tables: Vec<FileName> = self.files.iter().copied().filter(FileName::is_table).collect();
        let mut pieces = Vec::new();
        for table in tables {
            pieces.extend(self.some_table(table, facts, &missing)?);
        }
        for number in self.needed_logs(|number| facts.is_old_log(number)) {
            self.act(format!("{}: old, its writes are in tables", FileName::Log(number)));
            self.retired.push(FileName::Log(number));
        }
        let logs = self.needed_logs(|number| !facts.is_old_log(number));
        let seen = inspect_logs(&self.shop, &logs, false, 0)?;
        self.report.problems.extend(seen.damage);
        pieces.extend(self.turn_logs(&logs)?);
        let newest = pieces.iter().map(|piece| piece.newest).max().unwrap_or(0);
        self.outcome.last_sequence = self.outcome.last_sequence.max(newest).max(seen.last);
        // Versions of a key in two tables of a level would be in no order that both engines follow.
        let groups = place::apart(pieces, &self.shop.order, Overlap::UserKeys);
        self.place(LEVELS - 1, groups)?;
        Ok(Remedy::Manifest)
    }

    /// Takes in a table that nothing is known of, or not much.
    fn some_table(&mut self, name: FileName, facts: &Facts, missing: &[NewFile]) -> Result<Vec<Piece>> {
        let number = name.number().unwrap_or(0);
        let seen = inspect(&self.shop, name)?;
        if facts.is_old_table(number, &seen.tally, missing, &self.shop) {
            self.act(format!("{name}: old, its entries are in other tables"));
            self.retired.push(name);
            return Ok(Vec::new());
        }
        if seen.disorder && seen.lost == 0 && !facts.named {
            let order = self.shop.options.comparator.name();
            return Err(Error::InvalidArgument(format!(
                "the keys of {name} do not rise in the order of {order}: was the database made with another?"
            )));
        }
        self.outcome.guarded |= !seen.portable;
        // A reader that looks for the number finds the table with the present ending.
        let shadowed = table_name(number, &self.files) != Some(name);
        if seen.damage.is_empty() && seen.tally.entries > 0 && !shadowed {
            let file = seen.tally.file(number, seen.size)?;
            return Ok(vec![Piece::new(file, &seen.tally, name, true)]);
        }
        self.salvage(name, seen)
    }

    /// Copies what can be read of a damaged table.
    fn salvage(&mut self, name: FileName, seen: Inspected) -> Result<Vec<Piece>> {
        self.report.problems.extend(seen.damage);
        let rescued = rescue_table(&mut self.shop, name)?;
        let lost = match (seen.lost, seen.unindexed) {
            (0, false) => "no block lost".to_owned(),
            (0, true) => "its blocks had to be searched".to_owned(),
            (1, _) => "1 block lost".to_owned(),
            (n, _) => format!("{n} blocks lost"),
        };
        self.act(format!("{name}: {lost}, {} entries go on in a new table", rescued.entries));
        self.report.tables_salvaged += 1;
        self.report.blocks_lost += seen.lost;
        self.retired.push(name);
        Ok(rescued.pieces)
    }

    fn needed_logs(&self, is_needed: impl Fn(u64) -> bool) -> Vec<u64> {
        let number = |file: &FileName| if let FileName::Log(number) = *file { Some(number) } else { None };
        self.files.iter().filter_map(number).filter(|&number| is_needed(number)).collect()
    }

    /// Makes tables of logs.
    fn turn_logs(&mut self, logs: &[u64]) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        for &number in logs {
            let rescued = rescue_log(&mut self.shop, number)?;
            self.act(format!("{}: {} entries go on in a table", FileName::Log(number), rescued.entries));
            pieces.extend(rescued.pieces);
            self.report.logs_salvaged += 1;
            self.retired.push(FileName::Log(number));
        }
        Ok(pieces)
    }

    /// Which tables of a level may stand as they are, and which must be merged.
    fn groups(&self, level: usize, pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
        match level {
            0 => place::by_age(pieces, &self.shop.order),
            _ => place::apart(pieces, &self.shop.order, Overlap::InternalKeys),
        }
    }

    /// Puts tables on a level, those of a group as one run.
    fn place(&mut self, level: usize, groups: Vec<Vec<Piece>>) -> Result<()> {
        for group in groups {
            let run = if group.len() > 1 { self.merge(level, &group)? } else { group };
            self.report.tables_kept += run.iter().filter(|piece| piece.stored).count() as u64;
            self.outcome.tables.extend(run.into_iter().map(|piece| (level, piece.file)));
        }
        Ok(())
    }

    fn merge(&mut self, level: usize, group: &[Piece]) -> Result<Vec<Piece>> {
        let names: BTreeSet<String> = group.iter().map(|piece| piece.from.to_string()).collect();
        let names: Vec<String> = names.into_iter().collect();
        self.act(format!("merge into level {level}, by sequence number: {}", names.join(", ")));
        let merged = merge::merge(&mut self.shop, group)?;
        let (stored, made): (Vec<&Piece>, Vec<&Piece>) = group.iter().partition(|piece| piece.stored);
        self.report.tables_merged += stored.len() as u64;
        self.retired.extend(stored.iter().map(|piece| piece.from));
        self.scrap.extend(made.iter().map(|piece| piece.file.number));
        Ok(merged)
    }

    /// All that is wrong is CURRENT.
    fn name_manifest(&mut self, manifest: u64) -> Result<()> {
        self.act(format!("CURRENT names {}, which is whole", FileName::Manifest(manifest)));
        self.report.changed = true;
        if !self.shop.dry_run {
            set_current(self.shop.env(), self.shop.directory, manifest)?;
        }
        Ok(())
    }

    /// Makes the outcome count.
    fn finish(&mut self) -> Result<()> {
        self.act("a new manifest says what is live".to_owned());
        self.report.changed = true;
        self.retired.extend(self.files.iter().filter(|file| matches!(file, FileName::Manifest(_))));
        self.report.moved = settle::moves(&self.shop, &self.retired)?;
        if self.shop.dry_run {
            return Ok(());
        }
        settle::install(&mut self.shop, std::mem::take(&mut self.outcome))?;
        let scrap = std::mem::take(&mut self.scrap);
        self.shop.scrap(scrap);
        settle::set_aside(&self.shop, &self.report.moved)
    }

    fn note(&mut self, file: FileName, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), at: None, what: what.into() });
    }

    fn act(&mut self, action: String) {
        self.report.actions.push(action);
    }
}

/// What a database needs.
enum Remedy {
    /// It is healthy.
    None,
    /// CURRENT, naming this manifest.
    Current(u64),
    /// A new manifest.
    Manifest,
}
