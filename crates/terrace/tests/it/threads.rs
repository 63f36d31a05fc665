//! Many threads on one database: each sees consistent states.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace::{Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_env::DeterministicScheduler;
use terrace_testkit::SetOnDrop;

const KEYS: u32 = 20;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:02}").into_bytes()
}

fn options(env: Env) -> Options {
    Options::default().create_if_missing(true).write_buffer_size(64 << 10).env(env)
}

/// Writes the same new value to every key, in one batch.
fn stamp(db: &Db, stamp: u64, options: &WriteOptions) {
    let mut batch = WriteBatch::new();
    // Long enough that memtables fill and compactions run all the time.
    let value = format!("{stamp:020}").repeat(10);
    batch.extend((0..KEYS).map(|n| (key(n), &value)));
    db.write_with(&batch, options).unwrap();
}

/// Returns the stamp that all keys have, read by gets and by scans in both directions.
fn common_stamp(db: &Db, options: &ReadOptions) -> u64 {
    let forward: Vec<_> = db.iter_with(options).collect::<Result<_, _>>().unwrap();
    let mut backward: Vec<_> = db.iter_with(options).rev().collect::<Result<_, _>>().unwrap();
    backward.reverse();
    for entries in [&forward, &backward] {
        assert_eq!(entries.len(), KEYS as usize);
        assert!(entries.iter().all(|(_, value)| *value == entries[0].1), "a reader saw part of a batch");
    }
    if options.snapshot.is_some() {
        assert!(forward == backward, "a snapshot changed");
        for n in 0..KEYS {
            assert!(
                db.get_with(key(n), options).unwrap().as_ref() == Some(&forward[0].1),
                "a snapshot changed"
            );
        }
    }
    std::str::from_utf8(&forward[0].1[..20]).unwrap().parse().unwrap()
}

/// Readers see batches completely, snapshots do not change, and no reader goes back in time, during
/// switches, flushes and compactions.
#[test]
fn batches_are_seen_whole_and_in_order() {
    let db = Db::open("db", &options(Env::in_memory())).unwrap();
    stamp(&db, 0, &WriteOptions::default());
    let done = AtomicBool::new(false);
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        let set_at_end = SetOnDrop(&done);
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                scope.spawn({
                    let db = &db;
                    let done = &done;
                    move || {
                        let mut rounds = 0;
                        while !done.load(Ordering::Relaxed) || rounds == 0 {
                            let at = ReadOptions::default().snapshot(db.snapshot());
                            let first = common_stamp(db, &at);
                            if reader == 0 {
                                common_stamp(db, &ReadOptions::default());
                            }
                            assert_eq!(common_stamp(db, &at), first, "a snapshot changed");
                            rounds += 1;
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    while let stamp_of = next.fetch_add(1, Ordering::Relaxed)
                        && stamp_of < 3000
                    {
                        let sync = stamp_of % 50 == 0;
                        stamp(&db, stamp_of, &WriteOptions::default().sync(sync));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        db.compact_range(None, None).unwrap();
        drop(set_at_end);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// A thread sees its own writes at once, and every thread sees all of them at the end, also after a
/// reopen.
#[test]
fn every_thread_reads_its_own_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &options(Env::system())).unwrap();
    const THREADS: u32 = 4;
    const WRITES: u32 = 4000;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for n in 0..WRITES {
                    let key = format!("{thread}/{n:05}");
                    db.put_with(key.as_bytes(), key.as_bytes(), &WriteOptions::default().sync(n % 500 == 0))
                        .unwrap();
                    assert_eq!(db.get(key.as_bytes()).unwrap().as_deref(), Some(key.as_bytes()));
                    if n % 3 == 0 {
                        db.delete(key.as_bytes()).unwrap();
                        assert_eq!(db.get(key.as_bytes()).unwrap(), None);
                    }
                }
            });
        }
    });
    let expect = (THREADS * (WRITES - WRITES.div_ceil(3))) as usize;
    assert_eq!(db.iter().count(), expect);
    db.close().unwrap();
    let db = Db::open(dir.path(), &options(Env::system())).unwrap();
    assert_eq!(db.iter().count(), expect);
}

fn table_file_count(env: &Env) -> usize {
    let names = env.fs.list("db".as_ref()).unwrap();
    names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb")).count()
}

/// The handle may be dropped first: an iterator keeps the database and its files.
#[test]
fn iterator_outlives_the_handle_and_compactions() {
    let env = Env::in_memory();
    let db = Db::open("db", &options(env.clone())).unwrap();
    (0..50).for_each(|n| stamp(&db, n, &WriteOptions::default()));
    let mut old = db.raw_iter();
    (50..200).for_each(|n| stamp(&db, n, &WriteOptions::default()));
    db.compact_range(None, None).unwrap();
    drop(db);
    assert!(Db::open("db", &options(env.clone())).unwrap_err().is_locked());
    old.seek_to_first();
    for n in 0..KEYS {
        assert_eq!(old.key(), key(n));
        assert!(old.value().starts_with(b"00000000000000000049"));
        old.next();
    }
    assert!(!old.valid() && old.status().is_ok());
    drop(old);
    // No compaction may start while the tables are counted.
    let quiet = Env { scheduler: DeterministicScheduler::new(1), ..env.clone() };
    let db = Db::open("db", &options(quiet)).unwrap();
    let live: usize = db.levels().iter().map(|level| level.files.len()).sum();
    assert_eq!(table_file_count(&env), live, "tables of the iterator are removed");
}
