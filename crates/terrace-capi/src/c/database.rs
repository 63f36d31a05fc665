//! `leveldb_t`: opening, closing, and what is done to a database that nobody has open.

use std::ffi::c_char;
use std::ptr;

use terrace::{Db, RepairOptions};

use super::options::{OptionsHandle, usable};
use crate::border::{ErrPtr, Out, answered, destroy, malloced_string, open, path, put_out};

/// An open database. Its iterators and snapshots share it, so one that is destroyed later still has all it needs; but it
/// is closed when its handle is.
pub(super) struct Database(pub(super) Db);

#[unsafe(no_mangle)]
extern "C" fn leveldb_open(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<Database>> {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    answered(errptr, || Ok(Box::new(Database(open(name, usable(options)?)?))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_open_read_only(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<Database>> {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    answered(errptr, || Ok(Box::new(Database(Db::open_read_only(name, usable(options)?)?))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_close(database: Option<Box<Database>>) {
    terrace_close(database, None);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_close(database: Option<Box<Database>>, errptr: ErrPtr<'_>) {
    answered(errptr, || Ok(database.map_or(Ok(()), |database| database.0.shut())?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_destroy_db(options: Option<&OptionsHandle>, name: *const c_char, errptr: ErrPtr<'_>) {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    answered(errptr, || destroy(name, usable(options)?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_repair_db(options: Option<&OptionsHandle>, name: *const c_char, errptr: ErrPtr<'_>) {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    answered(errptr, || Ok(terrace::repair(name, usable(options)?, &RepairOptions::default())?));
}

/// What a repair did or, dry, would do: a text for `leveldb_free`.
#[unsafe(no_mangle)]
extern "C" fn terrace_repair(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    dry_run: u8,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    let how = RepairOptions { dry_run: dry_run != 0 };
    let report = answered(errptr, || Ok(terrace::repair(name, usable(options)?, &how)?));
    report.map_or(ptr::null_mut(), |report| malloced_string(report.to_string()))
}

/// What a check of every file found: a text for `leveldb_free`, and how many problems it tells.
#[unsafe(no_mangle)]
extern "C" fn terrace_verify(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    problems: Out<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    let report = answered(errptr, || Ok(terrace::verify(name, usable(options)?, &mut |_, _| {})?));
    put_out(problems, report.as_ref().map_or(0, |report| report.problems.len()));
    report.map_or(ptr::null_mut(), |report| malloced_string(report.to_string()))
}
