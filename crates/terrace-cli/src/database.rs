//! Arguments that name a database, and the options to open it and to write its files.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use terrace::{BloomFilterPolicy, Codec, Comparator, Db, ErrorKind, FilterPolicy, Options, WriteOptions};
use terrace_format::comparator::{IndexedDb, bytewise};
use terrace_format::compress::{self, CODECS};
use terrace_format::filename::FileName;

use crate::escape::unescape;
use crate::failure::{CORRUPTION_ADVICE, Failure};
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

/// Argument that names the comparator.
#[derive(Args)]
pub(crate) struct ComparatorArg {
    /// Comparator the database was created with
    #[arg(long, value_name = "NAME", default_value = "bytewise", value_parser = comparator_parser())]
    comparator: &'static NamedComparator,
}

/// Selects LevelDB's comparator.
impl Default for ComparatorArg {
    fn default() -> ComparatorArg {
        ComparatorArg { comparator: &COMPARATORS[0] }
    }
}

impl ComparatorArg {
    /// Options for a command that only reads.
    pub(crate) fn options_for_reading(&self) -> Options {
        let mut options = Options::default().comparator((self.comparator.comparator)());
        options.filter_policy = bloom_filter_policy(10);
        options
    }

    /// Options for a command that writes.
    pub(crate) fn options_for_writing(&self, file_format: &FileFormatArgs) -> Result<Options, Failure> {
        if !self.comparator.is_writable {
            return Err(Failure::Usage(format!("--comparator {}: read-only", self.comparator.name)));
        }
        Ok(file_format.apply_to(self.options_for_reading()))
    }
}

/// Filter policy that reads filters with any number of bits per key and writes `bits_per_key`. With
/// 0 bits it neither reads nor writes filters.
fn bloom_filter_policy(bits_per_key: usize) -> Option<Arc<dyn FilterPolicy>> {
    Some(Arc::new(BloomFilterPolicy::new(bits_per_key)))
}

impl DatabaseArgs {
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
        let options = self.comparator.options_for_reading();
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
        create: Option<bool>,
    ) -> Result<Db, Failure> {
        let create_advice = if create.is_some() { "; --create creates one" } else { "" };
        let create = create.unwrap_or(false);
        let options = self.comparator.options_for_writing(file_format)?.create_if_missing(create);
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database => {}
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

/// Argument for reads of a damaged database.
#[derive(Args)]
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
            return Ok(if fs.exists(dir)? { PathContents::File } else { PathContents::Missing });
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

/// Options for new tables and logs. The engine chooses a default for a missing option and clamps a
/// size outside its bounds.
#[derive(Args)]
#[command(next_help_heading = "Files; values outside their bounds are clamped")]
pub(crate) struct FileFormatArgs {
    /// Compression of blocks [default: snappy]
    #[arg(long, value_name = "CODEC", value_parser = codec_parser())]
    compression: Option<&'static Codec>,
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
    /// Size of a memtable before it is flushed to a table, 64KiB to 1GiB [default: 4MiB, up to
    /// 32MiB under a high write rate]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    write_buffer: Option<u64>,
    /// Memory budget for memtables, block cache and open tables together, 2MiB or more [default: no
    /// limit; half of the process's memory limit if that is less than 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

fn codec_parser() -> impl TypedValueParser<Value = &'static Codec> {
    let writable = CODECS.iter().filter(|codec| codec.writable);
    PossibleValuesParser::new(writable.map(|codec| {
        let about = if codec.leveldb_compatible {
            "LevelDB 1.23 reads it"
        } else {
            "stock LevelDB 1.23 cannot read it"
        };
        PossibleValue::new(codec.name).help(about)
    }))
    .map(|name| compress::codec_by_name(&name).unwrap_or(&compress::NO_COMPRESSION))
}

impl FileFormatArgs {
    fn apply_to(&self, mut options: Options) -> Options {
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        options.compression = self.compression.unwrap_or(options.compression);
        options.block_size = self.block_size.map_or(options.block_size, bytes);
        options.block_restart_interval =
            self.block_restart_interval.unwrap_or(options.block_restart_interval);
        options.max_file_size = self.max_file_size;
        options.write_buffer_size = self.write_buffer.map(bytes);
        options.memory_budget = self.memory.map(bytes);
        if let Some(bits) = self.filter_bits {
            options.filter_policy = bloom_filter_policy(usize::from(bits));
        }
        options
    }
}

/// Options for writes.
#[derive(Args)]
pub(crate) struct WriteArgs {
    /// Return only after the write is synced to disk, so that it survives a power cut
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    pub(crate) file_format: FileFormatArgs,
}

impl WriteArgs {
    /// Converts the arguments to the engine's options.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions::default().sync(self.sync)
    }
}

/// Encoding of keys and values on the command line.
#[derive(Args)]
pub(crate) struct KeyEncodingArgs {
    /// Keys and values on the command line are hexadecimal; get prints hexadecimal too
    #[arg(long)]
    pub(crate) hex: bool,
}

impl KeyEncodingArgs {
    /// Decodes the argument `arg`.
    pub(crate) fn decode(&self, arg: &OsString) -> Result<Vec<u8>, Failure> {
        let text = arg.as_encoded_bytes();
        let bytes = if self.hex {
            data_encoding::HEXLOWER_PERMISSIVE.decode(text).map_err(|e| format!("not hexadecimal: {e}"))
        } else {
            unescape(text).map_err(|e| e.to_string())
        };
        bytes.map_err(|reason| Failure::Usage(format!("'{}': {reason}", crate::escape::Escaped(text))))
    }

    /// Decodes an optional argument.
    pub(crate) fn decode_optional(&self, arg: Option<&OsString>) -> Result<Option<Vec<u8>>, Failure> {
        arg.map(|arg| self.decode(arg)).transpose()
    }
}
