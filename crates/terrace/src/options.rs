//! Options of a database, a read and a write, with LevelDB's names and defaults.

use std::any::Any;

use terrace_env::Env;
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::compress::{Codec, SNAPPY};
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
use terrace_format::filter_block::TableFilter;
use terrace_format::key::InternalComparator;
use terrace_format::table::TableOptions;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::info_log::Logger;
use crate::snapshot::Snapshot;
use crate::sync::Arc;

/// How to open a database. Sizes are in bytes; values outside of the stated bounds are moved to the nearer one.
///
/// ```
/// use std::sync::Arc;
/// use terrace::{BlockCache, Bloom, Db, Env, Options};
///
/// let options = Options {
///     create_if_missing: true,
///     block_cache: Some(BlockCache::new(64 << 20)),
///     filter_policy: Some(Arc::new(Bloom::new(10))),
///     env: Env::memory(), // for a test; leave it out for files
///     ..Options::default()
/// };
/// let db = Db::open("cities", &options)?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The order of keys. Must have the name, and the order, that the database was created with.
    pub comparator: Arc<dyn Comparator>,
    /// Create the database if it does not exist. Default: false.
    pub create_if_missing: bool,
    /// Fail if the database exists. Default: false.
    pub error_if_exists: bool,
    /// Fail at open on the first damaged log record, where LevelDB by default reports it to the info log and goes on.
    /// Checksums are verified either way. Also read tables by calls, which can fail, where LevelDB maps up to a thousand of
    /// them into memory: a medium that fails under a mapping, or a file that somebody cuts short, ends the process. And a
    /// table of up to 4 KiB whose first or last key is not the one that the manifest has is damage, where otherwise it is
    /// so only if they lie outside of what the manifest has, and else a line in the info log. Default: false.
    pub paranoid_checks: bool,
    /// Files, clock, threads, randomness. Default: the machine's.
    pub env: Env,
    /// Receives what the database did. Default: none, and then it goes to the file `LOG` in the database.
    pub logger: Option<Arc<dyn Logger>>,
    /// About the memory that the database may take, in bytes: one number for what would else take a few. 2 MiB or more.
    ///
    /// *Counted* are memtables with their filters, memory kept for the next ones, cached blocks, and what every open table
    /// holds: its index, its filter, its places in the cache (about 100 bytes a block, and with the usual filter 1.25 a
    /// key). An eighth is left for what flushes, merges and iterators hold while they are at work; as a merge may take ten to
    /// twenty MiB, less than 64 MiB does not hold while one runs. Three eighths, up to 105 MiB, are for memtables; the rest is for blocks and open tables. The more tables hold, the less is left for blocks; where they
    /// hold three quarters of that rest, those used least are closed, and read anew when they are wanted. So a budget that is
    /// small for what is stored makes look-ups slow, and changes nothing else: 1 GiB is enough to have the tables of 16 GiB or
    /// more at hand.
    ///
    /// *Not counted* are mapped pages of tables and logs, which the system takes back when it needs them; values and iterators
    /// that the caller keeps, with the memtables and blocks that they hold on to; a single batch that is larger than a memtable; what a
    /// read-only opening replays; and the list of tables, about 300 bytes each.
    ///
    /// A `write_buffer_size` that is given stays as it is, and the cache gets what that leaves, an eighth at least. A
    /// `block_cache` that is given stays as it is, and is not counted: it may serve several databases. `max_open_files` holds
    /// beside this.
    ///
    /// Default: none. Then memtables take up to 112 MiB, the cache takes 128 MiB (so 256 MiB is much the same), and nothing but
    /// `max_open_files` limits what open tables hold: about four hundredths of their size, where values are small. But where the
    /// process may have less than 512 MiB, as in a small container, the default is half of that. What it may have is the machine's
    /// memory, or the limit of its control groups if that is less, and is looked up once, when the process opens its first database:
    /// a limit that is set or moved later changes nothing until the process begins anew.
    pub memory_budget: Option<usize>,
    /// The size at which a memtable becomes a table. 64 KiB to 1 GiB. Up to three live in memory; of more than 64 MiB,
    /// two. Default: none, and then it is 4 MiB, and grows up to 32 MiB while writes come fast and more than 64 MiB
    /// are stored; or what a [`memory_budget`](Options::memory_budget) allows.
    pub write_buffer_size: Option<usize>,
    /// The open files that the database may keep. 74 to 50,000, default 1,000.
    pub max_open_files: usize,
    /// Decompressed blocks. Default: none, and then the database makes one of 128 MiB, or of what a
    /// [`memory_budget`](Options::memory_budget) allows.
    pub block_cache: Option<Arc<BlockCache>>,
    /// The size of a block before compression. 1 KiB to 4 MiB, default 4 KiB.
    pub block_size: usize,
    /// Keys between restart points of a block: 1 or more, default 16.
    pub block_restart_interval: usize,
    /// The size at which a merge begins a new table. 1 MiB to 1 GiB. Default: none, and then it is 2 MiB, and up to 64 MiB
    /// on a level that holds more than 64 such tables.
    pub max_file_size: Option<u64>,
    /// How blocks are compressed. Default: snappy.
    ///
    /// A codec that is not [`portable`](Codec::leveldb_compatible) makes the database unreadable for a stock LevelDB, which
    /// will refuse it by its comparator name and change nothing.
    pub compression: &'static Codec,
    /// Go on with the log and the manifest of the last run, if it closed the database, instead of writing new ones at
    /// open; and write, when the database is closed, what is in memory as a table, if it is much (from 256 KiB on, and an
    /// eighth of the write buffer), so that the next open need not. Default: true.
    pub reuse_logs: bool,
    /// Lets look-ups skip tables that lack a key. [`BloomFilterPolicy`] with 0 bits is no filter. Default: none, and then
    /// [`BloomFilterPolicy`] with 10 bits if the order is the bytewise one.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            comparator: bytewise(),
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            env: Env::default(),
            logger: None,
            memory_budget: None,
            write_buffer_size: None,
            max_open_files: 1000,
            block_cache: None,
            block_size: 4096,
            block_restart_interval: 16,
            max_file_size: None,
            compression: &SNAPPY,
            reuse_logs: true,
            filter_policy: None,
        }
    }
}

/// The least memory for a database, in bytes: three small memtables, and a few blocks.
const MIN_MEMORY_BUDGET: usize = 2 << 20;
/// What a database takes that has no budget is much the same as with this one, in bytes.
const UNBUDGETED_MEMORY_USE: usize = 256 << 20;

/// The budget of a process that may have so much memory, if nobody asked for one: none, or half of it where that is little. The rest
/// is for the process itself and for the system's cache of its files.
fn default_memory_budget(memory: u64) -> Option<usize> {
    usize::try_from(memory / 2).ok().filter(|half| *half < UNBUDGETED_MEMORY_USE)
}

impl Options {
    /// Moves each size to the nearer bound of what LevelDB allows.
    pub(crate) fn sanitized(&self) -> Options {
        let mut options = self.clone();
        options.max_open_files = options.max_open_files.clamp(74, 50_000);
        let budget = options.memory_budget.or_else(|| default_memory_budget(options.env.fs.memory_limit()?));
        options.memory_budget = budget.map(|budget| budget.max(MIN_MEMORY_BUDGET));
        options.write_buffer_size = options.write_buffer_size.map(|size| size.clamp(64 << 10, 1 << 30));
        options.max_file_size = options.max_file_size.map(|size| size.clamp(1 << 20, 1 << 30));
        options.block_size = options.block_size.clamp(1 << 10, 4 << 20);
        options.block_restart_interval = options.block_restart_interval.max(1);
        options
    }

    /// Fails if this build cannot write blocks of [`Options::compression`].
    pub(crate) fn check_codec(&self) -> Result<()> {
        let Codec { name, missing_feature: Some(feature), .. } = self.compression else { return Ok(()) };
        let what = format!("compression {name}: this build lacks the cargo feature `{feature}`");
        Err(Error::InvalidArgument(what))
    }

    /// The size of a memtable, in bytes: all of them, or the first.
    pub(crate) fn initial_memtable_size(&self) -> usize {
        self.write_buffer_size.unwrap_or(4 << 20)
    }

    /// The size of a table that a merge writes, in bytes: the largest, or that of small levels.
    pub(crate) fn base_file_size(&self) -> u64 {
        self.max_file_size.unwrap_or(2 << 20)
    }

    /// How tables are written whose internal keys are in `order`.
    pub(crate) fn table_options(&self, order: &InternalComparator) -> TableOptions {
        TableOptions {
            comparator: Arc::new(order.clone()),
            filter: self.table_filters(order.is_bytewise()),
            block_size: self.block_size,
            restart_interval: self.block_restart_interval,
            codec: self.compression,
        }
    }
}

/// Of the filters that nobody asked for.
const DEFAULT_BLOOM_BITS_PER_KEY: usize = 10;

impl Options {
    /// What makes the filters of a database. A policy that is not ours may make of many keys what its author did not
    /// think of, and gets them 2 KiB by 2 KiB, as LevelDB would give them. Keys that are the same with other bytes have
    /// no filter that nobody asked for.
    fn table_filters(&self, bytewise: bool) -> Option<TableFilter> {
        let Some(policy) = &self.filter_policy else {
            return bytewise.then(|| TableFilter::Full(BloomFilterPolicy::new(DEFAULT_BLOOM_BITS_PER_KEY)));
        };
        match (&**policy as &dyn Any).downcast_ref::<BloomFilterPolicy>() {
            Some(bloom) => (bloom.bits_per_key() > 0).then(|| TableFilter::Full(bloom.clone())),
            None => Some(TableFilter::BlockBased(Arc::new(InternalFilterPolicy(Arc::clone(policy))))),
        }
    }
}

/// How tables without a database around them are written: their keys are no internal ones.
impl From<&Options> for TableOptions {
    fn from(options: &Options) -> TableOptions {
        let options = options.sanitized();
        TableOptions {
            comparator: options.comparator,
            filter: options.filter_policy.map(TableFilter::BlockBased),
            block_size: options.block_size,
            restart_interval: options.block_restart_interval,
            codec: options.compression,
        }
    }
}

/// How to read.
///
/// ```
/// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
/// # let db = terrace::Db::open("cities", &options)?;
/// use terrace::ReadOptions;
///
/// for name in ["AT/Wien", "CH/Bern", "CH/Chur", "FR/Lyon"] {
///     db.put(name.as_bytes(), b"")?;
/// }
/// let range = ReadOptions {
///     lower_bound: Some(b"B".to_vec()),
///     upper_bound: Some(b"CH/C".to_vec()),
///     fill_cache: false,
///     ..ReadOptions::default()
/// };
/// assert_eq!(db.iter_with(&range).into_forward().count(), 1);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Kept for LevelDB's users: Terrace verifies the checksum of every block that it reads from a file.
    pub verify_checksums: bool,
    /// Keep the blocks that this read fetches in the cache. Turn it off for bulk scans. Default: true.
    pub fill_cache: bool,
    /// Read the state of that moment. Default: the state when the call is made.
    pub snapshot: Option<Snapshot>,
    /// Iterators show no key below this one.
    pub lower_bound: Option<Vec<u8>>,
    /// Iterators show no key at or above this one.
    pub upper_bound: Option<Vec<u8>>,
    /// Iterators show only keys that begin so. For the bytewise order only.
    pub prefix: Option<Vec<u8>>,
}

impl ReadOptions {
    /// The default, where a constant is wanted.
    pub const DEFAULT: ReadOptions = ReadOptions {
        verify_checksums: false,
        fill_cache: true,
        snapshot: None,
        lower_bound: None,
        upper_bound: None,
        prefix: None,
    };
}

/// The default, for who reads by it.
pub(crate) static DEFAULT_READ_OPTIONS: ReadOptions = ReadOptions::DEFAULT;

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions::DEFAULT
    }
}

/// How to write.
///
/// ```
/// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// db.put_with(b"CH/Chur", b"46.85,9.53", &terrace::WriteOptions { sync: true })?; // both are on the medium now
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Return only when the write is on the medium. Without it a write survives the death of the process, but not
    /// of the machine. Default: false.
    pub sync: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machine_gets_a_default_budget() {
        let budgets = [64 << 20, (512 << 20) - 2, 512 << 20, u64::MAX].map(default_memory_budget);
        assert_eq!(budgets, [Some(32 << 20), Some((256 << 20) - 1), None, None]);
    }

    #[test]
    fn explicit_budget_is_kept() {
        let options = Options { memory_budget: Some(8 << 20), ..Options::default() };
        assert_eq!(options.sanitized().memory_budget, Some(8 << 20));
        assert_eq!(
            Options { memory_budget: Some(0), ..options }.sanitized().memory_budget,
            Some(MIN_MEMORY_BUDGET)
        );
    }
}
