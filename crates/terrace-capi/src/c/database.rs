//! `leveldb_t`: open and close; repair, verification and removal of closed databases.

use std::ffi::c_char;
use std::ptr;

use terrace::{Db, RepairOptions};

use super::options::{OptionsHandle, checked_options};
use crate::ffi::{
    ErrPtr, OutParam, destroy, malloc_c_string, open, path_from_c, run_with_errptr, write_out_param,
};

/// An open database. Its iterators and snapshots share it, so they may be destroyed later than
/// their database. The database closes when its handle is destroyed.
pub(super) struct DatabaseHandle(pub(super) Db);

#[unsafe(no_mangle)]
extern "C" fn leveldb_open(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<DatabaseHandle>> {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || Ok(Box::new(DatabaseHandle(open(name, checked_options(options)?)?))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_open_read_only(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<DatabaseHandle>> {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || {
        Ok(Box::new(DatabaseHandle(Db::open_read_only(name, checked_options(options)?)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_close(database: Option<Box<DatabaseHandle>>) {
    terrace_close(database, None);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_close(database: Option<Box<DatabaseHandle>>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || Ok(database.map_or(Ok(()), |database| database.0.shutdown())?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_destroy_db(options: Option<&OptionsHandle>, name: *const c_char, errptr: ErrPtr<'_>) {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || destroy(name, checked_options(options)?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_repair_db(options: Option<&OptionsHandle>, name: *const c_char, errptr: ErrPtr<'_>) {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || {
        Ok(terrace::repair(name, checked_options(options)?, &RepairOptions::default())?)
    });
}

/// Repairs a database. Returns the report as a text for `leveldb_free`.
#[unsafe(no_mangle)]
extern "C" fn terrace_repair(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    dry_run: u8,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    let repair_options = RepairOptions::default().dry_run(dry_run != 0);
    let report =
        run_with_errptr(errptr, || Ok(terrace::repair(name, checked_options(options)?, &repair_options)?));
    report.map_or(ptr::null_mut(), |report| malloc_c_string(report.to_string()))
}

/// Checks every file of a database. Returns the report as a text for `leveldb_free`, and the number
/// of problems in `problems`.
#[unsafe(no_mangle)]
extern "C" fn terrace_verify(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    problems: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    let report = run_with_errptr(errptr, || Ok(terrace::verify(name, checked_options(options)?)?));
    write_out_param(problems, report.as_ref().map_or(0, |report| report.problems.len()));
    report.map_or(ptr::null_mut(), |report| malloc_c_string(report.to_string()))
}

#[cfg(test)]
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "waits until other threads rest")]
mod tests {
    use terrace::{Options, WriteOptions};

    use super::*;

    /// Returns the result of `work` in a forked child, which is killed after 20 seconds.
    fn in_child(work: impl FnOnce() -> bool) -> bool {
        // Background threads of a new database hold no lock after this time.
        std::thread::sleep(std::time::Duration::from_millis(200));
        // SAFETY: the child takes only locks of this test's databases, which no other thread holds
        // now, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: `alarm` has no preconditions; it ends a child that waits for a lock.
            unsafe { libc::alarm(20) };
            let succeeded = work();
            // SAFETY: `_exit` ends the child without running destructors of the parent's state.
            unsafe { libc::_exit(i32::from(!succeeded)) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process, and `status` a valid output pointer.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status == 0
    }

    /// Regression test. A forked child that ended normally closed the database of its parent: it
    /// wrote the close marker and truncated the log under the parent, whose later writes were lost.
    /// A forked child must not change the database.
    #[test]
    fn forked_child_does_not_change_the_database() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().create_if_missing(true);
        let db = Db::open(dir.path().join("db"), &options).unwrap();
        db.put(b"before", b"1").unwrap();
        let copy = Some(db.clone());
        assert!(in_child(|| {
            let mut db = copy;
            db.as_ref().is_some_and(|db| {
                let reads = db.get(b"before").is_ok_and(|value| value.is_some());
                reads && db.put(b"child", b"").is_err() && db.flush().is_err()
            }) && db.take().is_some_and(|db| db.shutdown().is_ok())
        }));
        for n in 0..1000u32 {
            db.put(n.to_be_bytes(), [7; 1000]).unwrap();
        }
        db.put_with(b"after", b"2", &WriteOptions::default().sync(true)).unwrap();
        assert!(db.get(b"child").unwrap().is_none());
        db.close().unwrap();
        let db = Db::open(dir.path().join("db"), &options).unwrap();
        assert_eq!(db.iter().count(), 1002);
    }
}
