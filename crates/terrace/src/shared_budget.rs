//! Memory budget that the databases of a process share.
//!
//! ```text
//!   half of the memory of the process, less below 96 MiB
//!     [ memtables and pooled chunks: up to 1/2   | open tables: 3/8 to 11/16 | blocks: from 1/8 ]
//!         early flushes: current memtables > 3/16
//! ```
//!
//! A database without a budget of its own takes a [`BudgetShare`]. The parts of the budget have no
//! fixed owner: a database that writes or reads much takes the memory that idle ones do not use,
//! and takes it from them when the budget is exhausted.
//!
//! - *Memtables.* If the current memtables exceed their part, the largest ones are flushed. If all
//!   memtables together exceed theirs, a writer flushes its own and waits for its earlier flush.
//! - *Blocks.* The databases share one block cache, which evicts the least used blocks of all.
//! - *Open tables* take the part of the memtables that these do not use, and reduce the block cache
//!   to an eighth. If they exceed that, the database with most of them closes the least used ones.
//!
//! The budget does not change the sizes of a process with one database.
//!
//! A thread of one database uses another one through a [`UserGuard`], often under a lock of its
//! own. A database therefore leaves the budget before its last handle is dropped: it waits until no
//! guard is left. So no other thread drops its last reference, and with it the comparator and the
//! logger of the caller.

use std::collections::BTreeMap;
// Atomics and a lock of the standard library instead of `sync`: a budget outlives every model, and
// no other access depends on its order.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sync::{get_or_init_for_fork, mutant, native_locks};

use crate::cache::BlockCache;
use crate::sync::{
    Arc, Condvar, ForkLocks, ForkParticipant, ForkRank, Mutex, Weak, register_fork_participant,
};

/// Database that shares a budget.
pub(crate) trait BudgetUser: Send + Sync {
    /// Returns the size of the current memtable in bytes, or 0 if its flush is already requested.
    fn memtable_bytes(&self) -> usize;

    /// Requests a flush of the current memtable. Does not wait for it.
    fn request_early_flush(self: Arc<Self>);

    /// Returns the memory of the open tables in bytes.
    fn table_bytes(&self) -> usize;

    /// Closes the least used tables until at most `bytes` bytes are left.
    fn close_tables(&self, bytes: usize);
}

/// Memory budget of all databases whose file systems report the same memory limit.
pub(crate) struct SharedBudget {
    total: usize,
    block_cache: Arc<BlockCache>,
    /// Bytes of all memtables and pooled chunks.
    memtable_bytes: AtomicUsize,
    /// Value of `memtable_bytes` from which a writer compares the memtables.
    next_check: AtomicUsize,
    /// Bytes of all open tables.
    table_bytes: AtomicUsize,
    /// Number of databases.
    user_count: AtomicUsize,
    /// Number of databases that use `block_cache`.
    cache_users: AtomicUsize,
    users: Mutex<SharedBudgetUsers>,
    /// Notified when a guard of a leaving database is dropped.
    guard_dropped: Condvar,
}

struct UserEntry {
    /// None while the database waits for the guards that other threads hold.
    user: Option<Weak<dyn BudgetUser>>,
    guards: usize,
}

#[derive(Default)]
struct SharedBudgetUsers {
    last_id: u64,
    by_id: BTreeMap<u64, UserEntry>,
}

/// Part of the capacity of the shared block cache that each database adds, in bytes.
pub(crate) const BLOCK_CACHE_BYTES_PER_DATABASE: usize = 128 << 20;

/// Minimum size in bytes of a memtable that is flushed early. Smaller tables cost more than the
/// memory is worth.
pub(crate) const MIN_EARLY_FLUSH_BYTES: usize = 64 << 10;

/// Budgets by the memory limit that the file systems of their databases report.
type BudgetsByLimit = BTreeMap<u64, Weak<SharedBudget>>;

/// Returns the size of the budget of a process that may use `memory_limit` bytes, in bytes.
///
/// It is half of the limit. In a very small process, more than half remains for compactions,
/// stacks, heaps with holes, and the page cache.
pub(crate) fn shared_budget_size(memory_limit: u64) -> usize {
    /// Memory of the rest, in bytes.
    const REST: u64 = 48 << 20;
    let half = memory_limit / 2;
    let size = half.min(memory_limit.saturating_sub(REST).max(memory_limit / 4));
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl ForkParticipant for SharedBudget {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |budget| &budget.users);
    }
}

impl SharedBudget {
    /// Returns the budget of the databases of a process that may use `memory_limit` bytes.
    pub(crate) fn for_memory_limit(memory_limit: u64) -> Arc<SharedBudget> {
        static BUDGETS: OnceLock<Arc<native_locks::Mutex<BudgetsByLimit>>> = OnceLock::new();
        let budgets = get_or_init_for_fork(&BUDGETS, || {
            let budgets: Arc<native_locks::Mutex<BudgetsByLimit>> = Arc::default();
            let weak: Weak<native_locks::Mutex<BudgetsByLimit>> = Arc::downgrade(&budgets);
            register_fork_participant(ForkRank::Env, weak);
            budgets
        });
        let existing = budgets.lock().get(&memory_limit).and_then(Weak::upgrade);
        if let Some(budget) = existing {
            return budget;
        }
        // Without the lock: the budget registers itself for forks.
        let budget = SharedBudget::new(shared_budget_size(memory_limit));
        let mut budgets = budgets.lock();
        if let Some(other) = budgets.get(&memory_limit).and_then(Weak::upgrade) {
            return other;
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        budgets.insert(memory_limit, Arc::downgrade(&budget));
        budget
    }

    /// Creates a budget of `total` bytes.
    pub(crate) fn new(total: usize) -> Arc<SharedBudget> {
        let budget = Arc::new(SharedBudget {
            total,
            block_cache: BlockCache::new(total / 2),
            memtable_bytes: AtomicUsize::new(0),
            next_check: AtomicUsize::new(0),
            table_bytes: AtomicUsize::new(0),
            user_count: AtomicUsize::new(0),
            cache_users: AtomicUsize::new(0),
            users: Mutex::default(),
            guard_dropped: Condvar::new(),
        });
        budget.next_check.store(budget.early_flush_threshold(), Ordering::Relaxed);
        let weak: Weak<SharedBudget> = Arc::downgrade(&budget);
        register_fork_participant(ForkRank::Cache, weak);
        budget
    }

    /// Returns the budget in bytes.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the memory use of all databases in bytes.
    pub(crate) fn usage(&self) -> usize {
        self.memtable_bytes.load(Ordering::Relaxed) + self.table_bytes() + self.block_cache.usage()
    }

    pub(crate) fn block_cache(&self) -> &Arc<BlockCache> {
        &self.block_cache
    }

    /// Maximum bytes of memtables and pooled chunks.
    fn memtable_limit(&self) -> usize {
        self.total / 2
    }

    /// Bytes of current memtables from which the largest ones are flushed. As many bytes again may
    /// wait for their flush.
    fn early_flush_threshold(&self) -> usize {
        self.total / 16 * 3
    }

    /// Part of the budget in bytes that is always left for blocks.
    fn min_block_bytes(&self) -> usize {
        self.total / 8
    }

    /// Maximum bytes of open tables: those that memtables and blocks leave. Memtables may always
    /// grow to [`SharedBudget::early_flush_threshold`].
    pub(crate) fn table_limit(&self) -> usize {
        let memtables = self.memtable_bytes.load(Ordering::Relaxed);
        let memtables = memtables.clamp(self.early_flush_threshold(), self.memtable_limit());
        self.total - memtables - self.min_block_bytes()
    }

    /// Counts `bytes` of a memtable or a pooled chunk.
    pub(crate) fn reserve_memtable(&self, bytes: usize) {
        self.memtable_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the count of `bytes`.
    pub(crate) fn release_memtable(&self, bytes: usize) {
        let left = self.memtable_bytes.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
        self.next_check.fetch_min(self.check_after(left), Ordering::Relaxed);
    }

    /// Value of `next_check` after a check at `bytes`.
    fn check_after(&self, bytes: usize) -> usize {
        self.early_flush_threshold().max(bytes.saturating_add(self.memtable_limit() / 32))
    }

    /// Returns true if memtables must take little memory for other databases: flushed chunks are
    /// not pooled, and new memtables start with a small chunk.
    pub(crate) fn is_tight(&self) -> bool {
        self.user_count.load(Ordering::Relaxed) > 1
            && self.memtable_bytes.load(Ordering::Relaxed) >= self.early_flush_threshold()
    }

    /// Returns true if all memtables together exceed their limit.
    #[inline]
    pub(crate) fn is_over_memtable_limit(&self) -> bool {
        self.memtable_bytes.load(Ordering::Relaxed) > self.memtable_limit()
    }

    /// Returns true if a writer has to call [`BudgetShare::should_flush_early`].
    #[inline]
    pub(crate) fn needs_check(&self) -> bool {
        self.memtable_bytes.load(Ordering::Relaxed)
            > self.memtable_limit().min(self.next_check.load(Ordering::Relaxed))
    }

    /// Counts `bytes` of an open table.
    pub(crate) fn reserve_table(&self, bytes: usize) {
        self.table_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.resize_block_cache();
    }

    /// Ends the count of `bytes`.
    pub(crate) fn release_table(&self, bytes: usize) {
        self.table_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.resize_block_cache();
    }

    pub(crate) fn table_bytes(&self) -> usize {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// Sets the part of the block cache that is available for blocks: a fixed part for each
    /// database, or the bytes that the open tables leave.
    fn resize_block_cache(&self) {
        let capacity = self.block_cache.capacity();
        self.block_cache.set_reservation(|| {
            let users = self.cache_users.load(Ordering::Relaxed);
            let unused = capacity.saturating_sub(users.saturating_mul(BLOCK_CACHE_BYTES_PER_DATABASE));
            let table_bytes = self.table_bytes().min(capacity.saturating_sub(self.min_block_bytes()));
            unused.max(table_bytes)
        });
    }

    /// Closes tables of the database that has most of them, if all open tables exceed their limit.
    #[inline]
    pub(crate) fn close_excess_tables(&self) {
        if self.table_bytes() > self.table_limit() {
            self.close_tables_of_largest_user();
        }
    }

    #[cold]
    fn close_tables_of_largest_user(&self) {
        let guards = self.guards_except(None);
        let by_size = guards.iter().map(|guard| (guard.user.table_bytes(), &guard.user));
        if let Some((bytes, user)) = by_size.max_by_key(|(bytes, _)| *bytes) {
            let excess = self.table_bytes().saturating_sub(self.table_limit());
            user.close_tables(bytes.saturating_sub(excess));
        }
    }

    /// Returns guards of all users but the caller. The caller holds no lock of the budget while it
    /// calls them or drops them.
    fn guards_except(&self, caller: Option<u64>) -> Vec<UserGuard<'_>> {
        let mut users = self.users.lock();
        let others = users.by_id.iter_mut().filter(|(id, _)| Some(**id) != caller);
        let guards = others.filter_map(|(&id, entry)| {
            let user = entry.user.as_ref()?.upgrade()?;
            entry.guards += 1;
            Some(UserGuard { user, _count: GuardCount { budget: self, id } })
        });
        guards.collect()
    }
}

/// Database that this thread uses for another one. It does not leave the budget before the drop.
struct UserGuard<'a> {
    user: Arc<dyn BudgetUser>,
    _count: GuardCount<'a>, // dropped after `user`
}

/// Part of [`UserGuard`] that counts it.
struct GuardCount<'a> {
    budget: &'a SharedBudget,
    id: u64,
}

impl Drop for GuardCount<'_> {
    fn drop(&mut self) {
        let mut users = self.budget.users.lock();
        if let Some(entry) = users.by_id.get_mut(&self.id) {
            entry.guards -= 1;
            if entry.guards == 0 && entry.user.is_none() {
                self.budget.guard_dropped.notify_all();
            }
        }
    }
}

/// Membership of one database in a budget.
pub(crate) struct BudgetShare {
    budget: Arc<SharedBudget>,
    id: u64,
    uses_block_cache: bool,
}

impl BudgetShare {
    /// Adds `user` to `budget`.
    pub(crate) fn new(
        budget: &Arc<SharedBudget>,
        user: Weak<dyn BudgetUser>,
        uses_block_cache: bool,
    ) -> BudgetShare {
        let mut users = budget.users.lock();
        users.last_id += 1;
        let id = users.last_id;
        users.by_id.insert(id, UserEntry { user: Some(user), guards: 0 });
        drop(users);
        budget.user_count.fetch_add(1, Ordering::Relaxed);
        budget.cache_users.fetch_add(usize::from(uses_block_cache), Ordering::Relaxed);
        budget.resize_block_cache();
        BudgetShare { budget: Arc::clone(budget), id, uses_block_cache }
    }

    pub(crate) fn budget(&self) -> &SharedBudget {
        &self.budget
    }

    /// Ends the use of this database by others: waits until no guard of it is left. The caller
    /// holds no lock, and owns the database.
    pub(crate) fn leave(&self) {
        let mut users = self.budget.users.lock();
        let Some(entry) = users.by_id.get_mut(&self.id) else { return };
        // A drop of the weak reference frees memory at most.
        entry.user = None;
        while users.by_id.get(&self.id).is_some_and(|entry| entry.guards > 0)
            && !mutant!(BudgetUserLeavesInUse)
        {
            self.budget.guard_dropped.wait(&mut users);
        }
        users.by_id.remove(&self.id);
    }

    /// Requests flushes of the largest memtables until the others fit their part of the budget.
    /// Returns true if that of the caller is one of them.
    ///
    /// The caller's memtable takes `own_bytes` bytes and is full at `full_at` bytes. Alone, it is
    /// never flushed early.
    pub(crate) fn should_flush_early(&self, own_bytes: usize, full_at: usize) -> bool {
        let budget = &self.budget;
        let total = budget.memtable_bytes.load(Ordering::Relaxed);
        let is_large_enough = own_bytes >= MIN_EARLY_FLUSH_BYTES;
        if is_large_enough && total > budget.memtable_limit() {
            return true;
        }
        if total < budget.next_check.load(Ordering::Relaxed) {
            return false;
        }
        budget.next_check.store(budget.check_after(total), Ordering::Relaxed);
        budget.close_excess_tables();
        let mut memtables = vec![(own_bytes, None)];
        let guards = budget.guards_except(Some(self.id));
        memtables.extend(guards.into_iter().map(|guard| (guard.user.memtable_bytes(), Some(guard))));
        memtables.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        if mutant!(SmallestMemtableFlushedEarly) {
            memtables.reverse();
        }
        let mut excess: usize = memtables.iter().map(|(bytes, _)| bytes).sum();
        let kept = budget.early_flush_threshold().max(full_at);
        let mut is_own_chosen = false;
        for (bytes, guard) in &memtables {
            if excess <= kept || *bytes < MIN_EARLY_FLUSH_BYTES {
                break;
            }
            excess -= bytes;
            match guard {
                Some(guard) => Arc::clone(&guard.user).request_early_flush(),
                None => is_own_chosen = true,
            }
        }
        is_own_chosen
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let entry = self.budget.users.lock().by_id.remove(&self.id);
        drop(entry); // without the lock
        self.budget.user_count.fetch_sub(1, Ordering::Relaxed);
        self.budget.cache_users.fetch_sub(usize::from(self.uses_block_cache), Ordering::Relaxed);
        self.budget.resize_block_cache();
    }
}

#[cfg(test)]
mod tests;
