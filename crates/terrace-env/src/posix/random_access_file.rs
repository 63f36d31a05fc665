//! Random-access files, with the fastest access method within the limits.
//!
//! ```text
//!   Mmap  -> PosixMmapReadableFile -> PosixRandomAccessFile -> ReopeningRandomAccessFile
//!   Pread --------------------------> PosixRandomAccessFile -> ReopeningRandomAccessFile
//!
//!   KeptMmap  -> PosixMmapReadableFile -> PosixRandomAccessFile       outside of the limits
//!   KeptPread --------------------------> PosixRandomAccessFile
//! ```
#![allow(unsafe_code)] // Maps files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};

use super::files::read_fully;
use super::limits::{ResourceLimits, ResourcePermit};
use super::open::open_for_reading;
use super::platform;
use crate::error::{FileError, Result};
use crate::fs::{AccessMode, RandomAccessFile};

/// Opens `file` with the fastest access method that has a permit.
pub(super) fn open_with_limits(
    limits: &Arc<ResourceLimits>,
    path: &Path,
    file: File,
    access: AccessMode,
) -> Result<Arc<dyn RandomAccessFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    if access.is_kept() {
        return Ok(open_kept(limits, path, file, len, access));
    }
    if access == AccessMode::Mmap
        && let Some(mmap) = limits.mmaps.acquire()
    {
        let bytes = limits.mmap_bytes.acquire_many(usize::try_from(len).unwrap_or(usize::MAX));
        if bytes.is_none() {
            limits.mmap_pressure.record_rejection();
        }
        if let Some(bytes) = bytes
            && let Some(map) = mmap_file(&file)
        {
            let map = Arc::new(map);
            limits.mmap_pressure.add(&map);
            return Ok(Arc::new(PosixMmapReadableFile {
                map,
                limits: Arc::clone(limits),
                _permits: Some([mmap, bytes]),
            }));
        }
    }
    let path = path.to_path_buf();
    if let Some(permit) = limits.open_files.acquire() {
        return Ok(Arc::new(PosixRandomAccessFile { path, len, file, _permit: Some(permit) }));
    }
    Ok(Arc::new(ReopeningRandomAccessFile { path, len }))
}

/// Maps `file` or keeps it open, outside of the limits.
fn open_kept(
    limits: &Arc<ResourceLimits>,
    path: &Path,
    file: File,
    len: u64,
    access: AccessMode,
) -> Arc<dyn RandomAccessFile> {
    if access.is_mapped()
        && let Some(map) = mmap_file(&file)
    {
        let map = Arc::new(map);
        limits.mmap_pressure.add(&map);
        return Arc::new(PosixMmapReadableFile { map, limits: Arc::clone(limits), _permits: None });
    }
    Arc::new(PosixRandomAccessFile { path: path.to_path_buf(), len, file, _permit: None })
}

/// Maps a file, or returns `None` if the system refuses.
fn mmap_file(file: &File) -> Option<Mmap> {
    // SAFETY: the bytes of a shared mapping may change if the file is written. `AccessMode::Mmap`
    // is only for complete files that no other program changes, and Terrace never writes to a file
    // that is open for random access. If another program truncates the file, the process receives
    // SIGBUS and does not misread memory.
    unsafe { Mmap::map(file) }.ok()
}

/// Mapped file.
#[derive(Debug)]
struct PosixMmapReadableFile {
    map: Arc<Mmap>,
    limits: Arc<ResourceLimits>,
    /// None for a file that is kept outside of the limits.
    _permits: Option<[ResourcePermit; 2]>,
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
            let [start, end] = [offset, end].map(|pos| usize::try_from(pos).unwrap_or(usize::MAX));
            // A range outside the file is an error, which has no effect.
            let _ = self.map.advise_range(memmap2::Advice::WillNeed, start, end.saturating_sub(start));
        }
    }

    fn may_block(&self) -> bool {
        self.limits.mmap_pressure.is_over_limit()
    }

    fn is_in_memory(&self, offset: u64, len: u64) -> bool {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        self.map.get(start..end).is_some_and(are_pages_resident)
    }

    fn advise_dontneed(&self) {
        // SAFETY: the mapping is shared and read-only, and its file does not change. A later access
        // loads the same bytes from the file, so existing slices keep their contents.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// Maximum number of pages that a look at the page table covers.
const MAX_RESIDENT_PAGES: usize = 256;

/// Returns true if the page cache holds all pages of `bytes`, a part of a mapped file. False for
/// more than [`MAX_RESIDENT_PAGES`].
fn are_pages_resident(bytes: &[u8]) -> bool {
    let page = rustix::param::page_size();
    let begin = bytes.as_ptr().addr() & !(page - 1);
    let len = bytes.as_ptr().addr() + bytes.len() - begin;
    let count = len.div_ceil(page);
    let mut pages = [0u8; MAX_RESIDENT_PAGES];
    if count > pages.len() {
        return false;
    }
    // A mapping begins at a page, so the pages of `bytes` are all mapped.
    let start = bytes.as_ptr().map_addr(|_| begin).cast_mut().cast();
    // SAFETY: the call reads no memory of the range, and fails for a range that is not mapped. It
    // writes a byte for each page, and `pages` has `count` bytes or more.
    let status = unsafe { libc::mincore(start, len, pages.as_mut_ptr().cast()) };
    status == 0 && pages[..count].iter().all(|page| page & 1 == 1)
}

/// Open file.
#[derive(Debug)]
struct PosixRandomAccessFile {
    path: PathBuf,
    len: u64,
    file: File,
    /// None for a file that is kept outside of the limits.
    _permit: Option<ResourcePermit>,
}

impl RandomAccessFile for PosixRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn prefetch(&self, offset: u64, len: u64) {
        platform::prefetch(&self.file, offset, len);
    }

    fn may_block(&self) -> bool {
        true
    }
}

/// File that is opened for each read.
#[derive(Debug)]
struct ReopeningRandomAccessFile {
    path: PathBuf,
    len: u64,
}

impl RandomAccessFile for ReopeningRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = open_for_reading(&self.path).map_err(|e| FileError::new("open", &self.path, e))?;
        read_fully(&file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns the value of the attribute `name` of the mapping `mapped`, as the system reports it.
    fn smaps_attribute(mapped: &[u8], name: &str) -> String {
        // Linux provides this file.
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the list of mappings");
        let start = format!("{:x}-", mapped.as_ptr().addr());
        let mut rows = maps.lines().skip_while(|row| !row.starts_with(&start));
        // The slice is within a mapping.
        rows.find_map(|row| row.strip_prefix(name)).expect("the slice is mapped").trim().to_owned()
    }

    #[test]
    fn no_fault_around_beyond_the_mmap_limit() {
        if std::env::var_os("TERRACE_EMULATOR").is_some() {
            return eprintln!("NOT TESTED: the emulator ignores advice for mappings");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, vec![7; 600 << 10]).unwrap();
        let limits = Arc::new(ResourceLimits::new(10, 1 << 20, 10));
        let open = || open_with_limits(&limits, &path, File::open(&path).unwrap(), AccessMode::Mmap).unwrap();
        // The flag "rr" marks a mapping with random access.
        let is_random = |file: &Arc<dyn RandomAccessFile>| {
            smaps_attribute(file.mapped_slice().unwrap(), "VmFlags:").split(' ').any(|flag| flag == "rr")
        };
        let first = open();
        assert!(!is_random(&first));
        assert!(open().mapped_slice().is_none(), "600 and 600 KiB are more than 1 MiB");
        assert!(is_random(&first));
        drop(first);
        let second = open();
        assert!(is_random(&second), "the pressure lasts");
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
        // Resident memory of the mapping.
        let resident = || smaps_attribute(mapped, "Rss:");
        assert!(mapped == bytes && resident() == "1024 kB");
        file.advise_dontneed();
        assert_eq!(resident(), "0 kB");
        assert!(mapped == bytes);
    }
}
