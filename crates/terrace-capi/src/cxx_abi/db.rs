//! Open, reads, writes, destroy and repair of a database.

use std::ffi::c_int;

use terrace::{Db, RepairOptions, Snapshot, WriteBatch, WriteOptions, repair};
use terrace_format::DecodeError;

use super::iterator::CxxIterator;
use super::options::{CxxOptions, CxxReadOptions};
use super::types::{CxxSlice, CxxString, ErrorReport, StatusCode, run_or, run_with_report};
use crate::ffi::{StatusError, array_from_c, destroy, open, output_array_from_c, try_copy};

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_open(
    options: &CxxOptions,
    path: CxxSlice<'_>,
    opened: &mut Option<Box<Db>>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        *opened = Some(Box::new(open(path, &options.to_options_for(path))?));
        Ok(())
    })
}

/// Closes the database, even if iterators still exist.
///
/// # Safety
///
/// The contract; `db` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_close(db: Box<Db>) {
    run_or((), move || {
        // A C++ destructor cannot report an error.
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
    let key = key.as_slice();
    let value = value.as_slice();
    run_with_report(report, || Ok(db.put_with(key, value, &WriteOptions::default().sync(sync))?))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_delete(
    db: &Db,
    key: CxxSlice<'_>,
    sync: bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let key = key.as_slice();
    run_with_report(report, || Ok(db.delete_with(key, &WriteOptions::default().sync(sync))?))
}

/// Applies a batch in its stored form, which C++ keeps and the WAL uses.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_write(
    db: &Db,
    batch: CxxSlice<'_>,
    sync: bool,
    report: &mut ErrorReport,
) -> StatusCode {
    let batch = batch.as_slice();
    run_with_report(report, || {
        let batch = WriteBatch::from_bytes(try_copy(batch)?).map_err(batch_corruption)?;
        Ok(db.write_with(&batch, &WriteOptions::default().sync(sync))?)
    })
}

fn batch_corruption(error: DecodeError) -> StatusError {
    StatusError { kind: terrace::ErrorKind::Corruption, message: format!("write batch: {error}") }
}

/// Flushes the memtable.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_flush(db: &Db, report: &mut ErrorReport) -> StatusCode {
    run_with_report(report, || Ok(db.flush()?))
}

/// Sets `found` to false, with code 0, if the key has no value.
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
        let pinned = db.get_pinned_with(key, &read.to_read_options())?;
        *found = pinned.is_some();
        if let Some(bytes) = pinned
            && !value.assign(&bytes)
        {
            return Err(StatusError::out_of_memory(bytes.len()));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_iterate(db: &Db, read: CxxReadOptions) -> Option<Box<CxxIterator>> {
    run_or(None, || Some(Box::new(CxxIterator::from(db.raw_iter_with(&read.to_read_options())))))
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
        property.is_some_and(|text| value.assign(text.as_bytes()))
    })
}

/// A key range with the layout of a C++ `Range`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CxxRange<'a> {
    start: CxxSlice<'a>,
    limit: CxxSlice<'a>,
}

/// Stores the approximate sizes of key ranges; 0 after an error.
///
/// # Safety
///
/// The contract; there are `n` ranges and memory for `n` sizes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sizes(db: &Db, ranges: *const CxxRange<'_>, n: c_int, sizes: *mut u64) {
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the caller passes `n` ranges, which live through the call.
    let ranges = unsafe { array_from_c(ranges, n) };
    // SAFETY: the caller passes memory for `n` sizes.
    let sizes = unsafe { output_array_from_c(sizes, n) };
    for (range, size) in ranges.iter().zip(sizes) {
        let bounds = (range.start.as_slice(), range.limit.as_slice());
        size.write(run_or(0, || db.approximate_sizes(&[bounds]).map_or(0, |sizes| sizes[0])));
    }
}

/// Ignores errors, as LevelDB's method does. A failed compaction loses no data.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_compact(db: &Db, begin: Option<&CxxSlice<'_>>, end: Option<&CxxSlice<'_>>) {
    let begin = begin.map(|key| key.as_slice());
    let end = end.map(|key| key.as_slice());
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
