//! `terrace dump`: prints a database as text that `terrace load` reads, or decodes one of its
//! files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use terrace::{Db, DbIterator, ReadOptions};

use crate::cli::Run;
use crate::database::{ComparatorArg, DamageArgs, DatabaseArgs, LiveArg};
use crate::entry_format::Format;
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
#[cfg(feature = "store")]
use crate::store;
use crate::{file_dump, level_chart, terminal};

/// Print all entries of a database, or decode one of its files
#[derive(Args)]
pub(crate) struct Dump {
    /// Directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath, required_unless_present = "file")]
    dir: Option<PathBuf>,
    /// Decode this table (.ldb, .sst), log or MANIFEST instead: internal keys, records or version
    /// edits, with their offsets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Hexadecimal keys and values
    #[arg(long, conflicts_with = "file")]
    hex: bool,
    /// Format of the lines [default: tsv, or hex with --hex]
    #[arg(long, value_name = "FORMAT", conflicts_with = "file")]
    format: Option<Format>,
    #[command(flatten)]
    comparator: ComparatorArg,
    #[command(flatten)]
    live: LiveArg,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Dump {
    fn run(self) -> CommandResult {
        let mut out = terminal::output();
        if let Some(file) = &self.file {
            return match &self.dir {
                None => file_dump::print(file, &mut out),
                Some(dir) => Err(database_and_file(dir, file)),
            };
        }
        let format = Format::for_output(self.format, self.hex);
        // The parser requires a directory if there is no file.
        let database = DatabaseArgs { dir: self.dir.unwrap_or_default(), comparator: self.comparator };
        #[cfg(feature = "store")]
        if let Some(address) = database.address()? {
            let store = store::open_for_reading(address, &self.live, &self.damage)?;
            let print = store::Print { format, is_reverse: false, is_without_values: false, limit: u64::MAX };
            return print.entries(&*store, &terrace_store::KeyRange::all(), &mut out);
        }
        dump_entries(&database.open_for_reading(&self.live, &self.damage)?, format, &self.damage, &mut out)
    }
}

/// Failure for a command line with a database and a file. Such a user usually wants a file of the
/// database.
fn database_and_file(dir: &Path, file: &Path) -> Failure {
    let is_name = file.components().count() == 1;
    let path = if is_name { dir.join(file) } else { file.to_path_buf() };
    Failure::Usage(format!(
        "dump prints a database or one file; for the file alone: terrace dump --file {}",
        path.display()
    ))
}

/// Entries between two updates of the progress bar.
const ENTRIES_PER_PROGRESS_UPDATE: u64 = 20_000;

fn dump_entries(db: &Db, format: Format, damage: &DamageArgs, out: &mut impl Write) -> CommandResult {
    let options = ReadOptions::default().verify_checksums(true).fill_cache(false);
    let mut progress = Progress::bytes("dumping", Some(level_chart::total_bytes(&db.levels())));
    let mut entries = db.raw_iter_with(&options);
    entries.seek_to_first();
    let first = if entries.valid() { entries.key().to_vec() } else { Vec::new() };
    let mut count: u64 = 0;
    while entries.valid() {
        format.write(out, entries.key(), Some(entries.value()))?;
        count += 1;
        if count.is_multiple_of(ENTRIES_PER_PROGRESS_UPDATE)
            && let Ok(done) = dumped_bytes(db, &first, &entries)
        {
            progress.set_position(done);
        }
        entries.next();
    }
    out.flush()?;
    drop(progress);
    damage.check(entries.status())
}

/// Table bytes between the first key and the current one. This is the progress of the dump in the
/// unit of its total.
fn dumped_bytes(db: &Db, first: &[u8], entries: &DbIterator) -> terrace::Result<u64> {
    Ok(db.approximate_sizes(&[(first, entries.key())])?.into_iter().sum())
}
