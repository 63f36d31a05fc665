//! Models of databases that share a memory budget.

use terrace_sync::thread;

use crate::shared_budget::{BudgetShare, BudgetUser, MIN_EARLY_FLUSH_BYTES, SharedBudget};
use crate::sync::{Arc, AtomicBool, Ordering, Weak};

/// Memory budget in bytes. Memtables of more than 3/16 of it are flushed early.
const BUDGET: usize = 16 * MIN_EARLY_FLUSH_BYTES;

/// Database with one memtable.
struct ModelUser {
    memtable: usize,
    is_flushed: AtomicBool,
    /// True when its last handle is dropped.
    has_left: AtomicBool,
}

impl ModelUser {
    fn check_use(&self) {
        assert!(!self.has_left.load(Ordering::Relaxed), "another database uses one that has left");
    }

    fn is_flushed(&self) -> bool {
        self.is_flushed.load(Ordering::Relaxed)
    }
}

impl BudgetUser for ModelUser {
    fn memtable_bytes(&self) -> usize {
        self.check_use();
        if self.is_flushed() { 0 } else { self.memtable }
    }

    fn request_early_flush(self: Arc<Self>) {
        self.check_use();
        self.is_flushed.store(true, Ordering::Relaxed);
    }

    fn table_bytes(&self) -> usize {
        self.check_use();
        0
    }

    fn close_tables(&self, _bytes: usize) {
        self.check_use();
    }
}

/// Adds a database with a memtable of `memtable` bytes.
fn join(budget: &Arc<SharedBudget>, memtable: usize) -> (Arc<ModelUser>, BudgetShare) {
    let user = Arc::new(ModelUser {
        memtable,
        is_flushed: AtomicBool::new(false),
        has_left: AtomicBool::new(false),
    });
    let weak: Weak<ModelUser> = Arc::downgrade(&user);
    budget.reserve_memtable(memtable);
    let share = BudgetShare::new(budget, weak, false);
    (user, share)
}

/// Drops the last handle of a database.
fn drop_last(budget: &SharedBudget, (user, share): (Arc<ModelUser>, BudgetShare)) {
    share.leave();
    user.has_left.store(true, Ordering::Relaxed);
    assert_eq!(Arc::strong_count(&user), 1, "another thread drops the last reference");
    budget.release_memtable(user.memtable);
}

/// A writer compares the memtables while another database joins, and both others leave.
pub(super) fn writer_beside_leaving_databases() {
    let budget = SharedBudget::new(BUDGET);
    let (_writer, own) = join(&budget, MIN_EARLY_FLUSH_BYTES);
    let large = join(&budget, 4 * MIN_EARLY_FLUSH_BYTES);
    let closer = {
        let budget = Arc::clone(&budget);
        thread::spawn(move || {
            let joined = join(&budget, MIN_EARLY_FLUSH_BYTES);
            drop_last(&budget, large);
            drop_last(&budget, joined);
        })
    };
    own.should_flush_early(MIN_EARLY_FLUSH_BYTES, 2 * MIN_EARLY_FLUSH_BYTES);
    closer.join().unwrap();
}

/// Two writers exceed the budget together. At the end, the largest memtable is being flushed, and
/// the small ones are not.
pub(super) fn two_writers() {
    let budget = SharedBudget::new(BUDGET);
    let (small, share) = join(&budget, MIN_EARLY_FLUSH_BYTES);
    let (large, large_share) = join(&budget, 4 * MIN_EARLY_FLUSH_BYTES);
    let other = {
        let large = Arc::clone(&large);
        thread::spawn(move || {
            if large_share.should_flush_early(large.memtable_bytes(), 2 * MIN_EARLY_FLUSH_BYTES) {
                large.request_early_flush();
            }
            large_share // stays in the budget
        })
    };
    if share.should_flush_early(small.memtable_bytes(), 2 * MIN_EARLY_FLUSH_BYTES) {
        Arc::clone(&small).request_early_flush();
    }
    let _large_share = other.join().unwrap();
    assert!(large.is_flushed() && !small.is_flushed(), "the wrong memtable is flushed");
}
