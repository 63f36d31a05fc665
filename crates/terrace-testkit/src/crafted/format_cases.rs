//! Cases on which all readers of the format must agree, and the check that runs them.
//!
//! A case is a database that no LevelDB wrote, with the contents that a user must see. Stock
//! LevelDB runs each case where it is expected, to validate the expected contents.

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

/// Expected result of reading a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// Exactly these entries, by each way of reading.
    Entries(Vec<Entry>),
    /// The open fails with this status code, and changes no file.
    OpenFails(StatusCode),
    /// The open succeeds, and a full scan fails.
    ReadFails,
}

/// One case.
#[derive(Debug, Clone)]
pub struct FormatCase {
    /// Description of the database.
    pub name: &'static str,
    /// The database.
    pub database: CraftedDb,
    /// Expected result without paranoid checks.
    pub without_paranoid_checks: ExpectedOutcome,
    /// Expected result with paranoid checks.
    pub with_paranoid_checks: ExpectedOutcome,
    /// Files that an open must not change.
    pub untouched_files: &'static [&'static str],
    /// False if stock LevelDB 1.23 gives another result or lacks the feature.
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

    fn expect_paranoid(self, outcome: ExpectedOutcome) -> FormatCase {
        FormatCase { with_paranoid_checks: outcome, ..self }
    }

    fn leaves_untouched(self, files: &'static [&'static str]) -> FormatCase {
        FormatCase { untouched_files: files, ..self }
    }

    fn leveldb_disagrees(self) -> FormatCase {
        FormatCase { leveldb_agrees: false, ..self }
    }
}

fn expect_entries<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> ExpectedOutcome {
    ExpectedOutcome::Entries(entries.iter().map(|(k, v)| (k.as_ref().into(), v.as_ref().into())).collect())
}

/// Returns all cases.
pub fn cases() -> Vec<FormatCase> {
    [logs::cases(), tables::cases(), manifests::cases()].concat()
}

/// Opens a database for [`check`].
pub type OpenFn<'a> =
    &'a dyn Fn(&Path, &Settings) -> Result<Box<dyn DatabaseUnderTest>, (StatusCode, String)>;

/// Opens a case with and without paranoid checks, with and without a filter, and compares the
/// contents.
pub fn check(case: &FormatCase, open: OpenFn<'_>) -> Result<(), String> {
    for paranoid_checks in [false, true] {
        for bloom_bits in [0, 10] {
            let settings = Settings { paranoid_checks, bloom_bits, ..Settings::default() };
            let expected =
                if paranoid_checks { &case.with_paranoid_checks } else { &case.without_paranoid_checks };
            check_one(case, &settings, expected, open)
                .map_err(|message| format!("{}, opened with [{settings}]: {message}", case.name))?;
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
    let result = read_everything(dir.path(), settings, open);
    for name in files.keys() {
        if case.untouched_files.contains(&name.as_str()) || matches!(expected, ExpectedOutcome::OpenFails(_))
        {
            check_file_unchanged(dir.path(), name, &files)?;
        }
    }
    match (expected, result) {
        (ExpectedOutcome::Entries(expected), Ok(entries)) if *expected == entries => Ok(()),
        (ExpectedOutcome::Entries(expected), Ok(entries)) => Err(describe_difference(expected, &entries)),
        (ExpectedOutcome::OpenFails(expected), Err(OpenOrReadError::Open(code, _))) if *expected == code => {
            Ok(())
        }
        (ExpectedOutcome::ReadFails, Err(OpenOrReadError::Read(_))) => Ok(()),
        (_, Ok(entries)) => Err(format!("read {} entries", entries.len())),
        (_, Err(error)) => Err(format!("{error:?}")),
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "printed when a case fails")]
enum OpenOrReadError {
    Open(StatusCode, String),
    Read(String),
}

impl From<String> for OpenOrReadError {
    fn from(message: String) -> OpenOrReadError {
        OpenOrReadError::Read(message)
    }
}

/// Reads all entries and checks that all ways of reading agree.
fn read_everything(
    path: &Path,
    settings: &Settings,
    open: OpenFn<'_>,
) -> Result<Vec<Entry>, OpenOrReadError> {
    let mut db = open(path, settings).map_err(|(code, text)| OpenOrReadError::Open(code, text))?;
    let entries = scan(&mut *db, &IteratorMove::SeekToFirst, &IteratorMove::Next)?;
    let mut backward = scan(&mut *db, &IteratorMove::SeekToLast, &IteratorMove::Prev)?;
    backward.reverse();
    if entries != backward {
        return Err(OpenOrReadError::Read(format!(
            "backward scan: {}",
            describe_difference(&entries, &backward)
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
    Err(format!("get {} found {}, expected {}", key.escape_ascii(), show(found.as_ref()), show(expected)))
}

fn scan(
    db: &mut dyn DatabaseUnderTest,
    start: &IteratorMove,
    step: &IteratorMove,
) -> Result<Vec<Entry>, String> {
    db.open_iterator(0, None, &IteratorBounds::default());
    let mut entries = Vec::new();
    let mut entry = db.move_iterator(0, start)?;
    while let Some(found) = entry {
        entries.push(found);
        entry = db.move_iterator(0, step)?;
    }
    db.close_iterator(0);
    Ok(entries)
}

fn describe_difference(expected: &[Entry], found: &[Entry]) -> String {
    let missing = expected.iter().find(|entry| !found.contains(entry));
    let extra = found.iter().find(|entry| !expected.contains(entry));
    let show = |entry: Option<&Entry>| entry.map_or("none".into(), |(key, _)| key.escape_ascii().to_string());

    format!(
        "{} entries, expected {}; first missing {}, first unexpected {}",
        found.len(),
        expected.len(),
        show(missing),
        show(extra)
    )
}

#[expect(clippy::disallowed_methods, reason = "reads the files that the database under test left")]
fn check_file_unchanged(dir: &Path, name: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    match std::fs::read(dir.join(name)) {
        Ok(bytes) if bytes == files[name] => Ok(()),
        Ok(_) => Err(format!("{name} was changed")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
