//! Iterators over keys with many hidden versions: they show the same entries as a model, and the
//! cost of a key does not grow with the number of its versions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use terrace::{Comparator, Db, Env, Options, ReadOptions, Snapshot};
use terrace_env::{DeterministicScheduler, Random, SeededRandom};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Database whose background jobs do not run unless a flush waits for them.
fn open(comparator: Option<Arc<dyn Comparator>>) -> Db {
    let env = Env { scheduler: DeterministicScheduler::new(1), ..Env::in_memory() };
    let mut options = Options::default().create_if_missing(true).env(env);
    if let Some(comparator) = comparator {
        options = options.comparator(comparator);
    }
    Db::open("db", &options).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Puts and deletes few keys many times, flushes now and then, and keeps snapshots, so that the
/// versions stay in memtables and tables.
fn write_random_versions(db: &Db, random: &SeededRandom) -> Vec<(Snapshot, Model)> {
    let mut snapshots = Vec::new();
    let mut model = Model::new();
    for step in 0..2_000u32 {
        let key = key(match random.uniform(3) {
            0 => random.uniform(30),
            _ => random.uniform(30) & 0b1_0010, // four hot keys
        });
        if random.uniform(4) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, step.to_be_bytes()).unwrap();
            model.insert(key, step.to_be_bytes().to_vec());
        }
        if random.uniform(8) == 0 {
            snapshots.push((db.snapshot(), model.clone()));
        }
        if random.uniform(400) == 0 {
            db.flush().unwrap();
        }
    }
    snapshots.push((db.snapshot(), model));
    snapshots
}

/// Moves an iterator at random and compares it with the model after each move.
fn check_random_moves(db: &Db, snapshot: &Snapshot, model: &Model, random: &SeededRandom) {
    let mut iter = db.raw_iter_with(&ReadOptions::default().snapshot(snapshot.clone()));
    let mut expected: Option<Vec<u8>> = None;
    for _ in 0..60 {
        let previous = expected.take();
        match (random.uniform(8), previous) {
            (0, _) => {
                iter.seek_to_first();
                expected = model.keys().next().cloned();
            }
            (1, _) => {
                iter.seek_to_last();
                expected = model.keys().next_back().cloned();
            }
            (2, _) | (_, None) => {
                let target = key(random.uniform(31));
                iter.seek(&target);
                expected = model.range(target..).next().map(|(key, _)| key.clone());
            }
            (3..=5, Some(at)) => {
                iter.next();
                expected = model.range(at..).nth(1).map(|(key, _)| key.clone());
            }
            (_, Some(at)) => {
                iter.prev();
                expected = model.range(..at).next_back().map(|(key, _)| key.clone());
            }
        }
        assert_eq!(iter.valid().then(|| iter.key().to_vec()), expected);
        if let Some(key) = &expected {
            assert_eq!(iter.value(), model[key]);
        }
    }
    iter.status().unwrap();
}

#[test]
fn iterators_over_many_versions_agree_with_a_model() {
    for seed in 0..8 {
        let random = SeededRandom::new(seed);
        let db = open(None);
        for (snapshot, model) in &write_random_versions(&db, &random) {
            let options = ReadOptions::default().snapshot(snapshot.clone());
            let forward: Vec<_> = db.iter_with(&options).map(Result::unwrap).collect();
            assert_eq!(forward, model.clone().into_iter().collect::<Vec<_>>(), "seed {seed}");
            let backward: Vec<_> = db.iter_with(&options).rev().map(Result::unwrap).collect();
            assert_eq!(backward, model.clone().into_iter().rev().collect::<Vec<_>>(), "seed {seed}");
            check_random_moves(&db, snapshot, model, &random);
        }
    }
}

/// Bytewise order that counts its comparisons.
#[derive(Default)]
struct CountingOrder {
    comparisons: AtomicUsize,
}

impl Comparator for CountingOrder {
    fn name(&self) -> &str {
        "test.CountingOrder"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.comparisons.fetch_add(1, atomic::Ordering::Relaxed);
        a.cmp(b)
    }
}

/// Returns the numbers of comparisons of a forward and a backward scan over three keys. The middle
/// one has `versions` versions in a table and as many in the memtable.
fn scan_comparisons(versions: u32) -> (usize, usize) {
    let order = Arc::new(CountingOrder::default());
    let db = open(Some(Arc::clone(&order) as _));
    let mut snapshots = Vec::new();
    for part in 0..2 {
        [0, 2].iter().for_each(|&n| db.put(key(n), b"").unwrap());
        for version in 0..versions {
            db.put(key(1), version.to_be_bytes()).unwrap();
            snapshots.push(db.snapshot()); // keeps the version in the table
        }
        if part == 0 {
            db.flush().unwrap();
        }
    }
    let count = |scan: &dyn Fn() -> usize| {
        let before = order.comparisons.load(atomic::Ordering::Relaxed);
        assert_eq!(scan(), 3);
        order.comparisons.load(atomic::Ordering::Relaxed) - before
    };
    (count(&|| db.iter().count()), count(&|| db.iter().rev().count()))
}

#[test]
fn hidden_versions_cost_a_seek_instead_of_steps() {
    let few = scan_comparisons(100);
    let many = scan_comparisons(10_000);
    // A seek compares logarithmically many keys.
    assert!(many.0 < few.0 + 100, "forward: {few:?} and {many:?} comparisons");
    assert!(many.1 < few.1 + 100, "backward: {few:?} and {many:?} comparisons");
}
