//! Failed operations and closed databases leave no unneeded files and no waiting threads, and do
//! not touch files of a later opener.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use terrace::{BloomFilterPolicy, Db, Env, Options, RepairOptions, WriteOptions, compress};
use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{
    AccessMode, Clock, DeterministicScheduler, FileSystem, LockMode, Priority, Scheduler, ThreadPool,
};
use terrace_testkit::SetOnDrop;

/// A database on an in-memory file system with planned faults. Jobs run only when requested or
/// waited for.
struct FaultyDb {
    memory: Arc<MemFs>,
    fault: Arc<FaultFs>,
    background: Arc<DeterministicScheduler>,
    options: Options,
}

impl FaultyDb {
    fn new() -> FaultyDb {
        FaultyDb::on(Arc::new(MemFs::new()))
    }

    fn on(memory: Arc<MemFs>) -> FaultyDb {
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let background = DeterministicScheduler::new(1);
        let env =
            Env { scheduler: Arc::clone(&background) as _, ..Env::with_file_system(Arc::clone(&fault) as _) };
        let options = Options::default().create_if_missing(true).env(env);
        FaultyDb { memory, fault, background, options }
    }

    fn open(&self) -> Db {
        Db::open("db", &self.options).unwrap()
    }

    fn plan(&self, plan: &str) {
        self.fault.set_plan(plan.parse().unwrap());
    }

    fn names(&self, ending: &str) -> Vec<String> {
        let names = self.memory.list("db".as_ref()).unwrap();
        let names = names.iter().map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.contains(ending)).collect();
        names.sort();
        names
    }

    /// Returns all files except the info logs, with their bytes.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for name in self.names("").into_iter().filter(|name| !name.starts_with("LOG")) {
            let path = Path::new("db").join(&name);
            let mut bytes = vec![0; self.memory.file_size(&path).unwrap() as usize];
            self.memory.open_random_access(&path, AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
            files.push((name, bytes));
        }
        files
    }
}

/// Symptom: reads through an old handle changed the files of a later opener. Cause: a flush had
/// failed for want of space before the close. Reads through a remaining handle or iterator retried
/// the flush without the lock; it wrote to the manifest and removed a log. Guarantee: a closed
/// database changes no file.
#[test]
fn old_handles_do_not_modify_a_closed_database() {
    let mut fixture = FaultyDb::new();
    // A filter that accepts all keys.
    fixture.options.filter_policy = Some(Arc::new(BloomFilterPolicy::new(0)));
    let db = fixture.open();
    for step in [1, 2] {
        (0..2000u32).step_by(step).for_each(|n| db.put(n.to_be_bytes(), b"old").unwrap());
        db.flush().unwrap();
    }
    db.put(b"x", b"late").unwrap();
    fixture.plan("create .ldb #1 forever ENOSPC");
    assert!(db.flush().unwrap_err().is_retryable());
    db.shutdown().unwrap();
    fixture.plan("");
    let again = fixture.open();
    again.put(b"y", b"new").unwrap();
    let before = fixture.files();
    for n in (1..2000u32).step_by(2) {
        // The newer table does not hold the key, so each get wastes a probe.
        assert!(db.get(n.to_be_bytes()).unwrap().is_some());
        fixture.background.run_until_idle();
    }
    assert!(fixture.files() == before, "{:?}", fixture.names(""));
    assert!(again.get(b"x").unwrap().is_some() && again.get(b"y").unwrap().is_some());
}

/// Symptom: `compact_range` waited for ever. Cause: another thread closed the database meanwhile.
/// Guarantee: `compact_range` returns an error.
#[test]
fn close_wakes_a_waiting_compact_range() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    db.put(b"a", b"").unwrap();
    db.flush().unwrap();
    let other = db.clone();
    // The waiting thread runs this job before the compaction.
    fixture.options.env.scheduler.schedule(Priority::Compaction, Box::new(move || other.shutdown().unwrap()));
    let error = db.compact_range(None, None).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

/// Symptom: repeated opens filled an almost full disk. Cause: an open that failed after log replay
/// left the tables that the replay had written. Guarantee: a failed open removes its tables.
#[test]
fn failed_open_leaves_no_tables() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    (0..1000u32).for_each(|n| db.put(n.to_be_bytes(), [7; 100]).unwrap());
    let fixture = FaultyDb::on(Arc::new(fixture.memory.crash_clone(&Crash::Kill)));
    let before = fixture.names("");
    for plan in [
        "create-log * #1 forever ENOSPC",
        "create MANIFEST #1 forever ENOSPC",
        "create .dbtmp #1 forever EMFILE",
    ] {
        fixture.plan(plan);
        for _ in 0..3 {
            assert!(Db::open("db", &fixture.options).unwrap_err().is_retryable(), "{plan}");
        }
        let left: Vec<_> = fixture.names("").into_iter().filter(|name| !name.starts_with("LO")).collect();
        assert_eq!(
            left,
            before.iter().filter(|name| !name.starts_with("LO")).cloned().collect::<Vec<_>>(),
            "{plan}"
        );
    }
    fixture.plan("");
    assert_eq!(fixture.open().iter().count(), 1000);
}

/// Symptom: the database did not open any more without a repair. Cause: an open that reused an
/// empty log failed for want of space and removed that log as if it had created it. The manifest
/// ended with a torn edit, so the missing log looked like a lost edit. Guarantee: a failed open
/// removes only the log that it created.
#[test]
fn failed_open_removes_only_its_own_log() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    for _ in 0..2 {
        db.put(b"a", b"").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let log = fixture.names(".log");
    assert_eq!(
        fixture.files().iter().find(|(name, _)| *name == log[0]).map(|(_, bytes)| bytes.len()),
        Some(0)
    );
    // An edit that a power cut left incomplete.
    let manifest = Path::new("db").join(&fixture.names("MANIFEST")[0]);
    let mut file = fixture.memory.open_append(&manifest).unwrap();
    file.append(&[1, 2, 3]).unwrap();
    file.close().unwrap();
    fixture.plan("create MANIFEST #1 forever ENOSPC");
    assert!(Db::open("db", &fixture.options).unwrap_err().is_retryable());
    assert_eq!(fixture.names(".log"), log);
    fixture.plan("");
    assert!(fixture.open().get(b"a").unwrap().is_some());
}

/// Symptom: an open reported a missing log. Cause: an earlier open had failed after the rename of
/// CURRENT, and had removed the new log, which the new manifest names. Guarantee: the log stays if
/// CURRENT may name that manifest.
#[test]
fn failed_open_keeps_the_log_that_current_names() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    db.put(b"a", b"1").unwrap();
    let killed = fixture.memory.crash_clone(&Crash::Kill);
    let mut failures = 0;
    for n in 1..6 {
        let fixture = FaultyDb::on(Arc::new(killed.fork()));
        fixture.plan(&format!("sync-dir db #{n} once EIO"));
        let failed = Db::open("db", &fixture.options).is_err();
        fixture.plan("");
        let db = fixture.open();
        assert_eq!(db.recovery().damage, [], "after a failed sync {n}");
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
        failures += u32::from(failed);
    }
    assert!(failures >= 2, "the open syncs the directory before and after the rename");
}

/// Symptom: a repair dropped a log although no table had its writes. Cause: a flush had created a
/// manifest, and CURRENT could not be renamed. The manifest remained although another one became
/// live without the flush. Guarantee: the live manifest is the only one.
#[test]
fn manifest_that_did_not_become_live_is_removed() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"k", b"2").unwrap();
    fixture.plan("append MANIFEST #1 once ENOSPC; rename CURRENT #1 once ENOSPC");
    for _ in 0..2 {
        assert!(db.flush().unwrap_err().is_retryable());
    }
    // Its edit drops the table of the first flush, and contains no flush.
    db.delete_range("a".."b").unwrap();
    assert_eq!(fixture.names("MANIFEST").len(), 1);
    assert_eq!(fixture.names(".log").len(), 2, "the flush is not installed");
    let fixture = FaultyDb::on(Arc::new(fixture.memory.crash_clone(&Crash::Kill)));
    let manifest = Path::new("db").join(&fixture.names("MANIFEST")[0]);
    fixture.memory.corrupt(&manifest, |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
    terrace::repair("db", &fixture.options, &RepairOptions::default()).unwrap();
    assert_eq!(fixture.open().get(b"k").unwrap().as_deref(), Some(b"2".as_slice()));
}

/// Symptom: another process could not open a database that `shutdown` had closed. Cause: another
/// thread had begun to close it, and still held the lock. Guarantee: each `shutdown` returns after
/// the close, with its outcome.
#[test]
fn each_shutdown_waits_for_the_close() {
    for plan in ["sync .log #1 once delay", "sync .log #1 once delay; sync .log #2 once EIO"] {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let env = Env::with_file_system(Arc::clone(&fault) as _);
        let options = Options::default().create_if_missing(true).env(env);
        let db = Db::open("db", &options).unwrap();
        db.put(b"a", b"1").unwrap();
        let before = fault.call_count(FileOp::Sync);
        fault.set_plan(plan.parse().unwrap());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| db.shutdown());
            while fault.call_count(FileOp::Sync) == before {
                std::thread::yield_now();
            }
            let second = db.shutdown();
            // The test would otherwise wait for the lock.
            Db::open("db", &Options::default().env(Env::with_file_system(Arc::clone(&memory) as _)))
                .unwrap()
                .close()
                .unwrap();
            assert_eq!(second.is_ok(), first.join().unwrap().is_ok(), "{plan}");
        });
    }
}

/// Symptom: a second repair used tables of a failed first one. Cause: the failed repair left its
/// new tables. Guarantee: a failed repair removes its tables.
#[test]
fn failed_repair_leaves_no_tables() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    (0..1000u32).for_each(|n| db.put(n.to_be_bytes(), [7; 100]).unwrap());
    let fixture = FaultyDb::on(Arc::new(fixture.memory.crash_clone(&Crash::Kill)));
    fixture.memory.remove("db/CURRENT".as_ref()).unwrap();
    fixture.memory.remove(&Path::new("db").join(&fixture.names("MANIFEST")[0])).unwrap();
    let before = fixture.names(".ldb");
    for plan in ["create MANIFEST #1 forever ENOSPC", "create .dbtmp #1 forever EMFILE"] {
        fixture.plan(plan);
        for _ in 0..3 {
            assert!(terrace::repair("db", &fixture.options, &RepairOptions::default()).is_err(), "{plan}");
        }
        assert_eq!((fixture.names(".ldb"), fixture.names("MANIFEST").len()), (before.clone(), 0), "{plan}");
    }
    fixture.plan("");
    terrace::repair("db", &fixture.options, &RepairOptions::default()).unwrap();
    assert_eq!(fixture.open().iter().count(), 1000);
}

/// Symptom: each failed attempt of a compaction left its tables. Cause: its edit had not been
/// written at all, but was treated as possibly live. Guarantee: the tables are removed if no byte
/// of the edit was written.
#[test]
fn uninstalled_compaction_leaves_no_tables() {
    for ending in [".ldb", ".sst"] {
        let mut fixture = FaultyDb::new();
        fixture.options = fixture.options.old_table_names(ending == ".sst");
        check_uninstalled_compaction(&fixture, ending);
    }
}

fn check_uninstalled_compaction(fixture: &FaultyDb, ending: &str) {
    let db = fixture.open();
    for plan in [
        "sync-dir db #1 once EMFILE",
        // The edit may be live. The next attempt writes a new manifest, which decides it.
        "sync MANIFEST #1 once ENOSPC; create MANIFEST #1 x2 ENOSPC; create .dbtmp #1 once EMFILE",
    ] {
        fixture.plan("");
        for value in [b"1", b"2"] {
            db.put(b"a", value).unwrap();
            db.put(b"z", value).unwrap();
            db.flush().unwrap();
        }
        fixture.plan(plan);
        let mut failed = 0;
        while let Err(error) = db.compact_range(None, None) {
            assert!(error.is_retryable(), "{plan}: {error}");
            failed += 1;
            assert!(failed < 10);
        }
        assert!(failed >= 1, "{plan}");
        let live: usize = db.levels().iter().map(|level| level.files.len()).sum();
        assert_eq!((live, fixture.names(ending).len()), (1, 1), "{plan}, failed {failed} times");
        assert_eq!(fixture.names("MANIFEST").len(), 1, "{plan}");
    }
    assert_eq!(db.get(b"a").unwrap(), Some(b"2".to_vec()));
}

/// Symptom: a disk stayed full. Cause: the edit of a compaction could not be written, but its
/// tables stayed until a new manifest was written, which needs more space. Guarantee: the tables
/// are removed at once if the manifest has its former length.
#[test]
fn unwritten_edit_leaves_no_tables_on_a_full_disk() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    for value in [b"1", b"2"] {
        db.put(b"a", value).unwrap();
        db.put(b"z", value).unwrap();
        db.flush().unwrap();
    }
    for plan in ["append MANIFEST", "flush MANIFEST"] {
        fixture.plan(&format!("{plan} #1 once ENOSPC; create MANIFEST #1 forever ENOSPC"));
        assert!(db.compact_range(None, None).unwrap_err().is_retryable(), "{plan}");
        assert_eq!(fixture.names(".ldb").len(), 2, "{plan}");
        fixture.plan("");
        for level in db.levels() {
            assert!(level.files.len() <= 2, "nothing was installed");
        }
    }
    db.compact_range(None, None).unwrap();
    assert_eq!((fixture.names(".ldb").len(), db.get(b"a").unwrap()), (1, Some(b"2".to_vec())));
}

/// Symptom: replaced tables stayed on the disk until the close. Cause: a deletion of a range key by
/// key held them when the compaction ended. Guarantee: the end of the deletion has them removed.
#[test]
fn delete_range_releases_replaced_tables() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    for value in [b"1", b"2"] {
        for key in [b"a", b"m", b"z"] {
            db.put(key, value).unwrap();
        }
        db.flush().unwrap();
    }
    let before = fixture.fault.call_count(FileOp::Sync);
    // The deletion ends with a sync.
    fixture.plan("sync .log #1 once delay");
    std::thread::scope(|scope| {
        scope.spawn(|| db.delete_range("b".."y").unwrap());
        while fixture.fault.call_count(FileOp::Sync) == before {
            std::thread::yield_now();
        }
        db.compact_range(None, None).unwrap();
    });
    fixture.background.run_until_idle();
    let live: usize = db.levels().iter().map(|level| level.files.len()).sum();
    assert_eq!(fixture.names(".ldb").len(), live);
}

/// Clock that calls a function at its next reading, once.
#[derive(Default)]
struct CallbackClock {
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_due: AtomicBool,
}

impl std::fmt::Debug for CallbackClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbackClock")
    }
}

impl Clock for CallbackClock {
    fn monotonic(&self) -> Duration {
        if self.is_due.swap(false, Ordering::Relaxed) {
            self.callback.get().unwrap()();
        }
        Duration::ZERO
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}
}

/// Symptom: a write returned an error but was readable. Cause: a flush wrote the entry to a table
/// while the write waited for its log sync, which then failed. Guarantee: the write succeeds,
/// because the table is durable.
#[test]
fn flushed_write_survives_a_failed_wal_sync() {
    let mut fixture = FaultyDb::new();
    let clock = Arc::new(CallbackClock::default());
    fixture.options.env.clock = Arc::clone(&clock) as _;
    let db = fixture.open();
    db.put(b"a", b"old").unwrap();
    let other = db.clone();
    assert!(clock.callback.set(Box::new(move || other.flush().unwrap())).is_ok());
    clock.is_due.store(true, Ordering::Relaxed);
    fixture.plan("sync .log #1 once EIO");
    let written = db.put_with(b"a", b"new", &WriteOptions::default().sync(true));
    assert_eq!(fixture.names(".ldb").len(), 1, "flushed meanwhile");
    let seen = db.get(b"a").unwrap() == Some(b"new".to_vec());
    assert_eq!(written.is_ok(), seen, "{written:?}");
    let after_crash =
        FaultyDb::on(Arc::new(fixture.memory.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0))));
    assert_eq!(after_crash.open().get(b"a").unwrap() == Some(b"new".to_vec()), seen);
    assert!(db.put(b"b", b"").is_err(), "the durable end of the log is unknown");
}

/// Symptom: an edit was lost in a power cut. Cause: an open syncs the manifest of the earlier run
/// before it removes leftover files. That sync failed and was retried with the next edit, but the
/// kernel had marked the unwritten pages as clean. Guarantee: after the failed sync a new manifest
/// is written.
#[test]
fn failed_manifest_sync_is_not_retried() {
    let fixture = FaultyDb::new();
    fixture.options.env.fs.create_dir("db".as_ref()).unwrap();
    let reuse = fixture.options.clone().reuse_logs(true);
    let db = Db::open("db", &reuse).unwrap();
    db.put(b"a", b"").unwrap();
    db.close().unwrap();
    let manifest = fixture.names("MANIFEST");
    // A leftover file, which the open removes.
    fixture.memory.create("db/000001.dbtmp".as_ref()).unwrap().close().unwrap();
    fixture.plan("sync MANIFEST #1 once sync-loses-data");
    let db = Db::open("db", &reuse).unwrap();
    db.put(b"b", b"").unwrap();
    db.flush().unwrap();
    assert_ne!(fixture.names("MANIFEST"), manifest, "a new manifest");
}

/// Symptom: two processes opened one database. Cause: `destroy` removed the LOCK file just after it
/// released the lock. One opener locked the old file and another a new one. Guarantee: at most one
/// opener holds the lock.
#[test]
fn destroy_never_lets_two_openers_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = Options::default().create_if_missing(true);
    let fs = &options.env.fs;
    let holders = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = fs.create_dir(&path);
                    let Ok(lock) = fs.lock(&path.join("LOCK"), LockMode::Exclusive) else { continue };
                    assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "two openers hold the lock");
                    std::thread::yield_now();
                    holders.fetch_sub(1, Ordering::Relaxed);
                    drop(lock);
                }
            });
        }
        // Wine needs a millisecond for each call of the file system.
        let rounds = if cfg!(windows) { 500 } else { 20_000 };
        for _ in 0..rounds {
            let _ = terrace::destroy(&path, &options);
        }
    });
}

/// Uses its database in a thread-local destructor.
struct UseDbOnDrop(Option<Db>);

impl Drop for UseDbOnDrop {
    fn drop(&mut self) {
        let db = self.0.take().unwrap();
        db.put(b"c", b"last").unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"first".as_slice()));
        assert!(db.get_pinned(b"c").unwrap().is_some());
        db.flush().unwrap();
        assert_eq!(db.iter().count(), 2);
        db.put_with(b"d", b"last", &WriteOptions::default().sync(true)).unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
    }
}

std::thread_local! {
    static LAST: std::cell::RefCell<Option<UseDbOnDrop>> = const { std::cell::RefCell::new(None) };
}

/// Opens and fills a database that a destructor of the calling thread uses and closes.
fn leave_db_to_destructor(options: &Options) {
    // Destroyed last, because it was created first.
    LAST.with(|last| *last.borrow_mut() = Some(UseDbOnDrop(None)));
    let db = Db::open("db", options).unwrap();
    db.put(b"a", b"first").unwrap();
    db.flush().unwrap();
    assert!(db.get(b"a").unwrap().is_some());
    LAST.with(|last| last.borrow_mut().as_mut().unwrap().0 = Some(db));
}

/// Thread-local data of a thread is destroyed in turn. A database still works after its own
/// thread-local data is destroyed, and so in destructors of a C++ program.
#[test]
fn database_works_in_thread_local_destructors() {
    let fs = Arc::new(MemFs::new());
    for n in 0..20 {
        let compression = [&compress::NO_COMPRESSION, &compress::SNAPPY, &compress::ZSTD][n / 7];
        let options = Options::default()
            .create_if_missing(true)
            .env(Env::with_file_system(Arc::clone(&fs) as _))
            .compression(compression);
        std::thread::scope(|scope| scope.spawn(move || leave_db_to_destructor(&options)).join().unwrap());
        let db =
            Db::open("db", &Options::default().env(Env::with_file_system(Arc::clone(&fs) as _))).unwrap();
        assert_eq!(db.iter().count(), 3);
        db.delete(b"d").unwrap();
        db.delete(b"c").unwrap();
    }
}

/// Writes two tables, replaces them by a compaction, and returns an iterator that still needs them.
fn iterator_over_replaced_tables(db: &Db) -> terrace::DbIterator {
    for value in ["1", "2"] {
        db.put("a", value).unwrap();
        db.put("z", value).unwrap();
        db.flush().unwrap();
    }
    let mut iter = db.raw_iter();
    iter.seek_to_first();
    db.compact_range(None, None).unwrap();
    iter
}

#[test]
fn dropped_iterator_leaves_the_removal_of_its_tables_to_a_job() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    let iter = iterator_over_replaced_tables(&db);
    fixture.background.run_until_idle();
    let held = fixture.names(".ldb").len();
    assert!(held > 1, "the iterator keeps its tables: {held}");
    drop(iter);
    assert_eq!(fixture.names(".ldb").len(), held, "the reader itself removes nothing");
    assert_eq!(fixture.background.pending_jobs(), 1);
    fixture.background.run_until_idle();
    assert_eq!(fixture.names(".ldb").len(), 1);
    db.close().unwrap();
}

#[test]
fn close_runs_a_pending_removal() {
    let fixture = FaultyDb::new();
    let db = fixture.open();
    drop(iterator_over_replaced_tables(&db));
    assert!(fixture.names(".ldb").len() > 1);
    db.close().unwrap();
    assert_eq!(fixture.names(".ldb").len(), 1);
    assert_eq!(fixture.background.pending_jobs(), 0);
}

#[test]
fn removal_does_not_wait_for_a_compaction() {
    let memory = Arc::new(MemFs::new());
    let scheduler = Arc::new(ThreadPool::new(1, 1));
    let env =
        Env { scheduler: Arc::clone(&scheduler) as _, ..Env::with_file_system(Arc::clone(&memory) as _) };
    let db = Db::open("db", &Options::default().create_if_missing(true).env(env)).unwrap();
    let iter = iterator_over_replaced_tables(&db);
    // Occupies the only compaction thread.
    let (end_compaction, compaction) = mpsc::channel::<()>();
    scheduler.schedule(Priority::Compaction, Box::new(move || compaction.recv().unwrap_or_default()));
    drop(iter);
    // The only flush thread runs this job after the removal.
    let (send, removed) = mpsc::channel();
    scheduler.schedule(Priority::Flush, Box::new(move || send.send(()).unwrap()));
    removed.recv().unwrap();
    let names = memory.list("db".as_ref()).unwrap();
    let tables = names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb"));
    assert_eq!(tables.count(), 1);
    drop(end_compaction);
    db.close().unwrap();
}
