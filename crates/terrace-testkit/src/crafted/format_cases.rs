//! The cases that every reader of the format must agree on, and the one check that runs them.
//!
//! A case is a database that no LevelDB wrote and what a user must see in it. Stock LevelDB is asked too wherever it
//! is right: the table is only worth something while the judge agrees with it.

use std::collections::BTreeMap;
use std::path::Path;

use super::CraftedDb;
use crate::differential::{DatabaseUnderTest, Entry};
use crate::op::{IteratorBounds, IteratorMove};
use crate::settings::Settings;
use crate::stock_leveldb::StatusCode;

mod logs;
mod manifests;
mod tables;

/// What a user sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// These entries and no others, by every way of reading.
    Entries(Vec<Entry>),
    /// The open fails with this class, and every file stays as it is.
    OpenFails(StatusCode),
    /// The open succeeds, and reading everything fails.
    ReadFails,
}

/// One row.
#[derive(Debug, Clone)]
pub struct FormatCase {
    /// The situation.
    pub name: &'static str,
    /// The database.
    pub database: CraftedDb,
    /// What is seen.
    pub without_paranoid_checks: ExpectedOutcome,
    /// What is seen with paranoid checks.
    pub with_paranoid_checks: ExpectedOutcome,
    /// Files that an open must not touch.
    pub untouched_files: &'static [&'static str],
    /// False where stock LevelDB 1.23 gets it wrong, or lacks what it takes.
    pub leveldb_agrees: bool,
}

impl FormatCase {
    fn new(name: &'static str, database: CraftedDb, outcome: ExpectedOutcome) -> FormatCase {
        FormatCase {
            name,
            database,
            without_paranoid_checks: outcome.clone(),
            with_paranoid_checks: outcome,
            untouched_files: &[],
            leveldb_agrees: true,
        }
    }

    fn expect_paranoid(self, paranoid: ExpectedOutcome) -> FormatCase {
        FormatCase { with_paranoid_checks: paranoid, ..self }
    }

    fn leaves_untouched(self, kept: &'static [&'static str]) -> FormatCase {
        FormatCase { untouched_files: kept, ..self }
    }

    fn leveldb_disagrees(self) -> FormatCase {
        FormatCase { leveldb_agrees: false, ..self }
    }
}

fn expect_entries<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> ExpectedOutcome {
    ExpectedOutcome::Entries(entries.iter().map(|(k, v)| (k.as_ref().into(), v.as_ref().into())).collect())
}

/// Every case.
pub fn cases() -> Vec<FormatCase> {
    [logs::cases(), tables::cases(), manifests::cases()].concat()
}

/// Opens a database for [`check`], or says why not.
pub type OpenFn<'a> =
    &'a dyn Fn(&Path, &Settings) -> Result<Box<dyn DatabaseUnderTest>, (StatusCode, String)>;

/// Opens a case with and without paranoid checks, with and without a filter, and compares what is seen.
pub fn check(case: &FormatCase, open: OpenFn<'_>) -> Result<(), String> {
    for paranoid_checks in [false, true] {
        for bloom_bits in [0, 10] {
            let settings = Settings { paranoid_checks, bloom_bits, ..Settings::default() };
            let expected =
                if paranoid_checks { &case.with_paranoid_checks } else { &case.without_paranoid_checks };
            check_one(case, &settings, expected, open)
                .map_err(|what| format!("{}, opened with [{settings}]: {what}", case.name))?;
        }
    }
    Ok(())
}

fn check_one(
    case: &FormatCase,
    settings: &Settings,
    expected: &ExpectedOutcome,
    open: OpenFn<'_>,
) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    case.database.write_to(dir.path());
    let files = case.database.files();
    let seen = read_everything(dir.path(), settings, open);
    let kept = |name: &&String| {
        case.untouched_files.contains(&name.as_str()) || matches!(expected, ExpectedOutcome::OpenFails(_))
    };
    files.keys().filter(kept).try_for_each(|name| check_file_unchanged(dir.path(), name, &files))?;
    match (expected, seen) {
        (ExpectedOutcome::Entries(right), Ok(entries)) if *right == entries => Ok(()),
        (ExpectedOutcome::Entries(right), Ok(entries)) => Err(describe_difference(right, &entries)),
        (ExpectedOutcome::OpenFails(right), Err(OpenOrReadError::Open(class, _))) if *right == class => {
            Ok(())
        }
        (ExpectedOutcome::ReadFails, Err(OpenOrReadError::Read(_))) => Ok(()),
        (_, Ok(entries)) => Err(format!("read {} entries", entries.len())),
        (_, Err(failed)) => Err(format!("{failed:?}")),
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "printed in a failure")]
enum OpenOrReadError {
    Open(StatusCode, String),
    Read(String),
}

impl From<String> for OpenOrReadError {
    fn from(what: String) -> OpenOrReadError {
        OpenOrReadError::Read(what)
    }
}

/// Everything there is, which all ways of reading must agree on.
fn read_everything(
    path: &Path,
    settings: &Settings,
    open: OpenFn<'_>,
) -> Result<Vec<Entry>, OpenOrReadError> {
    let mut db = open(path, settings).map_err(|(class, text)| OpenOrReadError::Open(class, text))?;
    let entries = scan(&mut *db, &IteratorMove::SeekToFirst, &IteratorMove::Next)?;
    let mut backwards = scan(&mut *db, &IteratorMove::SeekToLast, &IteratorMove::Prev)?;
    backwards.reverse();
    if entries != backwards {
        return Err(OpenOrReadError::Read(format!(
            "backwards: {}",
            describe_difference(&entries, &backwards)
        )));
    }
    for (key, value) in &entries {
        check_get(&mut *db, key, Some(value))?;
        check_get(&mut *db, &[key.as_slice(), b"\0"].concat(), None)?;
    }
    Ok(entries)
}

fn check_get(db: &mut dyn DatabaseUnderTest, key: &[u8], expected: Option<&Vec<u8>>) -> Result<(), String> {
    let found = db.get(key, None)?;
    let show =
        |value: Option<&Vec<u8>>| value.map_or("nothing".into(), |value| value.escape_ascii().to_string());
    if found.as_ref() == expected {
        return Ok(());
    }
    Err(format!("get {}: {}, expected {}", key.escape_ascii(), show(found.as_ref()), show(expected)))
}

fn scan(
    db: &mut dyn DatabaseUnderTest,
    start: &IteratorMove,
    step: &IteratorMove,
) -> Result<Vec<Entry>, String> {
    db.open_iterator(0, None, &IteratorBounds::default());
    let mut entries = Vec::new();
    let mut entry = db.move_iterator(0, start)?;
    while let Some(there) = entry {
        entries.push(there);
        entry = db.move_iterator(0, step)?;
    }
    db.close_iterator(0);
    Ok(entries)
}

fn describe_difference(right: &[Entry], found: &[Entry]) -> String {
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
fn check_file_unchanged(dir: &Path, name: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    match std::fs::read(dir.join(name)) {
        Ok(bytes) if bytes == files[name] => Ok(()),
        Ok(_) => Err(format!("{name} was changed")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
