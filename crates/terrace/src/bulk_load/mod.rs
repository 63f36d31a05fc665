//! Bulk load: entries in any order become tables, which are added to the database at once.
//!
//! ```text
//!   entries ──> buffer ──full──> sort ──> sorted run    (other threads; nothing if ascending)
//!                                            |  |  |
//!   key ranges  [ ... )[ ... )[ ... )     merge each range ──> tables ──ingest──> database
//! ```
//!
//! Entries that arrive in ascending order are written to their final tables at once. All files are
//! temporary files of the database's directory until the ingest. The drop of the stage removes
//! them, and so does the next open after a crash.

mod external_sort;
mod report;
mod sorted_runs;

pub use report::{LoadProgress, LoadReport};

use std::time::Duration;

use terrace_format::batch::WriteBatch;
use terrace_format::key;

use crate::db::{Db, NewTable, TableStage};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::WriteOptions;
use crate::sync::Arc;
use crate::table::FinishedTable;
use external_sort::ExternalSort;
use sorted_runs::OpenRun;

/// Size of the batches of puts, in bytes.
const PUT_BATCH_BYTES: usize = 1 << 20;

/// Entries between two calls of the progress callback while entries are read.
const PROGRESS_PERIOD: u64 = 1 << 12;

/// Options of [`bulk_load`].
///
/// ```
/// let options = terrace::LoadOptions::default().memory(256 << 20).puts_on_overlap(false);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Memory for the buffers in which entries are sorted, in bytes. At least 1 MiB. A larger entry
    /// takes its own memory. Default: 128 MiB.
    pub memory: usize,
    /// Maximum time to wait for the end of snapshots and transactions. Default: 1 s.
    pub timeout: Duration,
    /// Puts the entries in batches, in the order of their keys, if they cannot be ingested: their
    /// ranges overlap the database, or snapshots stay open. Readers then see a part of them
    /// meanwhile. If false, such a load is an error. Default: true.
    pub puts_on_overlap: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions { memory: 128 << 20, timeout: Duration::from_secs(1), puts_on_overlap: true }
    }
}

impl LoadOptions {
    /// Sets [`LoadOptions::memory`].
    pub fn memory(mut self, memory: usize) -> LoadOptions {
        self.memory = memory;
        self
    }

    /// Sets [`LoadOptions::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> LoadOptions {
        self.timeout = timeout;
        self
    }

    /// Sets [`LoadOptions::puts_on_overlap`].
    pub fn puts_on_overlap(mut self, puts_on_overlap: bool) -> LoadOptions {
        self.puts_on_overlap = puts_on_overlap;
        self
    }
}

/// Loads many entries in any order, much faster than puts. Of several entries with one key, the
/// last one wins.
///
/// The load sorts the entries, with temporary files in the directory of the database and with the
/// threads of compactions, and adds them by one [`Db::ingest`]. So reads see none of the entries
/// before the end of the call, and all of them afterwards; a power cut does not lose them. The load
/// needs about twice the space of the entries while it runs.
///
/// An ingest needs free key ranges and a moment without snapshots. Otherwise the load puts the
/// sorted entries in batches, which replace existing values, unless
/// [`LoadOptions::puts_on_overlap`] is false. These entries are durable at the end, too, but the
/// load is not atomic: after a crash, the database may hold a part of them. A second load of the
/// same entries completes it.
///
/// # Errors
///
/// If the iterator returns an error, the load returns it. After this error, and after every error
/// before the first put, the database is as before, and no temporary file is left.
///
/// - The errors of [`Db::ingest`], except for overlaps and snapshots that puts replace.
/// - [`Error::InvalidArgument`] for a key or value of almost 4 GiB.
/// - The errors of [`Db::write`] during puts. The entries before it are in the database.
///
/// ```
/// use terrace::{Db, Env, LoadOptions, Options, bulk_load};
///
/// let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// let db = Db::open("numbers", &options)?;
/// let entries = (0..1000).map(|n| Ok::<_, terrace::Error>((format!("{}", n * 7 % 1000), "")));
/// let report = bulk_load(&db, entries, &LoadOptions::default())?;
/// assert_eq!((report.keys, report.is_ingested), (1000, true));
/// assert_eq!(db.iter().count(), 1000);
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn bulk_load<K, V, E>(
    db: &Db,
    entries: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    options: &LoadOptions,
) -> std::result::Result<LoadReport, E>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
    E: From<Error>,
{
    bulk_load_with_progress(db, entries, options, |_| ())
}

/// Same as [`bulk_load`], and reports its progress.
///
/// Calls `progress` on the calling thread, every few thousand entries or few megabytes. The
/// callback should return soon.
///
/// ```
/// use terrace::{Db, Env, LoadOptions, Options, bulk_load_with_progress};
///
/// let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// let db = Db::open("numbers", &options)?;
/// let entries = (0..10).map(|n| Ok::<_, terrace::Error>((format!("{n}"), "")));
/// bulk_load_with_progress(&db, entries, &LoadOptions::default(), |step| println!("{step:?}"))?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn bulk_load_with_progress<K, V, E>(
    db: &Db,
    entries: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    options: &LoadOptions,
    mut progress: impl FnMut(LoadProgress),
) -> std::result::Result<LoadReport, E>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
    E: From<Error>,
{
    let stage = Arc::new(db.table_stage()?);
    let mut sort = ExternalSort::new(&stage, options.memory);
    let mut read = 0;
    for entry in entries {
        let (key, value) = entry?;
        sort.push(key.as_ref(), value.as_ref())?;
        read += 1;
        if read % PROGRESS_PERIOD == 0 {
            progress(LoadProgress::Read(read));
        }
    }
    progress(LoadProgress::Read(read));
    let tables = sort.finish(&mut progress)?;
    Ok(add_tables(db, &stage, tables, read, options, &mut progress)?)
}

/// Adds the sorted `tables` to the database.
fn add_tables(
    db: &Db,
    stage: &TableStage,
    tables: Vec<FinishedTable>,
    read: u64,
    options: &LoadOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let keys = tables.iter().map(|table| table.stats.properties.num_entries).sum();
    let table_bytes = tables.iter().map(|table| table.file.size).sum();
    let mut report = LoadReport { entries: read, keys, table_bytes, is_ingested: true };
    if tables.is_empty() {
        // Makes earlier writes durable, as a load of entries does.
        db.write_with(&WriteBatch::new(), &WriteOptions::default().sync(true))?;
        return Ok(report);
    }
    let source = |table: &FinishedTable| stage.path(table.file.number);
    let new_tables: Vec<NewTable> =
        tables.iter().map(|table| NewTable { source: source(table), table: table.clone() }).collect();
    match stage.install(&new_tables, options.timeout) {
        Ok(()) => return Ok(report),
        Err(Error::Overlap { .. } | Error::SnapshotsOpen) if options.puts_on_overlap => {}
        Err(error) => return Err(error),
    }
    put_tables(db, stage, tables, keys, progress)?;
    report.is_ingested = false;
    report.table_bytes = 0;
    Ok(report)
}

/// Puts the entries of `tables` in key order. All of them are durable when this returns.
fn put_tables(
    db: &Db,
    stage: &TableStage,
    tables: Vec<FinishedTable>,
    keys: u64,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<()> {
    let mut entries = OpenRun::open(stage, tables)?.iter();
    let mut batch = WriteBatch::new();
    let mut done = 0;
    entries.seek_to_first();
    while let Some((key, value)) = entries.entry() {
        batch.put(key::user_key(key), value);
        entries.next();
        let is_last = !entries.valid();
        if batch.approximate_size() >= PUT_BATCH_BYTES || is_last {
            done += batch.len() as u64;
            // Checked first: an error would make the last batch look like the end.
            entries.status()?;
            db.write_with(&batch, &WriteOptions::default().sync(is_last))?;
            batch.clear();
            progress(LoadProgress::Put { done, total: keys });
        }
    }
    entries.status()
}
