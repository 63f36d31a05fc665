//! Writer of a table file outside of a database, for [`Db::ingest`](crate::Db::ingest).
//!
//! All entries have the sequence number 0, because the sequence numbers of a database are assigned
//! at the commit. A table with other sequence numbers could not be written in advance. The number 0
//! is correct for keys of which the database has no version.
//!
//! The metaindex names a block with the name of the comparator, which LevelDB ignores. An ingest
//! compares it with the comparator of the database.

use std::fmt;
use std::path::{Path, PathBuf};

use terrace_env::RandomAccessFile;
use terrace_format::batch::MAX_KEY_OR_VALUE_LEN;
use terrace_format::block::BlockIter;
use terrace_format::comparator::bytewise;
use terrace_format::key::{self, InternalComparator, ValueType};
use terrace_format::table::BlockHandle;

use super::block_fetcher::{read_block, read_block_bytes, read_footer};
use super::table_writer::TableWriter;
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::Options;
use crate::sync::Arc;

/// Name of the block with the name of the comparator.
const COMPARATOR_BLOCK: &str = "terrace.comparator";

/// Writer of a table file that [`Db::ingest`](crate::Db::ingest) adds to a database.
///
/// The caller adds entries in the order of the comparator. Any LevelDB can read the file, unless
/// [`Options::compression`] is a codec that LevelDB lacks. A drop without [`SortedTable::finish`]
/// removes the file.
///
/// ```
/// use terrace::{Db, Env, IngestOptions, Options, SortedTable};
///
/// let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// let mut table = SortedTable::create("swiss.ldb", &options)?;
/// table.add("CH/Bern", "46.95,7.45")?;
/// table.add("CH/Chur", "46.85,9.53")?;
/// assert!(table.add("CH/Aarau", "47.39,8.04").is_err(), "it is not above CH/Chur");
/// assert_eq!(table.finish()?.entries, 2);
///
/// let db = Db::open("cities", &options)?;
/// db.ingest(&["swiss.ldb"], &IngestOptions::default())?;
/// assert_eq!(db.iter().count(), 2);
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct SortedTable {
    path: PathBuf,
    comparator: String,
    /// None after an error of the file.
    writer: Option<TableWriter>,
    internal_key: Vec<u8>,
    entries: u64,
}

/// Description of a finished [`SortedTable`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortedTableInfo {
    /// Number of entries.
    pub entries: u64,
    /// Size of the file in bytes.
    pub size: u64,
    /// First key.
    pub smallest: Vec<u8>,
    /// Last key.
    pub largest: Vec<u8>,
}

impl SortedTable {
    /// Creates the file `path`, and replaces an existing regular file.
    ///
    /// The comparator, the filter policy, the block size, the restart interval, the compression and
    /// the environment of `options` have an effect. The comparator is that of the database. Without
    /// a compression, the codec is snappy.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or this build lacks the codec.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<SortedTable> {
        options.check_codec()?;
        let options = options.sanitized();
        let path = path.as_ref().to_path_buf();
        let order = InternalComparator::new(Arc::clone(&options.comparator));
        let writer = TableWriter::create_at(&options.env, path.clone(), 0, &options.table_options(&order))?;
        let comparator = options.comparator.name().to_owned();
        Ok(SortedTable { path, comparator, writer: Some(writer), internal_key: Vec::new(), entries: 0 })
    }

    /// Adds an entry after all others.
    ///
    /// # Errors
    ///
    /// - [`Error::UnsortedKey`] if `key` is not above the last key. The entry is not added, and the
    ///   caller may continue.
    /// - [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a key or value above
    ///   the limit of a database. The entry is not added.
    /// - An error of the file. The file is removed, and later calls fail.
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let value = value.as_ref();
        let Some(writer) = &mut self.writer else { return Err(self.failed_error()) };
        if key.len().max(value.len()) > MAX_KEY_OR_VALUE_LEN {
            return Err(Error::oversized_entry());
        }
        self.internal_key.clear();
        key::append(&mut self.internal_key, key, 0, ValueType::Value);
        match writer.add_if_greater(&self.internal_key, value) {
            Ok(true) => {
                self.entries += 1;
                Ok(())
            }
            Ok(false) => {
                let previous = key::user_key(writer.last_key().unwrap_or_default()).to_vec();
                Err(Error::UnsortedKey { path: self.path.clone(), key: key.to_vec(), previous })
            }
            Err(error) => {
                self.remove_file();
                Err(error)
            }
        }
    }

    /// Writes the rest of the file and makes its contents durable. The name of the file is durable
    /// after a sync of its directory, which an ingest does not need.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) without an entry, or an
    /// error of the file. The file is removed.
    pub fn finish(mut self) -> Result<SortedTableInfo> {
        let Some(mut writer) = self.writer.take() else { return Err(self.failed_error()) };
        writer.add_meta_block(COMPARATOR_BLOCK, self.comparator.clone().into_bytes());
        let Some(finished) = writer.finish()? else {
            return Err(Error::InvalidArgument(format!("{}: the table has no entries", self.path.display())));
        };
        Ok(SortedTableInfo {
            entries: self.entries,
            size: finished.file.size,
            smallest: finished.file.smallest.user_key().to_vec(),
            largest: finished.file.largest.user_key().to_vec(),
        })
    }

    fn failed_error(&self) -> Error {
        Error::InvalidArgument(format!("{}: an earlier write has failed", self.path.display()))
    }

    fn remove_file(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abandon();
        }
    }
}

impl Drop for SortedTable {
    fn drop(&mut self) {
        self.remove_file();
    }
}

impl fmt::Debug for SortedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SortedTable({}: {} entries)", self.path.display(), self.entries)
    }
}

/// Returns the name of the comparator that the table in the first `size` bytes of `file` stores.
/// Returns None for the table of another program.
pub(crate) fn stored_comparator_name(
    file: &dyn RandomAccessFile,
    path: &Path,
    size: u64,
) -> Result<Option<Vec<u8>>> {
    let footer = read_footer(file, path, size)?;
    let mut entries = BlockIter::new(Arc::new(read_block(file, path, footer.metaindex)?), bytewise());
    entries.seek(COMPARATOR_BLOCK.as_bytes());
    if !entries.valid() || entries.key() != COMPARATOR_BLOCK.as_bytes() {
        return Ok(None);
    }
    let (handle, _) = BlockHandle::decode(entries.value())
        .map_err(|error| Error::corruption(path, Some(footer.metaindex.offset), error.to_string()))?;
    read_block_bytes(file, path, handle).map(Some)
}
