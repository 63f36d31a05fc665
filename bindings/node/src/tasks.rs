//! Calls that may wait. Each runs on a thread of libuv's pool and settles a promise.

use std::collections::HashMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use napi::bindgen_prelude::{AsyncTask, Buffer, BufferSlice, ToNapiValue, TypeName};
use napi::{Either, Env, Task};
use napi_derive::napi;
use terrace::{Db, Options, ReadOptions, RepairOptions, Ticker, WriteBatch, WriteOptions};
use terrace_sync::Arc;

use crate::error::{Failure, Result};
use crate::handles::{self, Handle};
use crate::open::{Database, OpenOptions};
use crate::scan::{Scan, ScanParts, bounded};

/// Key or bound of a task.
type Bytes<'a> = Either<String, BufferSlice<'a>>;

/// Number of keys that a `clear` deletes in one batch.
const CLEAR_BATCH_KEYS: usize = 1000;

fn to_vec(bytes: &Bytes<'_>) -> Vec<u8> {
    match bytes {
        Either::A(string) => string.as_bytes().to_vec(),
        Either::B(buffer) => buffer.to_vec(),
    }
}

fn to_vec_or_none(bytes: Option<Bytes<'_>>) -> Option<Vec<u8>> {
    bytes.as_ref().map(to_vec)
}

/// Work on a thread of the pool, and the conversion of its result on the thread of JavaScript.
pub(crate) struct Job<Output, Answer> {
    work: Option<Box<dyn FnOnce() -> Result<Output> + Send>>,
    answer: fn(Output) -> Answer,
}

impl<Output, Answer> Task for Job<Output, Answer>
where
    Output: Send + 'static,
    Answer: ToNapiValue + TypeName,
{
    type Output = Output;
    type JsValue = Answer;

    fn compute(&mut self) -> napi::Result<Output> {
        let work = self.work.take().ok_or_else(Failure::panicked)?;
        // A panic must not cross the frames of libuv.
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Failure::panicked()));
        Ok(outcome?)
    }

    fn resolve(&mut self, _env: Env, output: Output) -> napi::Result<Answer> {
        Ok((self.answer)(output))
    }
}

/// Promise of a task.
type Promise<Output, Answer = Output> = AsyncTask<Job<Output, Answer>>;

/// Returns a promise of the result of `work`.
fn spawn<Output, Answer>(
    answer: fn(Output) -> Answer,
    work: impl FnOnce() -> Result<Output> + Send + 'static,
) -> napi::Result<Promise<Output, Answer>>
where
    Output: Send + 'static,
    Answer: ToNapiValue + TypeName,
{
    Ok(AsyncTask::new(Job { work: Some(Box::new(work)), answer }))
}

/// Returns the database with the handle `db`, for use in another thread.
fn database(db: f64) -> Result<Db> {
    handles::with(|handles| handles.db(db as Handle).cloned())
}

/// Returns the database and the options of a read for use in another thread.
fn reader(db: f64, snapshot: f64, fill_cache: bool) -> Result<(Db, ReadOptions)> {
    handles::with(|handles| {
        let (db, options) = handles.db_and_options(db as Handle, snapshot as Handle, fill_cache)?;
        Ok((db.clone(), options))
    })
}

/// Opens a database, and resolves to its handle.
#[napi(catch_unwind)]
pub(crate) fn open(path: String, options: OpenOptions) -> napi::Result<Promise<Database, f64>> {
    spawn(
        |database| handles::with(|handles| handles.add_database(database)) as f64,
        move || Database::open(&PathBuf::from(path), &options.to_engine()?, options.mode()?),
    )
}

/// Closes a database. Later calls with its handle fail.
#[napi(catch_unwind)]
pub(crate) fn close(db: f64) -> napi::Result<Promise<()>> {
    let mut database = handles::with(|handles| handles.take_database(db as Handle))?;
    spawn(|()| (), move || database.close())
}

/// Values of keys. A missing one is None.
type Values = Vec<Option<Vec<u8>>>;

fn to_buffers(values: Values) -> Vec<Option<Buffer>> {
    values.into_iter().map(|value| value.map(Buffer::from)).collect()
}

/// Resolves to the values of `keys`, or null for a missing one. With `only_existence`, a value is
/// empty.
#[napi(catch_unwind)]
pub(crate) fn get_many(
    db: f64,
    keys: Vec<Bytes<'_>>,
    only_existence: bool,
    fill_cache: bool,
    snapshot: f64,
) -> napi::Result<Promise<Values, Vec<Option<Buffer>>>> {
    let (db, options) = reader(db, snapshot, fill_cache)?;
    let keys: Vec<_> = keys.iter().map(to_vec).collect();
    spawn(to_buffers, move || match only_existence {
        false => Ok(db.multi_get_with(&keys, &options)?),
        true => keys.iter().map(|key| Ok(db.contains_with(key, &options)?.then(Vec::new))).collect(),
    })
}

/// Writes a batch, and leaves its handle with an empty one.
#[napi(catch_unwind)]
pub(crate) fn write(db: f64, batch: f64, sync: bool) -> napi::Result<Promise<()>> {
    let db = database(db)?;
    let batch = handles::with(|handles| handles.take_batch(batch as Handle))?;
    spawn(|()| (), move || Ok(db.write_with(&batch, &WriteOptions::default().sync(sync))?))
}

/// Resolves to the next chunk of a scan.
#[napi(catch_unwind)]
pub(crate) fn scan_next(scan: f64, count: u32, bytes: f64) -> napi::Result<Promise<Vec<u8>, Buffer>> {
    let scan = handles::with(|handles| handles.scan(scan as Handle).map(|open| Arc::clone(&open.scan)))?;
    spawn(Buffer::from, move || scan.lock().take(count as usize, bytes as usize))
}

/// Deletes the keys from `lower`, included, to `upper`, excluded: all of them, or at most `limit`
/// of those that the snapshot has.
#[napi(catch_unwind)]
pub(crate) fn clear(
    db: f64,
    lower: Option<Bytes<'_>>,
    upper: Option<Bytes<'_>>,
    limit: Option<f64>,
    reverse: bool,
    snapshot: f64,
) -> napi::Result<Promise<()>> {
    let lower = to_vec_or_none(lower);
    let upper = to_vec_or_none(upper);
    let (db, options) = reader(db, snapshot, false)?;
    spawn(
        |()| (),
        move || match limit {
            None if snapshot == 0.0 => clear_all(&db, lower, upper),
            _ => clear_some(&db, bounded(options, lower, upper), limit.unwrap_or(f64::INFINITY), reverse),
        },
    )
}

/// Deletes a few keys by one atomic batch, and many of them by a deletion of their range, which
/// waits for syncs.
fn clear_all(db: &Db, lower: Option<Vec<u8>>, upper: Option<Vec<u8>>) -> Result<()> {
    let options = bounded(ReadOptions::DEFAULT.fill_cache(false), lower.clone(), upper.clone());
    let parts = ScanParts { keys: true, values: false, reverse: false, aligned: false };
    let mut batch = WriteBatch::new();
    let has_more = Scan::new(db, options, parts).take_keys(CLEAR_BATCH_KEYS, |key| {
        batch.delete(key);
    })?;
    if !has_more {
        return Ok(db.write(&batch)?);
    }
    let lower = lower.map_or(Bound::Unbounded, Bound::Included);
    let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
    Ok(db.delete_range((lower, upper))?)
}

fn clear_some(db: &Db, options: ReadOptions, limit: f64, reverse: bool) -> Result<()> {
    let parts = ScanParts { keys: true, values: false, reverse, aligned: false };
    let mut scan = Scan::new(db, options, parts);
    let mut left = limit as usize;
    loop {
        let mut batch = WriteBatch::new();
        let has_more = scan.take_keys(left.min(CLEAR_BATCH_KEYS), |key| {
            batch.delete(key);
        })?;
        left -= batch.len();
        db.write(&batch)?;
        if !has_more || left == 0 {
            return Ok(());
        }
    }
}

/// Resolves to the approximate number of bytes of the keys from `start` to `end`.
#[napi(catch_unwind)]
pub(crate) fn approximate_size(db: f64, start: Bytes<'_>, end: Bytes<'_>) -> napi::Result<Promise<f64>> {
    let db = database(db)?;
    let start = to_vec(&start);
    let end = to_vec(&end);
    spawn(
        |size| size,
        move || {
            let sizes = db.approximate_sizes(&[(&start, &end)])?;
            Ok(sizes.iter().sum::<u64>() as f64)
        },
    )
}

/// Compacts the keys from `start` to `end`. A missing bound means the first or last key.
#[napi(catch_unwind)]
pub(crate) fn compact_range(
    db: f64,
    start: Option<Bytes<'_>>,
    end: Option<Bytes<'_>>,
) -> napi::Result<Promise<()>> {
    let db = database(db)?;
    let start = to_vec_or_none(start);
    let end = to_vec_or_none(end);
    spawn(|()| (), move || Ok(db.compact_range(start.as_deref(), end.as_deref())?))
}

/// Writes a consistent copy of the database to the directory `path`. Resolves to the sequence
/// number of its state.
#[napi(catch_unwind)]
pub(crate) fn checkpoint(db: f64, path: String) -> napi::Result<Promise<u64, f64>> {
    let db = database(db)?;
    spawn(|sequence| sequence as f64, move || Ok(db.checkpoint(path)?))
}

/// Reads everything that the writer of a followed database has stored. Resolves to the sequence
/// number of the state.
#[napi(catch_unwind)]
pub(crate) fn catch_up(db: f64) -> napi::Result<Promise<u64, f64>> {
    let db = database(db)?;
    spawn(|sequence| sequence as f64, move || Ok(db.catch_up()?))
}

/// Deletes the database in the directory `path`.
#[napi(catch_unwind)]
pub(crate) fn destroy(path: String) -> napi::Result<Promise<()>> {
    spawn(|()| (), move || Ok(terrace::destroy(path, &Options::default())?))
}

/// Repairs the database in the directory `path`. Resolves to a report.
#[napi(catch_unwind)]
pub(crate) fn repair(path: String) -> napi::Result<Promise<String>> {
    spawn(
        |report| report,
        move || Ok(terrace::repair(path, &Options::default(), &RepairOptions::default())?.to_string()),
    )
}

/// Returns the property `name` of LevelDB or Terrace.
#[napi(catch_unwind)]
pub(crate) fn property(db: f64, name: String) -> napi::Result<Option<String>> {
    Ok(database(db)?.property(&name))
}

/// Returns the counters of the database since its open, and its present memory.
#[napi(catch_unwind)]
pub(crate) fn stats(db: f64) -> napi::Result<HashMap<String, f64>> {
    let stats = database(db)?.stats();
    let counters = Ticker::all().map(|ticker| (ticker.name().to_owned(), stats.ticker(ticker) as f64));
    let state = [
        ("last_sequence", stats.last_sequence as f64),
        ("immutable_memtables", stats.immutable_memtables as f64),
        ("memory_bytes", stats.memory.total() as f64),
        ("files", stats.levels.iter().map(|level| level.files).sum::<usize>() as f64),
        ("file_bytes", stats.levels.iter().map(|level| level.bytes).sum::<u64>() as f64),
    ];
    Ok(counters.chain(state.map(|(name, value)| (name.to_owned(), value))).collect())
}
