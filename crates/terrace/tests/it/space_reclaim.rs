//! Space comes back after deletes, by itself: nobody asks for a merge.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, Options, ReadOptions};
use terrace_env::DeterministicScheduler;

const KEYS: u32 = 200_000;

/// A database in memory, and what does its background work when it is told to.
struct SpaceDb {
    env: Env,
    background: Arc<DeterministicScheduler>,
    options: Options,
}

impl SpaceDb {
    fn new(change: impl FnOnce(&mut Options)) -> SpaceDb {
        let background = DeterministicScheduler::new(1);
        let env = Env { scheduler: Arc::clone(&background) as _, ..Env::in_memory() };
        let mut options = Options { create_if_missing: true, env: env.clone(), ..Options::default() };
        change(&mut options);
        SpaceDb { env, background, options }
    }

    fn open(&self) -> Db {
        Db::open("db", &self.options).unwrap()
    }

    /// What is in memory goes to a table, and then everything that comes of it is done.
    fn settle(&self, db: &Db) {
        db.flush().unwrap();
        self.background.run_until_idle();
    }

    /// Bytes of all tables.
    fn space(&self) -> u64 {
        let names = self.env.fs.list("db".as_ref()).unwrap();
        let tables = names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb"));
        tables.map(|name| self.env.fs.file_size(&Path::new("db").join(name)).unwrap()).sum()
    }

    /// The space of the tables now, in percent of what it is once everything was merged.
    #[track_caller]
    fn percent(&self, db: &Db) -> u64 {
        let now = self.space();
        db.compact_range(None, None).unwrap();
        now * 100 / self.space().max(1)
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// 100 bytes that nothing packs.
fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..100).map(byte).collect()
}

/// All of them, in an order that has nothing to do with theirs.
fn scattered() -> impl Iterator<Item = u32> {
    (0..KEYS).map(|n| (u64::from(n) * 2_654_435_761 % u64::from(KEYS)) as u32)
}

fn fill(trial: &SpaceDb) -> Db {
    let db = trial.open();
    scattered().for_each(|n| db.put(&key(n), &value(n)).unwrap());
    trial.settle(&db);
    db
}

/// True for about half of the keys.
fn is_chosen(n: u32) -> bool {
    n.wrapping_mul(0x9e37_79b9).wrapping_mul(0x85eb_ca6b) >> 31 == 0
}

fn small(options: &mut Options) {
    options.write_buffer_size = Some(256 << 10);
    options.max_file_size = Some(1 << 20);
}

#[test]
fn space_of_random_deletes_is_reclaimed() {
    for change in [|_: &mut Options| (), small] {
        let trial = SpaceDb::new(change);
        let db = fill(&trial);
        scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(&key(n)).unwrap());
        trial.settle(&db);
        let percent = trial.percent(&db);
        assert!(percent <= 130, "{percent} %");
        let left = (0..KEYS).filter(|&n| !is_chosen(n)).count();
        assert!(left.abs_diff(KEYS as usize / 2) < 2_000, "{left} keys are left");
        assert_eq!(db.iter().into_forward().count(), left);
    }
}

/// Hits and misses of blocks so far.
fn blocks(db: &Db) -> u64 {
    let stats = db.property("terrace.stats").unwrap();
    let words: Vec<&str> = stats.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((words[0], words[1], words[3]), ("blocks", "hits", "misses"));
    words[2].parse::<u64>().unwrap() + words[4].parse::<u64>().unwrap()
}

#[test]
fn scan_reads_few_blocks_of_a_deleted_range() {
    let trial = SpaceDb::new(|_| ());
    let db = fill(&trial);
    let over = || {
        let before = blocks(&db);
        let mut iter = db.iter();
        iter.seek(&key(KEYS / 4));
        while iter.valid() && iter.key() < &key(KEYS / 4 * 3)[..] {
            iter.next();
        }
        assert_eq!(iter.key(), key(KEYS / 4 * 3));
        blocks(&db) - before
    };
    let full = over();
    (KEYS / 4..KEYS / 4 * 3).for_each(|n| db.delete(&key(n)).unwrap());
    trial.settle(&db);
    let empty = over();
    assert!(full > 1_000 && empty < 10, "{empty} blocks read, {full} before");
    let percent = trial.percent(&db);
    assert!(percent <= 130, "{percent} %");
}

#[test]
fn deletes_of_missing_keys_leave_no_tables() {
    let trial = SpaceDb::new(|_| ());
    let db = trial.open();
    scattered().for_each(|n| db.delete(&key(n)).unwrap());
    trial.settle(&db);
    assert_eq!(trial.space(), 0, "{}", db.property("leveldb.sstables").unwrap());
}

/// What a snapshot sees stays, and is not merged again and again for nothing; when it goes, that is seen to.
#[test]
fn tombstones_are_not_compacted_while_a_snapshot_needs_them() {
    let trial = SpaceDb::new(|_| ());
    let db = fill(&trial);
    db.compact_range(None, None).unwrap();
    let before = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    let full = trial.space();
    scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(&key(n)).unwrap());
    trial.settle(&db);
    let deletes = trial.space() - full;
    assert!(deletes < full / 2, "{deletes} bytes of deletes above {full}");
    assert_eq!(db.iter_with(&before).into_forward().count() as u32, KEYS);
    // Asked for, the deletes go to the last level, with all that the snapshot sees.
    db.compact_range(None, None).unwrap();
    trial.settle(&db);
    assert!(trial.space() >= full);
    drop(before);
    trial.background.run_until_idle();
    assert!(trial.space() * 2 <= full * 13 / 10, "{} bytes of {full} for half of the keys", trial.space());
}

/// What an earlier process left is known when the tables have been opened.
#[test]
fn tombstones_of_an_earlier_run_are_compacted() {
    let trial = SpaceDb::new(|_| ());
    let db = fill(&trial);
    db.compact_range(None, None).unwrap();
    let full = trial.space();
    let before = db.snapshot();
    scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(&key(n)).unwrap());
    trial.settle(&db);
    // Gone when nobody can do anything about it any more.
    db.shutdown().unwrap();
    drop((before, db));

    let db = trial.open();
    assert!(trial.space() > full);
    assert_eq!(db.iter().into_forward().count(), (0..KEYS).filter(|&n| !is_chosen(n)).count());
    trial.background.run_until_idle();
    let percent = trial.percent(&db);
    assert!(percent <= 130, "{percent} %");
}

/// The oldest leave at the tail what the newest come to at the head: tables of deletes that overlap nothing but what they hide.
#[test]
fn queue_workload_uses_bounded_space() {
    const LENGTH: u32 = 20_000;
    let trial = SpaceDb::new(small);
    let db = trial.open();
    let mut most = 0;
    for n in 0..KEYS {
        db.put(&key(n), &value(n)).unwrap();
        if let Some(oldest) = n.checked_sub(LENGTH) {
            db.delete(&key(oldest)).unwrap();
        }
        if n % 1_000 == 0 {
            trial.background.run_until_idle();
            most = most.max(trial.space());
        }
    }
    // Of 116 bytes each, and what lies in level 0.
    assert!(most < u64::from(LENGTH) * 250, "{most} bytes");
}

/// Puts, deletes and snapshots in any order: whatever is merged for whichever reason, everybody sees what he should.
#[test]
fn reads_are_correct_during_tombstone_compactions() {
    const SPAN: u32 = 20_000;
    let mut merges = 0;
    for seed in 1..4u64 {
        let trial = SpaceDb::new(|options| {
            small(options);
            options.write_buffer_size = Some(64 << 10);
        });
        let db = trial.open();
        let mut state = seed;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(below)) as u32
        };
        let mut model = BTreeMap::new();
        let mut held = Vec::new();
        for round in 0..40 {
            let (low, span) = if random(2) == 0 { (0, SPAN) } else { (random(SPAN), SPAN / 10) };
            let deletes = random(101);
            for _ in 0..2_000 {
                let n = low + random(span);
                if random(100) < deletes {
                    db.delete(&key(n)).unwrap();
                    model.remove(&key(n));
                } else {
                    let value = value(n + round);
                    db.put(&key(n), &value).unwrap();
                    model.insert(key(n), value);
                }
            }
            if random(3) == 0 {
                let options = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
                held.push((options, model.clone()));
            }
            if held.len() > 2 {
                held.clear();
            }
            trial.background.run_until_idle();
            held.iter().for_each(|(options, model)| assert!(shown(&db, options) == *model));
            assert!(shown(&db, &ReadOptions::default()) == model, "seed {seed}, round {round}");
        }
        let mut log = vec![0; trial.env.fs.file_size("db/LOG".as_ref()).unwrap() as usize];
        trial.env.fs.open_sequential("db/LOG".as_ref()).unwrap().read(&mut log).unwrap();
        merges += String::from_utf8_lossy(&log).matches("reason=Tombstones").count();
        db.close().unwrap();
        assert!(terrace::verify("db", &trial.options, &mut |_, _| ()).unwrap().is_clean());
    }
    assert!(merges > 2, "{merges} merges for the sake of deletes");
}

fn shown(db: &Db, options: &ReadOptions) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.iter_with(options).into_forward().collect::<Result<_, _>>().unwrap()
}

/// The numbers that a table says of itself may be anybody's: they cost a merge at most.
#[test]
fn false_table_properties_do_no_harm() {
    let trial = SpaceDb::new(|_| ());
    let db = fill(&trial);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let names = trial.env.fs.list("db".as_ref()).unwrap();
    for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb")) {
        lie(&trial.env, &Path::new("db").join(name));
    }
    let db = trial.open();
    assert_eq!(db.iter().into_forward().count() as u32, KEYS);
    let full = trial.space();
    db.put(&key(KEYS), b"").unwrap();
    trial.settle(&db);
    assert_eq!(db.iter().into_forward().count() as u32, KEYS + 1);
    assert!(trial.space() <= full + full / 10);
}

/// Makes the table at `path` say that all its entries are deletes.
fn lie(env: &Env, path: &Path) {
    use terrace_format::crc;
    let mut bytes = vec![0; env.fs.file_size(path).unwrap() as usize];
    env.fs.open_random_access(path, terrace_env::AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
    let mark = bytes.windows(5).rposition(|window| window == b"CNTS\0").unwrap();
    let entries = bytes[mark - 16..mark - 8].to_vec();
    bytes[mark - 8..mark].copy_from_slice(&entries);
    let sum = crc::mask(crc::value(&bytes[mark - 16..mark + 5]));
    bytes[mark + 5..mark + 9].copy_from_slice(&sum.to_le_bytes());
    let mut file = env.fs.create(path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}
