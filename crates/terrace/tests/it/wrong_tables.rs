//! Whole table files that are exchanged, lengthened or cut: each read returns the right answer or
//! `Corruption`.
//!
//! A misplaced write, a partial restore of a backup or a renamed file puts an intact table in place
//! of another one. All of its checksums are right. The MANIFEST names the size of each table and
//! its first and last key, and these must match.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{Db, Env, ErrorKind, Options, RepairOptions, repair, verify};
use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, DeterministicScheduler, FileSystem};
use terrace_format::table::FOOTER_SIZE;

/// Database with several tables on levels 0 and 1, some of which have the same size.
struct ManyTables {
    files: MemFs,
    expected: BTreeMap<Vec<u8>, Vec<u8>>,
    tables: Vec<(PathBuf, Vec<u8>)>,
}

/// Number of flushed tables. Half of them are then compacted.
const FLUSHES: u32 = 12;
const KEYS_PER_FLUSH: u32 = 120;

fn options(files: &Arc<MemFs>) -> Options {
    let mut env = Env::with_file_system(Arc::clone(files) as _);
    env.scheduler = DeterministicScheduler::new(1);
    Options::default().env(env)
}

impl ManyTables {
    fn write() -> ManyTables {
        let files = Arc::new(MemFs::new());
        let options = options(&files).create_if_missing(true);
        let db = Db::open("db", &options).unwrap();
        let mut expected = BTreeMap::new();
        for flush in 0..FLUSHES {
            for n in 0..KEYS_PER_FLUSH {
                // Each flush has keys of its own and overlaps the other ones.
                let key = format!("key{:05}", n * FLUSHES + flush).into_bytes();
                let value = format!("{flush:02}-{n:03}").into_bytes();
                db.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
            db.put(b"shared", flush.to_string().as_bytes()).unwrap();
            expected.insert(b"shared".to_vec(), flush.to_string().into_bytes());
            db.flush().unwrap();
            if flush == FLUSHES / 2 {
                db.compact_range(None, None).unwrap();
            }
        }
        db.close().unwrap();
        let tables = table_files(&files);
        ManyTables { files: files.fork(), expected, tables }
    }

    /// Replaces one table file and reads everything.
    #[track_caller]
    fn read_with(&self, path: &Path, contents: &[u8], paranoid_checks: bool) -> Outcome {
        let files = Arc::new(self.files.fork());
        files.corrupt(path, |bytes| *bytes = contents.to_vec()).unwrap();
        let db = match Db::open("db", &options(&files).paranoid_checks(paranoid_checks)) {
            Ok(db) => db,
            Err(error) => return Outcome::default().with(&error),
        };
        let mut outcome = Outcome::default();
        for (key, value) in &self.expected {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value), "get {}", key.escape_ascii()),
                Err(error) => outcome = outcome.with(&error),
            }
        }
        // A scan skips a damaged table and ends with the error, as in LevelDB.
        match db.iter().collect::<terrace::Result<BTreeMap<_, _>>>() {
            Ok(found) => assert!(found == self.expected, "wrong scan without an error"),
            Err(error) => outcome = outcome.with(&error),
        }
        outcome
    }
}

/// Errors of the reads. Every other read had the right answer.
#[derive(Debug, Default)]
struct Outcome {
    corruption: Option<String>,
}

impl Outcome {
    #[track_caller]
    fn with(self, error: &terrace::Error) -> Outcome {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        Outcome { corruption: self.corruption.or_else(|| Some(error.to_string())) }
    }
}

fn table_files(files: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut tables: Vec<_> = files
        .list("db".as_ref())
        .unwrap()
        .iter()
        .map(|name| Path::new("db").join(name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ldb"))
        .map(|path| (path.clone(), read(files, &path)))
        .collect();
    tables.sort();
    tables
}

fn read(files: &MemFs, path: &Path) -> Vec<u8> {
    let file = files.open_random_access(path, AccessMode::Mmap).unwrap();
    file.mapped_slice().unwrap_or_default().to_vec()
}

/// Returns `table` with its footer at the end of `size` bytes. The footer holds offsets from the
/// start of the file, so this is an intact table of that size.
fn stretched(table: &[u8], size: usize) -> Option<Vec<u8>> {
    let (blocks, footer) = table.split_at(table.len() - FOOTER_SIZE);
    let filler = size.checked_sub(table.len())?;
    Some([blocks, &vec![0; filler], footer].concat())
}

/// In all ordered pairs, the first table replaces the second one: as it is, and with the size that
/// the MANIFEST names.
#[test]
fn exchanged_table_is_corruption() {
    let database = ManyTables::write();
    assert!(database.tables.len() >= 6, "{} tables", database.tables.len());
    let mut with_same_size = 0;
    for (from, other) in &database.tables {
        for (to, table) in database.tables.iter().filter(|(to, _)| to != from) {
            let stretched = stretched(other, table.len());
            with_same_size += usize::from(stretched.is_some());
            for contents in [Some(other.clone()), stretched].into_iter().flatten() {
                for paranoid_checks in [false, true] {
                    let outcome = database.read_with(to, &contents, paranoid_checks);
                    let message = outcome.corruption.expect("a read needs the replaced table");
                    let name = to.file_name().unwrap().to_str().unwrap();
                    assert!(message.contains(name) && message.contains("expected"), "{message}");
                }
            }
        }
    }
    assert!(with_same_size >= database.tables.len() / 2, "{with_same_size} pairs");
}

/// A table ends where the MANIFEST says, and later bytes are ignored, as in LevelDB. `verify`
/// mentions them, and `repair` has nothing to do.
#[test]
fn longer_table_file_is_read_to_the_recorded_size() {
    let database = ManyTables::write();
    for (path, table) in &database.tables {
        let tails: [&[u8]; 4] = [b"0123456789", &[0; 48], &table[table.len() - FOOTER_SIZE..], table];
        for tail in tails {
            let contents = [table, tail].concat();
            for paranoid_checks in [false, true] {
                let outcome = database.read_with(path, &contents, paranoid_checks);
                assert_eq!(outcome.corruption, None, "{}", path.display());
            }
            let files = Arc::new(database.files.fork());
            files.corrupt(path, |bytes| *bytes = contents.clone()).unwrap();
            let options = options(&files);
            let report = verify("db", &options).unwrap();
            assert!(report.is_clean(), "{report}");
            let note = format!("{} bytes after the end of the table are ignored", tail.len());
            assert_eq!((report.notes.len(), &report.notes[0].message), (1, &note));
            let repaired = repair("db", &options, &RepairOptions::default()).unwrap();
            assert!(!repaired.changed, "{repaired}");
        }
    }
}

/// Without CURRENT, repair still ends the tables where the MANIFEST says.
#[test]
fn repair_without_current_keeps_longer_tables() {
    let database = ManyTables::write();
    let files = Arc::new(database.files.fork());
    for (path, _) in &database.tables {
        files.corrupt(path, |bytes| bytes.extend_from_slice(b"0123456789")).unwrap();
    }
    files.remove("db/CURRENT".as_ref()).unwrap();
    let options = options(&files);
    let report = repair("db", &options, &RepairOptions::default()).unwrap();
    assert_eq!((report.tables_kept, report.tables_salvaged), (database.tables.len() as u64, 0), "{report}");
    let db = Db::open("db", &options).unwrap();
    let found: BTreeMap<_, _> = db.iter().map(Result::unwrap).collect();
    assert!(found == database.expected);
}

/// A shorter file is an error that names both sizes.
#[test]
fn cut_table_file_is_corruption() {
    let database = ManyTables::write();
    for (path, table) in &database.tables {
        for len in [table.len() - 1, table.len() - FOOTER_SIZE, table.len() / 2, FOOTER_SIZE, 1, 0] {
            let outcome = database.read_with(path, &table[..len], false);
            let message = outcome.corruption.expect("a read needs the cut table");
            let sizes = format!("{len} bytes, expected {} (from the manifest)", table.len());
            assert!(message.contains(&sizes), "{message}");
        }
    }
}

/// Repair cannot bring the right table back. It keeps the entries of the other one and corrects the
/// MANIFEST, so that the database can be read.
#[test]
fn repair_accepts_an_exchanged_table() {
    let database = ManyTables::write();
    let [(first, _), .., (_, other)] = &database.tables[..] else { panic!("tables") };
    let files = Arc::new(database.files.fork());
    files.corrupt(first, |bytes| *bytes = other.clone()).unwrap();
    let options = options(&files);
    assert!(!verify("db", &options).unwrap().is_clean());
    let report = repair("db", &options, &RepairOptions::default()).unwrap();
    assert!(report.changed && !report.problems.is_empty(), "{report}");
    let after = verify("db", &options).unwrap();
    assert!(after.is_clean(), "{after}");
    let db = Db::open("db", &options).unwrap();
    for entry in db.iter() {
        let (key, value) = entry.unwrap();
        assert_eq!(database.expected.get(&key), Some(&value), "{}", key.escape_ascii());
    }
}
