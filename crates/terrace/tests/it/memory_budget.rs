//! The memory of a database stays within its budget.

use std::collections::BTreeMap;

use terrace::{BlockCache, Db, Env, Options, WriteBatch, compress};
use terrace_env::DeterministicScheduler;

const KEYS: u32 = 150_000;
const MB: u64 = 1 << 20;

/// Returns options for a database in memory, whose jobs run only when requested or waited for.
/// Small blocks make large indexes.
fn options(budget: Option<usize>) -> Options {
    Options::default()
        .create_if_missing(true)
        .env(Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() })
        .memory_budget(budget)
        .compression(&compress::NO_COMPRESSION)
        .block_size(1 << 10)
        .max_file_size(1 << 20)
}

/// Returns the same options with compressed blocks, which reads keep in the block cache.
fn compressed(budget: usize) -> Options {
    options(Some(budget)).compression(&compress::SNAPPY)
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// Returns all numbers in a scattered order.
fn scattered() -> impl Iterator<Item = u32> {
    (0..KEYS).map(|n| (u64::from(n) * 2_654_435_761 % u64::from(KEYS)) as u32)
}

fn memory(db: &Db) -> u64 {
    db.property("terrace.memory").unwrap().parse().unwrap()
}

/// Returns the memory of each part, and its limit.
fn parts(db: &Db) -> BTreeMap<String, (u64, Option<u64>)> {
    let text = db.property("terrace.stats").unwrap();
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|words| words[0] == "memory")
        .map(|words| {
            let limit = words.get(5).map(|limit| limit.parse().unwrap());
            (words[1].to_owned(), (words[2].parse().unwrap(), limit))
        })
        .collect()
}

/// Puts and gets all keys. Returns the maximum memory use.
fn fill_and_read(db: &Db) -> u64 {
    let mut max_memory = 0;
    let mut sample = |n: u32| {
        if n.is_multiple_of(500) {
            max_memory = max_memory.max(memory(db));
        }
    };
    for (step, n) in scattered().enumerate() {
        db.put(key(n), [n as u8; 100]).unwrap();
        sample(step as u32);
    }
    db.compact_range(None, None).unwrap();
    // Every sixth key, in order and then scattered, so that all tables are opened.
    for (step, n) in (0..KEYS).step_by(6).chain(scattered().take(2_000)).enumerate() {
        assert_eq!(db.get(key(n)).unwrap(), Some(vec![n as u8; 100]));
        sample(step as u32);
    }
    max_memory
}

#[test]
fn many_tables_stay_within_a_small_budget() {
    let budget = 2 * MB;
    let db = Db::open("db", &options(Some(budget as usize))).unwrap();
    let max_memory = fill_and_read(&db);
    assert!(max_memory <= budget, "{max_memory} of {budget} bytes");
    assert!(db.levels().iter().map(|level| level.files.len()).sum::<usize>() > 10);

    let db = Db::open("db", &options(None)).unwrap();
    let unbounded = fill_and_read(&db);
    assert!(unbounded > 3 * budget, "{unbounded} bytes without a budget: the test proves nothing");
}

#[test]
fn table_memory_reduces_the_cache_limit() {
    let db = Db::open("db", &compressed(8 << 20)).unwrap();
    fill_and_read(&db);
    let parts = parts(&db);
    let tables = parts["tables"].0;
    let (cache, limit) = parts["cache"];
    assert!(tables > MB && tables <= parts["tables"].1.unwrap(), "{parts:?}");
    assert_eq!(limit, Some(4 * MB - tables), "{parts:?}");
    assert!(cache > MB && cache + tables <= 4 * MB, "{parts:?}");
    let all: u64 = ["memtables", "pooled", "cache", "tables"].iter().map(|part| parts[*part].0).sum();
    assert_eq!((parts["total"].0, memory(&db)), (all, all));
}

#[test]
fn removed_tables_release_their_memory() {
    let db = Db::open("db", &options(Some(16 << 20))).unwrap();
    fill_and_read(&db);
    assert!(parts(&db)["tables"].0 > MB);
    db.delete_range::<&[u8]>(..).unwrap();
    let parts = parts(&db);
    assert_eq!((parts["tables"].0, parts["cache"]), (0, (0, Some(8 * MB))), "{parts:?}");
}

#[test]
fn shared_cache_keeps_its_capacity() {
    let cache = BlockCache::new(4 << 20);
    let shared = compressed(8 << 20).block_cache(cache.clone());
    let db = Db::open("db", &shared).unwrap();
    fill_and_read(&db);
    let parts = parts(&db);
    assert_eq!(parts["cache"].1, Some(4 * MB), "{parts:?}");
    assert!(cache.usage() > 3 << 20 && parts["tables"].0 <= parts["tables"].1.unwrap(), "{parts:?}");
}

/// The arena allocates memory for each large value, and pools that of small ones for the next
/// memtable.
#[test]
fn large_and_small_values_stay_within_the_budget() {
    let budget = 24 * MB;
    let db = Db::open("db", &options(Some(budget as usize))).unwrap();
    let mut max_memory = 0;
    for round in 0..600u32 {
        let mut batch = WriteBatch::new();
        let (count, size) = if round / 100 % 2 == 0 { (400, 100) } else { (1, 300_000) };
        batch.extend((0..count).map(|n| (key(round * 400 + n), vec![7; size])));
        db.write(&batch).unwrap();
        max_memory = max_memory.max(memory(&db));
    }
    assert!(max_memory <= budget, "{max_memory} of {budget} bytes");
    assert!(max_memory > budget / 8, "{max_memory} bytes: the test proves nothing");
}

#[test]
fn pooled_memory_is_released_when_idle() {
    let jobs = DeterministicScheduler::new(1);
    let env = Env { scheduler: jobs.clone(), ..Env::in_memory() };
    let db = Db::open("db", &Options::default().create_if_missing(true).env(env)).unwrap();
    let mut pooled = 0;
    for n in scattered().chain(scattered()) {
        db.put(key(n), [n as u8; 100]).unwrap();
        if n.is_multiple_of(100) {
            pooled = pooled.max(parts(&db)["pooled"].0);
        }
    }
    assert!(pooled >= 2 * MB, "{pooled} bytes: recycled memory is pooled for the next memtable");
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

    /// Comparator that samples the resident memory of the tables in a directory.
    struct ResidentMemoryProbe {
        directory: String,
        comparisons: AtomicU64,
        max_resident: AtomicU64,
    }

    impl ResidentMemoryProbe {
        fn resident(&self) -> u64 {
            let maps = fs::read_to_string("/proc/self/smaps").unwrap();
            let mut sum = 0;
            let mut is_table = false;
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

    /// Symptom: 10,000,000 small puts left 280 MiB of resident memory. Cause: tables are mapped,
    /// and the pages that a compaction had read stayed in the memory of the process. Guarantee: a
    /// compaction drops the pages of its inputs as it reads.
    #[test]
    fn compaction_drops_the_page_cache_of_its_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().to_str().unwrap().to_owned();
        let probe = Arc::new(ResidentMemoryProbe {
            directory,
            comparisons: AtomicU64::new(0),
            max_resident: AtomicU64::new(0),
        });
        let options = Options::default()
            .create_if_missing(true)
            .comparator(probe.clone())
            .compression(&compress::NO_COMPRESSION)
            .env(Env { scheduler: DeterministicScheduler::new(1), ..Env::system() });
        let db = Db::open(dir.path().join("db"), &options).unwrap();

        for n in 0..50_000 {
            db.put(key(n * 7919 % 50_000), [n as u8; 1000]).unwrap();
        }
        db.compact_range(None, None).unwrap();
        let stored: u64 = db.levels().iter().flat_map(|level| &level.files).map(|file| file.size).sum();
        let max_memory = probe.max_resident.load(Relaxed);
        assert!(stored > 48 * MB && (MB..16 * MB).contains(&max_memory), "{max_memory} bytes of {stored}");
    }
}
