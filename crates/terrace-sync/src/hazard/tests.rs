//! Hazard pointers with real threads.

use std::collections::HashSet;
use std::sync::Barrier;

use super::*;

#[test]
fn live_threads_have_distinct_slots() {
    let barrier = Barrier::new(10);
    let mut rounds = Vec::new();
    for _ in 0..20 {
        rounds.push(crate::thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..10 {
                threads.push(scope.spawn(|| {
                    let slot = thread_slot();
                    barrier.wait();
                    assert_eq!(thread_slot(), slot);
                    slot.unwrap()
                }));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<HashSet<_>>()
        }));
    }
    assert!(rounds.iter().all(|slots| slots.len() == 10), "{rounds:?}");
    assert!(rounds.iter().flatten().all(|slot| *slot < 100), "slots are reused: {rounds:?}");
}

/// Returns a cell with a value, and a function that returns the reference count of the value.
fn cell_with_value() -> (HazardCell<u32>, impl Fn() -> usize) {
    let cell = HazardCell::empty();
    let value = Arc::new(7);
    assert!(cell.swap(Some(Arc::clone(&value))).is_none());
    (cell, move || Arc::strong_count(&value) - 1)
}

#[test]
fn protects_more_values_than_slots() {
    let (cell, count) = cell_with_value();
    let guards: Vec<_> = (0..2 * SLOTS_PER_THREAD).filter_map(|_| cell.protect()).collect();
    assert_eq!(count(), 1 + SLOTS_PER_THREAD + 1, "the last slot is for reference counts");
    let mut retire_list = RetireList::new();
    let mut free = Vec::new();
    retire_list.push(cell.swap(None).unwrap());
    retire_list.reclaim(&mut free);
    assert!(free.is_empty() && cell.protect().is_none() && guards.iter().all(|guard| **guard == 7));
    drop(guards);
    retire_list.reclaim(&mut free);
    assert_eq!((retire_list.len(), free.len(), count()), (0, 1, 1));
}

#[test]
fn guard_outlives_its_cell() {
    let (cell, count) = cell_with_value();
    let guard = cell.protect().unwrap();
    drop(cell);
    assert_eq!((*guard, count()), (7, 1));
    drop(guard);
    // The drop of another value reclaims the orphan.
    drop(cell_with_value());
    assert_eq!(count(), 0);
}

#[test]
fn swap_under_concurrent_readers() {
    let cell = HazardCell::empty();
    let done = AtomicBool::new(false);
    crate::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let guards: [Option<HazardGuard<[u64; 2]>>; 10] = std::array::from_fn(|_| cell.protect());
                    for [number, inverse] in guards.iter().flatten().map(|guard| **guard) {
                        assert_eq!(number, !inverse);
                        assert!(number >= last);
                        last = number;
                    }
                }
            });
        }
        let mut retire_list = RetireList::new();
        let mut free = Vec::new();
        for n in 1..20_000u64 {
            if let Some(retired) = cell.swap(Some(Arc::new([n, !n]))) {
                retire_list.push(retired);
            }
            if retire_list.len() >= 10 {
                retire_list.reclaim(&mut free);
                free.clear();
            }
            assert!(retire_list.len() <= 10 + 4 * SLOTS_PER_THREAD, "{}", retire_list.len());
        }
        done.store(true, Ordering::Relaxed);
    });
    // The drop of the cell would reclaim the orphans of other tests.
    if let Some(retired) = cell.swap(None) {
        RetireList::new().push(retired);
    }
}
