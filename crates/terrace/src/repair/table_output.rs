//! Creation of new tables. A dry run only counts their entries.
//!
//! A dry run allocates the same file numbers and sees the same entries as a real run, so both
//! produce the same report.

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::table::TableOptions;

use super::recovered_table::{EntryStats, RecoveredTable};
use crate::error::Result;
use crate::options::Options;
use crate::table::TableWriter;

/// Destination and settings of new tables.
pub(super) struct TableOutput<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a Options,
    pub(super) order: InternalComparator,
    pub(super) dry_run: bool,
    /// Next unused file number.
    pub(super) next_file_number: u64,
    table_options: TableOptions,
    /// Tables created so far.
    created_tables: Vec<u64>,
}

impl<'a> TableOutput<'a> {
    pub(super) fn new(directory: &'a Path, options: &'a Options, dry_run: bool) -> TableOutput<'a> {
        let order = InternalComparator::new(options.comparator.clone());
        let table_options = options.table_options(&order);
        TableOutput {
            directory,
            options,
            order,
            dry_run,
            next_file_number: 1,
            table_options,
            created_tables: Vec::new(),
        }
    }

    pub(super) fn env(&self) -> &'a Env {
        &self.options.env
    }

    pub(super) fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.to_string())
    }

    /// Returns an unused file number.
    pub(super) fn new_file_number(&mut self) -> u64 {
        self.next_file_number += 1;
        self.next_file_number - 1
    }

    /// Starts a table for the entries of `source`.
    pub(super) fn start_table(&mut self, source: FileName) -> Result<UnfinishedTable> {
        let number = self.new_file_number();
        let writer = if self.dry_run {
            None
        } else {
            self.created_tables.push(number);
            Some(TableWriter::create(self.env(), self.directory, number, &self.table_options)?)
        };
        Ok(UnfinishedTable { writer, number, source, stats: EntryStats::default() })
    }

    /// Removes every table created so far.
    pub(super) fn remove_created_tables(&mut self) {
        let created = std::mem::take(&mut self.created_tables);
        self.remove_tables(created);
    }

    /// Removes tables that were created and are not needed.
    pub(super) fn remove_tables(&self, tables: impl IntoIterator<Item = u64>) {
        if !self.dry_run {
            for number in tables {
                // Errors are ignored: the next open removes files that no manifest names.
                let _ = self.env().fs.remove(&self.path((self.table_options.file_name)(number)));
            }
        }
    }
}

/// A table that is being written. A dry run keeps only its counts.
pub(super) struct UnfinishedTable {
    writer: Option<TableWriter>,
    number: u64,
    source: FileName,
    stats: EntryStats,
}

impl UnfinishedTable {
    /// Adds an entry, unless it is a duplicate of the previous one. Returns false without adding it
    /// if its key is smaller than the previous one.
    pub(super) fn add(&mut self, order: &InternalComparator, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.stats.entries > 0 {
            match order.compare(self.stats.largest_key(), key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Greater => return Ok(false),
            }
        }
        if let Some(writer) = &mut self.writer {
            writer.add(key, value)?;
        }
        self.stats.add(key);
        Ok(true)
    }

    /// Estimated size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::size_estimate)
    }

    /// Number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.stats.entries
    }

    /// Finishes and syncs the file; its directory entry is not synced. Returns None if the table is
    /// empty.
    pub(super) fn finish(self) -> Result<Option<RecoveredTable>> {
        let written = self.writer.map(TableWriter::finish).transpose()?.flatten();
        if self.stats.entries == 0 {
            return Ok(None);
        }
        let size = written.as_ref().map_or(0, |table| table.file.size);
        let needs_marker = written.is_some_and(|table| table.needs_marker);
        let file = self.stats.to_new_file(self.number, size)?;
        Ok(Some(RecoveredTable::new(file, &self.stats, self.source, false, needs_marker)))
    }
}
