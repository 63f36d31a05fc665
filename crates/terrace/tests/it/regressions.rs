//! What once was wrong with Terrace, and now is not. Each test opens with its story.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use terrace::{Comparator, Db, Env, Logger, Options, RepairOptions, WriteBatch, WriteOptions};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{AccessMode, Clock, DeterministicScheduler, FileSystem, ManualClock};
use terrace_format::block::BlockBuilder;
use terrace_format::crc;
use terrace_format::filename::FileName;
use terrace_format::key::{InternalKey, ValueType};
use terrace_format::log::RecordWriter;
use terrace_format::table::{BlockHandle, Footer};
use terrace_format::version_edit::{NewFile, VersionEdit};

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut env = Env::with_file_system(fs);
    env.scheduler = DeterministicScheduler::new(1);
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
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.open_random_access(path, AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
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
    let end = if fs.exists(path).unwrap() { fs.file_size(path).unwrap() } else { 0 };
    let mut file = fs.open_append(path).unwrap();
    for fragment in RecordWriter::resume_at(end).add_record(record, false) {
        file.append(&fragment.header).unwrap();
        file.append(fragment.payload).unwrap();
    }
    file.close().unwrap();
}

/// A record of several blocks ran out of space after its first. The writes that followed went to the next log and were
/// acknowledged, but the replay ended at the broken record and left that log out.
#[test]
fn writes_after_enospc_in_a_large_record() {
    let memory = Arc::new(MemFs::new());
    let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    let sync = WriteOptions { sync: true };
    db.put_with(b"before", b"", &sync).unwrap();
    fault.set_plan("write-at .log #2 once ENOSPC".parse().unwrap());
    assert!(db.put_with(b"large", &[1; 100_000], &sync).unwrap_err().is_retryable());
    db.put_with(b"after", b"", &sync).unwrap();
    for paranoid_checks in [false, true] {
        let killed = Arc::new(memory.crash_clone(&Crash::Kill));
        let db = Db::open("db", &Options { paranoid_checks, ..options(killed) }).unwrap();
        assert!(db.get(b"before").unwrap().is_some() && db.get(b"after").unwrap().is_some());
        assert!(db.get(b"large").unwrap().is_none());
    }
}

/// A user's empty batch looked like the mark of a log that was closed, so that a lost page was taken for rot and the
/// writes behind it came back without those in it.
#[test]
fn empty_batch_is_not_a_close_marker() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    db.write(&WriteBatch::new()).unwrap();
    let lost = Arc::new(fs.crash_clone(&Crash::Kill));
    lose(&lost, &Path::new("db").join(&names(&*lost, ".log")[0]), 8192, 4096);
    let db = Db::open("db", &options(lost)).unwrap();
    let (there, first) = found(&db);
    assert_eq!(there, first, "a hole");
    assert!(first < 100);
}

/// A log was gone on with, and the new manifest named its last number as what is in tables: then a page lost from that
/// log was no gap.
#[test]
fn reused_log_does_not_count_as_flushed() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..99).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    db.close().unwrap();
    // A manifest that does not end in good order is not gone on with.
    let manifest = Path::new("db").join(&names(&*fs, "MANIFEST")[0]);
    let mut file = fs.open_append(&manifest).unwrap();
    file.append(&[1, 2, 3]).unwrap();
    file.close().unwrap();
    let reuse = |fs: &Arc<MemFs>| Options { reuse_logs: true, ..options(Arc::clone(fs) as _) };
    let log = names(&*fs, ".log");
    let db = Db::open("db", &reuse(&fs)).unwrap();
    assert_eq!(names(&*fs, ".log"), log, "the log is gone on with");
    assert_ne!(Path::new("db").join(&names(&*fs, "MANIFEST")[0]), manifest, "the manifest is not");
    db.put(&key(99), &[1; 900]).unwrap();
    let lost = Arc::new(fs.crash_clone(&Crash::Kill));
    drop(db);
    lose(&lost, &Path::new("db").join(&log[0]), 0, 32 << 10);
    let db = Db::open("db", &reuse(&lost)).unwrap();
    let (there, first) = found(&db);
    assert_eq!(there, first, "a hole");
}

/// A process was killed between making the directory and syncing its parent. The next opener found the directory there
/// and did not sync either: a power cut took the database whole.
#[test]
fn database_directory_is_durable() {
    let fs = Arc::new(MemFs::new());
    fs.create_dir("db".as_ref()).unwrap();
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put_with(b"key", b"", &WriteOptions { sync: true }).unwrap();
    let after = fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(1));
    let db = Db::open("db", &options(Arc::new(after))).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
}

/// A comparator that panics when it is told to, in a thread of the database or in one of the user's.
#[derive(Default)]
struct PanickingComparator {
    panics_in_background: AtomicBool,
    panics_in_foreground: AtomicBool,
}

impl Comparator for PanickingComparator {
    fn name(&self) -> &str {
        "test.Fragile"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let background = std::thread::current().name().is_some_and(|name| name.starts_with("terrace-"));
        let fails = if background { &self.panics_in_background } else { &self.panics_in_foreground };
        assert!(!fails.load(Ordering::Relaxed), "planned");
        a.cmp(b)
    }
}

fn fragile() -> (Arc<PanickingComparator>, Options) {
    let fragile = Arc::new(PanickingComparator::default());
    let comparator = Arc::clone(&fragile) as Arc<dyn Comparator>;
    (fragile, Options { comparator, env: Env::in_memory(), create_if_missing: true, ..Options::default() })
}

/// A comparator that panicked in a flush left everybody waiting for that flush, closing included.
#[test]
fn panic_in_a_flush_is_a_background_error() {
    let (fragile, options) = fragile();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    fragile.panics_in_background.store(true, Ordering::Relaxed);
    assert!(db.flush().is_err());
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("writes are refused"));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(b"2".as_slice()), "reads go on");
    assert!(db.close().is_err());
}

/// Panics when it is told that work failed.
struct PanickingLogger;

impl Logger for PanickingLogger {
    fn log(&self, line: std::fmt::Arguments<'_>) {
        assert!(!line.to_string().starts_with("Background work failed"), "planned");
    }
}

/// A flush that failed had been counted as over when its logger panicked, and was counted once more.
#[test]
fn logger_panic_counts_a_failed_flush_once() {
    let plan = "create .ldb #1 forever ENOSPC".parse().unwrap();
    let fault = FaultFs::new(Arc::new(MemFs::new()), plan);
    let env = Env { fs: Arc::new(fault), ..Env::in_memory() };
    let logger = Some(Arc::new(PanickingLogger) as Arc<dyn Logger>);
    let db = Db::open("db", &Options { env, logger, create_if_missing: true, ..Options::default() }).unwrap();
    db.put(b"a", b"1").unwrap();
    assert!(db.flush().is_err());
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("writes are refused"));
    assert!(db.close().is_err());
}

/// A comparator that panicked in a put left the log one write ahead of the memtable: the next put took the same sequence
/// number, and was left out when the log was replayed.
#[test]
fn panic_in_a_put_refuses_later_writes() {
    let (fragile, options) = fragile();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    fragile.panics_in_foreground.store(true, Ordering::Relaxed);
    let put = std::panic::AssertUnwindSafe(|| db.put(b"b", b"2"));
    assert!(std::panic::catch_unwind(put).is_err());
    fragile.panics_in_foreground.store(false, Ordering::Relaxed);
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
fn failed_flushes_on_a_full_disk_leave_no_files() {
    for plan in
        ["sync .ldb #1 forever ENOSPC", "append .ldb #1 forever ENOSPC", "create-log * #1 forever ENOSPC"]
    {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
        (0..100).for_each(|n| db.put(&key(n), &[9; 100]).unwrap());
        fault.set_plan(plan.parse().unwrap());
        for _ in 0..5 {
            assert!(db.flush().unwrap_err().is_retryable());
        }
        let (tables, logs) = (names(&*memory, ".ldb").len(), names(&*memory, ".log").len());
        assert!(tables == 0 && logs <= 2, "{plan}: {tables} tables, {logs} logs");
        fault.set_plan(FaultPlan::default());
        db.flush().unwrap();
        assert_eq!(names(&*memory, ".ldb").len(), 1);
    }
}

/// A log that holds one write twice made a table out of order, and the database could not be opened any more.
#[test]
fn repeated_record_in_a_log() {
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
fn stray_file_with_an_impossible_number() {
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
fn file_sizes_in_the_manifest_do_not_overflow() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let key = |user: &str| InternalKey::new(user.as_bytes(), 1, ValueType::Value);
    let file = |number, smallest, largest| {
        (3, NewFile { number, size: u64::MAX, smallest: key(smallest), largest: key(largest) })
    };
    let edit =
        VersionEdit { new_files: vec![file(90, "p", "q"), file(91, "x", "y")], ..VersionEdit::default() };
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
fn process_killed_inside_a_large_record() {
    for call in 0..12 {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        db.put(b"before", b"").unwrap();
        fs.freeze_at(fs.mutation_count() + call);
        let _ = db.put(b"large", &[1; 100_000]);
        let after = Arc::new(fs.crash_clone(&Crash::Kill));
        let db = Db::open("db", &Options { paranoid_checks: true, ..options(after) }).unwrap();
        assert!(db.get(b"before").unwrap().is_some(), "call {call}");
    }
}

/// With CURRENT gone, `create_if_missing` made a new database and swept the tables of the old one.
#[test]
fn create_if_missing_keeps_files_without_current() {
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
fn disk_smaller_than_a_preallocated_log() {
    let memory = Arc::new(MemFs::new());
    let fault =
        Arc::new(FaultFs::new(Arc::clone(&memory) as _, "create-log * #1 once ENOSPC".parse().unwrap()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    let log = Path::new("db").join(&names(&*memory, ".log")[0]);
    assert!(memory.file_size(&log).unwrap() < 1 << 20);
    (0..100).for_each(|n| db.put(&key(n), &[1; 3000]).unwrap());
    db.close().unwrap();
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    assert_eq!(found(&db), (100, 100));
    drop(db);
    for plan in ["create-log * #1 forever ENOSPC", "create MANIFEST #1 forever ENOSPC"] {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, plan.parse().unwrap()));
        assert!(Db::open("db", &options(Arc::clone(&fault) as _)).unwrap_err().is_retryable());
        assert!(names(&*memory, ".log").is_empty(), "{plan}");
        fault.set_plan(FaultPlan::default());
        Db::open("db", &options(fault)).unwrap();
    }
}

/// A put and its delete in one memtable stayed for ever: the flush went below the levels that a merge was asked for.
#[test]
fn compact_range_drops_put_and_delete_of_one_memtable() {
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
fn verify_agrees_with_open() {
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
    let mut file = fs.open_append(&Path::new("db").join(&names(&*fs, "MANIFEST")[0])).unwrap();
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

/// A sync of the log failed, and the system took the pages for written. The process was started again with `reuse_logs`,
/// went on with that log, synced a write into it, and the power failed: the writes before it, which no sync would ever
/// write, were gone, and replay ended at the hole that they left. Only a log that was closed is gone on with.
#[test]
fn log_with_a_failed_sync_is_not_reused() {
    for cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
        let fs = Arc::new(MemFs::new());
        let reuse = Options { reuse_logs: true, ..options(Arc::clone(&fs) as _) };
        let sync = WriteOptions { sync: true };
        let db = Db::open("db", &reuse).unwrap();
        db.put_with(&key(0), b"", &sync).unwrap();
        db.put(&key(1), b"").unwrap();
        fs.inject_sync_failure(0, cache);
        db.put_with(&key(2), b"", &sync).unwrap_err();
        assert!(db.close().is_err());
        let db = Db::open("db", &reuse).unwrap();
        let (there, first) = found(&db);
        assert_eq!(there, first);
        db.put_with(&key(there as u32), b"", &sync).unwrap();
        let lost = Arc::new(fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0)));
        drop(db);
        let db = Db::open("db", &options(lost)).unwrap();
        assert_eq!(found(&db), (there + 1, there + 1), "{cache:?}");
    }
}

/// A run with `reuse_logs` went on with a closed log, wrote nothing, and a sync failed that took the mark of the closed
/// log for written. The log still looked closed: the next run went on behind the mark, synced a write, and the power
/// failed. No sync had ever written the mark, and what stood behind it was lost. It is stored over now. (Such a run no longer
/// syncs, so that here somebody else does.)
#[test]
fn close_marker_with_a_failed_sync_is_not_trusted() {
    for cache in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
        let fs = Arc::new(MemFs::new());
        let reuse = Options { reuse_logs: true, ..options(Arc::clone(&fs) as _) };
        let sync = WriteOptions { sync: true };
        let db = Db::open("db", &reuse).unwrap();
        db.put_with(&key(0), b"", &sync).unwrap();
        db.close().unwrap();
        let log = names(&*fs, ".log");
        let db = Db::open("db", &reuse).unwrap();
        fs.inject_sync_failure(0, cache);
        fs.reopen_log(&Path::new("db").join(&log[0]), 0).unwrap().sync().unwrap_err();
        db.close().unwrap();
        for n in 1..4 {
            let db = Db::open("db", &reuse).unwrap();
            db.put_with(&key(n), b"", &sync).unwrap();
            let lost = Arc::new(fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0)));
            let db = Db::open("db", &options(lost)).unwrap();
            assert_eq!(found(&db), (n as usize + 1, n as usize + 1), "{cache:?}");
        }
    }
}

/// With `reuse_logs` a manifest that a crash left half made stayed for good: it has a greater number than the one that
/// counts, which was taken for a sign that it may be needed yet.
#[test]
fn unreferenced_manifest_is_removed() {
    let fs = Arc::new(MemFs::new());
    let reuse = Options { reuse_logs: true, ..options(Arc::clone(&fs) as _) };
    let db = Db::open("db", &reuse).unwrap();
    db.put(&key(0), b"").unwrap();
    db.close().unwrap();
    let manifest = names(&*fs, "MANIFEST");
    write(&fs, "db/MANIFEST-000050".as_ref(), b"half");
    Db::open("db", &reuse).unwrap().close().unwrap();
    assert_eq!(names(&*fs, "MANIFEST"), manifest);
}

/// One bit flipped in a length made a record seem to break off where a process was killed, and took along all that stood
/// behind it, without a word even with `paranoid_checks`. But this log was closed.
#[test]
fn flipped_length_bit_in_a_closed_log() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    (0..10).for_each(|n| db.put(&key(n), b"value").unwrap());
    db.close().unwrap();
    let log = Path::new("db").join(&names(&*fs, ".log")[0]);
    fs.corrupt(&log, |bytes| bytes[5] ^= 0x40).unwrap();
    let paranoid = Options { paranoid_checks: true, ..options(fs) };
    let error = Db::open("db", &paranoid).unwrap_err();
    let expected =
        "000002.log at 0: a record that breaks off in a log that was closed, expected whole records";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// A sync failed for want of space. The error said that nothing was unclear and that the same write may succeed later;
/// but readers saw the write, and every later one was refused.
#[test]
fn enospc_in_a_sync_is_not_retryable() {
    let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&faults) as _)).unwrap();
    faults.set_plan("sync .log #1 once ENOSPC".parse().unwrap());
    let error = db.put_with(&key(0), b"", &WriteOptions { sync: true }).unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert!(db.put(&key(1), b"").is_err());
}

/// A flipped bit in one record of a log cost a repair every record behind it in the same 32 KiB, which LevelDB's keeps:
/// it looks at no checksum there. Now it costs that record alone, and two in a
/// row cost two.
#[test]
fn repair_loses_only_the_damaged_log_record() {
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

/// A file called by the greatest number that a database may have, put there by anybody, and the database opened once more
/// and never again: its next file had a number that no manifest may say.
#[test]
fn stray_file_with_the_maximum_number() {
    let stray = format!("db/{}.dbtmp", u64::MAX / 2);
    let fs = Arc::new(MemFs::new());
    let open = || Db::open("db", &options(Arc::clone(&fs) as _));
    open().unwrap().put(b"key", b"value").unwrap();
    for _ in 0..3 {
        write(&fs, stray.as_ref(), b"");
        assert_eq!(open().unwrap().get(b"key").unwrap().unwrap(), b"value");
    }
    write(&fs, stray.as_ref(), b"");
    fs.remove("db/CURRENT".as_ref()).unwrap();
    let how = terrace::RepairOptions::default();
    assert!(terrace::repair("db", &options(Arc::clone(&fs) as _), &how).unwrap().changed);
    assert_eq!(open().unwrap().get(b"key").unwrap().unwrap(), b"value");
}

/// The blocks of a table, each with the restart points it claims and the key that the index gives it.
type BlockSpecs<'a> = &'a [(&'a [(&'a str, u64)], &'a [u32], (&'a str, u64))];

/// What `verify` says of a database with one table, made of `blocks` by nobody's rules.
fn verify_table(blocks: BlockSpecs<'_>) -> String {
    let mut table = Vec::new();
    let mut store = |block: &[u8]| {
        let handle = BlockHandle { offset: table.len() as u64, size: block.len() as u64 };
        table.extend_from_slice(block);
        table.push(0);
        table.extend_from_slice(&crc::mask(crc::extend(crc::value(block), &[0])).to_le_bytes());
        handle
    };
    let internal =
        |(key, sequence): (&str, u64)| InternalKey::new(key.as_bytes(), sequence, ValueType::Value);
    let mut index = BlockBuilder::new(1);
    for (entries, restarts, separator) in blocks {
        let mut block = BlockBuilder::new(16);
        entries.iter().for_each(|entry| block.add(internal(*entry).as_bytes(), b"v"));
        let mut block = block.finish().to_vec();
        block.truncate(block.len() - 8);
        block.extend(restarts.iter().chain(&[restarts.len() as u32]).flat_map(|n| n.to_le_bytes()));
        let mut handle = Vec::new();
        store(&block).encode(&mut handle);
        index.add(internal(*separator).as_bytes(), &handle);
    }
    let metaindex = store(BlockBuilder::new(16).finish());
    let index = store(index.finish());
    table.extend_from_slice(&Footer { metaindex, index }.encode());
    let edit = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(0),
        next_file_number: Some(10),
        last_sequence: Some(9),
        new_files: vec![(
            2,
            NewFile {
                number: 9,
                size: table.len() as u64,
                smallest: internal(("a", 9)),
                largest: internal(("z", 0)),
            },
        )],
        ..VersionEdit::default()
    };
    let (fs, mut record) = (Arc::new(MemFs::new()), Vec::new());
    edit.encode(&mut record);
    fs.create_dir("db".as_ref()).unwrap();
    append_record(&fs, "db/MANIFEST-000002".as_ref(), &record);
    write(&fs, "db/CURRENT".as_ref(), b"MANIFEST-000002\n");
    write(&fs, "db/000009.ldb".as_ref(), &table);
    let report = terrace::verify("db", &options(fs), &mut |_, _| ()).unwrap();
    report.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
}

/// `verify` found nothing wrong with tables of which a scan shows keys that no look-up finds: it walked over every entry,
/// and did not ask whether a search gets there.
#[test]
fn verify_reports_keys_that_gets_cannot_reach() {
    #[track_caller]
    fn check(blocks: BlockSpecs<'_>, expect: &str) {
        assert_eq!(verify_table(blocks), expect);
    }
    check(&[(&[("a", 1), ("b", 2)], &[0], ("b", 2)), (&[("c", 3)], &[0], ("d", 3))], "");
    check(&[(&[("a", 2)], &[0], ("a", 2)), (&[("a", 1)], &[0], ("a", 1))], "");
    check(
        &[(&[("a", 1)], &[0], ("g", 1)), (&[("c", 3)], &[0], ("m", 3))],
        "the key 'c' of write 3 behind a block that the index says ends by the key 'g' of write 1",
    );
    check(
        &[(&[("a", 1)], &[0], ("c", 9)), (&[("c", 3)], &[0], ("m", 3))],
        "the key 'c' of write 3 behind a block that the index says ends by the key 'c' of write 9",
    );
    check(
        &[(&[("a", 1), ("b", 2)], &[0, 4], ("b", 2))],
        "restart point 1 at 4, expected the offset of an entry with a complete key",
    );
    check(&[(&[("a", 1)], &[], ("b", 2))], "13 bytes of entries without a restart point, expected one");
}

/// A comparator, a logger or a file system was still held for a moment by the thread of a job that had said it was done,
/// after `close` had returned. An opener that took it apart then, as C and C++ programs do, was used after that.
#[test]
fn closed_database_releases_its_options() {
    for _ in 0..200 {
        let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
        let options = Options {
            create_if_missing: true,
            env: Env::with_file_system(Arc::clone(&fs)),
            ..Options::default()
        };
        let db = Db::open("db", &options).unwrap();
        db.put(&key(1), b"").unwrap();
        db.flush().unwrap();
        drop(options);
        drop(db);
        assert_eq!(Arc::strong_count(&fs), 1);
    }
}

/// A write whose sync failed was reported as failed, and could be read all the same: the sync came after it was shown.
#[test]
fn write_with_a_failed_sync_is_not_visible() {
    let memory = Arc::new(MemFs::new());
    let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    db.put(b"a", b"old").unwrap();
    db.put(b"b", b"old").unwrap();
    fault.set_plan("sync .log #1 once EIO".parse().unwrap());
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"new");
    batch.delete(b"b");
    batch.put(b"c", b"new");
    assert!(db.write_with(&batch, &WriteOptions { sync: true }).is_err());
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(db.get(b"c").unwrap(), None);
    assert_eq!(db.iter().into_forward().count(), 2);
    assert!(db.put(b"d", b"").is_err(), "what is on the medium is unknown");
}

/// Logs that somebody put beside a database that was closed, with numbers of their own as LevelDB's tests and tools make
/// them, were left out: the jump from the closed log to them was taken for lost writes.
#[test]
fn logs_added_after_a_closed_log_are_replayed() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(&key(0), b"").unwrap();
    db.close().unwrap();
    let closed = FileName::parse(&names(&*fs, ".log")[0]).and_then(|name| name.number()).unwrap();
    for (more, first) in [(1, 1000), (2, 1001)] {
        let mut batch = WriteBatch::new();
        batch.put(&key(more as u32), b"");
        batch.set_sequence(first);
        let path = Path::new("db").join(FileName::Log(closed + more).to_string());
        append_record(&fs, &path, batch.as_bytes());
    }
    let db = Db::open("db", &options(fs)).unwrap();
    assert_eq!(found(&db), (3, 3));
}

/// A closed log that is gone on with has the mark of a closed one inside. Were what follows it lost, while the next log is
/// not, the log would count as closed and the next one as put there: a hole. So the first is synced before the second
/// begins.
#[test]
fn reused_log_is_synced_before_the_next_log() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(&key(0), b"").unwrap();
    db.close().unwrap();
    let small =
        Options { reuse_logs: true, write_buffer_size: Some(64 << 10), ..options(Arc::clone(&fs) as _) };
    let log = names(&*fs, ".log");
    let db = Db::open("db", &small).unwrap();
    assert_eq!(names(&*fs, ".log"), log, "the log is gone on with");
    // The flush of the first memtable waits for somebody to run it.
    (1..100).for_each(|n| db.put(&key(n), &[1; 900]).unwrap());
    assert_eq!(names(&*fs, ".log").len(), 2);
    for seed in 0..100 {
        for profile in POWER_LOSS_PROFILES {
            let db =
                Db::open("db", &options(Arc::new(fs.crash_clone(&profile.crash_with_seed(seed))))).unwrap();
            let (there, first) = found(&db);
            assert_eq!(there, first, "a hole after {profile:?}, seed {seed}");
        }
    }
}

/// A merge of a range put what was in memory on level 0, where nothing else was, though the range had none of it: it lay
/// above tables that a flush would have put it beside.
#[test]
fn compact_range_of_other_keys_flushes_to_the_usual_level() {
    let db = Db::open("db", &options(Arc::new(MemFs::new()))).unwrap();
    db.put(b"m", b"").unwrap();
    db.compact_range(Some(b"x"), Some(b"z")).unwrap();
    assert_eq!(db.property("leveldb.num-files-at-level2").as_deref(), Some("1"));
}

/// A merge that was waited for was said to be done before the files that it made needless were removed.
#[test]
fn compact_range_returns_after_its_inputs_are_removed() {
    let fs = Arc::new(MemFs::new());
    let env = Env::with_file_system(Arc::clone(&fs) as _);
    let db = Db::open("db", &Options { create_if_missing: true, env, ..Options::default() }).unwrap();
    for round in 0..100 {
        db.put(b"a", b"").unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(names(&*fs, ".ldb").len(), 1, "round {round}");
    }
}

fn row(n: usize) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Tables of a mebibyte with this many values, five in each, and deletes of all of them above.
fn all_deleted(options: &mut Options, values: usize) -> Db {
    options.write_buffer_size = Some(64 << 10);
    options.compression = &terrace::compress::NO_COMPRESSION;
    options.max_file_size = Some(1 << 20);
    let db = Db::open("db", options).unwrap();
    let value = vec![1; 200 << 10];
    (0..values).for_each(|n| db.put(&row(n), &value).unwrap());
    db.compact_range(None, None).unwrap();
    (0..values).for_each(|n| db.delete(&row(n)).unwrap());
    db.flush().unwrap();
    db
}

/// Scans looked at the same entries each time to tell which files are read too often, and a file that wore out while
/// another waited for its merge was forgotten: deletes stayed above what they hide, however often both were read.
#[test]
fn scans_compact_every_table_of_tombstones() {
    const FILES: usize = 20;
    let mut options = options(Arc::new(MemFs::new()));
    // Stands, so that merges take no time, after which the next would have to rest.
    options.env.clock = Arc::new(ManualClock::new(0));
    let db = all_deleted(&mut options, 5 * FILES);
    let size = |db: &Db| db.approximate_sizes(&[(b"0", b"9")]).unwrap()[0];
    let before = size(&db);
    for _ in 0..1000 {
        assert_eq!(db.iter().into_forward().count(), 0);
        // What the reads asked for.
        while options.env.scheduler.run_one_here() {}
        if size(&db) < before / 10 {
            return;
        }
    }
    panic!("{} of {before} bytes are left", size(&db));
}

/// While a merge that reads had asked for had to rest, each table that a scan came to was forgotten for 64 more of its looks,
/// which fall anywhere. So tables far behind what scans wanted could be merged before those that they wanted.
#[test]
fn read_compactions_follow_scan_order() {
    const FILES: usize = 60;
    /// Goes on while merges run, so that they take time, and stands while scans do.
    #[derive(Debug, Default)]
    struct StoppableClock(ManualClock, AtomicBool);
    impl Clock for StoppableClock {
        fn monotonic(&self) -> Duration {
            let step = if self.1.load(Ordering::Relaxed) { 1 } else { 0 };
            self.0.advance(Duration::from_millis(step));
            self.0.monotonic()
        }
        fn wall_us(&self) -> u64 {
            self.0.wall_us()
        }
        fn sleep(&self, pause: Duration) {
            self.0.advance(pause);
        }
    }

    let watch = Arc::new(StoppableClock::default());
    let mut options = options(Arc::new(MemFs::new()));
    options.env.clock = Arc::clone(&watch) as _;
    let db = all_deleted(&mut options, 5 * FILES);
    let size = |from: usize, to: usize| db.approximate_sizes(&[(&row(from)[..], &row(to)[..])]).unwrap()[0];
    let whole = size(0, 5 * FILES);
    for scan in 0..100 {
        assert_eq!(db.iter().into_forward().count(), 0);
        watch.1.store(true, Ordering::Relaxed);
        while options.env.scheduler.run_one_here() {}
        watch.1.store(false, Ordering::Relaxed);
        // First the deletes are cut as what is below them is. Before the rest behind that is over, all of them are worn.
        if scan > 40 {
            watch.0.advance(Duration::from_secs(10));
        }
        let (front, rear) = (size(0, 5 * FILES / 2), size(5 * FILES / 2, 5 * FILES));
        if front < whole / 20 {
            assert!(scan > 40 && rear > whole / 3, "{rear} of {whole} bytes are left after {scan} scans");
            return;
        }
    }
    panic!("{} of {whole} bytes are left", size(0, 5 * FILES));
}

/// A device put a small table in the place of another. Its checksums were right, and so reads said that keys were not there
/// which had been written.
#[test]
fn swapped_table_file_is_detected() {
    struct ChannelLogger(Sender<String>);
    impl Logger for ChannelLogger {
        fn log(&self, line: std::fmt::Arguments<'_>) {
            let _ = self.0.send(line.to_string());
        }
    }

    // The keys of both tables, the first of which then stands in the place of the second.
    let swapped = |first: &[&[u8]], second: &[&[u8]], paranoid_checks| {
        let fs = Arc::new(MemFs::new());
        let (sender, lines) = channel();
        let logger = Some(Arc::new(ChannelLogger(sender)) as Arc<dyn Logger>);
        let options = Options { paranoid_checks, logger, ..options(Arc::clone(&fs) as _) };
        let db = Db::open("db", &options).unwrap();
        for keys in [first, second] {
            keys.iter().for_each(|key| db.put(key, b"v").unwrap());
            db.flush().unwrap();
        }
        drop(db);
        let mut tables: Vec<_> = names(&*fs, ".ldb").iter().map(|name| Path::new("db").join(name)).collect();
        tables.sort();
        let [from, to] = &tables[..] else { panic!("{tables:?}") };
        write(&fs, to, &read(&fs, from));
        let db = Db::open("db", &options).unwrap();
        let found = db.get(second[1]).map_err(|error| error.to_string());
        let told = lines.try_iter().any(|line| line.contains("as the manifest says"));
        (found, told)
    };

    for paranoid in [false, true] {
        let (found, _) = swapped(&[b"a", b"b"], &[b"c", b"d"], paranoid);
        let error = found.unwrap_err();
        assert!(error.contains("keys from 'a"), "{error}");
    }
    // Within the bounds of the other.
    let (found, told) = swapped(&[b"b", b"c"], &[b"a", b"d"], false);
    assert_eq!((found, told), (Ok(None), true));
    let (found, _) = swapped(&[b"b", b"c"], &[b"a", b"d"], true);
    assert!(found.is_err());
}
