//! A database, opened and used; destroyed and repaired.

use std::ffi::c_int;

use terrace::{Db, RepairOptions, Snapshot, WriteBatch, WriteOptions, repair};
use terrace_format::DecodeError;

use super::iterator::CxxIterator;
use super::options::{CxxOptions, CxxReadOptions};
use super::types::{CxxSlice, CxxString, ErrorReport, StatusCode, run_or, run_with_report};
use crate::ffi::{StatusError, array_from_c, destroy, open, output_array_from_c};

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_open(
    options: &CxxOptions,
    path: CxxSlice<'_>,
    made: &mut Option<Box<Db>>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        *made = Some(Box::new(open(path, &options.to_options_for(path))?));
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
    run_or((), move || {
        // Nobody is left to be told.
        let _ = db.shutdown();
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_put(
    db: &Db,
    key: CxxSlice<'_>,
    value: CxxSlice<'_>,
    sync: bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let (key, value) = (key.as_slice(), value.as_slice());
    run_with_report(report, || Ok(db.put_with(key, value, &WriteOptions { sync })?))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_delete(
    db: &Db,
    key: CxxSlice<'_>,
    sync: bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let key = key.as_slice();
    run_with_report(report, || Ok(db.delete_with(key, &WriteOptions { sync })?))
}

/// Applies a batch in the form that C++ keeps it in, which is the one of the log.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_write(
    db: &Db,
    batch: CxxSlice<'_>,
    sync: bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let batch = batch.as_slice();
    run_with_report(report, || {
        let batch = WriteBatch::from_bytes(batch.to_vec()).map_err(batch_corruption)?;
        Ok(db.write_with(&batch, &WriteOptions { sync })?)
    })
}

fn batch_corruption(flaw: DecodeError) -> StatusError {
    StatusError { kind: terrace::ErrorKind::Corruption, message: format!("a write batch: {flaw}") }
}

/// Turns what is in memory into a table.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_flush(db: &Db, report: &mut ErrorReport) -> StatusCode {
    run_with_report(report, || Ok(db.flush()?))
}

/// False, with code 0, if the key has no value.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_get(
    db: &Db,
    key: CxxSlice<'_>,
    read: CxxReadOptions,
    value: CxxString,
    found: &mut bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let key = key.as_slice();
    run_with_report(report, || {
        let answer = db.get_pinned_with(key, &read.to_read_options())?;
        *found = answer.is_some();
        if let Some(bytes) = answer {
            value.assign(&bytes);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_iterate(db: &Db, read: CxxReadOptions) -> Option<Box<CxxIterator>> {
    run_or(None, || Some(Box::new(CxxIterator::from(db.iter_with(&read.to_read_options())))))
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
    run_or((), || drop(snapshot));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_property(db: &Db, name: CxxSlice<'_>, value: CxxString) -> bool {
    let name = name.as_slice();
    run_or(false, || {
        let property = std::str::from_utf8(name).ok().and_then(|name| db.property(name));
        property.is_some_and(|text| {
            value.assign(text.as_bytes());
            true
        })
    })
}

/// The layout of a C++ `IteratorBounds`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CxxRange<'a> {
    start: CxxSlice<'a>,
    limit: CxxSlice<'a>,
}

/// Sizes that can't be told are 0.
///
/// # Safety
///
/// The contract; there are `n` spans and room for `n` sizes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sizes(db: &Db, spans: *const CxxRange<'_>, n: c_int, sizes: *mut u64) {
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the caller passes null, or an array `sizes` with room for `n` items.
    let spans = unsafe { array_from_c(spans, n) };
    // SAFETY: the caller passes null, or an array `sizes` with room for `n` items.
    let sizes = unsafe { output_array_from_c(sizes, n) };
    for (span, size) in spans.iter().zip(sizes) {
        let range = (span.start.as_slice(), span.limit.as_slice());
        size.write(run_or(0, || db.approximate_sizes(&[range]).map_or(0, |sizes| sizes[0])));
    }
}

/// Says nothing of a failure: nor does LevelDB's method. What was stored is still stored.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_compact(db: &Db, begin: Option<&CxxSlice<'_>>, end: Option<&CxxSlice<'_>>) {
    let (begin, end) = (begin.map(|key| key.as_slice()), end.map(|key| key.as_slice()));
    run_or((), || {
        let _ = db.compact_range(begin, end);
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_destroy(
    options: &CxxOptions,
    path: CxxSlice<'_>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || destroy(path, &options.to_options()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_repair(
    options: &CxxOptions,
    path: CxxSlice<'_>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        Ok(repair(path, &options.to_options_for(path), &RepairOptions::default()).map(|_| ())?)
    })
}
