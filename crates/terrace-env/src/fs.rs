//! Files and directories: the traits and what an implementation must promise.
//!
//! The promises are LevelDB's `Env` contract plus what it left unsaid: which call makes what durable, what a
//! failed call leaves behind, and who may call at the same time.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{FileError, Result};

/// How the bytes of a random-access file are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// One positioned read per call. Safe against files that shrink while they are open.
    Pread,
    /// Through a memory mapping where the system and the budget allow, else as [`AccessMode::Pread`].
    /// A file that shrinks under a mapping kills the process, so this is for files only we touch.
    Mmap,
}

/// How much of the database a lock claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// The only opener. Creates the lock file if there is none.
    Exclusive,
    /// One of several readers; excludes [`LockMode::Exclusive`]. Writes nothing, so it needs the file to exist.
    Shared,
}

/// A file system.
///
/// Every method may be called from any thread at any time. Paths are taken as given: absolute, or relative to the
/// process's directory. Errors name the call and the path.
pub trait FileSystem: Debug + Send + Sync {
    /// Opens an existing file for reading from its start.
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;

    /// Opens an existing file for reading anywhere. The file must not change while it is open.
    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>>;

    /// Creates an empty file for writing; an existing file of that name is emptied.
    ///
    /// The name is durable only after [`FileSystem::sync_dir`] on its directory.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Opens a file for writing at its end, creating it if there is none. Where that can't be done, an error of kind
    /// [`std::io::ErrorKind::Unsupported`]: a database then begins new files instead.
    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Creates a log file with room for `capacity` bytes, which read as zeros until they are stored.
    ///
    /// `capacity` is rounded up to a multiple of 32 KiB. An error, no space in particular, is reported here and
    /// not by a later store into that room. An implementation that can't preallocate may start with a file of
    /// length 0 and append; that is what the default does.
    fn create_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let _ = capacity;
        Ok(Box::new(AppendingLog::new(path, self.create(path)?)))
    }

    /// Opens an existing log file to go on with it, with room for `capacity` bytes in all, rounded up as by
    /// [`FileSystem::create_log`]; what it holds stays, and may be stored over. After an error it is as it was. The room
    /// may be taken as late as by the first store behind what it holds, which then fails if there is none.
    ///
    /// Where stores can't go over what is there, an error of kind [`std::io::ErrorKind::Unsupported`], which is what
    /// the default gives: a database then begins a new log.
    fn reopen_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let _ = capacity;
        Err(FileError::new("open", path, io::ErrorKind::Unsupported.into()))
    }

    /// True if `path` exists, whatever it is.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// True if `path` is a directory; false if it is anything else or does not exist.
    fn is_dir(&self, path: &Path) -> Result<bool>;

    /// The length of a file in bytes.
    fn file_size(&self, path: &Path) -> Result<u64>;

    /// The names in a directory, without `.` and `..`, in no order.
    fn list(&self, dir: &Path) -> Result<Vec<OsString>>;

    /// Creates one directory. An error if it exists ([`std::io::ErrorKind::AlreadyExists`]) or its parent does not.
    fn create_dir(&self, dir: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Removes a file. Durable only after [`FileSystem::sync_dir`].
    ///
    /// Open handles keep working, but for one kind: files for random access that the process has no descriptors left
    /// for are opened by name for each read, and their reads fail from here on.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file, atomically replacing one that has the new name. Durable only after
    /// [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Makes the names in `dir` durable: every creation, removal and rename that returned before this call.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the lock of the database whose lock file is `path`, or fails at once with
    /// [`std::io::ErrorKind::WouldBlock`] if another opener holds it: in this process, in another, by a C++
    /// LevelDB (record lock) or by a Go LevelDB (`flock`).
    ///
    /// Held until the returned value is dropped. Other opens and closes of the same file do not release it.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>>;

    /// The memory that this process and the system's cache of its files may take together, in bytes, as far as anybody says; may
    /// be what that was when it was first asked for. A database that is told no sizes chooses them by it.
    fn memory_limit(&self) -> Option<u64> {
        None
    }
}

/// A file read from front to back. One user at a time.
pub trait SequentialFile: Send {
    /// Reads up to `buf.len()` bytes into `buf` and says how many; 0 only at the end of the file.
    ///
    /// Fewer bytes than asked for do not mean the end: only 0 does. After an error the position is undefined.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Skips `n` bytes, or to the end of the file if there are fewer.
    fn skip(&mut self, n: u64) -> Result<()>;
}

/// A file read anywhere, by many threads at once.
pub trait RandomAccessFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes from `offset` and says how many; fewer only at the end of the file.
    ///
    /// Interrupted and short system calls are continued inside: a short count *is* the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The length when it was opened, in bytes.
    fn len(&self) -> u64;

    /// True if the file held nothing when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole file, if it is mapped.
    fn mapped_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Says that `len` bytes from `offset` on will be read soon, so that the system may begin to. A hint: by default it does
    /// nothing. (That a file is read from front to back the system sees by itself.)
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// True if a read may wait for the device, and [`RandomAccessFile::prefetch`] has that begin: then whoever knows more than one
    /// place that he will read had better say so first.
    fn may_block(&self) -> bool {
        false
    }

    /// Says that the file will hardly be read again where it was read so far: what the process holds of it in memory may go, and
    /// comes back when it is read all the same. A hint: by default it does nothing.
    fn advise_dontneed(&self) {}
}

/// A file written from front to back. One user at a time.
///
/// Dropping it closes it without a sync and without a word about errors: call [`WritableFile::close`].
pub trait WritableFile: Send {
    /// Adds `data` at the end. May stay in a buffer of this object until [`WritableFile::flush`].
    ///
    /// After an error an unknown prefix of `data` may have been written.
    fn append(&mut self, data: &[u8]) -> Result<()>;

    /// Hands everything appended so far to the system: it survives the death of the process.
    ///
    /// After an error an unknown prefix was handed over, and the rest never will be: a later call writes nothing of it.
    fn flush(&mut self) -> Result<()>;

    /// Flushes, then makes everything appended so far durable: it survives a power cut, if the file's name does.
    ///
    /// After an error the state of the data is unknown for good; a second call proves nothing.
    fn sync(&mut self) -> Result<()>;

    /// Flushes and closes. Nothing may be called afterwards.
    fn close(&mut self) -> Result<()>;
}

/// A log file: preallocated room that is filled by positioned stores.
///
/// Many threads may store at once, each into a range of its own.
pub trait LogFile: Debug + Send + Sync {
    /// The bytes that can be stored without growing the file; 0 if the file grows with every store.
    fn capacity(&self) -> u64;

    /// Says that the room from `from` on, where nothing is stored yet, will likely be filled soon, and seldom be synced on the
    /// way. Nobody stores at the same time. A hint: what is promised stays the same. By default, and if it was said before,
    /// it does nothing.
    fn expect_fast_fill(&self, from: u64) {
        let _ = from;
    }

    /// Makes what can be made ahead for stores up to `end`, and says up to where that is done now; [`u64::MAX`] if there is
    /// nothing more to be made. A store that was not prepared does it itself, and meets the same errors: this is for who
    /// wants it done by another thread, or wants to know how long it takes. By default there is nothing.
    fn preallocate(&self, end: u64) -> Result<u64> {
        let _ = end;
        Ok(u64::MAX)
    }

    /// Stores `head` at `offset` and `body` right behind it, so that they survive the death of the process when
    /// this returns.
    ///
    /// A reader of the file, or of what a killed process left, that sees the last four bytes of `head` sees the
    /// rest too: they are stored last. (A power cut gives no such order.) `head` has at least four bytes.
    /// Stores beyond the capacity grow the file. After an error the range may hold anything.
    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()>;

    /// Makes every store that returned before this call durable. After an error the state of the data is
    /// unknown for good; a second call proves nothing.
    fn sync(&self) -> Result<()>;

    /// Cuts the file to `len` bytes and gives up its room. Nothing may be stored afterwards.
    fn truncate_and_close(&self, len: u64) -> Result<()>;
}

/// A lock that is held. Dropping it releases it.
pub trait FileLock: Debug + Send + Sync {}

/// A [`LoggerHandle`] on any [`WritableFile`]: for file systems that can't preallocate, and for a caller's own.
///
/// Stores must come in the order of their offsets, without overlap; a gap is filled with zeros.
pub struct AppendingLog {
    path: PathBuf,
    state: Mutex<AppendingLogState>,
}

struct AppendingLogState {
    file: Box<dyn WritableFile>,
    end: u64,
    /// Set by a failed append: where the file ends is unknown then, and nothing may follow.
    failed: bool,
}

impl AppendingLog {
    /// A log on an empty `file`; `path` is for error messages.
    pub fn new(path: &Path, file: Box<dyn WritableFile>) -> AppendingLog {
        AppendingLog {
            path: path.to_path_buf(),
            state: Mutex::new(AppendingLogState { file, end: 0, failed: false }),
        }
    }
}

impl Debug for AppendingLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendingLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LogFile for AppendingLog {
    fn capacity(&self) -> u64 {
        0
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let fail = |reason: String| Err(FileError::new("store", &self.path, io::Error::other(reason)));
        if state.failed {
            return fail("an earlier store failed".to_owned());
        }
        let Some(gap) = offset.checked_sub(state.end) else {
            return fail(format!("store at {offset}, before the end {}", state.end));
        };
        // One append, so that a file without a buffer of its own makes one system call.
        let mut bytes = vec![0; gap as usize];
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(body);
        let stored = state.file.append(&bytes).and_then(|()| state.file.flush());
        state.end += bytes.len() as u64;
        state.failed = stored.is_err();
        stored
    }

    fn sync(&self) -> Result<()> {
        self.state.lock().file.sync()
    }

    fn truncate_and_close(&self, _len: u64) -> Result<()> {
        self.state.lock().file.close()
    }
}
