//! How many files the process may keep mapped or open for random access.
//!
//! ```text
//!   1,000 mappings (none where addresses have 32 bits)
//!   then descriptors, a fifth of what the system allows the process
//!   then neither: the file is opened for each read
//! ```
//!
//! These are LevelDB's limits. They leave descriptors to the program around us, and keep a database of any size
//! readable under any limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Resource, getrlimit};

const MAPS_MAX: usize = if cfg!(target_pointer_width = "64") { 1000 } else { 0 };

/// What is left of each kind.
#[derive(Debug)]
pub(super) struct Budgets {
    pub(super) maps: Arc<Budget>,
    pub(super) descriptors: Arc<Budget>,
}

impl Budgets {
    pub(super) fn new(maps: usize, descriptors: usize) -> Budgets {
        Budgets { maps: Budget::new(maps), descriptors: Budget::new(descriptors) }
    }

    /// The budget that everything in the process shares. The limit is read once.
    pub(super) fn of_process() -> Arc<Budgets> {
        static PROCESS: OnceLock<Arc<Budgets>> = OnceLock::new();
        Arc::clone(PROCESS.get_or_init(|| Arc::new(Budgets::new(MAPS_MAX, descriptors_max()))))
    }
}

fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 5).unwrap_or(usize::MAX)
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
        // Relaxed: the count guards a number of things, not their contents.
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(Permit { of: Arc::clone(self) })
    }
}

/// The right to keep one file mapped or open, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    of: Arc<Budget>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.left.fetch_add(1, Ordering::Relaxed);
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
    }

    #[test]
    fn the_process_has_some_of_each() {
        let budgets = Budgets::of_process();
        assert!(budgets.descriptors.take().is_some());
        assert_eq!(budgets.maps.take().is_some(), cfg!(target_pointer_width = "64"));
    }
}
