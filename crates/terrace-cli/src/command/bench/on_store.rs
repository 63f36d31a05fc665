//! `terrace bench ADDRESS`: measures the calls of a store, with the number of its requests.
//!
//! ```text
//!   put     one new key                       get     one key at random
//!   batch   100 new keys, atomically          scan    1,024 entries from a key at random
//! ```
//!
//! The keys of the rows `put` and `batch` are in a random order. Every value and every scan is
//! checked. A store with entries is refused, because the run deletes its keys at the end.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_bench::run::histogram::Histogram;
use terrace_store::{KeyRange, OpenOptions, RequestCount, Store, WriteBatch, WriteOptions, open};

use crate::failure::{CommandResult, Failure};
use crate::{terminal, units};

/// Keys of an operation of the row `batch`.
const BATCH: u64 = 100;
/// Entries of an operation of the row `scan`.
const PAGE: u64 = 1024;
/// Factor that distributes the keys. It is odd, so each number has a key of its own.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Size of a run.
pub(super) struct StoreBench {
    pub(super) keys: u64,
    pub(super) threads: u32,
    pub(super) value_size: usize,
}

/// A kind of operations.
struct Row {
    name: &'static str,
    /// Keys of one operation. The number of operations is that of the keys, divided by it.
    keys: u64,
    run: fn(&Work<'_>, u64) -> CommandResult,
}

/// Rows in the order of a run.
static ROWS: &[Row] = &[
    Row { name: "put", keys: 1, run: put },
    Row { name: "get", keys: 1, run: get },
    Row { name: "scan", keys: PAGE, run: scan },
    Row { name: "batch", keys: BATCH, run: batch },
];

/// State that the operations share.
struct Work<'a> {
    store: &'a dyn Store,
    value_size: usize,
    /// Number of keys of the row `put`.
    keys: u64,
}

impl StoreBench {
    /// Measures the rows with the names `rows`, or all, on the store at `address`.
    pub(super) fn measure(&self, address: &str, rows: &[String]) -> CommandResult {
        let selected = selected_rows(rows)?;
        let store = open(address, &OpenOptions::default().create_if_missing(true))?;
        check_empty(&*store)?;
        let mut out = terminal::output();
        writeln!(
            out,
            "{}, {}, values of {}; each row of requests and timestamps is per operation",
            units::plural(u64::from(self.threads), "thread"),
            units::plural(self.keys, "key"),
            units::size(self.value_size as u64)
        )?;
        writeln!(
            out,
            "{:<6} {:>12} {:>10} {:>10} {:>10} {:>10}",
            "row", "operations", "mean", "99 %", "requests", "timestamps"
        )?;
        let work = Work { store: &*store, value_size: self.value_size, keys: self.keys };
        let outcome = selected.iter().try_for_each(|row| {
            let line = self.measure_row(row, &work)?;
            writeln!(out, "{line}")?;
            Ok(out.flush()?)
        });
        let deleted = store.delete_range(&KeyRange::all(), &WriteOptions::default());
        outcome.and(deleted.map_err(Failure::from))
    }

    fn measure_row(&self, row: &Row, work: &Work<'_>) -> Result<String, Failure> {
        let operations = (self.keys / row.keys).max(1);
        let next = AtomicU64::new(0);
        let before = work.store.request_count();
        let started = Instant::now();
        let mut latencies = Histogram::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|_| scope.spawn(|| run_operations(row, work, &next, operations)))
                .collect();
            for thread in threads {
                let joined = thread.join().map_err(|_| Failure::Database("a thread panicked".into()));
                latencies.merge(&joined??);
            }
            Ok::<(), Failure>(())
        })?;
        let elapsed = started.elapsed();
        let after = work.store.request_count();
        Ok(line_of(row, operations, elapsed, &latencies, before, after))
    }
}

fn selected_rows(names: &[String]) -> Result<Vec<&'static Row>, Failure> {
    if names.is_empty() {
        return Ok(ROWS.iter().collect());
    }
    let rows: Vec<&Row> = names.iter().map(|name| row_by_name(name)).collect::<Result<_, _>>()?;
    // Without keys, a get and a scan would have nothing to check.
    match rows.first() {
        Some(row) if row.name == "put" => Ok(rows),
        _ => Err(Failure::Usage(
            "the first row for a store is put, which stores the keys of the others".into(),
        )),
    }
}

fn row_by_name(name: &str) -> Result<&'static Row, Failure> {
    let known = ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    ROWS.iter()
        .find(|row| row.name == name)
        .ok_or_else(|| Failure::Usage(format!("'{name}' is no row for a store, expected one of {known}")))
}

fn check_empty(store: &dyn Store) -> CommandResult {
    let mut entries = store.iter(&KeyRange::all())?;
    entries.seek_to_first();
    entries.status()?;
    match entries.valid() {
        true => Err(Failure::Usage("the store has entries; bench needs an empty one, and empties it".into())),
        false => Ok(()),
    }
}

fn run_operations(
    row: &Row,
    work: &Work<'_>,
    next: &AtomicU64,
    operations: u64,
) -> Result<Histogram, Failure> {
    let mut latencies = Histogram::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= operations {
            return Ok(latencies);
        }
        let started = Instant::now();
        (row.run)(work, number)?;
        latencies.record(started.elapsed().as_nanos() as u64, 1);
    }
}

fn line_of(
    row: &Row,
    operations: u64,
    elapsed: Duration,
    latencies: &Histogram,
    before: RequestCount,
    after: RequestCount,
) -> String {
    let summary = latencies.summary();
    let per_operation = |count: u64| format!("{:.2}", count as f64 / operations as f64);
    format!(
        "{:<6} {:>12} {:>10} {:>10} {:>10} {:>10}",
        row.name,
        units::rate(operations, elapsed),
        units::time(Duration::from_nanos(summary.mean)),
        units::time(Duration::from_nanos(summary.p99)),
        per_operation(after.requests - before.requests),
        per_operation(after.timestamps - before.timestamps),
    )
}

/// Key with the place `number` in a random order.
fn key(name: &str, number: u64) -> String {
    format!("{name}{:016x}", number.wrapping_add(1).wrapping_mul(SPREAD))
}

fn value(key: &str, size: usize) -> Vec<u8> {
    key.bytes().cycle().take(size).collect()
}

fn put(work: &Work<'_>, number: u64) -> CommandResult {
    let key = key("p", number);
    Ok(work.store.put(key.as_bytes(), &value(&key, work.value_size))?)
}

fn batch(work: &Work<'_>, number: u64) -> CommandResult {
    let mut batch = WriteBatch::new();
    for member in number * BATCH..(number + 1) * BATCH {
        let key = key("q", member);
        let value = value(&key, work.value_size);
        batch.put(key, value);
    }
    Ok(work.store.write(&batch, &WriteOptions::default())?)
}

/// Number of a key that the row `put` has stored.
fn stored_number(work: &Work<'_>, number: u64) -> u64 {
    number.wrapping_mul(SPREAD) % work.keys
}

fn get(work: &Work<'_>, number: u64) -> CommandResult {
    let key = key("p", stored_number(work, number));
    let found = work.store.get(key.as_bytes())?;
    check(&key, found.as_deref(), work.value_size)
}

fn scan(work: &Work<'_>, number: u64) -> CommandResult {
    let range = KeyRange::prefix("p");
    let mut entries = work.store.iter(&range)?;
    let first = key("p", stored_number(work, number));
    entries.seek(first.as_bytes());
    let mut expected = Some(first);
    for _ in 0..PAGE {
        if !entries.valid() {
            break;
        }
        let found = String::from_utf8_lossy(entries.key()).into_owned();
        match expected.take() {
            Some(first) if first != found => return check(&first, None, work.value_size),
            _ => check(&found, Some(entries.value()), work.value_size)?,
        }
        entries.next();
    }
    Ok(entries.status()?)
}

fn check(key: &str, found: Option<&[u8]>, size: usize) -> CommandResult {
    match found {
        Some(found) if found == value(key, size) => Ok(()),
        Some(_) => Err(Failure::Database(format!("corruption: '{key}' has another value than it should"))),
        None => Err(Failure::Database(format!("corruption: '{key}' is missing"))),
    }
}
