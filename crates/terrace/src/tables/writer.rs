//! A new table file, from sorted entries to a durable file.

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::edit::NewFile;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalKey, Kind, Sequence};
use terrace_format::table::{Counts, TableBuilder, TableOptions};
use terrace_sync::mutant;

use super::Tally;
use crate::error::{Error, Result};
use crate::stream::{Writing, file_error};

/// A table that was written.
#[derive(Debug, Clone)]
pub(crate) struct NewTable {
    pub(crate) file: NewFile,
    pub(crate) tally: Tally,
}

/// Writes one table. Dropped before [`TableWriter::finish`], it leaves a file that nothing names; see
/// [`TableWriter::abandon`].
pub(crate) struct TableWriter {
    env: Env,
    path: PathBuf,
    number: u64,
    builder: TableBuilder<Writing>,
    smallest: Option<Vec<u8>>,
    deletes: u64,
    newest_delete: Sequence,
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
        let builder = TableBuilder::new(options.clone(), Writing(env.fs.create(&path)?));
        let (env, smallest) = (env.clone(), None);
        Ok(TableWriter { env, path, number, builder, smallest, deletes: 0, newest_delete: 0 })
    }

    /// Adds an entry. Keys must rise: that is checked, because a table out of order would hide what it holds.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.add_above(key, value)? { Ok(()) } else { Err(self.falls(key)) }
    }

    /// As [`TableWriter::add`], but passes over the key that was added last.
    pub(crate) fn add_once(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.add_above(key, value)? || self.builder.last_key() == Some(key) {
            Ok(())
        } else {
            Err(self.falls(key))
        }
    }

    /// Adds an entry, or says false if its key is not above the last one.
    fn add_above(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.smallest.is_none() {
            self.smallest = Some(key.to_vec());
        }
        let added = self.builder.add_above(key, value).map_err(|error| file_error(&self.path, error))?;
        let number = key::trailer(key);
        if added && number as u8 == Kind::Delete as u8 {
            self.deletes += 1;
            self.newest_delete = self.newest_delete.max(number >> 8);
        }
        Ok(added)
    }

    #[cold]
    fn falls(&self, key: &[u8]) -> Error {
        let (last, key) = (self.builder.last_key().unwrap_or_default().escape_ascii(), key.escape_ascii());
        Error::corruption(&self.path, None, format!("key '{key}' behind '{last}', expected rising keys"))
    }

    /// About how large the file is by now, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.builder.size_estimate()
    }

    /// Writes the rest and makes the contents durable; the name is the manifest's business. None, and no file, if
    /// nothing was added. On an error there is no file either.
    pub(crate) fn finish(mut self) -> Result<Option<NewTable>> {
        let Some(smallest) = self.smallest.take() else {
            self.abandon();
            return Ok(None);
        };
        let (env, path) = (self.env.clone(), self.path.clone());
        self.write_rest(&smallest).map(Some).inspect_err(|_| {
            let _ = env.fs.remove(&path);
        })
    }

    fn write_rest(mut self, smallest: &[u8]) -> Result<NewTable> {
        let counts = Counts { entries: self.builder.entries(), deletes: self.deletes };
        self.builder.add_named(Counts::NAME, counts.encode());
        self.builder.finish().map_err(|error| file_error(&self.path, error))?;
        let size = self.builder.file_size();
        let largest = self.builder.last_key().unwrap_or_default().to_vec();
        let mut file = self.builder.into_inner().0;
        if !mutant!(TableNotSyncedBeforeInstall) {
            file.sync()?;
        }
        file.close()?;
        let key = |bytes: &[u8]| InternalKey::decode(bytes).map_err(|flaw| Error::flaw(&self.path, &flaw));
        let (smallest, largest) = (key(smallest)?, key(&largest)?);
        let file = NewFile { number: self.number, size, smallest, largest };
        Ok(NewTable { file, tally: Tally { counts, newest_delete: self.newest_delete } })
    }

    /// Removes the file.
    pub(crate) fn abandon(self) {
        drop(self.builder);
        // A leftover is removed at the next open.
        let _ = self.env.fs.remove(&self.path);
    }
}
