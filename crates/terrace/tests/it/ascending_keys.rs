//! Flushes of several ascending sequences of keys become tables that no compaction rewrites.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use terrace::{Db, Env, Event, EventListener, Options};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_env::{DeterministicScheduler, FileSystem};
use terrace_sync::Mutex;

const SEQUENCES: u64 = 5;
/// Number of keys of a sequence. All of them fill some ten memtables.
const KEYS: u64 = 100_000;
/// Large enough that a flush may become several tables.
const MEMTABLE: usize = 4 << 20;

struct AscendingDb {
    memory: Arc<MemFs>,
    fault: Arc<FaultFs>,
    background: Arc<DeterministicScheduler>,
    options: Options,
}

impl AscendingDb {
    fn new() -> AscendingDb {
        let memory = Arc::new(MemFs::new());
        let fault = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let background = DeterministicScheduler::new(1);
        let env =
            Env { scheduler: Arc::clone(&background) as _, ..Env::with_file_system(Arc::clone(&fault) as _) };
        let options = Options::default().create_if_missing(true).write_buffer_size(MEMTABLE).env(env);
        AscendingDb { memory, fault, background, options }
    }

    fn open(&self) -> Db {
        Db::open("db", &self.options).unwrap()
    }

    fn table_files(&self) -> usize {
        let names = self.memory.list("db".as_ref()).unwrap();
        names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb")).count()
    }
}

fn key(sequence: u64, n: u64) -> String {
    format!("{sequence}/{n:08}")
}

/// Puts the next keys of all sequences in turn, as threads with sequences of their own do.
fn put_keys(db: &Db, first: u64, end: u64) {
    for n in first..end {
        for sequence in 0..SEQUENCES {
            db.put(key(sequence, n), n.to_le_bytes()).unwrap();
        }
    }
}

#[track_caller]
fn check_keys(db: &Db, end: u64) {
    let expected = (0..SEQUENCES).flat_map(|sequence| (0..end).map(move |n| (key(sequence, n), n)));
    let entries = db.iter().map(Result::unwrap);
    assert!(entries.eq(expected.map(|(key, n)| (key.into_bytes(), n.to_le_bytes().to_vec()))));
}

#[track_caller]
fn tables(db: &Db) -> usize {
    db.levels().iter().map(|level| level.files.len()).sum()
}

#[test]
fn several_ascending_sequences_are_written_once() {
    let fixture = AscendingDb::new();
    let db = fixture.open();
    put_keys(&db, 0, KEYS);
    db.flush().unwrap();
    fixture.background.run_until_idle();
    let stats = db.stats();
    let written: u64 = stats.levels.iter().map(|level| level.bytes_written).sum();
    let stored: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    assert!(written < stored * 3 / 2, "{written} bytes were written for {stored} bytes");
    assert!(tables(&db) >= 6 * SEQUENCES as usize, "{:?}", db.property("leveldb.stats"));
    check_keys(&db, KEYS);
    db.close().unwrap();
    let db = fixture.open();
    check_keys(&db, KEYS);
    db.compact_range(None, None).unwrap();
    check_keys(&db, KEYS);
}

/// Overwrites and deletions of older keys between the ascending ones: a newer table must never get
/// below an older one with the same keys.
#[test]
fn newest_values_survive_beside_ascending_sequences() {
    let fixture = AscendingDb::new();
    let db = fixture.open();
    let mut model = BTreeMap::new();
    let mut random = 1_u64;
    for n in 0..KEYS {
        for sequence in 0..SEQUENCES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let new = key(sequence, n);
            db.put(&new, random.to_le_bytes()).unwrap();
            model.insert(new, random);
            let old = key((random >> 20) % SEQUENCES, (random >> 33) % (n + 1));
            match random >> 60 {
                0 => {
                    db.put(&old, random.to_le_bytes()).unwrap();
                    model.insert(old, random);
                }
                1 if n % 3 == 0 => {
                    db.delete(&old).unwrap();
                    model.remove(&old);
                }
                _ => {}
            }
        }
        // Background jobs run at random times.
        if random.is_multiple_of(512) {
            fixture.background.run_until_idle();
        }
    }
    let check = |db: &Db| {
        let expected =
            model.iter().map(|(key, value)| (key.clone().into_bytes(), value.to_le_bytes().to_vec()));
        assert!(db.iter().map(Result::unwrap).eq(expected));
        for (key, value) in model.iter().step_by(97) {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value.to_le_bytes().as_slice()), "{key}");
        }
    };
    check(&db);
    db.flush().unwrap();
    fixture.background.run_until_idle();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
}

/// A flush fails after the first of its tables. The retry writes all of them, and no file is left.
#[test]
fn failed_flush_leaves_no_tables() {
    for plan in ["create .ldb #3 once ENOSPC", "sync .ldb #2 once ENOSPC"] {
        let fixture = AscendingDb::new();
        let db = fixture.open();
        put_keys(&db, 0, 20_000);
        db.flush().unwrap();
        fixture.background.run_until_idle();
        put_keys(&db, 20_000, 29_000);
        fixture.fault.set_plan(plan.parse().unwrap());
        assert!(db.flush().unwrap_err().is_retryable(), "{plan}");
        let before = tables(&db);
        assert_eq!(fixture.table_files(), before, "{plan}");
        fixture.fault.set_plan(FaultPlan::default());
        db.flush().unwrap();
        assert_eq!(tables(&db), before + SEQUENCES as usize, "{plan}");
        fixture.background.run_until_idle();
        check_keys(&db, 29_000);
    }
}

/// Holds up each compaction at its begin until the test lets it continue.
struct HeldCompactions {
    begun: Mutex<Sender<()>>,
    may_continue: Mutex<Receiver<()>>,
}

impl EventListener for HeldCompactions {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::CompactionBegin(_)) {
            let _ = self.begun.lock().send(());
            let _ = self.may_continue.lock().recv();
        }
    }
}

/// A flush beside a compaction whose output table will span the keys of the flush. On the output
/// level, the two tables would overlap.
#[test]
fn flush_between_the_inputs_of_a_compaction() {
    let (begun_sender, begun) = channel();
    let (continue_sender, may_continue) = channel();
    let listener =
        HeldCompactions { begun: Mutex::new(begun_sender), may_continue: Mutex::new(may_continue) };
    let options =
        Options::default().create_if_missing(true).env(Env::in_memory()).listener(Arc::new(listener) as _);
    let db = Db::open("db", &options).unwrap();
    for value in ["old", "new"] {
        for keys in [["a", "b"], ["y", "z"]] {
            keys.iter().for_each(|key| db.put(key, value).unwrap());
            db.flush().unwrap();
        }
    }
    let files: Vec<usize> = db.levels().iter().map(|level| level.files.len()).collect();
    assert_eq!(files[..4], [0, 2, 2, 0]);
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(None, None));
        begun.recv().unwrap();
        db.put("m", "new").unwrap();
        db.flush().unwrap();
        // Every later compaction continues at once.
        drop(continue_sender);
        compaction.join().unwrap().unwrap();
    });
    for level in &db.levels()[1..] {
        assert!(level.files.is_sorted_by(|a, b| a.largest < b.smallest), "{level:?}");
    }
    let entries: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(entries, [b"a", b"b", b"m", b"y", b"z"]);
    assert!(["a", "b", "m", "y", "z"].iter().all(|key| db.get(key).unwrap().as_deref() == Some(b"new")));
}
