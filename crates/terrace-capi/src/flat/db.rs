//! A database, opened and used; destroyed and repaired.

use std::ffi::c_int;

use terrace::{Db, RepairOptions, Snapshot, WriteBatch, WriteOptions, repair};
use terrace_format::Flaw;

use super::abi::{Bytes, Code, Report, Text, answer, quietly};
use super::cursor::Cursor;
use super::options::{FlatOptions, FlatRead};
use crate::border::{Failure, destroy, items, open, room};

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_open(
    options: &FlatOptions,
    path: Bytes<'_>,
    made: &mut Option<Box<Db>>,
    report: &mut Report,
) -> Code {
    let path = path.path();
    answer(report, || {
        *made = Some(Box::new(open(path, &options.read_for(path))?));
        Ok(())
    })
}

/// Closes the database, whatever iterators are left.
///
/// # Safety
///
/// The contract; `db` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_close(db: Box<Db>) {
    quietly((), move || {
        // Nobody is left to be told.
        let _ = db.shut();
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_put(
    db: &Db,
    key: Bytes<'_>,
    value: Bytes<'_>,
    sync: bool,
    report: &mut Report,
) -> Code {
    let (key, value) = (key.get(), value.get());
    answer(report, || Ok(db.put_with(key, value, &WriteOptions { sync })?))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_delete(db: &Db, key: Bytes<'_>, sync: bool, report: &mut Report) -> Code {
    let key = key.get();
    answer(report, || Ok(db.delete_with(key, &WriteOptions { sync })?))
}

/// Applies a batch in the form that C++ keeps it in, which is the one of the log.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_write(db: &Db, batch: Bytes<'_>, sync: bool, report: &mut Report) -> Code {
    let batch = batch.get();
    answer(report, || {
        let batch = WriteBatch::from_bytes(batch.to_vec()).map_err(damaged)?;
        Ok(db.write_with(&batch, &WriteOptions { sync })?)
    })
}

fn damaged(flaw: Flaw) -> Failure {
    Failure { kind: terrace::ErrorKind::Corruption, what: format!("a write batch: {flaw}") }
}

/// Turns what is in memory into a table.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_flush(db: &Db, report: &mut Report) -> Code {
    answer(report, || Ok(db.flush()?))
}

/// False, with code 0, if the key has no value.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_get(
    db: &Db,
    key: Bytes<'_>,
    read: FlatRead,
    value: Text,
    found: &mut bool,
    report: &mut Report,
) -> Code {
    let key = key.get();
    answer(report, || {
        let answer = db.get_pinned_with(key, &read.read())?;
        *found = answer.is_some();
        if let Some(bytes) = answer {
            value.fill(&bytes);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_iterate(db: &Db, read: FlatRead) -> Option<Box<Cursor>> {
    quietly(None, || Some(Box::new(Cursor::from(db.iter_with(&read.read())))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_snapshot(db: &Db) -> Box<Snapshot> {
    Box::new(db.snapshot())
}

/// # Safety
///
/// The contract; `snapshot` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_snapshot_release(snapshot: Box<Snapshot>) {
    quietly((), || drop(snapshot));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_property(db: &Db, name: Bytes<'_>, value: Text) -> bool {
    let name = name.get();
    quietly(false, || {
        let property = std::str::from_utf8(name).ok().and_then(|name| db.property(name));
        property.is_some_and(|text| {
            value.fill(text.as_bytes());
            true
        })
    })
}

/// The layout of a C++ `Range`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Span<'a> {
    start: Bytes<'a>,
    limit: Bytes<'a>,
}

/// Sizes that can't be told are 0.
///
/// # Safety
///
/// The contract; there are `n` spans and room for `n` sizes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sizes(db: &Db, spans: *const Span<'_>, n: c_int, sizes: *mut u64) {
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the contract.
    let spans = unsafe { items(spans, n) };
    // SAFETY: the contract.
    let sizes = unsafe { room(sizes, n) };
    for (span, size) in spans.iter().zip(sizes) {
        let range = (span.start.get(), span.limit.get());
        size.write(quietly(0, || db.approximate_sizes(&[range]).map_or(0, |sizes| sizes[0])));
    }
}

/// Says nothing of a failure: nor does LevelDB's method. What was stored is still stored.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_compact(db: &Db, begin: Option<&Bytes<'_>>, end: Option<&Bytes<'_>>) {
    let (begin, end) = (begin.map(|key| key.get()), end.map(|key| key.get()));
    quietly((), || {
        let _ = db.compact_range(begin, end);
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_destroy(options: &FlatOptions, path: Bytes<'_>, report: &mut Report) -> Code {
    let path = path.path();
    answer(report, || destroy(path, &options.read()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_repair(options: &FlatOptions, path: Bytes<'_>, report: &mut Report) -> Code {
    let path = path.path();
    answer(report, || Ok(repair(path, &options.read_for(path), &RepairOptions::default()).map(|_| ())?))
}
