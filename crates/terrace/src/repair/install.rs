//! Making the outcome count.
//!
//! ```text
//!   new tables, synced ──> manifest, synced ──> directory synced ──> CURRENT ──> what it replaces to lost/
//!                                                                      ^
//!                                    before: as it was, and some files that nothing names
//!                                    behind: repaired, and some files that nothing names
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::table_output::TableOutput;
use crate::error::Result;
use crate::version::{CommitError, Manifest, VersionSet};

/// Where files go that are not part of the database any more.
const LOST_DIR: &str = "lost";

/// What the database is from now on.
#[derive(Default)]
pub(super) struct NewManifest {
    /// Every live table, with its level.
    pub(super) tables: Vec<(usize, NewFile)>,
    /// The first log that the next open replays; None if there is none.
    pub(super) log_number: Option<u64>,
    pub(super) prev_log_number: u64,
    pub(super) last_sequence: SequenceNumber,
    /// Whether stock LevelDB must be kept away.
    pub(super) is_incompatible: bool,
}

/// Writes a manifest that says `outcome`, and makes CURRENT name it.
pub(super) fn write_manifest(
    shop: &mut TableOutput<'_>,
    outcome: NewManifest,
) -> std::result::Result<(), CommitError> {
    let number = shop.new_file_number();
    let path = shop.path(FileName::Manifest(number));
    let mut set = VersionSet::empty(shop.order.clone());
    set.is_incompatible = outcome.is_incompatible;
    let edit = VersionEdit { new_files: outcome.tables, ..VersionEdit::default() };
    let set = set.apply_edit(&edit, &path).map_err(CommitError::NotApplied)?;
    let log_number = match outcome.log_number {
        Some(number) => number,
        None => create_empty_log(shop).map_err(CommitError::NotApplied)?,
    };
    let numbers = VersionEdit {
        log_number: Some(log_number),
        prev_log_number: Some(outcome.prev_log_number),
        next_file_number: Some(shop.next_file_number),
        last_sequence: Some(outcome.last_sequence),
        ..VersionEdit::default()
    };
    // Before there is a manifest: should CURRENT be lost, one whose tables are not all there says nothing.
    shop.env().fs.sync_dir(shop.directory).map_err(|error| CommitError::NotApplied(error.into()))?;
    let mut manifest = Manifest::new(shop.env(), shop.directory, shop.options.base_file_size());
    manifest.rotate(number, set.snapshot_edit(), &numbers)
}

/// Makes a log without writes: a manifest whose log is missing would look as if its end was lost.
fn create_empty_log(shop: &mut TableOutput<'_>) -> Result<u64> {
    let number = shop.new_file_number();
    let mut log = shop.env().fs.create(&shop.path(FileName::Log(number)))?;
    log.sync()?;
    log.close()?;
    Ok(number)
}

/// The old and new names of `files` when they are set aside: no file in `lost/` is replaced.
pub(super) fn archive_paths(shop: &TableOutput<'_>, files: &[FileName]) -> Result<Vec<(String, String)>> {
    let fs = &shop.env().fs;
    let mut moves = Vec::new();
    for name in files.iter().map(FileName::to_string).collect::<BTreeSet<_>>() {
        let mut to = format!("{LOST_DIR}/{name}");
        for copy in 1u64.. {
            if !fs.exists(&shop.directory.join(&to))? {
                break;
            }
            to = format!("{LOST_DIR}/{name}.{copy}");
        }
        moves.push((name, to));
    }
    Ok(moves)
}

/// Sets files aside, durably.
pub(super) fn archive_files(shop: &TableOutput<'_>, moves: &[(String, String)]) -> Result<()> {
    if moves.is_empty() {
        return Ok(());
    }
    let (fs, directory) = (&shop.env().fs, shop.directory);
    let lost = directory.join(LOST_DIR);
    if !fs.exists(&lost)? {
        fs.create_dir(&lost)?;
        fs.sync_dir(directory)?;
    }
    for (from, to) in moves {
        fs.rename(&directory.join(from), &directory.join(Path::new(to)))?;
    }
    fs.sync_dir(&lost)?;
    Ok(fs.sync_dir(directory)?)
}
