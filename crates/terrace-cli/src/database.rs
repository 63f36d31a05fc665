//! Flags that say which database is meant, how to open it, and how to write its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use terrace::{BloomFilterPolicy, Codec, Comparator, Db, FilterPolicy, Options, WriteOptions};
use terrace_format::comparator::{IndexedDb, bytewise};
use terrace_format::compress::{self, CODECS};
use terrace_format::filename::FileName;

use crate::escape::unescape;
use crate::failure::Failure;
use crate::units::parse_size;

/// An order of keys that can be named on the command line.
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
        about: "IndexedDB in Chromium; to read only",
        is_writable: false,
        comparator: || Arc::new(IndexedDb),
    },
];

fn comparator_parser() -> impl TypedValueParser<Value = &'static NamedComparator> {
    PossibleValuesParser::new(
        COMPARATORS.iter().map(|order| PossibleValue::new(order.name).help(order.about)),
    )
    .map(|name| COMPARATORS.iter().find(|order| order.name == name).unwrap_or(&COMPARATORS[0]))
}

/// Which database.
#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// Directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) comparator: ComparatorArg,
}

/// In which order its keys are.
#[derive(Args)]
pub(crate) struct ComparatorArg {
    /// Order of the keys: the one that the database was made with
    #[arg(long, value_name = "NAME", default_value = "bytewise", value_parser = comparator_parser())]
    comparator: &'static NamedComparator,
}

/// LevelDB's own order.
impl Default for ComparatorArg {
    fn default() -> ComparatorArg {
        ComparatorArg { comparator: &COMPARATORS[0] }
    }
}

impl ComparatorArg {
    /// Options to read with.
    pub(crate) fn options_for_reading(&self) -> Options {
        Options {
            comparator: (self.comparator.comparator)(),
            filter_policy: bloom_filter_policy(10),
            ..Options::default()
        }
    }

    /// Options to write with.
    pub(crate) fn options_for_writing(&self, tables: &FileFormatArgs) -> Result<Options, Failure> {
        if !self.comparator.is_writable {
            return Err(Failure::Usage(format!("--comparator {}: to read only", self.comparator.name)));
        }
        Ok(tables.apply_to(self.options_for_reading()))
    }
}

/// Any number of bits, but for 0, reads the filters of any other.
fn bloom_filter_policy(bits_per_key: usize) -> Option<Arc<dyn FilterPolicy>> {
    Some(Arc::new(BloomFilterPolicy::new(bits_per_key)))
}

impl DatabaseArgs {
    /// Opens it so that nothing at all is written.
    pub(crate) fn open_read_only(&self) -> Result<Db, Failure> {
        let options = self.comparator.options_for_reading();
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database => Ok(Db::open_read_only(&self.dir, &options)?),
            other => other.not_a_database(&self.dir, ""),
        }
    }

    /// Opens it to write, and makes it if `create` is true; none is for commands that never make one.
    pub(crate) fn open_writable(&self, tables: &FileFormatArgs, create: Option<bool>) -> Result<Db, Failure> {
        let advice = if create.is_some() { "; --create makes one" } else { "" };
        let create = create.unwrap_or(false);
        let options = Options { create_if_missing: create, ..self.comparator.options_for_writing(tables)? };
        match PathContents::inspect(&options, &self.dir)? {
            PathContents::Database => {}
            // What was left of a creation is in nobody's way. Tables are: a new database would remove them.
            PathContents::Missing
            | PathContents::Directory
            | PathContents::DatabaseWithoutCurrent { has_tables: false }
                if create => {}
            other => return other.not_a_database(&self.dir, advice),
        }
        Ok(Db::open(&self.dir, &options)?)
    }
}

/// What is in the place of a database.
pub(crate) enum PathContents {
    /// A database: there is a CURRENT, whatever it says.
    Database,
    /// Files of a database without a CURRENT: one that lost it, or, if none of them is a table, perhaps one whose making
    /// was cut off.
    DatabaseWithoutCurrent { has_tables: bool },
    /// A database of RocksDB, whose files have the names of LevelDB's and other contents, and this one besides.
    RocksDb { file: String },
    /// A directory with nothing of a database.
    Directory,
    /// A file.
    File,
    /// Nothing.
    Missing,
}

impl PathContents {
    /// What is at `dir`.
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
        let mut found = PathContents::Directory;
        for file in names.iter().filter_map(|name| FileName::parse(name.to_str()?)) {
            if file.is_table() {
                return Ok(PathContents::DatabaseWithoutCurrent { has_tables: true });
            }
            if matches!(file, FileName::Log(_) | FileName::Manifest(_)) {
                found = PathContents::DatabaseWithoutCurrent { has_tables: false };
            }
        }
        Ok(found)
    }

    /// Says that this, at `dir`, is no database; `advice` is for a place that is free.
    pub(crate) fn not_a_database<T>(&self, dir: &Path, advice: &str) -> Result<T, Failure> {
        let (found, advice) = match self {
            PathContents::RocksDb { file } => {
                let path = dir.display();
                return Err(Failure::Database(format!(
                    "{path}: a database of RocksDB (it has a file {file})"
                )));
            }
            PathContents::Database | PathContents::DatabaseWithoutCurrent { .. } => {
                ("files of a database without the file CURRENT", "; repair makes one of what can be read")
            }
            PathContents::Directory => ("a directory without a database (it has no file CURRENT)", advice),
            PathContents::File => ("a file, expected the directory of a database", ""),
            PathContents::Missing => ("no such directory, expected a database", advice),
        };
        Err(Failure::Database(format!("{}: {found}{advice}", dir.display())))
    }
}

/// True for names that RocksDB gives its files, and LevelDB never.
fn is_rocksdb_file_name(name: &str) -> bool {
    let options = name.strip_prefix("OPTIONS-").unwrap_or_default();
    name == "IDENTITY" || (!options.is_empty() && options.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How tables and logs are written. What is not given is the engine's to choose, which moves a size to the nearer bound.
#[derive(Args)]
#[command(next_help_heading = "Files; a number beyond its bounds is moved to the nearer one")]
pub(crate) struct FileFormatArgs {
    /// Compression of blocks [default: snappy]
    #[arg(long, value_name = "CODEC", value_parser = codec_parser())]
    compression: Option<&'static Codec>,
    /// Size of blocks before compression, 1KiB to 4MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    block_size: Option<u64>,
    /// Entries between two whole keys in a block [default: 16]
    #[arg(long, value_name = "N")]
    block_restart_interval: Option<usize>,
    /// Bits per key of the filters that spare look-ups for missing keys; 0 for no filters [default: 10]
    #[arg(long, value_name = "BITS")]
    filter_bits: Option<u8>,
    /// Size of tables, 1MiB to 1GiB [default: 2MiB, up to 64MiB on a level with many]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_file_size: Option<u64>,
    /// Bytes kept in memory before they become a table, 64KiB to 1GiB [default: 4MiB, up to 32MiB while writes come fast]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    write_buffer: Option<u64>,
    /// Memory for all of it, 2MiB or more: what is kept before it becomes a table, blocks, open tables [default: no limit; half of what the process may have, where that is less than 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

fn codec_parser() -> impl TypedValueParser<Value = &'static Codec> {
    let writable = CODECS.iter().filter(|codec| codec.writable);
    PossibleValuesParser::new(writable.map(|codec| {
        let about = if codec.leveldb_compatible {
            "LevelDB 1.23 reads it"
        } else {
            "stock LevelDB 1.23 can't read it"
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

/// How to write.
#[derive(Args)]
pub(crate) struct WriteArgs {
    /// Return only when the disk has it: it survives a power cut
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    pub(crate) file_format: FileFormatArgs,
}

impl WriteArgs {
    /// For the engine.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions { sync: self.sync }
    }
}

/// How keys and values are given as arguments.
#[derive(Args)]
pub(crate) struct KeyEncodingArgs {
    /// Keys and values on the command line are hexadecimal; get answers in kind
    #[arg(long)]
    pub(crate) hex: bool,
}

impl KeyEncodingArgs {
    /// The bytes that the argument `word` stands for.
    pub(crate) fn decode(&self, word: &OsString) -> Result<Vec<u8>, Failure> {
        let text = word.as_encoded_bytes();
        let bytes = if self.hex {
            data_encoding::HEXLOWER_PERMISSIVE.decode(text).map_err(|e| format!("not hexadecimal: {e}"))
        } else {
            unescape(text).map_err(|e| e.to_string())
        };
        bytes.map_err(|reason| Failure::Usage(format!("'{}': {reason}", crate::escape::Escaped(text))))
    }

    /// The bytes of an argument that may be missing.
    pub(crate) fn decode_optional(&self, word: Option<&OsString>) -> Result<Option<Vec<u8>>, Failure> {
        word.map(|word| self.decode(word)).transpose()
    }
}
