//! Ingest of table files: all of them or none, and never beside another version of a key.
#![allow(clippy::disallowed_methods, reason = "creates and changes files outside of a database")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::compress::{SNAPPY, ZSTD};
use terrace::env::fault::{FaultFs, FaultPlan};
use terrace::env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace::{
    Bytewise, Comparator, Db, Env, Error, ErrorKind, IngestOptions, Options, RepairOptions, SortedTable,
    TransactionOptions, WriteOptions, repair, verify,
};
use terrace_testkit::SetOnDrop;
use terrace_testkit::crafted::CraftedTable;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

fn in_memory() -> Options {
    Options::default().create_if_missing(true).env(Env::in_memory())
}

fn on(fs: Arc<MemFs>) -> Options {
    Options::default().create_if_missing(true).env(Env::with_file_system(fs))
}

/// Writes a table of words, each with itself as its value.
fn table(options: &Options, path: &str, words: &str) {
    let mut table = SortedTable::create(path, options).unwrap();
    for word in words.split_whitespace() {
        table.add(word, word).unwrap();
    }
    table.finish().unwrap();
}

fn at_once() -> IngestOptions {
    IngestOptions::default().timeout(Duration::ZERO)
}

fn ingest(db: &Db, tables: &[&str]) -> Result<(), Error> {
    db.ingest(tables, &at_once())
}

/// Returns the keys in both directions, which must agree.
fn keys(db: &Db) -> String {
    let word = |entry: terrace::Result<(Vec<u8>, Vec<u8>)>| String::from_utf8(entry.unwrap().0).unwrap();
    let forward: Vec<String> = db.iter().map(word).collect();
    let mut backward: Vec<String> = db.iter().rev().map(word).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    for key in &forward {
        assert!(db.get(key).unwrap().is_some(), "{key}");
    }
    forward.join(" ")
}

fn levels(db: &Db) -> Vec<usize> {
    db.levels().iter().map(|level| level.files.len()).collect()
}

/// Names of files in the directory of the database, of tables and temporary files.
fn table_files(options: &Options) -> Vec<String> {
    let names = options.env.fs.list(Path::new("db")).unwrap();
    let mut names: Vec<String> = names.into_iter().map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".ldb") || name.ends_with(".dbtmp"));
    names.sort();
    names
}

#[track_caller]
fn check_intact(options: &Options, expect: &str) {
    let report = verify("db", options).unwrap();
    assert!(report.is_clean(), "{report}");
    let report = repair("db", options, &RepairOptions::default().dry_run(true)).unwrap();
    assert!(!report.changed, "{report}");
    let db = Db::open("db", options).unwrap();
    assert_eq!(keys(&db), expect);
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db), expect);
}

#[test]
fn ingested_entries_behave_like_written_ones() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    db.put("m", "m").unwrap();
    table(&options, "1.ldb", "n o p");
    table(&options, "2.ldb", "a b c");
    ingest(&db, &["1.ldb", "2.ldb"]).unwrap();
    assert_eq!(keys(&db), "a b c m n o p");
    assert_eq!(db.last_change("b").unwrap(), Some(0));
    // Later writes hide the entries, before and after their flush.
    db.put("b", "new").unwrap();
    db.delete("n").unwrap();
    let snapshot = db.snapshot();
    db.put("o", "new").unwrap();
    for _ in 0..2 {
        assert_eq!(db.get("b").unwrap().as_deref(), Some(b"new".as_slice()));
        assert_eq!(snapshot.get("o").unwrap().as_deref(), Some(b"o".as_slice()));
        assert_eq!(keys(&db), "a b c m o p");
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }
    drop(snapshot);
    db.close().unwrap();
    check_intact(&options, "a b c m o p");
}

/// The sequence number of the first reader is 0, too.
#[test]
fn ingest_into_a_new_database() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    table(&options, "1.ldb", "a b");
    ingest(&db, &["1.ldb"]).unwrap();
    assert_eq!(keys(&db), "a b");
    assert_eq!(db.snapshot().get("a").unwrap().as_deref(), Some(b"a".as_slice()));
    assert_eq!(levels(&db), [0, 0, 1, 0, 0, 0, 0]);
    ingest(&db, &[]).unwrap();
    db.close().unwrap();
    check_intact(&options, "a b");
    // A repair without a MANIFEST needs nothing but the tables.
    for name in options.env.fs.list(Path::new("db")).unwrap() {
        if name.to_str().unwrap().starts_with("MANIFEST") {
            options.env.fs.remove(&Path::new("db").join(name)).unwrap();
        }
    }
    repair("db", &options, &RepairOptions::default()).unwrap();
    check_intact(&options, "a b");
}

#[test]
fn overlap_names_the_range_and_changes_nothing() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    for key in ["b", "f", "k", "x"] {
        db.put(key, "1").unwrap();
    }
    db.delete("k").unwrap();
    db.flush().unwrap();
    db.put("m", "1").unwrap();
    db.delete("s").unwrap();
    let before = table_files(&options);
    for (words, other) in [
        ("a b", "key 'b' of the database"),
        ("c g", "key 'f' of the database"),
        ("x z", "key 'x' of the database"),
        ("j l", "key 'k' of the database"),
        ("l n", "key 'm' of the database"),
        ("q t", "key 's' of the database"),
    ] {
        table(&options, "1.ldb", words);
        let (first, last) = words.split_once(' ').unwrap();
        let error = ingest(&db, &["1.ldb"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid argument: 1.ldb, keys '{first}' to '{last}', overlaps {other}")
        );
        assert!(matches!(error, Error::Overlap { .. }));
        assert_eq!(table_files(&options), before);
    }
    table(&options, "1.ldb", "c d");
    table(&options, "2.ldb", "d e");
    let error = ingest(&db, &["1.ldb", "2.ldb"]).unwrap_err();
    assert!(
        error.to_string().ends_with("2.ldb, keys 'd' to 'e', overlaps 1.ldb, keys 'c' to 'd'"),
        "{error}"
    );
    assert!(ingest(&db, &["1.ldb", "1.ldb"]).is_err());
    assert_eq!(keys(&db), "b f m x");
    // Gaps between the keys of a table are free, on another level than the table.
    table(&options, "2.ldb", "g h");
    ingest(&db, &["1.ldb", "2.ldb"]).unwrap();
    assert_eq!(keys(&db), "b c d f g h m x");
    db.close().unwrap();
    check_intact(&options, "b c d f g h m x");
}

#[test]
fn snapshots_and_transactions_delay_an_ingest() {
    let options = on(Arc::new(MemFs::new()));
    let db = Db::open("db", &options).unwrap();
    table(&options, "1.ldb", "a b");
    let snapshot = db.snapshot();
    let error = ingest(&db, &["1.ldb"]).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Busy, true));
    let mut transaction = db.begin(&TransactionOptions::default());
    assert_eq!(transaction.get("a").unwrap(), None);
    drop(snapshot);
    assert!(matches!(ingest(&db, &["1.ldb"]), Err(Error::SnapshotsOpen)));
    std::thread::scope(|scope| {
        let ingest =
            scope.spawn(|| db.ingest(&["1.ldb"], &IngestOptions::default().timeout(Duration::from_secs(60))));
        assert_eq!(transaction.get("b").unwrap(), None);
        transaction.put("c", "c").unwrap();
        transaction.commit().unwrap();
        ingest.join().unwrap().unwrap();
    });
    assert_eq!(keys(&db), "a b c");
}

#[test]
fn unsorted_and_empty_tables_are_refused_while_they_are_written() {
    let options = in_memory();
    let mut table = SortedTable::create("1.ldb", &options).unwrap();
    table.add("b", "").unwrap();
    for (key, message) in [
        ("a", "invalid argument: 1.ldb: key 'a' after 'b', expected ascending keys"),
        ("b", "invalid argument: 1.ldb: key 'b' after 'b', expected ascending keys"),
    ] {
        assert_eq!(table.add(key, "").unwrap_err().to_string(), message);
    }
    table.add("c", "x").unwrap();
    let info = table.finish().unwrap();
    assert_eq!((info.entries, &*info.smallest, &*info.largest), (2, b"b".as_slice(), b"c".as_slice()));
    assert_eq!(info.size, options.env.fs.file_size(Path::new("1.ldb")).unwrap());
    let error = SortedTable::create("2.ldb", &options).unwrap().finish().unwrap_err();
    assert_eq!(error.to_string(), "invalid argument: 2.ldb: the table has no entries");
    SortedTable::create("3.ldb", &options).unwrap().add("a", "").unwrap();
    for path in ["2.ldb", "3.ldb"] {
        assert!(!options.env.fs.exists(Path::new(path)).unwrap(), "{path}");
    }
}

/// Comparator of another name with the bytewise order.
struct Renamed;

impl Comparator for Renamed {
    fn name(&self) -> &str {
        "test.Renamed"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        Bytewise.compare(a, b)
    }
}

#[test]
fn unsuitable_files_are_refused() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    db.put("a", "1").unwrap();
    let write = |name: &str, bytes: Vec<u8>| {
        let mut file = options.env.fs.create(Path::new(name)).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
    };
    table(&options, "good.ldb", "g h");
    table(&options.clone().comparator(Arc::new(Renamed)), "renamed.ldb", "k l");
    write("tombstone.ldb", CraftedTable::new().put("k", 0, "").delete("l", 0).encode());
    write("numbered.ldb", CraftedTable::new().put("k", 7, "").encode());
    write("foreign.ldb", CraftedTable::new().put("k", 0, "").put("l", 0, "").encode());
    write("unsorted.ldb", CraftedTable::new().put("l", 0, "").put("k", 0, "").encode());
    write("twice.ldb", CraftedTable::new().put("l", 0, "1").put("l", 0, "2").encode());
    write("empty.ldb", Vec::new());
    write("text.ldb", vec![b'x'; 5000]);
    options.env.fs.create_dir(Path::new("directory.ldb")).unwrap();
    let before = table_files(&options);
    for (name, expect) in [
        ("renamed.ldb", "the database has the comparator test.Renamed, not leveldb.BytewiseComparator"),
        (
            "tombstone.ldb",
            "tombstone.ldb: key 'l' is a tombstone with the sequence number 0, expected a put with 0",
        ),
        ("numbered.ldb", "numbered.ldb: key 'k' is a put with the sequence number 7, expected a put with 0"),
        ("unsorted.ldb", "unsorted.ldb"),
        ("twice.ldb", "twice.ldb"),
        ("empty.ldb", "corruption: empty.ldb"),
        ("text.ldb", "corruption: text.ldb"),
        ("missing.ldb", "missing.ldb"),
        ("directory.ldb", "directory.ldb"),
    ] {
        let error = ingest(&db, &["good.ldb", name]).unwrap_err();
        assert!(error.to_string().contains(expect), "{name}: {error}");
        assert_eq!(table_files(&options), before, "{name}");
        assert_eq!(keys(&db), "a", "{name}");
    }
    ingest(&db, &["good.ldb", "foreign.ldb"]).unwrap();
    assert_eq!(keys(&db), "a g h k l");
    db.close().unwrap();
    check_intact(&options, "a g h k l");
}

/// A flip of any bit is an error, or the bit has no effect.
#[test]
fn damaged_tables_are_refused() {
    let options = in_memory();
    table(&options, "good.ldb", "k l m");
    let bytes = read_file(&options, "good.ldb");
    for offset in 0..bytes.len() {
        let db = Db::open("db", &options).unwrap();
        let mut damaged = bytes.clone();
        damaged[offset] ^= 1 << (offset % 8);
        let mut file = options.env.fs.create(Path::new("bad.ldb")).unwrap();
        file.append(&damaged).unwrap();
        file.close().unwrap();
        match ingest(&db, &["bad.ldb"]) {
            Err(error) => {
                assert!(error.to_string().contains("bad.ldb"), "{offset}: {error}");
                assert_eq!(keys(&db), "", "{offset}");
            }
            Ok(()) => assert_eq!(keys(&db), "k l m", "{offset}"),
        }
        db.close().unwrap();
        terrace::destroy("db", &options).unwrap();
    }
}

fn read_file(options: &Options, path: &str) -> Vec<u8> {
    let path = Path::new(path);
    let file = options.env.fs.open_random_access(path, terrace::env::AccessMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn links_and_special_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::default().create_if_missing(true);
    let db = Db::open(at("db"), &options).unwrap();
    let mut table = SortedTable::create(at("good.ldb"), &options).unwrap();
    table.add("a", "1").unwrap();
    table.finish().unwrap();
    std::fs::create_dir(at("directory.ldb")).unwrap();
    #[cfg_attr(windows, allow(unused_mut, reason = "few users of Windows may create links"))]
    let mut refused = vec![("directory.ldb", "found a directory, expected a regular file")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("good.ldb"), at("link.ldb")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("dangling.ldb")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(at("fifo.ldb")).status().unwrap();
        assert!(fifo.success());
        refused.extend([
            ("link.ldb", "found a symbolic link, expected a regular file"),
            ("dangling.ldb", "found a symbolic link, expected a regular file"),
            ("fifo.ldb", "found a FIFO, expected a regular file"),
        ]);
    }
    for (name, found) in refused {
        let error = db.ingest(&[at("good.ldb"), at(name)], &at_once()).unwrap_err();
        assert!(error.to_string().contains(found) && error.to_string().contains(name), "{error}");
    }
    assert_eq!(db.iter().count(), 0);
    db.ingest(&[at("good.ldb")], &at_once()).unwrap();
    assert_eq!(db.iter().count(), 1);
    // The database has a copy of its own.
    std::fs::write(at("good.ldb"), "overwritten").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.iter().count(), 1);
}

#[test]
fn closed_and_read_only_databases_refuse_an_ingest() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    table(&options, "1.ldb", "a b");
    db.shutdown().unwrap();
    assert_eq!(ingest(&db, &["1.ldb"]).unwrap_err().to_string(), "not supported: database is closed");
    drop(db);
    let reader = Db::open_read_only("db", &options).unwrap();
    assert_eq!(ingest(&reader, &["1.ldb"]).unwrap_err().to_string(), "not supported: database is read-only");
}

#[test]
fn table_with_zstd_blocks_marks_the_database() {
    let options = in_memory();
    let zstd = options.clone().compression(&ZSTD);
    let mut table = SortedTable::create("1.ldb", &zstd).unwrap();
    table.add("a", [b'x'; 5000]).unwrap();
    table.finish().unwrap();
    let db = Db::open("db", &options).unwrap();
    ingest(&db, &["1.ldb"]).unwrap();
    let is_marked = || {
        let names = options.env.fs.list(Path::new("db")).unwrap();
        let mut manifests = names.iter().filter(|name| name.to_str().unwrap().starts_with("MANIFEST"));
        let manifest = format!("db/{}", manifests.next_back().unwrap().to_str().unwrap());
        let bytes = read_file(&options, &manifest);
        bytes.windows(10).any(|part| part == b"+terrace.1")
    };
    assert!(is_marked());
    db.close().unwrap();
    let db = Db::open("db", &options.clone().compression(&SNAPPY)).unwrap();
    db.rewrite_tables().unwrap();
    assert!(!is_marked());
}

#[test]
fn stock_leveldb_reads_and_writes_ingested_tables() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = Options::default().create_if_missing(true);
    let db = Db::open(&path, &options).unwrap();
    let source = directory.path().join("1.ldb");
    let mut table = SortedTable::create(&source, &options).unwrap();
    for n in 0..1000 {
        table.add(format!("{n:04}"), [b'v'; 100]).unwrap();
    }
    table.finish().unwrap();
    db.ingest(&[&source], &at_once()).unwrap();
    db.put("0500", "new").unwrap();
    db.close().unwrap();
    let theirs = stock.open(&path, &Settings::default()).unwrap();
    assert_eq!(theirs.get(b"0000", None).unwrap(), Some(vec![b'v'; 100]));
    assert_eq!(theirs.get(b"0500", None).unwrap(), Some(b"new".to_vec()));
    theirs.write(&[(b"0999".as_slice(), None)], false).unwrap();
    theirs.compact_range(None, None);
    drop(theirs);
    stock.repair(&path, &Settings::default()).unwrap();
    let db = Db::open(&path, &options).unwrap();
    assert_eq!(db.iter().count(), 999);
    assert_eq!(db.get("0500").unwrap(), Some(b"new".to_vec()));
}

/// Opens the files of `fs`, and checks that the database has all of `before`, and all or none of
/// the ingested entries. Returns true if it has them.
#[track_caller]
fn check_crash(fs: MemFs, context: &str) -> bool {
    let options = on(Arc::new(fs)).paranoid_checks(true);
    let db = Db::open("db", &options).unwrap_or_else(|error| panic!("{context}: {error}"));
    let found = keys(&db);
    let all = found == "a b c m n o";
    assert!(all || found == "a m", "{context}: {found}");
    let files = table_files(&options);
    assert!(files.iter().all(|name| name.ends_with(".ldb")), "{context}: {files:?}");
    assert_eq!(files.len(), levels(&db).iter().sum::<usize>(), "{context}: {files:?}");
    db.close().unwrap();
    let report = verify("db", &options).unwrap();
    assert!(report.is_clean(), "{context}: {report}");
    all
}

fn database_before_ingest(fs: &Arc<MemFs>) -> Db {
    let options = on(Arc::clone(fs));
    let db = Db::open("db", &options).unwrap();
    db.put_with("a", "", &WriteOptions::default().sync(true)).unwrap();
    db.flush().unwrap();
    // Not synced: the ingest makes it durable.
    db.put("m", "").unwrap();
    table(&options, "1.ldb", "b c");
    table(&options, "2.ldb", "n o");
    db
}

#[test]
fn crash_at_every_call_of_an_ingest() {
    let mut outcomes = [0, 0];
    for call in 0.. {
        let fs = Arc::new(MemFs::new());
        let db = database_before_ingest(&fs);
        let first_call = fs.mutation_count();
        fs.freeze_at(first_call + call);
        let done = ingest(&db, &["1.ldb", "2.ldb"]).is_ok();
        for profile in POWER_LOSS_PROFILES {
            let crashed = fs.crash_clone(&profile.crash_with_seed(call));
            let context = format!("call {call}, {}", profile.name);
            // The unsynced write may be lost, but not if the ingest survives.
            let options = on(Arc::new(crashed.fork()));
            let survives = keys(&Db::open("db", &options).unwrap()).contains('m');
            if survives {
                let all = check_crash(crashed, &context);
                assert!(all || !done, "{context}: the ingest is lost");
                outcomes[usize::from(all)] += 1;
            } else {
                assert_eq!(keys(&Db::open("db", &options).unwrap()), "a", "{context}");
                assert!(!done, "{context}");
            }
        }
        let all = check_crash(fs.crash_clone(&Crash::Kill), &format!("call {call}, kill"));
        assert!(all || !done, "call {call}: the ingest is lost");
        if done {
            break;
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// Every failed call gives an error and changes nothing, or the call was not essential.
#[test]
fn io_error_at_every_call_of_an_ingest() {
    for fault in ["EIO", "ENOSPC"] {
        for call in 1.. {
            let fs = Arc::new(MemFs::new());
            database_before_ingest(&fs).close().unwrap();
            let faulty = Arc::new(FaultFs::new(Arc::clone(&fs) as _, FaultPlan::default()));
            let options = Options::default().env(Env::with_file_system(Arc::clone(&faulty) as _));
            let db = Db::open("db", &options).unwrap();
            faulty.set_plan(format!("any * #{call} once {fault}").parse().unwrap());
            let outcome = ingest(&db, &["1.ldb", "2.ldb"]);
            let has_failed = !faulty.failed_calls().is_empty();
            faulty.set_plan(FaultPlan::default());
            let context = format!("{fault} at call {call}: {outcome:?}");
            if outcome.is_err() {
                assert_eq!(keys(&db), "a m", "{context}");
            }
            let is_writable = db.put("z", "").is_ok() && db.delete("z").is_ok();
            if outcome.is_err() && is_writable {
                // The call had no effect, and the next one succeeds.
                ingest(&db, &["1.ldb", "2.ldb"]).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(keys(&db), "a b c m n o", "{context}");
            }
            drop(db);
            let all = check_crash(fs.crash_clone(&Crash::Kill), &context);
            assert!(all || outcome.is_err(), "{context}");
            if !has_failed {
                break;
            }
        }
    }
}

/// Symptom: after a failed sync of the directory, an ingest returned an error, and a later sync
/// write succeeded, although nothing proves that the name of its log is durable. Cause: only
/// flushes and compactions recorded such an error. Guarantee: the database refuses writes.
#[test]
fn failed_directory_sync_of_an_ingest_refuses_writes() {
    let fs = Arc::new(MemFs::new());
    database_before_ingest(&fs).close().unwrap();
    let faulty = Arc::new(FaultFs::new(Arc::clone(&fs) as _, FaultPlan::default()));
    let options = Options::default().env(Env::with_file_system(Arc::clone(&faulty) as _));
    let db = Db::open("db", &options).unwrap();
    let sync = WriteOptions::default().sync(true);
    db.put_with("a", "", &sync).unwrap();
    // The directory is synced before the MANIFEST names the new tables.
    faulty.set_plan("sync-dir db #1 once EIO".parse().unwrap());
    assert!(ingest(&db, &["1.ldb", "2.ldb"]).is_err());
    assert_eq!(faulty.failed_calls().len(), 1);
    assert_eq!(keys(&db), "a m");
    assert!(db.put_with("z", "", &sync).is_err());
}

/// Scans beside ingests and writes never see a write without the ingests before it.
#[test]
fn readers_and_writers_beside_ingests() {
    let options = Options::default().write_buffer_size(64 << 10).create_if_missing(true);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let db = Db::open(at("db"), &options).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&is_done);
        scope.spawn(|| {
            let mut n = 0u64;
            while !is_done.load(Ordering::Relaxed) {
                n += 1;
                db.put(format!("w{:05}", n % 5000), [n as u8; 100]).unwrap();
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // Round r ingests i{r}0 to i{r}9 and then puts m{r}.
                let mut ingested = std::collections::BTreeMap::new();
                for (key, _) in db.range("i".."j").map(Result::unwrap) {
                    *ingested.entry(key[1..5].to_vec()).or_insert(0) += 1;
                }
                assert!(ingested.values().all(|&count| count == 10), "{ingested:?}");
                let mut iter = db.raw_iter();
                iter.seek(b"i");
                let mut rounds = 0;
                while iter.valid() && iter.key().starts_with(b"i") {
                    rounds += 1;
                    iter.next();
                }
                let mut marks = 0;
                while iter.valid() && iter.key().starts_with(b"m") {
                    marks += 1;
                    iter.next();
                }
                assert!(marks * 10 <= rounds, "{marks} marks of {rounds} ingested entries");
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                db.compact_range(None, None).unwrap();
            }
        });
        for round in 0..60 {
            let source = at("round.ldb");
            let mut table = SortedTable::create(&source, &options).unwrap();
            for n in 0..10 {
                table.add(format!("i{round:04}{n}"), [7; 50]).unwrap();
            }
            table.finish().unwrap();
            db.ingest(&[&source], &IngestOptions::default()).unwrap();
            db.put(format!("m{round:04}"), "").unwrap();
        }
    });
    assert_eq!(db.range("i".."j").count(), 600);
    db.close().unwrap();
    let report = verify(at("db"), &options).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Writers of the same keys: either the write comes first, and the ingest is refused, or the write
/// hides the entry.
#[test]
fn writers_of_the_range_beside_ingests() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let mut refused = 0;
    for round in 0..200 {
        let keys = [format!("{round:03}a"), format!("{round:03}b")];
        table(&options, "1.ldb", &keys.join(" "));
        let outcome = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // From a writer that is always first to one that is always last.
                options.env.clock.sleep(Duration::from_micros(50 * round));
                db.put(&keys[0], "written").unwrap();
            });
            let outcome = ingest(&db, &["1.ldb"]);
            writer.join().unwrap();
            outcome
        });
        assert_eq!(db.get(&keys[0]).unwrap().as_deref(), Some(b"written".as_slice()), "{outcome:?}");
        assert_eq!(db.get(&keys[1]).unwrap().is_some(), outcome.is_ok());
        if let Err(error) = outcome {
            assert!(matches!(error, Error::Overlap { .. }), "{error}");
            refused += 1;
        }
    }
    assert!(refused < 200);
}

/// Symptom: several ingests of one range at a time succeeded, and scans in the two directions found
/// different values. Cause: the watch of an ingest sees the keys of writers only. Guarantee: one of
/// them succeeds, and the others return the overlap.
#[test]
fn concurrent_ingests_of_one_range() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(directory.path().join("db"), &options).unwrap();
    for round in 0..20 {
        let sources = [0, 1, 2].map(|number| {
            let source = directory.path().join(format!("{number}.ldb"));
            let mut table = SortedTable::create(&source, &options).unwrap();
            table.add(format!("{round:02}a"), format!("{number}")).unwrap();
            table.add(format!("{round:02}z"), format!("{number}")).unwrap();
            table.finish().unwrap();
            source
        });
        let start = &std::sync::Barrier::new(sources.len());
        let db = &db;
        let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            // The syncs of these writes keep the ingests between their checks and their installs.
            let writer = scope.spawn(|| (0..5_000).for_each(|n| db.put(format!("w{n}"), "").unwrap()));
            let threads = sources.each_ref().map(|source| {
                scope.spawn(move || {
                    start.wait();
                    db.ingest(&[source], &IngestOptions::default())
                })
            });
            let outcomes = threads.map(|thread| thread.join().unwrap()).into();
            writer.join().unwrap();
            outcomes
        });
        let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert!(refused.clone().all(|error| matches!(error, Error::Overlap { .. })), "{outcomes:?}");
        assert_eq!(refused.count(), 2, "round {round}");
    }
    let forward: Vec<_> = db.iter().map(Result::unwrap).collect();
    let mut backward: Vec<_> = db.iter().rev().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(forward, backward);
}

/// Symptom: one changed bit in the MANIFEST removed an acknowledged ingest after a clean close,
/// without a message. Cause: the rest of a block after damage was taken for the end of the
/// MANIFEST, and an ingest makes no file obsolete. Guarantee: valid edits after the damage make it
/// an error.
#[test]
fn damaged_edit_of_an_ingest() {
    let fs = Arc::new(MemFs::new());
    let options = on(Arc::clone(&fs)).paranoid_checks(true);
    let db = Db::open("db", &options).unwrap();
    db.put("a", "a").unwrap();
    table(&options, "1.ldb", "m n zqz");
    ingest(&db, &["1.ldb"]).unwrap();
    db.close().unwrap();
    let names = options.env.fs.list(Path::new("db")).unwrap();
    let manifest = names.iter().find(|name| name.to_string_lossy().starts_with("MANIFEST")).unwrap();
    fs.corrupt(&Path::new("db").join(manifest), |bytes| {
        let key = bytes.windows(3).rposition(|bytes| bytes == b"zqz").unwrap();
        bytes[key] ^= 1;
    })
    .unwrap();
    assert_eq!(Db::open("db", &options).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(!verify("db", &options).unwrap().is_clean());
    repair("db", &options, &RepairOptions::default()).unwrap();
    assert_eq!(keys(&Db::open("db", &options).unwrap()), "a m n zqz");
}

/// Symptom: one changed bit in the last edit of the MANIFEST removed an acknowledged ingest. Cause:
/// the edit looked like one that a power cut had torn, and the open removed tables that no edit
/// names. Guarantee: the open or a repair moves such a table to `lost`, so that the user can ingest
/// it again.
#[test]
fn damaged_last_edit_of_an_ingest() {
    for is_repaired in [false, true] {
        let fs = Arc::new(MemFs::new());
        let options = on(Arc::clone(&fs));
        let db = Db::open("db", &options).unwrap();
        db.put("a", "a").unwrap();
        table(&options, "1.ldb", "m n z");
        ingest(&db, &["1.ldb"]).unwrap();
        let fs = Arc::new(fs.crash_clone(&Crash::Kill));
        let options = on(Arc::clone(&fs));
        let names = options.env.fs.list(Path::new("db")).unwrap();
        let manifest = names.iter().find(|name| name.to_string_lossy().starts_with("MANIFEST")).unwrap();
        fs.corrupt(&Path::new("db").join(manifest), |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
        let ingested = table_files(&options);
        if is_repaired {
            repair("db", &options, &RepairOptions::default()).unwrap();
        }
        let db = Db::open("db", &options).unwrap();
        assert_eq!(keys(&db), "a");
        assert!(!table_files(&options).contains(&ingested[0]));
        ingest(&db, &[&format!("db/lost/{}", ingested[0])]).unwrap();
        assert_eq!((keys(&db).as_str(), ingested.len()), ("a m n z", 1));
    }
}
