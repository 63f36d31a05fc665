//! Open files in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::content::Change;
use super::names::Inode;
use super::world::World;
use crate::error::{FileError, Result};
use crate::fs::{FileLock, LogFile, RandomAccessFile, SequentialFile, WritableFile};

/// Bytes that a writer keeps to itself, and that a kill loses: as for the machine's own files.
const BUFFER: usize = 64 * 1024;

/// An open file. It stays readable when its name is gone.
#[derive(Debug)]
pub(super) struct Handle {
    world: Arc<Mutex<World>>,
    inode: Inode,
    path: PathBuf,
}

impl Handle {
    /// A handle of `inode`; `guard` holds the lock of `world`.
    pub(super) fn new(world: &Arc<Mutex<World>>, guard: &mut World, inode: Inode, path: &Path) -> Handle {
        guard.open(inode);
        Handle { world: Arc::clone(world), inode, path: path.to_path_buf() }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    fn fail(&self, op: &'static str) -> impl Fn(io::Error) -> FileError {
        move |e| FileError::new(op, &self.path, e)
    }

    /// Makes the bytes of the file durable: one mutating call.
    fn sync(&self) -> io::Result<()> {
        self.world().sync(self.inode)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.world().close(self.inode);
    }
}

/// A file read from its start.
pub(super) struct Sequential {
    handle: Handle,
    offset: usize,
}

impl Sequential {
    pub(super) fn new(handle: Handle) -> Sequential {
        Sequential { handle, offset: 0 }
    }
}

impl SequentialFile for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut world = self.handle.world();
        let content = world.content(self.handle.inode).map_err(self.handle.fail("read"))?;
        let n = read_at(&content.live, self.offset, buf);
        drop(world);
        self.offset += n;
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let mut world = self.handle.world();
        let end = world.content(self.handle.inode).map_err(self.handle.fail("skip"))?.live.len();
        drop(world);
        let wanted = self.offset.saturating_add(usize::try_from(n).unwrap_or(usize::MAX));
        self.offset = wanted.min(end.max(self.offset));
        Ok(())
    }
}

fn read_at(bytes: &[u8], offset: usize, buf: &mut [u8]) -> usize {
    let found = &bytes[offset.min(bytes.len())..];
    let n = found.len().min(buf.len());
    buf[..n].copy_from_slice(&found[..n]);
    n
}

/// The bytes of a file when it was opened: the trait forbids that they change.
#[derive(Debug)]
pub(super) struct Random {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) mapped: bool,
}

impl RandomAccessFile for Random {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(read_at(&self.bytes, usize::try_from(offset).unwrap_or(usize::MAX), buf))
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.mapped.then_some(&self.bytes)
    }
}

/// A file written at its end, through a buffer.
pub(super) struct Writable {
    handle: Handle,
    buffer: Vec<u8>,
    closed: bool,
}

impl Writable {
    pub(super) fn new(handle: Handle) -> Writable {
        Writable { handle, buffer: Vec::new(), closed: false }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            Err(self.handle.fail("write")(io::Error::other("the file was closed")))
        } else {
            Ok(())
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<()> {
        let mut world = self.handle.world();
        let offset = world.content(self.handle.inode)?.live.len();
        world.change(self.handle.inode, Change::Write { offset, data: data.into() })
    }
}

impl WritableFile for Writable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        if self.buffer.len() + data.len() > BUFFER {
            self.flush()?;
        }
        if data.len() >= BUFFER {
            return self.write(data).map_err(self.handle.fail("write"));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.write(&self.buffer).map_err(self.handle.fail("write"));
        self.buffer.clear();
        written
    }

    fn sync(&mut self) -> Result<()> {
        self.check_open()?;
        self.flush()?;
        self.handle.sync().map_err(self.handle.fail("fdatasync"))
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.flush()
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        let _ = self.flush(); // without a word about errors, as the trait says
    }
}

/// A log filled by stores.
///
/// A store is several mutating calls in the order of the trait, so that a crash between two of them is one of the
/// crash points: a process can be killed there.
#[derive(Debug)]
pub(super) struct Log {
    handle: Handle,
    capacity: u64,
    finished: AtomicBool, // changed and asked under the lock of the world
}

impl Log {
    pub(super) fn new(handle: Handle, capacity: u64) -> Log {
        Log { handle, capacity, finished: AtomicBool::new(false) }
    }

    fn put(&self, world: &mut World, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(data.len() as u64).and_then(|end| usize::try_from(end).ok());
        let Some(end) = end else {
            return Err(self.handle.fail("store")(io::ErrorKind::FileTooLarge.into()));
        };
        let change = Change::Write { offset: end - data.len(), data: data.into() };
        world.change(self.handle.inode, change).map_err(self.handle.fail("store"))
    }
}

impl LogFile for Log {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn store(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let Some((front, last)) = head.split_last_chunk::<4>() else {
            let reason = format!("a head of {} bytes, where 4 are the least", head.len());
            return Err(self.handle.fail("store")(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        };
        let mut world = self.handle.world();
        if self.finished.load(Ordering::Relaxed) {
            return Err(self.handle.fail("store")(io::Error::other("the log was finished")));
        }
        self.put(&mut world, offset.saturating_add(head.len() as u64), body)?;
        self.put(&mut world, offset, front)?;
        self.put(&mut world, offset.saturating_add(front.len() as u64), last)
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync().map_err(self.handle.fail("fdatasync"))
    }

    fn finish(&self, len: u64) -> Result<()> {
        let fail = self.handle.fail("truncate");
        let len = usize::try_from(len).map_err(|_| fail(io::ErrorKind::FileTooLarge.into()))?;
        let mut world = self.handle.world();
        self.finished.store(true, Ordering::Relaxed);
        world.change(self.handle.inode, Change::SetLen(len)).map_err(fail)
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lock(pub(super) Handle);

impl FileLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.world().locks.release(&self.0.inode);
    }
}
