//! `terrace load`: puts the lines of a file into a database.
//!
//! Lines are written in atomic batches. A malformed line stops the load, and all lines before it
//! are kept. Loading the corrected file afterwards gives the same database as if it had been loaded
//! at once. The same holds for a full disk after space was freed.
//!
//! A bulk load adds all lines or none, and is faster. It is the default for a large file and a
//! database without entries, so that no earlier entry makes it fall back to puts.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use terrace::{Db, LoadOptions, LoadProgress, WriteBatch, WriteOptions, bulk_load_with_progress};
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{AcceptedCodecs, DatabaseArgs, FileFormatArgs, MemoryArgs, SyncArg};
use crate::entry_format::{EntryReader, Format};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
#[cfg(feature = "store")]
use crate::store;
use crate::{terminal, units};

/// Maximum number of entries in a batch.
const BATCH_ENTRIES: usize = 1000;
/// Size in bytes at which a batch is written before it has [`BATCH_ENTRIES`].
const BATCH_BYTES: usize = 1 << 20;

/// Size of a file in bytes from which it is loaded in bulk into a database without entries. A
/// smaller one is loaded in seconds.
const MIN_BULK_BYTES: u64 = 256 << 20;

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
    /// Bulk load: sort the lines, then add all of them at once; none after an error
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    bulk: BulkMode,
    #[command(flatten)]
    sync: SyncArg,
    #[command(flatten)]
    file_format: FileFormatArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Choice of the bulk load.
#[derive(Clone, Copy, ValueEnum)]
enum BulkMode {
    /// For a file of 256 MiB or more, into a database without entries
    Auto,
    /// For any input; if its keys overlap those of the database, puts in key order, and an error
    /// keeps the entries before it
    Always,
    /// Put the lines in batches, in their order
    Never,
}

/// Format of the input, or automatic detection.
#[derive(Clone, Copy, ValueEnum)]
enum InputFormat {
    /// Detected from the file's name, such as x.tsv, x.jsonl, x.hex or x.tsv.gz; otherwise JSON
    /// Lines if the file begins with {", or TSV
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
        // Reads the file first, so that a missing or foreign file does not leave a new database.
        let mut entries = EntryReader::open(&self.file, self.format.into())?;
        entries.check_first().map_err(|failure| with_loaded(failure, 0))?;
        let started = terrace_env::SystemClock.monotonic();
        #[cfg(feature = "store")]
        if let Some(address) = self.database.address()? {
            if matches!(self.bulk, BulkMode::Always) {
                return Err(store::needs_directory("--bulk always"));
            }
            let store = store::open_for_writing(address, Some(self.create))?;
            let loaded = store::load(&*store, entries, self.sync.write_options())?;
            return report(loaded, started);
        }
        if self.create {
            self.file_format.accepted_codecs = AcceptedCodecs::AnyIfNew;
        }
        let db = self.database.open_writable(&self.file_format, &self.memory, Some(self.create))?;
        let mut loaded = 0;
        let outcome = match self.is_bulk(&db, &entries)? {
            true => load_in_bulk(&db, entries, &mut loaded),
            false => load(&db, entries, &self.sync.write_options(), &mut loaded),
        };
        outcome.map_err(|failure| with_loaded(failure, loaded))?;
        if self.file_format.compression.is_some() {
            // A database without tables does not show its codec.
            db.flush()?;
        }
        db.close()?;
        report(loaded, started)
    }
}

/// Appends the number of the entries that the database has got.
pub(crate) fn with_loaded(failure: Failure, loaded: u64) -> Failure {
    failure.with_note(&format!("loaded before the error: {}", units::entries(loaded)))
}

/// Prints the number of entries and the speed of a load.
fn report(loaded: u64, started: Duration) -> CommandResult {
    let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
    let rate = units::rate(loaded, took);
    terminal::note(format_args!("{} in {}, {rate}", units::entries(loaded), units::time(took)));
    Ok(())
}

impl Load {
    /// Returns true if the load is a bulk load.
    fn is_bulk(&self, db: &Db, entries: &EntryReader) -> Result<bool, Failure> {
        Ok(match self.bulk {
            BulkMode::Always => true,
            BulkMode::Never => false,
            BulkMode::Auto if entries.input().len().is_none_or(|len| len < MIN_BULK_BYTES) => false,
            BulkMode::Auto => db.iter().next().transpose()?.is_none(),
        })
    }
}

/// Adds all entries to `db`, or none of them. Only a load that overlaps the database may end with
/// a part of them. `loaded` counts the entries that are in the database.
fn load_in_bulk(db: &Db, mut entries: EntryReader, loaded: &mut u64) -> CommandResult {
    let total = entries.input().len();
    let position = Cell::new(0);
    let lines = std::iter::from_fn(|| {
        let entry = entries.next().transpose();
        position.set(entries.input().bytes_read());
        entry
    });
    let mut bar = Progress::bytes("sorting", total);
    let mut is_sorting = true;
    let report = bulk_load_with_progress(db, lines, &LoadOptions::default(), |progress| match progress {
        LoadProgress::Read(_) => bar.set_position(position.get()),
        LoadProgress::Merged { done, total } => {
            if std::mem::take(&mut is_sorting) {
                bar = Progress::bytes("merging", Some(total));
            }
            bar.set_position(done);
        }
        LoadProgress::Put { done, .. } => *loaded = done,
        _ => {}
    })?;
    *loaded = report.entries;
    Ok(())
}

/// Puts every entry into `db`. `loaded` counts the written entries, also if an error is returned.
fn load(db: &Db, mut entries: EntryReader, options: &WriteOptions, loaded: &mut u64) -> CommandResult {
    let mut progress = Progress::bytes("loading", entries.input().len());
    let mut batch = WriteBatch::new();
    let end = loop {
        match entries.next() {
            Ok(Some((key, value))) => batch.put(&key, &value),
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        };
        if batch.len() >= BATCH_ENTRIES || batch.approximate_size() >= BATCH_BYTES {
            *loaded += write_batch(db, &mut batch, options)?;
            progress.set_position(entries.input().bytes_read());
        }
    };
    *loaded += write_batch(db, &mut batch, options)?;
    end
}

fn write_batch(db: &Db, batch: &mut WriteBatch, options: &WriteOptions) -> Result<u64, Failure> {
    let entries = batch.len() as u64;
    if entries > 0 {
        db.write_with(batch, options)?;
        batch.clear();
    }
    Ok(entries)
}
