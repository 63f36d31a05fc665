//! Files and clock of the operating system, for the class of `Env::Default()`.
//!
//! LevelDB's interface cannot sync a directory. A program that wraps this environment must not lose
//! files by that. So the first sync of a new file makes its name durable too, and a rename is
//! durable at once.

use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace::env::{
    AccessMode, FileError, FileLock, FileSystem, LockMode, RandomAccessFile, SequentialFile, WritableFile,
};
use terrace::{Env, Error, Logger, file_logger};

use super::types::{CxxSlice, CxxString, ErrorReport, StatusCode, run_or, run_with_report};
use crate::ffi::{StatusError, test_directory};

fn system_env() -> &'static Env {
    static SYSTEM: OnceLock<Env> = OnceLock::new();
    terrace_sync::get_or_init_for_fork(&SYSTEM, Env::system)
}

fn to_status_error(error: FileError) -> StatusError {
    if error.is_unsupported() {
        // A database that uses this environment through a wrapper then creates a new file.
        return Error::NotSupported(error.to_string()).into();
    }
    StatusError::from(Error::from(error))
}

/// Runs `call` with the system's files and `path`.
fn with_file_system<T>(
    path: CxxSlice<'_>,
    report: &mut ErrorReport,
    into: &mut T,
    call: impl FnOnce(&dyn FileSystem, &Path) -> Result<T, FileError>,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        *into = call(&*system_env().fs, path).map_err(to_status_error)?;
        Ok(())
    })
}

fn boxed<T>(value: T) -> Option<Box<T>> {
    Some(Box::new(value))
}

/// A file for sequential reads.
type SequentialFileHandle = Box<dyn SequentialFile>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_sequential(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<SequentialFileHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, opened, |fs, path| fs.open_sequential(path).map(boxed))
}

/// Reads `n` bytes from the current position, or fewer at the end of the file.
///
/// # Safety
///
/// The contract; there is buffer for `n` bytes at `into`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sequential_read(
    file: &mut SequentialFileHandle,
    n: usize,
    into: *mut c_char,
    read: &mut usize,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || {
        *read = 0;
        if n == 0 {
            return Ok(());
        }
        // SAFETY: the caller passes memory for `n` bytes. It may be uninitialized, but is only
        // written to.
        let buffer = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n) };
        // LevelDB's readers take a short read for the end of the file.
        while *read < n {
            match file.read(&mut buffer[*read..]).map_err(to_status_error)? {
                0 => break,
                len => *read += len,
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sequential_skip(
    file: &mut SequentialFileHandle,
    n: u64,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || file.skip(n).map_err(to_status_error))
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sequential_drop(file: Box<SequentialFileHandle>) {
    run_or((), || drop(file));
}

/// A file for reads anywhere.
type RandomAccessFileHandle = Arc<dyn RandomAccessFile>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_random(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<RandomAccessFileHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, opened, |fs, path| {
        fs.open_random_access(path, AccessMode::Pread).map(boxed)
    })
}

/// Reads `n` bytes at `offset`, or fewer at the end of the file.
///
/// # Safety
///
/// The contract; there is buffer for `n` bytes at `into`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_random_read(
    file: &RandomAccessFileHandle,
    offset: u64,
    n: usize,
    into: *mut c_char,
    read: &mut usize,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || {
        if n > 0 {
            // SAFETY: the caller passes memory for `n` bytes. It may be uninitialized, but is only
            // written to.
            let buffer = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n) };
            *read = file.read_at(offset, buffer).map_err(to_status_error)?;
        }
        Ok(())
    })
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_random_drop(file: Box<RandomAccessFileHandle>) {
    run_or((), || drop(file));
}

/// A file for writing.
struct WritableFileHandle {
    file: Box<dyn WritableFile>,
    /// Directory to sync with the next sync of the file.
    unsynced_directory: Option<PathBuf>,
}

impl WritableFileHandle {
    fn new(file: Box<dyn WritableFile>, path: &Path) -> Option<Box<WritableFileHandle>> {
        boxed(WritableFileHandle { file, unsynced_directory: Some(parent_directory(path)) })
    }

    fn sync(&mut self) -> Result<(), FileError> {
        self.file.sync()?;
        if let Some(directory) = &self.unsynced_directory {
            sync_directory(&*system_env().fs, directory)?;
        }
        self.unsynced_directory = None;
        Ok(())
    }
}

fn parent_directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Syncs a directory. A process without permission to read the directory cannot sync it. Its owner
/// must then do that, so this is no error.
fn sync_directory(fs: &dyn FileSystem, directory: &Path) -> Result<(), FileError> {
    match fs.sync_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_create(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<WritableFileHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, opened, |fs, path| {
        fs.create(path).map(|file| WritableFileHandle::new(file, path))
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_append(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<WritableFileHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, opened, |fs, path| {
        fs.open_append(path).map(|file| WritableFileHandle::new(file, path))
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_append(
    file: &mut WritableFileHandle,
    data: CxxSlice<'_>,
    report: &mut ErrorReport,
) -> StatusCode {
    let data = data.as_slice();
    run_with_report(report, || file.file.append(data).map_err(to_status_error))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_flush(
    file: &mut WritableFileHandle,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || file.file.flush().map_err(to_status_error))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_sync(
    file: &mut WritableFileHandle,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || file.sync().map_err(to_status_error))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_close(
    file: &mut WritableFileHandle,
    report: &mut ErrorReport,
) -> StatusCode {
    run_with_report(report, || file.file.close().map_err(to_status_error))
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_drop(file: Box<WritableFileHandle>) {
    run_or((), || drop(file));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_exists(path: CxxSlice<'_>) -> bool {
    let path = path.as_path();
    run_or(false, || system_env().fs.exists(path).unwrap_or(false))
}

/// Calls `add` with `names` and each name in the directory.
///
/// # Safety
///
/// The contract; `add` accepts `names`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_file_list(
    path: CxxSlice<'_>,
    names: *mut c_void,
    add: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>),
    report: &mut ErrorReport,
) -> StatusCode {
    let mut found = Vec::new();
    let code = with_file_system(path, report, &mut found, |fs, path| fs.list(path));
    for name in &found {
        // SAFETY: the caller passes an `add` that accepts `names`, and the name lives through the
        // call.
        unsafe { add(names, name.as_bytes().into()) };
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_remove(path: CxxSlice<'_>, report: &mut ErrorReport) -> StatusCode {
    with_file_system(path, report, &mut (), |fs, path| fs.remove(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dir_create(path: CxxSlice<'_>, report: &mut ErrorReport) -> StatusCode {
    with_file_system(path, report, &mut (), |fs, path| fs.create_dir(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dir_remove(path: CxxSlice<'_>, report: &mut ErrorReport) -> StatusCode {
    with_file_system(path, report, &mut (), |fs, path| fs.remove_dir(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_size(
    path: CxxSlice<'_>,
    size: &mut u64,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, size, |fs, path| fs.file_size(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_rename(
    from: CxxSlice<'_>,
    to: CxxSlice<'_>,
    report: &mut ErrorReport,
) -> StatusCode {
    let to = to.as_path();
    with_file_system(from, report, &mut (), |fs, from| {
        fs.rename(from, to)?;
        sync_directory(fs, &parent_directory(to))
    })
}

/// A held file lock.
type FileLockHandle = Box<dyn FileLock>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_lock(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<FileLockHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    with_file_system(path, report, opened, |fs, path| fs.lock(path, LockMode::Exclusive).map(boxed))
}

/// # Safety
///
/// The contract; `lock` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_lock_drop(lock: Box<FileLockHandle>) {
    run_or((), || drop(lock));
}

/// An info log file.
type LoggerHandle = Arc<dyn Logger>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_create(
    path: CxxSlice<'_>,
    opened: &mut Option<Box<LoggerHandle>>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        *opened = boxed(file_logger(system_env(), path)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_line(log: &LoggerHandle, line: CxxSlice<'_>) {
    let line = line.as_slice();
    run_or((), || log.log_bytes(line));
}

/// # Safety
///
/// The contract; `log` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_drop(log: Box<LoggerHandle>) {
    run_or((), || drop(log));
}

/// Stores the name of the directory for tests, and creates the directory if it is missing.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_test_directory(name: CxxString) {
    run_or((), || {
        let directory = test_directory();
        // Ignores errors: the directory may exist already, and the first use of a missing one
        // reports it.
        let _ = system_env().fs.create_dir(&directory);
        let _ = name.assign(directory.as_os_str().as_bytes());
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_now_us() -> u64 {
    system_env().clock.wall_us()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sleep_us(micros: c_int) {
    system_env().clock.sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
}
