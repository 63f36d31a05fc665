//! Look-ups that search blocks in vain have tables merged, for what that is worth to them; in the end there is nothing to merge. Walks that
//! pass over many deletes have a table made of the memtable.

use std::sync::Arc;

use terrace::{BloomFilterPolicy, Db, Env, Options, compress};
use terrace_env::{DeterministicScheduler, ManualClock};

const KEYS: u32 = 200_000;

/// A large run, and above it two small tables on level 0 that span it.
struct ReadCompactionDb {
    background: Arc<DeterministicScheduler>,
    env: Env,
    db: Db,
    gets: u32,
}

impl ReadCompactionDb {
    fn new(filter_bits: usize) -> ReadCompactionDb {
        let background = DeterministicScheduler::new(1);
        // Merges take no time by a clock that stands, and so are followed by no rest.
        let clock = Arc::new(ManualClock::default());
        let env = Env { scheduler: Arc::clone(&background) as _, clock, ..Env::in_memory() };
        let options = Options {
            create_if_missing: true,
            env: env.clone(),
            compression: &compress::NO_COMPRESSION,
            max_file_size: Some(64 << 20),
            filter_policy: Some(Arc::new(BloomFilterPolicy::new(filter_bits))),
            ..Options::default()
        };
        let db = Db::open("db", &options).unwrap();
        (0..KEYS).for_each(|n| db.put(&key(n), &[7; 200]).unwrap());
        db.compact_range(None, None).unwrap();
        for part in 0..2 {
            (0..KEYS).skip(part).step_by(1_000).for_each(|n| db.put(&key(n), b"new").unwrap());
            db.put(&key(KEYS), b"").unwrap();
            db.flush().unwrap();
        }
        background.run_until_idle();
        let trial = ReadCompactionDb { background, env, db, gets: 0 };
        assert_eq!((trial.runs(), trial.merges()), (3, 0));
        trial
    }

    /// How many tables there are at most to look one key up in.
    fn runs(&self) -> usize {
        let levels = self.db.levels();
        let sorted = levels[1..].iter().filter(|level| !level.files.is_empty()).count();
        levels[0].files.len() + sorted
    }

    /// How many merges reads asked for.
    fn merges(&self) -> usize {
        log(&self.env)
            .lines()
            .filter(|line| line.contains("Compacted ") && line.contains("reason=ReadTriggered"))
            .count()
    }

    /// Looks keys up, here and there, of which no table of level 0 has any.
    fn look_up(&mut self, count: u32) {
        for _ in 0..count {
            self.gets += 1;
            let n = self.gets.wrapping_mul(2_654_435_761) % KEYS / 1_000 * 1_000 + 500;
            assert_eq!(self.db.get(&key(n)).unwrap(), Some(vec![7; 200]));
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
    let mut trial = ReadCompactionDb::new(0);
    trial.look_up(2_000);
    assert_eq!((trial.runs(), trial.merges()), (1, 2), "first with each other, then with the large run");
    trial.look_up(20_000);
    assert_eq!(trial.merges(), 2, "a settled database is left alone");
}

#[test]
fn larger_compactions_need_more_wasted_probes() {
    let mut trial = ReadCompactionDb::new(0);
    // The two small ones a hundred, as in LevelDB; what comes of them is above forty megabytes, and each look-up is worth 192 KiB.
    trial.look_up(270);
    assert_eq!((trial.runs(), trial.merges()), (2, 1));
    trial.look_up(500);
    assert_eq!((trial.runs(), trial.merges()), (1, 2));
}

#[test]
fn probes_avoided_by_filters_trigger_no_compaction() {
    let mut trial = ReadCompactionDb::new(10);
    trial.look_up(3_000);
    assert_eq!((trial.runs(), trial.merges()), (3, 0));
}

#[test]
fn skipped_tombstones_trigger_a_flush() {
    let background = DeterministicScheduler::new(1);
    let env = Env { scheduler: Arc::clone(&background) as _, ..Env::in_memory() };
    let options = Options { create_if_missing: true, env: env.clone(), ..Options::default() };
    let db = Db::open("db", &options).unwrap();
    (0..2_000).for_each(|n| db.put(&key(n), b"").unwrap());
    db.compact_range(None, None).unwrap();
    (0..1_000).for_each(|n| db.delete(&key(n)).unwrap());
    let flushes = || {
        background.run_until_idle();
        log(&env).matches("Level-0 table #").count()
    };
    let before = flushes();
    let walk = |backward: bool| {
        let mut iter = db.iter();
        if backward {
            iter.seek(&key(1_000));
            iter.prev();
            assert!(!iter.valid());
        } else {
            iter.seek_to_first();
            assert_eq!(iter.key(), key(1_000));
        }
    };
    // 65,536 deletes passed over are what a table costs.
    (0..65).for_each(|turn| walk(turn % 2 == 0));
    assert_eq!(flushes(), before);
    walk(false);
    assert_eq!(flushes(), before + 1);
    (0..200).for_each(|turn| walk(turn % 2 == 0));
    assert_eq!(flushes(), before + 1, "there is nothing more to make a table of");
    assert_eq!(db.iter().into_forward().count(), 1_000);
}
