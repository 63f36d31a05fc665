//! Table cache: the open tables of a database.
//!
//! The metadata of a file holds a [`TableHandle`] with the open table, so that a get with a version
//! needs neither a search nor a lock. The number of open tables is limited, and their memory may
//! be. An open of another table then closes tables by the clock algorithm: those without a use
//! since the hand last passed them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
// Of the standard library: a model checker would only lose time with a counter for reports.
use std::sync::atomic::AtomicU64;

use terrace_env::{AccessMode, FileError, RandomAccessFile};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalKey, SequenceNumber};
use terrace_format::table::TableProperties;
use terrace_sync::mutant;

use super::key_bounds_check::check_key_bounds;
use super::table_guard::TableGuard;
use super::table_memory::TableMemory;
use super::table_reader::{BlockReadOptions, READ_SAMPLE_WEIGHT, TableReader, TableReaderContext};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::stats::Statistics;
use crate::sync::{
    Arc, AtomicBool, ForkLocks, ForkParticipant, HazardCell, HazardGuard, Mutex, Ordering, RetireList,
    Retired, Weak,
};

/// Slot for the open reader of one table file.
#[derive(Default)]
pub(crate) struct TableHandle {
    reader: HazardCell<TableReader>,
    /// Set by every use, cleared by the hand of the clock.
    recently_used: AtomicBool,
    /// Statistics of the entries, empty while they are unknown.
    stats: OnceLock<TableStats>,
    /// Number of sampled block reads. The reader of the open table counts them.
    sampled_reads: Arc<AtomicU64>,
}

/// Statistics of the entries of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableStats {
    pub(crate) properties: TableProperties,
    /// Sequence number of the newest tombstone, or 0 for a table that existed at open, because
    /// every reader is newer.
    pub(crate) newest_tombstone: SequenceNumber,
}

impl TableHandle {
    /// Sets the statistics. Returns false if they were already set.
    pub(crate) fn set_stats(&self, stats: TableStats) -> bool {
        terrace_sync::set_for_fork(&self.stats, stats)
    }

    /// Returns the statistics. They are known for a table that was written or opened since the open
    /// of the database.
    pub(crate) fn stats(&self) -> Option<TableStats> {
        self.stats.get().copied()
    }

    /// Returns the estimated number of block reads since the open of the database.
    pub(crate) fn estimated_reads(&self) -> u64 {
        self.sampled_reads.load(Ordering::Relaxed).saturating_mul(READ_SAMPLE_WEIGHT)
    }

    /// Returns the reader if the table is open, and marks it as used.
    #[inline]
    fn get(&self) -> Option<HazardGuard<TableReader>> {
        let table = self.reader.protect();
        // An unconditional store would make readers of one table compete for its cache line.
        if table.is_some() && !self.recently_used.load(Ordering::Relaxed) {
            self.recently_used.store(true, Ordering::Relaxed);
        }
        table
    }
}

/// Metadata of a table from the MANIFEST, with its handle.
#[derive(Clone, Copy)]
pub(crate) struct TableRef<'a> {
    pub(crate) handle: &'a Arc<TableHandle>,
    pub(crate) number: u64,
    /// Size of the table in bytes. The footer ends here, even if the file is longer.
    pub(crate) size: u64,
    pub(crate) smallest: &'a InternalKey,
    pub(crate) largest: &'a InternalKey,
}

/// Open tables of one database.
pub(crate) struct TableCache {
    directory: PathBuf,
    options: Options,
    context: Arc<TableReaderContext>,
    capacity: usize,
    /// True if each open table stays open as long as its metadata: see [`TableCache::hold`].
    keeps_tables: bool,
    eviction: Mutex<ClockEviction>,
    /// True if a read of some table may wait for the storage. Relaxed: a hint.
    may_block: AtomicBool,
    /// Receives the statistics of a newly opened table, if they were unknown. Any thread may call
    /// it, with any lock held but `state`.
    on_stats: OnStats,
}

/// Open tables in the order in which the clock visits them.
#[derive(Default)]
struct ClockEviction {
    open_tables: VecDeque<Weak<TableHandle>>,
    /// Readers that were closed during a read, until the next table is opened. There are at most as
    /// many as running reads.
    retired_tables: RetireList<TableReader>,
}

impl ClockEviction {
    /// Closes the oldest table, or moves it to the end of the queue if it was used recently.
    fn visit_next(&mut self) {
        let Some(oldest) = self.open_tables.pop_front() else { return };
        let Some(handle) = oldest.upgrade() else { return };
        if handle.recently_used.swap(false, Ordering::Relaxed) {
            self.open_tables.push_back(oldest);
        } else {
            self.close(handle.reader.swap(None));
        }
    }

    /// Closes a reader that was removed from its handle.
    fn close(&mut self, table: Option<Retired<TableReader>>) {
        if let Some(table) = table {
            self.retired_tables.push(table);
        }
        // The reclamation comes at once, because the memory of the reader counts until its drop.
        self.retired_tables.reclaim(&mut Vec::new());
    }
}

pub(crate) type OnStats = Box<dyn Fn(TableStats) + Send + Sync>;

/// Number of file descriptors for other files: WAL, MANIFEST, LOCK, LOG, and a few temporary ones.
const NON_TABLE_FILES: usize = 10;

impl ForkParticipant for TableCache {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |cache| &cache.eviction);
    }
}

impl TableCache {
    pub(crate) fn new(
        directory: &Path,
        options: &Options,
        context: Arc<TableReaderContext>,
        on_stats: OnStats,
    ) -> TableCache {
        let capacity = options.max_open_files.saturating_sub(NON_TABLE_FILES).max(1);
        TableCache {
            directory: directory.to_path_buf(),
            options: options.clone(),
            context,
            capacity,
            keeps_tables: false,
            eviction: Mutex::default(),
            may_block: AtomicBool::new(false),
            on_stats,
        }
    }

    /// Returns this cache for a database whose files another process removes at any time. No limit
    /// closes a table.
    pub(crate) fn keeping_tables(self, keeps_tables: bool) -> TableCache {
        TableCache { keeps_tables, ..self }
    }

    /// Opens the table of `file`, unless it is open. Returns false if the file does not exist.
    pub(crate) fn hold(&self, file: TableRef<'_>) -> Result<bool> {
        if file.handle.reader.protect().is_some() || mutant!(TableOpenedAtFirstRead) {
            return Ok(true);
        }
        match self.open_and_insert(&file) {
            Ok(_) => Ok(true),
            Err(error) if is_missing_table(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the file of the table if it is open.
    pub(crate) fn open_file(&self, file: TableRef<'_>) -> Option<Arc<dyn RandomAccessFile>> {
        Some(Arc::clone(&file.handle.reader.protect()?.file))
    }

    /// Returns the statistics of the database.
    pub(crate) fn metrics(&self) -> &Statistics {
        &self.context.metrics
    }

    /// Returns the memory counter of the open tables.
    pub(crate) fn memory(&self) -> &TableMemory {
        &self.context.memory
    }

    /// Returns the open table of `file`.
    pub(crate) fn find_table(&self, file: TableRef<'_>) -> Result<Arc<TableReader>> {
        file.handle.get().map_or_else(|| self.open_and_insert(&file), |table| Ok(table.to_arc()))
    }

    /// Returns true if prefetches of table blocks pay, because reads may wait for the storage.
    pub(crate) fn reads_may_block(&self) -> bool {
        self.may_block.load(Ordering::Relaxed)
    }

    /// Tells the system that the pages of `file` that were read will not be read again soon. Does
    /// nothing if the table is not open.
    pub(crate) fn advise_dontneed(&self, file: TableRef<'_>) {
        if let Some(table) = file.handle.reader.protect() {
            table.advise_dontneed();
        }
    }

    /// Returns the table of `file` for one read, usually without a reference count, so that readers
    /// of one table do not compete for it.
    #[inline]
    pub(crate) fn guard(&self, file: TableRef<'_>, read: BlockReadOptions) -> Result<TableGuard> {
        match file.handle.get() {
            Some(table) => Ok(TableGuard::Hazard(table)),
            None if read.only_in_memory => Err(Error::WouldWait),
            None => self.open_and_insert(&file).map(TableGuard::Counted),
        }
    }

    /// Returns the table of `file` for one read, if it is open.
    #[inline]
    pub(crate) fn guard_if_open(&self, file: TableRef<'_>) -> Option<TableGuard> {
        file.handle.get().map(TableGuard::Hazard)
    }

    #[cold]
    fn open_and_insert(&self, file: &TableRef<'_>) -> Result<Arc<TableReader>> {
        let table = self.open(file)?;
        if table.may_block() {
            self.may_block.store(true, Ordering::Relaxed);
        }
        check_key_bounds(&table, file.smallest, file.largest)?;
        // The check has mapped a page at each end, perhaps a huge one. These pages of all inputs
        // would count as memory of the process at the start of a compaction.
        table.advise_dontneed();
        if let Some(properties) = table.properties()? {
            let stats = TableStats { properties, newest_tombstone: 0 };
            if file.handle.set_stats(stats) {
                (self.on_stats)(stats);
            }
        }
        // Another thread may have opened the same table meanwhile.
        let other = file.handle.reader.swap(Some(Arc::clone(&table)));
        self.evict_for(file.handle, other);
        Ok(table)
    }

    /// Opens the table of `file`. Not inlined: the caller reads blocks afterwards, and threads with
    /// a stack of 16 KiB have no space for the values of both.
    #[inline(never)]
    fn open(&self, file: &TableRef<'_>) -> Result<Arc<TableReader>> {
        let TableRef { number, size, .. } = *file;
        let path = self.directory.join(FileName::Table(number).to_string());
        let fs = &self.options.env.fs;
        let access = match (self.keeps_tables, self.options.paranoid_checks) {
            (false, false) => AccessMode::Mmap,
            (false, true) => AccessMode::Pread,
            (true, false) => AccessMode::KeptMmap,
            (true, true) => AccessMode::KeptPread,
        };
        let (path, opened) = match fs.open_random_access(&path, access) {
            Err(error) if error.is_not_found() => {
                let old = self.directory.join(FileName::OldTable(number).to_string());
                match fs.open_random_access(&old, access) {
                    Ok(opened) => (old, opened),
                    Err(_) => return Err(missing_table_error(&error)),
                }
            }
            opened => (path, opened?),
        };
        if opened.len() < size {
            let message = format!("{} bytes, expected {size} (from the manifest)", opened.len());
            return Err(Error::corruption(&path, None, message));
        }
        let size = if mutant!(TableReadAtEndOfFile) { opened.len() } else { size };
        let mut table = TableReader::open(opened, path, size, number, Arc::clone(&self.context))?;
        table.sampled_reads = Arc::clone(&file.handle.sampled_reads);
        Ok(Arc::new(table))
    }

    fn evict_for(&self, opened: &Arc<TableHandle>, other: Option<Retired<TableReader>>) {
        let mut clock = self.eviction.lock();
        clock.close(other);
        if self.keeps_tables {
            return;
        }
        // Two rounds suffice, because the first round clears every mark.
        for _ in 0..2 * clock.open_tables.len() {
            if clock.open_tables.len() < self.capacity && !self.context.memory.is_over_limit() {
                break;
            }
            clock.visit_next();
        }
        // The new table joins the queue last, so that the loop cannot evict it.
        clock.open_tables.push_back(Arc::downgrade(opened));
        drop(clock);
        self.context.memory.close_excess_of_shared_budget();
    }

    /// Closes the least used tables until at most `bytes` bytes are left.
    pub(crate) fn close_tables(&self, bytes: usize) {
        let mut clock = self.eviction.lock();
        // The newest table stays, because its reader may open it again at once.
        for _ in 0..2 * clock.open_tables.len() {
            if clock.open_tables.len() <= 1 || self.context.memory.usage() <= bytes {
                break;
            }
            clock.visit_next();
        }
    }
}

/// Reason of an error for a table file that does not exist. Its kind is not `NotFound`, which
/// callers take for a missing key.
#[derive(Debug, thiserror::Error)]
#[error("table file is missing")]
struct MissingTable;

fn missing_table_error(error: &FileError) -> Error {
    Error::from(FileError::new("open", &error.path, io::Error::other(MissingTable)))
}

fn is_missing_table(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.source.get_ref().is_some_and(|cause| cause.is::<MissingTable>()))
}
