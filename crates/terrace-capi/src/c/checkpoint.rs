//! Checkpoints and backups of an open database.

use std::ffi::c_char;
use std::ptr;

use terrace::{Backups, Error};

use super::database::DatabaseHandle;
use super::options::{OptionsHandle, checked_options};
use crate::ffi::{
    ErrPtr, OutParam, malloc_c_string, path_from_c, require_non_null, run_with_errptr, write_out_param,
};

#[unsafe(no_mangle)]
extern "C" fn terrace_checkpoint(
    database: Option<&DatabaseHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> u64 {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.checkpoint(name)?)).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_backup_create(
    options: Option<&OptionsHandle>,
    database: Option<&DatabaseHandle>,
    backups: *const c_char,
    errptr: ErrPtr<'_>,
) -> u64 {
    // SAFETY: the caller passes null, or a NUL-terminated string `backups` that lives through the
    // call.
    let backups = unsafe { path_from_c(backups) };
    let created = run_with_errptr(errptr, || {
        let options = checked_options(options)?.clone().create_if_missing(true);
        let database = require_non_null(database)?;
        Ok(Backups::open(backups, &options)?.create(&database.0)?)
    });
    created.map_or(0, |info| info.id)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_backup_restore(
    options: Option<&OptionsHandle>,
    backups: *const c_char,
    id: u64,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the caller passes null, or a NUL-terminated string `backups` that lives through the
    // call.
    let path = unsafe { path_from_c(backups) };
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || {
        let backups = Backups::open(path, &checked_options(options)?.clone().create_if_missing(false))?;
        Ok(backups.restore(existing_or_newest(&backups, id)?, name)?)
    });
}

/// Returns the report as a text for `leveldb_free`, and the number of problems in `problems`.
#[unsafe(no_mangle)]
extern "C" fn terrace_backup_verify(
    options: Option<&OptionsHandle>,
    backups: *const c_char,
    id: u64,
    problems: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a NUL-terminated string `backups` that lives through the
    // call.
    let path = unsafe { path_from_c(backups) };
    let report = run_with_errptr(errptr, || {
        let backups = Backups::open(path, &checked_options(options)?.clone().create_if_missing(false))?;
        Ok(backups.verify(existing_or_newest(&backups, id)?)?)
    });
    write_out_param(problems, report.as_ref().map_or(0, |report| report.problems.len()));
    report.map_or(ptr::null_mut(), |report| malloc_c_string(report.to_string()))
}

/// Returns `id`, or that of the newest backup if `id` is 0.
fn existing_or_newest(backups: &Backups, id: u64) -> Result<u64, Error> {
    match id {
        0 => Ok(backups.list()?.last().map_or(0, |newest| newest.id)),
        id => Ok(id),
    }
}
