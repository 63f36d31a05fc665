//! A file that fills a file system.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use terrace_testkit::rng::Rng;

/// Smallest step of the ballast, in bytes: the smallest block of the file systems.
const SMALLEST_STEP: u64 = 1 << 10;

/// File without contents, or with zeros where the file system allocates no space.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Ballast {
    pub(super) fn create(path: &Path) -> std::io::Result<Ballast> {
        Ok(Ballast { path: path.to_path_buf(), file: File::create(path)?, len: 0 })
    }

    /// Fills the disk, and then frees about `free_bytes` bytes.
    pub(super) fn fill(&mut self, free_bytes: u64) -> Result<(), String> {
        // A shrunk ballast needs no large steps, which take long where they write zeros.
        let mut step = if self.len == 0 { 16 << 20 } else { 64 << 10 };
        while step >= SMALLEST_STEP {
            if self.extend(step).is_ok() {
                self.len += step;
            } else {
                step /= 4;
            }
        }
        self.shrink(free_bytes).map(drop)
    }

    fn extend(&self, step: u64) -> std::io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), self.len, step) {
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeros(step),
            allocated => Ok(allocated?),
        }
    }

    fn write_zeros(&self, step: u64) -> std::io::Result<()> {
        let zeros = vec![0; step as usize];
        self.file.write_all_at(&zeros, self.len)
    }

    /// Frees `bytes` bytes. Returns false if the ballast is empty.
    pub(super) fn shrink(&mut self, bytes: u64) -> Result<bool, String> {
        self.len = self.len.saturating_sub(bytes);
        self.file.set_len(self.len).map_err(|error| format!("ballast: {error}"))?;
        Ok(self.len > 0)
    }

    /// Frees all of its space.
    pub(super) fn free_space(&mut self) -> Result<(), String> {
        self.shrink(u64::MAX).map(drop)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // The file system is removed soon.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Fills the disk with a file and frees it, until `stop`.
pub(super) fn fill_and_free(path: &Path, seed: u64, stop: &AtomicBool) -> std::io::Result<()> {
    let mut rng = Rng::new(seed);
    let mut file = File::create(path)?;
    let mut ballast = Ballast::create(&path.with_extension("ballast"))?;
    // Most of the disk without writes. The rest takes writes that get their space late.
    ballast.fill(1 << 20).map_err(std::io::Error::other)?;
    while !stop.load(Ordering::Relaxed) {
        let chunk = vec![0x5a; 1 << (12 + rng.below(5))];
        while file.write_all(&chunk).is_ok() {}
        std::thread::sleep(Duration::from_micros(rng.below(4_000)));
        let rest = rng.below(1 << 20);
        // btrfs needs space to free space.
        let rest = if file.set_len(rest).is_ok() { rest } else { 0 };
        file.seek(SeekFrom::Start(rest))?;
        std::thread::sleep(Duration::from_micros(rng.below(4_000)));
    }
    Ok(())
}
