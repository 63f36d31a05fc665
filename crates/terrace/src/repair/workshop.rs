//! Where new tables are made, or only counted if nothing may be written.
//!
//! A dry run takes the same numbers and meets the same entries as a real one, so that its report is the same.

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::table::TableOptions;

use super::piece::{Piece, Tally};
use crate::error::Result;
use crate::options::Options;
use crate::tables::TableWriter;

/// What new tables are made with.
pub(super) struct Workshop<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a Options,
    pub(super) order: InternalComparator,
    pub(super) dry_run: bool,
    /// The next number that no file has had.
    pub(super) next_file: u64,
    table_options: TableOptions,
    /// The tables made so far.
    made: Vec<u64>,
}

impl<'a> Workshop<'a> {
    pub(super) fn new(directory: &'a Path, options: &'a Options, dry_run: bool) -> Workshop<'a> {
        let order = InternalComparator::new(options.comparator.clone());
        let table_options = options.table_options(&order);
        Workshop { directory, options, order, dry_run, next_file: 1, table_options, made: Vec::new() }
    }

    pub(super) fn env(&self) -> &'a Env {
        &self.options.env
    }

    pub(super) fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.to_string())
    }

    /// A number that no file has had.
    pub(super) fn number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }

    /// Begins a table for entries that were in `from`.
    pub(super) fn draft(&mut self, from: FileName) -> Result<Draft> {
        let number = self.number();
        let table = if self.dry_run {
            None
        } else {
            self.made.push(number);
            Some(TableWriter::create(self.env(), self.directory, number, &self.table_options)?)
        };
        Ok(Draft { table, number, from, tally: Tally::default() })
    }

    /// Removes every table made so far.
    pub(super) fn clear(&mut self) {
        let made = std::mem::take(&mut self.made);
        self.scrap(made);
    }

    /// Removes tables that were made and are not needed.
    pub(super) fn scrap(&self, tables: impl IntoIterator<Item = u64>) {
        if !self.dry_run {
            for number in tables {
                // A leftover that no manifest names is removed at the next open.
                let _ = self.env().fs.remove(&self.path(FileName::Table(number)));
            }
        }
    }
}

/// A table in the making. In a dry run only its numbers.
pub(super) struct Draft {
    table: Option<TableWriter>,
    number: u64,
    from: FileName,
    tally: Tally,
}

impl Draft {
    /// Adds an entry, but for one that is there already. False if its key is below the last: then it is not added.
    pub(super) fn add(&mut self, order: &InternalComparator, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.tally.entries > 0 {
            match order.compare(self.tally.largest(), key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Greater => return Ok(false),
            }
        }
        if let Some(table) = &mut self.table {
            table.add(key, value)?;
        }
        self.tally.add(key);
        Ok(true)
    }

    /// About how many bytes it has by now.
    pub(super) fn size(&self) -> u64 {
        self.table.as_ref().map_or(0, TableWriter::size)
    }

    /// How many entries it has by now.
    pub(super) fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// Makes the table durable, all but its name. None if it has no entries.
    pub(super) fn finish(self) -> Result<Option<Piece>> {
        let written = self.table.map(TableWriter::finish).transpose()?.flatten();
        if self.tally.entries == 0 {
            return Ok(None);
        }
        let size = written.map_or(0, |table| table.file.size);
        let file = self.tally.file(self.number, size)?;
        Ok(Some(Piece::new(file, &self.tally, self.from, false)))
    }
}
