//! Log file, appended by one system call for each record.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_sync::native_locks::Mutex;

use super::files::write_fully;
use crate::error::{FileError, Result};
use crate::fs::{LogFile, MappedLogs};
use crate::sticky_sync::StickySync;

/// Largest number of bytes that are copied to one buffer, to write them with one call.
const MAX_COPIED_BYTES: usize = 64 << 10;

/// Largest number of zeros between two records, in bytes.
const MAX_GAP: usize = 6;

/// Appended log.
#[derive(Debug)]
pub(super) struct WindowsLogFile {
    path: PathBuf,
    file: File,
    mapped: MappedLogs,
    end: Mutex<AppendState>,
    syncs: StickySync,
    is_closed: AtomicBool,
    /// True if a failed write may have left bytes.
    is_torn: AtomicBool,
}

/// End of the log.
#[derive(Debug)]
struct AppendState {
    /// Length of the file in bytes.
    len: u64,
    /// Memory for the bytes of one call.
    buffer: Vec<u8>,
}

impl WindowsLogFile {
    /// Creates the log on `file`, which has `len` bytes.
    pub(super) fn new(path: &Path, file: File, len: u64, mapped: MappedLogs) -> WindowsLogFile {
        WindowsLogFile {
            path: path.to_path_buf(),
            file,
            mapped,
            end: Mutex::new(AppendState { len, buffer: Vec::new() }),
            syncs: StickySync::default(),
            is_closed: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
        }
    }

    fn append(&self, offset: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut end = self.end.lock();
        let AppendState { len, buffer } = &mut *end;
        let zeros = [0; MAX_GAP];
        let gap = offset.checked_sub(*len).and_then(|gap| zeros.get(..usize::try_from(gap).ok()?));
        let Some(gap) = gap else {
            let reason = format!("write at {offset} of a file of {len} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let written = self.write_parts(*len, buffer, [gap, head, body]);
        if written.is_err() {
            // Without this, the bytes of a part of the record would stay.
            let is_restored = self.file.set_len(*len).is_ok();
            self.is_torn.fetch_or(!is_restored, Ordering::Relaxed);
        }
        *len = written?;
        Ok(())
    }

    /// Writes the parts at `offset` and returns their end. A large body is not copied.
    fn write_parts(&self, offset: u64, buffer: &mut Vec<u8>, parts: [&[u8]; 3]) -> io::Result<u64> {
        let [gap, head, body] = parts;
        let total = parts.iter().map(|part| part.len() as u64).sum();
        let end = offset.checked_add(total).ok_or(io::ErrorKind::FileTooLarge)?;
        let copied = if body.len() <= MAX_COPIED_BYTES { body } else { &[] };
        buffer.clear();
        buffer.try_reserve(gap.len() + head.len() + copied.len())?;
        [gap, head, copied].iter().for_each(|part| buffer.extend_from_slice(part));
        write_fully(&self.file, offset, buffer)?;
        if copied.len() < body.len() {
            write_fully(&self.file, offset + buffer.len() as u64, body)?;
        }
        Ok(end)
    }
}

impl LogFile for WindowsLogFile {
    fn capacity(&self) -> u64 {
        0
    }

    fn may_lose_pages(&self) -> bool {
        false
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn write_method(&self) -> String {
        let reason = match self.mapped {
            MappedLogs::Never => "the option mapped_logs is Never",
            MappedLogs::Auto | MappedLogs::Always => "Windows cannot truncate a mapped file",
        };
        format!("appended: {reason}")
    }

    fn write_at(&self, offset: u64, head: &[u8], body: &[u8]) -> Result<()> {
        let fail = |e| FileError::new("write", &self.path, e);
        if self.is_closed.load(Ordering::Relaxed) || self.is_torn.load(Ordering::Relaxed) {
            return Err(fail(io::Error::other("the log file takes no more writes")));
        }
        self.append(offset, head, body).map_err(fail)
    }

    fn is_intact(&self) -> bool {
        !self.is_torn.load(Ordering::Relaxed)
    }

    fn sync(&self) -> Result<()> {
        let path = &self.path;
        self.syncs.sync_with(|| self.file.sync_data().map_err(|e| FileError::new("fdatasync", path, e)))
    }

    fn truncate_and_close(&self, len: u64) -> Result<()> {
        self.is_closed.store(true, Ordering::Relaxed);
        if self.end.lock().len == len {
            return Ok(());
        }
        self.file.set_len(len).map_err(|e| FileError::new("truncate", &self.path, e))
    }
}
