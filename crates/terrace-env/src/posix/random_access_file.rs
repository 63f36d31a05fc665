//! Files read anywhere, in the dearest form that the budget allows.
//!
//! ```text
//!   Access::Map  -> Mapped -> Opened -> PerRead
//!   Access::Read ----------> Opened -> PerRead
//! ```
#![allow(unsafe_code)] // a mapping of a file

use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};
use rustix::fs::Advice;

use super::files::read_fully;
use super::limits::{ResourceLimits, ResourcePermit};
use crate::error::{FileError, Result};
use crate::fs::{AccessMode, RandomAccessFile};

/// `file` as the best form there is a permit for.
pub(super) fn open_with_limits(
    budgets: &Arc<ResourceLimits>,
    path: &Path,
    file: File,
    access: AccessMode,
) -> Result<Arc<dyn RandomAccessFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    if access == AccessMode::Mmap
        && let Some(one) = budgets.mmaps.acquire()
    {
        let bytes = budgets.mmap_bytes.acquire_many(usize::try_from(len).unwrap_or(usize::MAX));
        if bytes.is_none() {
            budgets.mmap_pressure.record_rejection();
        }
        if let Some(bytes) = bytes
            && let Some(map) = mmap_file(&file)
        {
            let map = Arc::new(map);
            budgets.mmap_pressure.add(&map);
            return Ok(Arc::new(PosixMmapReadableFile {
                map,
                limits: Arc::clone(budgets),
                _permits: [one, bytes],
            }));
        }
    }
    let path = path.to_path_buf();
    if let Some(permit) = budgets.open_files.acquire() {
        return Ok(Arc::new(PosixRandomAccessFile { path, len, file, _permit: permit }));
    }
    Ok(Arc::new(ReopeningRandomAccessFile { path, len }))
}

/// The file's contents in memory, or nothing where the system refuses.
fn mmap_file(file: &File) -> Option<Mmap> {
    // SAFETY: the bytes of a shared mapping may change if somebody writes to the file. `AccessMode::Mmap` is for files
    // that are complete and that nobody but us touches, and we never write to a file that we have opened for
    // random access. A file cut short by somebody else ends the process by SIGBUS; it does not misread memory.
    unsafe { Mmap::map(file) }.ok()
}

/// A file in memory.
#[derive(Debug)]
struct PosixMmapReadableFile {
    map: Arc<Mmap>,
    limits: Arc<ResourceLimits>,
    _permits: [ResourcePermit; 2],
}

impl RandomAccessFile for PosixMmapReadableFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.map.len());
        let found = &self.map[start..];
        let n = found.len().min(buf.len());
        buf[..n].copy_from_slice(&found[..n]);
        Ok(n)
    }

    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    fn mapped_slice(&self) -> Option<&[u8]> {
        Some(&self.map)
    }

    fn prefetch(&self, offset: u64, len: u64) {
        if self.limits.mmap_pressure.is_over_limit() {
            let end = offset.saturating_add(len).min(self.len());
            let [start, end] = [offset, end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            // Outside of the file there is nothing to be had.
            let _ = self.map.advise_range(memmap2::Advice::WillNeed, start, end.saturating_sub(start));
        }
    }

    fn may_block(&self) -> bool {
        self.limits.mmap_pressure.is_over_limit()
    }

    fn advise_dontneed(&self) {
        // SAFETY: the mapping is shared and nobody stores to it, so what is looked at again comes from the file again, and is the
        // same: slices of it stay what they were.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// A file behind a descriptor.
#[derive(Debug)]
struct PosixRandomAccessFile {
    path: PathBuf,
    len: u64,
    file: File,
    _permit: ResourcePermit,
}

impl RandomAccessFile for PosixRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn may_block(&self) -> bool {
        true
    }
}

/// A file that is opened for each read.
#[derive(Debug)]
struct ReopeningRandomAccessFile {
    path: PathBuf,
    len: u64,
}

impl RandomAccessFile for ReopeningRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = File::open(&self.path).map_err(|e| FileError::new("open", &self.path, e))?;
        read_fully(&file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// What the system says of a mapping, in the row that begins with `name`.
    fn said(mapped: &[u8], name: &str) -> String {
        // Linux has it.
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("a list of mappings");
        let start = format!("{:x}-", mapped.as_ptr().addr());
        let mut rows = maps.lines().skip_while(|row| !row.starts_with(&start));
        // The slice is of a mapping.
        rows.find_map(|row| row.strip_prefix(name)).expect("it is mapped").trim().to_owned()
    }

    #[test]
    fn no_fault_around_beyond_the_mmap_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, vec![7; 600 << 10]).unwrap();
        let budgets = Arc::new(ResourceLimits::new(10, 1 << 20, 10));
        let open =
            || open_with_limits(&budgets, &path, File::open(&path).unwrap(), AccessMode::Mmap).unwrap();
        // "rr": advised to be read anywhere.
        let anywhere = |file: &Arc<dyn RandomAccessFile>| {
            said(file.mapped_slice().unwrap(), "VmFlags:").split(' ').any(|flag| flag == "rr")
        };
        let first = open();
        assert!(!anywhere(&first));
        assert!(open().mapped_slice().is_none(), "600 and 600 KiB are more than 1 MiB");
        assert!(anywhere(&first));
        drop(first);
        let second = open();
        assert!(anywhere(&second), "there may be more again");
        second.prefetch(599 << 10, 1 << 20);
        second.prefetch(700 << 10, u64::MAX);
        assert!(second.mapped_slice().unwrap().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn advise_dontneed_frees_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let bytes: Vec<u8> = (0..1u32 << 20).map(|n| (n >> 8) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = open_with_limits(
            &ResourceLimits::process_wide(),
            &path,
            File::open(&path).unwrap(),
            AccessMode::Mmap,
        )
        .unwrap();
        let mapped = file.mapped_slice().unwrap();
        // What the process holds of the mapping.
        let resident = || said(mapped, "Rss:");
        assert!(mapped == bytes && resident() == "1024 kB");
        file.advise_dontneed();
        assert_eq!(resident(), "0 kB");
        assert!(mapped == bytes);
    }
}
