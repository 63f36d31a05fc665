//! The machine's files and clock, for the class behind `Env::Default()`.
//!
//! LevelDB's interface has no call to sync a directory. So that a program's wrapper around this environment loses nothing
//! by it, the name of a new file becomes durable with the first sync of its bytes, and a rename at once.

use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace::env::{
    Access, FileError, FileLock, FileSystem, LockMode, RandomAccessFile, SequentialFile, WritableFile,
};
use terrace::{Env, Error, Logger, file_logger};

use super::abi::{Bytes, Code, Report, Text, answer, quietly};
use crate::border::{Failure, test_directory};

fn system() -> &'static Env {
    static SYSTEM: OnceLock<Env> = OnceLock::new();
    SYSTEM.get_or_init(Env::system)
}

fn told(error: FileError) -> Failure {
    Failure::from(Error::from(error))
}

/// Does `call` with the machine's files and `path`.
fn at<T>(
    path: Bytes<'_>,
    report: &mut Report,
    into: &mut T,
    call: impl FnOnce(&dyn FileSystem, &Path) -> Result<T, FileError>,
) -> Code {
    let path = path.path();
    answer(report, || {
        *into = call(&*system().fs, path).map_err(told)?;
        Ok(())
    })
}

fn boxed<T>(value: T) -> Option<Box<T>> {
    Some(Box::new(value))
}

/// A file for sequential reads.
type Sequential = Box<dyn SequentialFile>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_sequential(
    path: Bytes<'_>,
    made: &mut Option<Box<Sequential>>,
    report: &mut Report,
) -> Code {
    at(path, report, made, |fs, path| fs.open_sequential(path).map(boxed))
}

/// # Safety
///
/// The contract; there is room for `n` bytes at `into`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_sequential_read(
    file: &mut Sequential,
    n: usize,
    into: *mut c_char,
    read: &mut usize,
    report: &mut Report,
) -> Code {
    answer(report, || {
        *read = 0;
        if n == 0 {
            return Ok(());
        }
        // SAFETY: the contract. The bytes need no meaning: they are only written to.
        let room = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n) };
        // A short answer is the end of the file for LevelDB's readers.
        while *read < n {
            match file.read(&mut room[*read..]).map_err(told)? {
                0 => break,
                more => *read += more,
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sequential_skip(file: &mut Sequential, n: u64, report: &mut Report) -> Code {
    answer(report, || file.skip(n).map_err(told))
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sequential_drop(file: Box<Sequential>) {
    quietly((), || drop(file));
}

/// A file for reads anywhere.
type Random = Arc<dyn RandomAccessFile>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_random(
    path: Bytes<'_>,
    made: &mut Option<Box<Random>>,
    report: &mut Report,
) -> Code {
    at(path, report, made, |fs, path| fs.open_random(path, Access::Read).map(boxed))
}

/// # Safety
///
/// The contract; there is room for `n` bytes at `into`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_random_read(
    file: &Random,
    offset: u64,
    n: usize,
    into: *mut c_char,
    read: &mut usize,
    report: &mut Report,
) -> Code {
    answer(report, || {
        if n > 0 {
            // SAFETY: the contract. The bytes need no meaning: they are only written to.
            let room = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n) };
            *read = file.read_at(offset, room).map_err(told)?;
        }
        Ok(())
    })
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_random_drop(file: Box<Random>) {
    quietly((), || drop(file));
}

/// A file for writing.
struct Writable {
    file: Box<dyn WritableFile>,
    /// The directory whose names have to be made durable with the next sync.
    unsynced: Option<PathBuf>,
}

impl Writable {
    fn new(file: Box<dyn WritableFile>, path: &Path) -> Option<Box<Writable>> {
        boxed(Writable { file, unsynced: Some(directory_of(path)) })
    }

    fn sync(&mut self) -> Result<(), FileError> {
        self.file.sync()?;
        if let Some(directory) = &self.unsynced {
            sync_names(&*system().fs, directory)?;
        }
        self.unsynced = None;
        Ok(())
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// A directory that may be used but not read can't be synced: then its owner sees to it.
fn sync_names(fs: &dyn FileSystem, directory: &Path) -> Result<(), FileError> {
    match fs.sync_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_create(
    path: Bytes<'_>,
    made: &mut Option<Box<Writable>>,
    report: &mut Report,
) -> Code {
    at(path, report, made, |fs, path| fs.create(path).map(|file| Writable::new(file, path)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_append(
    path: Bytes<'_>,
    made: &mut Option<Box<Writable>>,
    report: &mut Report,
) -> Code {
    at(path, report, made, |fs, path| fs.append(path).map(|file| Writable::new(file, path)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_append(file: &mut Writable, data: Bytes<'_>, report: &mut Report) -> Code {
    let data = data.get();
    answer(report, || file.file.append(data).map_err(told))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_flush(file: &mut Writable, report: &mut Report) -> Code {
    answer(report, || file.file.flush().map_err(told))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_sync(file: &mut Writable, report: &mut Report) -> Code {
    answer(report, || file.sync().map_err(told))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_close(file: &mut Writable, report: &mut Report) -> Code {
    answer(report, || file.file.close().map_err(told))
}

/// # Safety
///
/// The contract; `file` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_writable_drop(file: Box<Writable>) {
    quietly((), || drop(file));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_exists(path: Bytes<'_>) -> bool {
    let path = path.path();
    quietly(false, || system().fs.exists(path).unwrap_or(false))
}

/// Calls `take` with `names` and each name in the directory.
///
/// # Safety
///
/// The contract; `take` knows what to do with `names`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_file_list(
    path: Bytes<'_>,
    names: *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, Bytes<'_>),
    report: &mut Report,
) -> Code {
    let mut found = Vec::new();
    let code = at(path, report, &mut found, |fs, path| fs.list(path));
    for name in &found {
        // SAFETY: the contract.
        unsafe { take(names, name.as_bytes().into()) };
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_remove(path: Bytes<'_>, report: &mut Report) -> Code {
    at(path, report, &mut (), |fs, path| fs.remove(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dir_create(path: Bytes<'_>, report: &mut Report) -> Code {
    at(path, report, &mut (), |fs, path| fs.create_dir(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dir_remove(path: Bytes<'_>, report: &mut Report) -> Code {
    at(path, report, &mut (), |fs, path| fs.remove_dir(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_size(path: Bytes<'_>, size: &mut u64, report: &mut Report) -> Code {
    at(path, report, size, |fs, path| fs.len(path))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_rename(from: Bytes<'_>, to: Bytes<'_>, report: &mut Report) -> Code {
    let to = to.path();
    let rename = |fs: &dyn FileSystem, from: &Path| {
        fs.rename(from, to)?;
        sync_names(fs, &directory_of(to))
    };
    at(from, report, &mut (), rename)
}

/// A lock that is held.
type Lock = Box<dyn FileLock>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_file_lock(
    path: Bytes<'_>,
    made: &mut Option<Box<Lock>>,
    report: &mut Report,
) -> Code {
    at(path, report, made, |fs, path| fs.lock(path, LockMode::Exclusive).map(boxed))
}

/// # Safety
///
/// The contract; `lock` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_lock_drop(lock: Box<Lock>) {
    quietly((), || drop(lock));
}

/// A file for messages to people.
type LogFile = Arc<dyn Logger>;

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_create(
    path: Bytes<'_>,
    made: &mut Option<Box<LogFile>>,
    report: &mut Report,
) -> Code {
    let path = path.path();
    answer(report, || {
        *made = boxed(file_logger(system(), path)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_line(log: &LogFile, line: Bytes<'_>) {
    let line = line.get();
    quietly((), || log.log(format_args!("{}", String::from_utf8_lossy(line))));
}

/// # Safety
///
/// The contract; `log` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_log_drop(log: Box<LogFile>) {
    quietly((), || drop(log));
}

/// The name of a directory for tests, made if need be.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_test_directory(name: Text) {
    quietly((), || {
        let directory = test_directory();
        // It may be there already; if it can't be made, its user will see.
        let _ = system().fs.create_dir(&directory);
        name.fill(directory.as_os_str().as_bytes());
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_now_us() -> u64 {
    system().clock.wall_us()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_sleep_us(micros: c_int) {
    system().clock.sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
}
