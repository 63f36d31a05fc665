//! Reports of LevelDB users as tests: each comment gives the report and the guarantee.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use terrace::{Db, Env, ErrorKind, Options};
use terrace_testkit::op::ValueSpec;
use terrace_testkit::settings::Settings;

use terrace_torture::database_under_test::options_from_settings;

mod damage;
mod failing_files;
mod iterators;
mod recovery;

/// A database on disk that a test opens, fills, damages and reads.
struct ReportedDb {
    dir: TempDir,
    settings: Settings,
    db: Option<Db>,
}

/// Numbers of entries by result.
#[derive(Debug, PartialEq, Eq)]
struct FoundCounts {
    /// Entries with the right value.
    right: usize,
    /// Missing entries.
    missing: usize,
    /// Entries whose read returns an error.
    damaged: usize,
}

impl ReportedDb {
    /// Creates and opens an empty database.
    fn new(settings: Settings) -> ReportedDb {
        let mut database = ReportedDb { dir: tempfile::tempdir().unwrap(), settings, db: None };
        database.open();
        database
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, part: &str) -> PathBuf {
        crate::files::only(self.path(), part)
    }

    fn options(&self) -> Options {
        options_from_settings(&self.settings, &Env::system())
    }

    #[track_caller]
    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    fn close(&mut self) {
        self.db.take().map_or(Ok(()), Db::close).unwrap();
    }

    fn try_open(&mut self) -> terrace::Result<()> {
        self.close();
        self.db = Some(Db::open(self.path(), &self.options())?);
        Ok(())
    }

    #[track_caller]
    fn open(&mut self) {
        self.try_open().unwrap();
    }

    #[track_caller]
    fn repair(&mut self) {
        self.close();
        terrace::repair(self.path(), &self.options(), &terrace::RepairOptions::default()).unwrap();
    }

    fn put(&self, key: &str, value: &str) {
        self.db().put(key.as_bytes(), value.as_bytes()).unwrap();
    }

    fn get(&self, key: &str) -> Option<String> {
        self.db().get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value).unwrap())
    }

    /// Writes entries 0 to `count`, one by one.
    fn fill(&self, count: u32) {
        for n in 0..count {
            self.db().put(key(n), value(n)).unwrap();
        }
    }

    /// Gets entries 0 to `count`. A wrong value fails the test.
    #[track_caller]
    fn find(&self, count: u32) -> FoundCounts {
        let mut found = FoundCounts { right: 0, missing: 0, damaged: 0 };
        for n in 0..count {
            match self.db().get(key(n)) {
                Ok(Some(bytes)) if bytes == value(n) => found.right += 1,
                Ok(Some(bytes)) => panic!("entry {n} has a wrong value of {} bytes", bytes.len()),
                Ok(None) => found.missing += 1,
                Err(error) if error.kind() == ErrorKind::Corruption => found.damaged += 1,
                Err(error) => panic!("entry {n}: {error}"),
            }
        }
        found
    }

    /// Scans all entries and checks their values. Returns the iterator's error.
    #[track_caller]
    fn scan(&self) -> terrace::Result<usize> {
        let mut iter = self.db().raw_iter();
        let mut count = 0;
        iter.seek_to_first();
        while iter.valid() {
            let n = std::str::from_utf8(iter.key()).unwrap().parse().unwrap();
            assert!(iter.value() == value(n), "entry {n} has a wrong value");
            count += 1;
            iter.next();
        }
        iter.status().map(|()| count)
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// Returns a value; four of them fill an uncompressed block of 4 KiB.
fn value(n: u32) -> Vec<u8> {
    ValueSpec { len: 1_000, seed: n }.bytes()
}

fn plain() -> Settings {
    Settings { snappy: false, ..Settings::create() }
}
