//! `terrace load`: puts the lines of a file into a database.
//!
//! Lines are written in atomic batches. A malformed line stops the load, and the batches before it
//! are kept. Loading the corrected file afterwards gives the same database as if it had been loaded
//! at once. The same holds for a full disk after space was freed.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use terrace::{Db, WriteBatch, WriteOptions};
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{AcceptedCodecs, DatabaseArgs, FileFormatArgs, MemoryArgs, SyncArg};
use crate::entry_format::{EntryReader, Format};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::{terminal, units};

/// Maximum number of entries in a batch.
const BATCH_ENTRIES: usize = 1000;
/// Size in bytes at which a batch is written before it has [`BATCH_ENTRIES`].
const BATCH_BYTES: usize = 1 << 20;

/// Put every line of a file into a database
#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    database: DatabaseArgs,
    /// File of entries, - for standard input; may be compressed with gzip or zstd
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Format of the lines
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: InputFormat,
    /// Create the database if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    sync: SyncArg,
    #[command(flatten)]
    file_format: FileFormatArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Format of the input, or automatic detection.
#[derive(Clone, Copy, ValueEnum)]
enum InputFormat {
    /// Detected from the file's name; otherwise JSON Lines if the file begins with a brace, or TSV
    Auto,
    /// Key, tab, value; \t \n \\ \xNN for bytes that are not readable text
    Tsv,
    /// JSON Lines: {"key": "...", "value": "..."}, or key_base64, value_base64
    #[value(alias = "json")]
    Jsonl,
    /// Key, tab, value, both hexadecimal
    Hex,
}

impl From<InputFormat> for Option<Format> {
    fn from(format: InputFormat) -> Option<Format> {
        match format {
            InputFormat::Auto => None,
            InputFormat::Tsv => Some(Format::Tsv),
            InputFormat::Jsonl => Some(Format::Jsonl),
            InputFormat::Hex => Some(Format::Hex),
        }
    }
}

impl Run for Load {
    fn run(mut self) -> CommandResult {
        // Opens the file first, so that a missing file does not leave a new database.
        let entries = EntryReader::open(&self.file, self.format.into())?;
        if self.create {
            self.file_format.accepted_codecs = AcceptedCodecs::AnyIfNew;
        }
        let db = self.database.open_writable(&self.file_format, &self.memory, Some(self.create))?;
        let started = terrace_env::SystemClock.monotonic();
        let mut loaded = 0;
        load(&db, entries, &self.sync.write_options(), &mut loaded).map_err(|failure| {
            failure.with_note(&format!("loaded before the error: {}", units::entries(loaded)))
        })?;
        if self.file_format.compression.is_some() {
            // A database without tables does not show its codec.
            db.flush()?;
        }
        db.close()?;
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        let rate = units::rate(loaded, took);
        terminal::note(format_args!("{} in {}, {rate}", units::entries(loaded), units::time(took)));
        Ok(())
    }
}

/// Puts every entry into `db`. `loaded` counts the written entries, also if an error is returned.
fn load(db: &Db, mut entries: EntryReader, options: &WriteOptions, loaded: &mut u64) -> CommandResult {
    let mut progress = Progress::bytes("loading", entries.input().len());
    let mut batch = WriteBatch::new();
    while let Some((key, value)) = entries.next()? {
        batch.put(&key, &value);
        if batch.len() >= BATCH_ENTRIES || batch.approximate_size() >= BATCH_BYTES {
            *loaded += write_batch(db, &mut batch, options)?;
            progress.set_position(entries.input().bytes_read());
        }
    }
    *loaded += write_batch(db, &mut batch, options)?;
    Ok(())
}

fn write_batch(db: &Db, batch: &mut WriteBatch, options: &WriteOptions) -> Result<u64, Failure> {
    let entries = batch.len() as u64;
    if entries > 0 {
        db.write_with(batch, options)?;
        batch.clear();
    }
    Ok(entries)
}
