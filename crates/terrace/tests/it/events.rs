//! Events and statistics: each event reaches the listener once, with the facts of the info log.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use terrace::env::fault::{FaultFs, FaultPlan};
use terrace::env::mem::MemFs;
use terrace::env::{Priority, ScheduledJob, Scheduler};
use terrace::{
    Db, Env, Event, EventListener, Logger, MemtableState, Options, TableChangeCause, TableChanges, Ticker,
    Timer, WriteOptions,
};
use terrace_sync::Mutex;

/// Sends each event and each line of the info log to the test.
struct Recorder {
    events: Sender<Event>,
    lines: Sender<String>,
}

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        let _ = self.events.send(event.clone());
    }
}

impl Logger for Recorder {
    fn log(&self, line: fmt::Arguments<'_>) {
        let _ = self.lines.send(line.to_string());
    }
}

/// Returns a new database, its events, and the lines of its info log.
fn open(env: Env) -> (Db, Receiver<Event>, Receiver<String>) {
    let (event_sender, events) = channel();
    let (line_sender, lines) = channel();
    let recorder = Arc::new(Recorder { events: event_sender, lines: line_sender });
    let options = Options::default()
        .create_if_missing(true)
        .write_buffer_size(64 << 10)
        .env(env)
        .logger(Arc::clone(&recorder) as _)
        .listener(recorder);
    (Db::open("db", &options).unwrap(), events, lines)
}

/// Replays the events of the tables. Returns the numbers of the tables that exist after them.
fn live_tables(events: &[Event]) -> BTreeSet<u64> {
    let mut live = BTreeSet::new();
    for event in events {
        match event {
            Event::FlushEnd { tables, .. } => {
                tables.iter().for_each(|table| assert!(live.insert(table.number), "{event}"));
            }
            Event::CompactionEnd { tables, .. } => {
                tables.iter().for_each(|(number, _)| assert!(live.insert(*number), "{event}"));
            }
            Event::TableDeleted { table } => assert!(live.remove(table), "{event}"),
            _ => {}
        }
    }
    live
}

#[test]
fn events_describe_all_tables() {
    let (db, events, lines) = open(Env::in_memory());
    for n in 0..3000_u32 {
        db.put((n * 7919 % 3000).to_be_bytes(), [n as u8; 200]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    let stored: BTreeSet<u64> =
        db.levels().iter().flat_map(|level| level.files.iter().map(|file| file.number)).collect();
    // The jobs report their events and figures last.
    db.shutdown().unwrap();
    let stats = db.stats();
    db.close().unwrap();

    let events: Vec<Event> = events.try_iter().collect();
    assert_eq!(live_tables(&events), stored);
    let count = |matches: fn(&Event) -> bool| events.iter().filter(|event| matches(event)).count() as u64;
    let flushes = count(|event| matches!(event, Event::FlushEnd { .. }));
    assert!(flushes > 3);
    assert_eq!(count(|event| matches!(event, Event::FlushBegin { .. })), flushes);
    assert_eq!(stats.timer(Timer::Flush).count, flushes);
    let compactions = count(|event| matches!(event, Event::CompactionEnd { .. }));
    assert!(compactions > 0);
    assert_eq!(count(|event| matches!(event, Event::CompactionBegin(_))), compactions);
    assert_eq!(stats.timer(Timer::Compaction).count, compactions);
    let written: u64 = events
        .iter()
        .map(|event| match event {
            Event::FlushEnd { tables, .. } => tables.iter().map(|table| table.bytes).sum(),
            Event::CompactionEnd { tables, .. } => tables.iter().map(|(_, bytes)| bytes).sum(),
            _ => 0,
        })
        .sum();
    assert_eq!(stats.levels.iter().map(|level| level.bytes_written).sum::<u64>(), written);

    // The info log has the line of each event, in the same order.
    let mut lines = lines.try_iter();
    for event in &events {
        assert!(lines.any(|line| line == event.to_string()), "{event}");
    }
}

/// Forwards events. If `is_late`, it forwards the end of a flush after a compaction and the removal
/// of a table, if that comes.
struct LateFlushEnd {
    recorder: Recorder,
    is_late: AtomicBool,
    others: (Mutex<Sender<()>>, Mutex<Receiver<()>>),
}

impl EventListener for LateFlushEnd {
    fn on_event(&self, event: &Event) {
        match event {
            Event::FlushEnd { .. } if self.is_late.load(Ordering::Relaxed) => {
                let others = self.others.1.lock();
                if others.recv_timeout(Duration::from_secs(10)).is_ok() {
                    let _ = others.recv_timeout(Duration::from_millis(100));
                }
            }
            Event::CompactionEnd { .. } | Event::TableDeleted { .. } => {
                let _ = self.others.0.lock().send(());
            }
            _ => {}
        }
        self.recorder.on_event(event);
    }
}

#[test]
fn table_is_reported_before_its_removal() {
    let (event_sender, events) = channel();
    let (other_sender, others) = channel();
    let listener = Arc::new(LateFlushEnd {
        recorder: Recorder { events: event_sender, lines: channel().0 },
        is_late: AtomicBool::new(false),
        others: (Mutex::new(other_sender), Mutex::new(others)),
    });
    let options =
        Options::default().create_if_missing(true).env(Env::in_memory()).listener(Arc::clone(&listener) as _);
    let db = Db::open("db", &options).unwrap();
    let numbers = || -> BTreeSet<u64> {
        db.levels().iter().flat_map(|level| level.files.iter().map(|file| file.number)).collect()
    };
    db.put(b"key", b"old").unwrap();
    db.flush().unwrap();
    listener.is_late.store(true, Ordering::Relaxed);
    db.put(b"key", b"new").unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        while numbers().len() < 2 {
            std::thread::yield_now();
        }
        db.compact_range(None, None).unwrap();
        flush.join().unwrap().unwrap();
    });
    let stored = numbers();
    db.shutdown().unwrap();
    let events: Vec<Event> = events.try_iter().collect();
    let removed = events.iter().filter(|event| matches!(event, Event::TableDeleted { .. }));
    assert_eq!(removed.count(), 2, "{events:?}");
    assert_eq!(live_tables(&events), stored);
}

#[test]
fn statistics_count_reads() {
    let (db, ..) = open(Env::in_memory());
    for n in 0..100_u32 {
        db.put(n.to_be_bytes(), [7; 200]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(Ticker::all().map(|ticker| db.stats().ticker(ticker)).sum::<u64>(), 0);
    db.get(7_u32.to_be_bytes()).unwrap();
    db.get(7_u32.to_be_bytes()).unwrap();
    // Between the keys of the table.
    db.get([0, 0, 0, 7, 7]).unwrap();
    let stats = db.stats();
    assert_eq!(stats.ticker(Ticker::BlockCacheMiss), 1);
    assert_eq!(stats.ticker(Ticker::BlockCacheHit), 1);
    assert_eq!(stats.ticker(Ticker::FilterNegative), 1);
    assert_eq!(stats.last_sequence, 100);
    assert!(stats.memory.block_cache.bytes > 0 && stats.memory.tables.bytes > 0, "{:?}", stats.memory);
    assert_eq!(db.property("terrace.memory").unwrap(), stats.memory.total().to_string());
}

#[test]
fn refused_writes_are_an_event() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let (db, events, _lines) = open(Env { fs: Arc::clone(&fs) as _, ..Env::in_memory() });
    db.put(b"key", b"value").unwrap();
    assert!(db.stats().writes_refused.is_none());
    fs.set_plan("sync .log #1 once EIO".parse().unwrap());
    db.put_with(b"key", b"value", &WriteOptions::default().sync(true)).unwrap_err();
    db.put_with(b"key", b"value", &WriteOptions::default().sync(true)).unwrap_err();
    let events: Vec<Event> = events.try_iter().collect();
    let refused = events.iter().filter(|event| matches!(event, Event::WritesRefused { .. })).count();
    assert_eq!(refused, 1, "{events:?}");
    assert!(db.stats().writes_refused.is_some());
}

/// Sends each change of the set of tables to the test.
struct ChangeRecorder(Sender<TableChanges>);

impl EventListener for ChangeRecorder {
    fn on_event(&self, _event: &Event) {}

    fn on_table_changes(&self, changes: &TableChanges) {
        let _ = self.0.send(changes.clone());
    }
}

#[test]
fn changes_of_tables_lead_to_the_current_ones() {
    let (sender, changes) = channel();
    let options = Options::default()
        .create_if_missing(true)
        .write_buffer_size(64 << 10)
        .env(Env::in_memory())
        .listener(Arc::new(ChangeRecorder(sender)));
    let db = Db::open("db", &options).unwrap();
    for n in 0..3000_u32 {
        db.put((n * 7919 % 3000).to_be_bytes(), [n as u8; 200]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.delete_range(0_u32.to_be_bytes()..4000_u32.to_be_bytes()).unwrap();
    db.put("last", "1").unwrap();
    db.flush().unwrap();
    let levels = db.levels();
    db.close().unwrap();
    let mut live = BTreeSet::new();
    let mut causes = Vec::new();
    for change in changes.try_iter() {
        for (level, number) in &change.removed {
            assert!(live.remove(&(*level, *number)), "{change:?}");
        }
        for (level, table) in &change.added {
            assert!(live.insert((*level, table.number)), "{change:?}");
            let is_new = change.cause != TableChangeCause::Move;
            assert!(!is_new || table.entries.is_some_and(|entries| entries > 0), "{change:?}");
        }
        causes.push(change.cause);
    }
    let stored = levels.iter().flat_map(|level| level.files.iter().map(|file| (level.level, file.number)));
    assert_eq!(live, stored.collect());
    for cause in [TableChangeCause::Flush, TableChangeCause::Compaction, TableChangeCause::DeleteRange] {
        assert!(causes.contains(&cause), "{cause:?} in {causes:?}");
    }
}

#[test]
fn statistics_of_levels_memtables_and_tables() {
    let (db, _events, _lines) = open(Env::in_memory());
    for n in 0..1000_u32 {
        db.put(n.to_be_bytes(), [7; 20]).unwrap();
    }
    let stats = db.stats();
    let active = stats.memtables[0];
    assert_eq!((active.state, active.limit, active.entries), (MemtableState::Active, 64 << 10, 1000));
    assert!(active.bytes >= 1000 * 24, "{active:?}");
    let level_0 = stats.levels[0];
    assert_eq!(
        (level_0.compaction_files, level_0.compaction_runs, level_0.max_runs),
        (Some(4), None, Some(12))
    );
    db.compact_range(None, None).unwrap();
    let levels = db.levels();
    let entries: Option<u64> =
        levels.iter().flat_map(|level| level.files.iter().map(|file| file.entries)).sum();
    assert_eq!(entries, Some(1000));
    for n in 0..20_000_u32 {
        db.get((n % 1000).to_be_bytes()).unwrap();
    }
    let levels = db.levels();
    let reads: u64 = levels.iter().flat_map(|level| level.files.iter().map(|file| file.reads)).sum();
    assert!((15_000..25_000).contains(&reads), "{reads}");
}

/// Scheduler whose jobs run when the test says so. After that, each waiting thread runs them.
#[derive(Default)]
struct HeldJobs {
    jobs: Mutex<Vec<ScheduledJob>>,
    is_released: AtomicBool,
}

impl fmt::Debug for HeldJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldJobs")
    }
}

impl Scheduler for HeldJobs {
    fn schedule(&self, _priority: Priority, job: ScheduledJob) {
        self.jobs.lock().push(job);
    }

    fn run_one_here(&self) -> bool {
        let job = if self.is_released.load(Ordering::Relaxed) { self.jobs.lock().pop() } else { None };
        job.map(|job| job()).is_some()
    }
}

#[test]
fn statistics_list_a_stall_before_it_ends() {
    let held = Arc::new(HeldJobs::default());
    let (db, ..) = open(Env { scheduler: Arc::clone(&held) as _, ..Env::in_memory() });
    let stalls = |db: &Db| db.stats().timer(Timer::FlushStall).count;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0_u32..).find(|n| db.put(n.to_be_bytes(), [7; 200]).is_err() || stalls(&db) > 0).unwrap()
        });
        while db.stats().stalled_writers.is_empty() {
            std::thread::yield_now();
        }
        let stats = db.stats();
        // A failed comparison must not let the writer wait.
        held.is_released.store(true, Ordering::Relaxed);
        while !writer.is_finished() {
            held.run_one_here();
        }
        let stall = stats.stalled_writers[0];
        assert_eq!((stall.cause, stall.writers), (Timer::FlushStall, 1));
        assert_eq!(stats.timer(Timer::FlushStall).count, 0);
        // The statistics of the memtables have all entries.
        let entries: u64 = stats.memtables.iter().map(|memtable| memtable.entries).sum();
        assert_eq!(entries, stats.last_sequence);
        assert!(stats.memtables.iter().all(|memtable| memtable.entries > 0 && memtable.flushed_entries == 0));
        assert!(db.stats().stalled_writers.is_empty());
        assert_eq!(stalls(&db), 1);
        assert_eq!(u64::from(writer.join().unwrap()) + 1, db.stats().last_sequence);
    });
}
