//! Write stalls are counted and logged, and a write without a stall reads no clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use terrace::env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace::env::{Clock, DeterministicScheduler};
use terrace::{Db, Env, Logger, Options, WriteOptions};

struct ChannelLogger(Sender<String>);

impl Logger for ChannelLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let _ = self.0.send(line.to_string());
    }
}

/// Clock that advances by `tick` microseconds with each reading.
#[derive(Debug)]
struct TickingClock {
    tick: u64,
    readings: AtomicU64,
}

impl Clock for TickingClock {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.readings.fetch_add(1, Ordering::Relaxed) * self.tick)
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, _pause: Duration) {}
}

/// Returns options with small memtables and a scheduler that runs jobs only when a thread waits for
/// them, the clock, and the lines of the info log.
fn options(tick: u64) -> (Options, Arc<TickingClock>, Receiver<String>) {
    let (sender, lines) = channel();
    let clock = Arc::new(TickingClock { tick, readings: AtomicU64::new(0) });
    let env =
        Env { scheduler: DeterministicScheduler::new(1), clock: Arc::clone(&clock) as _, ..Env::in_memory() };
    let options = Options::default()
        .create_if_missing(true)
        .write_buffer_size(64 << 10)
        .env(env)
        .logger(Arc::new(ChannelLogger(sender)));
    (options, clock, lines)
}

fn put(db: &Db, numbers: std::ops::Range<u32>) {
    numbers.for_each(|n| db.put(format!("{n:05}").as_bytes(), [7; 5000]).unwrap());
}

/// Returns the words of the row of `terrace.stats` that begins with `group` and `name`, without
/// these two.
fn row(db: &Db, group: &str, name: &str) -> Option<Vec<String>> {
    let text = db.property("terrace.stats").unwrap();
    let rows = text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    rows.map(|words| words.to_vec())
        .find(|words| words[..2] == [group, name])
        .map(|words| words[2..].to_vec())
}

/// Returns the value of `key` in a line of the info log.
fn figure(line: &str, key: &str) -> Option<u64> {
    let values = line.split_whitespace().filter_map(|word| word.split_once('='));
    values.filter(|(found, _)| *found == key).find_map(|(_, value)| value.parse().ok())
}

#[test]
fn put_without_stall_reads_no_clock() {
    let (options, clock, _lines) = options(1);
    let db = Db::open("db", &options).unwrap();
    put(&db, 0..1);
    let before = clock.readings.load(Ordering::Relaxed);
    put(&db, 1..10);
    assert_eq!(clock.readings.load(Ordering::Relaxed), before);
    db.put_with(b"key", b"value", &WriteOptions::default().sync(true)).unwrap();
    assert!(clock.readings.load(Ordering::Relaxed) > before, "a sync waits");
}

#[test]
fn stalls_are_counted() {
    let (options, _, lines) = options(1);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(row(&db, "stall", "flush"), None);
    put(&db, 0..200);
    let flush = row(&db, "stall", "flush").unwrap();
    let times: u64 = flush[0].parse().unwrap();
    assert!(times > 3, "{flush:?}");
    assert_eq!(flush[1], "us");
    let new_logs: u64 = row(&db, "stall", "new_log").unwrap()[0].parse().unwrap();
    assert!(new_logs >= times, "{new_logs} new logs, {times} waits for a flush");
    let flushes: u64 = row(&db, "work", "flushes").unwrap()[0].parse().unwrap();
    assert!(flushes >= times, "{flushes} flushes, {times} waits for one");
    assert!(db.property("terrace.stats").unwrap().contains(&format!("stopped {times} for ")));
    assert_eq!(row(&db, "stall", "sync"), None);
    db.put_with(b"key", b"value", &WriteOptions::default().sync(true)).unwrap();
    assert_eq!(row(&db, "stall", "sync").unwrap()[..2], ["1", "us"]);
    assert!(!lines.try_iter().any(|line| line.starts_with("Write stall: ")), "no stall was long");
    db.close().unwrap();
    assert!(lines.try_iter().any(|line| line.starts_with("Closing: stall   flush ")), "a closing summary");
}

/// LevelDB's test `RepeatedWritesToSameKey`, with a scheduler that runs no job until a write waits.
#[test]
fn few_files_exist_while_background_jobs_starve() {
    const LEVELDB_MAX_FILES: usize = 7 + 12;
    for seed in 1..=8 {
        let (options, _, _lines) = options(1);
        let env = Env { scheduler: DeterministicScheduler::new(seed), ..options.env.clone() };
        let db = Db::open("db", &options.write_buffer_size(100_000).env(env)).unwrap();
        let value = vec![7; 200_000];
        for written in 0..5 * LEVELDB_MAX_FILES {
            db.put(b"key", &value).unwrap();
            let files: usize = db.stats().levels.iter().map(|level| level.files).sum();
            assert!(files < LEVELDB_MAX_FILES, "{files} files after {written} writes, seed {seed}");
        }
    }
}

#[test]
fn long_stall_is_logged() {
    let (options, _, lines) = options(10_000);
    let db = Db::open("db", &options).unwrap();
    put(&db, 0..200);
    let logged: Vec<String> = lines.try_iter().collect();
    let stalls: Vec<&String> =
        logged.iter().filter(|line| line.starts_with("Write stall: cause=flush ")).collect();
    assert!(stalls.len() > 3, "{logged:#?}");
    for line in stalls {
        assert!(figure(line, "us") >= Some(10_000), "{line}");
        assert!(figure(line, "immutable_memtables") >= Some(1), "{line}");
        assert!(figure(line, "level_0").is_some() && line.contains(" compaction"), "{line}");
    }
}

#[test]
fn flushes_and_compactions_are_logged() {
    let (options, _, lines) = options(10);
    let db = Db::open("db", &options).unwrap();
    for _ in 0..2 {
        put(&db, 0..10);
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let logged: Vec<String> = lines.try_iter().collect();
    let find = |start: &str| logged.iter().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let flushed = find("Level-0 table #");
    assert_eq!(flushed.len(), 2, "{logged:#?}");
    for line in flushed {
        assert_eq!(figure(line, "entries"), Some(10), "{line}");
        assert!(figure(line, "bytes_in") > Some(50_000) && figure(line, "bytes_out") > Some(100), "{line}");
        assert!(figure(line, "us") > Some(0), "{line}");
    }
    let compactions = find("Compacted ");
    let last = compactions.last().unwrap();
    assert_eq!(
        (figure(last, "entries_in"), figure(last, "entries_out")),
        (Some(20), Some(10)),
        "{logged:#?}"
    );
    assert!(last.contains(" reason=Manual") && figure(last, "files_out") == Some(1), "{last}");
}

fn logs(env: &Env) -> Vec<String> {
    let names = env.fs.list("db".as_ref()).unwrap().into_iter().map(|name| name.into_string().unwrap());
    names.filter(|name| name.ends_with(".log")).collect()
}

/// A log is removed after the flush of its memtable, even if memtables fill fast. A power cut after
/// a flush loses no flushed entry.
#[test]
fn log_is_removed_after_its_flush() {
    let fs = Arc::new(MemFs::new());
    let (options, _, _lines) = options(1);
    let env = Env { fs: Arc::clone(&fs) as _, ..options.env.clone() };
    let options = options.env(env);
    let db = Db::open("db", &options).unwrap();
    put(&db, 0..10);
    assert_eq!(logs(&options.env).len(), 1);
    db.flush().unwrap();
    assert_eq!(logs(&options.env).len(), 1);
    put(&db, 10..15);
    for (profile, seed) in
        POWER_LOSS_PROFILES.iter().flat_map(|profile| (0..10).map(move |seed| (profile, seed)))
    {
        let env = Env { fs: Arc::new(fs.crash_clone(&profile.crash_with_seed(seed))), ..options.env.clone() };
        let db = Db::open("db", &options.clone().env(env.clone())).unwrap();
        let found = db.iter().map(Result::unwrap).count();
        assert!((10..=15).contains(&found), "{found} keys, {profile:?}, seed {seed}");
        db.close().unwrap();
        assert_eq!(logs(&env).len(), 1);
    }
    put(&db, 15..25);
    db.flush().unwrap();
    assert_eq!(logs(&options.env).len(), 1);
    db.close().unwrap();
    assert_eq!(logs(&options.env).len(), 1);
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.iter().count(), 25);
}
