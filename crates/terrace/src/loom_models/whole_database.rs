//! Models of whole databases on files in memory, with their own threads.

use terrace_env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace_env::{FileSystem, ManualClock, SeededRandom, ThreadPool};
use terrace_sync::thread;

use crate::db::Db;
use crate::options::{Options, ReadOptions, WriteOptions};
use crate::sync::Arc;
use terrace_env::Env;

/// Returns an env on `fs`. A call of a file in memory is one step, and loom runs the threads of the
/// pool.
pub(super) fn env(fs: Arc<dyn FileSystem>) -> Env {
    Env {
        fs,
        clock: Arc::new(ManualClock::default()),
        scheduler: Arc::new(ThreadPool::new(1, 1)),
        random: Arc::new(SeededRandom::new(0)),
    }
}

/// Returns files in memory that are read by calls. Slots of mapped blocks have a model of their own
/// (`restart_index`). Here, the sixteen words of each slot would multiply the schedules.
pub(super) fn files() -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.set_max_mappings(0);
    Arc::new(fs)
}

/// Returns options on new files in memory.
pub(super) fn options() -> Options {
    let env = env(files());
    Options { create_if_missing: true, env, ..Options::default() }
}

fn open(fs: &Arc<MemFs>) -> Db {
    Db::open("/db", &Options { env: env(fs.clone()), ..options() }).unwrap()
}

fn value(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    db.get(key).unwrap()
}

/// One handle flushes while the other one is closed. The last handle closes the database.
pub(super) fn closing() {
    let fs = files();
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    let clone = db.clone();
    let flush = thread::spawn(move || clone.flush().unwrap());
    db.close().unwrap();
    flush.join().unwrap();
    let db = open(&fs);
    assert!(value(&db, b"a").is_some());
    db.close().unwrap();
}

pub(super) fn writing() {
    let fs = files();
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    let clone = db.clone();
    let flush = thread::spawn(move || clone.flush().unwrap());
    db.put_with(b"b", b"2", &WriteOptions { sync: true }).unwrap();
    let image = Arc::new(fs.crash_clone(&POWER_LOSS_PROFILES[0].crash_with_seed(0)));
    flush.join().unwrap();
    db.close().unwrap();
    let reopened = open(&image);
    assert!(
        value(&reopened, b"a").is_some() && value(&reopened, b"b").is_some(),
        "a power cut lost a sync write"
    );
    reopened.close().unwrap();
}

pub(super) fn reading() {
    let fs = files();
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"a", b"2").unwrap();
    let clone = db.clone();
    let compaction = thread::spawn(move || clone.compact_range(None, None).unwrap());
    let snapshot = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.put(b"a", b"3").unwrap();
    assert_eq!(db.get_with(b"a", &snapshot).unwrap().as_deref(), Some(b"2".as_slice()));
    assert_eq!(value(&db, b"a").as_deref(), Some(b"3".as_slice()));
    compaction.join().unwrap();
    assert_eq!(db.get_with(b"a", &snapshot).unwrap().as_deref(), Some(b"2".as_slice()));
    drop(snapshot);
    db.close().unwrap();
}
