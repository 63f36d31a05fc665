//! Files and directories: the traits, and the contract of their implementations.
//!
//! The contract is that of LevelDB's `Env`. It also defines durability, the effects of a failed
//! call, and permitted concurrency.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_sync::native_locks::Mutex;

use crate::error::{FileError, Result};

/// Size of a block of a log file, in bytes, as in the log format.
pub(crate) const LOG_FILE_BLOCK_SIZE: u64 = 32 * 1024;

/// Smallest number of zeros at the end of a mapped log, in bytes: those of a fragment header. After
/// a crash they show that no other program has continued the log.
pub(crate) const MIN_LOG_END_ZEROS: u64 = 7;

/// Method of reading a random-access file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// One positioned read per call. Safe if a file shrinks while it is open.
    Pread,
    /// Memory mapping, or [`AccessMode::Pread`] where the system or the limits do not permit one.
    ///
    /// A file that shrinks under a mapping kills the process, so this mode is only for files that
    /// no other program changes.
    Mmap,
    /// [`AccessMode::Pread`] through a descriptor that stays open, whatever the limits on open
    /// files. The file is readable after its removal.
    KeptPread,
    /// [`AccessMode::Mmap`], or [`AccessMode::KeptPread`] where the system permits no mapping. The
    /// limits on mappings do not apply. The file is readable after its removal.
    KeptMmap,
}

impl AccessMode {
    /// Returns true for a mapping.
    pub fn is_mapped(self) -> bool {
        matches!(self, AccessMode::Mmap | AccessMode::KeptMmap)
    }

    /// Returns true if the open file stays readable after its removal.
    pub fn is_kept(self) -> bool {
        matches!(self, AccessMode::KeptPread | AccessMode::KeptMmap)
    }
}

/// Identity of a file or directory. Two names of one file have the same identity. Without a time of
/// creation, another file may get it after the last name and the last handle are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Number of the file system.
    pub device: u64,
    /// Number of the file in its file system.
    pub inode: u64,
    /// Time of the creation in nanoseconds since 1970, if the file system stores it.
    pub created_at: Option<i128>,
}

/// Identity of a directory, and the time of the last change of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryStamp {
    /// Identity of the directory.
    pub identity: FileIdentity,
    /// Time of the last creation, removal or rename, in nanoseconds, as the file system rounds it.
    /// Two changes in a short time may have the same time.
    pub changed_at: i128,
}

/// Mode of a database lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Excludes all other openers. Creates the lock file if it does not exist.
    Exclusive,
    /// Admits other readers and excludes [`LockMode::Exclusive`]. It writes nothing, so the lock
    /// file must exist.
    Shared,
}

/// File system.
///
/// Every method may be called from any thread at any time. A path is absolute, or relative to the
/// current directory of the process. Errors name the operation and the path.
pub trait FileSystem: Debug + Send + Sync {
    /// Opens an existing file for sequential reads from its start.
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;

    /// Opens an existing file for random reads. The file must not change while it is open.
    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>>;

    /// Opens a file that another process changes, or removes, meanwhile.
    ///
    /// The default implementation returns an error of kind [`std::io::ErrorKind::Unsupported`], as
    /// does that of the next two methods. The database then has no followers.
    fn open_live(&self, path: &Path) -> Result<Box<dyn LiveFile>> {
        Err(FileError::new("follow", path, io::ErrorKind::Unsupported.into()))
    }

    /// Returns the identity of the file or directory `path`.
    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        Err(FileError::new("follow", path, io::ErrorKind::Unsupported.into()))
    }

    /// Returns the stamp of the directory `dir`.
    fn directory_stamp(&self, dir: &Path) -> Result<DirectoryStamp> {
        Err(FileError::new("follow", dir, io::ErrorKind::Unsupported.into()))
    }

    /// Creates an empty file for writing, and replaces an existing file.
    ///
    /// The file that had this name is unchanged for its open handles and its other hard links. An
    /// entry of another kind, such as a symbolic link or a directory, is an error. The name is
    /// durable only after [`FileSystem::sync_dir`] on its directory.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Opens a file for appending, and creates it if it does not exist.
    ///
    /// A file system that cannot append returns an error of kind
    /// [`std::io::ErrorKind::Unsupported`]. The database then creates new files instead. So does a
    /// file system with links, if `path` is a symbolic link or a file with several hard links.
    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Creates an empty log file. A mapped log writes its first `capacity` bytes through a mapping,
    /// rounded up to a multiple of 32 KiB.
    ///
    /// The default implementation appends to a file of [`FileSystem::create`].
    fn create_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let _ = (capacity, mapped);
        Ok(Box::new(AppendingLog::new(path, self.create(path)?)))
    }

    /// Opens an existing log file for writing after its end, with a total capacity of `capacity`
    /// bytes, rounded up like [`FileSystem::create_log`]. Changes nothing before the first write.
    ///
    /// A file system that cannot append to old files returns an error of kind
    /// [`std::io::ErrorKind::Unsupported`], like the default implementation. The database then
    /// creates a new log. Links have the same result as for [`FileSystem::open_append`].
    fn reopen_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let _ = (capacity, mapped);
        Err(FileError::new("open", path, io::ErrorKind::Unsupported.into()))
    }

    /// Returns `path` independent of the current directory, or unchanged if that is unknown.
    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }

    /// Returns true if `path` exists as a file, a directory, or anything else.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Returns true if `path` is a directory, and false if it is anything else or does not exist.
    fn is_dir(&self, path: &Path) -> Result<bool>;

    /// Returns true if `path` itself is a symbolic link, which may be dangling. The default
    /// implementation is for file systems without symbolic links.
    fn is_symlink(&self, path: &Path) -> Result<bool> {
        let _ = path;
        Ok(false)
    }

    /// Returns an error if this process may not create files in directory `dir`. Writes nothing.
    /// The default implementation is for file systems without permissions.
    fn check_writable(&self, dir: &Path) -> Result<()> {
        let _ = dir;
        Ok(())
    }

    /// Returns the size of a file, in bytes.
    fn file_size(&self, path: &Path) -> Result<u64>;

    /// Returns the number of bytes that this process can still store in the directory `dir`.
    ///
    /// The default implementation returns an error of kind [`std::io::ErrorKind::Unsupported`].
    fn free_space(&self, dir: &Path) -> Result<u64> {
        Err(FileError::new("statvfs", dir, io::ErrorKind::Unsupported.into()))
    }

    /// Returns the wall time of the last change of a file, in microseconds since 1970.
    ///
    /// The default implementation returns an error of kind [`std::io::ErrorKind::Unsupported`].
    fn modified_us(&self, path: &Path) -> Result<u64> {
        Err(FileError::new("stat", path, io::ErrorKind::Unsupported.into()))
    }

    /// Returns the names in a directory without `.` and `..`, in any order.
    fn list(&self, dir: &Path) -> Result<Vec<OsString>>;

    /// Creates one directory. Fails with [`std::io::ErrorKind::AlreadyExists`] if it exists, and
    /// fails if its parent does not.
    fn create_dir(&self, dir: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Removes a file. The removal is durable only after [`FileSystem::sync_dir`].
    ///
    /// Open handles keep working, with one exception. A random-access file over the limit of open
    /// files is opened by name for each read, and its reads fail after the removal.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file, and atomically replaces a file with the new name. The new name is durable
    /// only after [`FileSystem::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file `from` the additional name `to`, a hard link, which must not exist. The new
    /// name is durable only after [`FileSystem::sync_dir`] on its directory.
    ///
    /// Returns an error of kind [`std::io::ErrorKind::Unsupported`] if the file system cannot link
    /// these files, for example because they are on different file systems. The caller then copies
    /// the file. So does the default implementation.
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let _ = to;
        Err(FileError::new("link", from, io::ErrorKind::Unsupported.into()))
    }

    /// Makes the names in `dir` durable: every creation, removal, link and rename that returned
    /// before this call.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Returns a line for the info log if the system has refused a directory sync, which
    /// [`FileSystem::sync_dir`] then treats as done. The default implementation returns none.
    fn refused_directory_sync(&self) -> Option<&str> {
        None
    }

    /// Locks the database whose lock file is `path`.
    ///
    /// Fails at once with [`std::io::ErrorKind::WouldBlock`] if another opener holds the lock: in
    /// this process, in another process, a C++ LevelDB (record lock) or a Go LevelDB (`flock`).
    ///
    /// The lock file is a regular file. [`LockMode::Exclusive`] refuses a symbolic link.
    ///
    /// The lock lasts until the returned value is dropped. Other opens and closes of the same file
    /// do not release it.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>>;

    /// Returns the memory limit of this process, including the page cache of its files, in bytes,
    /// if the limit is known.
    ///
    /// The result may be the limit at the first call. A database without configured sizes derives
    /// them from it.
    fn memory_limit(&self) -> Option<u64> {
        None
    }

    /// Returns the bytes of mapped files that are in the memory of this process, if the system
    /// tells them.
    fn resident_mapped_bytes(&self) -> Option<u64> {
        None
    }
}

/// File that is read sequentially. One thread uses it at a time.
pub trait SequentialFile: Send {
    /// Reads up to `buf.len()` bytes into `buf` and returns their number. Only 0 means the end of
    /// the file.
    ///
    /// A short read does not mean the end of the file. After an error the position is undefined.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Skips `n` bytes, or all remaining bytes if there are fewer.
    fn skip(&mut self, n: u64) -> Result<()>;

    /// Skips a hole at the current position, in whole multiples of `unit` bytes. Returns the number
    /// of skipped bytes, all of which read as zeros.
    ///
    /// A hole is a part of a file without storage, which can be larger than the disk. The default
    /// implementation skips nothing.
    fn skip_hole(&mut self, unit: u64) -> Result<u64> {
        let _ = unit;
        Ok(0)
    }
}

/// File that many threads read at any offset at once.
pub trait RandomAccessFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset` and returns their number. A short read means the
    /// end of the file.
    ///
    /// The implementation continues interrupted and short system calls.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Returns the size of the file when it was opened, in bytes.
    fn len(&self) -> u64;

    /// Returns true if the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the contents of the file if it is mapped.
    fn mapped_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Announces a read of `len` bytes at `offset`, so that the system can start it.
    ///
    /// This is a hint, and the default implementation does nothing. The system detects sequential
    /// reads without a hint.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Returns true if a read may wait for the disk and [`RandomAccessFile::prefetch`] can start it
    /// earlier.
    ///
    /// A caller that knows several later reads should then prefetch them.
    fn may_block(&self) -> bool {
        false
    }

    /// Returns true if a read of `len` bytes at `offset` finds them in memory now. False if this is
    /// not known.
    fn is_in_memory(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        false
    }

    /// Announces that the bytes read so far are unlikely to be read again. The process may drop
    /// them from memory, and later reads load them again.
    ///
    /// This is a hint, and the default implementation does nothing.
    fn advise_dontneed(&self) {}
}

/// File that another process changes while it is open. Any thread may use it.
///
/// Each read is a call of the system, because an access to a mapping would end the process when the
/// other process truncates the file.
pub trait LiveFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset` and returns their number. A short read means the
    /// current end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Returns the current size of the file, in bytes.
    fn len(&self) -> Result<u64>;

    /// Returns true if the file is empty now.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the identity of the open file. No other file has it while this one is open.
    fn identity(&self) -> FileIdentity;
}

/// File that is written sequentially. One thread uses it at a time.
///
/// Dropping the file closes it without a sync and ignores errors: call [`WritableFile::close`].
pub trait WritableFile: Send {
    /// Appends `data`. It may stay in a buffer of this object until [`WritableFile::flush`].
    ///
    /// After an error, an unknown prefix of `data` may have been written.
    fn append(&mut self, data: &[u8]) -> Result<()>;

    /// Passes all appended data to the system, so that it survives a crash of the process.
    ///
    /// After an error, an unknown prefix of the data was passed. The rest is lost: no later call
    /// writes it.
    fn flush(&mut self) -> Result<()>;

    /// Flushes, and makes all appended data durable. It then survives a power cut if the file's
    /// name does.
    ///
    /// After an error, the state of the data stays unknown. A successful second call proves
    /// nothing.
    fn sync(&mut self) -> Result<()>;

    /// Flushes and closes the file. No other call may follow.
    fn close(&mut self) -> Result<()>;

    /// Gives the file descriptor back to the system until the next call that needs it, if the file
    /// system supports this. A caller that writes rarely has many such files at once.
    ///
    /// Appended data that is not durable yet may then be lost without an error of a later
    /// [`WritableFile::sync`].
    fn release_descriptor(&mut self) {}

    /// Opens a file whose descriptor was released, before a write that must not fail halfway. A
    /// process that has changed its user may have lost the permission.
    fn acquire_descriptor(&mut self) -> Result<()> {
        Ok(())
    }

    /// Asks for huge pages of the page cache, before the first write. The buffer then has 2 MiB.
    fn use_huge_pages(&mut self) {}
}

/// Choice between mapped and appended logs. A mapped log takes its records by stores into memory,
/// without a system call for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MappedLogs {
    /// Maps logs only where the file system is known to write in place: ext4, tmpfs, and XFS
    /// without reflinks. There, a store into allocated space cannot fail.
    #[default]
    Auto,
    /// Maps logs on every file system. On a file system that copies on write, a full disk ends the
    /// process by SIGBUS.
    Always,
    /// Appends every record by a system call, as LevelDB does. Each log equals LevelDB's byte for
    /// byte, at every moment.
    Never,
}

/// Log file, written from its start to its end in blocks of 32 KiB.
///
/// One thread at a time writes.
pub trait LogFile: Debug + Send + Sync {
    /// Returns the number of bytes that a mapping can hold, or 0 if every write appends by a system
    /// call.
    fn capacity(&self) -> u64;

    /// Returns true if a power cut may lose any page of the log that is not synced, not only its
    /// end. A mapped log may, and a log of an unknown file system.
    fn may_lose_pages(&self) -> bool {
        true
    }

    /// Returns true if [`FileSystem::reopen_log`] continues this log after a close.
    fn is_reusable(&self) -> bool {
        false
    }

    /// Describes how the log is written and why, for the info log.
    fn write_method(&self) -> String {
        "appended: the file system of the environment".into()
    }

    /// Announces that the log will be filled soon, with few syncs.
    ///
    /// This is a hint that changes no guarantee. The default implementation does nothing.
    fn expect_fast_fill(&self) {}

    /// Writes `head` at `offset` and `body` directly after it. Both survive a crash of the process
    /// when this method returns.
    ///
    /// `head` has at least four bytes. Bytes between the last write and `offset`, at most six,
    /// become zeros. In a mapped log, `head` and `body` do not cross the end of a block.
    ///
    /// A mapped log ends with at least seven zeros, which end with a block.
    ///
    /// A crash of the process leaves all of `head` and `body`; or zeros to the end of the block
    /// and of the file; or a file that ends within them. A power cut does not keep this order.
    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()>;

    /// Returns true if [`LogFile::write_large_record`] writes a record faster than one write for
    /// each of its fragments.
    fn takes_large_records(&self) -> bool {
        false
    }

    /// Writes all fragments of one record: `parts`, one after the other, from `offset`. The first
    /// part of a fragment is its header. Only a log that [takes large
    /// records](LogFile::takes_large_records) has this method.
    ///
    /// An error leaves no part of the record, if the log [is intact](LogFile::is_intact). A crash
    /// of the process leaves the record; or zeros from the start of one of its fragments to the
    /// end of the file; or a file that ends within the record, at the end of a page. A power cut
    /// does not keep this order, and may leave a file that ends with any sector.
    fn write_large_record(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let _ = (offset, parts);
        Err(FileError::new("write", Path::new("log"), io::ErrorKind::Unsupported.into()))
    }

    /// Returns true if no failed write has left bytes in the file. The same write may then be
    /// repeated, for example after a full disk has space again.
    fn is_intact(&self) -> bool;

    /// Makes every write that returned before this call durable.
    ///
    /// After an error, the state of the data stays unknown. A successful second call proves
    /// nothing.
    fn sync(&self) -> Result<()>;

    /// Truncates the file to `len` bytes and releases its allocated space. No write may follow.
    fn truncate_and_close(&self, len: u64) -> Result<()>;
}

/// Held lock. Dropping it releases the lock.
pub trait FileLock: Debug + Send + Sync {
    /// Returns a line for each mechanism of the lock that the system refused: the mechanism in its
    /// place, and the reason. The database writes the lines to its info log.
    fn fallbacks(&self) -> &[String] {
        &[]
    }

    /// Returns the process that took the lock, for its forked children. None if a child cannot take
    /// the lock over.
    fn owner(&self) -> Option<Arc<dyn LockOwner>> {
        None
    }
}

/// Process that took a [`FileLock`], as its forked children see it.
pub trait LockOwner: Debug + Send + Sync {
    /// Records that the calling thread of the owner forks now.
    fn record_fork(&self);

    /// Returns true if the process has exited. False if that is unknown.
    fn has_exited(&self) -> bool;

    /// Waits for the exit of a process that seems to exit right after its fork. Returns at once for
    /// a process that continues, except shortly after the fork. Returns true if it has exited.
    fn wait_for_exit(&self) -> bool;

    /// Releases the copy of the lock that the calling child inherited. The owner has exited.
    fn release_inherited_lock(&self);

    /// Returns true if `path` names the file that the owner locked.
    fn is_lock_file(&self, path: &Path) -> bool;
}

/// [`LogFile`] on any [`WritableFile`], for custom file systems.
///
/// Writes must come in the order of their offsets and must not overlap. Gaps are filled with zeros.
pub struct AppendingLog {
    path: PathBuf,
    state: Mutex<AppendingLogState>,
}

struct AppendingLogState {
    file: Box<dyn WritableFile>,
    end: u64,
    /// True after a failed append: the end of the file is then unknown, so nothing may follow.
    failed: bool,
}

impl AppendingLog {
    /// Creates a log on an empty `file`. Errors show `path`.
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
        let fail = |reason: String| Err(FileError::new("write", &self.path, io::Error::other(reason)));
        if state.failed {
            return fail("an earlier write failed".to_owned());
        }
        let Some(gap) = offset.checked_sub(state.end) else {
            return fail(format!("write at {offset}, expected {} or above", state.end));
        };
        // One append, so that a file without a buffer makes one system call.
        let mut bytes = Vec::new();
        let len = usize::try_from(gap).unwrap_or(usize::MAX).saturating_add(head.len() + body.len());
        bytes
            .try_reserve_exact(len)
            .map_err(|_| FileError::new("write", &self.path, io::ErrorKind::OutOfMemory.into()))?;
        bytes.resize(gap as usize, 0);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(body);
        let written = state.file.append(&bytes).and_then(|()| state.file.flush());
        state.end += bytes.len() as u64;
        state.failed = written.is_err();
        written
    }

    fn is_intact(&self) -> bool {
        !self.state.lock().failed
    }

    fn sync(&self) -> Result<()> {
        self.state.lock().file.sync()
    }

    fn truncate_and_close(&self, _len: u64) -> Result<()> {
        self.state.lock().file.close()
    }
}
