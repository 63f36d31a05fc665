//! Removal of key ranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace::{CompactionStyle, Db, Env, Event, EventListener, Options, ReadOptions, Result, WriteOptions};
use terrace_env::mem::{Crash, MemFs, POWER_LOSS_PROFILES};
use terrace_env::{DeterministicScheduler, FileSystem};

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut env = Env::with_file_system(fs);
    env.scheduler = DeterministicScheduler::new(1);
    Options::default().create_if_missing(true).write_buffer_size(256 << 10).env(env)
}

const KEYS: u32 = 400;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Returns an incompressible value of 20 KiB; a memtable holds a dozen.
fn value(n: u32, round: u8) -> Vec<u8> {
    let mut state = u64::from(n) << 8 | u64::from(round);
    let random_bytes = (0..20 << 10).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    [round].into_iter().chain(random_bytes).collect()
}

fn fill(db: &Db, keys: impl Iterator<Item = u32>, round: u8) {
    keys.for_each(|n| db.put(key(n), value(n, round)).unwrap());
}

/// Writes old values of every key to tables of their own, newer ones of every third key to tables
/// above, and the newest of every tenth key to the memtable.
fn layers(db: &Db) {
    fill(db, 0..KEYS, 1);
    db.compact_range(None, None).unwrap();
    fill(db, (0..KEYS).step_by(3), 2);
    db.flush().unwrap();
    fill(db, (0..KEYS).step_by(10), 3);
}

fn newest(n: u32) -> u8 {
    match n {
        _ if n.is_multiple_of(10) => 3,
        _ if n.is_multiple_of(3) => 2,
        _ => 1,
    }
}

fn tables(db: &Db) -> usize {
    db.levels().iter().map(|level| level.files.len()).sum()
}

fn bytes(db: &Db) -> u64 {
    db.levels().iter().flat_map(|level| &level.files).map(|file| file.size).sum()
}

/// Returns the round of each key's value, or None if it has no value.
fn rounds(db: &Db, options: &ReadOptions) -> Vec<Option<u8>> {
    (0..KEYS).map(|n| db.get_with(key(n), options).unwrap().map(|value| value[0])).collect()
}

fn expected_rounds(deleted: std::ops::Range<u32>) -> Vec<Option<u8>> {
    (0..KEYS).map(|n| (!deleted.contains(&n)).then(|| newest(n))).collect()
}

#[test]
fn covered_tables_are_dropped_and_other_keys_stay() -> Result<()> {
    let fs = Arc::new(MemFs::new());
    // The layers would become one after the load.
    let options = options(fs).compaction_style(CompactionStyle::Leveled);
    let db = Db::open("db", &options)?;
    layers(&db);
    let before = tables(&db);
    let size = bytes(&db);
    db.delete_range(key(30)..key(371))?;
    assert_eq!(rounds(&db, &ReadOptions::default()), expected_rounds(30..371));
    assert!(tables(&db) < before / 2, "{} tables of {before} are left", tables(&db));
    // Only entries of one round are left in tables that cover the whole range; the next compaction
    // drops them.
    db.compact_range(None, None)?;
    assert!(bytes(&db) < size / 4, "{} bytes of {size} are left", bytes(&db));
    db.close()?;
    let db = Db::open("db", &options)?;
    assert_eq!(rounds(&db, &ReadOptions::default()), expected_rounds(30..371));
    Ok(())
}

#[derive(Default)]
struct CompactionCounter(AtomicUsize);

impl EventListener for CompactionCounter {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::CompactionEnd { .. } | Event::TablesMoved { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Symptom: a deletion beside a backlog of compactions waited for all of them. Cause: it waited for
/// a moment without a scheduled compaction, and each one scheduled the next before its end.
/// Guarantee: it waits for the running compaction only.
#[test]
fn backlog_of_compactions_delays_no_deletion() -> Result<()> {
    let counter = Arc::new(CompactionCounter::default());
    let options =
        options(Arc::new(MemFs::new())).compaction_style(CompactionStyle::Leveled).listener(counter.clone());
    let db = Db::open("db", &options)?;
    // A writer runs a job only when it has to wait, so compactions are left.
    for round in 1..3 {
        fill(&db, (0..4000).map(|n| n * 149 % 4000), round);
    }
    let before = counter.0.load(Ordering::Relaxed);
    db.delete_range::<&[u8]>(..)?;
    let meanwhile = counter.0.load(Ordering::Relaxed) - before;
    assert!(meanwhile <= 1, "{meanwhile} compactions ran");
    assert_eq!(db.iter().count(), 0);
    Ok(())
}

#[test]
fn unbounded_ranges_delete_everything() -> Result<()> {
    let db = Db::open("db", &options(Arc::new(MemFs::new())))?;
    layers(&db);
    db.delete_range(key(390)..)?;
    db.delete_range(..key(10))?;
    let expected: Vec<_> = (0..KEYS).map(|n| (10..390).contains(&n).then(|| newest(n))).collect();
    assert_eq!(rounds(&db, &ReadOptions::default()), expected);
    db.delete_range(key(200)..key(100))?;
    db.delete_range(key(200)..key(200))?;
    assert!(db.get(key(150))?.is_some(), "a range with crossed bounds has no keys");
    db.delete_range::<&[u8]>(..)?;
    assert_eq!(db.iter().count(), 0);
    assert_eq!(tables(&db), 0, "no table is left");
    Ok(())
}

#[test]
fn snapshots_and_iterators_keep_what_they_see() -> Result<()> {
    let db = Db::open("db", &options(Arc::new(MemFs::new())))?;
    layers(&db);
    let iterator = db.iter();
    db.delete_range(key(0)..key(100))?;
    let then = ReadOptions::default().snapshot(db.snapshot());
    db.delete_range(key(0)..key(200))?;
    assert_eq!(rounds(&db, &then), expected_rounds(0..100));
    assert_eq!(rounds(&db, &ReadOptions::default()), expected_rounds(0..200));
    db.compact_range(None, None)?;
    assert_eq!(rounds(&db, &then), expected_rounds(0..100));
    let seen: Vec<u8> = iterator.map(|entry| entry.unwrap().1[0]).collect();
    assert_eq!(seen, (0..KEYS).map(newest).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn read_only_database_is_an_error() -> Result<()> {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(fs.clone()))?;
    fill(&db, 0..3, 1);
    db.close()?;
    let db = Db::open_read_only("db", &options(fs))?;
    assert!(db.delete_range::<&[u8]>(..).is_err());
    assert_eq!(db.iter().count(), 3);
    Ok(())
}

/// Crashes before each file operation of `delete_range`. After a crash, a key of the range has its
/// newest value or none, never an older one. Other keys are unchanged. After the call has returned,
/// no key of the range is left.
#[test]
fn crash_never_shows_an_older_value() {
    let start = Arc::new(MemFs::new());
    let db = Db::open("db", &options(start.clone())).unwrap();
    layers(&db);
    db.put_with(b"last", b"", &WriteOptions::default().sync(true)).unwrap();
    drop(db);
    let deleted = 30..371;
    for call in 0.. {
        let fs = Arc::new(start.crash_clone(&Crash::Kill));
        let db = Db::open("db", &options(fs.clone())).unwrap();
        fs.freeze_at(call);
        let done = db.delete_range(key(deleted.start)..key(deleted.end)).is_ok();
        let power = POWER_LOSS_PROFILES.iter().map(|profile| profile.crash_with_seed(u64::from(call as u32)));
        for crash in std::iter::once(Crash::Kill).chain(power) {
            let after = Db::open("db", &options(Arc::new(fs.crash_clone(&crash)))).unwrap();
            for (n, found) in (0..).zip(rounds(&after, &ReadOptions::default())) {
                let in_range = deleted.contains(&n);
                assert!(
                    found == Some(newest(n)) || found.is_none() && in_range,
                    "call {call}: key {n} is {found:?}"
                );
                assert!(!(done && in_range) || found.is_none(), "call {call}: key {n} came back");
            }
        }
        if done {
            assert!(call > 3, "the range deletion changed files");
            return;
        }
    }
}
