//! Images that stood the test, opened by stock LevelDB.

use std::fs;
use std::path::Path;

use terrace_env::mem::MemFs;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::Stock;

use crate::life::contents::{State, difference, state};
use crate::life::judge::{Recovered, walk};
use crate::life::script::{AFTER, Script};
use crate::life::terrace::DIR;
use crate::tally::{Figure, Tally};

/// One image in so many.
const SAMPLE: u64 = 1_000;

/// Opens some of the images: as a kill left them, or as Terrace did. Nothing without a stock LevelDB.
pub(super) fn sample(
    recovered: &Recovered,
    raw: Option<&MemFs>,
    script: &Script,
    tally: &Tally,
) -> Result<(), String> {
    if recovered.print % SAMPLE != 0 {
        return Ok(());
    }
    let Ok(stock) = Stock::load() else { return Ok(()) };
    let mut expected = recovered.state.clone();
    if raw.is_some() {
        expected.remove(AFTER);
    }
    let found = read(stock, raw.unwrap_or(&recovered.files), script)
        .map_err(|error| format!("stock LevelDB: {error}"))?;
    tally.add(Figure::Relays, 1);
    if found == expected {
        return Ok(());
    }
    Err(format!("stock LevelDB reads otherwise: {}", difference(&expected, &found)))
}

fn read(stock: &'static Stock, files: &MemFs, script: &Script) -> Result<State, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    export(files, dir.path())?;
    // Of a database whose creation was cut off there may be no more than a directory.
    let db = stock.open(dir.path(), &Settings::create()).map_err(|error| error.text)?;
    let entries = db.scan().map_err(|error| error.text)?;
    db.close();
    state(&entries, &script.values)
}

fn export(files: &MemFs, to: &Path) -> Result<(), String> {
    let mut outcome = Ok(());
    let walked = walk(files, Path::new(DIR), &mut |path, bytes| {
        let name = path.strip_prefix(DIR).unwrap_or(path);
        if name.components().count() == 1 && !path.ends_with("lost") {
            outcome = std::mem::replace(&mut outcome, Ok(())).and(fs::write(to.join(name), bytes));
        }
    });
    match walked {
        Err(error) if !error.is_not_found() => Err(error.to_string()),
        _ => outcome.map_err(|error| error.to_string()),
    }
}
