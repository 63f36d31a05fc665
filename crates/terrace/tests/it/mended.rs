//! What once was wrong with Terrace, and now is not. Each test opens with its story.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Comparator, Db, Env, Options, RepairOptions, WriteBatch, WriteOptions};
use terrace_env::fault::{FaultFs, Plan};
use terrace_env::mem::{Crash, MemFs, PROFILES};
use terrace_env::{Access, Deterministic, FileSystem};
use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::key::{InternalKey, Kind};
use terrace_format::log::Framer;

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut env = Env::on(fs);
    env.scheduler = Deterministic::new(1);
    Options { create_if_missing: true, env, ..Options::default() }
}

fn names(fs: &dyn FileSystem, ending: &str) -> Vec<String> {
    let names = fs.list("db".as_ref()).unwrap();
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.contains(ending)).collect()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Of the keys 0, 1, 2, ... up to 100: how many are there, and how many before the first that is not.
fn found(db: &Db) -> (usize, usize) {
    let there: Vec<bool> = (0..100).map(|n| db.get(&key(n)).unwrap().is_some()).collect();
    (there.iter().filter(|there| **there).count(), there.iter().take_while(|there| **there).count())
}

fn read(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.len(path).unwrap() as usize];
    fs.open_random(path, Access::Read).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(fs: &MemFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

/// Overwrites part of a file with zeros, as if the device had never had it.
fn lose(fs: &MemFs, path: &Path, at: usize, len: usize) {
    let mut bytes = read(fs, path);
    bytes[at..at + len].fill(0);
    write(fs, path, &bytes);
}

fn append_record(fs: &MemFs, path: &Path, record: &[u8]) {
    let end = if fs.exists(path).unwrap() { fs.len(path).unwrap() } else { 0 };
    let mut file = fs.append(path).unwrap();
    for fragment in Framer::at(end).frame(record, false) {
        file.append(&fragment.header).unwrap();
        file.append(fragment.payload).unwrap();
    }
    file.close().unwrap();
}

/// A record of several blocks ran out of space after its first. The writes that followed went to the next log and were
/// acknowledged, but the replay ended at the broken record and left that log out.
#[test]
fn writes_after_a_large_record_that_found_no_space() {
    let memory = Arc::new(MemFs::new());
    let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, Plan::default()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    let sync = WriteOptions { sync: true };
    db.put_with(b"before", b"", &sync).unwrap();
    fault.set_plan("store .log #2 once ENOSPC".parse().unwrap());
    assert!(db.put_with(b"large", &[1; 100_000], &sync).unwrap_err().is_resumable());
    db.put_with(b"after", b"", &sync).unwrap();
    for paranoid_checks in [false, true] {
        let killed = Arc::new(memory.crash(&Crash::Kill));
        let db = Db::open("db", &Options { paranoid_checks, ..options(killed) }).unwrap();
        assert!(db.get(b"before").unwrap().is_some() && db.get(b"after").unwrap().is_some());
        assert!(db.get(b"large").unwrap().is_none());
    }
}

/// A user's empty batch looked like the mark of a log that was closed, so that a lost page was taken for rot and the
/// writes behind it came back without those in it.
#[test]
fn an_empty_batch_does_not_close_the_log() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    db.write(&WriteBatch::new()).unwrap();
    let lost = Arc::new(fs.crash(&Crash::Kill));
    lose(&lost, &Path::new("db").join(&names(&*lost, ".log")[0]), 8192, 4096);
    let db = Db::open("db", &options(lost)).unwrap();
    let (there, first) = found(&db);
    assert_eq!(there, first, "a hole");
    assert!(first < 100);
}

/// A log was gone on with, and the new manifest named its last number as what is in tables: then a page lost from that
/// log was no gap.
#[test]
fn a_log_gone_on_with_is_not_in_tables() {
    /// What a kill leaves of a log that can't be preallocated, as in an env of one's own.
    fn killed(fs: &MemFs) -> Arc<MemFs> {
        let after = Arc::new(fs.crash(&Crash::Kill));
        let path = Path::new("db").join(&names(&*after, ".log")[0]);
        let mut bytes = read(&after, &path);
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1);
        write(&after, &path, &bytes);
        after
    }
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    let fs = killed(&fs);
    // A manifest that does not end in good order is not gone on with.
    let manifest = Path::new("db").join(&names(&*fs, "MANIFEST")[0]);
    let mut file = fs.append(&manifest).unwrap();
    file.append(&[1, 2, 3]).unwrap();
    file.close().unwrap();
    let reuse = |fs: &Arc<MemFs>| Options { reuse_logs: true, ..options(Arc::clone(fs) as _) };
    let log = names(&*fs, ".log");
    let db = Db::open("db", &reuse(&fs)).unwrap();
    assert_eq!(names(&*fs, ".log"), log, "the log is gone on with");
    assert_ne!(Path::new("db").join(&names(&*fs, "MANIFEST")[0]), manifest, "the manifest is not");
    let lost = Arc::new(fs.crash(&Crash::Kill));
    drop(db);
    lose(&lost, &Path::new("db").join(&log[0]), 0, 32 << 10);
    let db = Db::open("db", &reuse(&lost)).unwrap();
    let (there, first) = found(&db);
    assert_eq!(there, first, "a hole");
}

/// A process was killed between making the directory and syncing its parent. The next opener found the directory there
/// and did not sync either: a power cut took the database whole.
#[test]
fn the_directory_itself_is_durable() {
    let fs = Arc::new(MemFs::new());
    fs.create_dir("db".as_ref()).unwrap();
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put_with(b"key", b"", &WriteOptions { sync: true }).unwrap();
    let after = fs.crash(&PROFILES[0].with_seed(1));
    let db = Db::open("db", &options(Arc::new(after))).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
}

/// A comparator that panics when it is told to, in a thread of the database or in one of the user's.
#[derive(Default)]
struct Fragile {
    in_background: AtomicBool,
    in_foreground: AtomicBool,
}

impl Comparator for Fragile {
    fn name(&self) -> &str {
        "test.Fragile"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let background = std::thread::current().name().is_some_and(|name| name.starts_with("terrace-"));
        let fails = if background { &self.in_background } else { &self.in_foreground };
        assert!(!fails.load(Ordering::Relaxed), "planned");
        a.cmp(b)
    }
}

fn fragile() -> (Arc<Fragile>, Options) {
    let fragile = Arc::new(Fragile::default());
    let comparator = Arc::clone(&fragile) as Arc<dyn Comparator>;
    (fragile, Options { comparator, env: Env::memory(), create_if_missing: true, ..Options::default() })
}

/// A comparator that panicked in a flush left everybody waiting for that flush, closing included.
#[test]
fn a_panic_in_the_background_is_a_failure() {
    let (fragile, options) = fragile();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    fragile.in_background.store(true, Ordering::Relaxed);
    assert!(db.flush().is_err());
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("writes are refused"));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(b"2".as_slice()), "reads go on");
    assert!(db.close().is_err());
}

/// A comparator that panicked in a put left the log one write ahead of the memtable: the next put took the same sequence
/// number, and was left out when the log was replayed.
#[test]
fn a_panic_in_a_put_is_final() {
    let (fragile, options) = fragile();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    fragile.in_foreground.store(true, Ordering::Relaxed);
    let put = std::panic::AssertUnwindSafe(|| db.put(b"b", b"2"));
    assert!(std::panic::catch_unwind(put).is_err());
    fragile.in_foreground.store(false, Ordering::Relaxed);
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("writes are refused"));
    drop(db);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    db.put(b"c", b"3").unwrap();
    drop(db);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.get(b"c").unwrap().as_deref(), Some(b"3".as_slice()));
}

/// Each try of a flush on a full disk left its table behind, and so filled the disk further.
#[test]
fn tries_on_a_full_disk_leave_nothing() {
    for plan in
        ["sync .ldb #1 forever ENOSPC", "append .ldb #1 forever ENOSPC", "create-log * #1 forever ENOSPC"]
    {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, Plan::default()));
        let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
        (0..100).for_each(|n| db.put(&key(n), &[9; 100]).unwrap());
        fault.set_plan(plan.parse().unwrap());
        for _ in 0..5 {
            assert!(db.flush().unwrap_err().is_resumable());
        }
        let (tables, logs) = (names(&*memory, ".ldb").len(), names(&*memory, ".log").len());
        assert!(tables == 0 && logs <= 2, "{plan}: {tables} tables, {logs} logs");
        fault.set_plan(Plan::default());
        db.flush().unwrap();
        assert_eq!(names(&*memory, ".ldb").len(), 1);
    }
}

/// A log that holds one write twice made a table out of order, and the database could not be opened any more.
#[test]
fn one_write_twice_in_a_log() {
    for closed in [false, true] {
        let fs = Arc::new(MemFs::new());
        Db::open("db", &options(Arc::clone(&fs) as _)).unwrap().close().unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value");
        batch.set_sequence(1);
        let log = Path::new("db/000050.log");
        append_record(&fs, log, batch.as_bytes());
        append_record(&fs, log, batch.as_bytes());
        if closed {
            let mut mark = WriteBatch::new();
            mark.set_sequence(2);
            append_record(&fs, log, mark.as_bytes());
        }
        let db = Db::open("db", &options(fs)).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    }
}

/// A stray file with a number near the end of all numbers was counted on from, until the manifest could not be read.
#[test]
fn a_file_with_a_number_that_no_database_reaches() {
    let fs = Arc::new(MemFs::new());
    Db::open("db", &options(Arc::clone(&fs) as _)).unwrap().close().unwrap();
    for number in [u64::MAX / 2 + 1, u64::MAX] {
        fs.create(format!("db/{number}.dbtmp").as_ref()).unwrap().close().unwrap();
        fs.create(format!("db/{number}.log").as_ref()).unwrap().close().unwrap();
    }
    for _ in 0..3 {
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
}

/// Sizes that a manifest claims, added up, went over.
#[test]
fn sizes_beyond_all_bounds() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let key = |user: &str| InternalKey::new(user.as_bytes(), 1, Kind::Put);
    let file = |number, smallest, largest| {
        (3, NewFile { number, size: u64::MAX, smallest: key(smallest), largest: key(largest) })
    };
    let edit = VersionEdit { added: vec![file(90, "p", "q"), file(91, "x", "y")], ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    append_record(&fs, &Path::new("db").join(&names(&*fs, "MANIFEST")[0]), &record);
    for number in [90, 91] {
        fs.create(format!("db/0000{number}.ldb").as_ref()).unwrap().close().unwrap();
    }
    let db = Db::open("db", &options(fs)).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    assert!(db.get(b"x").is_err());
    assert!(db.approximate_sizes(&[(b"a", b"pp")]).is_err());
    assert!(db.property("leveldb.stats").is_some());
}

/// A process that was killed inside a record of several blocks left zeros behind the first, which `paranoid_checks`
/// took for damage.
#[test]
fn killed_inside_a_large_record() {
    for call in 0..12 {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        db.put(b"before", b"").unwrap();
        fs.freeze_at(fs.mutations() + call);
        let _ = db.put(b"large", &[1; 100_000]);
        let after = Arc::new(fs.crash(&Crash::Kill));
        let db = Db::open("db", &Options { paranoid_checks: true, ..options(after) }).unwrap();
        assert!(db.get(b"before").unwrap().is_some(), "call {call}");
    }
}

/// With CURRENT gone, `create_if_missing` made a new database and swept the tables of the old one.
#[test]
fn no_database_is_made_over_the_files_of_another() {
    for flush in [false, true] {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        db.put(b"key", b"value").unwrap();
        if flush {
            db.flush().unwrap();
        }
        db.close().unwrap();
        fs.remove("db/CURRENT".as_ref()).unwrap();
        let before = names(&*fs, "");
        let error = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap_err();
        assert_eq!(error.kind(), terrace::ErrorKind::Corruption, "{error}");
        assert_eq!(names(&*fs, ""), before);
        terrace::repair("db", &options(Arc::clone(&fs) as _), &Default::default()).unwrap();
        let db = Db::open("db", &options(fs)).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    }
}

/// A disk with less space than a whole log takes could not hold even a small database, and a creation that failed left
/// its log in the way of the next.
#[test]
fn a_disk_smaller_than_a_log() {
    let memory = Arc::new(MemFs::new());
    let fault =
        Arc::new(FaultFs::new(Arc::clone(&memory) as _, "create-log * #1 once ENOSPC".parse().unwrap()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    let log = Path::new("db").join(&names(&*memory, ".log")[0]);
    assert!(memory.len(&log).unwrap() < 1 << 20);
    (0..100).for_each(|n| db.put(&key(n), &[1; 3000]).unwrap());
    db.close().unwrap();
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    assert_eq!(found(&db), (100, 100));
    drop(db);
    for plan in ["create-log * #1 forever ENOSPC", "create MANIFEST #1 forever ENOSPC"] {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, plan.parse().unwrap()));
        assert!(Db::open("db", &options(Arc::clone(&fault) as _)).unwrap_err().is_resumable());
        assert!(names(&*memory, ".log").is_empty(), "{plan}");
        fault.set_plan(Plan::default());
        Db::open("db", &options(fault)).unwrap();
    }
}

/// A put and its delete in one memtable stayed for ever: the flush went below the levels that a merge was asked for.
#[test]
fn what_was_put_and_deleted_at_once_is_merged_away() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    (0..100).for_each(|n| db.delete(&key(n)).unwrap());
    db.compact_range(None, None).unwrap();
    assert!(names(&*fs, ".ldb").is_empty(), "{}", db.property("leveldb.sstables").unwrap());
}

/// An edit that a power cut left half written was a problem to `verify` and none to `open`; a log that was gone, or ended
/// in the middle, was none to either.
#[test]
fn verify_sees_what_open_sees() {
    let healthy = || {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        (0..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
        db.close().unwrap();
        fs
    };
    let problems = |fs: &Arc<MemFs>| {
        let report = terrace::verify("db", &options(Arc::clone(fs) as _), &mut |_, _| ()).unwrap();
        report.problems.len()
    };
    let fs = healthy();
    assert_eq!(problems(&fs), 0);
    let mut file = fs.append(&Path::new("db").join(&names(&*fs, "MANIFEST")[0])).unwrap();
    file.append(&[0xff; 40]).unwrap();
    file.close().unwrap();
    assert_eq!(problems(&fs), 0, "an edit that never counted");
    assert!(Db::open("db", &options(fs)).is_ok());
    let fs = healthy();
    let log = Path::new("db").join(&names(&*fs, ".log")[0]);
    write(&fs, &log, &[0xab; 5000]);
    assert!(problems(&fs) > 0, "a log of noise");
    fs.remove(&log).unwrap();
    assert!(problems(&fs) > 0, "no log");
}

/// A flipped bit in one record of a log cost a repair every record behind it in the same 32 KiB, which LevelDB's keeps:
/// it looks at no checksum there. Now it costs that record alone, also if
/// the next one is damaged, too.
#[test]
fn a_damaged_record_costs_a_repair_no_other() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &[1; 100]).unwrap());
    db.close().unwrap();
    let log = Path::new("db").join(&names(&*fs, ".log")[0]);
    let mut bytes = read(&fs, &log);
    let record = bytes.len() / 100;
    bytes[10 * record + 40] ^= 1;
    bytes[11 * record + 40] ^= 1;
    write(&fs, &log, &bytes);
    let report = terrace::repair("db", &options(Arc::clone(&fs) as _), &RepairOptions::default()).unwrap();
    assert!(report.changed, "{report}");
    let db = Db::open("db", &options(fs)).unwrap();
    assert_eq!(found(&db), (98, 10), "{report}");
}
