//! Every other reader of LevelDB's format, on every kind of database that Terrace leaves.
//!
//! ```text
//!   STATES                     READERS
//!     closed      --copy-->      LevelDB, with and without paranoid checks
//!     killed                     RocksDB, read-only and for writing
//!     power cut                  goleveldb
//!     repaired                   rusty-leveldb
//! ```
//!
//! A reader opens its own copy of the files, before any engine opens the original again. Some
//! readers convert or extend their copy. Terrace reads the last copy, and all other readers must
//! have found the same entries.
//!
//! A new reader is a file in `readers/` and a row in [`READERS`]; a new state is a file in
//! `readers/state/` and a row in [`STATES`].

mod entry_stream;
pub(super) mod format_reader;
pub(super) mod go_program;
mod goleveldb;
mod kezhuw;
mod rocksdb;
mod rocksdict;
mod rusty_leveldb;
mod state;
mod stock_leveldb;
#[cfg(test)]
mod tests;

use std::path::Path;

use terrace::{Db, Env};
use terrace_testkit::differential::{Entry, OpResult};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use super::Harness;
use super::leveldb_interop::EngineKind;
use crate::counters::{Counter, Counters};
use crate::database_under_test::options_from_settings;
use format_reader::{AvailableReader, FormatReader, KNOWN_DIFFERENCES, available_readers, read_copy};
use state::{STATES, Writer};

/// One database of this number is LevelDB's, to find differences that are not Terrace's.
const CONTROL_ONE_IN: u64 = 4;

pub(super) const READERS_OF_THE_FORMAT: Harness = Harness {
    id: 44,
    name: "readers",
    property: "every other reader of the format reads what Terrace leaves",
    check_cases: 40,
    time_share: 2,
    run,
};

/// Terrace with default options.
struct TerraceReader;

impl FormatReader for TerraceReader {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        let opened = Db::open(dir, &options_from_settings(&Settings::default(), &Env::system()));
        let entries = opened.and_then(|db| {
            let entries = db.iter().collect::<terrace::Result<Vec<_>>>()?;
            db.close().map(|()| entries)
        });
        entries.map_err(|error| error.to_string())
    }
}

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let Some(stock) = stock_leveldb_or_skip() else { return Ok(()) };
    let mut rng = Rng::new(!seed);
    let state = &STATES[rng.below(STATES.len() as u64) as usize];
    let engine = if rng.one_in(CONTROL_ONE_IN) { EngineKind::LevelDb } else { EngineKind::Terrace };
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let left = (state.leave)(&Writer { engine, stock, seed }, &mut rng, dir.path())?;
    let Some(origin) = left else { return Ok(()) };
    let checked = check_readers(state.name, engine, dir.path(), counters);
    checked.map_err(|error| format!("{engine:?}, {origin}\n{error}"))
}

/// Compares all readers with Terrace. The error lists every reader that differs, except for
/// differences that the reader also shows for LevelDB's databases.
fn check_readers(state: &str, engine: EngineKind, dir: &Path, counters: &Counters) -> Result<(), String> {
    let results: Vec<_> =
        available_readers().iter().map(|reader| (reader, read_copy(&*reader.reader, dir))).collect();
    let expected = read_copy(&TerraceReader, dir);
    let by_leveldb = engine == EngineKind::LevelDb;
    let mut differences = Vec::new();
    for (reader, entries) in results {
        counters.add(Counter::ReaderOpens, 1);
        let Err(difference) = compare(reader, &entries, &expected) else { continue };
        let is_known =
            KNOWN_DIFFERENCES.iter().any(|known| known.explains(reader.name, by_leveldb, &difference));
        if is_known {
            counters.add(Counter::KnownReaderDifferences, 1);
        } else {
            differences.push(format!("{state}, {}: {difference}", reader.name));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

/// Compares the entries, or the refusals: a reader may refuse a database only if Terrace does.
fn compare(
    reader: &AvailableReader,
    theirs: &OpResult<Vec<Entry>>,
    ours: &OpResult<Vec<Entry>>,
) -> Result<(), String> {
    match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => format_reader::check_equal(reader.name, theirs, ours),
        (Err(theirs), Ok(ours)) => Err(format!("refused: {theirs}; Terrace reads {} entries", ours.len())),
        (Ok(theirs), Err(ours)) => Err(format!("reads {} entries; Terrace refuses: {ours}", theirs.len())),
        (Err(_), Err(_)) => Ok(()),
    }
}
