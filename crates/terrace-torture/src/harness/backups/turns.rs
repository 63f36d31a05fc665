//! Random turns of writes, backups, restores, checkpoints and prunes, by Terrace and LevelDB: each
//! restored state is the one that was backed up.
//!
//! Values have a fixed size, so that two tables of equal number and size with different contents
//! are frequent: a restored database gives its next tables the numbers that the original has given,
//! too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace::compress::NO_COMPRESSION;
use terrace::{Backups, Db, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use super::{all_entries, compare, read_entries};
use crate::counters::{Counter, Counters};

const TURNS: u64 = 14;

const KEYS: u64 = 60;

pub(super) fn run(rng: &mut Rng, counters: &Counters) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(text)?;
    let mut options = Options::default().create_if_missing(true);
    options.compression = Some(&NO_COMPRESSION);
    let backups = Backups::open(directory.path().join("backups"), &options).map_err(text)?;
    let mut history = History {
        root: directory.path().to_path_buf(),
        options,
        backups,
        database: directory.path().join("database-0"),
        state: BTreeMap::new(),
        saved: BTreeMap::new(),
        copies: 0,
    };
    history.write(rng)?;
    for turn in 0..TURNS {
        history.turn(rng, counters).map_err(|message| format!("turn {turn}: {message}"))?;
        counters.add(Counter::EngineTurns, 1);
    }
    history.check_all(counters)
}

/// Databases and backups, with the states that they must have.
struct History {
    root: PathBuf,
    options: Options,
    backups: Backups,
    /// Directory of the current database.
    database: PathBuf,
    state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// State of each backup, and the directory of its database.
    saved: BTreeMap<u64, (Vec<Entry>, PathBuf)>,
    /// Number of restored databases and checkpoints.
    copies: u64,
}

impl History {
    fn turn(&mut self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        match rng.below(8) {
            0..3 => self.write(rng),
            3..5 => self.back_up(rng),
            5 => self.restore(rng, counters),
            6 => self.checkpoint(rng, counters),
            _ => self.prune(rng),
        }
    }

    fn entries(&self) -> Vec<Entry> {
        self.state.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Writes with one of the engines, which first finds the current state.
    fn write(&mut self, rng: &mut Rng) -> Result<(), String> {
        // A table with all keys has the same size in each history of the database.
        let has_all_keys = rng.one_in(2);
        let count = if has_all_keys { KEYS } else { rng.below(2 * KEYS) };
        let writes: Vec<(String, Option<String>)> = (0..count)
            .map(|number| {
                let key = if has_all_keys { number } else { rng.below(KEYS) };
                let is_put = has_all_keys || !rng.one_in(10);
                (format!("key {key:03}"), is_put.then(|| format!("{:016x}", rng.next_u64())))
            })
            .collect();
        let flushes = has_all_keys || rng.one_in(2);
        match StockLevelDb::load() {
            Ok(stock) if rng.one_in(3) => {
                let settings = Settings { snappy: false, ..Settings::create() };
                let db = stock.open(&self.database, &settings).map_err(|error| error.text)?;
                compare("read by LevelDB", &db.scan().map_err(|error| error.text)?, &self.entries())?;
                for (key, value) in &writes {
                    let value = value.as_ref().map(String::as_bytes);
                    db.write(&[(key.as_bytes(), value)], false).map_err(|error| error.text)?;
                }
                if flushes {
                    db.compact_range(Some(b""), Some(b""));
                }
            }
            _ => {
                let db = Db::open(&self.database, &self.options).map_err(text)?;
                compare("read by Terrace", &all_entries(&db).map_err(text)?, &self.entries())?;
                for (key, value) in &writes {
                    match value {
                        Some(value) => db.put(key, value).map_err(text)?,
                        None => db.delete(key).map_err(text)?,
                    }
                }
                if flushes {
                    db.flush().map_err(text)?;
                }
                db.close().map_err(text)?;
            }
        }
        for (key, value) in writes {
            match value {
                Some(value) => drop(self.state.insert(key.into_bytes(), value.into_bytes())),
                None => drop(self.state.remove(key.as_bytes())),
            }
        }
        Ok(())
    }

    fn open(&self, rng: &mut Rng) -> Result<Db, String> {
        let read_only = rng.one_in(2);
        let opened = match read_only {
            true => Db::open_read_only(&self.database, &self.options),
            false => Db::open(&self.database, &self.options),
        };
        opened.map_err(text)
    }

    fn back_up(&mut self, rng: &mut Rng) -> Result<(), String> {
        let info = self.backups.create(&self.open(rng)?).map_err(text)?;
        self.saved.insert(info.id, (self.entries(), self.database.clone()));
        Ok(())
    }

    /// Restores a backup. The restored database may become the current one.
    fn restore(&mut self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let ids: Vec<u64> = self.saved.keys().copied().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = rng.pick(&ids);
        let path = self.next_path();
        self.backups.restore(id, &path).map_err(text)?;
        let (saved, _) = &self.saved[&id];
        self.check_copy(&format!("restored backup {id}"), &path, saved)?;
        counters.add(Counter::Restores, 1);
        if rng.one_in(2) {
            self.state = saved.iter().cloned().collect();
            self.database = path;
        }
        Ok(())
    }

    /// Creates a checkpoint, which may become the current database.
    fn checkpoint(&mut self, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let path = self.next_path();
        self.open(rng)?.checkpoint(&path).map_err(text)?;
        self.check_copy("checkpoint", &path, &self.entries())?;
        counters.add(Counter::Checkpoints, 1);
        if rng.one_in(2) {
            self.database = path;
        }
        Ok(())
    }

    fn prune(&mut self, rng: &mut Rng) -> Result<(), String> {
        let keep = 1 + rng.below(3) as usize;
        let removed = self.backups.prune(keep).map_err(text)?;
        for id in removed {
            let Some((_, database)) = self.saved.remove(&id) else {
                return Err(format!("removed backup {id}, which did not exist"));
            };
            let newer = self.saved.range(id..).filter(|(_, (_, other))| *other == database);
            if newer.count() < keep {
                return Err(format!("removed backup {id}, which is one of the newest {keep}"));
            }
        }
        Ok(())
    }

    fn next_path(&mut self) -> PathBuf {
        self.copies += 1;
        self.root.join(format!("database-{}", self.copies))
    }

    /// Checks the state of a new directory with both engines. LevelDB reads a copy, because it
    /// writes to each database that it opens.
    fn check_copy(&self, what: &str, path: &Path, expected: &[Entry]) -> Result<(), String> {
        compare(what, &read_entries(path, &self.options)?, expected)?;
        let Ok(stock) = StockLevelDb::load() else { return Ok(()) };
        let copy = self.root.join("for-leveldb");
        Db::open_read_only(path, &self.options).and_then(|db| db.checkpoint(&copy)).map_err(text)?;
        let opened = stock.open(&copy, &Settings { paranoid_checks: true, ..Settings::default() });
        let entries = opened.and_then(|db| db.scan()).map_err(|error| format!("{what}: {}", error.text))?;
        std::fs::remove_dir_all(&copy).map_err(text)?;
        compare(&format!("{what}, read by LevelDB"), &entries, expected)
    }

    /// Checks every backup: by its hashes, in its own directory and restored.
    fn check_all(&mut self, counters: &Counters) -> Result<(), String> {
        let listed: Vec<u64> = self.backups.list().map_err(text)?.iter().map(|info| info.id).collect();
        let expected: Vec<u64> = self.saved.keys().copied().collect();
        if listed != expected {
            return Err(format!("backups {listed:?}, expected {expected:?}"));
        }
        for id in listed {
            let report = self.backups.verify(id).map_err(text)?;
            if let Some(problem) = report.problems.first() {
                return Err(format!("backup {id}: {problem}"));
            }
            let path = self.next_path();
            self.backups.restore(id, &path).map_err(text)?;
            let (saved, _) = &self.saved[&id];
            self.check_copy(&format!("backup {id} at the end"), &path, saved)?;
            counters.add(Counter::Restores, 1);
        }
        Ok(())
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
