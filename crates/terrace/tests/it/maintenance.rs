//! Long-lived databases: bounded manifests, reclaimed space, shared caches, the info log.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use terrace::{BlockCache, Db, Env, Logger, Options, RepairOptions, destroy};
use terrace_env::DeterministicScheduler;

/// Returns an in-memory environment without concurrent background work, so the files of each call
/// can be counted.
fn memory() -> Env {
    Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() }
}

fn options(env: &Env) -> Options {
    Options::default().create_if_missing(true).env(env.clone())
}

fn files(env: &Env, part: &str) -> Vec<(String, u64)> {
    let names = env.fs.list("db".as_ref()).unwrap();
    let names =
        names.iter().map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains(part));
    names.map(|name| (name.clone(), env.fs.file_size(&Path::new("db").join(name)).unwrap())).collect()
}

/// LevelDB writes a new manifest only at an open. A database that stays open for months gets a
/// manifest of gigabytes, and its next open takes long.
#[test]
fn manifest_stays_small_while_open() {
    let env = memory();
    let db = Db::open("db", &options(&env).max_file_size(1 << 20)).unwrap();
    let first = files(&env, "MANIFEST");
    let mut largest = 0;
    for n in 0..600u32 {
        // Long keys make large edits.
        let key = [format!("{:02}", n % 20).into_bytes(), vec![b'k'; 20_000]].concat();
        db.put(&key, n.to_le_bytes()).unwrap();
        db.flush().unwrap();
        let manifests = files(&env, "MANIFEST");
        assert_eq!(manifests.len(), 1, "{manifests:?}");
        largest = largest.max(manifests[0].1);
    }
    assert_ne!(files(&env, "MANIFEST")[0].0, first[0].0, "it was rotated");
    assert!(largest < 10 << 20, "{largest} bytes, of some 40 MB of edits");
    db.close().unwrap();
    let db = Db::open("db", &options(&env)).unwrap();
    assert_eq!(db.iter().count(), 20);
}

/// Each open replays the manifest, so its size adds to the time of an open.
#[test]
fn manifest_of_a_small_database_stays_below_20_kilobytes() {
    let env = memory();
    let db = Db::open("db", &options(&env)).unwrap();
    for n in 0..600u32 {
        db.put((n % 20).to_be_bytes(), n.to_le_bytes()).unwrap();
        db.flush().unwrap();
        let size = files(&env, "MANIFEST")[0].1;
        assert!(size < 20_000, "{size} bytes after {n} flushes");
    }
    db.close().unwrap();
    let db = Db::open("db", &options(&env)).unwrap();
    assert_eq!(db.iter().count(), 20);
}

/// A new manifest of a large database takes long to write. A reused one first grows by a multiple
/// of its snapshot.
#[test]
fn manifest_of_a_large_database_is_reused() {
    let env = memory();
    let options = options(&env).max_file_size(1 << 20).reuse_logs(true);
    let put = |n: u32| {
        let db = Db::open("db", &options).unwrap();
        db.put([n.to_be_bytes().to_vec(), vec![b'k'; 20_000]].concat(), []).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    };
    (0..4).for_each(put);
    let manifest = files(&env, "MANIFEST");
    assert!(manifest[0].1 > 100_000, "{manifest:?}");
    put(4);
    assert_eq!(files(&env, "MANIFEST")[0].0, manifest[0].0);
}

/// Progress of a compaction: it grows, within its total, and ends with the total.
#[test]
fn compact_range_reports_its_progress() {
    let env = Env::in_memory();
    let db = Db::open("db", &options(&env).max_file_size(1 << 20)).unwrap();
    for round in 0..8u32 {
        for n in 0..4000u32 {
            let value: Vec<u8> = (0..500u32).map(|i| (i.wrapping_mul(n * 7919 + round) >> 7) as u8).collect();
            db.put(n.to_be_bytes(), &value).unwrap();
        }
        db.flush().unwrap();
    }
    let mut reports = Vec::new();
    db.compact_range_with_progress(None, None, |done, total| reports.push((done, total))).unwrap();
    assert!(reports.len() > 2, "{reports:?}");
    assert!(reports.is_sorted_by_key(|(done, _)| *done), "{reports:?}");
    let (last, total) = reports[reports.len() - 1];
    assert!(last == total && total > 1 << 20, "{reports:?}");
    assert!(reports.iter().all(|(_, of)| *of == total), "{reports:?}");
    assert!(reports.iter().any(|(done, _)| *done > 0 && *done < total), "{reports:?}");
}

#[test]
fn compact_range_reclaims_space() {
    let env = memory();
    let db = Db::open("db", &options(&env)).unwrap();
    for round in 1..4 {
        for n in 0..3000u32 {
            let seed = n * 7919 + round;
            let noise: Vec<u8> = (0..1000u32).map(|i| (i.wrapping_mul(seed | 1) >> 7) as u8).collect();
            db.put(n.to_be_bytes(), &noise).unwrap();
        }
    }
    db.compact_range(None, None).unwrap();
    let tables = |env: &Env| files(env, ".ldb").iter().map(|(_, size)| size).sum::<u64>();
    assert!(tables(&env) < 4 << 20, "{} bytes for 3 MB", tables(&env));
    (0..3000u32).for_each(|n| db.delete(n.to_be_bytes()).unwrap());
    db.compact_range(None, None).unwrap();
    assert_eq!(tables(&env), 0, "{}", db.property("leveldb.sstables").unwrap());
}

/// Tables of two databases have the same numbers, and so have the tables of a destroyed and
/// recreated database.
#[test]
fn shared_cache_keeps_databases_apart() {
    let cache = BlockCache::new(1 << 20);
    let envs = [memory(), memory()];
    for round in 0..3 {
        let dbs = envs.each_ref().map(|env| {
            let options = options(env).block_cache(Arc::clone(&cache));
            Db::open("db", &options).unwrap()
        });
        for (which, db) in dbs.iter().enumerate() {
            let value = format!("database {which}, round {round}");
            (0..100u32).for_each(|n| db.put(n.to_be_bytes(), value.as_bytes()).unwrap());
            db.flush().unwrap();
        }
        for (which, db) in dbs.iter().enumerate() {
            let value = format!("database {which}, round {round}");
            for n in 0..100u32 {
                assert_eq!(db.get(n.to_be_bytes()).unwrap(), Some(value.clone().into_bytes()));
            }
        }
        assert!(cache.usage() > 0 && cache.usage() <= cache.capacity());
        drop(dbs);
        for env in &envs {
            destroy("db", &options(env)).unwrap();
            assert!(!env.fs.exists("db".as_ref()).unwrap());
        }
    }
}

/// `destroy` removes only files of the database.
#[test]
fn destroy_keeps_unknown_files() {
    let env = memory();
    Db::open("db", &options(&env)).unwrap().close().unwrap();
    env.fs.create("db/notes.txt".as_ref()).unwrap().close().unwrap();
    destroy("db", &options(&env)).unwrap();
    assert_eq!(files(&env, ""), [("notes.txt".to_owned(), 0)]);
    destroy("db", &options(&env)).unwrap();
    destroy("nowhere", &options(&env)).unwrap();
}

/// Symptom: `destroy_db` of a file failed in Python, Java and C. LevelDB ignores that there is no
/// directory. Guarantee: success, and the file stays.
#[test]
fn destroy_of_a_file_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (env, path) in [(memory(), "CURRENT".into()), (Env::system(), dir.path().join("CURRENT"))] {
        env.fs.create(&path).unwrap().close().unwrap();
        destroy(&path, &options(&env)).unwrap();
        destroy(path.join("below"), &options(&env)).unwrap();
        assert_eq!(env.fs.file_size(&path).unwrap(), 0);
    }
}

#[test]
fn info_log_records_flushes_and_compactions() {
    let env = memory();
    Db::open("db", &options(&env)).unwrap().close().unwrap();
    assert!(env.fs.exists("db/LOG".as_ref()).unwrap(), "a new database has an info log");
    let run = || {
        let db = Db::open("db", &options(&env)).unwrap();
        db.put(b"key", b"value").unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
    };
    run();
    run();
    let read = |name: &str| {
        let mut text = vec![0; env.fs.file_size(name.as_ref()).unwrap() as usize];
        env.fs.open_sequential(name.as_ref()).unwrap().read(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert!(read("db/LOG").contains("Compacting "), "{}", read("db/LOG"));
    assert!(read("db/LOG.old").contains("Level-0 table #"), "{}", read("db/LOG.old"));

    struct ChannelLogger(Sender<String>);
    impl Logger for ChannelLogger {
        fn log(&self, line: fmt::Arguments<'_>) {
            self.0.send(line.to_string()).unwrap();
        }
    }
    let (sender, lines) = channel();
    let before = read("db/LOG");
    let db = Db::open("db", &options(&env)).unwrap();
    db.put(b"key", b"in the log").unwrap();
    db.close().unwrap();
    assert_eq!(read("db/LOG"), before, "an open without messages does not change it");
    let db = Db::open("db", &options(&env).logger(Arc::new(ChannelLogger(sender)))).unwrap();
    db.close().unwrap();
    assert!(lines.try_iter().any(|line| line.starts_with("Recovering log #")));
    assert_eq!(read("db/LOG"), before, "a user's logger replaces the file");
}

/// The iterator holds files that `destroy` has removed. When it is dropped, their names may belong
/// to new files.
#[test]
fn iterator_that_outlives_destroy_removes_no_files() {
    let env = Env::in_memory();
    let db = Db::open("db", &options(&env)).unwrap();
    db.put(b"old", b"1").unwrap();
    db.flush().unwrap();
    let mut forgotten = db.raw_iter();
    db.put(b"old", b"2").unwrap();
    db.compact_range(None, None).unwrap();
    db.shutdown().unwrap();
    assert!(db.put(b"old", b"3").is_err());
    terrace::destroy("db", &options(&env)).unwrap();

    let db = Db::open("db", &options(&env)).unwrap();
    for n in 0..20 {
        db.put(format!("new{n}").as_bytes(), b"4").unwrap();
        db.flush().unwrap();
    }
    let tables = files(&env, ".ldb");
    forgotten.seek_to_first();
    drop(forgotten);
    assert_eq!(files(&env, ".ldb"), tables);
}

/// leveldbjni 1.8 reads only tables with the name before LevelDB 1.14. Flushes, compactions, a
/// repair and a checkpoint write this name, and existing tables keep theirs.
#[test]
fn old_table_names() {
    let env = memory();
    let old = options(&env).old_table_names(true);
    let db = Db::open("db", &options(&env)).unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open("db", &old).unwrap();
    let leftover = |number| Path::new("db").join(format!("{number:06}.ldb"));
    for number in (1..30).filter(|number| !env.fs.exists(&leftover(*number)).unwrap()) {
        // A crash left it, and no version names it.
        env.fs.create(&leftover(number)).unwrap();
    }
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    assert_eq!(files(&env, ".sst").len(), 1);
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    db.compact_range(None, None).unwrap();
    db.delete(b"a").unwrap();
    db.compact_range(None, None).unwrap();
    db.checkpoint("copy").unwrap();
    db.close().unwrap();
    let db = Db::open("db", &old).unwrap();
    db.close().unwrap();
    assert_eq!((files(&env, ".ldb").len(), files(&env, ".sst").len()), (0, 1), "leftovers are removed");
    env.fs.remove(&Path::new("db").join(&files(&env, "MANIFEST")[0].0)).unwrap();
    terrace::repair("db", &old, &RepairOptions::default()).unwrap();
    assert!(files(&env, ".ldb").is_empty());
    for path in ["db", "copy"] {
        assert!(terrace::verify(path, &old).unwrap().is_clean());
        let db = Db::open(path, &options(&env)).unwrap();
        assert_eq!((db.get(b"a").unwrap(), db.get(b"b").unwrap().as_deref()), (None, Some(&b"2"[..])));
    }
}

/// Eight tables stay as they are while compactions are suspended, and become one afterwards.
#[test]
fn suspended_compactions() {
    let env = memory();
    let db = Db::open("db", &options(&env)).unwrap();
    db.suspend_compactions().unwrap();
    db.suspend_compactions().unwrap();
    for n in 0..8u32 {
        db.put(b"key", n.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    let tables = || db.levels().iter().map(|level| level.files.len()).sum::<usize>();
    db.resume_compactions();
    assert_eq!(tables(), 8, "one suspension is left");
    db.resume_compactions();
    db.resume_compactions();
    db.compact_range(None, None).unwrap();
    assert_eq!(tables(), 1);
    db.suspend_compactions().unwrap();
    db.close().unwrap();
}
