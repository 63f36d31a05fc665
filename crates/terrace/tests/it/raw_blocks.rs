//! Uncompressed blocks of mapped tables, which reads search in the mapping: equal results for all
//! codecs and kinds of files, and files that change or disappear under a reader.
#![cfg(unix)] // Windows maps no tables.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "another program changes the files of the database"
)]

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::compress::{self, Codec};
use terrace::{BlockCache, Db, Env, ErrorKind, Options, ReadOptions};
use terrace_env::posix::PosixFs;
use terrace_env::{DeterministicScheduler, Random, SeededRandom};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const UNCOMPRESSED: &Codec = &compress::NO_COMPRESSION;

fn options(env: Env) -> Options {
    let env = Env { scheduler: DeterministicScheduler::new(1), ..env };
    Options::default().create_if_missing(true).env(env).block_size(1 << 10)
}

/// Returns the file system of the operating system, with at most `mmaps` mapped files.
fn posix(mmaps: usize) -> Env {
    Env::with_file_system(Arc::new(PosixFs::with_limits(mmaps, 1 << 30, 100)))
}

/// Returns a key with a long common prefix, so that all heads differ only after it.
fn key(n: u64) -> Vec<u8> {
    format!("user/{n:06}/mail").into_bytes()
}

/// Returns a value that compresses well for even `n` and not at all for odd ones.
fn value(n: u64, version: u64) -> Vec<u8> {
    if n.is_multiple_of(2) {
        return [version as u8; 150].to_vec();
    }
    let random = SeededRandom::new(n << 8 | version);
    (0..100).map(|_| random.uniform(256) as u8).collect()
}

/// Returns the number of blocks that were read in place, from `terrace.stats`.
fn in_place(db: &Db) -> u64 {
    let stats = db.property("terrace.stats").unwrap();
    let row = stats.lines().find(|row| row.starts_with("blocks  in place")).unwrap();
    row.split_whitespace().last().unwrap().parse().unwrap()
}

/// Returns the bytes of open tables, from `terrace.memory`.
fn table_memory(db: &Db) -> usize {
    let stats = db.property("terrace.stats").unwrap();
    let row = stats.lines().find(|row| row.starts_with("memory  tables")).unwrap();
    row.split_whitespace().nth(2).unwrap().parse().unwrap()
}

/// Checks every kind of read against the map.
#[track_caller]
fn check(db: &Db, map: &Map, options: &ReadOptions) {
    for n in (0..1300).step_by(7) {
        let key = key(n);
        let expected = map.get(&key);
        assert_eq!(db.get_with(&key, options).unwrap().as_ref(), expected, "get {n}");
        let pinned = db.get_pinned_with(&key, options).unwrap();
        assert_eq!(pinned.as_deref(), expected.map(Vec::as_slice), "get_pinned {n}");
        let shorter = &key[..key.len() - 3];
        assert_eq!(db.get_with(shorter, options).unwrap(), None, "a prefix of key {n}");
        let mut iter = db.raw_iter_with(options);
        iter.seek(shorter);
        let mut later = map.range(shorter.to_vec()..);
        for _ in 0..3 {
            let entry = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
            assert_eq!(entry, later.next().map(|(k, v)| (k.clone(), v.clone())), "seek to {n}");
            if iter.valid() {
                iter.next();
            }
        }
    }
    let keys: Vec<_> = (0..1300).map(key).collect();
    let expected: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
    assert_eq!(db.multi_get_with(&keys, options).unwrap(), expected);
    let mut iter = db.raw_iter_with(options);
    iter.seek_to_first();
    for (key, value) in map {
        assert_eq!((iter.valid(), iter.key(), iter.value()), (true, &key[..], &value[..]));
        iter.next();
    }
    assert!(!iter.valid());
    iter.seek_to_last();
    for (key, value) in map.iter().rev() {
        assert_eq!((iter.valid(), iter.key(), iter.value()), (true, &key[..], &value[..]));
        iter.prev();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

/// Writes tables on level 0 and below, with several versions of some keys, and checks all states
/// that snapshots keep. `codecs` are those of consecutive opens.
#[track_caller]
fn check_reads(path: &Path, options: &Options, codecs: &[&'static Codec]) -> u64 {
    let mut map = Map::new();
    let random = SeededRandom::new(3);
    let mut blocks_in_place = 0;
    for (open, codec) in codecs.iter().copied().enumerate() {
        let options = options.clone().compression(codec);
        let db = Db::open(path, &options).unwrap();
        let mut states = Vec::new();
        for version in 0..4 {
            for _ in 0..400 {
                let n = random.uniform(1200);
                match random.uniform(8) {
                    0 => {
                        db.delete(key(n)).unwrap();
                        map.remove(&key(n));
                    }
                    _ => {
                        let value = value(n, version + 4 * open as u64);
                        db.put(key(n), &value).unwrap();
                        map.insert(key(n), value);
                    }
                }
            }
            states.push((db.snapshot(), map.clone()));
            match version {
                0 | 2 => db.flush().unwrap(),
                1 => db.compact_range(None, None).unwrap(),
                _ => {}
            }
        }
        db.flush().unwrap();
        for verify_checksums in [false, true] {
            for (snapshot, map) in &states {
                let options = ReadOptions::default().snapshot(snapshot.clone());
                check(&db, map, &options.verify_checksums(verify_checksums));
            }
            check(&db, &map, &ReadOptions::default().fill_cache(false));
        }
        blocks_in_place += in_place(&db);
        drop(states);
        db.close().unwrap();
    }
    blocks_in_place
}

/// Codecs of consecutive opens. The last rows have tables of several codecs.
fn codec_rows() -> Vec<Vec<&'static Codec>> {
    let mut rows = vec![
        vec![UNCOMPRESSED],
        vec![&compress::SNAPPY],
        vec![UNCOMPRESSED, &compress::SNAPPY],
        vec![&compress::SNAPPY, UNCOMPRESSED],
    ];
    if cfg!(feature = "zstd") {
        rows.push(vec![&compress::ZSTD]);
        rows.push(vec![UNCOMPRESSED, &compress::ZSTD, &compress::SNAPPY]);
    }
    rows
}

#[test]
fn equal_results_in_memory() {
    for codecs in codec_rows() {
        let mapped = check_reads(Path::new("db"), &options(Env::in_memory()), &codecs);
        let unmapped = options(Env::in_memory()).paranoid_checks(true);
        assert_eq!(check_reads(Path::new("db"), &unmapped, &codecs), 0);
        let has_raw_blocks = codecs.iter().any(|codec| codec.name == UNCOMPRESSED.name);
        assert!(mapped > 0 || !has_raw_blocks, "no block was read in place");
    }
}

#[test]
fn equal_results_on_the_file_system() {
    for codecs in [vec![UNCOMPRESSED], vec![UNCOMPRESSED, &compress::SNAPPY]] {
        for (mmaps, max_open_files) in [(1000, 1000), (0, 1000), (1, 1000), (2, 1000), (1, 12)] {
            let dir = tempfile::tempdir().unwrap();
            let options = options(posix(mmaps)).max_open_files(max_open_files).max_file_size(1 << 20);
            let blocks_in_place = check_reads(dir.path(), &options, &codecs);
            assert_eq!(blocks_in_place > 0, mmaps > 0, "{mmaps} mappings");
        }
    }
}

/// The same keys in an order in which bytes decide nothing.
#[test]
fn custom_comparators_read_in_place() {
    #[derive(Debug)]
    struct Reverse;
    impl terrace::Comparator for Reverse {
        fn name(&self) -> &str {
            "test.Reverse"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }
    let options = options(Env::in_memory()).compression(UNCOMPRESSED).comparator(Arc::new(Reverse));
    let db = Db::open("db", &options).unwrap();
    (0..600).for_each(|n| db.put(key(n), value(n, 0)).unwrap());
    db.flush().unwrap();
    for n in 0..600 {
        assert_eq!(db.get(key(n)).unwrap(), Some(value(n, 0)));
        assert_eq!(db.get(&key(n)[..8]).unwrap(), None);
    }
    let found: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, (0..600).rev().map(key).collect::<Vec<_>>());
    assert!(in_place(&db) > 600);
}

/// Keys of every length from 0 on, keys that are prefixes of each other, and versions of one key
/// that fill several blocks.
#[test]
fn unusual_keys() {
    let options = options(Env::in_memory()).compression(UNCOMPRESSED).block_size(128);
    for restart_interval in [1, 2, 16] {
        let db = Db::open("db", &options.clone().block_restart_interval(restart_interval)).unwrap();
        let mut states = Vec::new();
        let mut map = Map::new();
        for version in 0..12u8 {
            for len in 0..24 {
                for byte in [b'a', 0, 0xff] {
                    let key = [&b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[..len], &[byte][..len.min(1)]].concat();
                    db.put(&key, [version; 20]).unwrap();
                    map.insert(key, vec![version; 20]);
                }
            }
            states.push((db.snapshot(), map.clone()));
        }
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        for (snapshot, map) in &states {
            let options = ReadOptions::default().snapshot(snapshot.clone());
            for (key, value) in map {
                assert_eq!(db.get_with(key, &options).unwrap().as_ref(), Some(value));
                let mut iter = db.raw_iter_with(&options);
                iter.seek(key);
                assert_eq!((iter.valid(), iter.key(), iter.value()), (true, &key[..], &value[..]));
                iter.prev();
                let before = map.range(..key.clone()).next_back();
                assert_eq!(iter.valid().then(|| iter.key()), before.map(|(key, _)| &key[..]));
            }
            let entries: Map = db.iter_with(&options).map(Result::unwrap).collect();
            assert_eq!(&entries, map);
        }
        assert!(in_place(&db) > 0);
    }
}

/// Database on a real file system with one uncompressed table of 500 keys.
struct OneTable {
    dir: tempfile::TempDir,
    options: Options,
    db: Db,
}

const KEYS: u64 = 500;

impl OneTable {
    fn new() -> OneTable {
        OneTable::with_value_len(100)
    }

    fn with_value_len(len: usize) -> OneTable {
        let dir = tempfile::tempdir().unwrap();
        let options = options(posix(1000)).compression(UNCOMPRESSED);
        let db = Db::open(dir.path(), &options).unwrap();
        (0..KEYS).for_each(|n| db.put(key(n), vec![n as u8; len]).unwrap());
        db.flush().unwrap();
        OneTable { dir, options, db }
    }
}

fn table_files(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "ldb")).collect()
}

/// Overwrites a part of the only table in place, as another program could.
fn overwrite(dir: &Path, offset: u64, bytes: &[u8]) {
    let [path] = &table_files(dir)[..] else { panic!("one table") };
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(std::io::SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// A mapping shows the bytes that another program writes after the verification of the block.
#[test]
fn table_that_changes_after_its_verification() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let table = OneTable::new();
        let db = &table.db;
        (0..KEYS).for_each(|n| assert!(db.contains(key(n)).unwrap()));
        let mut verified = ReadOptions::default().verify_checksums(true);
        (0..KEYS).for_each(|n| assert!(db.get_with(key(n), &verified).unwrap().is_some()));
        // The first blocks take about a kilobyte each. A change of only the trailer is also one.
        for _ in 0..4 {
            let noise = match random.uniform(3) {
                0 => vec![0xff; 1 + random.uniform(300) as usize],
                1 => vec![0; 1 + random.uniform(300) as usize],
                _ => (0..300).map(|_| random.uniform(256) as u8).collect(),
            };
            overwrite(table.dir.path(), random.uniform(20_000), &noise);
        }
        let kind = |error: &terrace::Error| assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let mut wrong = 0;
        for n in 0..KEYS {
            let plain = db.get(key(n)).inspect_err(kind);
            wrong += u64::from(plain.is_err() || plain.is_ok_and(|found| found != Some(vec![n as u8; 100])));
            match db.get_with(key(n), &verified) {
                Ok(found) => assert_eq!(found, Some(vec![n as u8; 100]), "get {n} with a verified checksum"),
                Err(error) => kind(&error),
            }
        }
        assert!(wrong > 0, "seed {seed}: the changes had no effect");
        // Scans end, in both directions, and without a panic.
        for fill_cache in [true, false] {
            verified.fill_cache = fill_cache;
            let mut iter = db.raw_iter_with(&ReadOptions::default().fill_cache(fill_cache));
            iter.seek_to_first();
            (0..2 * KEYS).for_each(|_| {
                if iter.valid() {
                    iter.next()
                }
            });
            iter.seek_to_last();
            (0..2 * KEYS).for_each(|_| {
                if iter.valid() {
                    iter.prev()
                }
            });
            (0..KEYS).for_each(|n| iter.seek(&key(n)));
            let _ = iter.status().inspect_err(kind);
            let error = db.iter_with(&verified).find_map(Result::err).expect("a changed block");
            kind(&error);
        }
        // Without a second table, the compaction would only move the first one.
        db.put(key(1), b"later").unwrap();
        db.flush().unwrap();
        kind(&db.compact_range(None, None).expect_err("a compaction verifies every block"));
    }
}

/// The first read verifies, whether it is a get or a scan.
#[test]
fn table_that_changes_before_its_verification() {
    for scan in [false, true] {
        let OneTable { dir, options, db } = OneTable::new();
        db.close().unwrap();
        overwrite(dir.path(), 10_000, &[0xaa; 2]);
        let db = Db::open(dir.path(), &options).unwrap();
        for _ in 0..2 {
            let errors = match scan {
                true => db.iter().filter(|entry| entry.is_err()).count(),
                false => (0..KEYS).filter(|n| db.get(key(*n)).is_err()).count(),
            };
            assert!(errors > 0, "scan {scan}");
            for n in 0..KEYS {
                if let Ok(found) = db.get(key(n)) {
                    assert_eq!(found, Some(vec![n as u8; 100]), "a wrong value");
                }
            }
        }
    }
}

#[test]
fn removed_table_stays_readable_for_its_readers() {
    let table = OneTable::new();
    let db = &table.db;
    let mut iter = db.raw_iter_with(&ReadOptions::default());
    iter.seek_to_first();
    table_files(table.dir.path()).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for n in 0..KEYS {
        assert_eq!((iter.key(), iter.value()), (&key(n)[..], &[n as u8; 100][..]));
        iter.next();
        assert_eq!(db.get(key(n)).unwrap(), Some(vec![n as u8; 100]));
    }
}

/// A small value is copied, and a large one holds its table.
#[test]
fn pinned_values_outlive_their_table() {
    for len in [0, 100, 4 << 10, (4 << 10) + 1, 20_000] {
        let table = OneTable::with_value_len(len);
        let db = &table.db;
        let pinned: Vec<_> = (0..50).map(|n| db.get_pinned(key(n)).unwrap().unwrap()).collect();
        let before = table_files(table.dir.path());
        for n in 0..KEYS {
            db.put(key(n), b"later").unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        assert!(before.iter().all(|path| !path.exists()), "the compaction removed the old table");
        let check =
            || pinned.iter().enumerate().for_each(|(n, value)| assert_eq!(**value, vec![n as u8; len]));
        check();
        let OneTable { db, dir, .. } = table;
        db.close().unwrap();
        check();
        drop(dir);
        std::thread::scope(|scope| scope.spawn(check).join().unwrap());
        check();
    }
}

/// Many gets of one thread hold their tables at the same time.
#[test]
fn more_pinned_values_than_hazard_pointers() {
    let table = OneTable::with_value_len(8_000);
    let pinned: Vec<_> = (0..KEYS).map(|n| table.db.get_pinned(key(n)).unwrap().unwrap()).collect();
    drop(table);
    for (n, value) in pinned.iter().enumerate() {
        assert_eq!(**value, vec![n as u8; 8_000]);
    }
}

#[test]
fn reads_in_place_are_counted_and_not_cached() {
    let cache = BlockCache::new(1 << 20);
    let options = options(Env::in_memory()).compression(UNCOMPRESSED).block_cache(Arc::clone(&cache));
    let db = Db::open("db", &options).unwrap();
    (0..KEYS).for_each(|n| db.put(key(n), value(n, 0)).unwrap());
    db.flush().unwrap();
    let before = in_place(&db);
    (0..KEYS).for_each(|n| assert!(db.contains(key(n)).unwrap()));
    assert_eq!(in_place(&db) - before, KEYS);
    let before = in_place(&db);
    assert_eq!(db.iter().count() as u64, KEYS);
    assert!(in_place(&db) - before > 50, "a scan counts each block");
    let before = in_place(&db);
    assert_eq!(db.iter_with(&ReadOptions::default().fill_cache(false)).count() as u64, KEYS);
    assert_eq!(in_place(&db), before, "bulk reads do not count");
    assert_eq!(cache.usage(), 0, "the cache does not see the blocks");
}

/// The first verified block of a table reserves 64 bytes for each of 64 blocks. A table with few
/// uncompressed blocks needs no more.
#[test]
fn slots_are_counted_in_the_memory_of_tables() {
    let options = options(Env::in_memory()).compression(UNCOMPRESSED);
    let db = Db::open("db", &options).unwrap();
    (0..10_000).for_each(|n| db.put(key(n), value(1, 0)).unwrap());
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let paranoid = Db::open("db", &options.clone().paranoid_checks(true)).unwrap();
    assert!(paranoid.contains(key(0)).unwrap());
    let without_slots = table_memory(&paranoid);
    paranoid.close().unwrap();
    let db = Db::open("db", &options).unwrap();
    assert!(db.contains(key(0)).unwrap());
    let added = table_memory(&db) - without_slots;
    assert!((64 * 64..64 * 100).contains(&added), "{added} bytes for the first block");
    (0..10_000).for_each(|n| assert!(db.contains(key(n)).unwrap()));
    // A block of 1 KiB holds about eight entries.
    let added = table_memory(&db) - without_slots;
    assert!((64 * 1000..64 * 1800).contains(&added), "{added} bytes");
}
