//! All read methods agree with an ordered map, for memtables, tables and snapshots.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, Db, Env, Options, ReadOptions, Snapshot};
#[cfg(unix)]
use terrace_env::SystemFs;
use terrace_env::{DeterministicScheduler, Random, SeededRandom};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Opens a database whose cache holds a few blocks, so that most reads access files.
fn open_small_cache() -> Db {
    open_small_cache_in(Path::new("db"), Env::in_memory())
}

fn open_small_cache_in(path: &Path, env: Env) -> Db {
    let env = Env { scheduler: DeterministicScheduler::new(1), ..env };
    let block_cache = Some(BlockCache::new(20_000));
    Db::open(path, &Options::default().create_if_missing(true).env(env).block_cache(block_cache)).unwrap()
}

/// Returns a key of one of several lengths; the longest exceed the inline buffer of a lookup key.
fn key(n: u64) -> Vec<u8> {
    let len = [4, 20, 90][n as usize % 3];
    format!("{n:04}").into_bytes().into_iter().chain(std::iter::repeat(b'.')).take(len).collect()
}

/// Checks that the database and the map agree.
#[track_caller]
fn check(db: &Db, map: &Map, snapshot: Option<&Snapshot>, keys: &[Vec<u8>]) {
    let options = ReadOptions::default().snapshot(snapshot.cloned());
    let mut value = b"what was there before".to_vec();
    for key in keys {
        let expected = map.get(key);
        let name = key.escape_ascii();
        assert_eq!(db.get_with(key, &options).unwrap().as_ref(), expected, "get {name}");
        assert_eq!(db.contains_with(key, &options).unwrap(), expected.is_some(), "contains {name}");
        let pinned = db.get_pinned_with(key, &options).unwrap();
        assert_eq!(pinned.as_deref(), expected.map(Vec::as_slice), "get_pinned {name}");
        assert_eq!(
            db.get_into_with(key, &mut value, &options).unwrap(),
            expected.is_some(),
            "get_into {name}"
        );
        assert_eq!(value, expected.cloned().unwrap_or_default(), "get_into {name}");
    }
    let expected: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
    assert_eq!(db.multi_get_with(keys, &options).unwrap(), expected);
}

#[test]
fn point_reads_match_an_ordered_map() {
    check_steps(&open_small_cache());
}

/// Without mmap, `multi_get` prefetches blocks from storage.
#[cfg(unix)]
#[test]
fn point_reads_without_mmap_match_an_ordered_map() {
    let dir = tempfile::tempdir().unwrap();
    check_steps(&open_small_cache_in(
        dir.path(),
        Env::with_file_system(Arc::new(SystemFs::with_limits(0, 0, 100))),
    ));
}

#[track_caller]
fn check_steps(db: &Db) {
    let random = SeededRandom::new(7);
    let mut map = Map::new();
    let mut snapshot_state = None;
    for step in 0..3000u64 {
        let key = key(random.uniform(700));
        match random.uniform(10) {
            0..2 => {
                db.delete(&key).unwrap();
                map.remove(&key);
            }
            _ => {
                let value = vec![step as u8; random.uniform(300) as usize];
                db.put(&key, &value).unwrap();
                map.insert(key, value);
            }
        }
        match step {
            1000 => snapshot_state = Some((db.snapshot(), map.clone())),
            400 | 800 | 1500 | 2500 => db.flush().unwrap(),
            2000 => db.compact_range(None, None).unwrap(),
            _ => {}
        }
        if step % 250 == 249 {
            let keys: Vec<_> = (0..100).map(|_| self::key(random.uniform(800))).collect();
            check(db, &map, None, &keys);
            if let Some((snapshot, map)) = &snapshot_state {
                check(db, map, Some(snapshot), &keys);
            }
        }
    }
}

/// One sorted run in which most keys have one version and some have several. Iterators change
/// direction and sometimes seek.
#[test]
fn iterators_over_one_run() {
    for (seed, cache, memtable) in [(1, 20_000, false), (2, 1 << 20, false), (3, 1 << 20, true)] {
        let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
        let block_cache = Some(BlockCache::new(cache));
        let options = Options::default().create_if_missing(true).env(env).block_cache(block_cache);
        let db = Db::open("db", &options).unwrap();
        let random = SeededRandom::new(seed);
        let mut map = Map::new();
        let mut states = Vec::new();
        for _ in 0..4 {
            write(&db, &mut map, 300, &random);
            states.push((db.snapshot(), map.clone()));
        }
        db.compact_range(None, None).unwrap();
        if memtable {
            db.put(key(1), b"later").unwrap();
        }
        check_iterators(&db, &states, &random);
    }
}

/// Many entries in one sorted run, and few or many in others, in tables and in memtables. Iterators
/// change direction and sometimes seek.
#[test]
fn iterators_over_several_runs() {
    for (seed, later) in [(1, 1), (2, 10), (3, 40), (4, 400), (5, 10), (6, 40)] {
        let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
        let options = Options::default().create_if_missing(true).env(env);
        let db = Db::open("db", &options).unwrap();
        let random = SeededRandom::new(seed);
        let mut map = Map::new();
        let mut states = Vec::new();
        write(&db, &mut map, 1500, &random);
        db.compact_range(None, None).unwrap();
        states.push((db.snapshot(), map.clone()));
        for _ in 0..3 {
            db.flush().unwrap();
            write(&db, &mut map, later, &random);
            states.push((db.snapshot(), map.clone()));
        }
        assert!(!db.levels()[0].files.is_empty(), "{seed}");
        check_iterators(&db, &states, &random);
    }
}

type SnapshotState = (Snapshot, Map);

/// Writes puts and some tombstones.
fn write(db: &Db, map: &mut Map, steps: u64, random: &SeededRandom) {
    for step in 0..steps {
        let key = key(random.uniform(600));
        if random.uniform(8) == 0 {
            db.delete(&key).unwrap();
            map.remove(&key);
        } else {
            let value = vec![step as u8; random.uniform(200) as usize];
            db.put(&key, &value).unwrap();
            map.insert(key, value);
        }
    }
}

/// Checks iterators over each state, with and without bounds.
#[track_caller]
fn check_iterators(db: &Db, states: &[SnapshotState], random: &SeededRandom) {
    for (snapshot, map) in states {
        for (lower, upper) in [(None, None), (Some(key(100)), Some(key(500)))] {
            let start = lower.clone().unwrap_or_default();
            let limit = upper.clone().unwrap_or(vec![0xff]);
            let mut options = ReadOptions::default().snapshot(snapshot.clone());
            options.lower_bound = lower;
            options.upper_bound = upper;
            check_iterator(db, &map.range(start..limit).collect::<Vec<_>>(), &options, random);
        }
    }
}

/// Checks that the database and the map agree.
#[track_caller]
fn check_iterator(db: &Db, entries: &[(&Vec<u8>, &Vec<u8>)], options: &ReadOptions, random: &SeededRandom) {
    let mut iter = db.raw_iter_with(options);
    let mut position: Option<usize> = None;
    let mut direction = 0;
    for _ in 0..4000 {
        match (random.uniform(100), position) {
            (0, _) | (_, None) if random.uniform(2) == 0 => {
                let target = key(random.uniform(600));
                iter.seek(&target);
                position = Some(entries.partition_point(|(key, _)| **key < target));
            }
            (0, _) | (_, None) if random.uniform(2) == 0 => {
                iter.seek_to_first();
                position = Some(0);
            }
            (0, _) | (_, None) => {
                iter.seek_to_last();
                position = entries.len().checked_sub(1);
            }
            (1..10, Some(_)) => direction = random.uniform(3),
            (_, Some(index)) if direction > 0 => {
                iter.next();
                position = Some(index + 1);
            }
            (_, Some(index)) => {
                iter.prev();
                position = index.checked_sub(1);
            }
        }
        position = position.filter(|&index| index < entries.len());
        let found = iter.valid().then(|| (iter.key(), iter.value()));
        assert_eq!(found, position.map(|index| (&entries[index].0[..], &entries[index].1[..])));
    }
    iter.status().unwrap();
}

/// Creates a database with one block in a table. Returns it with its block cache.
fn one_block() -> (Db, Arc<BlockCache>) {
    let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
    let cache = BlockCache::new(1 << 20);
    let options = Options::default().create_if_missing(true).env(env).block_cache(cache.clone());
    let db = Db::open("db", &options).unwrap();
    (0..40).for_each(|n| db.put(key(n), [7; 50]).unwrap());
    db.flush().unwrap();
    (db, cache)
}

fn usage_after_get(db: &Db, cache: &BlockCache) -> usize {
    assert_eq!(db.get(key(3)).unwrap().as_deref(), Some(&[7; 50][..]));
    cache.usage()
}

#[test]
fn cache_charges_a_block_for_its_search_index() {
    let (db, cache) = one_block();
    assert_eq!(db.iter().map(Result::unwrap).count(), 40);
    let scanned = cache.usage();
    let usages = [(); 3].map(|()| usage_after_get(&db, &cache));
    assert!(0 < scanned && scanned < usages[0], "{scanned} {usages:?}");
    assert_eq!(usages[1..], [usages[0]; 2]);
    drop(db);
    assert_eq!(cache.usage(), 0);
}

#[test]
fn block_read_by_a_get_has_its_search_index() {
    let (db, cache) = one_block();
    let usages = [(); 3].map(|()| usage_after_get(&db, &cache));
    assert_eq!(usages, [usages[0]; 3]);
    let (scanned, others) = one_block();
    assert_eq!(scanned.iter().map(Result::unwrap).count(), 40);
    assert!(others.usage() < usages[0]);
}

#[test]
fn pinned_value_outlives_its_key_its_block_and_its_database() {
    let db = open_small_cache();
    db.put(b"in a table", [1; 5000]).unwrap();
    db.flush().unwrap();
    db.put(b"in a memtable", [2; 5000]).unwrap();
    let table = db.get_pinned(b"in a table").unwrap().unwrap();
    let memtable = db.get_pinned(b"in a memtable").unwrap().unwrap();
    for key in [b"in a table".as_slice(), b"in a memtable"] {
        db.delete(key).unwrap();
    }
    db.compact_range(None, None).unwrap();
    for n in 0..100 {
        db.put(key(n), [3; 5000]).unwrap();
    }
    db.flush().unwrap();
    (0..100).for_each(|n| assert!(db.contains(key(n)).unwrap()));
    db.close().unwrap();
    assert_eq!((&table[..], &memtable[..]), (&[1; 5000][..], &[2; 5000][..]));
}

#[test]
fn snapshot_of_another_database_is_an_error() {
    let db = open_small_cache();
    let other = open_small_cache();
    db.put(b"a", b"1").unwrap();
    let options = ReadOptions::default().snapshot(other.snapshot());
    let mut value = b"before".to_vec();
    assert!(db.get_into_with(b"a", &mut value, &options).is_err());
    assert_eq!(value, b"");
    assert!(db.get_pinned_with(b"a", &options).is_err());
    assert!(db.contains_with(b"a", &options).is_err());
    assert!(db.multi_get_with(&[b"a"], &options).is_err());
}

/// Returns counts of `terrace.stats`: hits, misses, reads in place, negatives, false positives.
fn counts(db: &Db) -> [u64; 5] {
    let text = db.property("terrace.stats").unwrap();
    let rows = text.lines().filter(|line| line.starts_with("blocks") || line.starts_with("filters"));
    let reads = rows.flat_map(str::split_whitespace);
    let numbers: Vec<u64> = reads.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn reads_are_counted_in_stats() {
    let db = open_small_cache();
    for n in 0..200 {
        db.put(key(n), [7; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(counts(&db), [0; 5], "compactions count nothing");
    assert!(db.contains(key(5)).unwrap());
    assert!(db.contains(key(5)).unwrap());
    assert_eq!(counts(&db), [1, 1, 0, 0, 0]);
    (0..1000).for_each(|n| assert!(!db.contains(format!("0000{n}").as_bytes()).unwrap()));
    let [hits, misses, _, negatives, false_positives] = counts(&db);
    assert_eq!(negatives + false_positives, 1000);
    assert!(false_positives < 100, "{false_positives} of 1,000 keys");
    assert_eq!(hits + misses, 2 + false_positives, "only keys that the filters accept need a block");
}

#[test]
fn write_stalls_are_counted_in_stats() {
    let mut env = Env::in_memory();
    // Jobs run only when a thread waits for them.
    env.scheduler = DeterministicScheduler::new(1);
    let options = Options::default().create_if_missing(true).write_buffer_size(64 << 10).env(env);
    let db = Db::open("db", &options).unwrap();
    let stats_contain = |part: &str| db.property("terrace.stats").unwrap().contains(part);
    assert!(stats_contain("writes  delayed 0 for 0 us, stopped 0 for 0 us"));
    for n in 0..100 {
        db.put(key(n), [7; 10_000]).unwrap();
    }
    assert!(!stats_contain("stopped 0 for"));
}
