//! Properties: LevelDB's, with the texts that tools parse, and Terrace's own.

use std::fmt::Write;
use std::path::Path;

use terrace_format::compress::{Codec, SNAPPY};
use terrace_format::key::{InternalKey, trailer};
use terrace_format::version_edit::NUM_LEVELS;

use super::Db;
use super::components::level_info::{LevelInfo, level_infos};
use super::inner::DbInner;
use crate::stats::Timer;

/// Inspection of an open database.
impl Db {
    /// Returns the property `name` as text, or None for an unknown name. LevelDB's properties have
    /// LevelDB's names and texts.
    ///
    /// - `leveldb.num-files-at-level<N>`: number of tables on level N, 0 to 6
    /// - `leveldb.stats`: table of the work of compactions, by level
    /// - `leveldb.sstables`: all tables with their key ranges
    /// - `leveldb.approximate-memory-usage`: bytes of memtables and block cache
    /// - `terrace.memory`: bytes of everything that
    ///   [`Options::memory_budget`](crate::Options::memory_budget) covers, with or without a budget
    /// - `terrace.lag`: in a follower, age of its state in microseconds, and number of bytes that
    ///   the last catch-up has left
    /// - `terrace.settled`: 1 if no flush or compaction is due, otherwise 0. After a load, sorted
    ///   runs become fewer, so it takes half a second and the compactions that follow
    /// - `terrace.stats`: statistics since the database was opened: hits and misses of the block
    ///   cache, blocks that were read in the mapping of their table, negatives and false positives
    ///   of the Bloom filters, delays and stalls of writes, histograms of stalls, flushes and
    ///   compactions, and the current memory use
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// assert_eq!(db.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
    /// assert!(db.property("leveldb.stats").is_some());
    /// assert_eq!(db.property("no such property"), None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner().property(name)
    }

    /// Returns the tables of each of the seven levels. Tables of level 0 are listed from newest to
    /// oldest, those of other levels in key order.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// for level in db.levels() {
    ///     for file in level.files {
    ///         println!("level {}: file {}, {} bytes", level.level, file.number, file.size);
    ///     }
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn levels(&self) -> Vec<LevelInfo> {
        level_infos(&self.inner().read_state.current().version)
    }

    /// Returns true if stock LevelDB can open this database.
    ///
    /// Returns false if a table has, or may have, zstd blocks: LevelDB refuses to open such a
    /// database because of its comparator name. Returns false, too, if the [codec](Db::codec) of
    /// the tables is another one that LevelDB lacks. [`Db::rewrite_tables`] with
    /// [`SNAPPY`](crate::compress::SNAPPY) returns such a database to LevelDB.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options, compress};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// assert!(Db::open("plain", &options)?.is_leveldb_compatible());
    /// # if cfg!(feature = "zstd") {
    /// let db = Db::open("compressed", &options.compression(&compress::ZSTD))?;
    /// db.put(b"CH/Bern", [b' '; 5000])?;
    /// db.compact_range(None, None)?;
    /// assert!(!db.is_leveldb_compatible());
    /// # }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_leveldb_compatible(&self) -> bool {
        let inner = self.inner();
        !inner.is_lost_in_fork()
            && !inner.state.lock().version_set.needs_marker()
            && inner.codec_of_tables().is_none_or(|codec| codec.leveldb_compatible)
    }

    /// Returns the codec of new tables. For a read-only database, returns the codec of its tables,
    /// which a writer would keep.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// assert_eq!(Db::open("cities", &options)?.codec().name, "snappy");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn codec(&self) -> &'static Codec {
        let inner = self.inner();
        inner.options.compression.or_else(|| inner.codec_of_tables()).unwrap_or(&SNAPPY)
    }

    /// Returns the directory as the caller passed it to [`Db::open`].
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// assert_eq!(db.path(), std::path::Path::new("cities"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.handle.inner.directory
    }
}

impl DbInner {
    /// Returns the codec of the existing tables, or None if no readable table shows one.
    fn codec_of_tables(&self) -> Option<&'static Codec> {
        self.read_state.current().version.codec(&self.options.env, &self.directory).ok().flatten()
    }

    pub(super) fn property(&self, name: &str) -> Option<String> {
        self.check_not_lost_in_fork().ok()?;
        match name {
            "terrace.stats" => return Some(self.stats().to_string()),
            "terrace.lag" => return self.lag_property(),
            "terrace.settled" => return Some(u8::from(self.is_settled()).to_string()),
            "terrace.memory" => return Some(self.memory_use().total().to_string()),
            _ => {}
        }
        let name = name.strip_prefix("leveldb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
            let level: usize = level.parse().ok().filter(|&level| digits && level < NUM_LEVELS)?;
            return Some(self.read_state.current().version.levels[level].len().to_string());
        }
        match name {
            "stats" => Some(self.leveldb_stats()),
            "sstables" => Some(self.sstables()),
            "approximate-memory-usage" => Some(self.approximate_memory_usage().to_string()),
            _ => None,
        }
    }

    fn leveldb_stats(&self) -> String {
        const MB: f64 = 1_048_576.0;
        let state = self.state.lock();
        let mut text = String::from(
            "                               Compactions\n\
             Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
             --------------------------------------------------\n",
        );
        for (level, stats) in state.compaction_stats.iter().enumerate() {
            let files = &state.version_set.version.levels[level];
            if stats.time.is_zero() && files.is_empty() {
                continue;
            }
            let size = crate::version::total_size(files) as f64 / MB;
            let files = files.len();
            let seconds = stats.time.as_secs_f64();
            let read = stats.bytes_read as f64 / MB;
            let written = stats.bytes_written as f64 / MB;
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{level:3} {files:8} {size:8.0} {seconds:9.0} {read:8.0} {written:9.0}");
        }
        text
    }

    /// Logs the timers since the database was opened, if it flushed or compacted anything.
    pub(super) fn log_timers(&self) {
        let stats = self.stats();
        let mut work = Timer::all().filter(|timer| !timer.is_stall());
        if work.any(|timer| stats.timer(timer).count > 0) {
            for row in stats.timer_rows().lines() {
                self.logger.log(format_args!("Closing: {row}"));
            }
        }
    }

    fn sstables(&self) -> String {
        let mut text = String::new();
        for (level, files) in self.read_state.current().version.levels.iter().enumerate() {
            let _ = writeln!(text, "--- level {level} ---");
            for file in files {
                let smallest = InternalKeyDisplay(&file.smallest);
                let largest = InternalKeyDisplay(&file.largest);
                let _ = writeln!(text, " {}:{}[{smallest} .. {largest}]", file.number, file.size);
            }
        }
        text
    }

    /// Bytes of memtables, block cache and the shared state itself. Never 0, as in LevelDB.
    fn approximate_memory_usage(&self) -> usize {
        let read_state = self.read_state.current();
        let immutable = read_state.immutable_memtables.iter().map(|memtable| memtable.memory_usage());
        let memtables = read_state.memtable.memory_usage() + immutable.sum::<usize>();
        size_of::<DbInner>() + memtables + self.block_cache.usage()
    }
}

/// Internal key in LevelDB's notation: `'CH/Bern' @ 17 : 1`.
struct InternalKeyDisplay<'a>(&'a InternalKey);

impl std::fmt::Display for InternalKeyDisplay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('\'')?;
        for &byte in self.0.user_key() {
            match byte {
                b' '..=b'~' => f.write_char(byte.into())?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        write!(f, "' @ {} : {}", self.0.sequence(), trailer(self.0.as_bytes()) as u8)
    }
}
