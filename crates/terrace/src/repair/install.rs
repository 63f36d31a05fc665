//! Installation of the repaired database.
//!
//! ```text
//!   new tables, synced ──> manifest, synced ──> directory synced ──> CURRENT ──> files to lost/
//!                                                                      ^
//!                             crash before: unchanged, plus files that no manifest names
//!                             crash after:  repaired, plus files that no manifest names
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::table_output::TableOutput;
use crate::db::LostDirectory;
use crate::error::Result;
use crate::version::{CommitError, Manifest, VersionSet};

/// Contents of the new manifest.
#[derive(Default)]
pub(super) struct NewManifest {
    /// Every live table, with its level.
    pub(super) tables: Vec<(usize, NewFile)>,
    /// First log that the next open replays; None if there is none.
    pub(super) log_number: Option<u64>,
    pub(super) prev_log_number: u64,
    pub(super) last_sequence: SequenceNumber,
    /// Whether a block of the tables needs the marker that makes stock LevelDB refuse the database.
    pub(super) needs_marker: bool,
    /// Whether such blocks get the marker. They do not in a database of another program that reads
    /// them and expects LevelDB's comparator name.
    pub(super) can_have_marker: bool,
}

/// Writes a manifest with the given contents and makes CURRENT name it.
pub(super) fn write_manifest(
    output: &mut TableOutput<'_>,
    contents: NewManifest,
) -> std::result::Result<(), CommitError> {
    let number = output.new_file_number();
    let path = output.path(FileName::Manifest(number));
    let set = VersionSet { repaired_manifest: Some(number), ..VersionSet::empty(output.order.clone()) };
    let is_marked = contents.needs_marker && contents.can_have_marker;
    let edit = VersionEdit { new_files: contents.tables, ..VersionEdit::default() };
    let set = set.apply_edit(&edit, &path).map_err(CommitError::NotApplied)?;
    let log_number = match contents.log_number {
        Some(number) => number,
        None => create_empty_log(output).map_err(CommitError::NotApplied)?,
    };
    let numbers = VersionEdit {
        log_number: Some(log_number),
        prev_log_number: Some(contents.prev_log_number),
        next_file_number: Some(output.next_file_number),
        last_sequence: Some(contents.last_sequence),
        ..VersionEdit::default()
    };
    // Synced before the manifest exists. If CURRENT is lost later, a manifest with missing tables
    // is useless.
    output.env().fs.sync_dir(output.directory).map_err(|error| CommitError::NotApplied(error.into()))?;
    let mut manifest = Manifest::new(output.env(), output.directory, output.options.manifest_size_limit());
    manifest.rotate(number, set.snapshot_edit(is_marked), &numbers)
}

/// Creates a log without writes. A manifest without its log would look truncated.
fn create_empty_log(output: &mut TableOutput<'_>) -> Result<u64> {
    let number = output.new_file_number();
    let mut log = output.env().fs.create(&output.path(FileName::Log(number)))?;
    log.sync()?;
    log.close()?;
    Ok(number)
}

/// Returns the names of `files` and their new paths in `lost/`, which no entry there has.
pub(super) fn archive_paths(output: &TableOutput<'_>, files: &[FileName]) -> Result<Vec<(String, String)>> {
    let lost = LostDirectory::new(output.env(), output.directory);
    let names: BTreeSet<String> = files.iter().map(FileName::to_string).collect();
    let moves = names.into_iter().map(|name| lost.unused_path(&name).map(|path| (name, path)));
    moves.collect()
}

/// Returns the name of CURRENT and its new path in `lost/` if it is a directory, which no rename of
/// a new CURRENT can replace.
pub(super) fn unusable_current(output: &TableOutput<'_>) -> Result<Vec<(String, String)>> {
    let is_link = output.env().fs.is_symlink(&output.path(FileName::Current))?;
    let is_directory = !is_link && output.env().fs.is_dir(&output.path(FileName::Current))?;
    if is_directory { archive_paths(output, &[FileName::Current]) } else { Ok(Vec::new()) }
}

/// Moves files to `lost/`, durably. After an error, moves the others nevertheless.
pub(super) fn archive_files(env: &Env, directory: &Path, moves: &[(String, String)]) -> Result<()> {
    if moves.is_empty() {
        return Ok(());
    }
    let fs = &env.fs;
    let lost = LostDirectory::new(env, directory);
    lost.create()?;
    let mut moved = Ok(());
    for (from, to) in moves {
        moved = moved.and(fs.rename(&directory.join(from), &directory.join(to)));
    }
    moved?;
    lost.sync()?;
    Ok(fs.sync_dir(directory)?)
}
