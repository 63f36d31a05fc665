//! Maximum numbers of mapped and open random-access files of the process.
//!
//! ```text
//!   1,000 mappings (none with 32-bit addresses), with half of the memory in total
//!   then open files, a fifth of the descriptors that the system allows the process
//!   then neither: the file is opened for each read
//!
//!   a tenth of the descriptors for mapped logs
//!   then none: the file is opened for each call that a mapping cannot do
//! ```
//!
//! The numbers are LevelDB's. They leave descriptors to the rest of the program, and keep a
//! database of any size readable under any limit. The limit of bytes is Terrace's own, see
//! [`MmapPressure`].

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use memmap2::{Advice, Mmap};

use rustix::process::{Resource, getrlimit};
use terrace_sync::native_locks::Mutex;
use terrace_sync::{ForkRank, get_or_init_for_fork, register_fork_participant};

use super::memory_limit;
use super::spare_descriptor::SpareDescriptor;

/// Maximum number of mapped files. 32-bit addresses leave no space for mappings.
const MAX_MMAPS: usize = if cfg!(target_pointer_width = "64") { 1000 } else { 0 };

/// Available permits of each kind.
#[derive(Debug)]
pub(super) struct ResourceLimits {
    pub(super) mmaps: Arc<ResourceLimiter>,
    pub(super) mmap_bytes: Arc<ResourceLimiter>,
    pub(super) open_files: Arc<ResourceLimiter>,
    /// Mapped logs that keep their descriptor.
    pub(super) open_logs: Arc<ResourceLimiter>,
    pub(super) mmap_pressure: MmapPressure,
    pub(super) spare_descriptor: SpareDescriptor,
}

impl ResourceLimits {
    pub(super) fn new(mmaps: usize, mmap_bytes: usize, open_files: usize) -> ResourceLimits {
        ResourceLimits {
            mmaps: ResourceLimiter::new(mmaps),
            mmap_bytes: ResourceLimiter::new(mmap_bytes),
            open_files: ResourceLimiter::new(open_files),
            open_logs: ResourceLimiter::new(open_files / 2),
            mmap_pressure: MmapPressure::default(),
            spare_descriptor: SpareDescriptor::default(),
        }
    }

    /// Returns the limits that all handles of the process share. The system's limit is read once.
    pub(super) fn process_wide() -> Arc<ResourceLimits> {
        static PROCESS: OnceLock<Arc<ResourceLimits>> = OnceLock::new();
        let limits = get_or_init_for_fork(&PROCESS, || {
            Arc::new(ResourceLimits::new(MAX_MMAPS, max_mmap_bytes(), max_open_files()))
        });
        Arc::clone(limits)
    }
}

/// Returns the memory limit of the process at the time of the first call, in bytes.
pub(super) fn memory_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *get_or_init_for_fork(&LIMIT, memory_limit::detect)
}

fn max_mmap_bytes() -> usize {
    usize::try_from(memory_limit() / 2).unwrap_or(usize::MAX)
}

fn max_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 5).unwrap_or(usize::MAX)
}

/// Mapped files, and whether they exceed the memory.
///
/// On a page fault in a mapping, the system reads megabytes around the address. That is good for
/// data that soon fits memory as a whole. With more data, each get would evict the pages that the
/// next get needs. From the first file over the limit on, all mappings therefore get the advice of
/// random access.
#[derive(Debug)]
pub(super) struct MmapPressure {
    /// Written with `maps` locked. Relaxed: it is a hint.
    over_limit: AtomicBool,
    maps: Arc<Mutex<Vec<Weak<Mmap>>>>,
}

impl Default for MmapPressure {
    fn default() -> MmapPressure {
        let maps: Arc<Mutex<Vec<Weak<Mmap>>>> = Arc::default();
        let weak: Weak<Mutex<Vec<Weak<Mmap>>>> = Arc::downgrade(&maps);
        register_fork_participant(ForkRank::Env, weak);
        MmapPressure { over_limit: AtomicBool::new(false), maps }
    }
}

impl MmapPressure {
    /// Adds a mapping.
    pub(super) fn add(&self, map: &Arc<Mmap>) {
        let mut maps = self.maps.lock();
        if self.over_limit.load(Ordering::Relaxed) {
            advise_random(map);
        } else {
            // The list has at most twice as many entries as there are mappings.
            if maps.len() == maps.capacity() {
                maps.retain(|map| map.strong_count() > 0);
            }
            maps.push(Arc::downgrade(map));
        }
    }

    /// Records that a file found no permit, and advises random access for all mappings.
    pub(super) fn record_rejection(&self) {
        let mut maps = self.maps.lock();
        self.over_limit.store(true, Ordering::Relaxed);
        for map in std::mem::take(&mut *maps).iter().filter_map(Weak::upgrade) {
            advise_random(&map);
        }
    }

    /// Returns true if mappings have random access, so that readers should prefetch.
    #[inline]
    pub(super) fn is_over_limit(&self) -> bool {
        self.over_limit.load(Ordering::Relaxed)
    }
}

fn advise_random(map: &Mmap) {
    // If the system refuses, it continues to read around faults.
    let _ = map.advise(Advice::Random);
}

/// Counter of available permits.
#[derive(Debug)]
pub(super) struct ResourceLimiter {
    available: AtomicUsize,
}

impl ResourceLimiter {
    fn new(permits: usize) -> Arc<ResourceLimiter> {
        Arc::new(ResourceLimiter { available: AtomicUsize::new(permits) })
    }

    /// Acquires one permit, if one is available.
    pub(super) fn acquire(self: &Arc<ResourceLimiter>) -> Option<ResourcePermit> {
        self.acquire_many(1)
    }

    /// Acquires `count` permits as one, if they are available.
    pub(super) fn acquire_many(self: &Arc<ResourceLimiter>, count: usize) -> Option<ResourcePermit> {
        // Relaxed: the counter protects no other data.
        self.available
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |available| available.checked_sub(count))
            .ok()?;
        Some(ResourcePermit { limiter: Arc::clone(self), count })
    }
}

/// Permission to keep a file mapped or open, until it is dropped.
#[derive(Debug)]
pub(super) struct ResourcePermit {
    limiter: Arc<ResourceLimiter>,
    count: usize,
}

impl Drop for ResourcePermit {
    fn drop(&mut self) {
        self.limiter.available.fetch_add(self.count, Ordering::Relaxed);
    }
}

/// Adds the limit on open files to the error of an open that exceeds it. A caller that keeps its
/// files open cannot work with fewer descriptors.
pub(super) fn name_limit(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return error;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    io::Error::other(format!("{error}; the limit RLIMIT_NOFILE is {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_limit_on_open_files() {
        let text = |errno| name_limit(io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::EMFILE).contains("(os error 24); the limit RLIMIT_NOFILE is "));
        assert!(!text(libc::EACCES).contains("RLIMIT_NOFILE"));
    }

    #[test]
    fn dropped_permits_are_available_again() {
        let files = ResourceLimiter::new(2);
        let first = files.acquire();
        let second = files.acquire();
        assert!(first.is_some() && second.is_some());
        assert!(files.acquire().is_none());
        drop(first);
        assert!(files.acquire().is_some());
        assert!(ResourceLimiter::new(0).acquire().is_none());
        let bytes = ResourceLimiter::new(10);
        let seven = bytes.acquire_many(7);
        assert!(seven.is_some() && bytes.acquire_many(4).is_none() && bytes.acquire_many(3).is_some());
        drop(seven);
        assert!(bytes.acquire_many(10).is_some());
    }

    #[test]
    fn process_wide_limits_are_not_zero() {
        let limits = ResourceLimits::process_wide();
        assert!(limits.open_files.acquire().is_some());
        assert_eq!(limits.mmaps.acquire().is_some(), cfg!(target_pointer_width = "64"));
    }
}
