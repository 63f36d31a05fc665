//! Repairs of damaged databases.

mod crash;
mod logs;
mod lost_edits;
mod manifests;
mod tables;
mod unreadable;

use std::path::{Path, PathBuf};

use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, Env, FileSystem};
use terrace_testkit::crafted::CraftedDb;

use super::{RepairReport, repair};
use crate::db::Db;
use crate::options::RepairOptions;
use crate::options::{Options, ReadOptions};
use crate::sync::Arc;
use crate::verify::{VerifyReport, verify};

/// A closed database in memory.
struct TestDb {
    fs: Arc<MemFs>,
    options: Options,
}

const DIR: &str = "db";

impl TestDb {
    fn on(fs: MemFs) -> TestDb {
        let fs = Arc::new(fs);
        let env = Env::with_file_system(Arc::clone(&fs) as Arc<dyn FileSystem>);
        // Small blocks, so that little data fills several.
        let options = Options { create_if_missing: true, env, block_size: 1024, ..Options::default() };
        TestDb { fs, options }
    }

    /// Creates a database with the writes of `fill`, as a killed process leaves it.
    fn killed_after(fill: impl FnOnce(&Db)) -> TestDb {
        let test_db = TestDb::on(MemFs::new());
        let db = Db::open(DIR, &test_db.options).unwrap();
        fill(&db);
        TestDb::on(test_db.fs.fork())
    }

    /// Creates a database with the writes of `fill` and closes it.
    fn with_writes(fill: impl FnOnce(&Db)) -> TestDb {
        let test_db = TestDb::on(MemFs::new());
        let db = Db::open(DIR, &test_db.options).unwrap();
        fill(&db);
        db.close().unwrap();
        test_db
    }

    fn from_crafted(database: &CraftedDb) -> TestDb {
        let test_db = TestDb::on(MemFs::new());
        test_db.fs.create_dir(DIR.as_ref()).unwrap();
        for (name, bytes) in database.files() {
            test_db.write(&name, &bytes);
        }
        test_db.fs.sync_dir(DIR.as_ref()).unwrap();
        test_db.fs.sync_dir("".as_ref()).unwrap();
        test_db
    }

    fn path(name: &str) -> PathBuf {
        Path::new(DIR).join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let mut file = self.fs.create(&TestDb::path(name)).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let file = self.fs.open_random_access(&TestDb::path(name), AccessMode::Pread).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.fs.list(DIR.as_ref()).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns the file names that contain `part`, sorted.
    fn find(&self, part: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| name.contains(part)).collect()
    }

    /// Flips a bit of the only file with `part` in its name; a negative offset counts from the
    /// end.
    #[track_caller]
    fn flip(&self, part: &str, offset: i64) -> String {
        let name = self.only(part);
        let mut bytes = self.read(&name);
        let offset = if offset < 0 { bytes.len() as i64 + offset } else { offset };
        bytes[offset as usize] ^= 0x40;
        self.write(&name, &bytes);
        name
    }

    #[track_caller]
    fn only(&self, part: &str) -> String {
        let found = self.find(part);
        assert_eq!(found.len(), 1, "{part}: {found:?}");
        found[0].clone()
    }

    #[track_caller]
    fn remove(&self, part: &str) -> String {
        let name = self.only(part);
        self.fs.remove(&TestDb::path(&name)).unwrap();
        name
    }

    /// Repairs the database. First checks that a dry run changes nothing and gives the same report;
    /// then checks that a second repair has nothing to do.
    #[track_caller]
    fn repair(&self) -> RepairReport {
        let before = self.fs.mutation_count();
        let dry = repair(DIR, &self.options, &RepairOptions { dry_run: true }).unwrap();
        assert_eq!(self.fs.mutation_count(), before, "a dry run writes nothing");
        let report = repair(DIR, &self.options, &RepairOptions::default()).unwrap();
        assert_eq!(RepairReport { dry_run: false, ..dry }, report, "a dry run gives the same report");
        let again = repair(DIR, &self.options, &RepairOptions::default()).unwrap();
        assert!(!again.changed, "a second repair: {again}");
        assert_eq!(again.problems, [], "a second repair");
        for (_, to) in &report.moved {
            assert!(self.fs.exists(&TestDb::path(to)).unwrap(), "{to}");
        }
        report
    }

    fn verify(&self) -> VerifyReport {
        verify(DIR, &self.options).unwrap()
    }

    /// Returns all entries as `key=value`. Checks that gets, scans and `verify` agree.
    #[track_caller]
    fn contents(&self) -> String {
        let problems = self.verify();
        assert!(problems.is_clean(), "{problems}");
        let db = Db::open(DIR, &self.options).unwrap();
        let text = contents(&db);
        db.close().unwrap();
        text
    }
}

/// Returns all entries as `key=value`. Checks that gets and scans agree.
#[track_caller]
fn contents(db: &Db) -> String {
    let entries: Vec<_> = db.iter_with(&ReadOptions::default()).map(|entry| entry.unwrap()).collect();
    let texts = entries.into_iter().map(|(key, value)| {
        assert_eq!(db.get(&key).unwrap().as_deref(), Some(value.as_slice()), "get of {}", key.escape_ascii());
        format!("{}={}", key.escape_ascii(), value.escape_ascii())
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Writes twenty keys with values of 200 bytes: five blocks.
fn fill(db: &Db) {
    for n in 0..20 {
        db.put(format!("k{n:02}").as_bytes(), value(n).as_bytes()).unwrap();
    }
}

/// Returns a value that does not compress.
fn value(n: u32) -> String {
    let mut state = n + 1;
    let digits = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 27) as u8 % 26)
    });
    digits.take(200).collect()
}

/// Returns the keys of [`fill`] that are stored with the right values.
#[track_caller]
fn recovered_keys(test_db: &TestDb) -> Vec<u32> {
    let text = test_db.contents();
    let present: Vec<u32> = (0..20).filter(|n| text.contains(&format!("k{n:02}={}", value(*n)))).collect();
    assert_eq!(text.split(' ').filter(|entry| !entry.is_empty()).count(), present.len(), "{text}");
    present
}
