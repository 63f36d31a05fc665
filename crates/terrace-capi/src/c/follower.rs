//! `leveldb_t` that follows a writer, which may be another process.

use std::ffi::c_char;
use std::time::Duration;

use terrace::{Db, FollowOptions};

use super::database::DatabaseHandle;
use super::options::{OptionsHandle, checked_options};
use crate::ffi::{ErrPtr, path_from_c, require_non_null, run_with_errptr};

#[unsafe(no_mangle)]
extern "C" fn terrace_open_follower(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    max_age_us: u64,
    errptr: ErrPtr<'_>,
) -> Option<Box<DatabaseHandle>> {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    let follow = FollowOptions::default().every(Duration::from_micros(max_age_us));
    run_with_errptr(errptr, || {
        Ok(Box::new(DatabaseHandle(Db::follow(name, checked_options(options)?, &follow)?)))
    })
}

/// Returns the sequence number of the state, or 0 after an error.
#[unsafe(no_mangle)]
extern "C" fn terrace_catch_up(database: Option<&DatabaseHandle>, errptr: ErrPtr<'_>) -> u64 {
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.catch_up()?)).unwrap_or(0)
}
