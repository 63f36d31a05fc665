//! Which tables are open.
//!
//! An open table hangs in the slot of its file's metadata, so a look-up that has the version has the table: no
//! search, no lock. The number of open tables is bounded, and what they hold in memory may be: opening one more closes
//! those that were not used since the hand of the clock last passed them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use terrace_env::AccessMode;
use terrace_format::filename::FileName;
use terrace_format::key::{InternalKey, SequenceNumber};
use terrace_format::table::TableProperties;

use super::key_bounds_check;
use super::table_memory::TableMemory;
use super::table_reader::{TableReader, TableReaderContext};
use crate::error::{Error, Result};
use crate::info_log::Logger;
use crate::options::Options;
use crate::stats::Statistics;
use crate::sync::{Arc, AtomicBool, HazardCell, HazardGuard, Mutex, Ordering, RetireList, Retired, Weak};

/// The place of one table.
#[derive(Default)]
pub(crate) struct TableHandle {
    reader: HazardCell<TableReader>,
    /// Set by every use, cleared by the hand of the clock.
    recently_used: AtomicBool,
    /// Empty while nobody knows.
    stats: OnceLock<TableStats>,
}

/// What is known of the entries of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableStats {
    pub(crate) properties: TableProperties,
    /// The number of the newest delete. 0 for a table that was there when the database was opened: no reader is older.
    pub(crate) newest_tombstone: SequenceNumber,
}

impl TableHandle {
    /// Notes what is known of the table. False if something was.
    pub(crate) fn set_stats(&self, tally: TableStats) -> bool {
        self.stats.set(tally).is_ok()
    }

    /// What is known of the table: of one that was written since the database was opened, or was opened itself.
    pub(crate) fn stats(&self) -> Option<TableStats> {
        self.stats.get().copied()
    }

    /// The table, if it is open.
    #[inline]
    fn get(&self) -> Option<HazardGuard<TableReader>> {
        let table = self.reader.protect();
        // A plain store would make readers of one table fight for its cache line.
        if table.is_some() && !self.recently_used.load(Ordering::Relaxed) {
            self.recently_used.store(true, Ordering::Relaxed);
        }
        table
    }
}

/// A table as the manifest knows it, and the place where it hangs when it is open.
#[derive(Clone, Copy)]
pub(crate) struct TableRef<'a> {
    pub(crate) handle: &'a Arc<TableHandle>,
    pub(crate) number: u64,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) smallest: &'a InternalKey,
    pub(crate) largest: &'a InternalKey,
}

/// The open tables of one database.
pub(crate) struct TableCache {
    directory: PathBuf,
    options: Options,
    logger: Arc<dyn Logger>,
    context: Arc<TableReaderContext>,
    capacity: usize,
    eviction: Mutex<ClockEviction>,
    /// True if there was a table whose reads may wait for the device. Relaxed: a hint.
    may_block: AtomicBool,
    /// Is told what a table that was opened says of its entries, if nobody knew. Any thread may do that, with any lock but
    /// that of the state.
    on_stats: OnStats,
}

/// Which tables are open, in the order in which the hand comes to them.
#[derive(Default)]
struct ClockEviction {
    open_tables: VecDeque<Weak<TableHandle>>,
    /// Those that were closed while somebody read them, until another one is opened: no more than there are readers.
    retired_tables: RetireList<TableReader>,
}

impl ClockEviction {
    /// Closes a table that was taken out of its slot.
    fn close(&mut self, table: Option<Retired<TableReader>>) {
        table.into_iter().for_each(|table| self.retired_tables.push(table));
        // At once: what it holds counts until it is gone.
        self.retired_tables.reclaim(&mut Vec::new());
    }
}

pub(crate) type OnStats = Box<dyn Fn(TableStats) + Send + Sync>;

/// Descriptors that are not for tables: log, manifest, lock, info log and a few in passing.
const NON_TABLE_FILES: usize = 10;

impl TableCache {
    pub(crate) fn new(
        directory: &Path,
        options: &Options,
        logger: Arc<dyn Logger>,
        context: Arc<TableReaderContext>,
        told: OnStats,
    ) -> TableCache {
        let limit = options.max_open_files.saturating_sub(NON_TABLE_FILES).max(1);
        let (directory, options) = (directory.to_path_buf(), options.clone());
        TableCache {
            directory,
            options,
            logger,
            context,
            capacity: limit,
            eviction: Mutex::default(),
            may_block: AtomicBool::new(false),
            on_stats: told,
        }
    }

    /// What happened to the tables.
    pub(crate) fn metrics(&self) -> &Statistics {
        &self.context.metrics
    }

    /// What the open tables hold.
    pub(crate) fn memory(&self) -> &TableMemory {
        &self.context.memory
    }

    /// The table of `file`.
    pub(crate) fn find_table(&self, file: TableRef<'_>) -> Result<Arc<TableReader>> {
        file.handle.get().map_or_else(|| self.open_and_insert(&file), |table| Ok(table.to_arc()))
    }

    /// True if it pays to say what will be read before it is.
    pub(crate) fn reads_may_block(&self) -> bool {
        self.may_block.load(Ordering::Relaxed)
    }

    /// Says that what was read of `file`, if it is open, will hardly be read again.
    pub(crate) fn advise_dontneed(&self, file: TableRef<'_>) {
        if let Some(table) = file.handle.reader.protect() {
            table.advise_dontneed();
        }
    }

    /// What `read` gives of the table of `file`, which is not kept: so readers of one table do not meet at its count.
    pub(crate) fn with_table<T>(
        &self,
        file: TableRef<'_>,
        read: impl FnOnce(&TableReader) -> Result<T>,
    ) -> Result<T> {
        match file.handle.get() {
            Some(table) => read(&table),
            None => read(&*self.open_and_insert(&file)?),
        }
    }

    #[cold]
    fn open_and_insert(&self, file: &TableRef<'_>) -> Result<Arc<TableReader>> {
        let table = Arc::new(self.open(file.number, file.size)?);
        if table.may_block() {
            self.may_block.store(true, Ordering::Relaxed);
        }
        key_bounds_check::check_key_bounds(&table, file, &*self.logger, self.options.paranoid_checks)?;
        if let Some(counts) = table.properties()? {
            let tally = TableStats { properties: counts, newest_tombstone: 0 };
            if file.handle.set_stats(tally) {
                (self.on_stats)(tally);
            }
        }
        // That of another thread that opened it meanwhile.
        let other = file.handle.reader.swap(Some(Arc::clone(&table)));
        self.evict_for(file.handle, other);
        Ok(table)
    }

    fn open(&self, number: u64, size: u64) -> Result<TableReader> {
        let path = self.directory.join(FileName::Table(number).to_string());
        let fs = &self.options.env.fs;
        let access = if self.options.paranoid_checks { AccessMode::Pread } else { AccessMode::Mmap };
        let (path, file) = match fs.open_random_access(&path, access) {
            Err(error) if error.is_not_found() => {
                let old = self.directory.join(FileName::OldTable(number).to_string());
                match fs.open_random_access(&old, access) {
                    Ok(file) => (old, file),
                    Err(_) => return Err(Error::from(error)),
                }
            }
            opened => (path, opened?),
        };
        if size != 0 && file.len() < size {
            let what = format!("{} bytes, expected {size} as the manifest says", file.len());
            return Err(Error::corruption(&path, None, what));
        }
        TableReader::open(file, path, number, Arc::clone(&self.context))
    }

    fn evict_for(&self, slot: &Arc<TableHandle>, other: Option<Retired<TableReader>>) {
        let mut clock = self.eviction.lock();
        clock.close(other);
        // Twice round at most: the first round clears every mark.
        for _ in 0..2 * clock.open_tables.len() {
            if clock.open_tables.len() < self.capacity && !self.context.memory.is_over_limit() {
                break;
            }
            let Some(hand) = clock.open_tables.pop_front() else { break };
            let Some(slot) = hand.upgrade() else { continue };
            if slot.recently_used.swap(false, Ordering::Relaxed) {
                clock.open_tables.push_back(hand);
            } else {
                clock.close(slot.reader.swap(None));
            }
        }
        // It is not what has to go for itself.
        clock.open_tables.push_back(Arc::downgrade(slot));
    }
}
