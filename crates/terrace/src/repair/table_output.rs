//! Where new tables are made, or only counted if nothing may be written.
//!
//! A dry run takes the same numbers and meets the same entries as a real one, so that its report is the same.

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

/// What new tables are made with.
pub(super) struct TableOutput<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a Options,
    pub(super) order: InternalComparator,
    pub(super) dry_run: bool,
    /// The next number that no file has had.
    pub(super) next_file_number: u64,
    table_options: TableOptions,
    /// The tables made so far.
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

    /// A number that no file has had.
    pub(super) fn new_file_number(&mut self) -> u64 {
        self.next_file_number += 1;
        self.next_file_number - 1
    }

    /// Begins a table for entries that were in `from`.
    pub(super) fn start_table(&mut self, from: FileName) -> Result<UnfinishedTable> {
        let number = self.new_file_number();
        let table = if self.dry_run {
            None
        } else {
            self.created_tables.push(number);
            Some(TableWriter::create(self.env(), self.directory, number, &self.table_options)?)
        };
        Ok(UnfinishedTable { writer: table, number, source: from, stats: EntryStats::default() })
    }

    /// Removes every table made so far.
    pub(super) fn remove_created_tables(&mut self) {
        let made = std::mem::take(&mut self.created_tables);
        self.remove_tables(made);
    }

    /// Removes tables that were made and are not needed.
    pub(super) fn remove_tables(&self, tables: impl IntoIterator<Item = u64>) {
        if !self.dry_run {
            for number in tables {
                // A leftover that no manifest names is removed at the next open.
                let _ = self.env().fs.remove(&self.path(FileName::Table(number)));
            }
        }
    }
}

/// A table in the making. In a dry run only its numbers.
pub(super) struct UnfinishedTable {
    writer: Option<TableWriter>,
    number: u64,
    source: FileName,
    stats: EntryStats,
}

impl UnfinishedTable {
    /// Adds an entry, but for one that is there already. False if its key is below the last: then it is not added.
    pub(super) fn add(&mut self, order: &InternalComparator, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.stats.entries > 0 {
            match order.compare(self.stats.largest_key(), key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Greater => return Ok(false),
            }
        }
        if let Some(table) = &mut self.writer {
            table.add(key, value)?;
        }
        self.stats.add(key);
        Ok(true)
    }

    /// About how many bytes it has by now.
    pub(super) fn size(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::size_estimate)
    }

    /// How many entries it has by now.
    pub(super) fn entries(&self) -> u64 {
        self.stats.entries
    }

    /// Makes the table durable, all but its name. None if it has no entries.
    pub(super) fn finish(self) -> Result<Option<RecoveredTable>> {
        let written = self.writer.map(TableWriter::finish).transpose()?.flatten();
        if self.stats.entries == 0 {
            return Ok(None);
        }
        let size = written.map_or(0, |table| table.file.size);
        let file = self.stats.to_new_file(self.number, size)?;
        Ok(Some(RecoveredTable::new(file, &self.stats, self.source, false)))
    }
}
