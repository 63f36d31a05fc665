//! Tests of the shared budget.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
    let [(small, _small), (large, _large)] = [10, 80].map(|size| user(&budget, 0, size * MB));
    assert_eq!(budget.table_limit(), 88 * MB);
    budget.close_excess_tables();
    assert_eq!([small, large].map(|user| user.table_bytes() / MB), [10, 78]);
}

#[test]
fn growing_memtables_take_memory_back_from_tables() {
    let budget = SharedBudget::new(128 * MB);
    let [(writer, own), (reader, _reader)] =
        [(60, 0), (0, 88)].map(|(memtable, tables)| user(&budget, memtable * MB, tables * MB));
    own.should_flush_early(60 * MB, 61 * MB);
    assert_eq!([writer, reader].map(|user| user.table_bytes() / MB), [0, 52]);
    budget.reserve_memtable(100 * MB);
    assert_eq!(budget.table_limit(), 48 * MB);
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
    small.reserve_table(88 * MB);
    assert_eq!(available(&small), 16);
    small.release_table(88 * MB);
}

#[test]
fn a_very_small_process_keeps_more_than_half() {
    let sizes = [(32, 8), (64, 16), (80, 32), (96, 48), (128, 64), (1 << 10, 512)];
    for (limit, size) in sizes {
        assert_eq!(shared_budget_size(limit << 20), size << 20, "{limit} MiB");
    }
    assert_eq!(shared_budget_size(0), 0);
}

#[test]
fn same_memory_limit_means_same_budget() {
    let budget = SharedBudget::for_memory_limit(123_456_788);
    assert!(Arc::ptr_eq(&budget, &SharedBudget::for_memory_limit(123_456_788)));
    assert!(!Arc::ptr_eq(&budget, &SharedBudget::for_memory_limit(123_456_789)));
    assert_eq!(budget.total(), 61_728_394);
}

/// Regression: a writer that compared the memtables dropped the last reference to a database, under
/// its own commit lock and after the close of that database.
#[test]
fn database_leaves_after_the_threads_that_use_it() {
    let budget = SharedBudget::new(128 * MB);
    let [(writer, own), (user, share)] = [0, MB].map(|size| user(&budget, size, 0));
    let guards = budget.guards_except(Some(own.id));
    assert_eq!(guards.len(), 1);
    let (left, has_left) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            share.leave();
            left.send(Arc::strong_count(&user)).unwrap();
        });
        assert!(has_left.recv_timeout(Duration::from_millis(50)).is_err(), "it left while it was in use");
        drop(guards);
        assert_eq!(has_left.recv(), Ok(1));
    });
    assert!(budget.guards_except(Some(own.id)).is_empty());
    share.leave();
    drop((writer, share));
    assert!(budget.users.lock().by_id.len() == 1);
}
