//! Checkpoints and backups: copies beside writers, crashes and errors at each call of a copy, and
//! random turns of backups, restores and writes.

mod beside_writers;
mod interruptions;
mod turns;

use std::path::Path;

use terrace::{Db, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::Counters;

pub(super) const BACKUPS: Harness = Harness {
    id: 49,
    name: "backups",
    property: "a checkpoint is a state that existed, a backup restores what it saved, and neither exists in part",
    check_cases: 60,
    time_share: 4,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    match rng.below(3) {
        0 => beside_writers::run(&mut rng, counters),
        1 => interruptions::run(&mut rng, counters),
        _ => turns::run(&mut rng, counters),
    }
}

/// Returns all entries of the database at `path`, which it opens for reads only.
fn read_entries(path: &Path, options: &Options) -> Result<Vec<Entry>, String> {
    let context = |error: terrace::Error| format!("{}: {error}", path.display());
    let db = Db::open_read_only(path, options).map_err(context)?;
    if let Some(damage) = db.recovery().damage.first() {
        return Err(format!("{}: {damage}", path.display()));
    }
    all_entries(&db).map_err(context)
}

fn all_entries(db: &Db) -> Result<Vec<Entry>, terrace::Error> {
    db.iter().collect()
}

/// Returns an error that names the first difference of the two states.
fn compare(what: &str, found: &[Entry], expected: &[Entry]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let show = |entries: &[Entry]| match entries.get(same) {
        Some((key, value)) => format!("{}={}", key.escape_ascii(), value.escape_ascii()),
        None => "the end".to_owned(),
    };
    let found_len = found.len();
    let expected_len = expected.len();
    let found = show(found);
    let expected = show(expected);
    Err(format!(
        "{what}: {found_len} entries, expected {expected_len}; entry {same} is {found}, expected {expected}"
    ))
}
