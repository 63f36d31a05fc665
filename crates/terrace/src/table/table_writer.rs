//! A new table file, from sorted entries to a durable file.

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalKey, SequenceNumber, ValueType};
use terrace_format::table::{TableBuilder, TableOptions, TableProperties};
use terrace_format::version_edit::NewFile;
use terrace_sync::mutant;

use super::TableStats;
use crate::error::{Error, Result};
use crate::file_io::{FileWriter, file_error};

/// A table that was written.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTable {
    pub(crate) file: NewFile,
    pub(crate) stats: TableStats,
}

/// Writes one table. Dropped before [`TableWriter::finish`], it leaves a file that nothing names; see
/// [`TableWriter::abandon`].
pub(crate) struct TableWriter {
    env: Env,
    path: PathBuf,
    number: u64,
    builder: TableBuilder<FileWriter>,
    smallest: Option<Vec<u8>>,
    tombstones: u64,
    newest_tombstone: SequenceNumber,
}

impl TableWriter {
    /// Creates table file `number` in `directory`.
    pub(crate) fn create(
        env: &Env,
        directory: &Path,
        number: u64,
        options: &TableOptions,
    ) -> Result<TableWriter> {
        let path = directory.join(FileName::Table(number).to_string());
        let builder = TableBuilder::new(options.clone(), FileWriter(env.fs.create(&path)?));
        let (env, smallest) = (env.clone(), None);
        Ok(TableWriter { env, path, number, builder, smallest, tombstones: 0, newest_tombstone: 0 })
    }

    /// Adds an entry. Keys must rise: that is checked, because a table out of order would hide what it holds.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.try_add_ascending(key, value)? { Ok(()) } else { Err(self.out_of_order(key)) }
    }

    /// As [`TableWriter::add`], but passes over the key that was added last.
    pub(crate) fn add_unless_duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.try_add_ascending(key, value)? || self.builder.last_key() == Some(key) {
            Ok(())
        } else {
            Err(self.out_of_order(key))
        }
    }

    /// Adds an entry, or says false if its key is not above the last one.
    fn try_add_ascending(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.smallest.is_none() {
            self.smallest = Some(key.to_vec());
        }
        let added = self.builder.add_if_greater(key, value).map_err(|error| file_error(&self.path, error))?;
        let number = key::trailer(key);
        if added && number as u8 == ValueType::Deletion as u8 {
            self.tombstones += 1;
            self.newest_tombstone = self.newest_tombstone.max(number >> 8);
        }
        Ok(added)
    }

    #[cold]
    fn out_of_order(&self, key: &[u8]) -> Error {
        let (last, key) = (self.builder.last_key().unwrap_or_default().escape_ascii(), key.escape_ascii());
        Error::corruption(&self.path, None, format!("key '{key}' behind '{last}', expected rising keys"))
    }

    /// About how large the file is by now, in bytes.
    pub(crate) fn size_estimate(&self) -> u64 {
        self.builder.size_estimate()
    }

    /// Writes the rest and makes the contents durable; the name is the manifest's business. None, and no file, if
    /// nothing was added. On an error there is no file either.
    pub(crate) fn finish(mut self) -> Result<Option<FinishedTable>> {
        let Some(smallest) = self.smallest.take() else {
            self.abandon();
            return Ok(None);
        };
        let (env, path) = (self.env.clone(), self.path.clone());
        self.finish_file(&smallest).map(Some).inspect_err(|_| {
            let _ = env.fs.remove(&path);
        })
    }

    fn finish_file(mut self, smallest: &[u8]) -> Result<FinishedTable> {
        let counts =
            TableProperties { num_entries: self.builder.num_entries(), num_deletions: self.tombstones };
        self.builder.add_meta_block(TableProperties::BLOCK_NAME, counts.encode());
        self.builder.finish().map_err(|error| file_error(&self.path, error))?;
        let size = self.builder.file_size();
        let largest = self.builder.last_key().unwrap_or_default().to_vec();
        let mut file = self.builder.into_inner().0;
        if !mutant!(TableNotSyncedBeforeInstall) {
            file.sync()?;
        }
        file.close()?;
        let key = |bytes: &[u8]| {
            InternalKey::decode(bytes).map_err(|flaw| Error::from_decode_error(&self.path, &flaw))
        };
        let (smallest, largest) = (key(smallest)?, key(&largest)?);
        let file = NewFile { number: self.number, size, smallest, largest };
        Ok(FinishedTable {
            file,
            stats: TableStats { properties: counts, newest_tombstone: self.newest_tombstone },
        })
    }

    /// Removes the file.
    pub(crate) fn abandon(self) {
        drop(self.builder);
        // A leftover is removed at the next open.
        let _ = self.env.fs.remove(&self.path);
    }
}
