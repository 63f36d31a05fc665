//! What failures and ends leave behind: no file that nobody needs, nobody who waits, and no work on what is somebody else's by now.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace::{BloomFilterPolicy, Db, Env, Options, RepairOptions, WriteOptions, compress};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{AccessMode, Clock, DeterministicScheduler, FileSystem, LockMode, Priority};

/// A file system in memory that can fail, and jobs that run when they are told to or waited for.
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
        let options = Options { create_if_missing: true, env, ..Options::default() };
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

    /// All files but the info log, with their bytes.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let path = Path::new("db").join(&name);
            let mut bytes = vec![0; self.memory.file_size(&path).unwrap() as usize];
            self.memory.open_random_access(&path, AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
            (name, bytes)
        };
        self.names("").into_iter().filter(|name| !name.starts_with("LOG")).map(read).collect()
    }
}

/// A flush had failed for want of space, and the database was closed. Reads by who still had a handle or an iterator had that
/// flush tried again, behind the lock: it wrote to the manifest, and removed a log, of whoever had opened the database since.
#[test]
fn old_handles_do_not_modify_a_closed_database() {
    let mut trial = FaultyDb::new();
    // A filter that lets all through.
    trial.options.filter_policy = Some(Arc::new(BloomFilterPolicy::new(0)));
    let db = trial.open();
    for step in [1, 2] {
        (0..2000u32).step_by(step).for_each(|n| db.put(&n.to_be_bytes(), b"old").unwrap());
        db.flush().unwrap();
    }
    db.put(b"x", b"late").unwrap();
    trial.plan("create .ldb #1 forever ENOSPC");
    assert!(db.flush().unwrap_err().is_retryable());
    db.shutdown().unwrap();
    trial.plan("");
    let again = trial.open();
    again.put(b"y", b"new").unwrap();
    let before = trial.files();
    for n in (1..2000u32).step_by(2) {
        // Past a table that has it not.
        assert!(db.get(&n.to_be_bytes()).unwrap().is_some());
        trial.background.run_until_idle();
    }
    assert!(trial.files() == before, "{:?}", trial.names(""));
    assert!(again.get(b"x").unwrap().is_some() && again.get(b"y").unwrap().is_some());
}

/// Who waited for a merge of a range when the database was closed under him waited for ever.
#[test]
fn close_wakes_a_waiting_compact_range() {
    let trial = FaultyDb::new();
    let db = trial.open();
    db.put(b"a", b"").unwrap();
    db.flush().unwrap();
    let other = db.clone();
    // Done by who waits, before the merge.
    trial.options.env.scheduler.schedule(Priority::Compaction, Box::new(move || other.shutdown().unwrap()));
    let error = db.compact_range(None, None).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

/// An open that failed behind the replay of the logs left the tables that it had made of them. Each further try made others, and a
/// disk that had been nearly full was soon full.
#[test]
fn failed_open_leaves_no_tables() {
    let trial = FaultyDb::new();
    let db = trial.open();
    (0..1000u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 100]).unwrap());
    let trial = FaultyDb::on(Arc::new(trial.memory.crash_clone(&Crash::Kill)));
    let before = trial.names("");
    for plan in [
        "create-log * #1 forever ENOSPC",
        "create MANIFEST #1 forever ENOSPC",
        "create .dbtmp #1 forever EMFILE",
    ] {
        trial.plan(plan);
        for _ in 0..3 {
            assert!(Db::open("db", &trial.options).unwrap_err().is_retryable(), "{plan}");
        }
        let left: Vec<_> = trial.names("").into_iter().filter(|name| !name.starts_with("LO")).collect();
        assert_eq!(
            left,
            before.iter().filter(|name| !name.starts_with("LO")).cloned().collect::<Vec<_>>(),
            "{plan}"
        );
    }
    trial.plan("");
    assert_eq!(trial.open().iter().into_forward().count(), 1000);
}

/// An open that went on with an empty log, and failed for want of space, removed that log as if it were its own. The manifest ended with
/// an edit that had been torn, so that the next open had to take the log for lost to that edit: only a repair helped.
#[test]
fn failed_open_removes_only_its_own_log() {
    let trial = FaultyDb::new();
    let db = trial.open();
    for _ in 0..2 {
        db.put(b"a", b"").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let log = trial.names(".log");
    assert_eq!(trial.files().iter().find(|(name, _)| *name == log[0]).map(|(_, bytes)| bytes.len()), Some(0));
    // An edit that was being written when the power failed.
    let manifest = Path::new("db").join(&trial.names("MANIFEST")[0]);
    let mut file = trial.memory.open_append(&manifest).unwrap();
    file.append(&[1, 2, 3]).unwrap();
    file.close().unwrap();
    trial.plan("create MANIFEST #1 forever ENOSPC");
    assert!(Db::open("db", &trial.options).unwrap_err().is_retryable());
    assert_eq!(trial.names(".log"), log);
    trial.plan("");
    assert!(trial.open().get(b"a").unwrap().is_some());
}

/// A repair that failed at its end left the tables that it had made, and the next one took them for the database's.
#[test]
fn failed_repair_leaves_no_tables() {
    let trial = FaultyDb::new();
    let db = trial.open();
    (0..1000u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 100]).unwrap());
    let trial = FaultyDb::on(Arc::new(trial.memory.crash_clone(&Crash::Kill)));
    trial.memory.remove("db/CURRENT".as_ref()).unwrap();
    trial.memory.remove(&Path::new("db").join(&trial.names("MANIFEST")[0])).unwrap();
    let before = trial.names(".ldb");
    for plan in ["create MANIFEST #1 forever ENOSPC", "create .dbtmp #1 forever EMFILE"] {
        trial.plan(plan);
        for _ in 0..3 {
            assert!(terrace::repair("db", &trial.options, &RepairOptions::default()).is_err(), "{plan}");
        }
        assert_eq!((trial.names(".ldb"), trial.names("MANIFEST").len()), (before.clone(), 0), "{plan}");
    }
    trial.plan("");
    terrace::repair("db", &trial.options, &RepairOptions::default()).unwrap();
    assert_eq!(trial.open().iter().into_forward().count(), 1000);
}

/// A merge whose edit was not begun to be written left its tables behind: it was taken for one that may count. So did each attempt.
#[test]
fn uninstalled_compaction_leaves_no_tables() {
    let trial = FaultyDb::new();
    let db = trial.open();
    for plan in [
        "sync-dir db #1 once EMFILE",
        // The edit may count, and settles nothing; what comes next is a new manifest.
        "append MANIFEST #1 once ENOSPC; create MANIFEST #1 x2 ENOSPC; create .dbtmp #1 once EMFILE",
    ] {
        trial.plan("");
        for value in [b"1", b"2"] {
            db.put(b"a", value).unwrap();
            db.put(b"z", value).unwrap();
            db.flush().unwrap();
        }
        trial.plan(plan);
        let mut failed = 0;
        while let Err(error) = db.compact_range(None, None) {
            assert!(error.is_retryable(), "{plan}: {error}");
            failed += 1;
            assert!(failed < 10);
        }
        assert!(failed >= 1, "{plan}");
        // That of the edit which may have counted stays until the next open.
        let doubtful = usize::from(plan.contains("append"));
        let live: usize = db.levels().iter().map(|level| level.files.len()).sum();
        assert_eq!((live, trial.names(".ldb").len()), (1, 1 + doubtful), "{plan}, failed {failed} times");
        assert_eq!(trial.names("MANIFEST").len(), 1, "{plan}");
    }
    assert_eq!(db.get(b"a").unwrap(), Some(b"2".to_vec()));
}

/// Does something when it is asked for the time, once.
#[derive(Default)]
struct CallbackClock {
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_due: AtomicBool,
}

impl std::fmt::Debug for CallbackClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
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

/// While a write waited for its log to be synced, a flush made a table of it. Then the sync failed: the write was said to have failed,
/// and could be read all the same. But the table is durable, and so is the write.
#[test]
fn flushed_write_survives_a_failed_wal_sync() {
    let mut trial = FaultyDb::new();
    let clock = Arc::new(CallbackClock::default());
    trial.options.env.clock = Arc::clone(&clock) as _;
    let db = trial.open();
    db.put(b"a", b"old").unwrap();
    let other = db.clone();
    assert!(clock.callback.set(Box::new(move || other.flush().unwrap())).is_ok());
    clock.is_due.store(true, Ordering::Relaxed);
    trial.plan("sync .log #1 once EIO");
    let written = db.put_with(b"a", b"new", &WriteOptions { sync: true });
    assert_eq!(trial.names(".ldb").len(), 1, "flushed meanwhile");
    let seen = db.get(b"a").unwrap() == Some(b"new".to_vec());
    assert_eq!(written.is_ok(), seen, "{written:?}");
    let cut = FaultyDb::on(Arc::new(trial.memory.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0))));
    assert_eq!(cut.open().get(b"a").unwrap() == Some(b"new".to_vec()), seen);
    assert!(db.put(b"b", b"").is_err(), "what is on the medium is unknown");
}

/// A sync of an earlier run's manifest failed, which was asked for before leftovers are removed, and was tried again with the next
/// edit: then it says nothing any more, for the system takes what it could not write for written.
#[test]
fn failed_manifest_sync_is_not_retried() {
    let trial = FaultyDb::new();
    trial.options.env.fs.create_dir("db".as_ref()).unwrap();
    let reuse = Options { reuse_logs: true, ..trial.options.clone() };
    let db = Db::open("db", &reuse).unwrap();
    db.put(b"a", b"").unwrap();
    db.close().unwrap();
    let manifest = trial.names("MANIFEST");
    // Something to be swept.
    trial.memory.create("db/000001.dbtmp".as_ref()).unwrap().close().unwrap();
    trial.plan("sync MANIFEST #1 once sync-loses-data");
    let db = Db::open("db", &reuse).unwrap();
    db.put(b"b", b"").unwrap();
    db.flush().unwrap();
    assert_ne!(trial.names("MANIFEST"), manifest, "a new one");
}

/// The name of the lock went a moment after the lock did: who took that in between, and who made a new one of the name, had both of
/// them opened the database.
#[test]
fn destroy_never_lets_two_openers_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (path, options) = (dir.path().join("db"), Options { create_if_missing: true, ..Options::default() });
    let fs = &options.env.fs;
    let (inside, gone) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !gone.load(Ordering::Relaxed) {
                    let _ = fs.create_dir(&path);
                    let Ok(lock) = fs.lock(&path.join("LOCK"), LockMode::Exclusive) else { continue };
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two have the lock");
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                    drop(lock);
                }
            });
        }
        for _ in 0..20_000 {
            let _ = terrace::destroy(&path, &options);
        }
        gone.store(true, Ordering::Relaxed);
    });
}

/// Uses its database when the thread that has it ends.
struct UseDbOnDrop(Option<Db>);

impl Drop for UseDbOnDrop {
    fn drop(&mut self) {
        let db = self.0.take().unwrap();
        db.put(b"c", b"last").unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(b"first".as_slice()));
        assert!(db.get_pinned(b"c").unwrap().is_some());
        db.flush().unwrap();
        assert_eq!(db.iter().into_forward().count(), 2);
        db.put_with(b"d", b"last", &WriteOptions { sync: true }).unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
    }
}

std::thread_local! {
    static LAST: std::cell::RefCell<Option<UseDbOnDrop>> = const { std::cell::RefCell::new(None) };
}

/// What a thread has for itself goes in turn when it ends. A database is of use behind its own part of that, too, and so in destructors
/// of a C++ program.
#[test]
fn database_works_in_thread_local_destructors() {
    let fs = Arc::new(MemFs::new());
    for n in 0..20 {
        let compression = [&compress::NO_COMPRESSION, &compress::SNAPPY, &compress::ZSTD][n / 7];
        let options = Options {
            create_if_missing: true,
            env: Env::with_file_system(Arc::clone(&fs) as _),
            compression,
            ..Options::default()
        };
        let work = move || {
            // Goes last, because it came first.
            LAST.with(|last| *last.borrow_mut() = Some(UseDbOnDrop(None)));
            let db = Db::open("db", &options).unwrap();
            db.put(b"a", b"first").unwrap();
            db.flush().unwrap();
            assert!(db.get(b"a").unwrap().is_some());
            LAST.with(|last| last.borrow_mut().as_mut().unwrap().0 = Some(db));
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        let db = Db::open(
            "db",
            &Options { env: Env::with_file_system(Arc::clone(&fs) as _), ..Options::default() },
        )
        .unwrap();
        assert_eq!(db.iter().into_forward().count(), 3);
        db.delete(b"d").unwrap();
        db.delete(b"c").unwrap();
    }
}
