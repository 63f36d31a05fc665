//! Calls that never wait use no file, have no effect when they refuse, and agree with those that
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::env::fault::{FaultFs, FaultPlan};
use terrace::env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace::env::{Clock, DeterministicScheduler};
use terrace::{Db, Env, Error, MappedLogs, Options, ReadOptions, WriteBatch, WriteOptions, compress};
use terrace_testkit::SetOnDrop;

/// Clock of a database whose threads must not sleep.
#[derive(Debug)]
struct SleeplessClock;

impl Clock for SleeplessClock {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, pause: Duration) {
        panic!("slept for {pause:?}");
    }
}

fn options(fs: Arc<FaultFs>) -> Options {
    let env = Env {
        fs,
        scheduler: DeterministicScheduler::new(1),
        clock: Arc::new(SleeplessClock),
        ..Env::in_memory()
    };
    Options::default().create_if_missing(true).write_buffer_size(64 << 10).env(env)
}

fn fault_fs() -> Arc<FaultFs> {
    Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()))
}

fn key(n: usize) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn batch(n: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key(n), [n as u8; 100]);
    batch
}

/// Writes with `try_write` from key `first` on until it refuses. Returns the refused key.
fn fill_memtable(db: &Db, first: usize) -> usize {
    for n in first.. {
        match db.try_write(&batch(n), &WriteOptions::default()) {
            Ok(()) => assert!(n < first + 10_000, "the memtable is never full"),
            Err(error) => {
                assert!(error.is_would_wait(), "{error}");
                return n;
            }
        }
    }
    unreachable!()
}

/// Two reads with the same stamp see both values of a batch, or both of another one.
#[test]
fn reads_with_one_stamp_see_one_state() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).write_buffer_size(64 << 10);
    let db = Db::open(dir.path(), &options).unwrap();
    let is_done = AtomicBool::new(false);
    let unchanged = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _set_at_end = SetOnDrop(&is_done);
            for n in 0..4000u32 {
                let mut batch = WriteBatch::new();
                batch.put(b"a", n.to_le_bytes()).put(b"z", n.to_le_bytes());
                db.write(&batch).unwrap();
                if n % 500 == 0 {
                    db.flush().unwrap();
                }
            }
        });
        let mut unchanged = 0;
        while !is_done.load(Ordering::Relaxed) {
            let stamp = db.state_stamp();
            let first = db.get(b"a").unwrap();
            let last = db.get(b"z").unwrap();
            if db.is_unchanged_since(stamp) {
                assert_eq!(first, last);
                unchanged += 1;
            }
        }
        unchanged
    });
    assert!(unchanged > 0, "no pair of reads was undisturbed");
    let stamp = db.state_stamp();
    assert!(db.is_unchanged_since(stamp));
    db.flush().unwrap();
    assert!(!db.is_unchanged_since(stamp), "a table was installed");
}

/// A block that no read has verified is in the page cache after its flush.
#[cfg(unix)] // Windows maps no tables.
#[test]
fn try_get_reads_the_page_cache() {
    for codec in [&compress::SNAPPY, &compress::NO_COMPRESSION] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().create_if_missing(true).compression(codec);
        let db = Db::open(dir.path(), &options).unwrap();
        let read = ReadOptions::default();
        (0..2000).for_each(|n| db.put(key(n), [n as u8; 100]).unwrap());
        db.flush().unwrap();
        assert!(db.contains(key(0)).unwrap(), "the table is open");
        for n in 0..2000 {
            let found = db.try_get(key(n), &read).unwrap();
            assert_eq!(found.as_deref(), Some(&[n as u8; 100][..]), "{n}");
        }
        assert!(db.try_get("missing", &read).unwrap().is_none());
    }
}

#[test]
fn try_get_answers_from_memory_only() {
    for codec in [&compress::SNAPPY, &compress::NO_COMPRESSION] {
        for maps_files in [false, true] {
            let fs = FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default());
            let fs = Arc::new(if maps_files { fs.with_mapped_files() } else { fs });
            let db = Db::open("db", &options(Arc::clone(&fs)).compression(codec)).unwrap();
            let read = ReadOptions::default();
            (0..200).for_each(|n| db.put(key(n), [n as u8; 100]).unwrap());
            let before = fs.total_call_count();
            assert_eq!(db.try_get(key(7), &read).unwrap().as_deref(), Some(&[7; 100][..]));
            assert!(db.try_get("missing", &read).unwrap().is_none());
            assert_eq!(fs.total_call_count(), before);

            db.flush().unwrap();
            let before = fs.total_call_count();
            for n in 0..200 {
                assert!(matches!(db.try_get(key(n), &read), Err(Error::WouldWait)), "closed table, key {n}");
            }
            assert_eq!(fs.total_call_count(), before, "a refused get used a file");

            assert!(db.get(key(0)).unwrap().is_some());
            assert!(db.try_get(key(0), &read).unwrap().is_some(), "its block was read");
            assert!(matches!(db.try_get(key(199), &read), Err(Error::WouldWait)), "another block");

            (0..200).for_each(|n| assert!(db.contains(key(n)).unwrap()));
            let before = fs.total_call_count();
            for n in 0..200 {
                assert_eq!(db.try_get(key(n), &read).unwrap().as_deref(), Some(&[n as u8; 100][..]), "{n}");
            }
            assert_eq!(fs.total_call_count(), before);
        }
    }
}

#[test]
fn refused_write_has_no_effect() {
    let fs = fault_fs();
    let db = Db::open("db", &options(Arc::clone(&fs))).unwrap();
    let full = fill_memtable(&db, 0);
    assert!(full > 100, "{full} writes");
    let calls = fs.total_call_count();
    assert!(matches!(db.try_write(&batch(full), &WriteOptions::default()), Err(Error::WouldWait)));
    assert_eq!(fs.total_call_count(), calls, "a refused write used a file");
    assert_eq!(db.get(key(full)).unwrap(), None);
    assert_eq!(db.last_change(key(full)).unwrap(), None);

    db.write(&batch(full)).unwrap();
    let next = fill_memtable(&db, full + 1);
    assert!(next > full + 100, "the next memtable has room");
    assert_eq!(db.iter().count(), next);
    db.close().unwrap();
    let db = Db::open("db", &options(fs)).unwrap();
    assert_eq!(db.iter().count(), next, "each successful write is stored once");
}

#[test]
fn stall_is_announced() {
    let fs = fault_fs();
    let db = Db::open("db", &options(fs)).unwrap();
    let mut next = 0;
    // No job runs, because no thread waits for one.
    for _ in 0..100 {
        assert!(!db.would_wait());
        next = fill_memtable(&db, next);
        if db.would_wait() {
            return;
        }
        db.put(key(next), b"").unwrap();
        next += 1;
    }
    panic!("no stall after {next} writes");
}

#[test]
fn sync_is_left_to_the_caller() {
    let mem = Arc::new(MemFs::new());
    let fs = Arc::new(FaultFs::new(Arc::clone(&mem) as _, FaultPlan::default()));
    let db = Db::open("db", &options(fs)).unwrap();
    let durable = WriteOptions::default().sync(true);
    assert!(matches!(db.try_write(&batch(0), &durable), Err(Error::WouldWait)));
    assert_eq!(db.get(key(0)).unwrap(), None);
    db.try_write(&batch(1), &WriteOptions::default()).unwrap();
    db.sync().unwrap();
    for profile in POWER_LOSS_PROFILES {
        let fs = Arc::new(mem.crash_clone(&profile.crash_with_seed(1)));
        let env = Env { fs, ..Env::in_memory() };
        let copy = Db::open("db", &Options::default().env(env)).unwrap();
        assert_eq!(copy.get(key(1)).unwrap().as_deref(), Some(&[1; 100][..]), "{profile:?}");
    }
}

#[test]
fn closed_and_oversized_are_errors_as_in_a_write() {
    let db = Db::open("db", &options(fault_fs())).unwrap();
    db.shutdown().unwrap();
    assert!(matches!(db.try_write(&batch(1), &WriteOptions::default()), Err(Error::NotSupported(_))));
    assert!(matches!(
        db.try_write(&WriteBatch::new(), &WriteOptions::default()),
        Err(Error::NotSupported(_))
    ));
    assert!(matches!(db.sync(), Err(Error::NotSupported(_))));
}

/// Threads that write with both kinds of calls, with mapped and with appended logs.
#[test]
fn concurrent_writes_are_all_stored() {
    for mapped_logs in [MappedLogs::Always, MappedLogs::Never] {
        let directory = tempfile::tempdir().unwrap();
        let options =
            Options::default().create_if_missing(true).mapped_logs(mapped_logs).write_buffer_size(64 << 10);
        let db = Db::open(directory.path(), &options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    for n in (0..4000).filter(|n| n % 4 == thread) {
                        match db.try_write(&batch(n), &WriteOptions::default()) {
                            Err(error) if error.is_would_wait() => db.write(&batch(n)).unwrap(),
                            outcome => outcome.unwrap(),
                        }
                        let value = match db.try_get(key(n), &ReadOptions::default()) {
                            Err(error) if error.is_would_wait() => db.get_pinned(key(n)).unwrap(),
                            value => value.unwrap(),
                        };
                        assert_eq!(value.as_deref(), Some(&[n as u8; 100][..]), "own write {n}");
                    }
                });
            }
        });
        assert_eq!(db.iter().count(), 4000, "{mapped_logs:?}");
    }
}
