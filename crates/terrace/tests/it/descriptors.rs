//! File descriptors of databases that are open and idle.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "counts and uses up the descriptors of the process"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, Options, WriteOptions};
use terrace_env::DeterministicScheduler;
use terrace_env::posix::PosixFs;

use crate::process;

/// Returns options on the system's files, with a limit on open files beside the mapped ones.
fn options(open_files: usize) -> Options {
    let fs = Arc::new(PosixFs::with_limits(1000, usize::MAX, open_files));
    let env = Env { fs, scheduler: DeterministicScheduler::new(1), ..Env::system() };
    Options::default().create_if_missing(true).env(env)
}

/// Returns the names of the open files below `directory`, sorted.
fn open_files(directory: &Path) -> Vec<String> {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let files = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    let names = files.filter_map(|file| Some(file.strip_prefix(directory).ok()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Symptom: a process could open 250 databases with `ulimit -n 1024`. Cause: each kept its lock,
/// log, MANIFEST and info log open. Guarantee: an idle database keeps its lock and its log.
#[test]
fn idle_database_keeps_its_lock_and_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), &options(100)).unwrap();
    db.put(b"key", b"value").unwrap();
    assert_eq!(open_files(directory.path()), ["000002.log", "LOCK"]);
    db.flush().unwrap();
    assert_eq!(open_files(directory.path()), ["000004.log", "LOCK"]);
}

/// Only the locks stay open if no descriptors are left for logs, and every operation still works.
#[test]
fn many_databases_share_few_descriptors() {
    const DATABASES: u32 = 40;
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let paths = (0..DATABASES).map(|n| directory.path().join(n.to_string()));
        let databases: Vec<Db> = paths.map(|path| Db::open(path, &options(0)).unwrap()).collect();
        for (n, db) in databases.iter().enumerate() {
            for key in 0..if n == 0 { 20_000 } else { 20u32 } {
                let value = [n as u8 + round; 100];
                db.put_with(key.to_be_bytes(), value, &WriteOptions::default().sync(key % 5000 == 7))
                    .unwrap();
            }
            if n % 10 == 0 {
                db.compact_range(None, None).unwrap();
            }
        }
        let locks = open_files(directory.path());
        assert!(
            locks.len() == DATABASES as usize && locks.iter().all(|name| name.ends_with("LOCK")),
            "{locks:?}"
        );
        for (n, db) in databases.iter().enumerate() {
            assert_eq!(db.get(7u32.to_be_bytes()).unwrap(), Some(vec![n as u8 + round; 100]));
        }
    }
}

/// The first sync of a new log opens the directory. A process that has no descriptor left then must
/// not lose its database for writes.
#[test]
fn sync_without_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]);
    let path = directory.path().join("db");
    assert_eq!(process::run_by(shell, "sync without descriptors", &path), "ok");
}

/// Task of the other process: syncs new logs of two databases while all descriptors are in use.
pub(crate) fn check_sync_without_descriptors(path: &Path) -> terrace::Result<()> {
    let paths = ["1", "2"].map(|suffix| path.with_extension(suffix));
    let options = Options::default().create_if_missing(true);
    let databases = [Db::open(&paths[0], &options)?, Db::open(&paths[1], &options)?];
    for round in 0..3u32 {
        for db in &databases {
            db.put(round.to_be_bytes(), "before")?;
            db.flush()?;
        }
        let others: Vec<fs::File> = (0..64).map_while(|_| fs::File::open("/dev/null").ok()).collect();
        assert!(others.len() < 64, "the limit has no effect");
        for db in &databases {
            db.put_with(round.to_be_bytes(), "synced", &WriteOptions::default().sync(true))?;
        }
        drop(others);
    }
    drop(databases);
    for path in &paths {
        let db = Db::open(path, &Options::default())?;
        assert!((0..3u32).all(|round| db.get(round.to_be_bytes()).unwrap().as_deref() == Some(b"synced")));
    }
    Ok(())
}
