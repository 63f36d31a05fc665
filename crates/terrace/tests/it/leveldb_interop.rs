//! Comparison with the system's LevelDB: the same errors, one lock, and no database that LevelDB
//! would misread. The harnesses of terrace-torture test that each engine opens databases of the
//! other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace::{Db, Env, MappedLogs, Options, WriteBatch};
use terrace_env::{Clock, SystemClock};
use terrace_format::batch::encode_single_op;
use terrace_format::log::RecordWriter;
use terrace_testkit::differential::DatabaseUnderTest;
use terrace_testkit::settings::{ComparatorKind, Settings};
use terrace_testkit::stock_leveldb::{
    StatusCode, StockLevelDb, StockLevelDbUnderTest, stock_leveldb_or_skip,
};

use crate::{files, process};
use terrace_torture::database_under_test::{TerraceUnderTest, status_code};

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    LevelDb,
    Terrace,
}

use Opener::{LevelDb, Terrace};

impl Opener {
    fn open(self, stock: &'static StockLevelDb, path: &Path, settings: &Settings) -> OpenResult {
        match self {
            LevelDb => {
                let opened = StockLevelDbUnderTest::open(stock, path, settings);
                Ok(Box::new(opened.map_err(|error| (error.code, error.text))?))
            }
            Terrace => {
                let opened = TerraceUnderTest::open(path, settings, &Env::system());
                Ok(Box::new(opened.map_err(|error| (status_code(error.kind()), error.to_string()))?))
            }
        }
    }
}

type OpenResult = Result<Box<dyn DatabaseUnderTest>, (StatusCode, String)>;

/// A database that must not open: damage to a healthy one, and the settings of the open.
struct DamageCase {
    name: &'static str,
    damage: fn(&Path),
    settings: fn() -> Settings,
}

fn paranoid() -> Settings {
    Settings { paranoid_checks: true, ..Settings::default() }
}

static DAMAGE_CASES: &[DamageCase] = &[
    DamageCase { name: "nothing there", damage: |dir| empty(dir), settings: Settings::default },
    DamageCase {
        name: "exists",
        damage: |_| (),
        settings: || Settings { error_if_exists: true, ..Settings::create() },
    },
    DamageCase {
        name: "another order",
        damage: |_| (),
        settings: || Settings { comparator: ComparatorKind::Reverse, ..Settings::default() },
    },
    DamageCase {
        name: "empty CURRENT",
        damage: |dir| files::write(&dir.join("CURRENT"), b""),
        settings: Settings::create,
    },
    DamageCase {
        name: "CURRENT without its newline",
        damage: |dir| files::write(&dir.join("CURRENT"), b"MANIFEST-000002"),
        settings: Settings::create,
    },
    DamageCase {
        name: "no manifest",
        damage: |dir| files::remove(&files::only(dir, "MANIFEST-")),
        settings: Settings::create,
    },
    DamageCase {
        name: "empty manifest",
        damage: |dir| files::write(&files::only(dir, "MANIFEST-"), b""),
        settings: Settings::create,
    },
    DamageCase {
        name: "damaged manifest",
        damage: |dir| files::damage(&files::only(dir, "MANIFEST-"), 0, 1000),
        settings: Settings::create,
    },
    DamageCase {
        name: "no table",
        damage: |dir| files::remove(&files::only(dir, ".ldb")),
        settings: Settings::create,
    },
    DamageCase {
        name: "damaged log, paranoid",
        damage: |dir| files::damage(&files::only(dir, ".log"), 10, 3),
        settings: paranoid,
    },
];

fn empty(dir: &Path) {
    files::names(dir).iter().for_each(|name| files::remove(&dir.join(name)));
}

/// Creates a database with a table and a log, whose manifest an open does not rewrite.
fn healthy(stock: &'static StockLevelDb, dir: &Path) {
    let db = stock.open(dir, &Settings::create()).unwrap();
    db.put(b"in a table", b"1").unwrap();
    db.compact_range(None, None);
    db.put(b"in the log", b"2").unwrap();
}

#[test]
fn error_classes_match_leveldb() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for DamageCase { name, damage: spoil, settings } in DAMAGE_CASES {
        let [theirs, ours] = [LevelDb, Terrace].map(|owner| {
            let dir = tempfile::tempdir().unwrap();
            healthy(stock, dir.path());
            spoil(dir.path());
            owner
                .open(stock, dir.path(), &settings())
                .err()
                .unwrap_or((StatusCode::Unknown, "it opened".into()))
        });
        assert_ne!(theirs.0, StatusCode::Unknown, "{name}: {theirs:?}");
        assert_eq!(ours.0, theirs.0, "{name}: ours {ours:?}, theirs {theirs:?}");
    }
}

#[test]
fn a_missing_parent_directory() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such");
    let [theirs, ours] =
        [LevelDb, Terrace].map(|owner| owner.open(stock, &path, &Settings::create()).err().unwrap());
    assert_eq!(ours.0, theirs.0, "ours {ours:?}, theirs {theirs:?}");
}

/// LevelDB respects a lock of Terrace. (A test with two processes covers the reverse.)
#[test]
fn locks_exclude_each_other() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ours = Terrace.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = LevelDb.open(stock, dir.path(), &Settings::create()).err().unwrap();
    assert_eq!(refused.0, StatusCode::Io, "{refused:?}");
    drop(ours);
    let theirs = LevelDb.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = crate::process::run_in_other_process("open", dir.path());
    assert!(refused.contains("LOCK"), "{refused}");
    drop(theirs);
    assert_eq!(crate::process::run_in_other_process("open", dir.path()), "ok");
}

/// Blocks that LevelDB cannot read are written only after the comparator name in the manifest makes
/// LevelDB refuse the database.
#[test]
fn leveldb_refuses_databases_with_zstd() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let plain = terrace::Options::default().create_if_missing(true);
    let zstd = plain.clone().compression(&terrace::compress::ZSTD);
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    db.put(b"old", b"plain").unwrap();
    db.close().unwrap();
    let db = terrace::Db::open(dir.path(), &zstd).unwrap();
    db.put(b"new", "packed ".repeat(1000).as_bytes()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let before = files::names(dir.path());
    let refused = LevelDb.open(stock, dir.path(), &Settings::default()).err().unwrap();
    assert_eq!(refused.0, StatusCode::InvalidArgument, "{refused:?}");
    assert!(refused.1.contains("leveldb.BytewiseComparator+terrace.1 does not match"), "{refused:?}");
    let kept = files::names(dir.path());
    assert!(before.iter().all(|name| kept.contains(name) || name == "LOG"), "{before:?}, then {kept:?}");
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    assert_eq!(db.get(b"old").unwrap().as_deref(), Some(b"plain".as_slice()));
    assert!(db.get(b"new").unwrap().is_some());
}

/// Checks the entries that both engines find in `path`.
#[track_caller]
fn check_entries(path: &Path, settings: &Settings, expected: &[(Vec<u8>, Vec<u8>)]) {
    let theirs = stock_leveldb_or_skip().map(|stock| stock.open(path, settings).unwrap().scan().unwrap());
    assert!(theirs.is_none_or(|entries| entries == expected));
    let options = terrace::Options::default().paranoid_checks(settings.paranoid_checks);
    let db = terrace::Db::open(path, &options).unwrap();
    assert!(db.iter().map(Result::unwrap).eq(expected.iter().cloned()));
    db.close().unwrap();
}

/// Values that the log takes from the slice of the caller, between small ones, after a kill of the
/// process, and after a kill within the last record.
#[test]
fn large_values_in_the_log_of_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = terrace::Options::default().create_if_missing(true).write_buffer_size(64 << 20);
    let db = terrace::Db::open(&path, &options).unwrap();
    let mut expected = Vec::new();
    let lens = [10, 65_536, 100_000, 40, 32_768, 1_000_000, 70_000, 12, 12, 131_059, 65_535, 200_000];
    for (n, len) in lens.into_iter().enumerate() {
        let key = format!("key{n:03}").into_bytes();
        let value = vec![b'a' + n as u8; len];
        if n % 3 == 2 {
            // A batch with another key before the large value.
            let mut batch = terrace::WriteBatch::new();
            batch.put(b"other", n.to_string()).put(&key, &value);
            db.write(&batch).unwrap();
        } else {
            db.put(&key, &value).unwrap();
        }
        expected.push((key, value));
    }
    let last = expected[expected.len() - 1].clone();
    let others = [expected[..expected.len() - 1].to_vec(), vec![(b"other".to_vec(), b"8".to_vec())]].concat();
    expected.push((b"other".to_vec(), b"11".to_vec()));
    let [killed, torn] = ["killed", "torn"].map(|name| dir.path().join(name));
    // A copy of the open database has the files that a kill leaves.
    files::copy_directory(&path, &killed);
    files::copy_directory(&path, &torn);
    db.close().unwrap();

    check_entries(&killed, &Settings::default(), &expected);

    let log = files::only(&torn, ".log");
    let bytes = files::read(&log);
    let end = bytes.iter().rposition(|&byte| byte == last.1[0]).unwrap();
    files::write(&log, &bytes[..end - last.1.len() / 2]);
    check_entries(&torn, &paranoid(), &others);
}

/// Entries of a large batch. Each has a value of [`LARGE_VALUE`] bytes, so the batch has 24 MiB.
const LARGE_BATCH: usize = 768;

/// Bytes of a value of a large batch.
const LARGE_VALUE: usize = 32 << 10;

/// Writes large batches until the process is killed.
pub(crate) fn write_large_batches(path: &Path) -> terrace::Result<()> {
    let db = Db::open(path, &Options::default().create_if_missing(true))?;
    for number in 0u64.. {
        let mut batch = WriteBatch::new();
        for entry in 0..LARGE_BATCH as u64 {
            batch.put(entry.to_be_bytes(), number.to_be_bytes().repeat(LARGE_VALUE / 8));
        }
        db.write(&batch)?;
    }
    Ok(())
}

fn log_bytes(dir: &Path) -> u64 {
    let logs = files::files(dir, ".log").into_iter();
    logs.map(|log| log.metadata().map_or(0, |log| log.len())).sum()
}

/// A log with zeros after the first fragments of a record does not open with `paranoid_checks`.
/// Bitcoin Core sets this option, and writes batches of 16 MiB and more.
#[test]
fn leveldb_with_paranoid_checks_opens_a_database_killed_in_a_large_batch() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for round in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = process::start_other_process("write large batches", dir.path());
        while log_bytes(dir.path()) < (1 + round % 5) << 22 {
            SystemClock.sleep(Duration::from_micros(200));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        let opened = stock.open(dir.path(), &paranoid()).unwrap();
        let entries = opened.scan().unwrap();
        assert!(entries.is_empty() || entries.len() == LARGE_BATCH, "{} entries", entries.len());
        assert!(entries.iter().all(|(_, value)| value == &entries[0].1), "parts of two batches");
    }
}

/// LevelDB with `reuse_logs` continued a log, and a failed write damaged all that it appended. It
/// then started another log, whose first sequence number is not the next one. Terrace took this log
/// for its own after a power cut, and dropped it.
#[test]
fn log_of_another_program_after_a_damaged_one_is_replayed() {
    let damaged_fragment = [&[1, 2, 3, 4, 20, 0, 1][..], &[b'x'; 20]].concat();
    for is_closed in [true, false] {
        let continued = ContinuedDatabase::new(is_closed, |db| db.put(b"a", b"1").unwrap());
        let log = continued.log();
        files::write(&log, &[files::read(&log), damaged_fragment.clone()].concat());
        files::write(&continued.path().join("000050.log"), &log_with_gap());
        let db = continued.open();
        let found = [db.get(b"a").unwrap(), db.get(b"b").unwrap()];
        assert_eq!(found, [Some(b"1".to_vec()), Some(b"2".to_vec())], "closed: {is_closed}");
    }
}

/// LevelDB with `reuse_logs` continued the empty log of a killed process. Failed writes had used
/// the next sequence numbers. Terrace took the log for its own after a power cut, and dropped it.
#[test]
fn empty_log_that_another_program_continued_is_replayed() {
    let continued = ContinuedDatabase::new(false, |db| {
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
    });
    let log = continued.log();
    files::write(&log, &log_with_gap());
    let db = continued.open();
    let found = [db.get(b"a").unwrap(), db.get(b"b").unwrap()];
    assert_eq!(found, [Some(b"1".to_vec()), Some(b"2".to_vec())]);
}

/// Copy of a database of Terrace with mapped logs, whose process was killed or has closed it.
struct ContinuedDatabase {
    dir: tempfile::TempDir,
    options: Options,
}

impl ContinuedDatabase {
    fn new(is_closed: bool, write: impl FnOnce(&Db)) -> ContinuedDatabase {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().create_if_missing(true).mapped_logs(MappedLogs::Always);
        let original = dir.path().join("original");
        let db = Db::open(&original, &options).unwrap();
        write(&db);
        // A flush removes its log in the background.
        let deadline = SystemClock.monotonic() + Duration::from_secs(60);
        while files::files(&original, ".log").len() > 1 {
            assert!(SystemClock.monotonic() < deadline, "{:?}", files::names(&original));
            SystemClock.sleep(Duration::from_millis(1));
        }
        let killed = (!is_closed).then_some(db);
        files::copy_directory(&original, &dir.path().join("copy"));
        drop(killed);
        ContinuedDatabase { dir, options }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("copy")
    }

    fn log(&self) -> PathBuf {
        files::only(&self.path(), ".log")
    }

    fn open(&self) -> Db {
        Db::open(self.path(), &self.options).unwrap()
    }
}

/// Returns a log that puts "b", with a sequence number above the next one.
fn log_with_gap() -> Vec<u8> {
    let mut record = Vec::new();
    encode_single_op(&mut record, 100, b"b", Some(b"2"));
    let mut log = Vec::new();
    for fragment in RecordWriter::resume_at(0).add_record(&record) {
        fragment.append_to(&mut log, 0);
    }
    log
}
