//! What a database holds in memory stays within the budget that it was given.

use std::collections::BTreeMap;

use terrace::{BlockCache, Db, Env, Options, WriteBatch, compress};
use terrace_env::DeterministicScheduler;

const KEYS: u32 = 150_000;
const MB: u64 = 1 << 20;

/// In memory, with jobs that run when they are told to or waited for, and small blocks: their indexes take much.
fn options(budget: Option<usize>) -> Options {
    Options {
        create_if_missing: true,
        env: Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() },
        memory_budget: budget,
        compression: &compress::NO_COMPRESSION,
        block_size: 1 << 10,
        max_file_size: Some(1 << 20),
        ..Options::default()
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// All of them, in an order that has nothing to do with theirs.
fn scattered() -> impl Iterator<Item = u32> {
    (0..KEYS).map(|n| (u64::from(n) * 2_654_435_761 % u64::from(KEYS)) as u32)
}

fn memory(db: &Db) -> u64 {
    db.property("terrace.memory").unwrap().parse().unwrap()
}

/// What each part holds, and its limit.
fn parts(db: &Db) -> BTreeMap<String, (u64, Option<u64>)> {
    let text = db.property("terrace.stats").unwrap();
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let part = |words: Vec<&str>| {
        let most = words.get(5).map(|most| most.parse().unwrap());
        (words[1].to_owned(), (words[2].parse().unwrap(), most))
    };
    rows.filter(|words| words[0] == "memory").map(part).collect()
}

/// Puts and looks up everything, and says how much memory that took at most.
fn fill_and_read(db: &Db) -> u64 {
    let mut most = 0;
    let mut look = |n: u32| {
        if n.is_multiple_of(500) {
            most = most.max(memory(db));
        }
    };
    for (turn, n) in scattered().enumerate() {
        db.put(&key(n), &[n as u8; 100]).unwrap();
        look(turn as u32);
    }
    db.compact_range(None, None).unwrap();
    // Every sixth: who reads them in no order opens a table for each.
    for (turn, n) in (0..KEYS).step_by(6).chain(scattered().take(2_000)).enumerate() {
        assert_eq!(db.get(&key(n)).unwrap(), Some(vec![n as u8; 100]));
        look(turn as u32);
    }
    most
}

#[test]
fn many_tables_stay_within_a_small_budget() {
    let budget = 2 * MB;
    let db = Db::open("db", &options(Some(budget as usize))).unwrap();
    let most = fill_and_read(&db);
    assert!(most <= budget, "{most} of {budget} bytes");
    assert!(db.levels().iter().map(|level| level.files.len()).sum::<usize>() > 10);

    let db = Db::open("db", &options(None)).unwrap();
    let unbounded = fill_and_read(&db);
    assert!(unbounded > 3 * budget, "{unbounded} bytes without a budget: it says nothing");
}

#[test]
fn table_memory_reduces_the_cache_limit() {
    let db = Db::open("db", &options(Some(8 << 20))).unwrap();
    fill_and_read(&db);
    let parts = parts(&db);
    let (tables, (cache, room)) = (parts["tables"].0, parts["cache"]);
    assert!(tables > MB && tables <= parts["tables"].1.unwrap(), "{parts:?}");
    assert_eq!(room, Some(4 * MB - tables), "{parts:?}");
    assert!(cache > MB && cache + tables <= 4 * MB, "{parts:?}");
    let all: u64 = ["memtables", "pooled", "cache", "tables"].iter().map(|part| parts[*part].0).sum();
    assert_eq!((parts["total"].0, memory(&db)), (all, all));
}

#[test]
fn removed_tables_release_their_memory() {
    let db = Db::open("db", &options(Some(16 << 20))).unwrap();
    fill_and_read(&db);
    assert!(parts(&db)["tables"].0 > MB);
    db.delete_range(None, None).unwrap();
    let parts = parts(&db);
    assert_eq!((parts["tables"].0, parts["cache"]), (0, (0, Some(8 * MB))), "{parts:?}");
}

#[test]
fn shared_cache_keeps_its_capacity() {
    let cache = BlockCache::new(4 << 20);
    let shared = Options { block_cache: Some(cache.clone()), ..options(Some(8 << 20)) };
    let db = Db::open("db", &shared).unwrap();
    fill_and_read(&db);
    let parts = parts(&db);
    assert_eq!(parts["cache"].1, Some(4 * MB), "{parts:?}");
    assert!(cache.usage() > 3 << 20 && parts["tables"].0 <= parts["tables"].1.unwrap(), "{parts:?}");
}

/// Memory for large values is taken for each of them; that of small ones is kept for the next memtable.
#[test]
fn large_and_small_values_stay_within_the_budget() {
    let budget = 24 * MB;
    let db = Db::open("db", &options(Some(budget as usize))).unwrap();
    let mut most = 0;
    for round in 0..600u32 {
        let mut batch = WriteBatch::new();
        let (count, size) = if round / 100 % 2 == 0 { (400, 100) } else { (1, 300_000) };
        (0..count).for_each(|n| batch.put(&key(round * 400 + n), &vec![7; size]));
        db.write(&batch).unwrap();
        most = most.max(memory(&db));
    }
    assert!(most <= budget, "{most} of {budget} bytes");
    assert!(most > budget / 8, "{most} bytes: it says nothing");
}

#[test]
fn pooled_memory_is_released_when_idle() {
    let jobs = DeterministicScheduler::new(1);
    let env = Env { scheduler: jobs.clone(), ..Env::in_memory() };
    let db = Db::open("db", &Options { create_if_missing: true, env, ..Options::default() }).unwrap();
    let mut kept = 0;
    for n in scattered().chain(scattered()) {
        db.put(&key(n), &[n as u8; 100]).unwrap();
        if n.is_multiple_of(100) {
            kept = kept.max(parts(&db)["pooled"].0);
        }
    }
    assert!(kept >= 2 * MB, "{kept} bytes: a writer that waits for a flush goes on soon");
    jobs.run_until_idle();
    assert_eq!(parts(&db)["pooled"].0, 0);
}

#[cfg(target_os = "linux")]
mod mapped {
    use std::cmp::Ordering;
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use terrace::Comparator;

    use super::*;

    /// What the process holds of the tables in a directory, at most, when keys are compared.
    struct ResidentMemoryProbe {
        directory: String,
        comparisons: AtomicU64,
        max_resident: AtomicU64,
    }

    impl ResidentMemoryProbe {
        fn resident(&self) -> u64 {
            let maps = fs::read_to_string("/proc/self/smaps").unwrap();
            let (mut sum, mut is_table) = (0, false);
            for row in maps.lines() {
                if let Some(rest) = row.strip_prefix("Rss:") {
                    let kib: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
                    sum += if is_table { kib << 10 } else { 0 };
                } else if row.contains('-') && row.contains(':') {
                    is_table = row.contains(&self.directory) && row.contains(".ldb");
                }
            }
            sum
        }
    }

    impl Comparator for ResidentMemoryProbe {
        fn name(&self) -> &str {
            "looking"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            if self.comparisons.fetch_add(1, Relaxed).is_multiple_of(20_000) {
                self.max_resident.fetch_max(self.resident(), Relaxed);
            }
            a.cmp(b)
        }
    }

    /// Tables are mapped, and those that a merge read counted as memory of the process to its end: 10,000,000 small puts had
    /// 280 MiB of it.
    #[test]
    fn compaction_drops_the_page_cache_of_its_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().to_str().unwrap().to_owned();
        let looking = Arc::new(ResidentMemoryProbe {
            directory,
            comparisons: AtomicU64::new(0),
            max_resident: AtomicU64::new(0),
        });
        let options = Options {
            create_if_missing: true,
            comparator: looking.clone(),
            compression: &compress::NO_COMPRESSION,
            env: Env { scheduler: DeterministicScheduler::new(1), ..Env::system() },
            ..Options::default()
        };
        let db = Db::open(dir.path().join("db"), &options).unwrap();

        for n in 0..50_000 {
            db.put(&key(n * 7919 % 50_000), &[n as u8; 1000]).unwrap();
        }
        db.compact_range(None, None).unwrap();
        let stored: u64 = db.levels().iter().flat_map(|level| &level.files).map(|file| file.size).sum();
        let most = looking.max_resident.load(Relaxed);
        assert!(stored > 48 * MB && (MB..16 * MB).contains(&most), "{most} bytes of {stored}");
    }
}
