//! `terrace load`: the lines of a file into a database.
//!
//! Lines are written in batches, each as a whole. A malformed line stops the load: the batches before it stay, so that
//! loading the corrected file again gives the same database as loading it at once. So does a full disk, once there is room.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use terrace::{Db, WriteBatch, WriteOptions};
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{DatabaseArgs, WriteArgs};
use crate::entry_format::{EntryReader, Format};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::units;

/// A batch is written when it has this many entries ...
const BATCH_ENTRIES: usize = 1000;
/// ... or this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Put every line of a file into a database
#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    database: DatabaseArgs,
    /// File of entries, - for standard input; may be compressed with gzip or zstd
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Form of the lines
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: InputFormat,
    /// Make the database if there is none
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    write_args: WriteArgs,
}

/// A form of lines, or the wish to have it found out.
#[derive(Clone, Copy, ValueEnum)]
enum InputFormat {
    /// The one that the file's name says, else JSON Lines if it begins with a brace, else TSV
    Auto,
    /// Key, tab, value; \t \n \\ \xNN for bytes that are not readable text
    Tsv,
    /// JSON Lines: {"key": "...", "value": "..."}, or key_base64, value_base64
    Jsonl,
}

impl From<InputFormat> for Option<Format> {
    fn from(guess: InputFormat) -> Option<Format> {
        match guess {
            InputFormat::Auto => None,
            InputFormat::Tsv => Some(Format::Tsv),
            InputFormat::Jsonl => Some(Format::Jsonl),
        }
    }
}

impl Run for Load {
    fn run(self) -> CommandResult {
        // The file first: a database is not made for a file that is not there.
        let entries = EntryReader::open(&self.file, self.format.into())?;
        let db = self.database.open_writable(&self.write_args.file_format, Some(self.create))?;
        let started = terrace_env::SystemClock.monotonic();
        let mut loaded = 0;
        load(&db, entries, &self.write_args.write_options(), &mut loaded)
            .map_err(|failure| failure.with_note(&format!("loaded before: {}", units::entries(loaded))))?;
        db.close()?;
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        eprintln!("{} in {}, {}", units::entries(loaded), units::time(took), units::rate(loaded, took));
        Ok(())
    }
}

/// Puts every entry into `db`; `loaded` is how many are in it, also when this fails.
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
