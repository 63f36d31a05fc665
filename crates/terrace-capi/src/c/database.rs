//! `leveldb_t`: opening, closing, and what is done to a database that nobody has open.

use std::ffi::c_char;
use std::ptr;

use terrace::{Db, RepairOptions};

use super::options::{OptionsHandle, checked_options};
use crate::ffi::{
    ErrPtr, OutParam, destroy, malloc_c_string, open, path_from_c, run_with_errptr, write_out_param,
};

/// An open database. Its iterators and snapshots share it, so one that is destroyed later still has all it needs; but it
/// is closed when its handle is.
pub(super) struct DatabaseHandle(pub(super) Db);

#[unsafe(no_mangle)]
extern "C" fn leveldb_open(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<DatabaseHandle>> {
    // SAFETY: the contract.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || Ok(Box::new(DatabaseHandle(open(name, checked_options(options)?)?))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_open_read_only(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    errptr: ErrPtr<'_>,
) -> Option<Box<DatabaseHandle>> {
    // SAFETY: the contract.
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
    // SAFETY: the contract.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || destroy(name, checked_options(options)?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_repair_db(options: Option<&OptionsHandle>, name: *const c_char, errptr: ErrPtr<'_>) {
    // SAFETY: the contract.
    let name = unsafe { path_from_c(name) };
    run_with_errptr(errptr, || {
        Ok(terrace::repair(name, checked_options(options)?, &RepairOptions::default())?)
    });
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
    let name = unsafe { path_from_c(name) };
    let how = RepairOptions { dry_run: dry_run != 0 };
    let report = run_with_errptr(errptr, || Ok(terrace::repair(name, checked_options(options)?, &how)?));
    report.map_or(ptr::null_mut(), |report| malloc_c_string(report.to_string()))
}

/// What a check of every file found: a text for `leveldb_free`, and how many problems it tells.
#[unsafe(no_mangle)]
extern "C" fn terrace_verify(
    options: Option<&OptionsHandle>,
    name: *const c_char,
    problems: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the contract.
    let name = unsafe { path_from_c(name) };
    let report =
        run_with_errptr(errptr, || Ok(terrace::verify(name, checked_options(options)?, &mut |_, _| {})?));
    write_out_param(problems, report.as_ref().map_or(0, |report| report.problems.len()));
    report.map_or(ptr::null_mut(), |report| malloc_c_string(report.to_string()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "waits until other threads rest")]
mod tests {
    use terrace::{Options, WriteOptions};

    use super::*;

    /// What `work` answers in a child that is forked; 20 seconds are too long for it.
    fn in_child(work: impl FnOnce() -> bool) -> bool {
        // Threads that have just done something hold no lock by then.
        std::thread::sleep(std::time::Duration::from_millis(200));
        // SAFETY: the child takes no lock that another thread may have, but those of databases of the test, and ends by itself.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child, should it wait for anybody.
            unsafe { libc::alarm(20) };
            let well = work();
            // SAFETY: as it says.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        let mut status = 0;
        // SAFETY: our child, and room for its answer.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status == 0
    }

    /// A child that was forked, and ended in good order, closed the database of its parent: it gave the log an end, and cut off what the
    /// parent wrote from then on, which that died of. (A LevelDB that is deleted there does no harm.)
    #[test]
    fn a_forked_child_leaves_the_database_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { create_if_missing: true, ..Options::default() };
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
        (0..1000u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
        db.put_with(b"after", b"2", &WriteOptions { sync: true }).unwrap();
        assert!(db.get(b"child").unwrap().is_none());
        db.close().unwrap();
        let db = Db::open(dir.path().join("db"), &options).unwrap();
        assert_eq!(db.iter().into_forward().count(), 1002);
    }
}
