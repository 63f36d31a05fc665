//! Runs transactions of several threads on a new database, and checks their history.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use terrace::{Db, Env, Error, Isolation, MappedLogs, Options, ReadOptions, Savepoint, TransactionOptions};
use terrace_env::SystemFs;
use terrace_env::mem::MemFs;
use terrace_env::{FileSystem, SeededRandom, SystemClock, ThreadPool};
use terrace_sync::{Arc, thread};
use terrace_testkit::rng::{Rng, splitmix};

use crate::serializability::{Anomaly, History, Key, Read, Transaction, Value, check};

/// Number of bytes of a value that fills half of a memtable.
const LARGE_VALUE_LEN: usize = 40_000;

/// Wait after which a lock counts as never released.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Result of one run.
#[derive(Debug, Default, Clone, Copy)]
pub struct TransactionsOutcome {
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of conflicts and deadlocks.
    pub conflicts: u64,
    /// Number of write skews of transactions with snapshot isolation.
    pub write_skews: u64,
}

/// Workload of one run.
struct Workload {
    db: Db,
    options: TransactionOptions,
    keys: u64,
    transactions: u64,
    history: Mutex<History>,
    conflicts: Mutex<u64>,
}

/// Runs the workload of `seed`. The error describes an impossible result.
pub fn run_transactions(seed: u64) -> Result<TransactionsOutcome, String> {
    let mut rng = Rng::new(seed);
    let on_real_files = rng.one_in(4);
    let directory = on_real_files.then(tempfile::tempdir).transpose().map_err(|error| error.to_string())?;
    let fs: Arc<dyn FileSystem> = match &directory {
        Some(_) => Arc::new(SystemFs::new()),
        None => Arc::new(MemFs::new()),
    };
    let path = directory.as_ref().map_or("/db".into(), |directory| directory.path().join("db"));
    let env = Env {
        fs,
        clock: Arc::new(SystemClock),
        scheduler: Arc::new(ThreadPool::new(2, 1)),
        random: Arc::new(SeededRandom::new(0)),
    };
    let mut options = Options::default().create_if_missing(true).env(env).write_buffer_size(1);
    options.mapped_logs = rng.pick(&[MappedLogs::Auto, MappedLogs::Never]);
    let isolation = rng.pick(&[Isolation::Serializable, Isolation::Serializable, Isolation::Snapshot]);
    let workload = Workload {
        db: Db::open(&path, &options).map_err(|error| error.to_string())?,
        options: TransactionOptions::default()
            .isolation(isolation)
            .locking(isolation == Isolation::Serializable && rng.one_in(3))
            .lock_timeout(LOCK_TIMEOUT),
        keys: rng.pick(&[3, 12, 60]),
        transactions: 10 + rng.below(60),
        history: Mutex::default(),
        conflicts: Mutex::default(),
    };
    let workload = Arc::new(workload);
    let mut seeds = seed;
    let clients: Vec<_> = (0..2 + rng.below(5))
        .map(|number| {
            let workload = Arc::clone(&workload);
            let rng = Rng::new(splitmix(&mut seeds));
            thread::spawn(move || Client { workload, rng, next_value: (number + 1) << 32 }.run())
        })
        .collect();
    for client in clients {
        client.join().map_err(|_| "a client panicked".to_owned())??;
    }
    workload.check(isolation)
}

impl Workload {
    fn check(&self, isolation: Isolation) -> Result<TransactionsOutcome, String> {
        let history = self.history.lock().map_err(|error| error.to_string())?;
        let (violations, state) = check(&history);
        let allowed: &[Anomaly] = match isolation {
            Isolation::Serializable => &[],
            Isolation::Snapshot => &[Anomaly::WriteSkew, Anomaly::PredicateWriteSkew],
        };
        if let Some(violation) = violations.iter().find(|violation| !allowed.contains(&violation.anomaly)) {
            return Err(format!("{violation}\nwith {:?}", self.options));
        }
        let entries: Result<Vec<_>, Error> =
            self.db.iter().map(|entry| entry.map(|(key, value)| (key[0], decode(&value)))).collect();
        let entries = entries.map_err(|error| error.to_string())?;
        if !entries.iter().copied().eq(state) {
            return Err(format!("the database ends with {entries:?}"));
        }
        Ok(TransactionsOutcome {
            committed: history.committed.len() as u64,
            conflicts: self.conflicts.lock().map_or(0, |conflicts| *conflicts),
            write_skews: violations.len() as u64,
        })
    }
}

fn decode(value: &[u8]) -> Value {
    value.first_chunk().map_or(Value::MAX, |bytes| Value::from_le_bytes(*bytes))
}

/// One thread.
struct Client {
    workload: Arc<Workload>,
    rng: Rng,
    next_value: Value,
}

/// Record of a running transaction.
#[derive(Default)]
struct Record {
    reads: Vec<Read>,
    writes: BTreeMap<Key, Option<Value>>,
    values: HashSet<Value>,
    savepoints: Vec<(Savepoint, BTreeMap<Key, Option<Value>>)>,
}

impl Client {
    fn run(mut self) -> Result<(), String> {
        let workload = Arc::clone(&self.workload);
        for _ in 0..workload.transactions {
            match self.rng.below(40) {
                0 => workload.db.flush().map_err(|error| error.to_string())?,
                1 => workload.db.compact_range(None, None).map_err(|error| error.to_string())?,
                // A transaction without reads is a plain batch.
                2..10 => self.transaction(true)?,
                _ => self.transaction(false)?,
            }
        }
        Ok(())
    }

    fn transaction(&mut self, is_plain: bool) -> Result<(), String> {
        let workload = Arc::clone(&self.workload);
        let options = match is_plain {
            true => TransactionOptions::default(),
            false => workload.options.clone(),
        };
        let mut transaction = workload.db.begin(&options);
        let mut record = Record::default();
        let steps = 1 + self.rng.below(6);
        let finished = (0..steps)
            .try_for_each(|_| self.step(&mut transaction, &mut record, is_plain))
            .and_then(|()| match self.rng.one_in(20) {
                true => {
                    transaction.rollback();
                    Ok(None)
                }
                false => transaction.commit().map(Some),
            });
        let position = match finished {
            Ok(position) => position,
            Err(Error::Conflict { .. } | Error::Deadlock { .. }) => {
                *workload.conflicts.lock().map_err(|error| error.to_string())? += 1;
                None
            }
            Err(error) => return Err(error.to_string()),
        };
        let mut history = workload.history.lock().map_err(|error| error.to_string())?;
        match position {
            None => history.aborted_values.extend(record.values),
            Some(position) => {
                for value in record.writes.values().flatten() {
                    record.values.remove(value);
                }
                history.intermediate_values.extend(record.values);
                let Record { reads, writes, .. } = record;
                history.committed.push(Transaction { position, reads, writes });
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        transaction: &mut terrace::Transaction,
        record: &mut Record,
        is_plain: bool,
    ) -> Result<(), Error> {
        if self.rng.one_in(3) {
            thread::yield_now();
        }
        let key = self.rng.below(self.workload.keys) as Key;
        match if is_plain { 60 } else { self.rng.below(100) } {
            0..35 => {
                let value = match self.rng.one_in(4) {
                    true => transaction.get_for_update([key])?,
                    false => transaction.get([key])?,
                };
                record.note_read(key, value.as_deref().map(decode))?;
            }
            35..50 => {
                let last = key.saturating_add(self.rng.below(6) as Key);
                record.note_scan(transaction, key..=last, self.rng.one_in(2))?;
            }
            50..55 => record.savepoints.push((transaction.savepoint(), record.writes.clone())),
            55..60 => {
                let kept = self.rng.below(3) as usize;
                record.savepoints.truncate(kept.max(1));
                if let Some((savepoint, writes)) = record.savepoints.last() {
                    transaction.rollback_to(*savepoint)?;
                    record.writes.clone_from(writes);
                }
            }
            60..93 => {
                self.next_value += 1;
                let mut value = self.next_value.to_le_bytes().to_vec();
                if self.rng.one_in(8) {
                    value.resize(LARGE_VALUE_LEN, 0);
                }
                transaction.put([key], value)?;
                record.values.insert(self.next_value);
                record.writes.insert(key, Some(self.next_value));
            }
            _ => {
                transaction.delete([key])?;
                record.writes.insert(key, None);
            }
        }
        Ok(())
    }
}

impl Record {
    /// Checks a read of an own write, or records the read.
    fn note_read(&mut self, key: Key, value: Option<Value>) -> Result<(), Error> {
        match self.writes.get(&key) {
            Some(own) if *own == value => Ok(()),
            Some(own) => Err(Error::NotFound(format!("own write {own:?} of key {key}: read {value:?}"))),
            None => {
                self.reads.push(Read::Key(key, value));
                Ok(())
            }
        }
    }

    /// Scans `range` in one direction, checks the own writes in it, and records the rest.
    fn note_scan(
        &mut self,
        transaction: &mut terrace::Transaction,
        range: RangeInclusive<Key>,
        is_forward: bool,
    ) -> Result<(), Error> {
        let options = ReadOptions::default().lower_bound([*range.start()]).upper_bound([range.end() + 1]);
        let mut cursor = transaction.raw_iter_with(&options)?;
        let mut entries = Vec::new();
        if is_forward {
            cursor.seek_to_first()
        } else {
            cursor.seek_to_last()
        }
        while cursor.valid() {
            entries.push((cursor.key()[0], decode(cursor.value())));
            if is_forward { cursor.next() } else { cursor.prev() }
        }
        cursor.status()?;
        if !is_forward {
            entries.reverse();
        }
        let found: BTreeMap<Key, Value> = entries.iter().copied().collect();
        for (key, own) in self.writes.range(range.clone()) {
            if found.get(key) != own.as_ref() {
                return Err(Error::NotFound(format!("own write {own:?} of key {key}: scan {entries:?}")));
            }
        }
        // The database shows the keys between own writes.
        let mut first = *range.start();
        let own_keys = self.writes.range(range.clone()).map(|(key, _)| *key);
        for end in own_keys.chain([range.end() + 1]) {
            if first < end {
                let part = found.range(first..end).map(|(key, value)| (*key, *value)).collect();
                self.reads.push(Read::Range(first, end - 1, part));
            }
            first = end + 1;
        }
        Ok(())
    }
}
