//! Regression tests. Each comment gives the symptom, the cause, and the guarantee that the test
//! checks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::{
    CompactionStyle, Comparator, Db, Env, Logger, Options, RepairOptions, WriteBatch, WriteOptions,
};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::{Crash, FailedSyncEffect, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{AccessMode, Clock, DeterministicScheduler, FileSystem, ManualClock, MappedLogs};
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
    Options::default().create_if_missing(true).env(env)
}

fn names(fs: &dyn FileSystem, ending: &str) -> Vec<String> {
    let names = fs.list("db".as_ref()).unwrap();
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.contains(ending)).collect()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Returns how many of the keys 0 to 99 are stored, and how many of them precede the first missing
/// one.
fn count_keys(db: &Db) -> (usize, usize) {
    let stored: Vec<bool> = (0..100).map(|n| db.get(key(n)).unwrap().is_some()).collect();
    (stored.iter().filter(|&&stored| stored).count(), stored.iter().take_while(|&&stored| stored).count())
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

/// Overwrites part of a file with zeros, as if the disk had lost its pages.
fn zero_range(fs: &MemFs, path: &Path, offset: usize, len: usize) {
    let mut bytes = read(fs, path);
    bytes[offset..offset + len].fill(0);
    write(fs, path, &bytes);
}

fn append_record(fs: &MemFs, path: &Path, record: &[u8]) {
    let end = if fs.exists(path).unwrap() { fs.file_size(path).unwrap() } else { 0 };
    let mut file = fs.open_append(path).unwrap();
    for fragment in RecordWriter::resume_at(end).add_record(record) {
        file.append(&fragment.header).unwrap();
        file.append(fragment.payload).unwrap();
    }
    file.close().unwrap();
}

/// Symptom: after a failed write of a large record, acknowledged writes were lost at the next open.
/// Cause: the record ran out of disk space after its first block. Later writes went to the next
/// log, but replay stopped at the incomplete record and skipped that log. Guarantee: replay
/// continues with the next log.
#[test]
fn writes_after_enospc_in_a_large_record() {
    // One write for each of two blocks, and one write for all blocks.
    for (size, plan) in [(50_000, "write-at .log #2 once ENOSPC"), (100_000, "write-at .log #1 once ENOSPC")]
    {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
        let sync = WriteOptions::default().sync(true);
        db.put_with(b"before", b"", &sync).unwrap();
        fault.set_plan(plan.parse().unwrap());
        assert!(db.put_with(b"large", vec![1; size], &sync).unwrap_err().is_retryable());
        db.put_with(b"after", b"", &sync).unwrap();
        for paranoid_checks in [false, true] {
            let killed = Arc::new(memory.crash_clone(&Crash::Kill));
            let db = Db::open("db", &options(killed).paranoid_checks(paranoid_checks)).unwrap();
            assert!(db.get(b"before").unwrap().is_some() && db.get(b"after").unwrap().is_some());
            assert!(db.get(b"large").unwrap().is_none());
        }
    }
}

/// Symptom: after a power cut, replay recovered writes from after a lost page. Cause: an empty
/// batch of the user was taken for the close marker, so the lost page was taken for bit rot.
/// Guarantee: only writes before a lost page are recovered.
#[test]
fn empty_batch_is_not_a_close_marker() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    for n in 0..100 {
        db.put(key(n), [1; 900]).unwrap();
    }
    db.write(&WriteBatch::new()).unwrap();
    let after_crash = Arc::new(fs.crash_clone(&Crash::Kill));
    zero_range(&after_crash, &Path::new("db").join(&names(&*after_crash, ".log")[0]), 8192, 4096);
    let db = Db::open("db", &options(after_crash)).unwrap();
    let (stored, prefix) = count_keys(&db);
    assert_eq!(stored, prefix, "a gap in the recovered keys");
    assert!(prefix < 100);
}

/// Symptom: after a power cut during a write of a large record, replay recovered writes from after
/// a lost page. Cause: the file ended within the record and not with a block, so replay took the
/// log for that of another program, whose sequence numbers may have gaps. Guarantee: only writes
/// before a lost page are recovered.
#[test]
fn log_that_ends_within_a_large_record() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    for n in 0..99 {
        db.put(key(n), [1; 900]).unwrap();
    }
    drop(fs.take_crash_points());
    db.put(key(99), vec![1; 100_000]).unwrap();
    let points = fs.take_crash_points();
    assert!(points.len() > 4, "{} changes of files", points.len());
    for (n, point) in points.iter().enumerate() {
        let after_crash = Arc::new(point.crash_clone(&Crash::Kill));
        zero_range(&after_crash, &Path::new("db").join(&names(&*after_crash, ".log")[0]), 8192, 4096);
        let db = Db::open("db", &options(after_crash)).unwrap();
        let (stored, prefix) = count_keys(&db);
        assert_eq!(stored, prefix, "change {n}: a gap in the recovered keys");
    }
}

/// Symptom: replay did not detect a page lost from a reused log. Cause: the new manifest stored the
/// last sequence number of the reused log as if its writes were in tables. Guarantee: a reused log
/// does not count as flushed.
#[test]
fn reused_log_does_not_count_as_flushed() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(b"k", b"").unwrap();
    db.flush().unwrap();
    for n in 0..99 {
        db.put(key(n), [1; 900]).unwrap();
    }
    db.close().unwrap();
    // A MANIFEST above the size limit is not reused.
    let manifest = Path::new("db").join(&names(&*fs, "MANIFEST")[0]);
    let log = names(&*fs, ".log");
    let closed = format!("terrace closed {} at {}", log[0], read(&fs, &Path::new("db").join(&log[0])).len());
    let pointer = |key: &[u8]| InternalKey::new(key, 0, ValueType::Value);
    let compact_pointers =
        vec![(0, pointer(&[b'k'; 40_000])), (0, pointer(b"k")), (6, pointer(closed.as_bytes()))];
    let mut large_edit = Vec::new();
    VersionEdit { compact_pointers, ..VersionEdit::default() }.encode(&mut large_edit);
    append_record(&fs, &manifest, &large_edit);
    let reuse = |fs: &Arc<MemFs>| options(Arc::clone(fs) as _).reuse_logs(true);
    let db = Db::open("db", &reuse(&fs)).unwrap();
    assert_eq!(names(&*fs, ".log"), log, "the log is reused");
    assert_ne!(Path::new("db").join(&names(&*fs, "MANIFEST")[0]), manifest, "the manifest is not reused");
    db.put(key(99), [1; 900]).unwrap();
    let after_crash = Arc::new(fs.crash_clone(&Crash::Kill));
    drop(db);
    zero_range(&after_crash, &Path::new("db").join(&log[0]), 0, 32 << 10);
    let db = Db::open("db", &reuse(&after_crash)).unwrap();
    let (stored, prefix) = count_keys(&db);
    assert_eq!(stored, prefix, "a gap in the recovered keys");
}

/// Symptom: a power cut removed a whole database. Cause: a process was killed after creating the
/// directory and before syncing its parent. The next process found the directory and did not sync
/// the parent either. Guarantee: an open syncs the parent before its first write is durable.
#[test]
fn database_directory_is_durable() {
    let fs = Arc::new(MemFs::new());
    fs.create_dir("db".as_ref()).unwrap();
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put_with(b"key", b"", &WriteOptions::default().sync(true)).unwrap();
    let after = fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(1));
    let db = Db::open("db", &options(Arc::new(after))).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
}

/// Comparator that panics on request, in background threads or in the threads of the user.
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
        let panics = if background { &self.panics_in_background } else { &self.panics_in_foreground };
        assert!(!panics.load(Ordering::Relaxed), "planned");
        a.cmp(b)
    }
}

fn panicking_comparator() -> (Arc<PanickingComparator>, Options) {
    let comparator = Arc::new(PanickingComparator::default());
    let options = Options::default()
        .comparator(Arc::clone(&comparator) as Arc<dyn Comparator>)
        .env(Env::in_memory())
        .create_if_missing(true);
    (comparator, options)
}

/// Symptom: flush, writes and close waited for ever. Cause: a comparator panicked in a flush job,
/// which then never completed. Guarantee: the panic becomes a background error.
#[test]
fn panic_in_a_flush_is_a_background_error() {
    let (comparator, options) = panicking_comparator();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    comparator.panics_in_background.store(true, Ordering::Relaxed);
    assert!(db.flush().is_err());
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("background error"));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(b"2".as_slice()), "reads still work");
    assert!(db.close().is_err());
}

/// Logger that panics on the line that reports a background error.
struct PanickingLogger;

impl Logger for PanickingLogger {
    fn log(&self, line: std::fmt::Arguments<'_>) {
        assert!(!line.to_string().starts_with("Background error, will be retried"), "planned");
    }
}

/// Symptom: the number of running jobs became wrong. Cause: the logger panicked after a failed
/// flush had been counted as finished, and the panic handler counted it again. Guarantee: a failed
/// flush is counted once.
#[test]
fn logger_panic_counts_a_failed_flush_once() {
    let plan = "create .ldb #1 forever ENOSPC".parse().unwrap();
    let fault = FaultFs::new(Arc::new(MemFs::new()), plan);
    let env = Env { fs: Arc::new(fault), ..Env::in_memory() };
    let logger = Arc::new(PanickingLogger);
    let db = Db::open("db", &Options::default().env(env).logger(logger).create_if_missing(true)).unwrap();
    db.put(b"a", b"1").unwrap();
    assert!(db.flush().is_err());
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("background error"));
    assert!(db.close().is_err());
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns the result of `call` in a destructor, while a thread unwinds the panic of a program.
#[allow(clippy::disallowed_methods, reason = "a thread of a program")]
fn while_unwinding(call: impl Fn() -> terrace::Result<()> + Send + 'static) -> terrace::Result<()> {
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _destructor = OnDrop(|| done.send(call()).unwrap());
        // Panics without a message on the terminal.
        std::panic::resume_unwind(Box::new("panic of the program"));
    });
    outcome.recv_timeout(Duration::from_secs(30)).expect("the call returns")
}

/// Symptom: after the panic of a program that caught it, all writes failed. Cause: a destructor had
/// written while the thread unwound, which looked like a panic of the write. Guarantee: a call in a
/// destructor works like any other one.
#[test]
fn calls_in_a_destructor_while_a_thread_unwinds() {
    let options = options(Arc::new(MemFs::new()));
    let db = Db::open("db", &options).unwrap();
    (0..900).for_each(|n| db.put(key(n), b"").unwrap());
    let other = db.clone();
    let called = while_unwinding(move || {
        other.put_with(key(900), b"", &WriteOptions::default().sync(true))?;
        other.transact(|transaction| transaction.put(key(901), b""))?;
        other.delete_range(key(500)..key(600))?;
        other.compact_range(None, None)?;
        other.delete_range(key(0)..key(400))
    });
    called.unwrap();
    db.put(key(902), b"").unwrap();
    db.flush().unwrap();
    assert_eq!(db.iter().count(), 403);
}

/// Symptom: a program that panicked did not end. Cause: the destructor of its database ran a flush
/// on the thread that unwound, and the flush waited for itself. Guarantee: the close returns, and
/// so does an open with a recovery.
#[test]
fn open_and_close_while_a_thread_unwinds() {
    let options = options(Arc::new(MemFs::new())).write_buffer_size(64 << 10);
    let db = Db::open("db", &options).unwrap();
    (0..200).for_each(|n| db.put(key(n), [7; 1000]).unwrap());
    let reopened = options.clone().reuse_logs(false);
    let closed = while_unwinding(move || {
        db.shutdown()?;
        let again = Db::open("db", &reopened)?;
        (200..300).try_for_each(|n| again.put(key(n), [7; 1000]))?;
        again.close()
    });
    closed.unwrap();
    assert_eq!(Db::open("db", &options).unwrap().iter().count(), 300);
}

/// Symptom: a later write was lost at the next open. Cause: the comparator panicked in a put after
/// the log was written and before the memtable was. The next put then reused the sequence number,
/// and replay skipped it. Guarantee: all writes fail after such a panic.
#[test]
fn writes_fail_after_a_panic_in_a_put() {
    let (comparator, options) = panicking_comparator();
    let db = Db::open("db", &options).unwrap();
    db.put(b"a", b"1").unwrap();
    comparator.panics_in_foreground.store(true, Ordering::Relaxed);
    let put = std::panic::AssertUnwindSafe(|| db.put(b"b", b"2"));
    assert!(std::panic::catch_unwind(put).is_err());
    comparator.panics_in_foreground.store(false, Ordering::Relaxed);
    assert!(db.put(b"c", b"3").unwrap_err().to_string().starts_with("background error"));
    drop(db);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    db.put(b"c", b"3").unwrap();
    drop(db);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.get(b"c").unwrap().as_deref(), Some(b"3".as_slice()));
}

/// Symptom: a full disk filled further. Cause: each attempt to flush left its incomplete table.
/// Guarantee: a failed flush removes its files.
#[test]
fn failed_flushes_on_a_full_disk_leave_no_files() {
    for plan in
        ["sync .ldb #1 forever ENOSPC", "append .ldb #1 forever ENOSPC", "create-log * #1 forever ENOSPC"]
    {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
        for n in 0..100 {
            db.put(key(n), [9; 100]).unwrap();
        }
        fault.set_plan(plan.parse().unwrap());
        for _ in 0..5 {
            assert!(db.flush().unwrap_err().is_retryable());
        }
        let tables = names(&*memory, ".ldb").len();
        let logs = names(&*memory, ".log").len();
        assert!(tables == 0 && logs <= 2, "{plan}: {tables} tables, {logs} logs");
        fault.set_plan(FaultPlan::default());
        db.flush().unwrap();
        assert_eq!(names(&*memory, ".ldb").len(), 1);
    }
}

/// Symptom: the database did not open any more. Cause: replay of a log with a repeated record
/// produced a table with keys out of order. Guarantee: replay skips the repeated record.
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
            let mut close_marker = WriteBatch::new();
            close_marker.set_sequence(2);
            append_record(&fs, log, close_marker.as_bytes());
        }
        let db = Db::open("db", &options(fs)).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    }
}

/// Symptom: the manifest became unreadable. Cause: new file numbers continued from a stray file
/// whose number was near the maximum. Guarantee: numbers of stray files above a limit are ignored.
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

/// Symptom: a database was opened once and never again. Cause: the next file number of a crafted
/// manifest was the maximum, and the database wrote a greater one. Guarantee: the database writes
/// no number that it cannot read, and no acknowledged write is lost.
#[test]
fn largest_next_file_number() {
    for next_file_number in (u64::MAX / 2 - 12..=u64::MAX / 2).rev() {
        let fs = Arc::new(MemFs::new());
        let options = options(Arc::clone(&fs) as _);
        Db::open("db", &options).unwrap().close().unwrap();
        set_next_file_number(&fs, next_file_number);
        let mut written = Vec::new();
        for n in 0..6 {
            match Db::open("db", &options) {
                Ok(db) => {
                    written.extend(db.put(key(n), b"value").is_ok().then_some(n));
                    let _ = db.flush();
                    let _ = db.close();
                }
                Err(error) => {
                    assert!(error.to_string().contains("next file number"), "{next_file_number}: {error}")
                }
            }
            let db = Db::open_read_only("db", &options).unwrap();
            for &n in &written {
                assert!(db.get(key(n)).unwrap().is_some(), "{next_file_number}: key {n} of {written:?}");
            }
        }
    }
}

/// Symptom: acknowledged writes were lost. Cause: the file numbers of a database with a crafted
/// manifest were so great that recovery took its newest log for a foreign file. Guarantee: recovery
/// replays the logs after the last version edit.
#[test]
fn process_killed_with_great_file_numbers() {
    for seed in 0..20 {
        let fs = Arc::new(MemFs::new());
        let mut env = Env::with_file_system(Arc::clone(&fs) as _);
        env.scheduler = DeterministicScheduler::new(seed);
        let options = options(Arc::clone(&fs) as _).env(env).write_buffer_size(64 << 10);
        Db::open("db", &options).unwrap().close().unwrap();
        set_next_file_number(&fs, u64::MAX / 2 - 1_000_000);
        let db = Db::open("db", &options).unwrap();
        for n in 0..100 {
            db.put(key(n), [7; 2000]).unwrap();
            let after = Arc::new(fs.crash_clone(&Crash::Kill));
            let db = Db::open_read_only("db", &self::options(after)).unwrap();
            assert!(db.get(key(n)).unwrap().is_some(), "seed {seed}, key {n}");
        }
    }
}

fn set_next_file_number(fs: &MemFs, number: u64) {
    let edit = VersionEdit { next_file_number: Some(number), ..VersionEdit::default() };
    append_edit(fs, &edit);
}

fn append_edit(fs: &MemFs, edit: &VersionEdit) {
    let mut record = Vec::new();
    edit.encode(&mut record);
    append_record(fs, &Path::new("db").join(&names(fs, "MANIFEST")[0]), &record);
}

/// Symptom: an arithmetic overflow. Cause: file sizes of a crafted manifest were summed without a
/// check. Guarantee: the sums saturate.
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

/// Symptom: a program with the checks of a debug build panicked. Cause: the file sizes of a crafted
/// manifest were added across levels without a check. Guarantee: the sums saturate, and writes and
/// compactions report the damage of the tables.
#[test]
fn file_sizes_of_several_levels_do_not_overflow() {
    let level_0 = [(0, 90, "a", "z")];
    let others = [(1, 90, "a", "b"), (1, 91, "b2", "c"), (2, 92, "a", "z"), (3, 93, "a", "z")];
    for style in [CompactionStyle::Leveled, CompactionStyle::LazyLeveled] {
        for tables in [&level_0[..], &others] {
            let fs = Arc::new(MemFs::new());
            let options = options(Arc::clone(&fs) as _).write_buffer_size(64 << 10).compaction_style(style);
            Db::open("db", &options).unwrap().close().unwrap();
            add_largest_tables(&fs, tables);
            let db = Db::open("db", &options).unwrap();
            let written = (0..1000).try_for_each(|n| db.put(key(n), [7; 1000]));
            let flushed = db.flush();
            let compacted = db.compact_range_with_progress(None, None, |_, _| ());
            for error in [written, flushed, compacted].into_iter().filter_map(Result::err) {
                assert!(error.to_string().contains(".ldb"), "{style:?}: {error}");
            }
        }
    }
}

/// Symptom: an arithmetic overflow in `approximate_sizes`. Cause: the offset in a table was added
/// to the file sizes of a crafted manifest without a check. Guarantee: the sum saturates.
#[test]
fn approximate_size_beside_an_impossible_file_size() {
    let fs = Arc::new(MemFs::new());
    let options = options(Arc::clone(&fs) as _);
    let db = Db::open("db", &options).unwrap();
    (0..100).for_each(|n| db.put(key(n), [7; 1000]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    add_largest_tables(&fs, &[(1, 90, "a", "b")]);
    let db = Db::open("db", &options).unwrap();
    let end = key(50);
    assert_eq!(db.approximate_sizes(&[(b"a", &end)]).unwrap(), [u64::MAX]);
}

/// Adds empty tables to the manifest, each with a level, a number and its keys. The manifest states
/// the maximum size for each.
fn add_largest_tables(fs: &MemFs, tables: &[(usize, u64, &str, &str)]) {
    let internal = |user: &str| InternalKey::new(user.as_bytes(), 1, ValueType::Value);
    let mut edit = VersionEdit::default();
    for &(level, number, smallest, largest) in tables {
        let smallest = internal(smallest);
        let largest = internal(largest);
        edit.new_files.push((level, NewFile { number, size: u64::MAX, smallest, largest }));
        fs.create(format!("db/0000{number}.ldb").as_ref()).unwrap().close().unwrap();
    }
    append_edit(fs, &edit);
}

/// Symptom: `paranoid_checks` refused a database after a process kill. Cause: the kill inside a
/// record of several blocks left zeros after the first block, which were taken for corruption.
/// Guarantee: such an end of a log is accepted.
#[test]
fn process_killed_inside_a_large_record() {
    for call in 0..12 {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        db.put(b"before", b"").unwrap();
        fs.freeze_at(fs.mutation_count() + call);
        let _ = db.put(b"large", [1; 100_000]);
        let after = Arc::new(fs.crash_clone(&Crash::Kill));
        let db = Db::open("db", &options(after).paranoid_checks(true)).unwrap();
        assert!(db.get(b"before").unwrap().is_some(), "call {call}");
    }
}

/// Symptom: a database without CURRENT lost its tables. Cause: `create_if_missing` created a new
/// database and removed the tables of the old one as leftover files. Guarantee: open fails and
/// changes no file.
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

/// Symptom: a database could not be created on a small disk, not even later with more space. Cause:
/// preallocation of the first log failed, and the failed creation left a log file. Guarantee: a new
/// log takes no space, and a failed creation leaves no log.
#[test]
fn failed_creation_leaves_no_log() {
    for plan in ["create-log * #1 forever ENOSPC", "create MANIFEST #1 forever ENOSPC"] {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, plan.parse().unwrap()));
        assert!(Db::open("db", &options(Arc::clone(&fault) as _)).unwrap_err().is_retryable());
        assert!(names(&*memory, ".log").is_empty(), "{plan}");
        fault.set_plan(FaultPlan::default());
        Db::open("db", &options(fault)).unwrap();
    }
}

/// Symptom: a put and its tombstone of one memtable were never removed. Cause: the flush put them
/// on a level below the levels that the manual compaction covered. Guarantee: a full manual
/// compaction drops both.
#[test]
fn compact_range_drops_put_and_delete_of_one_memtable() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    for n in 0..100 {
        db.put(key(n), [1; 900]).unwrap();
    }
    for n in 0..100 {
        db.delete(key(n)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(names(&*fs, ".ldb").is_empty(), "{}", db.property("leveldb.sstables").unwrap());
}

/// Symptom: `verify` and open disagreed. Cause: `verify` reported an edit that a power cut left
/// incomplete, which open accepts. Neither reported a missing log or one with garbage. Guarantee:
/// `verify` reports the missing and the damaged log, and no incomplete edit.
#[test]
fn verify_agrees_with_open() {
    let healthy = || {
        let fs = Arc::new(MemFs::new());
        let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
        for n in 0..100 {
            db.put(key(n), [1; 900]).unwrap();
        }
        db.close().unwrap();
        fs
    };
    let problems = |fs: &Arc<MemFs>| {
        let report = terrace::verify("db", &options(Arc::clone(fs) as _)).unwrap();
        report.problems.len()
    };
    let fs = healthy();
    assert_eq!(problems(&fs), 0);
    let mut file = fs.open_append(&Path::new("db").join(&names(&*fs, "MANIFEST")[0])).unwrap();
    file.append(&[0xff; 40]).unwrap();
    file.close().unwrap();
    assert_eq!(problems(&fs), 0, "an incomplete edit");
    assert!(Db::open("db", &options(fs)).is_ok());
    let fs = healthy();
    let log = Path::new("db").join(&names(&*fs, ".log")[0]);
    write(&fs, &log, &[0xab; 5000]);
    assert!(problems(&fs) > 0, "a log of garbage");
    fs.remove(&log).unwrap();
    assert!(problems(&fs) > 0, "a missing log");
}

/// Symptom: synced writes were lost in a power cut. Cause: a sync of the log failed, and the kernel
/// marked its pages as clean. The next process reused the log with `reuse_logs` and synced a write
/// into it. The earlier pages were never written, and replay stopped at the gap. Guarantee: only a
/// cleanly closed log is reused.
#[test]
fn log_with_a_failed_sync_is_not_reused() {
    for effect in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
        let fs = Arc::new(MemFs::new());
        let reuse = options(Arc::clone(&fs) as _).reuse_logs(true);
        let sync = WriteOptions::default().sync(true);
        let db = Db::open("db", &reuse).unwrap();
        db.put_with(key(0), b"", &sync).unwrap();
        db.put(key(1), b"").unwrap();
        fs.inject_sync_failure(0, effect);
        db.put_with(key(2), b"", &sync).unwrap_err();
        assert!(db.close().is_err());
        let db = Db::open("db", &reuse).unwrap();
        let (stored, prefix) = count_keys(&db);
        assert_eq!(stored, prefix);
        db.put_with(key(stored as u32), b"", &sync).unwrap();
        let after_crash = Arc::new(fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0)));
        drop(db);
        let db = Db::open("db", &options(after_crash)).unwrap();
        assert_eq!(count_keys(&db), (stored + 1, stored + 1), "{effect:?}");
    }
}

/// Symptom: synced writes after a close marker were lost in a power cut. Cause: a sync failed in a
/// process that reused a closed log and wrote nothing. The kernel marked the page of the close
/// marker as clean, so no later sync wrote it, but the log still looked closed. Guarantee: a reused
/// log overwrites the marker before its first write. Such a process no longer syncs, so the test
/// syncs the log itself.
#[test]
fn close_marker_with_a_failed_sync_is_not_trusted() {
    for effect in [FailedSyncEffect::KeepsPages, FailedSyncEffect::DropsPages] {
        let fs = Arc::new(MemFs::new());
        let reuse = options(Arc::clone(&fs) as _).reuse_logs(true);
        let sync = WriteOptions::default().sync(true);
        let db = Db::open("db", &reuse).unwrap();
        db.put_with(key(0), b"", &sync).unwrap();
        db.close().unwrap();
        let log = names(&*fs, ".log");
        let db = Db::open("db", &reuse).unwrap();
        fs.inject_sync_failure(0, effect);
        fs.reopen_log(&Path::new("db").join(&log[0]), 0, MappedLogs::Always).unwrap().sync().unwrap_err();
        db.close().unwrap();
        for n in 1..4 {
            let db = Db::open("db", &reuse).unwrap();
            db.put_with(key(n), b"", &sync).unwrap();
            let after_crash = Arc::new(fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0)));
            let db = Db::open("db", &options(after_crash)).unwrap();
            assert_eq!(count_keys(&db), (n as usize + 1, n as usize + 1), "{effect:?}");
        }
    }
}

/// Symptom: an incomplete manifest of a crash was never removed. Cause: with `reuse_logs` its
/// number is greater than that of the live manifest, so it was taken for a needed one. Guarantee:
/// open removes every manifest that CURRENT does not name.
#[test]
fn unreferenced_manifest_is_removed() {
    let fs = Arc::new(MemFs::new());
    let reuse = options(Arc::clone(&fs) as _).reuse_logs(true);
    let db = Db::open("db", &reuse).unwrap();
    db.put(key(0), b"").unwrap();
    db.close().unwrap();
    let manifest = names(&*fs, "MANIFEST");
    write(&fs, "db/MANIFEST-000050".as_ref(), b"half");
    Db::open("db", &reuse).unwrap().close().unwrap();
    assert_eq!(names(&*fs, "MANIFEST"), manifest);
}

/// Symptom: a flipped bit silently removed the rest of a log, even with `paranoid_checks`. Cause:
/// the bit was in a record length, so the record looked like the torn end of a killed process.
/// Guarantee: such a record is corruption, in a closed log and before an intact record.
#[test]
fn flipped_length_bit_in_a_closed_log() {
    for (record, expected) in [
        (0, "000002.log at 0: a fragment of 16410 bytes, expected at most 323; 330 bytes dropped"),
        (9, "000002.log at 297: an incomplete record in a closed log, expected complete records"),
    ] {
        check_flipped_length_bit(record, expected);
    }
}

/// Flips a bit in the length of one of ten records. Checks the error of an open.
fn check_flipped_length_bit(record: usize, expected: &str) {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    for n in 0..10 {
        db.put(key(n), b"value").unwrap();
    }
    db.close().unwrap();
    let log = Path::new("db").join(&names(&*fs, ".log")[0]);
    fs.corrupt(&log, |bytes| {
        let record_len = bytes.len() / 10;
        bytes[record * record_len + 5] ^= 0x40;
    })
    .unwrap();
    let paranoid = options(fs).paranoid_checks(true);
    let error = Db::open("db", &paranoid).unwrap_err();
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// Symptom: an `ENOSPC` error of a sync was reported as retryable, but the failed write was visible
/// and all later writes failed. Cause: the error was classified by its code alone. Guarantee: a
/// failed sync is not retryable.
#[test]
fn enospc_in_a_sync_is_not_retryable() {
    let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&faults) as _)).unwrap();
    faults.set_plan("sync .log #1 once ENOSPC".parse().unwrap());
    let error = db.put_with(key(0), b"", &WriteOptions::default().sync(true)).unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert!(db.put(key(1), b"").is_err());
}

/// Symptom: repair lost up to 32 KiB of records because of one flipped bit. LevelDB's repair keeps
/// them, because it ignores log checksums. Cause: repair skipped the rest of a block, as replay
/// does. Guarantee: repair loses only the damaged records.
#[test]
fn repair_loses_only_the_damaged_log_record() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    for n in 0..100 {
        db.put(key(n), [1; 100]).unwrap();
    }
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
    assert_eq!(count_keys(&db), (98, 10), "{report}");
}

/// Symptom: the database never opened again. Cause: a stray file had the maximum file number, so
/// the next file got a number that no manifest may store. Guarantee: open and repair ignore such a
/// file.
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
    let repair_options = RepairOptions::default();
    assert!(terrace::repair("db", &options(Arc::clone(&fs) as _), &repair_options).unwrap().changed);
    assert_eq!(open().unwrap().get(b"key").unwrap().unwrap(), b"value");
}

/// Blocks of a table: entries, restart points, and the index key of each block.
type BlockSpecs<'a> = &'a [(&'a [(&'a str, u64)], &'a [u32], (&'a str, u64))];

/// Returns the problems that `verify` reports for a database with one crafted table.
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
    let entries: Vec<_> = blocks.iter().flat_map(|(entries, ..)| *entries).collect();
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
                smallest: internal(*entries[0]),
                largest: internal(*entries[entries.len() - 1]),
            },
        )],
        ..VersionEdit::default()
    };
    let fs = Arc::new(MemFs::new());
    let mut record = Vec::new();
    edit.encode(&mut record);
    fs.create_dir("db".as_ref()).unwrap();
    append_record(&fs, "db/MANIFEST-000002".as_ref(), &record);
    write(&fs, "db/CURRENT".as_ref(), b"MANIFEST-000002\n");
    write(&fs, "db/000009.ldb".as_ref(), &table);
    let report = terrace::verify("db", &options(fs)).unwrap();
    report.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
}

/// Symptom: `verify` accepted tables with keys that scans show and gets miss. Cause: it scanned all
/// entries, but did not check that a search reaches them. Guarantee: `verify` reports unreachable
/// keys.
#[test]
fn verify_reports_keys_that_gets_cannot_reach() {
    #[track_caller]
    fn check(blocks: BlockSpecs<'_>, expected: &str) {
        assert_eq!(verify_table(blocks), expected);
    }
    check(&[(&[("a", 1), ("b", 2)], &[0], ("b", 2)), (&[("c", 3)], &[0], ("d", 3))], "");
    check(&[(&[("a", 2)], &[0], ("a", 2)), (&[("a", 1)], &[0], ("a", 1))], "");
    check(
        &[(&[("a", 1)], &[0], ("g", 1)), (&[("c", 3)], &[0], ("m", 3))],
        "key 'c' @ 3 after a block whose index key is key 'g' @ 1",
    );
    check(
        &[(&[("a", 1)], &[0], ("c", 9)), (&[("c", 3)], &[0], ("m", 3))],
        "key 'c' @ 3 after a block whose index key is key 'c' @ 9",
    );
    check(
        &[(&[("a", 1), ("b", 2)], &[0, 4], ("b", 2))],
        "restart point 1 at 4, expected the offset of an entry with a complete key",
    );
    check(&[(&[("a", 1)], &[], ("b", 2))], "13 bytes of entries without a restart point, expected one");
}

/// Symptom: a use after free in C and C++ programs that delete their comparator, logger or
/// environment after `close`. Cause: the thread of a finished job still held references for a
/// moment. Guarantee: after `close` the database holds no reference to its options.
#[test]
fn closed_database_releases_its_options() {
    for _ in 0..200 {
        let fs: Arc<dyn FileSystem> = Arc::new(MemFs::new());
        let options = Options::default().create_if_missing(true).env(Env::with_file_system(Arc::clone(&fs)));
        let db = Db::open("db", &options).unwrap();
        db.put(key(1), b"").unwrap();
        db.flush().unwrap();
        drop(options);
        drop(db);
        assert_eq!(Arc::strong_count(&fs), 1);
    }
}

/// Symptom: a write that returned an error was readable. Cause: it became visible before its sync.
/// Guarantee: a write with a failed sync never becomes visible.
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
    assert!(db.write_with(&batch, &WriteOptions::default().sync(true)).is_err());
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(db.get(b"c").unwrap(), None);
    assert_eq!(db.iter().count(), 2);
    assert!(db.put(b"d", b"").is_err(), "the durable end of the log is unknown");
}

/// Symptom: logs that were copied into a closed database were ignored. LevelDB's tests and tools
/// create such logs. Cause: the sequence gap after the closed log was taken for lost writes.
/// Guarantee: logs after a closed log are replayed.
#[test]
fn logs_added_after_a_closed_log_are_replayed() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(key(0), b"").unwrap();
    db.close().unwrap();
    let closed_log = FileName::parse(&names(&*fs, ".log")[0]).and_then(|name| name.number()).unwrap();
    for (n, sequence) in [(1, 1000), (2, 1001)] {
        let mut batch = WriteBatch::new();
        batch.put(key(n as u32), b"");
        batch.set_sequence(sequence);
        let path = Path::new("db").join(FileName::Log(closed_log + n).to_string());
        append_record(&fs, &path, batch.as_bytes());
    }
    let db = Db::open("db", &options(fs)).unwrap();
    assert_eq!(count_keys(&db), (3, 3));
}

/// Symptom: replay recovered writes from after lost ones. Cause: a reused log contains a close
/// marker. If a power cut lost the writes after it, the log looked closed, and the next log was
/// replayed. Guarantee: the reused log is synced before the next log is created.
#[test]
fn reused_log_is_synced_before_the_next_log() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(Arc::clone(&fs) as _)).unwrap();
    db.put(key(0), b"").unwrap();
    db.close().unwrap();
    let small_memtables = options(Arc::clone(&fs) as _).reuse_logs(true).write_buffer_size(64 << 10);
    let log = names(&*fs, ".log");
    let db = Db::open("db", &small_memtables).unwrap();
    assert_eq!(names(&*fs, ".log"), log, "the log is reused");
    // The flush does not run, because nothing runs the deterministic scheduler.
    for n in 1..100 {
        db.put(key(n), [1; 900]).unwrap();
    }
    assert_eq!(names(&*fs, ".log").len(), 2);
    for seed in 0..100 {
        for profile in POWER_LOSS_PROFILES {
            let db =
                Db::open("db", &options(Arc::new(fs.crash_clone(&profile.crash_with_seed(seed))))).unwrap();
            let (stored, prefix) = count_keys(&db);
            assert_eq!(stored, prefix, "a gap after {profile:?}, seed {seed}");
        }
    }
}

/// Symptom: keys that were readable after an error of `delete_range` were gone after the end of the
/// process, and later synced writes were not. Cause: the sync of the MANIFEST had failed, and the
/// database continued, although the MANIFEST might drop the tables. Guarantee: it refuses writes.
#[test]
fn delete_range_with_a_failed_manifest_sync_refuses_writes() {
    let memory = Arc::new(MemFs::new());
    let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    (0..9).for_each(|n| db.put(key(n), b"").unwrap());
    db.flush().unwrap();
    fault.set_plan("sync MANIFEST #1 once EIO".parse().unwrap());
    assert!(db.delete_range(key(0)..key(9)).is_err());
    assert_eq!(count_keys(&db), (9, 9));
    let written = db.put_with(b"later", b"", &WriteOptions::default().sync(true));
    let after = Db::open("db", &options(Arc::new(memory.crash_clone(&Crash::Kill)))).unwrap();
    assert!(written.is_err(), "{:?} of 9 keys are left, and the later one", count_keys(&after));
}

/// Symptom: a database with a failed sync of its MANIFEST continued to write. Cause: the error of
/// the edit after a reused log was not recorded. Guarantee: it refuses writes.
#[test]
fn reused_log_with_a_failed_manifest_sync_refuses_writes() {
    let memory = Arc::new(MemFs::new());
    let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
    let db = Db::open("db", &options(Arc::clone(&fault) as _)).unwrap();
    db.put(key(0), b"").unwrap();
    db.close().unwrap();
    let small_memtables = options(Arc::clone(&fault) as _).reuse_logs(true).write_buffer_size(64 << 10);
    let db = Db::open("db", &small_memtables).unwrap();
    fault.set_plan("sync MANIFEST #1 once EIO".parse().unwrap());
    let failed = (1..1000).find(|&n| db.put(key(n), [7; 1000]).is_err()).unwrap();
    assert!(db.put(key(failed), b"").is_err(), "the durable end of the MANIFEST is unknown");
}

/// Symptom: a manual compaction flushed the memtable to level 0. Cause: it did so even if the
/// memtable held no key of the range, so the table ended above the level of a normal flush.
/// Guarantee: such a flush picks the usual level.
#[test]
fn compact_range_of_other_keys_flushes_to_the_usual_level() {
    let db = Db::open("db", &options(Arc::new(MemFs::new()))).unwrap();
    db.put(b"m", b"").unwrap();
    db.compact_range(Some(b"x"), Some(b"z")).unwrap();
    assert_eq!(db.property("leveldb.num-files-at-level2").as_deref(), Some("1"));
}

/// Symptom: `compact_range` returned before its input files were removed. Cause: completion was
/// signalled before obsolete files were removed. Guarantee: the inputs are removed when
/// `compact_range` returns.
#[test]
fn compact_range_returns_after_its_inputs_are_removed() {
    let fs = Arc::new(MemFs::new());
    let env = Env::with_file_system(Arc::clone(&fs) as _);
    let db = Db::open("db", &Options::default().create_if_missing(true).env(env)).unwrap();
    for round in 0..100 {
        db.put(b"a", b"").unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(names(&*fs, ".ldb").len(), 1, "round {round}");
    }
}

fn row(n: usize) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Creates tables of 1 MiB with five values each, and tombstones of all values on a higher level.
fn open_with_all_deleted(options: &mut Options, values: usize) -> Db {
    options.write_buffer_size = Some(64 << 10);
    options.compression = Some(&terrace::compress::NO_COMPRESSION);
    options.max_file_size = Some(1 << 20);
    let db = Db::open("db", options).unwrap();
    let value = vec![1; 200 << 10];
    for n in 0..values {
        db.put(row(n), &value).unwrap();
    }
    db.compact_range(None, None).unwrap();
    for n in 0..values {
        db.delete(row(n)).unwrap();
    }
    db.flush().unwrap();
    db
}

/// Symptom: tombstones stayed above the entries that they hide, however often both were scanned.
/// Cause: every scan sampled the same entries, and a table that used up its allowed seeks while
/// another waited for its compaction was forgotten. Guarantee: repeated scans compact every table
/// of tombstones.
#[test]
fn scans_compact_every_table_of_tombstones() {
    const FILES: usize = 20;
    let mut options = options(Arc::new(MemFs::new()));
    // A stopped clock: compactions take no time, so read-triggered compactions are not paused.
    options.env.clock = Arc::new(ManualClock::new(0));
    let db = open_with_all_deleted(&mut options, 5 * FILES);
    let size = |db: &Db| db.approximate_sizes(&[(b"0", b"9")]).unwrap()[0];
    let before = size(&db);
    for _ in 0..1000 {
        assert_eq!(db.iter().count(), 0);
        // Runs the read-triggered compactions.
        while options.env.scheduler.run_one_here() {}
        if size(&db) < before / 10 {
            return;
        }
    }
    panic!("{} of {before} bytes are left", size(&db));
}

/// Symptom: tables at the end of a scan range were compacted before those at its start. Cause:
/// while read-triggered compactions were paused, each table that a scan reported was ignored for 64
/// more samples, which fall anywhere. Guarantee: read-triggered compactions follow the scan order.
#[test]
fn read_compactions_follow_scan_order() {
    const FILES: usize = 60;
    /// Clock that advances while compactions run, so they take time, and stops during scans.
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

    let clock = Arc::new(StoppableClock::default());
    let mut options = options(Arc::new(MemFs::new()));
    options.env.clock = Arc::clone(&clock) as _;
    let db = open_with_all_deleted(&mut options, 5 * FILES);
    let size =
        |start: usize, limit: usize| db.approximate_sizes(&[(&row(start)[..], &row(limit)[..])]).unwrap()[0];
    let total = size(0, 5 * FILES);
    for scan in 0..100 {
        assert_eq!(db.iter().count(), 0);
        clock.1.store(true, Ordering::Relaxed);
        while options.env.scheduler.run_one_here() {}
        clock.1.store(false, Ordering::Relaxed);
        // The first compactions split the tombstone tables by the tables below. All of them use up
        // their allowed seeks before the pause after that ends.
        if scan > 40 {
            clock.0.advance(Duration::from_secs(10));
        }
        let front = size(0, 5 * FILES / 2);
        let rear = size(5 * FILES / 2, 5 * FILES);
        if front < total / 20 {
            assert!(scan > 40 && rear > total / 3, "{rear} of {total} bytes are left after {scan} scans");
            return;
        }
    }
    panic!("{} of {total} bytes are left", size(0, 5 * FILES));
}

/// Symptom: gets did not find written keys, without an error. Cause: the disk returned another
/// intact table in place of a small one, and its checksums were right. Guarantee: an open of the
/// table compares its key bounds with the manifest.
#[test]
fn swapped_table_file_is_detected() {
    // Writes tables with the keys `first` and `second`, and replaces the second file by the first.
    let get_after_swap = |first: &[&[u8]], second: &[&[u8]], paranoid_checks| {
        let fs = Arc::new(MemFs::new());
        let options = options(Arc::clone(&fs) as _).paranoid_checks(paranoid_checks);
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
        db.get(second[1]).unwrap_err().to_string()
    };

    for paranoid in [false, true] {
        let error = get_after_swap(&[b"a", b"b"], &[b"c", b"d"], paranoid);
        assert!(error.contains("000007.ldb: first key 'a"), "{error}");
        assert!(error.contains("expected 'c"), "{error}");
        // The keys are within the bounds of the replaced table.
        let error = get_after_swap(&[b"b", b"c"], &[b"a", b"d"], paranoid);
        assert!(error.contains("first key 'b"), "{error}");
    }
}
