//! Clients that record what they see, and checks of the records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use terrace_linearizability::checker::{Effect, Operation, Verdict, check_linearizable, project_to_key};
use terrace_linearizability::serializability::{self, Read};
use terrace_store::{
    Error, KeyRange, OpenOptions, Store, StoreIterator, Transaction, TransactionOptions, open,
};
use terrace_testkit::rng::Rng;

const KEYS: usize = 5;
/// Keys of transactions, each one byte.
const TRANSACTION_KEYS: u64 = 8;
/// Maximum number of steps of a check.
const PATIENCE: usize = 20_000_000;

/// Records of all clients.
#[derive(Default)]
pub(crate) struct History {
    time: AtomicU64,
    next_value: AtomicU32,
    operations: Mutex<Vec<Operation>>,
    transactions: Mutex<serializability::History>,
    /// Number of writes that had no effect.
    pub(crate) refused: AtomicU64,
    /// Number of writes whose effect stays unknown.
    pub(crate) unknown: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    is_ended: AtomicBool,
}

impl History {
    fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.operations.lock().unwrap().len(), self.transactions.lock().unwrap().committed.len())
    }

    fn record(&self, name: &str, invoked_at: u64, returned_at: u64, effect: Effect) {
        let operation =
            Operation { name: name.into(), invoked_at, returned_at, effect, after_values: Vec::new() };
        self.operations.lock().unwrap().push(operation);
    }

    /// Executes a random operation on one key.
    fn single_key(&self, store: &dyn Store, rng: &mut Rng) {
        let key = rng.below(KEYS as u64) as usize;
        let name = format!("single-{key}");
        let invoked_at = self.tick();
        if rng.one_in(2) {
            if let Ok(found) = store.get(name.as_bytes()) {
                let value = found.map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
                self.record("get", invoked_at, self.tick(), Effect::Read(vec![(key, value)]));
            }
            return;
        }
        let value = (!rng.one_in(5)).then(|| self.next_value.fetch_add(1, Ordering::SeqCst));
        let outcome = match value {
            Some(value) => store.put(name.as_bytes(), &value.to_le_bytes()),
            None => store.delete(name.as_bytes()),
        };
        let effect = Effect::Write(vec![(key, value)]);
        match outcome {
            Ok(()) => self.record("write", invoked_at, self.tick(), effect),
            // It may take effect at any later time. Each such operation ends at a time of its own.
            Err(Error::CommitUnknown(reason)) => {
                println!("unknown write: {reason}");
                let unknown = self.unknown.fetch_add(1, Ordering::SeqCst);
                self.record("unknown write", invoked_at, u64::MAX - unknown, effect);
            }
            Err(_) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Executes a random transaction.
    fn transaction(&self, store: &dyn Store, rng: &mut Rng) {
        let Ok(mut transaction) = store.begin(&TransactionOptions::default()) else { return };
        let mut reads = Vec::new();
        let mut writes = BTreeMap::new();
        for _ in 0..1 + rng.below(4) {
            let key = rng.below(TRANSACTION_KEYS) as u8;
            let is_done = match rng.below(6) {
                // A scan of own writes is a case of the conformance tests.
                0 if writes.keys().any(|written| *written >= key) => Ok(()),
                0 => scan(&mut transaction, key).map(|read| reads.push(read)),
                1 | 2 if writes.contains_key(&key) => Ok(()),
                1 | 2 => {
                    transaction.get(&name(key)).map(|v| reads.push(Read::Key(key, v.map(|v| decode(&v)))))
                }
                3 => {
                    writes.insert(key, None);
                    transaction.delete(&name(key))
                }
                _ => {
                    let value = u64::from(self.next_value.fetch_add(1, Ordering::SeqCst));
                    writes.insert(key, Some(value));
                    transaction.put(&name(key), &value.to_le_bytes())
                }
            };
            if is_done.is_err() {
                return;
            }
        }
        let values: Vec<u64> = writes.values().copied().flatten().collect();
        match transaction.commit() {
            Ok(position) => {
                let committed = serializability::Transaction { position, reads, writes };
                self.transactions.lock().unwrap().committed.push(committed);
            }
            Err(Error::CommitUnknown(reason)) => {
                println!("unknown transaction: {reason}");
                self.unknown.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                let counter =
                    if matches!(error, Error::Conflict { .. }) { &self.conflicts } else { &self.refused };
                counter.fetch_add(1, Ordering::SeqCst);
                self.transactions.lock().unwrap().aborted_values.extend(values);
            }
        }
    }

    /// Reads all keys at the end, and checks that an order of the operations explains all results.
    #[track_caller]
    pub(crate) fn check(&self, store: &dyn Store) {
        for key in 0..KEYS {
            let invoked_at = self.tick();
            let found = store.get(format!("single-{key}").as_bytes()).unwrap();
            let value = found.map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
            self.record("last get", invoked_at, self.tick(), Effect::Read(vec![(key, value)]));
        }
        let operations = self.operations.lock().unwrap();
        for key in 0..KEYS {
            let verdict = check_linearizable(&project_to_key(&operations, key), KEYS, PATIENCE);
            assert_eq!(verdict, Verdict::Linearizable, "single-{key}: {verdict:?}");
        }
        self.check_transactions(store);
    }

    fn check_transactions(&self, store: &dyn Store) {
        let history = self.transactions.lock().unwrap();
        let (violations, state) = serializability::check(&history);
        assert!(violations.is_empty(), "{}", violations[0]);
        let mut iter = store.iter(&KeyRange::prefix("txn-")).unwrap();
        iter.seek_to_first();
        for (key, value) in state {
            assert_eq!((iter.key(), decode(iter.value())), (&name(key)[..], value));
            iter.next();
        }
        iter.status().unwrap();
        assert!(!iter.valid(), "'{}' was never committed", iter.key().escape_ascii());
    }
}

fn name(key: u8) -> Vec<u8> {
    [b"txn-".as_slice(), &[key]].concat()
}

fn decode(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Scans from `key` to the last one.
fn scan(transaction: &mut Transaction<'_>, key: u8) -> Result<Read, Error> {
    let mut iter =
        transaction.iter(&KeyRange { start: name(key), end: Some(name(TRANSACTION_KEYS as u8)) })?;
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        found.push((iter.key()[4], decode(iter.value())));
        iter.next();
    }
    iter.status()?;
    Ok(Read::Range(key, TRANSACTION_KEYS as u8 - 1, found))
}

/// Threads of a store that run [`client`].
const THREADS_PER_STORE: u64 = 3;

/// Checks the history of two stores at `address`, with several threads each, which run until
/// `faults` returns. The address has a time of a call that exceeds every fault, so no commit stays
/// unknown.
pub(crate) fn check_under_faults(address: &str, faults: impl FnOnce()) {
    let options = OpenOptions::default().create_if_missing(true);
    let stores: Vec<Arc<dyn Store>> =
        (0..2).map(|_| open(address, &options).expect("the cluster runs")).collect();
    let history = Arc::new(History::default());
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            for thread in 0..THREADS_PER_STORE {
                let seed = number as u64 * THREADS_PER_STORE + thread;
                let history = &history;
                scope.spawn(move || client(history, &**store, seed));
            }
        }
        faults();
        history.end();
    });
    let (operations, transactions) = history.sizes();
    let conflicts = history.conflicts.load(Ordering::SeqCst);
    let refused = history.refused.load(Ordering::SeqCst);
    println!(
        "{operations} operations on keys, {transactions} transactions, {conflicts} conflicts, {refused} refused"
    );
    assert_eq!(history.unknown.load(Ordering::SeqCst), 0);
    assert!(operations > 100 && transactions > 20, "{operations} operations, {transactions} transactions");
    history.check(&*stores[0]);
}

/// Runs a client until the end of the history.
pub(crate) fn client(history: &Arc<History>, store: &dyn Store, seed: u64) {
    let mut rng = Rng::new(seed);
    while !history.is_ended.load(Ordering::SeqCst) {
        match rng.one_in(2) {
            true => history.single_key(store, &mut rng),
            false => history.transaction(store, &mut rng),
        }
    }
}
