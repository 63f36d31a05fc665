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

use super::memory;

const MAPS_MAX: usize = if cfg!(target_pointer_width = "64") { 1000 } else { 0 };

/// What is left of each kind.
#[derive(Debug)]
pub(super) struct Budgets {
    pub(super) maps: Arc<Budget>,
    pub(super) mapped_bytes: Arc<Budget>,
    pub(super) descriptors: Arc<Budget>,
    pub(super) crowd: Crowd,
}

impl Budgets {
    pub(super) fn new(maps: usize, mapped_bytes: usize, descriptors: usize) -> Budgets {
        Budgets {
            maps: Budget::new(maps),
            mapped_bytes: Budget::new(mapped_bytes),
            descriptors: Budget::new(descriptors),
            crowd: Crowd::default(),
        }
    }

    /// The budget that everything in the process shares. The limit is read once.
    pub(super) fn of_process() -> Arc<Budgets> {
        static PROCESS: OnceLock<Arc<Budgets>> = OnceLock::new();
        let all = || Budgets::new(MAPS_MAX, mapped_bytes_max(), descriptors_max());
        Arc::clone(PROCESS.get_or_init(|| Arc::new(all())))
    }
}

/// The memory that the process may use, as it was when this was first asked for.
pub(super) fn memory() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(memory::limit)
}

fn mapped_bytes_max() -> usize {
    usize::try_from(memory() / 2).unwrap_or(usize::MAX)
}

fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 5).unwrap_or(usize::MAX)
}

/// The mapped files, and whether there are more than memory has room for.
///
/// Where a mapping is touched that is not in memory, the system reads around that place, up to megabytes. That is right for
/// what will lie in memory as a whole soon. Of more than that each look-up would push out what the next one needs; so from the first file
/// on that finds no room, all are told to be read anywhere.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Written with the lock. Relaxed: a hint.
    is_there: AtomicBool,
    maps: Mutex<Vec<Weak<Mmap>>>,
}

impl Crowd {
    /// One more is mapped.
    pub(super) fn join(&self, map: &Arc<Mmap>) {
        let mut maps = self.maps.lock();
        if self.is_there.load(Ordering::Relaxed) {
            read_anywhere(map);
        } else {
            // As many as are mapped at a time, at most twice over.
            if maps.len() == maps.capacity() {
                maps.retain(|map| map.strong_count() > 0);
            }
            maps.push(Arc::downgrade(map));
        }
    }

    /// One found no room.
    pub(super) fn turn_away(&self) {
        let mut maps = self.maps.lock();
        self.is_there.store(true, Ordering::Relaxed);
        std::mem::take(&mut *maps).iter().filter_map(Weak::upgrade).for_each(|map| read_anywhere(&map));
    }

    /// True if what is wanted of a mapping has to be asked for.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }
}

fn read_anywhere(map: &Mmap) {
    // Refused, it is read around as before.
    let _ = map.advise(Advice::Random);
}

/// A number of permits.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    fn new(permits: usize) -> Arc<Budget> {
        Arc::new(Budget { left: AtomicUsize::new(permits) })
    }

    /// One permit, if any is left.
    pub(super) fn take(self: &Arc<Budget>) -> Option<Permit> {
        self.take_some(1)
    }

    /// So many permits as one, if they are left.
    pub(super) fn take_some(self: &Arc<Budget>, count: usize) -> Option<Permit> {
        // Relaxed: the count guards a number of things, not their contents.
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).ok()?;
        Some(Permit { of: Arc::clone(self), count })
    }
}

/// The right to keep a file mapped or open, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    of: Arc<Budget>,
    count: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.left.fetch_add(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_back() {
        let budget = Budget::new(2);
        let (first, second) = (budget.take(), budget.take());
        assert!(first.is_some() && second.is_some());
        assert!(budget.take().is_none());
        drop(first);
        assert!(budget.take().is_some());
        assert!(Budget::new(0).take().is_none());
        let bytes = Budget::new(10);
        let most = bytes.take_some(7);
        assert!(most.is_some() && bytes.take_some(4).is_none() && bytes.take_some(3).is_some());
        drop(most);
        assert!(bytes.take_some(10).is_some());
    }

    #[test]
    fn the_process_has_some_of_each() {
        let budgets = Budgets::of_process();
        assert!(budgets.descriptors.take().is_some());
        assert_eq!(budgets.maps.take().is_some(), cfg!(target_pointer_width = "64"));
    }
}
