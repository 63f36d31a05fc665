//! The databases of a process share one memory budget.
#![allow(clippy::disallowed_methods, reason = "creates a control group")]

#[cfg(unix)]
use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Command;

use terrace::{BlockCache, Db, Env, Options};
use terrace_env::DeterministicScheduler;

const MB: u64 = 1 << 20;

/// Databases of the process with a memory limit.
const DATABASES: usize = 25;
const KEYS: u32 = 4_000;
/// Memory limit of that process in bytes, including the page cache.
#[cfg(unix)]
const MEMORY_LIMIT: u64 = 64 * MB;

fn key(n: u32) -> Vec<u8> {
    format!("{n:08}").into_bytes()
}

/// Returns 1,000 bytes that do not shrink when they are compressed.
fn value(database: usize, n: u32) -> Vec<u8> {
    let mut state = u64::from(n) << 32 | database as u64;
    let bytes = (0..1_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    bytes.collect()
}

/// Writes and reads all databases in turns. Each takes 4 MB, three times its part of the budget.
pub(crate) fn fill_many_databases(path: &Path) -> terrace::Result<()> {
    let options = Options::default().create_if_missing(true);
    let databases = (0..DATABASES).map(|n| Db::open(path.join(n.to_string()), &options));
    let databases = databases.collect::<terrace::Result<Vec<Db>>>()?;
    for n in 0..KEYS {
        for (i, db) in databases.iter().enumerate() {
            db.put(key(n * 7919 % KEYS), value(i, n * 7919 % KEYS))?;
        }
    }
    for (i, db) in databases.iter().enumerate() {
        for n in 0..KEYS {
            assert!(db.get(key(n))? == Some(value(i, n)), "key {n} of database {i}");
        }
    }
    Ok(())
}

/// Control group with a memory limit, of either version.
#[cfg(unix)]
struct MemoryCgroup(PathBuf);

#[cfg(unix)]
impl MemoryCgroup {
    /// Returns None if the process may not create a group.
    fn create(bytes: u64) -> Option<MemoryCgroup> {
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.into_iter().find_map(|(root, limit)| {
            let has_controller = Path::new(root).join("memory.stat").exists();
            let group = Path::new(root).join(format!("terrace-test-{}", std::process::id()));
            if !has_controller || fs::create_dir(&group).is_err() {
                return None;
            }
            let group = MemoryCgroup(group);
            fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
        })
    }
}

#[cfg(unix)]
impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Symptom: a process with 100 databases was killed in a container of 256 MiB. Cause: each database
/// took half of the memory limit. Guarantee: all databases together take half of it.
#[cfg(unix)]
#[test]
fn many_databases_under_a_memory_limit() {
    let Some(group) = MemoryCgroup::create(MEMORY_LIMIT) else {
        eprintln!("NOT TESTED: no permission to create a control group");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let in_group = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &in_group]);
    assert_eq!(crate::process::run_by(shell, "fill many databases", directory.path()), "ok");
}

/// A database in memory shares no budget: its file system reports no memory limit. One with an
/// explicit budget keeps it, and one with an explicit block cache uses that.
#[test]
fn own_budget_and_own_cache_are_not_shared() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default()
        .create_if_missing(true)
        .env(Env { scheduler: DeterministicScheduler::new(1), ..Env::system() });
    let limits = |options: &Options| {
        let path = if options.env.fs.memory_limit().is_some() { directory.path() } else { Path::new("db") };
        let db = Db::open(path, options).unwrap();
        let stats = db.property("terrace.stats").unwrap();
        let limit_of = |part: &str| {
            let row = stats.lines().find(|row| row.starts_with(&format!("memory  {part}")))?;
            row.split_whitespace().last().map(|limit| limit.parse::<u64>().unwrap() / MB)
        };
        (limit_of("cache").unwrap(), limit_of("process").is_some())
    };
    assert_eq!(limits(&options.clone().memory_budget(64 << 20)), (32, false));
    let cache = BlockCache::new(7 << 20);
    assert_eq!(limits(&options.clone().block_cache(cache)), (7, true));
    let in_memory = options.clone().env(Env::in_memory());
    assert_eq!(limits(&in_memory), (128, false));
    assert!(limits(&options).1);
}
