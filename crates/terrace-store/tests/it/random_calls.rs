//! Random calls on every engine agree with the engine `memory:`.

use std::collections::VecDeque;

use terrace::BatchOp;
use terrace_store::{
    Condition, Error, KeyRange, Store, StoreIterator, StoreSnapshot, TransactionOptions, WriteBatch,
    WriteOptions,
};
use terrace_testkit::rng::Rng;

use crate::fixture::{FIXTURES, memory};

const ROUNDS: usize = 250;
const KEYS: u64 = 80;
/// Pairs of snapshots that are kept.
const SNAPSHOTS: usize = 4;

/// The store under test beside the model, in the same state.
struct Pair<'a> {
    store: &'a dyn Store,
    model: &'a dyn Store,
    snapshots: VecDeque<Snapshots>,
    /// Number of calls that deleted keys.
    deletions: u64,
    rng: Rng,
}

/// Snapshots of both stores at one moment.
struct Snapshots {
    real: Box<dyn StoreSnapshot>,
    model: Box<dyn StoreSnapshot>,
    deletions: u64,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(KEYS) as u8;
    // Some keys are prefixes of others, and some have extreme bytes.
    match number % 4 {
        0 => vec![number],
        1 => vec![number - 1, 0],
        2 => vec![number - 2, 0xff, number],
        _ => vec![0xff, number],
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(40) { 20_000 } else { rng.below(20) };
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

fn range(rng: &mut Rng) -> KeyRange {
    match rng.below(5) {
        0 => KeyRange::all(),
        1 => KeyRange::prefix([rng.below(KEYS) as u8]),
        2 => KeyRange { start: key(rng), end: None },
        _ => KeyRange::new(key(rng), key(rng)),
    }
}

fn batch(rng: &mut Rng) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for _ in 0..rng.below(12) {
        let key = key(rng);
        if rng.one_in(3) {
            batch.delete(key)
        } else {
            batch.put(key, value(rng))
        };
    }
    batch
}

impl Pair<'_> {
    fn step(&mut self) {
        match self.rng.below(10) {
            0..3 => self.write(),
            3 => self.write_if(),
            4 => self.get(),
            5 => self.multi_get(),
            6 => self.scan(),
            7 => self.transact(),
            8 => self.take_snapshot(),
            _ if self.rng.one_in(4) => self.delete_range(),
            _ => self.read_snapshot(),
        }
    }

    fn write(&mut self) {
        let batch = batch(&mut self.rng);
        self.count_deletions(&batch);
        for store in [self.store, self.model] {
            store.write(&batch, &WriteOptions::default()).unwrap();
        }
    }

    fn count_deletions(&mut self, batch: &WriteBatch) {
        self.deletions += batch.iter().filter(|op| matches!(op, BatchOp::Delete { .. })).count() as u64;
    }

    fn delete_range(&mut self) {
        self.deletions += 1;
        let range = range(&mut self.rng);
        for store in [self.store, self.model] {
            store.delete_range(&range, &WriteOptions::default()).unwrap();
        }
    }

    fn write_if(&mut self) {
        let batch = batch(&mut self.rng);
        let keys: Vec<Vec<u8>> = (0..self.rng.below(4)).map(|_| key(&mut self.rng)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let ranges: Vec<KeyRange> = (0..self.rng.below(2)).map(|_| range(&mut self.rng)).collect();
        let Some(Snapshots { real, model, deletions }) = self.snapshots.back() else { return };
        let has_deleted = self.deletions > *deletions;
        let check = |store: &dyn Store, since: &dyn StoreSnapshot| match store.write_if(
            &batch,
            &Condition { since, keys: &keys, ranges: &ranges },
            &WriteOptions::default(),
        ) {
            Ok(_) => true,
            Err(Error::Conflict { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let found = check(self.store, &**real);
        if found {
            assert!(check(self.model, &**model), "a conflict was missed: {keys:?} {ranges:?}");
        } else if check(self.model, &**model) {
            // The deletion of a missing key may count as its change, and a deletion elsewhere as
            // that of a large range. Only then the stores differ. The write follows without them.
            assert!(has_deleted, "a conflict without a change: {keys:?} {ranges:?}");
            self.store.write(&batch, &WriteOptions::default()).unwrap();
        }
        self.count_deletions(&batch);
    }

    fn get(&mut self) {
        let key = key(&mut self.rng);
        assert_eq!(self.store.get(&key).unwrap(), self.model.get(&key).unwrap(), "{key:?}");
    }

    fn multi_get(&mut self) {
        let keys: Vec<Vec<u8>> = (0..self.rng.below(50)).map(|_| key(&mut self.rng)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        assert!(self.store.multi_get(&keys).unwrap() == self.model.multi_get(&keys).unwrap(), "{keys:?}");
    }

    fn scan(&mut self) {
        let range = range(&mut self.rng);
        let mut real = self.store.iter(&range).unwrap();
        let mut model = self.model.iter(&range).unwrap();
        move_together(&mut self.rng, &mut *real, &mut *model);
    }

    fn take_snapshot(&mut self) {
        self.snapshots.push_back(Snapshots {
            real: self.store.snapshot().unwrap(),
            model: self.model.snapshot().unwrap(),
            deletions: self.deletions,
        });
        if self.snapshots.len() > SNAPSHOTS {
            self.snapshots.pop_front();
        }
    }

    fn read_snapshot(&mut self) {
        let range = range(&mut self.rng);
        let key = key(&mut self.rng);
        let Some(Snapshots { real, model, .. }) = self.snapshots.front() else { return };
        assert_eq!(real.get(&key).unwrap(), model.get(&key).unwrap(), "{key:?}");
        let mut real = real.iter(&range).unwrap();
        let mut model = model.iter(&range).unwrap();
        move_together(&mut self.rng, &mut *real, &mut *model);
    }

    fn transact(&mut self) {
        let options = TransactionOptions::default();
        let mut real = self.store.begin(&options).unwrap();
        let mut model = self.model.begin(&options).unwrap();
        for _ in 0..self.rng.below(8) {
            let key = key(&mut self.rng);
            let value = value(&mut self.rng);
            let range = range(&mut self.rng);
            match self.rng.below(4) {
                0 => assert_eq!(real.get(&key).unwrap(), model.get(&key).unwrap()),
                1 => [&mut real, &mut model].into_iter().for_each(|t| t.put(&key, &value).unwrap()),
                2 => [&mut real, &mut model].into_iter().for_each(|t| t.delete(&key).unwrap()),
                _ => {
                    let mut real = real.iter(&range).unwrap();
                    let mut model = model.iter(&range).unwrap();
                    move_together(&mut self.rng, &mut real, &mut model);
                }
            }
        }
        if self.rng.one_in(5) {
            return;
        }
        self.deletions += 1;
        real.commit().unwrap();
        model.commit().unwrap();
    }
}

/// Moves two cursors in the same way, and compares their entries.
fn move_together<'a>(rng: &mut Rng, real: &'a mut dyn StoreIterator, model: &'a mut dyn StoreIterator) {
    for _ in 0..rng.below(60) {
        let target = key(rng);
        let choice = rng.below(16);
        for cursor in [&mut *real, &mut *model] as [&mut dyn StoreIterator; 2] {
            match choice {
                0 => cursor.seek_to_first(),
                1 => cursor.seek_to_last(),
                2 => cursor.seek(&target),
                3..11 => cursor.next(),
                _ => cursor.prev(),
            }
        }
        real.status().unwrap();
        assert_eq!(real.valid(), model.valid());
        assert!(
            real.key() == model.key() && real.value() == model.value(),
            "{:?} {:?}",
            real.key(),
            model.key()
        );
    }
}

fn run(store: &dyn Store, seed: u64) {
    let model = memory();
    let mut pair =
        Pair { store, model: &*model.store, snapshots: VecDeque::new(), deletions: 0, rng: Rng::new(seed) };
    for _ in 0..ROUNDS {
        pair.step();
    }
    let mut real = store.iter(&KeyRange::all()).unwrap();
    let mut model = model.store.iter(&KeyRange::all()).unwrap();
    real.seek_to_first();
    model.seek_to_first();
    while model.valid() {
        assert!(real.key() == model.key() && real.value() == model.value());
        real.next();
        model.next();
    }
    assert!(!real.valid());
}

#[test]
fn engines_agree_with_the_model() {
    for fixture in FIXTURES.iter().skip(1).filter(|fixture| (fixture.is_available)()) {
        for seed in 0..6 {
            let test = (fixture.new_store)();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&*test.store, seed)));
            assert!(outcome.is_ok(), "seed {seed} on the engine {}", fixture.name);
        }
    }
}
