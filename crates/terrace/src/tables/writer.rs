//! A new table file, from sorted entries to a durable file.

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::edit::NewFile;
use terrace_format::filename::FileName;
use terrace_format::key::InternalKey;
use terrace_format::table::{TableBuilder, TableOptions};
use terrace_mutants::mutant;

use crate::error::{Error, Result};
use crate::stream::{Writing, file_error};

/// Writes one table. Dropped before [`TableWriter::finish`], it leaves a file that nothing names; see
/// [`TableWriter::abandon`].
pub(crate) struct TableWriter {
    env: Env,
    path: PathBuf,
    number: u64,
    options: TableOptions,
    builder: TableBuilder<Writing>,
    smallest: Option<Vec<u8>>,
    last: Vec<u8>,
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
        let (env, options) = (env.clone(), options.clone());
        Ok(TableWriter { env, path, number, options, builder, smallest: None, last: Vec::new() })
    }

    /// Adds an entry. Keys must rise: that is checked, because a table out of order would hide what it holds.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.smallest.is_none() {
            self.smallest = Some(key.to_vec());
        } else if self.options.comparator.compare(&self.last, key).is_ge() {
            let (last, key) = (self.last.escape_ascii(), key.escape_ascii());
            return Err(Error::corruption(
                &self.path,
                None,
                format!("key '{key}' behind '{last}', expected rising keys"),
            ));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.builder.add(key, value).map_err(|error| file_error(&self.path, error))
    }

    /// About how large the file is by now, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.builder.size_estimate()
    }

    /// True if `key` was added last.
    pub(crate) fn has_last(&self, key: &[u8]) -> bool {
        self.smallest.is_some() && self.last == key
    }

    /// Writes the rest and makes the contents durable; the name is the manifest's business. None, and no file, if
    /// nothing was added. On an error there is no file either.
    pub(crate) fn finish(mut self) -> Result<Option<NewFile>> {
        let Some(smallest) = self.smallest.take() else {
            self.abandon();
            return Ok(None);
        };
        let (env, path) = (self.env.clone(), self.path.clone());
        self.write_rest(&smallest).map(Some).inspect_err(|_| {
            let _ = env.fs.remove(&path);
        })
    }

    fn write_rest(mut self, smallest: &[u8]) -> Result<NewFile> {
        self.builder.finish().map_err(|error| file_error(&self.path, error))?;
        let size = self.builder.file_size();
        let mut file = self.builder.into_inner().0;
        if !mutant!(TableNotSynced) {
            file.sync()?;
        }
        file.close()?;
        let key = |bytes: &[u8]| InternalKey::decode(bytes).map_err(|flaw| Error::flaw(&self.path, &flaw));
        Ok(NewFile { number: self.number, size, smallest: key(smallest)?, largest: key(&self.last)? })
    }

    /// Removes the file.
    pub(crate) fn abandon(self) {
        drop(self.builder);
        // A leftover is removed at the next open.
        let _ = self.env.fs.remove(&self.path);
    }
}
