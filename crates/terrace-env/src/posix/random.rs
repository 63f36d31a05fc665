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

use super::budget::{Budgets, Permit};
use super::files::read_fully;
use crate::error::{FileError, Result};
use crate::fs::{Access, RandomAccessFile};

/// `file` as the best form there is a permit for.
pub(super) fn choose(
    budgets: &Arc<Budgets>,
    path: &Path,
    file: File,
    access: Access,
) -> Result<Arc<dyn RandomAccessFile>> {
    let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
    if access == Access::Map
        && let Some(one) = budgets.maps.take()
    {
        let bytes = budgets.mapped_bytes.take_some(usize::try_from(len).unwrap_or(usize::MAX));
        if bytes.is_none() {
            budgets.crowd.turn_away();
        }
        if let Some(bytes) = bytes
            && let Some(map) = map(&file)
        {
            let map = Arc::new(map);
            budgets.crowd.join(&map);
            return Ok(Arc::new(Mapped { map, budgets: Arc::clone(budgets), _permits: [one, bytes] }));
        }
    }
    let path = path.to_path_buf();
    if let Some(permit) = budgets.descriptors.take() {
        return Ok(Arc::new(Opened { path, len, file, _permit: permit }));
    }
    Ok(Arc::new(PerRead { path, len }))
}

/// The file's contents in memory, or nothing where the system refuses.
fn map(file: &File) -> Option<Mmap> {
    // SAFETY: the bytes of a shared mapping may change if somebody writes to the file. `Access::Map` is for files
    // that are complete and that nobody but us touches, and we never write to a file that we have opened for
    // random access. A file cut short by somebody else ends the process by SIGBUS; it does not misread memory.
    unsafe { Mmap::map(file) }.ok()
}

/// A file in memory.
#[derive(Debug)]
struct Mapped {
    map: Arc<Mmap>,
    budgets: Arc<Budgets>,
    _permits: [Permit; 2],
}

impl RandomAccessFile for Mapped {
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

    fn mapped(&self) -> Option<&[u8]> {
        Some(&self.map)
    }

    fn will_read(&self, offset: u64, len: u64) {
        if self.budgets.crowd.is_there() {
            let end = offset.saturating_add(len).min(self.len());
            let [start, end] = [offset, end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            // Outside of the file there is nothing to be had.
            let _ = self.map.advise_range(memmap2::Advice::WillNeed, start, end.saturating_sub(start));
        }
    }

    fn waits(&self) -> bool {
        self.budgets.crowd.is_there()
    }

    fn let_go(&self) {
        // SAFETY: the mapping is shared and nobody stores to it, so what is looked at again comes from the file again, and is the
        // same: slices of it stay what they were.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// A file behind a descriptor.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    len: u64,
    file: File,
    _permit: Permit,
}

impl RandomAccessFile for Opened {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn will_read(&self, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn waits(&self) -> bool {
        true
    }
}

/// A file that is opened for each read.
#[derive(Debug)]
struct PerRead {
    path: PathBuf,
    len: u64,
}

impl RandomAccessFile for PerRead {
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
    fn more_than_fits_is_not_read_around() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, vec![7; 600 << 10]).unwrap();
        let budgets = Arc::new(Budgets::new(10, 1 << 20, 10));
        let open = || choose(&budgets, &path, File::open(&path).unwrap(), Access::Map).unwrap();
        // "rr": advised to be read anywhere.
        let anywhere = |file: &Arc<dyn RandomAccessFile>| {
            said(file.mapped().unwrap(), "VmFlags:").split(' ').any(|flag| flag == "rr")
        };
        let first = open();
        assert!(!anywhere(&first));
        assert!(open().mapped().is_none(), "600 and 600 KiB are more than 1 MiB");
        assert!(anywhere(&first));
        drop(first);
        let second = open();
        assert!(anywhere(&second), "there may be more again");
        second.will_read(599 << 10, 1 << 20);
        second.will_read(700 << 10, u64::MAX);
        assert!(second.mapped().unwrap().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_is_let_go_of_takes_no_memory_until_it_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let bytes: Vec<u8> = (0..1u32 << 20).map(|n| (n >> 8) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = choose(&Budgets::of_process(), &path, File::open(&path).unwrap(), Access::Map).unwrap();
        let mapped = file.mapped().unwrap();
        // What the process holds of the mapping.
        let resident = || said(mapped, "Rss:");
        assert!(mapped == bytes && resident() == "1024 kB");
        file.let_go();
        assert_eq!(resident(), "0 kB");
        assert!(mapped == bytes);
    }
}
