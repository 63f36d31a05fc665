//! Arguments that name a database, and the options to open it and to write its files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use terrace::{
    BloomFilterPolicy, Codec, Comparator, Db, ErrorKind, FilterPolicy, FollowOptions, Options, WriteOptions,
};
use terrace_env::normalized_path;
use terrace_format::comparator::{IndexedDb, bytewise};
use terrace_format::compress::{self, CODECS};
use terrace_format::filename::FileName;

use crate::escape::Escaped;
use crate::failure::{CORRUPTION_ADVICE, CommandResult, Failure};
use crate::units::parse_size;
use crate::{terminal, units};

/// Comparator that the command line can name.
#[derive(Debug)]
pub(crate) struct NamedComparator {
    name: &'static str,
    about: &'static str,
    is_writable: bool,
    comparator: fn() -> Arc<dyn Comparator>,
}

static COMPARATORS: &[NamedComparator] = &[
    NamedComparator { name: "bytewise", about: "LevelDB's own", is_writable: true, comparator: bytewise },
    NamedComparator {
        name: "idb_cmp1",
        about: "IndexedDB in Chromium; read-only",
        is_writable: false,
        comparator: || Arc::new(IndexedDb),
    },
];

fn comparator_parser() -> impl TypedValueParser<Value = &'static NamedComparator> {
    PossibleValuesParser::new(
        COMPARATORS.iter().map(|comparator| PossibleValue::new(comparator.name).help(comparator.about)),
    )
    .map(|name| COMPARATORS.iter().find(|comparator| comparator.name == name).unwrap_or(&COMPARATORS[0]))
}

/// Argument that names the database, and its comparator.
#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// Directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) comparator: ComparatorArg,
}

/// Returns an error if `path` is inside of the directory `database`, where a command would create
/// files beside those of the database.
pub(crate) fn check_outside(path: &Path, database: &Path) -> CommandResult {
    let fs = Options::default().env.fs;
    let inner = normalized_path(&*fs, path);
    let outer = normalized_path(&*fs, database);
    if inner != outer && inner.starts_with(outer) {
        let database = database.display();
        return Err(Failure::Database(format!("{}: is inside of the database {database}", path.display())));
    }
    Ok(())
}

/// Returns an error if `path` is no directory. `expected` describes what should be there.
pub(crate) fn check_directory(path: &Path, expected: &str) -> Result<(), String> {
    let fs = Options::default().env.fs;
    let found = match fs.is_dir(path) {
        Ok(true) => return Ok(()),
        Ok(false) if fs.exists(path).is_ok_and(|exists| exists) => "a file",
        Ok(false) => "no such directory",
        Err(error) => return Err(error.to_string()),
    };
    Err(format!("{}: {found}, expected {expected}", path.display()))
}

/// Argument that names the comparator. The default is the comparator of the database.
#[derive(Args, Default)]
pub(crate) struct ComparatorArg {
    /// Comparator the database was created with [default: detected, otherwise bytewise]
    #[arg(long, value_name = "NAME", value_parser = comparator_parser(), hide_short_help = true)]
    pub(crate) comparator: Option<&'static NamedComparator>,
}

impl ComparatorArg {
    /// Options for a command that only reads the database `dir`.
    pub(crate) fn options_for_reading(&self, dir: &Path) -> Options {
        let mut options = Options::default().comparator((self.named_comparator(dir).comparator)());
        options.filter_policy = bloom_filter_policy(10);
        options
    }

    /// True if Terrace writes databases with the comparator.
    pub(crate) fn is_writable(&self, dir: &Path) -> bool {
        self.named_comparator(dir).is_writable
    }

    /// Options for a command that writes to the database `dir`.
    pub(crate) fn options_for_writing(&self, dir: &Path) -> Result<Options, Failure> {
        let comparator = self.named_comparator(dir);
        if comparator.is_writable {
            return Ok(self.options_for_reading(dir));
        }
        Err(match self.comparator {
            Some(_) => Failure::Usage(format!("--comparator {}: read-only", comparator.name)),
            None => {
                let name = comparator.name;
                Failure::Database(format!(
                    "{}: the database has the comparator {name}, which is read-only",
                    dir.display()
                ))
            }
        })
    }

    /// Returns an error if `from` is after `to` in the order of the database `dir`.
    pub(crate) fn check_bounds(&self, dir: &Path, from: Option<&[u8]>, to: Option<&[u8]>) -> CommandResult {
        let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
        let comparator = (self.named_comparator(dir).comparator)();
        if comparator.compare(from, to).is_le() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--from '{}' is after --to '{}', expected the first key of the range and its end",
            Escaped(from),
            Escaped(to)
        )))
    }

    /// Returns the comparator of the command line, otherwise that of the database `dir` if it is
    /// known.
    fn named_comparator(&self, dir: &Path) -> &'static NamedComparator {
        self.comparator.or_else(|| stored_comparator(dir)).unwrap_or(&COMPARATORS[0])
    }
}

/// Returns the comparator of the database `dir`, or None if it is unknown. A database that cannot
/// be read has no name; the command reports the error.
fn stored_comparator(dir: &Path) -> Option<&'static NamedComparator> {
    let name = terrace::comparator_name(dir, &Options::default()).ok()??;
    COMPARATORS.iter().find(|known| (known.comparator)().name().as_bytes() == name)
}

/// Filter policy that reads filters with any number of bits per key and writes `bits_per_key`. With
/// 0 bits it neither reads nor writes filters.
fn bloom_filter_policy(bits_per_key: usize) -> Option<Arc<dyn FilterPolicy>> {
    Some(Arc::new(BloomFilterPolicy::new(bits_per_key)))
}

impl DatabaseArgs {
    /// Options for a command that only reads.
    pub(crate) fn options_for_reading(&self) -> Options {
        self.comparator.options_for_reading(&self.dir)
    }

    /// Opens the database for a command that only reads it: beside its writer with `--live`,
    /// otherwise as [`DatabaseArgs::open_read_only`].
    pub(crate) fn open_for_reading(&self, live: &LiveArg, damage: &DamageArgs) -> Result<Db, Failure> {
        if live.live { self.follow() } else { self.open_read_only(damage).map_err(Failure::advise_live) }
    }

    /// Opens the database beside its writer, without a lock.
    pub(crate) fn follow(&self) -> Result<Db, Failure> {
        let options = self.options_for_reading();
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database => Ok(Db::follow(&self.dir, &options, &FollowOptions::default())?),
            other => other.not_a_database(&self.dir, ""),
        }
    }

    /// Opens the database without writing to any file. Damage that the open finds is an error, or a
    /// warning with `--allow-damage`.
    pub(crate) fn open_read_only(&self, damage: &DamageArgs) -> Result<Db, Failure> {
        let db = self.open_with_damage(damage)?;
        match damage.failure_of(&db) {
            Some(failure) if !damage.allow_damage => Err(failure),
            Some(failure) => {
                damage.warn(&failure);
                Ok(db)
            }
            None => Ok(db),
        }
    }

    /// Opens the database without writing to any file. The caller reports damage in the logs.
    pub(crate) fn open_with_damage(&self, damage: &DamageArgs) -> Result<Db, Failure> {
        let options = self.options_for_reading();
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database if damage.allow_damage => Ok(Db::open_damaged(&self.dir, &options)?),
            PathContents::Database => Db::open_read_only(&self.dir, &options).map_err(|error| {
                let is_openable =
                    error.kind() == ErrorKind::Corruption && Db::open_damaged(&self.dir, &options).is_ok();
                if is_openable { Failure::from(error).with_note(DAMAGE_ADVICE) } else { error.into() }
            }),
            other => other.not_a_database(&self.dir, ""),
        }
    }

    /// Opens the database for writing, and creates it if `create` is `Some(true)`. `None` stands
    /// for commands without the flag `--create`.
    pub(crate) fn open_writable(
        &self,
        file_format: &FileFormatArgs,
        memory: &MemoryArgs,
        create: Option<bool>,
    ) -> Result<Db, Failure> {
        file_format.check_codec()?;
        let create_advice = if create.is_some() { "; --create creates one" } else { "" };
        let create = create.unwrap_or(false);
        let options = file_format.apply_to(self.comparator.options_for_writing(&self.dir)?);
        let options = memory.apply_to(options).create_if_missing(create);
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database => file_format.check_codec_of(&self.dir, &options)?,
            // Files of an interrupted creation hold no entries, so a new database may replace them.
            // Tables may hold entries, and a new database would remove them.
            PathContents::Missing
            | PathContents::Directory
            | PathContents::DatabaseWithoutCurrent { has_tables: false }
                if create => {}
            other => return other.not_a_database(&self.dir, create_advice),
        }
        let db = Db::open(&self.dir, &options)?;
        let damage = DamageArgs { allow_damage: true };
        if let Some(failure) = damage.failure_of(&db) {
            damage.warn(&failure);
        }
        Ok(db)
    }
}

/// Argument for reads of a database that another process has open.
#[derive(Args, Default)]
pub(crate) struct LiveArg {
    /// Read beside a process that has the database open for writing, without a lock
    #[arg(long, conflicts_with = "allow_damage")]
    pub(crate) live: bool,
}

/// Argument for reads of a damaged database.
#[derive(Args, Default)]
pub(crate) struct DamageArgs {
    /// Read all readable data of a damaged database, report the damage, and exit with code 0
    #[arg(long)]
    pub(crate) allow_damage: bool,
}

/// Advice that is appended to the report of damage.
const DAMAGE_ADVICE: &str = "--allow-damage reads all other data";

impl DamageArgs {
    /// Returns the failure of the command because of the damage that the open of `db` has found.
    pub(crate) fn failure_of(&self, db: &Db) -> Option<Failure> {
        let (first, others) = db.recovery().damage.split_first()?;
        let others = match others.len() {
            0 => String::new(),
            n => format!(", and {}", units::plural(n as u64, "further problem")),
        };
        let path = db.path().display();
        let failure = Failure::Database(format!("corruption: {path}: {first}{others}"));
        Some(self.with_advice(failure.with_note(CORRUPTION_ADVICE)))
    }

    /// Returns the result of a read: with `--allow-damage`, damage is a warning.
    pub(crate) fn check(&self, read: terrace::Result<()>) -> Result<(), Failure> {
        match read {
            Err(error) if error.kind() == ErrorKind::Corruption || self.allow_damage => {
                let failure = self.with_advice(error.into());
                if !self.allow_damage {
                    return Err(failure);
                }
                self.warn(&failure);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Prints `failure` as a warning.
    pub(crate) fn warn(&self, failure: &Failure) {
        if let Some(message) = failure.message() {
            let line = format!("terrace: warning: {}\n", terminal::printable(message));
            // One call, as for errors. The message may not be writable.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn with_advice(&self, failure: Failure) -> Failure {
        if self.allow_damage { failure } else { failure.with_note(DAMAGE_ADVICE) }
    }
}

/// Returns true if the readers of a database with blocks of `old` also read blocks of `new`. Every
/// reader reads uncompressed blocks.
pub(crate) fn is_compatible_change(old: &Codec, new: &Codec) -> bool {
    old.name == new.name || new.name == compress::NO_COMPRESSION.name
}

/// Contents of the path at which a database is expected.
pub(crate) enum PathContents {
    /// A database: a directory with a CURRENT file, which may be invalid.
    Database,
    /// A directory with database files but without CURRENT. Either CURRENT was lost, or, if there
    /// is no table, the creation may have been interrupted.
    DatabaseWithoutCurrent { has_tables: bool },
    /// A database of RocksDB. Its files have the names of LevelDB's files and different contents,
    /// and `file` exists in RocksDB databases only.
    RocksDb { file: String },
    /// A directory without database files.
    Directory,
    /// A file.
    File,
    /// No file or directory.
    Missing,
}

impl PathContents {
    /// Determines the contents of `dir`.
    pub(crate) fn inspect(options: &Options, dir: &Path) -> Result<PathContents, Failure> {
        let fs = &options.env.fs;
        if !fs.is_dir(dir)? {
            if fs.exists(dir)? {
                return Ok(PathContents::File);
            }
            #[cfg(feature = "store")]
            crate::store::check_no_address(dir)?;
            return Ok(PathContents::Missing);
        }
        let names = fs.list(dir)?;
        if fs.exists(&dir.join(FileName::Current.to_string()))? {
            return Ok(
                match names.iter().filter_map(|name| name.to_str()).find(|name| is_rocksdb_file_name(name)) {
                    Some(file) => PathContents::RocksDb { file: file.to_owned() },
                    None => PathContents::Database,
                },
            );
        }
        let mut contents = PathContents::Directory;
        for file in names.iter().filter_map(|name| FileName::parse(name.to_str()?)) {
            if file.is_table() {
                return Ok(PathContents::DatabaseWithoutCurrent { has_tables: true });
            }
            if matches!(file, FileName::Log(_) | FileName::Manifest(_)) {
                contents = PathContents::DatabaseWithoutCurrent { has_tables: false };
            }
        }
        Ok(contents)
    }

    /// Returns the error that `dir` is not a database. `create_advice` is added if a database could
    /// be created there.
    pub(crate) fn not_a_database<T>(&self, dir: &Path, create_advice: &str) -> Result<T, Failure> {
        let (found, advice) = match self {
            PathContents::RocksDb { file } => {
                let path = dir.display();
                return Err(Failure::Database(format!(
                    "{path}: a database of RocksDB (it has a file {file})"
                )));
            }
            PathContents::Database | PathContents::DatabaseWithoutCurrent { .. } => {
                ("files of a database without the file CURRENT", "; repair recovers what can be read")
            }
            PathContents::Directory => {
                ("a directory without a database (it has no file CURRENT)", create_advice)
            }
            PathContents::File => ("a file, expected the directory of a database", ""),
            PathContents::Missing => ("no such directory, expected a database", create_advice),
        };
        Err(Failure::Database(format!("{}: {found}{advice}", dir.display())))
    }
}

/// Returns true for file names that RocksDB uses and LevelDB does not.
fn is_rocksdb_file_name(name: &str) -> bool {
    let options = name.strip_prefix("OPTIONS-").unwrap_or_default();
    name == "IDENTITY" || (!options.is_empty() && options.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Options for the tables that a command writes. The engine chooses a default for a missing option
/// and clamps a size outside its bounds.
#[derive(Args, Default)]
#[command(next_help_heading = "New tables; values outside their bounds are clamped")]
pub(crate) struct FileFormatArgs {
    /// Compression of blocks [default: that of the database; snappy for a new one]
    #[arg(long, value_name = "CODEC", value_parser = codec_parser())]
    pub(crate) compression: Option<&'static Codec>,
    /// Size of blocks before compression, 1KiB to 4MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    block_size: Option<u64>,
    /// Entries between two restart points of a block [default: 16]
    #[arg(long, value_name = "N")]
    block_restart_interval: Option<usize>,
    /// Bits per key of the Bloom filters, which make gets of missing keys cheap; 0 for no filters
    /// [default: 10]
    #[arg(long, value_name = "BITS")]
    filter_bits: Option<u8>,
    /// Size of tables, 1MiB to 1GiB [default: 2MiB, up to 64MiB on a level with many tables]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_file_size: Option<u64>,
    /// Codecs that the command accepts.
    #[arg(skip)]
    pub(crate) accepted_codecs: AcceptedCodecs,
}

/// Options for the memory of a command that writes many entries.
#[derive(Args, Default)]
#[command(next_help_heading = "Memory")]
pub(crate) struct MemoryArgs {
    /// Size of a memtable before it is flushed to a table, 64KiB to 1GiB [default: 4MiB to 64MiB,
    /// by the write rate; 32MiB for serve]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    write_buffer: Option<u64>,
    /// Memory budget for memtables, block cache and open tables together, 2MiB or more [default: at
    /// most half of the memory of the process]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// Codecs that a command accepts for `--compression`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AcceptedCodecs {
    /// Codecs that LevelDB reads, if the database has no other one.
    #[default]
    LevelDb,
    /// Codecs that LevelDB reads. The command rewrites all tables.
    LevelDbForAllTables,
    /// All codecs for a new database.
    AnyIfNew,
    /// All codecs. The command rewrites all tables.
    Any,
}

/// Parser of the name of a codec that this program can write.
pub(crate) fn codec_parser() -> impl TypedValueParser<Value = &'static Codec> {
    let writable = CODECS.iter().filter(|codec| codec.writable);
    PossibleValuesParser::new(writable.map(|codec| {
        let about = match (codec.leveldb_compatible, codec.needs_marker) {
            (true, _) => "LevelDB 1.23 reads it",
            (false, true) => "stock LevelDB 1.23 cannot read it",
            (false, false) => "only the LevelDB of games such as Minecraft reads it",
        };
        PossibleValue::new(codec.name).help(about)
    }))
    .map(|name| compress::codec_by_name(&name).unwrap_or(&compress::NO_COMPRESSION))
}

impl FileFormatArgs {
    /// Returns the arguments of a conversion to `codec`.
    pub(crate) fn for_conversion(codec: &'static Codec) -> FileFormatArgs {
        FileFormatArgs {
            compression: Some(codec),
            accepted_codecs: AcceptedCodecs::Any,
            ..FileFormatArgs::default()
        }
    }

    /// Returns an error if no database may get the codec from this command.
    pub(crate) fn check_codec(&self) -> CommandResult {
        let accepts_all = matches!(self.accepted_codecs, AcceptedCodecs::Any | AcceptedCodecs::AnyIfNew);
        match self.compression {
            Some(codec) if !codec.leveldb_compatible && !accepts_all => Err(Failure::Usage(format!(
                "--compression {}: LevelDB 1.23 cannot read it; only load --create and convert accept it",
                codec.name
            ))),
            _ => Ok(()),
        }
    }

    /// Returns an error if the codec would become a second one of the existing database `dir`.
    pub(crate) fn check_codec_of(&self, dir: &Path, options: &Options) -> CommandResult {
        let rewrites_all =
            matches!(self.accepted_codecs, AcceptedCodecs::Any | AcceptedCodecs::LevelDbForAllTables);
        let Some(new) = self.compression.filter(|_| !rewrites_all) else { return Ok(()) };
        let unchanged = options.clone().compression(None);
        let old = Db::open_read_only(dir, &unchanged)?.codec();
        if is_compatible_change(old, new) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--compression {}: the blocks of {} are compressed with {}; terrace convert changes that",
            new.name,
            dir.display(),
            old.name
        )))
    }

    /// Returns `options` with the arguments.
    pub(crate) fn apply_to(&self, mut options: Options) -> Options {
        options.compression = self.compression;
        options.block_size = self.block_size.map_or(options.block_size, usize_or_max);
        options.block_restart_interval =
            self.block_restart_interval.unwrap_or(options.block_restart_interval);
        options.max_file_size = self.max_file_size;
        if let Some(bits) = self.filter_bits {
            options.filter_policy = bloom_filter_policy(usize::from(bits));
        }
        options
    }
}

fn usize_or_max(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl MemoryArgs {
    /// Returns `options` with the arguments.
    pub(crate) fn apply_to(&self, mut options: Options) -> Options {
        options.write_buffer_size = self.write_buffer.map(usize_or_max);
        options.memory_budget = self.memory.map(usize_or_max);
        options
    }
}

/// Durability of a write.
#[derive(Args)]
pub(crate) struct SyncArg {
    /// Return only after the write is synced to disk, so that it survives a power cut
    #[arg(long)]
    sync: bool,
}

impl SyncArg {
    /// Converts the argument to the engine's options.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions::default().sync(self.sync)
    }
}
