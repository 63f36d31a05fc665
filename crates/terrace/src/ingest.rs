//! Ingest: adds table files that were written outside of the database.
//!
//! ```text
//!   swiss.ldb ──copy──> 000042.dbtmp ──check──┐
//!   french.ldb ─copy──> 000043.dbtmp ──check──┴─> one version edit: 000042.ldb 000043.ldb
//! ```
//!
//! The copies are checked, not the originals: another program may change those at any time.

use std::path::Path;
use std::time::Duration;

use terrace_env::{AccessMode, Env, FileError, RandomAccessFile, UnexpectedFile, WritableFile};
use terrace_format::batch::WriteBatch;
use terrace_format::filter_block::TableFilter;
use terrace_format::key::{self, InternalKey, ValueType, pack_sequence_and_type};
use terrace_format::table::TableProperties;
use terrace_format::version_edit::NewFile;

use crate::db::{Db, NewTable, TableStage};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::table::{FinishedTable, TableStats, index_needs_marker, stored_comparator_name};
use crate::verify::{TableScan, TableScanEvent};

/// Size of the pieces in which a file is copied, in bytes.
const COPY_BYTES: usize = 256 << 10;

/// Options of [`Db::ingest`].
///
/// ```
/// use std::time::Duration;
///
/// let at_once = terrace::IngestOptions::default().timeout(Duration::ZERO);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Maximum time to wait for the end of snapshots and transactions. Default: 1 s.
    pub timeout: Duration,
}

impl Default for IngestOptions {
    fn default() -> IngestOptions {
        IngestOptions { timeout: Duration::from_secs(1) }
    }
}

impl IngestOptions {
    /// Sets [`IngestOptions::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> IngestOptions {
        self.timeout = timeout;
        self
    }
}

impl Db {
    /// Adds the entries of the files `tables`, all of them or none.
    ///
    /// A file is the result of a [`SortedTable`](crate::SortedTable), or a table of LevelDB whose
    /// entries have the sequence number 0. Each file is copied, and the copy is checked completely.
    /// The caller may remove the files afterwards.
    ///
    /// The key range of each file must be free: neither the database nor another of the files has
    /// an entry in it. The tombstone of a deleted key is such an entry until a compaction drops it.
    ///
    /// When this returns, reads see all entries, and a power cut does not lose them or any earlier
    /// write. Before, no read sees any of them. Reads continue during the call. Other writers wait
    /// during its last step, which syncs the log and the MANIFEST. The call needs the space of the
    /// copies, and little memory. Any number of threads may call this method.
    ///
    /// # Errors
    ///
    /// After an error, the database is as before, and no copy is left.
    ///
    /// - [`Error::Overlap`] names the range. This is also the result if another thread writes a key
    ///   in the range during the call.
    /// - [`Error::SnapshotsOpen`]: after [`IngestOptions::timeout`], a snapshot or transaction was
    ///   still open. The entries have no sequence number of their own, so it would see them.
    /// - [`Error::Corruption`]: a file is damaged, or its keys are not in the order of the
    ///   comparator. [`Error::ComparatorMismatch`]: a [`SortedTable`](crate::SortedTable) was
    ///   written with another comparator.
    /// - [`Error::InvalidArgument`]: an entry is a tombstone or has another sequence number, or a
    ///   file has no entry.
    /// - [`Error::Io`]: a file does not exist, or it is a link or no regular file.
    /// - The errors of [`Db::write`]. If the MANIFEST cannot be written, the state of the disk is
    ///   unknown: the next open shows all entries or none.
    ///
    /// See [`SortedTable`](crate::SortedTable) for an example.
    pub fn ingest(&self, tables: &[impl AsRef<Path>], options: &IngestOptions) -> Result<()> {
        let stage = self.table_stage()?;
        let mut new_tables = Vec::with_capacity(tables.len());
        for source in tables {
            new_tables.push(stage_table(&stage, source.as_ref())?);
        }
        if new_tables.is_empty() {
            // Makes earlier writes durable, as an ingest of entries does.
            return self.write_with(&WriteBatch::new(), &WriteOptions::default().sync(true));
        }
        sort_disjoint(&stage, &mut new_tables)?;
        stage.install(&new_tables, options.timeout)
    }
}

/// Copies the table `source` to a file of `stage`, and checks the copy.
fn stage_table(stage: &TableStage, source: &Path) -> Result<NewTable> {
    let env = stage.env();
    let (number, path, copy) = stage.create_file(|number, path| {
        let copy = env.fs.create(&path)?;
        Ok((number, path, copy))
    })?;
    copy_table(env, source, copy)?;
    let file = env.fs.open_random_access(&path, AccessMode::Pread)?;
    let table = check_table(stage, &*file, source, number)?;
    Ok(NewTable { source: source.to_path_buf(), table })
}

/// Copies the file `source` to `copy`, and makes the contents durable.
///
/// A hard link would be cheaper. Then the check would not protect the database from a program that
/// changes the original.
fn copy_table(env: &Env, source: &Path, mut copy: Box<dyn WritableFile>) -> Result<()> {
    if env.fs.is_symlink(source)? {
        let reason = UnexpectedFile { found: "a symbolic link", expected: "a regular file" };
        return Err(FileError::new("ingest", source, reason.into()).into());
    }
    let original = env.fs.open_random_access(source, AccessMode::Pread)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let read = original.read_at(offset, &mut buffer)?;
        if read == 0 {
            break;
        }
        copy.append(&buffer[..read])?;
        offset += read as u64;
    }
    copy.sync()?;
    Ok(copy.close()?)
}

/// Reads the whole table in `file`, which errors call `source`. Returns its description.
fn check_table(
    stage: &TableStage,
    file: &dyn RandomAccessFile,
    source: &Path,
    number: u64,
) -> Result<FinishedTable> {
    let order = stage.comparator();
    let expected = order.user_comparator().name();
    if let Some(stored) = stored_comparator_name(file, source, file.len())?
        && stored != expected.as_bytes()
    {
        let stored = String::from_utf8_lossy(&stored).into_owned();
        return Err(Error::ComparatorMismatch { stored, expected: expected.to_owned() });
    }
    let filter = stage.table_options().filter.as_ref().map(TableFilter::policy);
    let scan = TableScan { file, path: source, size: file.len(), order, filter };
    let mut bounds: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut entries = 0;
    let mut needs_marker = index_needs_marker(file, source, file.len());
    scan.run(&mut |event| {
        match event {
            TableScanEvent::Corruption { corruption, .. } => return Err(Error::Corruption(corruption)),
            TableScanEvent::Block { codec, .. } => {
                needs_marker |= codec.is_some_and(|codec| codec.needs_marker)
            }
            TableScanEvent::Entry { key, .. } => {
                check_entry(source, key)?;
                entries += 1;
                match &mut bounds {
                    None => bounds = Some((key.to_vec(), key.to_vec())),
                    Some((_, largest)) => {
                        largest.clear();
                        largest.extend_from_slice(key);
                    }
                }
            }
        }
        Ok(())
    })?;
    let Some((smallest, largest)) = bounds else {
        return Err(Error::InvalidArgument(format!("{}: the table has no entries", source.display())));
    };
    let decode =
        |key: &[u8]| InternalKey::decode(key).map_err(|error| Error::from_decode_error(source, &error));
    let file = NewFile { number, size: file.len(), smallest: decode(&smallest)?, largest: decode(&largest)? };
    let properties = TableProperties { num_entries: entries, num_deletions: 0 };
    Ok(FinishedTable { file, stats: TableStats { properties, newest_tombstone: 0 }, needs_marker })
}

/// Returns an error unless `internal_key` is that of a put with the sequence number 0.
fn check_entry(source: &Path, internal_key: &[u8]) -> Result<()> {
    let trailer = key::trailer(internal_key);
    if trailer == pack_sequence_and_type(0, ValueType::Value) {
        return Ok(());
    }
    let kind = if trailer as u8 == ValueType::Value as u8 { "put" } else { "tombstone" };
    Err(Error::InvalidArgument(format!(
        "{}: key '{}' is a {kind} with the sequence number {}, expected a put with 0",
        source.display(),
        key::user_key(internal_key).escape_ascii(),
        trailer >> 8
    )))
}

/// Sorts `tables` by key. Returns an error if two of them overlap.
fn sort_disjoint(stage: &TableStage, tables: &mut [NewTable]) -> Result<()> {
    let order = stage.comparator().user_comparator();
    tables.sort_by(|a, b| order.compare(a.table.file.smallest.user_key(), b.table.file.smallest.user_key()));
    for pair in tables.windows(2) {
        let [a, b] = pair else { continue };
        let file = &a.table.file;
        if order.compare(file.largest.user_key(), b.table.file.smallest.user_key()).is_ge() {
            return Err(b.overlap_error(format!(
                "{}, keys '{}' to '{}'",
                a.source.display(),
                file.smallest.user_key().escape_ascii(),
                file.largest.user_key().escape_ascii()
            )));
        }
    }
    Ok(())
}
