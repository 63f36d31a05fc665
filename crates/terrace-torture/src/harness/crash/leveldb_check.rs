//! Opens recovered crash images with stock LevelDB.

use std::fs;
use std::path::Path;

use terrace_env::mem::MemFs;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use crate::counters::{Counter, Counters};
use crate::crash_workload::contents::{State, describe_difference, parse_state};
use crate::crash_workload::image_checker::{RecoveredImage, visit_files};
use crate::crash_workload::script::{POST_CRASH_KEY, Script};
use crate::crash_workload::terrace::DB_DIR;

/// One image of this many is opened.
const SAMPLE_ONE_IN: u64 = 1_000;

/// Opens a sampled image, as the kill left it or as Terrace recovered it, and compares its
/// contents. Does nothing without stock LevelDB.
pub(super) fn check_sampled_image(
    recovered: &RecoveredImage,
    raw: Option<&MemFs>,
    script: &Script,
    counters: &Counters,
) -> Result<(), String> {
    if !recovered.fingerprint.is_multiple_of(SAMPLE_ONE_IN) {
        return Ok(());
    }
    let Ok(stock) = StockLevelDb::load() else { return Ok(()) };
    let mut expected = recovered.state.clone();
    if raw.is_some() {
        expected.remove(POST_CRASH_KEY);
    }
    let found = read_with_leveldb(stock, raw.unwrap_or(&recovered.files), script)
        .map_err(|error| format!("stock LevelDB: {error}"))?;
    counters.add(Counter::LevelDbHandovers, 1);
    if found == expected {
        return Ok(());
    }
    Err(format!("stock LevelDB reads different contents: {}", describe_difference(&expected, &found)))
}

fn read_with_leveldb(stock: &'static StockLevelDb, files: &MemFs, script: &Script) -> Result<State, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    export_files(files, dir.path())?;
    // If the creation of the database was interrupted, only its directory may exist.
    let db = stock.open(dir.path(), &Settings::create()).map_err(|error| error.text)?;
    let entries = db.scan().map_err(|error| error.text)?;
    db.close();
    parse_state(&entries, &script.values)
}

fn export_files(files: &MemFs, to: &Path) -> Result<(), String> {
    let mut outcome = Ok(());
    let visited = visit_files(files, Path::new(DB_DIR), &mut |path, bytes| {
        let name = path.strip_prefix(DB_DIR).unwrap_or(path);
        if name.components().count() == 1 && !path.ends_with("lost") {
            outcome = std::mem::replace(&mut outcome, Ok(())).and(fs::write(to.join(name), bytes));
        }
    });
    match visited {
        Err(error) if !error.is_not_found() => Err(error.to_string()),
        _ => outcome.map_err(|error| error.to_string()),
    }
}
