//! Which tables are open.
//!
//! An open table hangs in the slot of its file's metadata, so a look-up that has the version has the table: no
//! search, no lock. The number of open tables is bounded, and what they hold in memory may be: opening one more closes
//! those that were not used since the hand of the clock last passed them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use terrace_env::Access;
use terrace_format::filename::FileName;
use terrace_format::key::{InternalKey, Sequence};
use terrace_format::table::Counts;

use super::ends;
use super::memory::Memory;
use super::reader::{Table, TableContext};
use crate::error::{Error, Result};
use crate::logger::Logger;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::sync::{Arc, AtomicBool, Held, Limbo, Mutex, Ordering, Retired, Spot, Weak};

/// The place of one table.
#[derive(Default)]
pub(crate) struct TableSlot {
    table: Spot<Table>,
    /// Set by every use, cleared by the hand of the clock.
    used: AtomicBool,
    /// Empty while nobody knows.
    tally: OnceLock<Tally>,
}

/// What is known of the entries of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// The number of the newest delete. 0 for a table that was there when the database was opened: no reader is older.
    pub(crate) newest_delete: Sequence,
}

impl TableSlot {
    /// Notes what is known of the table. False if something was.
    pub(crate) fn learn(&self, tally: Tally) -> bool {
        self.tally.set(tally).is_ok()
    }

    /// What is known of the table: of one that was written since the database was opened, or was opened itself.
    pub(crate) fn tally(&self) -> Option<Tally> {
        self.tally.get().copied()
    }

    /// The table, if it is open.
    #[inline]
    fn used(&self) -> Option<Held<Table>> {
        let table = self.table.hold();
        // A plain store would make readers of one table fight for its cache line.
        if table.is_some() && !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        table
    }
}

/// A table as the manifest knows it, and the place where it hangs when it is open.
#[derive(Clone, Copy)]
pub(crate) struct TableRef<'a> {
    pub(crate) slot: &'a Arc<TableSlot>,
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
    context: Arc<TableContext>,
    limit: usize,
    clock: Mutex<Clock>,
    /// True if there was a table whose reads may wait for the device. Relaxed: a hint.
    waits: AtomicBool,
    /// Is told what a table that was opened says of its entries, if nobody knew. Any thread may do that, with any lock but
    /// that of the state.
    told: Told,
}

/// Which tables are open, in the order in which the hand comes to them.
#[derive(Default)]
struct Clock {
    open: VecDeque<Weak<TableSlot>>,
    /// Those that were closed while somebody read them, until another one is opened: no more than there are readers.
    closed: Limbo<Table>,
}

impl Clock {
    /// Closes a table that was taken out of its slot.
    fn close(&mut self, table: Option<Retired<Table>>) {
        table.into_iter().for_each(|table| self.closed.put(table));
        // At once: what it holds counts until it is gone.
        self.closed.sift(&mut Vec::new());
    }
}

pub(crate) type Told = Box<dyn Fn(Tally) + Send + Sync>;

/// Descriptors that are not for tables: log, manifest, lock, info log and a few in passing.
const OTHER_FILES: usize = 10;

impl TableCache {
    pub(crate) fn new(
        directory: &Path,
        options: &Options,
        logger: Arc<dyn Logger>,
        context: Arc<TableContext>,
        told: Told,
    ) -> TableCache {
        let limit = options.max_open_files.saturating_sub(OTHER_FILES).max(1);
        let (directory, options) = (directory.to_path_buf(), options.clone());
        TableCache {
            directory,
            options,
            logger,
            context,
            limit,
            clock: Mutex::default(),
            waits: AtomicBool::new(false),
            told,
        }
    }

    /// What happened to the tables.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    /// What the open tables hold.
    pub(crate) fn memory(&self) -> &Memory {
        &self.context.memory
    }

    /// The table of `file`.
    pub(crate) fn table(&self, file: TableRef<'_>) -> Result<Arc<Table>> {
        file.slot.used().map_or_else(|| self.fill(&file), |table| Ok(table.share()))
    }

    /// True if it pays to say what will be read before it is.
    pub(crate) fn reads_wait(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Says that what was read of `file`, if it is open, will hardly be read again.
    pub(crate) fn let_go(&self, file: TableRef<'_>) {
        if let Some(table) = file.slot.table.hold() {
            table.let_go();
        }
    }

    /// What `read` gives of the table of `file`, which is not kept: so readers of one table do not meet at its count.
    pub(crate) fn read<T>(&self, file: TableRef<'_>, read: impl FnOnce(&Table) -> Result<T>) -> Result<T> {
        match file.slot.used() {
            Some(table) => read(&table),
            None => read(&*self.fill(&file)?),
        }
    }

    #[cold]
    fn fill(&self, file: &TableRef<'_>) -> Result<Arc<Table>> {
        let table = Arc::new(self.open(file.number, file.size)?);
        if table.waits() {
            self.waits.store(true, Ordering::Relaxed);
        }
        ends::check(&table, file, &*self.logger, self.options.paranoid_checks)?;
        if let Some(counts) = table.counts()? {
            let tally = Tally { counts, newest_delete: 0 };
            if file.slot.learn(tally) {
                (self.told)(tally);
            }
        }
        // That of another thread that opened it meanwhile.
        let other = file.slot.table.put(Some(Arc::clone(&table)));
        self.admit(file.slot, other);
        Ok(table)
    }

    fn open(&self, number: u64, size: u64) -> Result<Table> {
        let path = self.directory.join(FileName::Table(number).to_string());
        let fs = &self.options.env.fs;
        let access = if self.options.paranoid_checks { Access::Read } else { Access::Map };
        let (path, file) = match fs.open_random(&path, access) {
            Err(error) if error.is_not_found() => {
                let old = self.directory.join(FileName::OldTable(number).to_string());
                match fs.open_random(&old, access) {
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
        Table::open(file, path, number, Arc::clone(&self.context))
    }

    fn admit(&self, slot: &Arc<TableSlot>, other: Option<Retired<Table>>) {
        let mut clock = self.clock.lock();
        clock.close(other);
        // Twice round at most: the first round clears every mark.
        for _ in 0..2 * clock.open.len() {
            if clock.open.len() < self.limit && !self.context.memory.is_over() {
                break;
            }
            let Some(hand) = clock.open.pop_front() else { break };
            let Some(slot) = hand.upgrade() else { continue };
            if slot.used.swap(false, Ordering::Relaxed) {
                clock.open.push_back(hand);
            } else {
                clock.close(slot.table.put(None));
            }
        }
        // It is not what has to go for itself.
        clock.open.push_back(Arc::downgrade(slot));
    }
}
