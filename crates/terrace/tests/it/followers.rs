//! Followers: reads beside a writer, in this process and in another one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::{
    Backups, Db, Env, Error, ErrorKind, FollowOptions, Options, ReadOptions, RepairOptions, WriteBatch,
    verify,
};
use terrace_env::DeterministicScheduler;
#[cfg(unix)]
use terrace_env::SystemFs;
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_testkit::SetOnDrop;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;
use terrace_torture::followed_history::{self, ExpectedState};

use crate::{files, process};

fn in_memory() -> Options {
    Options::default().create_if_missing(true).env(Env::in_memory())
}

/// Options of a writer that flushes and compacts all the time.
pub(crate) fn busy() -> Options {
    Options::default().create_if_missing(true).write_buffer_size(Some(64 << 10))
}

fn each_read() -> FollowOptions {
    FollowOptions::default().every(Duration::ZERO)
}

fn follow(path: impl AsRef<Path>, options: &Options) -> Db {
    Db::follow(path, options, &each_read()).unwrap()
}

pub(crate) fn write_history(db: &Db, writes: std::ops::RangeInclusive<u64>) {
    for write in writes {
        let mut batch = WriteBatch::new();
        for (key, value) in followed_history::batch(write) {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        db.write(&batch).unwrap();
    }
}

#[track_caller]
fn check_history(follower: &Db, write: u64) {
    let mut state = ExpectedState::default();
    let snapshot = follower.snapshot();
    state.check_next(&snapshot).unwrap();
    state.check_gets(&snapshot).unwrap();
    assert_eq!(state.write(), write);
}

#[test]
fn follower_sees_each_write() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let follower = follow("db", &options);
    for n in 0..2000u32 {
        db.put((n % 100).to_be_bytes(), n.to_be_bytes()).unwrap();
        match n % 250 {
            100 => db.flush().unwrap(),
            200 => db.compact_range(None, None).unwrap(),
            _ => {}
        }
        assert_eq!(follower.get((n % 100).to_be_bytes()).unwrap().unwrap(), n.to_be_bytes(), "write {n}");
    }
    assert_eq!(follower.catch_up().unwrap(), 2000);
    assert_eq!(follower.iter().count(), 100);
    assert_eq!(follower.multi_get(&[7u32.to_be_bytes()]).unwrap(), [Some(1907u32.to_be_bytes().to_vec())]);
}

/// A follower keeps its state for the time that its options say, and no longer.
#[test]
fn age_of_the_state() {
    let clock = Arc::new(terrace_env::ManualClock::new(0));
    let env = Env { clock: Arc::clone(&clock) as Arc<dyn terrace_env::Clock>, ..Env::in_memory() };
    let options = Options::default().create_if_missing(true).env(env);
    let db = Db::open("db", &options).unwrap();
    let follower = Db::follow("db", &options, &FollowOptions::default()).unwrap();
    db.put("key", "1").unwrap();
    assert_eq!(follower.get("key").unwrap(), None);
    clock.advance(Duration::from_millis(9));
    assert_eq!(follower.get("key").unwrap(), None);
    assert!(follower.property("terrace.lag").unwrap().contains(" 9000\n"));
    clock.advance(Duration::from_millis(1));
    assert_eq!(follower.get("key").unwrap().unwrap(), b"1");
    db.put("key", "2").unwrap();
    assert_eq!(follower.catch_up().unwrap(), 2);
    assert_eq!(follower.get("key").unwrap().unwrap(), b"2");
    assert_eq!(db.catch_up().unwrap(), 2, "a writer is always caught up");
    assert_eq!(db.property("terrace.lag"), None);
}

/// Symptom: a follower did not show the writes of a WAL. Cause: it had dropped the WAL, because the
/// MANIFEST had the edit of its flush. The sync of the edit failed, and the next MANIFEST lacked
/// the edit. Guarantee: the follower reads the WAL again.
#[test]
fn flush_that_the_next_manifest_lacks() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let env =
        Env { scheduler: DeterministicScheduler::new(1), ..Env::with_file_system(Arc::clone(&fs) as _) };
    let options = Options::default().create_if_missing(true).env(env);
    let db = Db::open("db", &options).unwrap();
    let follower = follow("db", &options);
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("k", "2").unwrap();
    assert_eq!(follower.get("k").unwrap().unwrap(), b"2");
    fs.set_plan("sync MANIFEST #1 once ENOSPC".parse().unwrap());
    assert!(db.flush().unwrap_err().is_retryable());
    db.put("l", "3").unwrap();
    let keys = |follower: &Db| follower.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>().concat();
    assert_eq!(keys(&follower), b"akl");
    // Its edit drops the table of the first flush, and contains no flush.
    db.delete_range("a".."b").unwrap();
    assert_eq!(keys(&follower), b"kl");
    db.flush().unwrap();
    assert_eq!(keys(&follower), b"kl");
}

/// A read replays a part of a large backlog, and each part is a state of the writer.
#[test]
fn backlog_in_parts() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let follower = follow("db", &options);
    for n in 0..10_000u32 {
        db.put("count", n.to_be_bytes()).unwrap();
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&9999) {
        let value = follower.get("count").unwrap().unwrap();
        seen.push(u32::from_be_bytes(value.try_into().unwrap()));
    }
    assert_eq!(seen, [4095, 8191, 9999]);
}

#[test]
fn snapshots_and_iterators_hold_their_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = busy();
    let db = Db::open(&path, &options).unwrap();
    write_history(&db, 1..=3000);
    let follower = follow(&path, &options);
    let snapshot = follower.snapshot();
    let mut iter = follower.raw_iter();
    let options_then = ReadOptions::default().snapshot(snapshot.clone());
    write_history(&db, 3001..=9000);
    db.compact_range(None, None).unwrap();
    check_history(&follower, 9000);
    let mut then = ExpectedState::default();
    then.check_next(&snapshot).unwrap();
    then.check_gets(&snapshot).unwrap();
    assert_eq!(then.write(), 3000);
    iter.seek(followed_history::count_key());
    assert_eq!(iter.value(), 3000u64.to_le_bytes());
    iter.status().unwrap();
    let count = follower.get_with(followed_history::count_key(), &options_then).unwrap().unwrap();
    assert_eq!(count, 3000u64.to_le_bytes());
    // A snapshot of another database, as everywhere.
    let other = follow(&path, &options);
    assert_eq!(other.get_with("count", &options_then).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Symptom: the checkpoint of a follower showed only the flushed writes to LevelDB and to other
/// followers. Cause: its MANIFEST had the sequence number of the last flush. Guarantee: the copy
/// has the state that the follower showed.
#[test]
fn checkpoint_of_a_follower_holds_its_state() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::default().create_if_missing(true);
    let db = Db::open(at("db"), &options).unwrap();
    db.put("a", "").unwrap();
    db.flush().unwrap();
    (0..5).for_each(|n| db.put(format!("k{n}"), "").unwrap());
    let follower = follow(at("db"), &options);
    assert_eq!(follower.checkpoint(at("copy")).unwrap(), 6);
    assert!(verify(at("copy"), &options).unwrap().is_clean());
    assert_eq!(follow(at("copy"), &options).iter().count(), 6);
    if let Some(stock) = stock_leveldb_or_skip() {
        let copy = stock.open(&at("copy"), &Settings::default()).unwrap();
        for key in ["a", "k0", "k4"] {
            assert!(copy.get(key.as_bytes(), None).unwrap().is_some(), "{key}");
        }
    }
}

/// Symptom: checkpoints and backups of a follower failed beside a busy writer, because a table did
/// not exist. Cause: the writer removes tables whose names the follower has not used yet.
/// Guarantee: the copy comes from the open files.
#[test]
fn copies_of_a_follower_survive_the_removal_of_its_tables() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::default().create_if_missing(true);
    let db = Db::open(at("db"), &options).unwrap();
    for value in ["old", "new"] {
        (0..100).for_each(|n| db.put(format!("k{n}"), value).unwrap());
        db.flush().unwrap();
    }
    let state_of_open = FollowOptions::default().every(Duration::from_secs(3600));
    let follower = Db::follow(at("db"), &options, &state_of_open).unwrap();
    assert!(follower.levels().iter().map(|level| level.files.len()).sum::<usize>() > 1);
    let held = files::names(&at("db"));
    db.put("later", "").unwrap();
    db.compact_range(None, None).unwrap();
    let left = files::names(&at("db"));
    assert!(held.iter().any(|name| name.ends_with(".ldb") && !left.contains(name)), "{held:?} {left:?}");

    follower.checkpoint(at("copy")).unwrap();
    let backups = Backups::open(at("backups"), &options).unwrap();
    let backup = backups.create(&follower).unwrap();
    backups.restore(backup.id, at("restored")).unwrap();
    assert!(backups.verify(backup.id).unwrap().is_clean());
    for copy in ["copy", "restored"] {
        assert!(verify(at(copy), &options).unwrap().is_clean(), "{copy}");
        let copy = Db::open(at(copy), &options).unwrap();
        assert_eq!(copy.get("k7").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(copy.iter().count(), 100, "the state of the follower");
    }
}

/// Symptom: a checkpoint of a follower lost keys, and later writes appeared in it one by one.
/// Cause: a catch-up during the call added writes to the memtable that the call then stored.
/// Guarantee: the copy has the state at its begin.
#[test]
fn catch_up_during_a_checkpoint_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = Options::default().create_if_missing(true);
    let db = Db::open(at("db"), &options).unwrap();
    db.put("a", "in a table").unwrap();
    db.flush().unwrap();
    ["k", "m", "z"].iter().for_each(|key| db.put(key, "old").unwrap());
    let follower = follow(at("db"), &options);
    let mut has_caught_up = false;
    let last = follower.checkpoint_with_progress(at("copy"), |_, _| {
        if !has_caught_up {
            let mut batch = WriteBatch::new();
            for key in ["k", "m", "n"] {
                batch.put(key, "new");
            }
            db.write(&batch).unwrap();
            assert_eq!(follower.catch_up().unwrap(), 7);
            has_caught_up = true;
        }
    });
    assert!(has_caught_up);
    assert_eq!(last.unwrap(), 4);
    assert!(verify(at("copy"), &options).unwrap().is_clean());
    let copy = Db::open(at("copy"), &options).unwrap();
    for key in ["k", "m", "z"] {
        assert_eq!(copy.get(key).unwrap().as_deref(), Some(&b"old"[..]), "{key}");
    }
    assert_eq!(copy.iter().count(), 4);
    copy.put("later", "").unwrap();
    assert_eq!(copy.get("n").unwrap(), None);
}

#[test]
fn follower_refuses_writes_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=2000);
    db.close().unwrap();
    let before = files::names(&path);
    let follower = follow(&path, &busy());
    check_history(&follower, 2000);
    for error in [
        follower.put("key", "").unwrap_err(),
        follower.delete("key").unwrap_err(),
        follower.flush().unwrap_err(),
        follower.compact_range(None, None).unwrap_err(),
        follower.delete_range::<&str>(..).unwrap_err(),
        follower.transact(|transaction| transaction.put("key", "")).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "not supported: a follower cannot write");
    }
    let mut read_only = follower.begin(&Default::default());
    assert!(read_only.get("count").unwrap().is_some());
    read_only.commit().unwrap();
    drop(follower);
    assert_eq!(files::names(&path), before);
}

/// Several followers and the writer in one process, with flushes, compactions, closes and opens.
#[test]
fn threads_of_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=10);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&is_done);
        for every in [Duration::ZERO, Duration::from_millis(2)] {
            let path = &path;
            let is_done = &is_done;
            scope.spawn(move || {
                let follower = Db::follow(path, &busy(), &FollowOptions::default().every(every)).unwrap();
                let mut state = ExpectedState::default();
                while !is_done.load(Ordering::Relaxed) {
                    let snapshot = follower.snapshot();
                    state.check_next(&snapshot).unwrap();
                    state.check_gets(&snapshot).unwrap();
                }
            });
        }
        let mut db = Some(db);
        for run in 0..8u64 {
            let writer = db.take().unwrap_or_else(|| Db::open(&path, &busy()).unwrap());
            write_history(&writer, run * 2000 + 11..=run * 2000 + 2010);
            writer.close().unwrap();
        }
    });
    check_history(&follow(&path, &busy()), 16_010);
}

/// LevelDB appends its logs, and the last sequence number of its MANIFEST includes writes that only
/// logs hold.
#[test]
fn stock_leveldb_as_writer() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let settings = Settings { write_buffer_size: 64 << 10, ..Settings::create() };
    let mut state = ExpectedState::default();
    let mut follower: Option<Db> = None;
    for run in 0..4u64 {
        let db = stock.open(&path, &settings).unwrap();
        for write in run * 1500 + 1..=run * 1500 + 1500 {
            let batch = followed_history::batch(write);
            let operations: Vec<_> =
                batch.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
            db.write(&operations, false).unwrap();
            if write % 10 == 0 {
                let follower = follower.get_or_insert_with(|| follow(&path, &busy()));
                let snapshot = follower.snapshot();
                state.check_next(&snapshot).unwrap();
                assert_eq!(state.write(), write);
            }
        }
        db.write(&[], false).unwrap(); // an empty batch has a record, too
        if run == 2 {
            db.compact_range(None, None);
        }
        db.close();
    }
    // Terrace continues, and then LevelDB again.
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 6001..=8000);
    let follower = follower.unwrap();
    check_history(&follower, 8000);
    db.close().unwrap();
    let db = stock.open(&path, &settings).unwrap();
    db.put(b"a", b"").unwrap();
    assert!(follower.contains("a").unwrap());
}

#[test]
fn another_process_follows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=5000);
    assert_eq!(process::run_in_other_process("follow", &path), "ok");
    write_history(&db, 5001..=6000);
    assert_eq!(process::run_in_other_process("follow", &path), "ok");
    assert!(process::run_in_other_process("open", &path).contains("lock"), "the writer has its lock");
}

/// Tables are mapped, so that a follower of many tables needs few descriptors.
#[cfg(unix)]
#[test]
fn few_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=20_000);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 20; exec \"$0\" \"$@\""]);
    assert_eq!(process::run_by(shell, "follow", &path), "ok");
}

/// Task of the other process: compares a follower with the history.
pub(crate) fn check_follower(path: &Path) -> terrace::Result<()> {
    let follower = Db::follow(path, &busy(), &each_read())?;
    let mut state = ExpectedState::default();
    state.check_next(&follower.snapshot()).map(drop).map_err(Error::NotFound)
}

#[track_caller]
fn check_error(path: &Path, kind: ErrorKind, text: &str) {
    let error = Db::follow(path, &Options::default(), &each_read()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}, expected {text}");
}

#[test]
fn directories_without_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    check_error(&path.join("missing"), ErrorKind::InvalidArgument, "does not exist");
    check_error(path, ErrorKind::InvalidArgument, "does not exist");
    files::write(&path.join("CURRENT"), b"MANIFEST-000007\n");
    check_error(path, ErrorKind::Corruption, "CURRENT: names MANIFEST-000007, which does not exist");
    files::write(&path.join("MANIFEST-000007"), b"");
    check_error(path, ErrorKind::Corruption, "MANIFEST-000007");
    files::write(&path.join("CURRENT"), b"MANIFEST");
    check_error(path, ErrorKind::Corruption, "CURRENT");
}

/// A table that is gone although the MANIFEST has not changed was lost.
#[test]
fn missing_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=1000);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    files::remove(&files::tables(&path)[0]);
    check_error(&path, ErrorKind::Corruption, "is missing, but the MANIFEST lists it");
}

#[cfg(unix)]
fn copy_database(from: &Path, to: &Path) {
    terrace_env::FileSystem::create_dir(&SystemFs::new(), to).unwrap();
    for (name, bytes) in files::contents(from) {
        files::write(&to.join(name), &bytes);
    }
}

#[track_caller]
fn check_replaced(follower: &Db, reason: &str) {
    for _ in 0..2 {
        let error = follower.get("count").unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}, expected {reason}");
    }
    assert!(matches!(follower.catch_up(), Err(Error::Replaced { .. })));
    assert!(matches!(follower.iter().next(), Some(Err(Error::Replaced { .. }))));
}

#[cfg(unix)] // Windows keeps a directory whose files are open.
#[test]
fn database_that_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let saved = directory.path().join("saved");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=1000);
    db.close().unwrap();
    copy_database(&path, &saved);
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1001..=3000);
    let follower = follow(&path, &busy());
    check_history(&follower, 3000);
    let then = follower.snapshot();
    db.close().unwrap();
    assert!(follower.get("count").is_ok(), "a close is no replacement");

    // Destroyed.
    terrace::destroy(&path, &busy()).unwrap();
    check_replaced(&follower, "gone");
    // Restored: an older state.
    copy_database(&saved, &path);
    check_replaced(&follower, "gone");
    let restored = follow(&path, &busy());
    check_history(&restored, 1000);
    // Exchanged by a directory with a longer history.
    let exchanged = directory.path().join("exchanged");
    let db = Db::open(&exchanged, &busy()).unwrap();
    write_history(&db, 1..=5000);
    db.close().unwrap();
    let fs = SystemFs::new();
    terrace_env::FileSystem::rename(&fs, &path, &directory.path().join("old")).unwrap();
    terrace_env::FileSystem::rename(&fs, &exchanged, &path).unwrap();
    check_replaced(&restored, "another directory has its name");
    // Its snapshots stay.
    let mut state = ExpectedState::default();
    state.check_next(&then).unwrap();
    assert_eq!(state.write(), 3000);
}

/// Another database in the same directory, with the same file numbers.
#[test]
fn database_that_was_created_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    files::write(&path.join("other"), b"keeps the directory");
    let create = || {
        let db = Db::open(path, &busy()).unwrap();
        write_history(&db, 1..=500);
        db
    };
    let db = create();
    let follower = follow(path, &busy());
    check_history(&follower, 500);
    db.close().unwrap();
    terrace::destroy(path, &busy()).unwrap();
    let _db = create();
    check_replaced(&follower, "MANIFEST-");
}

/// An earlier copy of the files, whose further history has the same file numbers. The follower has
/// read a WAL of the lost history, and must not show it below the MANIFEST of the other one.
#[test]
fn database_that_was_restored() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let settings = Settings { create_if_missing: false, ..Settings::default() };
    let mut followed = 0;
    let mut wal_replaced = 0;
    // In some of these histories, both databases have a WAL with the same number.
    for (opens, flushes) in (1..=3).flat_map(|opens| (0..8).map(move |flushes| (opens, flushes))) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let saved = directory.path().join("saved");
        let db = Db::open(&path, &busy()).unwrap();
        db.put("first", "").unwrap();
        db.close().unwrap();
        files::copy_directory(&path, &saved);
        let db = Db::open(&path, &busy()).unwrap();
        for flush in 0..5 {
            db.put("lost", flush.to_string()).unwrap();
            db.flush().unwrap();
        }
        db.put("lost", "in the log").unwrap();
        let follower = follow(&path, &busy());
        follower.catch_up().unwrap();
        db.close().unwrap();
        // The directory stays, and its files change.
        files::remove_all(&path);
        files::copy_directory(&saved, &path);
        for open in 0..opens {
            // LevelDB begins a MANIFEST at each open.
            let db = stock.open(&path, &settings).unwrap();
            for _ in 0..20 {
                db.write(&[(b"kept".as_slice(), Some(open.to_string().as_bytes()))], false).unwrap();
            }
            db.close();
        }
        let db = Db::open(&path, &busy()).unwrap();
        for _ in 0..flushes {
            db.put("kept", "").unwrap();
            db.flush().unwrap();
        }
        db.put("kept", "").unwrap();
        match follower.catch_up() {
            Err(Error::Replaced { reason, .. }) => wal_replaced += u64::from(reason.ends_with(".log")),
            caught_up => {
                caught_up.unwrap();
                assert_eq!(follower.get("lost").unwrap(), None, "{opens} opens, {flushes} flushes");
                assert!(follower.get("kept").unwrap().is_some());
                followed += 1;
            }
        }
    }
    assert!(followed > 0 && wal_replaced > 0, "{followed} followed, {wal_replaced} replaced");
}

/// A repair may lose entries and keep the last sequence number. So a follower from before the
/// repair ends, also if the database was opened and closed since.
#[test]
fn database_that_was_repaired() {
    for opens in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let db = Db::open(&path, &busy()).unwrap();
        write_history(&db, 1..=1000);
        db.flush().unwrap();
        write_history(&db, 1001..=1001);
        db.flush().unwrap();
        let follower = follow(&path, &busy());
        db.close().unwrap();
        check_history(&follower, 1001);
        files::remove(files::tables(&path).last().unwrap());
        terrace::repair(&path, &busy(), &RepairOptions::default()).unwrap();
        for open in 0..opens {
            let db = Db::open(&path, &busy()).unwrap();
            db.put("a", open.to_string()).unwrap();
            db.flush().unwrap();
        }
        check_replaced(&follower, "a repair wrote MANIFEST-");
        assert!(follow(&path, &busy()).get("count").is_ok());
    }
}

/// Tables stay readable with any limits, also after their removal.
#[cfg(unix)]
#[test]
fn limits_on_open_files_and_mappings() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy().max_file_size(Some(1 << 20))).unwrap();
    write_history(&db, 1..=20_000);
    let env = Env { fs: Arc::new(SystemFs::with_limits(0, 0, 0)), ..Env::system() };
    for paranoid in [false, true] {
        let options = busy().env(env.clone()).max_open_files(0).paranoid_checks(paranoid);
        let follower = follow(&path, &options);
        let snapshot = follower.snapshot();
        let mut state = ExpectedState::default();
        db.compact_range(None, None).unwrap();
        state.check_next(&snapshot).unwrap();
        assert_eq!(state.write(), 20_000);
        check_history(&follower, 20_000);
    }
}
