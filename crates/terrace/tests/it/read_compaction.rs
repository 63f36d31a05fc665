//! Read-triggered compaction: wasted probes cause compactions in proportion to their cost, until
//! one sorted run is left. Scans that skip many tombstones cause a flush.

use std::sync::Arc;

use terrace::{BloomFilterPolicy, Db, Env, Options, compress};
use terrace_env::{DeterministicScheduler, ManualClock, SeededRandom};

const KEYS: u32 = 200_000;

/// A database with a large sorted run, and two small tables on level 0 that span it.
struct ReadCompactionDb {
    background: Arc<DeterministicScheduler>,
    env: Env,
    db: Db,
    gets: u32,
}

impl ReadCompactionDb {
    fn new(filter_bits: usize) -> ReadCompactionDb {
        let background = DeterministicScheduler::new(1);
        // With a stopped clock compactions take no time, so no pause follows them.
        let clock = Arc::new(ManualClock::default());
        // Reads are sampled at random. Rare samples would compact after few scans.
        let random = Arc::new(SeededRandom::new(1));
        let env = Env { scheduler: Arc::clone(&background) as _, clock, random, ..Env::in_memory() };
        let options = Options::default()
            .create_if_missing(true)
            .env(env.clone())
            .compression(&compress::NO_COMPRESSION)
            .max_file_size(64 << 20)
            .filter_policy(Arc::new(BloomFilterPolicy::new(filter_bits)));
        let db = Db::open("db", &options).unwrap();
        (0..KEYS).for_each(|n| db.put(key(n), [7; 200]).unwrap());
        db.compact_range(None, None).unwrap();
        for part in 0..2 {
            (0..KEYS).skip(part).step_by(1_000).for_each(|n| db.put(key(n), b"new").unwrap());
            db.put(key(KEYS), b"").unwrap();
            db.flush().unwrap();
        }
        background.run_until_idle();
        let fixture = ReadCompactionDb { background, env, db, gets: 0 };
        assert_eq!((fixture.runs(), fixture.read_compactions()), (3, 0));
        fixture
    }

    /// Returns the maximum number of tables that a get searches.
    fn runs(&self) -> usize {
        let levels = self.db.levels();
        let sorted = levels[1..].iter().filter(|level| !level.files.is_empty()).count();
        levels[0].files.len() + sorted
    }

    /// Returns the number of read-triggered compactions.
    fn read_compactions(&self) -> usize {
        log(&self.env)
            .lines()
            .filter(|line| line.contains("Compacted ") && line.contains("reason=ReadTriggered"))
            .count()
    }

    /// Gets scattered keys, none of which is in a table of level 0.
    fn get_scattered(&mut self, count: u32) {
        for _ in 0..count {
            self.gets += 1;
            let n = self.gets.wrapping_mul(2_654_435_761) % KEYS / 1_000 * 1_000 + 500;
            assert_eq!(self.db.get(key(n)).unwrap(), Some(vec![7; 200]));
            self.background.run_until_idle();
        }
    }
}

fn log(env: &Env) -> String {
    let mut log = vec![0; env.fs.file_size("db/LOG".as_ref()).unwrap() as usize];
    env.fs.open_sequential("db/LOG".as_ref()).unwrap().read(&mut log).unwrap();
    String::from_utf8(log).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

#[test]
fn wasted_probes_trigger_compaction_until_one_run_is_left() {
    let mut fixture = ReadCompactionDb::new(0);
    fixture.get_scattered(2_000);
    assert_eq!(
        (fixture.runs(), fixture.read_compactions()),
        (1, 2),
        "the small tables first, then the large run"
    );
    fixture.get_scattered(20_000);
    assert_eq!(fixture.read_compactions(), 2, "one sorted run needs no compaction");
}

#[test]
fn larger_compactions_need_more_wasted_probes() {
    let mut fixture = ReadCompactionDb::new(0);
    // The two small tables allow 100 wasted probes each, as in LevelDB. Their output lies above
    // more than 40 MB, and each wasted probe pays for 192 KiB.
    fixture.get_scattered(270);
    assert_eq!((fixture.runs(), fixture.read_compactions()), (2, 1));
    fixture.get_scattered(500);
    assert_eq!((fixture.runs(), fixture.read_compactions()), (1, 2));
}

#[test]
fn probes_avoided_by_filters_trigger_no_compaction() {
    let mut fixture = ReadCompactionDb::new(10);
    fixture.get_scattered(3_000);
    assert_eq!((fixture.runs(), fixture.read_compactions()), (3, 0));
}

#[test]
fn skipped_tombstones_trigger_a_flush() {
    let background = DeterministicScheduler::new(1);
    let env = Env { scheduler: Arc::clone(&background) as _, ..Env::in_memory() };
    let options = Options::default().create_if_missing(true).env(env.clone());
    let db = Db::open("db", &options).unwrap();
    (0..2_000).for_each(|n| db.put(key(n), b"").unwrap());
    db.compact_range(None, None).unwrap();
    (0..1_000).for_each(|n| db.delete(key(n)).unwrap());
    let flushes = || {
        background.run_until_idle();
        log(&env).matches("Level-0 table #").count()
    };
    let before = flushes();
    let scan = |backward: bool| {
        let mut iter = db.raw_iter();
        if backward {
            iter.seek(&key(1_000));
            iter.prev();
            assert!(!iter.valid());
        } else {
            iter.seek_to_first();
            assert_eq!(iter.key(), key(1_000));
        }
    };
    // 65,536 skipped tombstones trigger a flush.
    (0..65).for_each(|round| scan(round % 2 == 0));
    assert_eq!(flushes(), before);
    scan(false);
    assert_eq!(flushes(), before + 1);
    (0..200).for_each(|round| scan(round % 2 == 0));
    assert_eq!(flushes(), before + 1, "the tombstones are already in a table");
    assert_eq!(db.iter().count(), 1_000);
}

/// Seeks to scattered keys and reads ten entries each, forward or backward.
fn scan_scattered(fixture: &mut ReadCompactionDb, count: u32) {
    for _ in 0..count {
        fixture.gets += 1;
        let n = fixture.gets.wrapping_mul(2_654_435_761) % (KEYS - 20) + 10;
        let mut iter = fixture.db.raw_iter();
        iter.seek(&key(n));
        for _ in 0..10 {
            if fixture.gets.is_multiple_of(2) { iter.next() } else { iter.prev() }
        }
        assert!(iter.valid());
        drop(iter);
        fixture.background.run_until_idle();
    }
}

#[test]
fn a_million_short_scans_leave_one_run() {
    let mut fixture = ReadCompactionDb::new(10);
    // The compaction of 40 MB takes at least 0.4 s: 200,000 times 2 µs, the loss per seek and run.
    scan_scattered(&mut fixture, 100_000);
    assert_eq!((fixture.runs(), fixture.read_compactions()), (2, 1), "only the small tables are cheap");
    scan_scattered(&mut fixture, 900_000);
    assert_eq!((fixture.runs(), fixture.read_compactions()), (1, 2));
}

#[test]
fn long_scans_never_rewrite_the_database() {
    for backward in [false, true] {
        let fixture = ReadCompactionDb::new(10);
        for _ in 0..2 {
            let entries = if backward { fixture.db.iter().rev().count() } else { fixture.db.iter().count() };
            assert_eq!(entries as u32, KEYS + 1);
            fixture.background.run_until_idle();
        }
        assert_eq!((fixture.runs(), fixture.read_compactions()), (3, 0));
    }
}
