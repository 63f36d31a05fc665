//! How many files the process may keep mapped or open for random access.
//!
//! ```text
//!   1,000 mappings (none where addresses have 32 bits), of half of the memory in all
//!   then descriptors, a fifth of what the system allows the process
//!   then neither: the file is opened for each read
//! ```
//!
//! The numbers are LevelDB's. They leave descriptors to the program around us, and keep a database of any size readable under
//! any limit. The bytes are not, see [`Crowd`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use memmap2::{Advice, Mmap};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::memory_limit;

const MAX_MMAPS: usize = if cfg!(target_pointer_width = "64") { 1000 } else { 0 };

/// What is left of each kind.
#[derive(Debug)]
pub(super) struct ResourceLimits {
    pub(super) mmaps: Arc<ResourceLimiter>,
    pub(super) mmap_bytes: Arc<ResourceLimiter>,
    pub(super) open_files: Arc<ResourceLimiter>,
    pub(super) mmap_pressure: MmapPressure,
}

impl ResourceLimits {
    pub(super) fn new(maps: usize, mapped_bytes: usize, descriptors: usize) -> ResourceLimits {
        ResourceLimits {
            mmaps: ResourceLimiter::new(maps),
            mmap_bytes: ResourceLimiter::new(mapped_bytes),
            open_files: ResourceLimiter::new(descriptors),
            mmap_pressure: MmapPressure::default(),
        }
    }

    /// The budget that everything in the process shares. The limit is read once.
    pub(super) fn process_wide() -> Arc<ResourceLimits> {
        static PROCESS: OnceLock<Arc<ResourceLimits>> = OnceLock::new();
        let all = || ResourceLimits::new(MAX_MMAPS, max_mmap_bytes(), max_open_files());
        Arc::clone(PROCESS.get_or_init(|| Arc::new(all())))
    }
}

/// The memory that the process may use, as it was when this was first asked for.
pub(super) fn memory_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(memory_limit::detect)
}

fn max_mmap_bytes() -> usize {
    usize::try_from(memory_limit() / 2).unwrap_or(usize::MAX)
}

fn max_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 5).unwrap_or(usize::MAX)
}

/// The mapped files, and whether there are more than memory has room for.
///
/// Where a mapping is touched that is not in memory, the system reads around that place, up to megabytes. That is right for
/// what will lie in memory as a whole soon. Of more than that each look-up would push out what the next one needs; so from the first file
/// on that finds no room, all are told to be read anywhere.
#[derive(Debug, Default)]
pub(super) struct MmapPressure {
    /// Written with the lock. Relaxed: a hint.
    over_limit: AtomicBool,
    maps: Mutex<Vec<Weak<Mmap>>>,
}

impl MmapPressure {
    /// One more is mapped.
    pub(super) fn add(&self, map: &Arc<Mmap>) {
        let mut maps = self.maps.lock();
        if self.over_limit.load(Ordering::Relaxed) {
            advise_random(map);
        } else {
            // As many as are mapped at a time, at most twice over.
            if maps.len() == maps.capacity() {
                maps.retain(|map| map.strong_count() > 0);
            }
            maps.push(Arc::downgrade(map));
        }
    }

    /// One found no room.
    pub(super) fn record_rejection(&self) {
        let mut maps = self.maps.lock();
        self.over_limit.store(true, Ordering::Relaxed);
        std::mem::take(&mut *maps).iter().filter_map(Weak::upgrade).for_each(|map| advise_random(&map));
    }

    /// True if what is wanted of a mapping has to be asked for.
    #[inline]
    pub(super) fn is_over_limit(&self) -> bool {
        self.over_limit.load(Ordering::Relaxed)
    }
}

fn advise_random(map: &Mmap) {
    // Refused, it is read around as before.
    let _ = map.advise(Advice::Random);
}

/// A number of permits.
#[derive(Debug)]
pub(super) struct ResourceLimiter {
    available: AtomicUsize,
}

impl ResourceLimiter {
    fn new(permits: usize) -> Arc<ResourceLimiter> {
        Arc::new(ResourceLimiter { available: AtomicUsize::new(permits) })
    }

    /// One permit, if any is left.
    pub(super) fn acquire(self: &Arc<ResourceLimiter>) -> Option<ResourcePermit> {
        self.acquire_many(1)
    }

    /// So many permits as one, if they are left.
    pub(super) fn acquire_many(self: &Arc<ResourceLimiter>, count: usize) -> Option<ResourcePermit> {
        // Relaxed: the count guards a number of things, not their contents.
        self.available
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count))
            .ok()?;
        Some(ResourcePermit { limiter: Arc::clone(self), count })
    }
}

/// The right to keep a file mapped or open, until it is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_permits_are_available_again() {
        let budget = ResourceLimiter::new(2);
        let (first, second) = (budget.acquire(), budget.acquire());
        assert!(first.is_some() && second.is_some());
        assert!(budget.acquire().is_none());
        drop(first);
        assert!(budget.acquire().is_some());
        assert!(ResourceLimiter::new(0).acquire().is_none());
        let bytes = ResourceLimiter::new(10);
        let most = bytes.acquire_many(7);
        assert!(most.is_some() && bytes.acquire_many(4).is_none() && bytes.acquire_many(3).is_some());
        drop(most);
        assert!(bytes.acquire_many(10).is_some());
    }

    #[test]
    fn process_wide_limits_are_not_zero() {
        let budgets = ResourceLimits::process_wide();
        assert!(budgets.open_files.acquire().is_some());
        assert_eq!(budgets.mmaps.acquire().is_some(), cfg!(target_pointer_width = "64"));
    }
}
