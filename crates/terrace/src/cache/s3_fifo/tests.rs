//! Evictions, ghosts, reservations and reclamation of the S3-FIFO cache.

use super::*;

/// Test value that is its own charge.
impl CacheValue for usize {
    fn charge(&self) -> usize {
        *self
    }

    fn data_ptr(&self) -> *const u8 {
        std::ptr::null()
    }
}

impl Evicted<usize> {
    fn list(self) -> Vec<usize> {
        self.into_iter().map(|value| *value).collect()
    }
}

fn new_cache(capacity: usize) -> Arc<S3FifoCache<usize>> {
    S3FifoCache::new(capacity)
}

/// Returns the indexes of the occupied slots.
fn occupied(slots: &CacheSlots<usize>) -> Vec<usize> {
    (0..slots.slots.len()).filter(|&index| slots.slots[index].is_occupied()).collect()
}

#[test]
fn evicts_oldest_first() {
    let cache = new_cache(30);
    let slots = cache.allocate_slots(5);
    (0..5).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert_eq!((occupied(&slots), cache.total_charge()), (vec![2, 3, 4], 30));
}

#[test]
fn scan_does_not_evict_used_values() {
    let cache = new_cache(100);
    let slots = cache.allocate_slots(1000);
    (0..5).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    (0..5).for_each(|index| assert!(slots.get(index).is_some()));
    (5..1000).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert_eq!(occupied(&slots)[..5], [0, 1, 2, 3, 4]);
}

#[test]
fn ghost_hit_goes_to_main_queue() {
    let cache = new_cache(100);
    let slots = cache.allocate_slots(1000);
    (0..10).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    (0..9).for_each(|index| assert!(slots.get(index).is_some()));
    (10..18).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert!(slots.get(10).is_none(), "evicted from the small queue");
    slots.insert(10, &Arc::new(10));
    (20..30).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert!(slots.get(10).is_some());
}

#[test]
fn charge_above_capacity_is_not_cached() {
    let cache = new_cache(10);
    let slots = cache.allocate_slots(1);
    slots.insert(0, &Arc::new(11));
    assert!(slots.get(0).is_none() && cache.total_charge() == 0);
    let none = new_cache(0).allocate_slots(8);
    none.insert(0, &Arc::new(0));
    assert!(none.get(0).is_none());
}

#[test]
fn reservation_reduces_capacity() {
    let cache = new_cache(40);
    let slots = cache.allocate_slots(5);
    (0..4).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert_eq!(cache.reserve(15).list().len(), 2);
    assert_eq!((occupied(&slots), cache.total_charge(), cache.available_capacity()), (vec![2, 3], 20, 25));
    assert!(slots.insert(0, &Arc::new(26)).list().is_empty(), "charge above the available capacity");
    assert_eq!(cache.reserve(30).list().len(), 2, "reservation above the capacity");
    assert!(slots.insert(0, &Arc::new(1)).list().is_empty());
    assert_eq!((occupied(&slots), cache.available_capacity()), (vec![], 0));
    cache.unreserve(45);
    (0..5).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert_eq!((occupied(&slots).len(), cache.available_capacity()), (4, 40));
}

#[test]
fn replacement_with_larger_charge_evicts() {
    let cache = new_cache(30);
    let slots = cache.allocate_slots(5);
    (0..3).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert!(slots.get(2).is_some());
    assert_eq!(slots.replace(2, &Arc::new(15)).list(), [10, 10], "the old value and another one");
    assert_eq!((occupied(&slots), cache.total_charge()), (vec![1, 2], 25));
    assert!(slots.replace(0, &Arc::new(15)).list().is_empty(), "slot 0 is empty");
    assert!(slots.replace(1, &Arc::new(31)).list().is_empty(), "charge above the capacity");
    assert_eq!(slots.replace(1, &Arc::new(5)).list().len(), 1, "a smaller value");
    assert_eq!((occupied(&slots), cache.total_charge()), (vec![1, 2], 20));
    slots.replace(1, &Arc::new(7));
    drop(slots);
    assert_eq!(cache.total_charge(), 0);
}

#[test]
fn one_reclaimed_value_is_returned_per_insert() {
    let cache = new_cache(64_000);
    let slots = cache.allocate_slots(8000);
    let values: Vec<Arc<usize>> = (0..8000).map(|_| Arc::new(10)).collect();
    let alive = || values.iter().filter(|value| Arc::strong_count(value) > 1).count();
    let mut guard = None;
    for (index, value) in values.iter().enumerate() {
        assert!(slots.insert(index, value).list().len() <= 1);
        // `protect` counts no use, which would keep the value in its slot.
        guard = guard.or_else(|| slots.slots[7].value.protect());
        assert!(alive() <= 6400 + 2 * RECLAIM_BATCH);
    }
    assert!(Arc::strong_count(&values[7]) > 1 && slots.get(7).is_none(), "a reader holds it");
    assert_eq!(cache.total_charge(), 64_000);
    drop(guard);
    cache.clear();
    assert_eq!(alive(), 0);
}

#[test]
fn dropped_slots_release_charge_and_queue_entries() {
    let cache = new_cache(1000);
    for _ in 0..100 {
        let slots = cache.allocate_slots(10);
        (0..10).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
        let guard = slots.get(3).unwrap();
        drop(slots);
        assert_eq!((cache.total_charge(), *guard), (0, 10));
    }
    let queues = cache.queues.lock();
    assert!(queues.small.len() + queues.main.len() <= COMPACT_QUEUES_MIN);
}

#[test]
fn clear_evicts_everything() {
    let cache = new_cache(100);
    let slots = cache.allocate_slots(10);
    (0..10).for_each(|index| drop(slots.insert(index, &Arc::new(10))));
    assert!(slots.get(7).is_some());
    cache.clear();
    assert_eq!((occupied(&slots), cache.total_charge()), (vec![], 0));
}
