//! Every way to look a key up gives what an ordered map holds, from memtables and from tables, now and then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, Db, Env, Options, ReadOptions, Snapshot};
use terrace_env::posix::PosixFs;
use terrace_env::{DeterministicScheduler, Random, SeededRandom};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database whose cache holds a few blocks, so that most come from files.
fn small() -> Db {
    small_in(Path::new("db"), Env::in_memory())
}

fn small_in(path: &Path, env: Env) -> Db {
    let env = Env { scheduler: DeterministicScheduler::new(1), ..env };
    let block_cache = Some(BlockCache::new(20_000));
    Db::open(path, &Options { create_if_missing: true, env, block_cache, ..Options::default() }).unwrap()
}

/// Keys of a few lengths, some of them beyond what a key to seek has room for in place.
fn key(n: u64) -> Vec<u8> {
    let len = [4, 20, 90][n as usize % 3];
    format!("{n:04}").into_bytes().into_iter().chain(std::iter::repeat(b'.')).take(len).collect()
}

/// Both, with the same entries.
#[track_caller]
fn check(db: &Db, map: &Map, snapshot: Option<&Snapshot>, keys: &[Vec<u8>]) {
    let options = ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
    let mut value = b"what was there before".to_vec();
    for key in keys {
        let expect = map.get(key);
        let name = key.escape_ascii();
        assert_eq!(db.get_with(key, &options).unwrap().as_ref(), expect, "get {name}");
        assert_eq!(db.contains_with(key, &options).unwrap(), expect.is_some(), "contains {name}");
        let pinned = db.get_pinned_with(key, &options).unwrap();
        assert_eq!(pinned.as_deref(), expect.map(Vec::as_slice), "get_pinned {name}");
        assert_eq!(db.get_into_with(key, &mut value, &options).unwrap(), expect.is_some(), "get_into {name}");
        assert_eq!(value, expect.cloned().unwrap_or_default(), "get_into {name}");
    }
    let expect: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
    assert_eq!(db.multi_get_with(keys, &options).unwrap(), expect);
}

#[test]
fn point_reads_match_an_ordered_map() {
    check_steps(&small());
}

/// So the device is told what several look-ups will want.
#[test]
fn point_reads_without_mmap_match_an_ordered_map() {
    let dir = tempfile::tempdir().unwrap();
    check_steps(&small_in(dir.path(), Env::with_file_system(Arc::new(PosixFs::with_limits(0, 0, 100)))));
}

#[track_caller]
fn check_steps(db: &Db) {
    let random = SeededRandom::new(7);
    let (mut map, mut then) = (Map::new(), None);
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
            1000 => then = Some((db.snapshot(), map.clone())),
            400 | 800 | 1500 | 2500 => db.flush().unwrap(),
            2000 => db.compact_range(None, None).unwrap(),
            _ => {}
        }
        if step % 250 == 249 {
            let keys: Vec<_> = (0..100).map(|_| self::key(random.uniform(800))).collect();
            check(db, &map, None, &keys);
            if let Some((snapshot, map)) = &then {
                check(db, map, Some(snapshot), &keys);
            }
        }
    }
}

/// One run, in which most keys have one version and some have several: walks that turn, and sometimes jump, over it.
#[test]
fn iterators_over_one_run() {
    for (seed, cache, memtable) in [(1, 20_000, false), (2, 1 << 20, false), (3, 1 << 20, true)] {
        let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
        let block_cache = Some(BlockCache::new(cache));
        let options = Options { create_if_missing: true, env, block_cache, ..Options::default() };
        let (db, random) = (Db::open("db", &options).unwrap(), SeededRandom::new(seed));
        let (mut map, mut times) = (Map::new(), Vec::new());
        for _ in 0..4 {
            write(&db, &mut map, 300, &random);
            times.push((db.snapshot(), map.clone()));
        }
        db.compact_range(None, None).unwrap();
        if memtable {
            db.put(&key(1), b"later").unwrap();
        }
        walk_at_all(&db, &times, &random);
    }
}

/// Many entries in one run, and a few or as many in others, in tables and in memory: walks that turn, and sometimes jump.
#[test]
fn iterators_over_several_runs() {
    for (seed, later) in [(1, 1), (2, 10), (3, 40), (4, 400), (5, 10), (6, 40)] {
        let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
        let options = Options { create_if_missing: true, env, ..Options::default() };
        let (db, random) = (Db::open("db", &options).unwrap(), SeededRandom::new(seed));
        let (mut map, mut times) = (Map::new(), Vec::new());
        write(&db, &mut map, 1500, &random);
        db.compact_range(None, None).unwrap();
        times.push((db.snapshot(), map.clone()));
        for _ in 0..3 {
            db.flush().unwrap();
            write(&db, &mut map, later, &random);
            times.push((db.snapshot(), map.clone()));
        }
        assert!(!db.levels()[0].files.is_empty(), "{seed}");
        walk_at_all(&db, &times, &random);
    }
}

type SnapshotState = (Snapshot, Map);

/// Puts, and some deletes.
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

/// Walks at each of the moments, with and without bounds.
#[track_caller]
fn walk_at_all(db: &Db, times: &[SnapshotState], random: &SeededRandom) {
    for (snapshot, map) in times {
        for (lower, upper) in [(None, None), (Some(key(100)), Some(key(500)))] {
            let (from, to) = (lower.clone().unwrap_or_default(), upper.clone().unwrap_or(vec![0xff]));
            let options = ReadOptions {
                snapshot: Some(snapshot.clone()),
                lower_bound: lower,
                upper_bound: upper,
                ..ReadOptions::default()
            };
            walk(db, &map.range(from..to).collect::<Vec<_>>(), &options, random);
        }
    }
}

/// Both, with the same entries.
#[track_caller]
fn walk(db: &Db, entries: &[(&Vec<u8>, &Vec<u8>)], options: &ReadOptions, random: &SeededRandom) {
    let mut iter = db.iter_with(options);
    let mut at: Option<usize> = None;
    let mut turn = 0;
    for _ in 0..4000 {
        match (random.uniform(100), at) {
            (0, _) | (_, None) if random.uniform(2) == 0 => {
                let target = key(random.uniform(600));
                iter.seek(&target);
                at = Some(entries.partition_point(|(key, _)| **key < target));
            }
            (0, _) | (_, None) if random.uniform(2) == 0 => {
                iter.seek_to_first();
                at = Some(0);
            }
            (0, _) | (_, None) => {
                iter.seek_to_last();
                at = entries.len().checked_sub(1);
            }
            (1..10, Some(_)) => turn = random.uniform(3),
            (_, Some(here)) if turn > 0 => {
                iter.next();
                at = Some(here + 1);
            }
            (_, Some(here)) => {
                iter.prev();
                at = here.checked_sub(1);
            }
        }
        at = at.filter(|&at| at < entries.len());
        let found = iter.valid().then(|| (iter.key(), iter.value()));
        assert_eq!(found, at.map(|at| (&entries[at].0[..], &entries[at].1[..])));
    }
    iter.status().unwrap();
}

/// A database with one block in a table, and the cache it is read through.
fn one_block() -> (Db, Arc<BlockCache>) {
    let (env, cache) =
        (Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() }, BlockCache::new(1 << 20));
    let options =
        Options { create_if_missing: true, env, block_cache: Some(cache.clone()), ..Options::default() };
    let db = Db::open("db", &options).unwrap();
    (0..40).for_each(|n| db.put(&key(n), &[7; 50]).unwrap());
    db.flush().unwrap();
    (db, cache)
}

fn weight_after_a_look_up(db: &Db, cache: &BlockCache) -> usize {
    assert_eq!(db.get(&key(3)).unwrap().as_deref(), Some(&[7; 50][..]));
    cache.usage()
}

#[test]
fn cache_charges_a_block_for_its_search_index() {
    let (db, cache) = one_block();
    assert_eq!(db.iter().into_forward().map(Result::unwrap).count(), 40);
    let walked = cache.usage();
    let weights = [(); 3].map(|()| weight_after_a_look_up(&db, &cache));
    assert!(0 < walked && walked < weights[0], "{walked} {weights:?}");
    assert_eq!(weights[1..], [weights[0]; 2]);
    drop(db);
    assert_eq!(cache.usage(), 0);
}

#[test]
fn block_read_by_a_get_has_its_search_index() {
    let (db, cache) = one_block();
    let weights = [(); 3].map(|()| weight_after_a_look_up(&db, &cache));
    assert_eq!(weights, [weights[0]; 3]);
    let (walked, others) = one_block();
    assert_eq!(walked.iter().into_forward().map(Result::unwrap).count(), 40);
    assert!(others.usage() < weights[0]);
}

#[test]
fn a_pinned_value_outlives_its_key_its_block_and_its_database() {
    let db = small();
    db.put(b"in a table", &[1; 5000]).unwrap();
    db.flush().unwrap();
    db.put(b"in a memtable", &[2; 5000]).unwrap();
    let table = db.get_pinned(b"in a table").unwrap().unwrap();
    let memtable = db.get_pinned(b"in a memtable").unwrap().unwrap();
    for key in [b"in a table".as_slice(), b"in a memtable"] {
        db.delete(key).unwrap();
    }
    db.compact_range(None, None).unwrap();
    for n in 0..100 {
        db.put(&key(n), &[3; 5000]).unwrap();
    }
    db.flush().unwrap();
    (0..100).for_each(|n| assert!(db.contains(&key(n)).unwrap()));
    db.close().unwrap();
    assert_eq!((&table[..], &memtable[..]), (&[1; 5000][..], &[2; 5000][..]));
}

#[test]
fn a_snapshot_of_another_database_is_refused() {
    let (db, other) = (small(), small());
    db.put(b"a", b"1").unwrap();
    let options = ReadOptions { snapshot: Some(other.snapshot()), ..ReadOptions::default() };
    let mut value = b"before".to_vec();
    assert!(db.get_into_with(b"a", &mut value, &options).is_err());
    assert_eq!(value, b"");
    assert!(db.get_pinned_with(b"a", &options).is_err());
    assert!(db.contains_with(b"a", &options).is_err());
    assert!(db.multi_get_with(&[b"a"], &options).is_err());
}

/// The counts of `terrace.stats`: hits, misses, negatives, false positives.
fn counts(db: &Db) -> [u64; 4] {
    let text = db.property("terrace.stats").unwrap();
    let is_of_reads = |line: &&str| line.starts_with("blocks") || line.starts_with("filters");
    let reads = text.lines().filter(is_of_reads).flat_map(str::split_whitespace);
    let numbers: Vec<u64> = reads.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn reads_are_counted_in_stats() {
    let db = small();
    for n in 0..200 {
        db.put(&key(n), &[7; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(counts(&db), [0; 4], "merges count nothing");
    assert!(db.contains(&key(5)).unwrap());
    assert!(db.contains(&key(5)).unwrap());
    assert_eq!(counts(&db), [1, 1, 0, 0]);
    (0..1000).for_each(|n| assert!(!db.contains(format!("0000{n}").as_bytes()).unwrap()));
    let [hits, misses, negatives, wrong] = counts(&db);
    assert_eq!(negatives + wrong, 1000);
    assert!(wrong < 100, "{wrong} of 1,000 keys");
    assert_eq!(hits + misses, 2 + wrong, "only what the filters let through needs a block");
}

#[test]
fn write_stalls_are_counted_in_stats() {
    let mut env = Env::in_memory();
    // Its jobs run when somebody waits for them, and no sooner.
    env.scheduler = DeterministicScheduler::new(1);
    let options =
        Options { create_if_missing: true, write_buffer_size: Some(64 << 10), env, ..Options::default() };
    let db = Db::open("db", &options).unwrap();
    let told = |part: &str| db.property("terrace.stats").unwrap().contains(part);
    assert!(told("writes  delayed 0 for 0 us, stopped 0 for 0 us"));
    for n in 0..100 {
        db.put(&key(n), &[7; 10_000]).unwrap();
    }
    assert!(!told("stopped 0 for"));
}
