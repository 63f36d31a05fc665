//! Writer of a table file: it takes sorted entries and makes the file durable.

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

/// Table that was written completely.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTable {
    pub(crate) file: NewFile,
    pub(crate) stats: TableStats,
    /// True if the codec of a block needs a marker in the database (`Codec::needs_marker`).
    pub(crate) needs_marker: bool,
}

/// Writer of one table. A drop without [`TableWriter::finish`] leaves a file that no version names;
/// see [`TableWriter::abandon`].
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
    /// Creates the file of table `number` in `directory`, with the name of `options`.
    pub(crate) fn create(
        env: &Env,
        directory: &Path,
        number: u64,
        options: &TableOptions,
    ) -> Result<TableWriter> {
        let name = (options.file_name)(number);
        if matches!(name, FileName::OldTable(_)) {
            // Readers prefer the new name. A crash may have left a file that no version names.
            let leftover = directory.join(FileName::Table(number).to_string());
            if let Err(error) = env.fs.remove(&leftover)
                && !error.is_not_found()
            {
                return Err(error.into());
            }
        }
        TableWriter::create_at(env, directory.join(name.to_string()), number, options)
    }

    /// Creates the file `path` of table `number`.
    pub(crate) fn create_at(
        env: &Env,
        path: PathBuf,
        number: u64,
        options: &TableOptions,
    ) -> Result<TableWriter> {
        let mut file = env.fs.create(&path)?;
        if options.huge_pages {
            file.use_huge_pages();
        }
        let builder = TableBuilder::new(options.clone(), FileWriter(file));
        Ok(TableWriter {
            env: env.clone(),
            path,
            number,
            builder,
            smallest: None,
            tombstones: 0,
            newest_tombstone: 0,
        })
    }

    /// Adds an entry. Returns an error if its key is not greater than the last one, because reads
    /// would miss entries of an unsorted table.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.add_if_greater(key, value)? { Ok(()) } else { Err(self.out_of_order(key)) }
    }

    /// Adds an entry like [`TableWriter::add`], unless its key equals the last one.
    pub(crate) fn add_unless_duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.add_if_greater(key, value)? || self.builder.last_key() == Some(key) {
            Ok(())
        } else {
            Err(self.out_of_order(key))
        }
    }

    /// Adds an entry, or returns false if its key is not greater than the last one.
    pub(crate) fn add_if_greater(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.smallest.is_none() {
            self.smallest = Some(key.to_vec());
        }
        let added = self.builder.add_if_greater(key, value).map_err(|error| file_error(&self.path, error))?;
        let trailer = key::trailer(key);
        if added && trailer as u8 == ValueType::Deletion as u8 {
            self.tombstones += 1;
            self.newest_tombstone = self.newest_tombstone.max(trailer >> 8);
        }
        Ok(added)
    }

    #[cold]
    fn out_of_order(&self, key: &[u8]) -> Error {
        let last = self.builder.last_key().unwrap_or_default().escape_ascii();
        let key = key.escape_ascii();
        Error::corruption(&self.path, None, format!("key '{key}' after '{last}', expected ascending keys"))
    }

    /// Returns the last added internal key.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.builder.last_key()
    }

    /// Returns the numbers of tombstones and of entries so far.
    pub(crate) fn tombstones_and_entries(&self) -> (u64, u64) {
        (self.tombstones, self.builder.num_entries())
    }

    /// Adds an uncompressed block under `name` in the metaindex. LevelDB ignores such blocks.
    pub(crate) fn add_meta_block(&mut self, name: &str, contents: Vec<u8>) {
        self.builder.add_meta_block(name, contents);
    }

    /// Returns the approximate size of the file in bytes.
    pub(crate) fn size_estimate(&self) -> u64 {
        self.builder.size_estimate()
    }

    /// Writes the remaining blocks and syncs the file. The directory entry becomes durable with the
    /// MANIFEST. Returns None and removes the file if it has no entries. After an error there is no
    /// file either.
    pub(crate) fn finish(self) -> Result<Option<FinishedTable>> {
        self.finish_with(!mutant!(TableNotSyncedBeforeInstall))
    }

    /// Same as [`TableWriter::finish`], without a sync: for a file that no crash has to keep.
    pub(crate) fn finish_unsynced(self) -> Result<Option<FinishedTable>> {
        self.finish_with(false)
    }

    fn finish_with(mut self, is_synced: bool) -> Result<Option<FinishedTable>> {
        let Some(smallest) = self.smallest.take() else {
            self.abandon();
            return Ok(None);
        };
        let env = self.env.clone();
        let path = self.path.clone();
        self.finish_file(&smallest, is_synced).map(Some).inspect_err(|_| {
            let _ = env.fs.remove(&path);
        })
    }

    fn finish_file(mut self, smallest: &[u8], is_synced: bool) -> Result<FinishedTable> {
        let properties =
            TableProperties { num_entries: self.builder.num_entries(), num_deletions: self.tombstones };
        self.builder.add_meta_block(TableProperties::BLOCK_NAME, properties.encode());
        self.builder.finish().map_err(|error| file_error(&self.path, error))?;
        let size = self.builder.file_size();
        let largest = self.builder.last_key().unwrap_or_default().to_vec();
        let needs_marker = self.builder.needs_marker();
        let mut file = self.builder.into_inner().0;
        if is_synced {
            file.sync()?;
        }
        file.close()?;
        let decode = |key: &[u8]| {
            InternalKey::decode(key).map_err(|error| Error::from_decode_error(&self.path, &error))
        };
        let smallest = decode(smallest)?;
        let largest = decode(&largest)?;
        let file = NewFile { number: self.number, size, smallest, largest };
        let stats = TableStats { properties, newest_tombstone: self.newest_tombstone };
        Ok(FinishedTable { file, stats, needs_marker })
    }

    /// Removes the file.
    pub(crate) fn abandon(self) {
        drop(self.builder);
        // The next open removes the file if this fails.
        let _ = self.env.fs.remove(&self.path);
    }
}
