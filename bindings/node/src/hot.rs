//! Calls that answer at once, on the thread of JavaScript.
//!
//! The `try` calls return `null` (reads) or `false` (writes) if the engine would wait. JavaScript
//! then uses a task. A batch is filled here in any case, so that its bytes cross once.

use std::cell::Cell;

use terrace::{Db, ReadOptions, WriteBatch, WriteOptions};
use terrace_sync::Ordering;

use crate::error::{Failure, Result};
use crate::handles::{self, Handle};
use crate::raw::{Call, Function, Value};
use crate::scan::{Scan, ScanParts, bounded};

/// All hot calls. The comments name their arguments.
pub(crate) static FUNCTIONS: &[Function] = &[
    // db, key, flags, snapshot or 0 or nothing
    Function { name: "tryGet", call: try_get },
    // db, key, flags, snapshot or 0 or nothing
    Function { name: "getSync", call: get_sync },
    // db, key, value
    Function { name: "tryPut", call: try_put },
    // db, key
    Function { name: "tryDel", call: try_del },
    // db, batch
    Function { name: "tryWrite", call: try_write },
    Function { name: "batchNew", call: batch_new },
    // batch, key, value
    Function { name: "batchPut", call: batch_put },
    // batch, key
    Function { name: "batchDel", call: batch_del },
    // batch, text, lengths, number of operations
    Function { name: "batchText", call: batch_text },
    // batch, other batch
    Function { name: "batchAppend", call: batch_append },
    // batch
    Function { name: "batchSize", call: batch_size },
    // batch
    Function { name: "batchClear", call: batch_clear },
    // batch
    Function { name: "batchFree", call: batch_free },
    // db
    Function { name: "snapshotNew", call: snapshot_new },
    // snapshot
    Function { name: "snapshotFree", call: snapshot_free },
    // db, flags, snapshot or 0, lower bound, upper bound
    Function { name: "scanNew", call: scan_new },
    // scan, target
    Function { name: "scanSeek", call: scan_seek },
    // scan
    Function { name: "scanAbort", call: scan_abort },
    // scan
    Function { name: "scanFree", call: scan_free },
];

/// The read does not add blocks to the cache.
const NO_FILL_CACHE: u64 = 1;
/// Values become Buffers and not strings.
const VALUE_AS_BUFFER: u64 = 2;
/// The result is whether the key exists.
const ONLY_EXISTENCE: u64 = 4;
/// A scan goes backward.
const REVERSE: u64 = 8;
/// A scan returns no keys.
const NO_KEYS: u64 = 16;
/// Length of the value of an operation that is a deletion.
const DELETION: u32 = u32::MAX;
/// A scan returns no values.
const NO_VALUES: u64 = 32;
/// The chunks of a scan are aligned.
const ALIGNED: u64 = 64;

/// Returns the result of a read for a value.
fn found<'call>(call: &Call<'call>, flags: u64, value: &[u8]) -> Result<Value<'call>> {
    if flags & ONLY_EXISTENCE != 0 {
        call.boolean(true)
    } else if flags & VALUE_AS_BUFFER != 0 {
        call.buffer(value)
    } else {
        call.string(value)
    }
}

/// Returns the result of a read without a value.
fn missing<'call>(call: &Call<'call>, flags: u64) -> Result<Value<'call>> {
    match flags & ONLY_EXISTENCE != 0 {
        true => call.boolean(false),
        false => call.undefined(),
    }
}

/// Capacity of the memory that one call leaves to the next one, in bytes.
const MAX_IDLE_BYTES: usize = 16 << 10;

thread_local! {
    static IDLE_BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Keys and values of the arguments of one call, in memory of an earlier call.
struct ArgumentBytes(Vec<u8>);

impl ArgumentBytes {
    fn new() -> ArgumentBytes {
        ArgumentBytes(IDLE_BYTES.take())
    }

    /// Appends the bytes of an argument, and returns the length of all.
    fn append(&mut self, call: &Call<'_>, argument: usize) -> Result<usize> {
        call.append_bytes(call.argument(argument), &mut self.0)?;
        Ok(self.0.len())
    }
}

impl Drop for ArgumentBytes {
    fn drop(&mut self) {
        if self.0.capacity() <= MAX_IDLE_BYTES {
            self.0.clear();
            IDLE_BYTES.set(std::mem::take(&mut self.0));
        }
    }
}

/// Arguments of a read of one key: db, key, flags, snapshot or 0 or nothing.
struct Read {
    db: Handle,
    key: ArgumentBytes,
    flags: u64,
    snapshot: Handle,
}

impl Read {
    fn new(call: &Call<'_>) -> Result<Read> {
        let mut key = ArgumentBytes::new();
        key.append(call, 1)?;
        let snapshot = if call.len() > 3 { call.handle(3)? } else { 0 };
        Ok(Read { db: call.handle(0)?, key, flags: call.integer(2)?, snapshot })
    }

    /// Calls `read` with the database and the options of this read.
    fn run<T>(&self, read: impl FnOnce(&Db, &ReadOptions) -> Result<T>) -> Result<T> {
        handles::try_with(|handles| {
            let fill_cache = self.flags & NO_FILL_CACHE == 0;
            let (db, options) = handles.db_and_options(self.db, self.snapshot, fill_cache)?;
            read(db, &options)
        })
    }
}

/// Returns the value, or `null` if the read would wait.
fn try_get<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let read = Read::new(call)?;
    read.run(|db, options| {
        match db.try_get_borrowed(&read.key.0, options, |value| found(call, read.flags, value)) {
            Ok(Some(value)) => value,
            Ok(None) => missing(call, read.flags),
            Err(error) if error.is_would_wait() => call.null(),
            Err(error) => Err(error.into()),
        }
    })
}

fn get_sync<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let read = Read::new(call)?;
    read.run(|db, options| {
        let value = db.get_borrowed(&read.key.0, options, |value| found(call, read.flags, value))?;
        value.unwrap_or_else(|| missing(call, read.flags))
    })
}

/// Calls `add` with `batch` and returns the new size of the batch. Undoes the call if the batch
/// becomes too large.
fn grow(batch: &mut WriteBatch, add: impl FnOnce(&mut WriteBatch)) -> Result<u64> {
    if !batch.try_add(add) {
        return Err(Failure::new(
            "LEVEL_INVALID_ARGUMENT",
            "the batch is too large: a batch has at most 4 GiB",
        ));
    }
    Ok(batch.as_bytes().len() as u64)
}

/// Appends a put or a delete to `batch`, or nothing if it fails. Returns the size of the batch.
fn append(call: &Call<'_>, batch: &mut WriteBatch, has_value: bool) -> Result<u64> {
    let mut bytes = ArgumentBytes::new();
    let key_length = bytes.append(call, 1)?;
    if has_value {
        bytes.append(call, 2)?;
    }
    let (key, value) = bytes.0.split_at(key_length);
    grow(batch, |batch| _ = if has_value { batch.put(key, value) } else { batch.delete(key) })
}

/// Writes `batch`, or returns false if this would wait.
fn write_in_memory(db: &Db, batch: &WriteBatch) -> Result<bool> {
    match db.try_write(batch, &WriteOptions::DEFAULT) {
        Ok(()) => Ok(true),
        Err(error) if error.is_would_wait() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn try_single<'call>(call: &Call<'call>, has_value: bool) -> Result<Value<'call>> {
    let db = call.handle(0)?;
    let is_written = handles::with(|handles| {
        let (db, batch) = handles.db_and_scratch(db)?;
        batch.clear();
        append(call, batch, has_value)?;
        write_in_memory(db, batch)
    })?;
    call.boolean(is_written)
}

fn try_put<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    try_single(call, true)
}

fn try_del<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    try_single(call, false)
}

fn try_write<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let db = call.handle(0)?;
    let batch = call.handle(1)?;
    let is_written = handles::with(|handles| {
        let (db, batch) = handles.db_and_batch(db, batch)?;
        write_in_memory(db, batch)
    })?;
    call.boolean(is_written)
}

fn batch_new<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    call.number(handles::with(|handles| handles.add_batch()))
}

fn batch_put<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    call.number(handles::try_with(|handles| append(call, handles.batch(batch)?, true))?)
}

fn batch_del<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    call.number(handles::try_with(|handles| append(call, handles.batch(batch)?, false))?)
}

/// Appends the operations of a text: see [`add_text`]. Returns false, and appends nothing, if the
/// text is not only ASCII, because the lengths then count no bytes.
fn batch_text<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    let mut lengths = Vec::new();
    call.append_bytes(call.argument(2), &mut lengths)?;
    let count = usize::try_from(call.integer(3)?).unwrap_or_default();
    let lengths: Vec<[u32; 2]> = lengths.chunks_exact(8).take(count).map(lengths_of_operation).collect();
    let characters = lengths.as_flattened().iter().filter(|length| **length != DELETION);
    let expected: usize = characters.map(|length| *length as usize).sum();
    let mut text = Vec::new();
    call.append_text(call.argument(1), &mut text, expected)?;
    if text.len() != expected || !text.is_ascii() {
        return call.boolean(false);
    }
    handles::try_with(|handles| grow(handles.batch(batch)?, |batch| add_text(batch, &text, &lengths)))?;
    call.boolean(true)
}

/// Lengths of key and value, in the byte order of the machine.
fn lengths_of_operation(bytes: &[u8]) -> [u32; 2] {
    let (key, value) = bytes.split_at(4);
    [key, value].map(|part| part.try_into().map_or(0, u32::from_ne_bytes))
}

/// Appends operations whose keys and values are the parts of `text`, alternating.
fn add_text(batch: &mut WriteBatch, text: &[u8], lengths: &[[u32; 2]]) {
    let mut rest = text;
    for &[key_length, value_length] in lengths {
        let (key, after_key) = rest.split_at(key_length as usize);
        rest = after_key;
        if value_length == DELETION {
            batch.delete(key);
        } else {
            let (value, after_value) = rest.split_at(value_length as usize);
            batch.put(key, value);
            rest = after_value;
        }
    }
}

fn batch_append<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    let other = call.handle(1)?;
    let size = handles::try_with(|handles| {
        let other = handles.take_batch(other)?;
        grow(handles.batch(batch)?, |batch| batch.append(&other))
    })?;
    call.number(size)
}

fn batch_size<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    call.number(handles::try_with(|handles| Ok(handles.batch(batch)?.as_bytes().len() as u64))?)
}

fn batch_clear<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    handles::with(|handles| handles.batch(batch).map(WriteBatch::clear))?;
    call.undefined()
}

fn batch_free<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let batch = call.handle(0)?;
    handles::with(|handles| handles.remove_batch(batch));
    call.undefined()
}

fn snapshot_new<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let db = call.handle(0)?;
    let snapshot = handles::try_with(|handles| {
        let snapshot = handles.db(db)?.snapshot();
        Ok(handles.add_snapshot(ReadOptions::default().snapshot(snapshot)))
    })?;
    call.number(snapshot)
}

fn snapshot_free<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let snapshot = call.handle(0)?;
    handles::with(|handles| handles.remove_snapshot(snapshot));
    call.undefined()
}

fn scan_new<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let db = call.handle(0)?;
    let flags = call.integer(1)?;
    let snapshot = call.handle(2)?;
    let lower = call.optional_bytes(3)?;
    let upper = call.optional_bytes(4)?;
    let parts = ScanParts {
        keys: flags & NO_KEYS == 0,
        values: flags & NO_VALUES == 0,
        reverse: flags & REVERSE != 0,
        aligned: flags & ALIGNED != 0,
    };
    let scan = handles::try_with(|handles| {
        let (db, options) = handles.db_and_options(db, snapshot, flags & NO_FILL_CACHE == 0)?;
        let scan = Scan::new(db, bounded(options, lower, upper), parts);
        Ok(handles.add_scan(scan))
    })?;
    call.number(scan)
}

fn scan_seek<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let scan = call.handle(0)?;
    let mut target = Vec::new();
    call.append_bytes(call.argument(1), &mut target)?;
    handles::with(|handles| handles.scan(scan).map(|open| open.scan.lock().seek(target)))?;
    call.undefined()
}

fn scan_abort<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let scan = call.handle(0)?;
    handles::with(|handles| handles.scan(scan).map(|open| open.aborted.store(true, Ordering::Relaxed)))?;
    call.undefined()
}

fn scan_free<'call>(call: &Call<'call>) -> Result<Value<'call>> {
    let scan = call.handle(0)?;
    handles::with(|handles| handles.remove_scan(scan));
    call.undefined()
}
