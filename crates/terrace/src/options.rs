//! Options of a database, of a read and of a write, with LevelDB's names and defaults.

use std::any::Any;
use std::fmt;

use terrace_env::{Env, MappedLogs};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::compress::{Codec, SNAPPY};
use terrace_format::filename::FileName;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
use terrace_format::filter_block::TableFilter;
use terrace_format::key::InternalComparator;
use terrace_format::table::TableOptions;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::event::EventListener;
use crate::info_log::Logger;
use crate::shared_budget::{SharedBudget, shared_budget_size};
use crate::snapshot::Snapshot;
use crate::sync::Arc;

/// Options for [`Db::open`](crate::Db::open). Sizes are in bytes. Values outside the stated bounds
/// are clipped to the nearest bound.
///
/// ```
/// use std::sync::Arc;
/// use terrace::{BlockCache, BloomFilterPolicy, Db, Env, Options};
///
/// let options = Options::default()
///     .create_if_missing(true)
///     .block_cache(BlockCache::new(64 << 20))
///     .filter_policy(Arc::new(BloomFilterPolicy::new(14)))
///     .env(Env::in_memory());
/// let db = Db::open("cities", &options)?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Order of the keys. Its name and its order must be those that the database was created with.
    pub comparator: Arc<dyn Comparator>,
    /// Creates the database if it does not exist. Default: false.
    pub create_if_missing: bool,
    /// Returns an error if the database exists. Default: false.
    pub error_if_exists: bool,
    /// Reports damage early. Checksums are verified with and without this option. Default: false.
    ///
    /// If set, two things differ:
    /// - Open fails on the first damaged log record. LevelDB's default, and the default here, is to
    ///   report the record to the info log and to continue.
    /// - Tables are read by system calls, which return errors. Otherwise up to a thousand tables
    ///   are mapped into memory, as in LevelDB. A storage error under a mapping, or a file that
    ///   another process truncates, ends the process.
    pub paranoid_checks: bool,
    /// Files, clock, threads and randomness. Default: those of the operating system.
    pub env: Env,
    /// Receiver of the info log. Default: None, which writes the file `LOG` in the database
    /// directory.
    pub logger: Option<Arc<dyn Logger>>,
    /// Receiver of events: flushes, compactions, write stalls, refused writes. Default: None.
    pub listener: Option<Arc<dyn EventListener>>,
    /// Total memory budget in bytes for memtables, block cache and open tables. 2 MiB or more.
    ///
    /// *Counted* are memtables with their filters, the pool of recycled chunks, cached blocks, and
    /// the memory of open tables: index, filter and cache slots. Cache slots take about 100 bytes
    /// per block. The default filter takes 1.25 bytes per key. One eighth is reserved for running
    /// flushes, compactions and iterators. A compaction may take 10 to 20 MiB, so a budget below 64
    /// MiB is exceeded while one runs. Three eighths, up to 204 MiB, are for memtables. The rest is
    /// for blocks and open tables. When open tables take three quarters of the rest, the least
    /// recently used ones are closed, and reopened on demand. A budget too small for the database
    /// only makes reads slower. 1 GiB keeps the tables of 16 GiB or more open.
    ///
    /// *Not counted* are mapped pages of tables and logs, which the system reclaims under memory
    /// pressure; values and iterators of the caller, with their memtables and blocks; a single
    /// batch that is larger than a memtable; the replayed log of a read-only open; and the list of
    /// tables, about 300 bytes each.
    ///
    /// An explicit `write_buffer_size` stays as it is, and the cache gets the remaining bytes, at
    /// least one eighth. An explicit `block_cache` stays as it is and is not counted, because
    /// several databases may share it. `max_open_files` applies in addition.
    ///
    /// Default: None. All such databases of the process share half of its memory, and each may
    /// take memory that the others do not use. Alone, memtables take up to 204 MiB during fast
    /// writes into more than 1 GiB, and the block cache takes up to 128 MiB. Open tables take about
    /// 4 % of their size for small values. If the process may use less than 512 MiB, as in a small
    /// container, a database takes at most half of that limit. The limit is the memory of the
    /// machine, or of the control group if that is less. It is read once, when the process opens
    /// its first database; a later change has no effect.
    pub memory_budget: Option<usize>,
    /// Size at which a memtable is flushed. 64 KiB to 1 GiB. Beside it, immutable memtables of up
    /// to 64 MiB in total wait for their flush: at least one, at most four. With records of 4 KiB
    /// up to eight wait, and with records of 64 KiB up to sixteen. A small
    /// [`memory_budget`](Options::memory_budget) allows fewer. If the databases of the process
    /// exhaust their shared budget, memtables are flushed earlier.
    ///
    /// Default: None, which begins with 4 MiB. The size grows while writes come fast, within the
    /// memory budget: up to 32 MiB if the database holds more than 128 MiB, and to 64 MiB above 1
    /// GiB. Two immutable memtables of any such size may wait.
    pub write_buffer_size: Option<usize>,
    /// Maximum number of open files. 74 to 50,000, default 1,000.
    pub max_open_files: usize,
    /// Cache of decompressed blocks. Default: None, which adds 128 MiB to a cache that the
    /// databases of the process share. A database with a
    /// [`memory_budget`](Options::memory_budget) has a cache of the size that it allows.
    pub block_cache: Option<Arc<BlockCache>>,
    /// Size of a block before compression. 1 KiB to 4 MiB, default 4 KiB.
    pub block_size: usize,
    /// Number of keys between restart points of a block. 1 or more, default 16.
    pub block_restart_interval: usize,
    /// Size at which a compaction begins a new table. 1 MiB to 1 GiB. Default: None, which means 2
    /// MiB, and up to 64 MiB on a level that holds more than 64 such tables.
    pub max_file_size: Option<u64>,
    /// Compression of the blocks of new tables. Default: None, which keeps the codec of the
    /// existing tables, and means snappy for a new database.
    ///
    /// The newest table of the deepest level shows the codec of a database. So a world of a game
    /// with [`DEFLATE`](terrace_format::compress::DEFLATE) blocks stays readable for the game. An
    /// explicit codec applies to new tables only, and a database with blocks of two codecs may have
    /// no reader except Terrace. [`Db::rewrite_tables`](crate::Db::rewrite_tables) converts the
    /// other tables.
    ///
    /// A codec that is not [`leveldb_compatible`](Codec::leveldb_compatible) makes the database
    /// unreadable for stock LevelDB. From the first zstd block on, stock LevelDB refuses to open it
    /// because of its comparator name, and changes nothing. The name is LevelDB's again after the
    /// last table that may have such a block was replaced.
    pub compression: Option<&'static Codec>,
    /// Method of writing logs: through a memory mapping, or by a system call for each write.
    ///
    /// A mapped log is several times as fast. After a power cut, open the database with Terrace
    /// first: another reader of the format may show a later write without an earlier one. With
    /// [`MappedLogs::Never`], every log equals LevelDB's byte for byte. Default:
    /// [`MappedLogs::Auto`].
    pub mapped_logs: MappedLogs,
    /// Reuses the WAL and the MANIFEST of a cleanly closed database at open, instead of writing new
    /// files. At close, writes the memtable to a table if it holds at least 256 KiB and an eighth
    /// of the write buffer, so that the next open replays less. Default: true.
    pub reuse_logs: bool,
    /// Rules by which compactions are chosen. Default: [`CompactionStyle::LazyLeveled`].
    pub compaction_style: CompactionStyle,
    /// Writes new tables as `.sst`, the name before LevelDB 1.14, instead of `.ldb`. Every LevelDB
    /// reads it. leveldbjni 1.8 and iq80's LevelDB 0.12 for Java read no other name. Ingested
    /// tables keep `.ldb`. Default: false.
    pub old_table_names: bool,
    /// Filter policy that lets gets skip tables without the key. [`BloomFilterPolicy`] with 0 bits
    /// disables filters. Default: None, which means [`BloomFilterPolicy`] with 10 bits per key for
    /// the bytewise comparator, and no filter for another comparator.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
}

/// Rules by which compactions are chosen. Both write trees of LevelDB's format, and a database may
/// change between them at any open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionStyle {
    /// Lazy leveling while a load is running, that is while memtables fill within a second:
    /// compactions leave more sorted runs and rewrite about half as many entries. Half a second
    /// after the load, they continue as [`CompactionStyle::Leveled`], until the levels have their
    /// target sizes.
    #[default]
    LazyLeveled,
    /// Leveled compaction at all times: every level is several times larger than the level above,
    /// as in LevelDB. Scans merge the fewest runs, also during a load.
    Leveled,
}

/// Declares a builder method for each listed field of an options type.
///
/// The method sets the field and returns the options. A conversion after `as` turns the argument
/// into the value of the field.
macro_rules! builder_methods {
    ($options:ident: $($field:ident: $type:ty $(as $conversion:ident)?),+ $(,)?) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($options), "::", stringify!($field), "`](#structfield.", stringify!($field), ") and returns the options.")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> $options {
                    self.$field = builder_methods!(@value $field $($conversion)?);
                    self
                }
            )+
        }
    };
    (@value $field:ident Some) => { Some($field) };
    (@value $field:ident SomeInto) => { Some($field.into()) };
    (@value $field:ident Into) => { $field.into() };
    (@value $field:ident) => { $field };
}

pub(crate) use builder_methods;

builder_methods! {
    Options:
    comparator: Arc<dyn Comparator>,
    create_if_missing: bool,
    error_if_exists: bool,
    paranoid_checks: bool,
    env: Env,
    logger: Arc<dyn Logger> as Some,
    listener: Arc<dyn EventListener> as Some,
    memory_budget: impl Into<Option<usize>> as Into,
    write_buffer_size: impl Into<Option<usize>> as Into,
    max_open_files: usize,
    block_cache: impl Into<Option<Arc<BlockCache>>> as Into,
    block_size: usize,
    block_restart_interval: usize,
    max_file_size: impl Into<Option<u64>> as Into,
    compression: impl Into<Option<&'static Codec>> as Into,
    mapped_logs: MappedLogs,
    reuse_logs: bool,
    compaction_style: CompactionStyle,
    old_table_names: bool,
    filter_policy: Arc<dyn FilterPolicy> as Some,
}

builder_methods! {
    ReadOptions:
    verify_checksums: bool,
    fill_cache: bool,
    snapshot: impl Into<Option<Snapshot>> as Into,
    lower_bound: impl Into<Vec<u8>> as SomeInto,
    upper_bound: impl Into<Vec<u8>> as SomeInto,
    prefix: impl Into<Vec<u8>> as SomeInto,
}

builder_methods! {
    WriteOptions:
    sync: bool,
}

builder_methods! {
    RepairOptions:
    dry_run: bool,
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
            listener: None,
            memory_budget: None,
            write_buffer_size: None,
            max_open_files: 1000,
            block_cache: None,
            block_size: 4096,
            block_restart_interval: 16,
            max_file_size: None,
            compression: None,
            mapped_logs: MappedLogs::Auto,
            reuse_logs: true,
            compaction_style: CompactionStyle::default(),
            old_table_names: false,
            filter_policy: None,
        }
    }
}

/// Minimum memory budget in bytes: three small memtables and a few blocks.
const MIN_MEMORY_BUDGET: usize = 2 << 20;
/// Budget in bytes that corresponds to the memory use of a database without a budget.
const UNBUDGETED_MEMORY_USE: usize = 256 << 20;

/// Returns the default budget of a process that may use `memory` bytes: the shared budget if that
/// is little, otherwise none.
fn default_memory_budget(memory: u64) -> Option<usize> {
    Some(shared_budget_size(memory)).filter(|size| *size < UNBUDGETED_MEMORY_USE)
}

impl Options {
    /// Returns a copy with each size clipped to its bounds.
    pub(crate) fn sanitized(&self) -> Options {
        let mut options = self.clone();
        options.max_open_files = options.max_open_files.clamp(74, 50_000);
        options.memory_budget = options.memory_budget.map(|budget| budget.max(MIN_MEMORY_BUDGET));
        options.write_buffer_size = options.write_buffer_size.map(|size| size.clamp(64 << 10, 1 << 30));
        options.max_file_size = options.max_file_size.map(|size| size.clamp(1 << 20, 1 << 30));
        options.block_size = options.block_size.clamp(1 << 10, 4 << 20);
        options.block_restart_interval = options.block_restart_interval.max(1);
        options
    }

    /// Returns the memory budget, or its default on a system with little memory.
    pub(crate) fn effective_memory_budget(&self) -> Option<usize> {
        let budget = self.memory_budget.or_else(|| default_memory_budget(self.env.fs.memory_limit()?))?;
        Some(budget.max(MIN_MEMORY_BUDGET))
    }

    /// Returns the budget that the database shares with the others of the process, or None if it
    /// has its own or the memory limit of the process is unknown.
    pub(crate) fn shared_budget(&self) -> Option<Arc<SharedBudget>> {
        let limit = self.env.fs.memory_limit().filter(|_| self.memory_budget.is_none())?;
        Some(SharedBudget::for_memory_limit(limit))
    }

    /// Returns an error if this build cannot write blocks with [`Options::compression`].
    pub(crate) fn check_codec(&self) -> Result<()> {
        let Some(Codec { name, missing_feature: Some(feature), .. }) = self.compression else {
            return Ok(());
        };
        let message = format!("compression {name}: this build lacks the cargo feature `{feature}`");
        Err(Error::InvalidArgument(message))
    }

    /// Returns the size of the first memtable in bytes, which is the size of all memtables if the
    /// caller set it.
    pub(crate) fn initial_memtable_size(&self) -> usize {
        self.write_buffer_size.unwrap_or(4 << 20)
    }

    /// Returns the target size in bytes of the tables that a compaction writes on small levels.
    pub(crate) fn base_file_size(&self) -> u64 {
        self.max_file_size.unwrap_or(2 << 20)
    }

    /// Returns the size in bytes up to which a MANIFEST grows, unless its snapshot is large.
    pub(crate) fn manifest_size_limit(&self) -> u64 {
        // Each open replays the MANIFEST, 4 us per KiB. A new MANIFEST takes three syncs, which is
        // little beside the two syncs of each of the 60 or more edits in it.
        self.base_file_size().min(16 << 10)
    }

    /// Returns the table options for internal keys in the order of `comparator`.
    pub(crate) fn table_options(&self, comparator: &InternalComparator) -> TableOptions {
        TableOptions {
            comparator: Arc::new(comparator.clone()),
            filter: self.table_filters(comparator.is_bytewise()),
            block_size: self.block_size,
            restart_interval: self.block_restart_interval,
            codec: self.compression.unwrap_or(&SNAPPY),
            file_name: if self.old_table_names { FileName::OldTable } else { FileName::Table },
            huge_pages: false,
        }
    }
}

/// Size of the default Bloom filter in bits per key.
const DEFAULT_BLOOM_BITS_PER_KEY: usize = 10;

impl Options {
    /// Returns the filter of new tables.
    ///
    /// A user policy gets the keys of 2 KiB of file offset at a time, as in LevelDB, because its
    /// author may not expect more. Without a policy, only the bytewise comparator gets a filter:
    /// another comparator may treat keys with different bytes as equal.
    fn table_filters(&self, is_bytewise: bool) -> Option<TableFilter> {
        let Some(policy) = &self.filter_policy else {
            return is_bytewise
                .then(|| TableFilter::Full(BloomFilterPolicy::new(DEFAULT_BLOOM_BITS_PER_KEY)));
        };
        match (&**policy as &dyn Any).downcast_ref::<BloomFilterPolicy>() {
            Some(bloom) => (bloom.bits_per_key() > 0).then(|| TableFilter::Full(bloom.clone())),
            None => Some(TableFilter::BlockBased(Arc::new(InternalFilterPolicy(Arc::clone(policy))))),
        }
    }
}

/// Table options for tables outside a database, whose keys are user keys.
impl From<&Options> for TableOptions {
    fn from(options: &Options) -> TableOptions {
        let options = options.sanitized();
        TableOptions {
            comparator: options.comparator,
            filter: options.filter_policy.map(TableFilter::BlockBased),
            block_size: options.block_size,
            restart_interval: options.block_restart_interval,
            codec: options.compression.unwrap_or(&SNAPPY),
            file_name: FileName::Table,
            huge_pages: false,
        }
    }
}

/// Options of a read.
///
/// ```
/// # use terrace::{Env, Options};
/// # let env = Env::in_memory();
/// # let options = Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// use terrace::ReadOptions;
///
/// for name in ["AT/Wien", "CH/Bern", "CH/Chur", "FR/Lyon"] {
///     db.put(name.as_bytes(), b"")?;
/// }
/// let range = ReadOptions::default().lower_bound(b"B").upper_bound(b"CH/C").fill_cache(false);
/// assert_eq!(db.iter_with(&range).count(), 1);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Verifies the checksum of an uncompressed block in a mapped table at every read of it.
    /// Default: false.
    ///
    /// Without it, the first read since the open of the table verifies such a block. The checksum
    /// of every other block is verified when the block is read from its file. Compactions, repair
    /// and `verify` always verify.
    pub verify_checksums: bool,
    /// Adds the blocks that this read fetches to the block cache. Set it to false for bulk scans.
    /// Default: true.
    pub fill_cache: bool,
    /// Snapshot to read. Default: None, which reads the state at the time of the call.
    pub snapshot: Option<Snapshot>,
    /// Lower bound of iterators, included.
    pub lower_bound: Option<Vec<u8>>,
    /// Upper bound of iterators, not included.
    pub upper_bound: Option<Vec<u8>>,
    /// Prefix of all keys that an iterator shows. Needs the bytewise comparator.
    pub prefix: Option<Vec<u8>>,
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &Option<Vec<u8>>| key.as_ref().map(|key| key.escape_ascii().to_string());
        f.debug_struct("ReadOptions")
            .field("verify_checksums", &self.verify_checksums)
            .field("fill_cache", &self.fill_cache)
            .field("snapshot", &self.snapshot)
            .field("lower_bound", &text(&self.lower_bound))
            .field("upper_bound", &text(&self.upper_bound))
            .field("prefix", &text(&self.prefix))
            .finish()
    }
}

impl ReadOptions {
    /// Default options as a constant.
    pub const DEFAULT: ReadOptions = ReadOptions {
        verify_checksums: false,
        fill_cache: true,
        snapshot: None,
        lower_bound: None,
        upper_bound: None,
        prefix: None,
    };
}

/// Default options with a static lifetime, for reads without options.
pub(crate) static DEFAULT_READ_OPTIONS: ReadOptions = ReadOptions::DEFAULT;

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions::DEFAULT
    }
}

/// Options of a write.
///
/// ```
/// # use terrace::{Env, Options};
/// # let env = Env::in_memory();
/// # let options = Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// // The sync makes both writes durable.
/// db.put_with(b"CH/Chur", b"46.85,9.53", &terrace::WriteOptions::default().sync(true))?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Returns only after the write is durable. Otherwise the write survives a process crash, and a
    /// power cut may lose it. Default: false.
    pub sync: bool,
}

impl WriteOptions {
    /// Default options as a constant.
    pub const DEFAULT: WriteOptions = WriteOptions { sync: false };
}

/// Options of [`repair`](fn@crate::repair).
///
/// ```
/// let options = terrace::RepairOptions::default().dry_run(true);
/// assert!(options.dry_run);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Reports the planned actions and writes nothing. Default: false.
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machine_gets_a_default_budget() {
        let budgets = [64 << 20, 128 << 20, (512 << 20) - 2, 512 << 20, u64::MAX].map(default_memory_budget);
        assert_eq!(budgets, [Some(16 << 20), Some(64 << 20), Some((256 << 20) - 1), None, None]);
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
