//! Memory budget that the databases of a process share.
//!
//! ```text
//!   half of the memory of the process
//!     [ memtables and pooled chunks: 1/2          | blocks and open tables: 1/2            ]
//!         early flushes: current memtables > 3/16     one block cache, tables: up to 3/4
//! ```
//!
//! A database without a budget of its own takes a [`BudgetShare`]. The parts of the budget have no
//! fixed owner: a database that writes or reads much takes the memory that idle ones do not use,
//! and takes it from them when the budget is exhausted.
//!
//! - *Memtables.* If the current memtables exceed their part, the largest ones are flushed. If all
//!   memtables together exceed theirs, a writer flushes its own and waits for its earlier flush.
//! - *Blocks.* The databases share one block cache, which evicts the least used blocks of all.
//! - *Open tables* reduce the block cache. If they exceed their part, the database with most of
//!   them closes the least used ones.
//!
//! The budget does not change the sizes of a process with one database.

use std::collections::BTreeMap;
// Atomics and a lock of the standard library instead of `sync`: a budget outlives every model, and
// no other access depends on its order.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sync::{get_or_init_for_fork, native_locks};

use crate::cache::BlockCache;
use crate::sync::{Arc, ForkLocks, ForkParticipant, ForkRank, Mutex, Weak, register_fork_participant};

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
}

#[derive(Default)]
struct SharedBudgetUsers {
    last_id: u64,
    by_id: BTreeMap<u64, Weak<dyn BudgetUser>>,
}

/// Part of the capacity of the shared block cache that each database adds, in bytes.
pub(crate) const BLOCK_CACHE_BYTES_PER_DATABASE: usize = 128 << 20;

/// Minimum size in bytes of a memtable that is flushed early. Smaller tables cost more than the
/// memory is worth.
pub(crate) const MIN_EARLY_FLUSH_BYTES: usize = 64 << 10;

/// Budgets by the memory limit that the file systems of their databases report.
type BudgetsByLimit = BTreeMap<u64, Weak<SharedBudget>>;

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
        let budget = SharedBudget::new(usize::try_from(memory_limit / 2).unwrap_or(usize::MAX));
        let mut budgets = budgets.lock();
        if let Some(other) = budgets.get(&memory_limit).and_then(Weak::upgrade) {
            return other;
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        budgets.insert(memory_limit, Arc::downgrade(&budget));
        budget
    }

    fn new(total: usize) -> Arc<SharedBudget> {
        let budget = Arc::new(SharedBudget {
            total,
            block_cache: BlockCache::new(total / 2),
            memtable_bytes: AtomicUsize::new(0),
            next_check: AtomicUsize::new(0),
            table_bytes: AtomicUsize::new(0),
            user_count: AtomicUsize::new(0),
            cache_users: AtomicUsize::new(0),
            users: Mutex::default(),
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

    /// Maximum bytes of open tables.
    pub(crate) fn table_limit(&self) -> usize {
        self.block_cache.capacity() / 4 * 3
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

    fn table_bytes(&self) -> usize {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// Sets the part of the block cache that is available for blocks: a fixed part for each
    /// database, or the bytes that the open tables leave.
    fn resize_block_cache(&self) {
        let capacity = self.block_cache.capacity();
        self.block_cache.set_reservation(|| {
            let users = self.cache_users.load(Ordering::Relaxed);
            let unused = capacity.saturating_sub(users.saturating_mul(BLOCK_CACHE_BYTES_PER_DATABASE));
            unused.max(self.table_bytes())
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
        let users = self.users();
        let by_size = users.iter().map(|(_, user)| (user.table_bytes(), user));
        if let Some((bytes, user)) = by_size.max_by_key(|(bytes, _)| *bytes) {
            let excess = self.table_bytes().saturating_sub(self.table_limit());
            user.close_tables(bytes.saturating_sub(excess));
        }
    }

    /// Returns all users. The caller holds no lock of the budget while it calls them or drops them.
    fn users(&self) -> Vec<(u64, Arc<dyn BudgetUser>)> {
        let users = self.users.lock();
        users.by_id.iter().filter_map(|(id, user)| Some((*id, user.upgrade()?))).collect()
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
        users.by_id.insert(id, user);
        drop(users);
        budget.user_count.fetch_add(1, Ordering::Relaxed);
        budget.cache_users.fetch_add(usize::from(uses_block_cache), Ordering::Relaxed);
        budget.resize_block_cache();
        BudgetShare { budget: Arc::clone(budget), id, uses_block_cache }
    }

    pub(crate) fn budget(&self) -> &SharedBudget {
        &self.budget
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
        let mut memtables = vec![(own_bytes, None)];
        for (id, user) in budget.users() {
            if id != self.id {
                memtables.push((user.memtable_bytes(), Some(user)));
            }
        }
        memtables.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut excess: usize = memtables.iter().map(|(bytes, _)| bytes).sum();
        let kept = budget.early_flush_threshold().max(full_at);
        let mut is_own_chosen = false;
        for (bytes, user) in memtables {
            if excess <= kept || bytes < MIN_EARLY_FLUSH_BYTES {
                break;
            }
            excess -= bytes;
            match user {
                Some(user) => user.request_early_flush(),
                None => is_own_chosen = true,
            }
        }
        is_own_chosen
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let user = self.budget.users.lock().by_id.remove(&self.id);
        drop(user); // without the lock
        self.budget.user_count.fetch_sub(1, Ordering::Relaxed);
        self.budget.cache_users.fetch_sub(usize::from(self.uses_block_cache), Ordering::Relaxed);
        self.budget.resize_block_cache();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const MB: usize = 1 << 20;

    #[derive(Default)]
    struct FakeUser {
        memtable: usize,
        is_flushed: AtomicBool,
        tables: AtomicUsize,
    }

    impl BudgetUser for FakeUser {
        fn memtable_bytes(&self) -> usize {
            if self.is_flushed.load(Ordering::Relaxed) { 0 } else { self.memtable }
        }

        fn request_early_flush(self: Arc<Self>) {
            self.is_flushed.store(true, Ordering::Relaxed);
        }

        fn table_bytes(&self) -> usize {
            self.tables.load(Ordering::Relaxed)
        }

        fn close_tables(&self, bytes: usize) {
            self.tables.store(bytes, Ordering::Relaxed);
        }
    }

    fn user(budget: &Arc<SharedBudget>, memtable: usize, tables: usize) -> (Arc<FakeUser>, BudgetShare) {
        let user = Arc::new(FakeUser { memtable, tables: AtomicUsize::new(tables), ..FakeUser::default() });
        let weak: Weak<FakeUser> = Arc::downgrade(&user);
        budget.reserve_memtable(memtable);
        budget.reserve_table(tables);
        (user, BudgetShare::new(budget, weak, true))
    }

    #[test]
    fn largest_memtables_are_flushed_first() {
        let budget = SharedBudget::new(128 * MB);
        let [(small, own), (large, _large), (middle, _middle)] =
            [4, 14, 10].map(|size| user(&budget, size * MB, 0));
        // 28 MiB exceed 24 MiB by less than the largest memtable.
        assert!(budget.needs_check());
        assert!(!own.should_flush_early(4 * MB, 5 * MB));
        let flushed = [small, large, middle].map(|user| user.is_flushed.load(Ordering::Relaxed));
        assert_eq!(flushed, [false, true, false]);
        assert!(!budget.needs_check(), "the next check is due after more growth");
    }

    #[test]
    fn writer_flushes_its_own_memtable_over_the_limit() {
        let budget = SharedBudget::new(128 * MB);
        let (_user, own) = user(&budget, 65 * MB, 0);
        assert!(budget.needs_check() && budget.is_over_memtable_limit());
        assert!(own.should_flush_early(MIN_EARLY_FLUSH_BYTES, MB));
        assert!(!own.should_flush_early(MIN_EARLY_FLUSH_BYTES - 1, 100 * MB));
    }

    #[test]
    fn single_database_is_not_flushed_early() {
        let budget = SharedBudget::new(128 * MB);
        let (_user, own) = user(&budget, 40 * MB, 0);
        assert!(!own.should_flush_early(40 * MB, 41 * MB));
        assert!(!budget.is_tight());
        let _other = user(&budget, 0, 0);
        assert!(budget.is_tight());
    }

    #[test]
    fn released_memory_lowers_the_next_check() {
        let budget = SharedBudget::new(128 * MB);
        let (_user, own) = user(&budget, 60 * MB, 0);
        assert!(!own.should_flush_early(0, 0) && !budget.needs_check());
        budget.release_memtable(50 * MB);
        budget.reserve_memtable(15 * MB);
        assert!(budget.needs_check());
    }

    #[test]
    fn database_with_most_open_tables_closes_some() {
        let budget = SharedBudget::new(128 * MB);
        let [(small, _small), (large, _large)] = [10, 40].map(|size| user(&budget, 0, size * MB));
        assert_eq!(budget.table_limit(), 48 * MB);
        budget.close_excess_tables();
        assert_eq!([small, large].map(|user| user.table_bytes() / MB), [10, 38]);
    }

    #[test]
    fn block_cache_grows_with_the_databases_and_shrinks_with_their_tables() {
        let available = |budget: &SharedBudget| budget.block_cache().available_capacity() / MB;
        let large = SharedBudget::new(8192 * MB);
        let shares: Vec<_> = (0..40).map(|_| user(&large, 0, 0)).collect();
        assert_eq!(available(&large), 4096);
        drop(shares);
        let one = user(&large, 0, 0);
        assert_eq!(available(&large), 128);
        large.reserve_table(1000 * MB);
        assert_eq!(available(&large), 128);
        drop(one);
        let small = SharedBudget::new(128 * MB);
        let _one = user(&small, 0, 10 * MB);
        assert_eq!(available(&small), 54);
        small.release_table(10 * MB);
        assert_eq!(available(&small), 64);
    }

    #[test]
    fn same_memory_limit_means_same_budget() {
        let budget = SharedBudget::for_memory_limit(12_345_678);
        assert!(Arc::ptr_eq(&budget, &SharedBudget::for_memory_limit(12_345_678)));
        assert!(!Arc::ptr_eq(&budget, &SharedBudget::for_memory_limit(12_345_679)));
        assert_eq!(budget.total(), 6_172_839);
    }
}
