//! A database, opened and used; destroyed and repaired.

use std::ffi::c_int;
use std::sync::Arc;

use terrace::{Db, RepairOptions, Snapshot, WriteBatch, WriteOptions, destroy, repair};
use terrace_format::Flaw;

use super::abi::{Bytes, Code, Report, Text, answer, quietly};
use super::cursor::Cursor;
use super::foreign::{Jobs, World};
use super::options::{FlatOptions, FlatRead};
use crate::border::Failure;

/// An open database with the background work that its environment does for it.
pub(super) struct Database {
    db: Db,
    jobs: Option<Arc<Jobs>>,
}

/// # Safety
///
/// The contract; as for every function here.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_open(
    options: &FlatOptions,
    path: Bytes,
    made: &mut *mut Database,
    report: &mut Report,
) -> Code {
    answer(report, || {
        // SAFETY: the contract.
        let path = unsafe { path.path() };
        let (options, world) = options.read_for(path);
        let opened = Db::open(path, &options);
        drop(options);
        let jobs = world.as_ref().map(|world| Arc::clone(world.jobs()));
        match opened {
            Ok(db) => *made = Box::into_raw(Box::new(Database { db, jobs })),
            Err(error) => {
                end(world);
                return Err(error.into());
            }
        }
        Ok(())
    })
}

/// Waits for background work, after which nothing of ours uses the world.
fn end(world: Option<World>) {
    if let Some(world) = world {
        world.jobs().wait();
    }
}

/// # Safety
///
/// The contract; `db` is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_close(db: *mut Database) {
    quietly((), || {
        // SAFETY: the contract.
        let Database { db, jobs } = *unsafe { Box::from_raw(db) };
        // Says in the info log what went wrong.
        drop(db);
        if let Some(jobs) = jobs {
            jobs.wait();
        }
    });
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_put(
    db: &Database,
    key: Bytes,
    value: Bytes,
    sync: bool,
    report: &mut Report,
) -> Code {
    // SAFETY: the contract.
    let (key, value) = unsafe { (key.get(), value.get()) };
    answer(report, || Ok(db.db.put_with(key, value, &WriteOptions { sync })?))
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_delete(db: &Database, key: Bytes, sync: bool, report: &mut Report) -> Code {
    // SAFETY: the contract.
    let key = unsafe { key.get() };
    answer(report, || Ok(db.db.delete_with(key, &WriteOptions { sync })?))
}

/// Applies a batch in the form that C++ keeps it in, which is the one of the log.
///
/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_write(db: &Database, batch: Bytes, sync: bool, report: &mut Report) -> Code {
    // SAFETY: the contract.
    let batch = unsafe { batch.get() };
    answer(report, || {
        let batch = WriteBatch::from_bytes(batch.to_vec()).map_err(damaged)?;
        Ok(db.db.write_with(&batch, &WriteOptions { sync })?)
    })
}

fn damaged(flaw: Flaw) -> Failure {
    Failure { kind: terrace::ErrorKind::Corruption, what: format!("a write batch: {flaw}") }
}

/// Turns what is in memory into a table.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_flush(db: &Database, report: &mut Report) -> Code {
    answer(report, || Ok(db.db.flush()?))
}

/// False, with code 0, if the key has no value.
///
/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_get(
    db: &Database,
    key: Bytes,
    read: FlatRead,
    value: Text,
    found: &mut bool,
    report: &mut Report,
) -> Code {
    // SAFETY: the contract.
    let key = unsafe { key.get() };
    answer(report, || {
        let answer = db.db.get_with(key, &read.read())?;
        *found = answer.is_some();
        if let Some(bytes) = answer {
            value.fill(&bytes);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_iterate(db: &Database, read: FlatRead) -> *mut Cursor {
    quietly(std::ptr::null_mut(), || Box::into_raw(Box::new(Cursor::from(db.db.iter_with(&read.read())))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_snapshot(db: &Database) -> *mut Snapshot {
    Box::into_raw(Box::new(db.db.snapshot()))
}

/// # Safety
///
/// The contract; `snapshot` is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_snapshot_release(snapshot: *mut Snapshot) {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(snapshot) });
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_property(db: &Database, name: Bytes, value: Text) -> bool {
    // SAFETY: the contract.
    let name = unsafe { name.get() };
    quietly(false, || {
        let property = std::str::from_utf8(name).ok().and_then(|name| db.db.property(name));
        property.is_some_and(|text| {
            value.fill(text.as_bytes());
            true
        })
    })
}

/// The layout of a C++ `Range`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Span {
    start: Bytes,
    limit: Bytes,
}

/// Sizes that can't be told are 0.
///
/// # Safety
///
/// The contract; there are `n` spans and room for `n` sizes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sizes(db: &Database, spans: *const Span, n: c_int, sizes: *mut u64) {
    for i in 0..usize::try_from(n).unwrap_or(0) {
        // SAFETY: `i` is below `n`.
        let span = unsafe { *spans.add(i) };
        // SAFETY: the contract.
        let range = unsafe { (span.start.get(), span.limit.get()) };
        let size = quietly(0, || db.db.approximate_sizes(&[range]).map_or(0, |sizes| sizes[0]));
        // SAFETY: `i` is below `n`.
        unsafe { *sizes.add(i) = size };
    }
}

/// Says nothing of a failure: nor does LevelDB's method. What was stored is still stored.
///
/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_compact(db: &Database, begin: Option<&Bytes>, end: Option<&Bytes>) {
    // SAFETY: the contract.
    let (begin, end) = unsafe { (begin.map(|key| key.get()), end.map(|key| key.get())) };
    quietly((), || {
        let _ = db.db.compact_range(begin, end);
    });
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_destroy(options: &FlatOptions, path: Bytes, report: &mut Report) -> Code {
    // SAFETY: the contract.
    let path = unsafe { path.path() };
    answer(report, || Ok(destroy(path, &options.read().0)?))
}

/// # Safety
///
/// The contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_repair(options: &FlatOptions, path: Bytes, report: &mut Report) -> Code {
    // SAFETY: the contract.
    let path = unsafe { path.path() };
    answer(report, || {
        let (options, world) = options.read_for(path);
        let repaired = repair(path, &options, &RepairOptions::default());
        drop(options);
        end(world);
        Ok(repaired.map(|_| ())?)
    })
}
