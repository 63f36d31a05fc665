//! Copy of a captured database: a plain LevelDB directory with the state of one moment.
//!
//! ```text
//!   1  tables                linked or copied
//!   2  logs                  copied up to their captured ends, each synced
//!   3  MANIFEST              of the captured version, with the close mark of the last log; synced
//!   4  sync of the directory
//!   5  CURRENT, sync of the directory
//! ```
//!
//! CURRENT is last. A directory without it is no database for LevelDB and Terrace, so an
//! interrupted copy never opens. All names are durable before CURRENT exists: otherwise a power cut
//! could leave CURRENT and remove a table or a log.

use std::path::{Path, PathBuf};

use terrace_env::{Env, RandomAccessFile};
use terrace_format::compress::SNAPPY;
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::table::TableOptions;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::file_copy::{HeldFile, copy_file, link_file};
use super::progress::Progress;
use crate::compaction::flush::{self, FlushPlace};
use crate::db::{CapturedLog, DatabaseCapture};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::sync::Arc;
use crate::version::{ClosedLog, LogWriteMethod, Manifest};

/// Table of the source.
pub(super) struct SourceTable {
    pub(super) path: PathBuf,
    /// Name in both directories.
    pub(super) name: FileName,
    pub(super) size: u64,
    /// Open file of a follower. Its writer may have removed the name.
    held: Option<Arc<dyn RandomAccessFile>>,
}

impl SourceTable {
    /// Copies the open file durably to `to`, if the error `reason` says that its name is gone.
    pub(super) fn copy_held(
        &self,
        reason: Error,
        env: &Env,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        match (&self.held, reason) {
            (Some(held), Error::Io(error)) if error.is_not_found() => {
                let mut file = HeldFile { file: Arc::clone(held), position: 0 };
                copy_file(env, &mut file, &self.path, to, self.size, progress).map(drop)
            }
            (_, reason) => Err(reason),
        }
    }
}

/// Copy of one capture into an empty directory.
pub(super) struct DatabaseCopy<'a> {
    /// Env and directory of the database.
    pub(super) source_env: &'a Env,
    pub(super) source: &'a Path,
    /// Options of the database, for the tables of replayed logs.
    pub(super) options: &'a Options,
    /// Env and directory of the copy.
    pub(super) env: &'a Env,
    pub(super) target: &'a Path,
    pub(super) capture: DatabaseCapture,
}

impl DatabaseCopy<'_> {
    /// Executes all steps. `store_table` links or copies a table to the directory, and makes its
    /// contents durable.
    pub(super) fn run(
        mut self,
        progress: &mut Progress<'_>,
        store_table: &mut dyn FnMut(&SourceTable, &mut Progress<'_>) -> Result<()>,
    ) -> Result<()> {
        let files = self.capture.version_set.version.levels.iter().flatten();
        let tables: Vec<_> = files.map(|file| (file.number, file.size)).collect();
        progress.add_expected(tables.iter().fold(0, |sum, table| table.1.saturating_add(sum)));
        progress.add_expected(self.capture.logs.iter().map(|log| log.len).fold(0, u64::saturating_add));
        let greatest =
            tables.iter().map(|table| table.0).chain(self.capture.logs.iter().map(|log| log.number));
        // LevelDB has no file number 0.
        let unused = greatest.max().unwrap_or(0).saturating_add(1);
        self.capture.next_file_number = self.capture.next_file_number.max(unused);
        for (number, size) in tables {
            let held = self.capture.held_tables.remove(&number);
            store_table(&SourceTable { held, ..self.find_table(number, size)? }, progress)?;
        }
        if self.capture.logs.is_empty() {
            self.flush_memtables()?;
            self.create_empty_log()?;
        }
        let logs = std::mem::take(&mut self.capture.logs);
        let (Some(first), Some(last)) = (logs.first(), logs.last()) else { return Ok(()) };
        let first = first.number;
        let closed = ClosedLog { number: last.number, len: last.len };
        if mutant!(CheckpointCurrentFirst) {
            self.write_manifest(first, closed)?;
            return self.copy_logs(logs, progress).map(drop);
        }
        let closed = self.copy_logs(logs, progress)?.unwrap_or(closed);
        self.write_manifest(first, closed)
    }

    /// Finds the file of table `number`, which may have the extension of an older LevelDB.
    fn find_table(&self, number: u64, size: u64) -> Result<SourceTable> {
        let name = FileName::Table(number);
        let path = self.source.join(name.to_string());
        let old_name = FileName::OldTable(number);
        let old_path = self.source.join(old_name.to_string());
        if !self.source_env.fs.exists(&path)? && self.source_env.fs.exists(&old_path)? {
            return Ok(SourceTable { path: old_path, name: old_name, size, held: None });
        }
        Ok(SourceTable { path, name, size, held: None })
    }

    /// Copies the captured parts of the logs. Returns the last one as a closed log.
    fn copy_logs(&self, logs: Vec<CapturedLog>, progress: &mut Progress<'_>) -> Result<Option<ClosedLog>> {
        let mut closed = None;
        for mut log in logs {
            let name = FileName::Log(log.number).to_string();
            let from = self.source.join(&name);
            let to = self.target.join(&name);
            let copied = copy_file(self.env, &mut *log.file, &from, &to, log.len, progress)?;
            closed = Some(ClosedLog { number: log.number, len: copied.size });
        }
        Ok(closed)
    }

    /// Writes the memtables of a read-only database to tables of level 0: the state that its reads
    /// see. A copy of its logs could be replayed differently, if they are damaged.
    fn flush_memtables(&mut self) -> Result<()> {
        let version_set = &mut self.capture.version_set;
        let stored = version_set.version.codec(self.source_env, self.source)?;
        version_set.keeps_comparator_name =
            !version_set.needs_marker() && stored.is_some_and(|codec| codec.needs_marker);
        let comparator = InternalComparator::new(Arc::clone(&self.options.comparator));
        let codec = stored.unwrap_or(&SNAPPY);
        let options = TableOptions { codec, ..self.options.table_options(&comparator) };
        let mut edit = VersionEdit::default();
        for memtable in std::mem::take(&mut self.capture.memtables) {
            let number = self.capture.next_file_number;
            let place = FlushPlace { env: self.env, directory: self.target, number, options: &options };
            // A follower that catches up meanwhile adds later writes to the same memtable.
            let table = flush::build_table(&memtable, self.capture.last_sequence, place)?;
            if let Some(table) = table {
                self.capture.next_file_number += 1;
                let marked = table.needs_marker.then_some(number);
                edit.new_files.push((0, table.file));
                self.capture.version_set = self.capture.version_set.apply_edit(&edit, self.target)?;
                self.capture.version_set.mark_tables(marked);
                edit.new_files.clear();
            }
        }
        Ok(())
    }

    /// Creates the log that the MANIFEST names. It is missing data if that does not exist.
    fn create_empty_log(&mut self) -> Result<()> {
        let number = self.capture.next_file_number;
        self.capture.next_file_number += 1;
        let path = self.target.join(FileName::Log(number).to_string());
        let mut file = self.env.fs.create(&path)?;
        file.sync()?;
        file.close()?;
        let file = self.env.fs.open_sequential(&path)?;
        self.capture.logs.push(CapturedLog { number, len: 0, file });
        Ok(())
    }

    /// Executes steps 3 to 5. `first_log` is the oldest log.
    fn write_manifest(&self, first_log: u64, closed: ClosedLog) -> Result<()> {
        let version_set = &self.capture.version_set;
        let number = self.capture.next_file_number;
        let edit = VersionEdit {
            log_number: Some(first_log),
            prev_log_number: Some(0),
            next_file_number: Some(number.saturating_add(1)),
            last_sequence: Some(version_set.last_sequence),
            ..VersionEdit::default()
        };
        Manifest::new(self.env, self.target, 0).with_log_method(LogWriteMethod::Appended).create_closed(
            number,
            &version_set.snapshot_edit(version_set.needs_marker()),
            &edit,
            closed,
        )
    }
}

/// Links `table` into the directory `target` of the same env, or copies it.
pub(super) fn link_or_copy_table(
    env: &Env,
    table: &SourceTable,
    target: &Path,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let to = target.join(table.name.to_string());
    let linked = link_file(env, &table.path, &to);
    let stored = linked.and_then(|is_linked| {
        if is_linked {
            progress.add(table.size);
            return Ok(());
        }
        let mut from = env.fs.open_sequential(&table.path).map_err(Error::from)?;
        copy_file(env, &mut *from, &table.path, &to, table.size, progress).map(drop)
    });
    stored.or_else(|error| table.copy_held(error, env, &to, progress))
}
