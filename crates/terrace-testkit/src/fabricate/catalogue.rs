//! The cases that every reader of the format must agree on, and the one check that runs them.
//!
//! A case is a database that no LevelDB wrote and what a user must see in it. Stock LevelDB is asked too wherever it
//! is right: the table is only worth something while the judge agrees with it.

use std::collections::BTreeMap;
use std::path::Path;

use super::Fabricated;
use crate::op::{Range, Step};
use crate::run::{Entry, Subject};
use crate::settings::Settings;
use crate::stock::StockClass;

mod logs;
mod manifests;
mod tables;

/// What a user sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// These entries and no others, by every way of reading.
    Holds(Vec<Entry>),
    /// The open fails with this class, and every file stays as it is.
    Refused(StockClass),
    /// The open succeeds, and reading everything fails.
    Unreadable,
}

/// One row.
#[derive(Debug, Clone)]
pub struct Case {
    /// The situation.
    pub name: &'static str,
    /// The database.
    pub database: Fabricated,
    /// What is seen.
    pub relaxed: Outcome,
    /// What is seen with paranoid checks.
    pub paranoid: Outcome,
    /// Files that an open must not touch.
    pub kept: &'static [&'static str],
    /// False where stock LevelDB 1.23 gets it wrong, or lacks what it takes.
    pub by_stock: bool,
}

impl Case {
    fn new(name: &'static str, database: Fabricated, outcome: Outcome) -> Case {
        Case { name, database, relaxed: outcome.clone(), paranoid: outcome, kept: &[], by_stock: true }
    }

    fn paranoid(self, paranoid: Outcome) -> Case {
        Case { paranoid, ..self }
    }

    fn kept(self, kept: &'static [&'static str]) -> Case {
        Case { kept, ..self }
    }

    fn not_by_stock(self) -> Case {
        Case { by_stock: false, ..self }
    }
}

fn holds<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> Outcome {
    Outcome::Holds(entries.iter().map(|(k, v)| (k.as_ref().into(), v.as_ref().into())).collect())
}

/// Every case.
pub fn cases() -> Vec<Case> {
    [logs::cases(), tables::cases(), manifests::cases()].concat()
}

/// Opens a database for [`check`], or says why not.
pub type Open<'a> = &'a dyn Fn(&Path, &Settings) -> Result<Box<dyn Subject>, (StockClass, String)>;

/// Opens a case with and without paranoid checks, with and without a filter, and compares what is seen.
pub fn check(case: &Case, open: Open<'_>) -> Result<(), String> {
    for paranoid_checks in [false, true] {
        for bloom_bits in [0, 10] {
            let settings = Settings { paranoid_checks, bloom_bits, ..Settings::default() };
            let expected = if paranoid_checks { &case.paranoid } else { &case.relaxed };
            check_one(case, &settings, expected, open)
                .map_err(|what| format!("{}, opened with [{settings}]: {what}", case.name))?;
        }
    }
    Ok(())
}

fn check_one(case: &Case, settings: &Settings, expected: &Outcome, open: Open<'_>) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    case.database.write_to(dir.path());
    let files = case.database.files();
    let seen = see(dir.path(), settings, open);
    let kept = |name: &&String| case.kept.contains(&name.as_str()) || matches!(expected, Outcome::Refused(_));
    files.keys().filter(kept).try_for_each(|name| same_file(dir.path(), name, &files))?;
    match (expected, seen) {
        (Outcome::Holds(right), Ok(entries)) if *right == entries => Ok(()),
        (Outcome::Holds(right), Ok(entries)) => Err(difference(right, &entries)),
        (Outcome::Refused(right), Err(Failed::Open(class, _))) if *right == class => Ok(()),
        (Outcome::Unreadable, Err(Failed::Read(_))) => Ok(()),
        (_, Ok(entries)) => Err(format!("read {} entries", entries.len())),
        (_, Err(failed)) => Err(format!("{failed:?}")),
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "printed in a failure")]
enum Failed {
    Open(StockClass, String),
    Read(String),
}

impl From<String> for Failed {
    fn from(what: String) -> Failed {
        Failed::Read(what)
    }
}

/// Everything there is, which all ways of reading must agree on.
fn see(path: &Path, settings: &Settings, open: Open<'_>) -> Result<Vec<Entry>, Failed> {
    let mut db = open(path, settings).map_err(|(class, text)| Failed::Open(class, text))?;
    let entries = walk(&mut *db, &Step::First, &Step::Next)?;
    let mut backwards = walk(&mut *db, &Step::Last, &Step::Prev)?;
    backwards.reverse();
    if entries != backwards {
        return Err(Failed::Read(format!("backwards: {}", difference(&entries, &backwards))));
    }
    for (key, value) in &entries {
        get(&mut *db, key, Some(value))?;
        get(&mut *db, &[key.as_slice(), b"\0"].concat(), None)?;
    }
    Ok(entries)
}

fn get(db: &mut dyn Subject, key: &[u8], expected: Option<&Vec<u8>>) -> Result<(), String> {
    let found = db.get(key, None)?;
    let show =
        |value: Option<&Vec<u8>>| value.map_or("nothing".into(), |value| value.escape_ascii().to_string());
    if found.as_ref() == expected {
        return Ok(());
    }
    Err(format!("get {}: {}, expected {}", key.escape_ascii(), show(found.as_ref()), show(expected)))
}

fn walk(db: &mut dyn Subject, start: &Step, step: &Step) -> Result<Vec<Entry>, String> {
    db.open_cursor(0, None, &Range::default());
    let mut entries = Vec::new();
    let mut entry = db.step(0, start)?;
    while let Some(there) = entry {
        entries.push(there);
        entry = db.step(0, step)?;
    }
    db.close_cursor(0);
    Ok(entries)
}

fn difference(right: &[Entry], found: &[Entry]) -> String {
    let missing = right.iter().find(|entry| !found.contains(entry));
    let extra = found.iter().find(|entry| !right.contains(entry));
    let show = |entry: Option<&Entry>| entry.map_or("none".into(), |(key, _)| key.escape_ascii().to_string());
    let (right, found) = (right.len(), found.len());
    format!(
        "{found} entries, expected {right}; first missing {}, first unexpected {}",
        show(missing),
        show(extra)
    )
}

#[expect(clippy::disallowed_methods, reason = "looks at what the engine under test left")]
fn same_file(dir: &Path, name: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    match std::fs::read(dir.join(name)) {
        Ok(bytes) if bytes == files[name] => Ok(()),
        Ok(_) => Err(format!("{name} was changed")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
