//! Which values stay in memory: a place for each, and two queues that decide which places are emptied.
//!
//! ```text
//!   table ── places  [ value | none | value | ... ]     a hit is one load: no search, no lock
//!                        ^               ^
//!   new ──> small queue ─┼─ used? ──> main queue ─┬─ not used since: emptied
//!                        └─ not: emptied          └─ used: once more round
//! ```
//!
//! S3-FIFO (Yang et al., SOSP 2023): what was used only once leaves by the small queue, a tenth of the room, so that a
//! scan does not displace what look-ups use. A place that comes back soon after it left goes to the main queue at once;
//! the paper's list of such ghosts is a mark in the place here.
//!
//! Readers hold what is in a place and mark it, nothing else. Places are filled and emptied under the lock of the queues. Each
//! filled place has one entry in a queue; an entry whose owner is gone is passed over.
//!
//! ```text
//!   emptied ──> limbo, up to 16 ── nobody holds it: all threads are asked at once ──> free, up to 16 ──> who fills the next
//! ```
//!
//! What left its place weighs nothing any more. In limbo and free it takes beside the capacity about a
//! thirty-second of that at most, and what readers hold.

use std::collections::VecDeque;

use terrace_env::prefetch;
use terrace_format::key_order::HEADS_PER_GROUP;

use crate::sync::{
    Arc, AtomicU32, HazardCell, HazardGuard, HazardValue, Mutex, Ordering, RetireList, Retired,
};

/// What a store has to know of its values.
pub(crate) trait CacheValue: HazardValue {
    /// The room that it takes.
    fn charge(&self) -> usize;

    /// What is read first of the memory that it has elsewhere.
    fn data_ptr(&self) -> *const u8;
}

/// Values of all owners together, up to a weight.
pub(crate) struct S3FifoCache<V: CacheValue> {
    capacity: usize,
    queues: Mutex<S3FifoQueues<V>>,
}

/// The places of one owner. Dropped, it empties them.
pub(crate) struct CacheSlots<V: CacheValue> {
    cache: Arc<S3FifoCache<V>>,
    slots: Arc<[CacheSlot<V>]>,
}

/// Two of them are in a line of memory.
#[repr(align(32))]
struct CacheSlot<V: CacheValue> {
    /// [`CacheSlots`] empties every place when it goes, and no place is filled without one: so none asks all threads by itself.
    value: HazardCell<V>,
    /// Where the memory is that the value has elsewhere, or was, to have it fetched before it is known to be there: a wrong one
    /// costs time and nothing else. Not of `sync`: nothing follows from what it holds.
    data_ptr: std::sync::atomic::AtomicPtr<u8>,
    /// With a value: how often it was used, up to [`FREQUENCY_MAX`]. Without one: when it was emptied, above that; or 0.
    frequency_or_ghost: AtomicU32,
    /// Of the value, if there is one. Read and written under the lock of the queues.
    charge: AtomicU32,
}

const FREQUENCY_MAX: u32 = 3;

impl<V: CacheValue> CacheSlot<V> {
    fn is_occupied(&self) -> bool {
        !self.value.as_ptr().is_null()
    }

    /// Under the lock of the queues. Gives what was there.
    fn set_value(&self, value: &Arc<V>) -> Option<Retired<V>> {
        self.data_ptr.store(value.data_ptr().cast_mut(), Ordering::Relaxed);
        self.value.swap(Some(Arc::clone(value)))
    }

    /// Has the counts of the value fetched, which stand in the line before it.
    #[inline]
    fn prefetch_ref_counts(&self) {
        prefetch(self.value.as_ptr().cast::<u8>().wrapping_sub(1), 1);
    }

    /// Has the value fetched, and of the memory that it has elsewhere what is from `offset` on, up to [`FETCHED`].
    #[inline]
    fn prefetch_value(&self, offset: usize) {
        prefetch(self.value.as_ptr(), 1);
        prefetch(self.data_ptr.load(Ordering::Relaxed).wrapping_add(offset), PREFETCH_BLOCK_BYTES);
    }
}

struct S3FifoQueues<V: CacheValue> {
    small: VecDeque<QueueEntry<V>>,
    main: VecDeque<QueueEntry<V>>,
    /// Of the entries in the small queue.
    small_charge: usize,
    /// Of the filled places, and their number.
    total_charge: usize,
    occupied_slots: usize,
    /// How many places were emptied so far, for lack of use. Begins anew at 0.
    evictions: u32,
    /// Of the capacity, what something else takes.
    reserved_charge: usize,
    /// What was emptied, until it is known that nobody holds it.
    retire_list: RetireList<V>,
    /// How many were put there since it was last sifted, and their weight.
    newly_retired: usize,
    newly_retired_charge: usize,
    /// What nobody holds, for those who fill.
    free_values: Vec<Arc<V>>,
}

/// So many values are in limbo when all threads are asked, and so many free ones wait for who fills.
const RECLAIM_BATCH: usize = 16;

/// Or what weighs more than this part of the capacity is in limbo: then nothing free waits.
const RECLAIM_CAPACITY_DIVISOR: usize = 64;

/// What had to go, and nobody holds: freed by who gets it, not under the lock.
pub(crate) struct Evicted<V> {
    /// Most often no more, and no memory is needed to say so.
    first: Option<Arc<V>>,
    rest: Vec<Arc<V>>,
}

impl<V> Evicted<V> {
    pub(crate) const EMPTY: Evicted<V> = Evicted { first: None, rest: Vec::new() };
}

impl<V> IntoIterator for Evicted<V> {
    type Item = Arc<V>;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Arc<V>>, std::vec::IntoIter<Arc<V>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

struct QueueEntry<V: CacheValue> {
    slots: Arc<[CacheSlot<V>]>,
    index: usize,
    /// When it came.
    charge: usize,
}

impl<V: CacheValue> QueueEntry<V> {
    fn slot(&self) -> &CacheSlot<V> {
        &self.slots[self.index]
    }
}

impl<V: CacheValue> S3FifoCache<V> {
    pub(crate) fn new(capacity: usize) -> Arc<S3FifoCache<V>> {
        let queues = S3FifoQueues {
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_charge: 0,
            total_charge: 0,
            occupied_slots: 0,
            evictions: 0,
            reserved_charge: 0,
            retire_list: RetireList::new(),
            newly_retired: 0,
            newly_retired_charge: 0,
            free_values: Vec::new(),
        };
        Arc::new(S3FifoCache { capacity, queues: Mutex::new(queues) })
    }

    /// `count` empty places.
    pub(crate) fn allocate_slots(self: &Arc<Self>, count: usize) -> CacheSlots<V> {
        let place = |_| CacheSlot {
            value: HazardCell::empty(),
            data_ptr: Default::default(),
            frequency_or_ghost: AtomicU32::new(0),
            charge: AtomicU32::new(0),
        };
        let count = if self.capacity == 0 { 0 } else { count };
        CacheSlots { cache: Arc::clone(self), slots: (0..count).map(place).collect() }
    }

    /// The weight of what is there.
    pub(crate) fn total_charge(&self) -> usize {
        self.queues.lock().total_charge
    }

    /// Gives so much of the capacity to something else, until [`Store::unreserve`]; and what had to go for that.
    pub(crate) fn reserve(&self, weight: usize) -> Evicted<V> {
        let mut queues = self.queues.lock();
        queues.reserved_charge += weight;
        queues.evict_until_fits(0, self.capacity);
        queues.reclaim(self.capacity)
    }

    /// Takes back what was given to something else.
    pub(crate) fn unreserve(&self, weight: usize) {
        self.queues.lock().reserved_charge -= weight;
    }

    /// What is left of the capacity for values.
    pub(crate) fn available_capacity(&self) -> usize {
        self.capacity.saturating_sub(self.queues.lock().reserved_charge)
    }

    /// Empties every place.
    pub(crate) fn clear(&self) {
        let mut queues = self.queues.lock();
        while queues.total_charge > 0 {
            queues.evict_one(0);
        }
        let gone = queues.reclaim_all();
        drop(queues);
        drop(gone);
    }
}

/// So many places are fetched of those that may be looked at: as many as an index can't tell apart at first, and one more.
const PREFETCH_SLOTS: usize = HEADS_PER_GROUP + 1;

/// What a search of a usual block looks at first, or a walk over it that comes from either side, in bytes.
const PREFETCH_BLOCK_BYTES: usize = 6 * 64;

/// What is fetched of the end of a value begins so far before what it weighs, in bytes: that counts what is around it, and what
/// it has and does not use.
const PREFETCH_END_OFFSET: usize = PREFETCH_BLOCK_BYTES + 192;

impl<V: CacheValue> CacheSlots<V> {
    /// The memory that the places take themselves, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The value in place `at`, if there is one.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<HazardGuard<V>> {
        let place = self.slots.get(at)?;
        place.prefetch_value(0);
        let found = place.value.protect()?;
        // Uses that are lost between threads change nothing but which value stays. A store that is not needed would make
        // readers fight for the cache line.
        let uses = place.frequency_or_ghost.load(Ordering::Relaxed);
        if uses < FREQUENCY_MAX {
            place.frequency_or_ghost.store(uses + 1, Ordering::Relaxed);
        }
        Some(found)
    }

    /// True if there is a value in place `at`, or was just now.
    pub(crate) fn is_occupied(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(CacheSlot::is_occupied)
    }

    /// Has the places from `at` on fetched, a few of which will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_slots(&self, at: usize) {
        if let Some(place) = self.slots.get(at) {
            prefetch(place, PREFETCH_SLOTS * size_of::<CacheSlot<V>>());
        }
    }

    /// Has the counts of the value in place `at` fetched, for who is going to share it.
    #[inline]
    pub(crate) fn prefetch_ref_counts(&self, at: usize) {
        if let Some(place) = self.slots.get(at) {
            place.prefetch_ref_counts();
        }
    }

    /// Has the beginning of what is in place `at` fetched, which will be looked at soon.
    pub(crate) fn prefetch_start(&self, at: usize) {
        if let Some(place) = self.slots.get(at) {
            place.prefetch_value(0);
        }
    }

    /// Has the end of what is in place `at` fetched, which will be looked at soon.
    pub(crate) fn prefetch_end(&self, at: usize) {
        if let Some(place) = self.slots.get(at) {
            let weight = place.charge.load(Ordering::Relaxed) as usize;
            place.prefetch_value(weight.saturating_sub(PREFETCH_END_OFFSET));
        }
    }

    /// Fills place `at`, unless it is filled or the value is too heavy for any, and gives what had to go for that.
    pub(crate) fn insert(&self, at: usize, value: &Arc<V>) -> Evicted<V> {
        let (Some(place), Some((weight, room))) = (self.slots.get(at), self.cache.charge_if_fits(value))
        else {
            return Evicted::EMPTY;
        };
        let mut queues = self.cache.queues.lock();
        if place.is_occupied() || !queues.evict_until_fits(room, self.cache.capacity) {
            return Evicted::EMPTY;
        }
        let none = place.set_value(value);
        debug_assert!(none.is_none(), "places are filled under the lock");
        place.charge.store(weight, Ordering::Relaxed);
        let emptied =
            Some(place.frequency_or_ghost.load(Ordering::Relaxed)).filter(|mark| *mark > FREQUENCY_MAX);
        place.frequency_or_ghost.store(0, Ordering::Relaxed);
        let recent = queues.main.len();
        let back_soon =
            emptied.is_some_and(|then| (queues.ghost_stamp().wrapping_sub(then) as usize) < recent);
        queues.push(QueueEntry { slots: Arc::clone(&self.slots), index: at, charge: room }, back_soon);
        (queues.total_charge, queues.occupied_slots) =
            (queues.total_charge + room, queues.occupied_slots + 1);
        queues.reclaim(self.cache.capacity)
    }

    /// Puts `value` in the place of the value in place `at`, if there is one, and gives what had to go for that: the one that
    /// was there, and what it takes more room than that.
    pub(crate) fn replace(&self, at: usize, value: &Arc<V>) -> Evicted<V> {
        let (Some(place), Some((weight, room))) = (self.slots.get(at), self.cache.charge_if_fits(value))
        else {
            return Evicted::EMPTY;
        };
        let mut queues = self.cache.queues.lock();
        if !place.is_occupied() {
            return Evicted::EMPTY;
        }
        let old = place.set_value(value);
        queues.total_charge += room;
        queues.retire(old, place.charge.swap(weight, Ordering::Relaxed));
        queues.evict_until_fits(0, self.cache.capacity);
        queues.reclaim(self.cache.capacity)
    }
}

impl<V: CacheValue> S3FifoCache<V> {
    /// The weight of a value, twice, unless it is too heavy for any room.
    fn charge_if_fits(&self, value: &V) -> Option<(u32, usize)> {
        let weight = value.charge();
        let fits = u32::try_from(weight).ok().filter(|_| weight <= self.capacity);
        fits.map(|small| (small, weight))
    }
}

impl<V: CacheValue> Drop for CacheSlots<V> {
    fn drop(&mut self) {
        let mut queues = self.cache.queues.lock();
        self.slots.iter().filter(|place| place.is_occupied()).for_each(|place| queues.evict(place));
        queues.compact_queues();
        let gone = queues.reclaim_all();
        drop(queues);
        drop(gone);
    }
}

/// Fewer dead entries than this are not worth a sweep.
const COMPACT_QUEUES_MIN: usize = 64;

impl<V: CacheValue> S3FifoQueues<V> {
    /// Of a place that is emptied now.
    fn ghost_stamp(&self) -> u32 {
        self.evictions.max(FREQUENCY_MAX + 1)
    }

    fn push(&mut self, entry: QueueEntry<V>, to_main: bool) {
        if to_main {
            self.main.push_back(entry);
        } else {
            self.small_charge += entry.charge;
            self.small.push_back(entry);
        }
    }

    /// Empties places until so much more has room. False if it never has.
    fn evict_until_fits(&mut self, weight: usize, capacity: usize) -> bool {
        let capacity = capacity.saturating_sub(self.reserved_charge);
        if weight > capacity {
            return false;
        }
        while self.total_charge + weight > capacity {
            self.evict_one(capacity / 10);
        }
        true
    }

    /// Takes the next entry of the small queue, if that weighs more than `small_max`, else of the main queue: its place
    /// is emptied, or it goes to the main queue.
    fn evict_one(&mut self, small_max: usize) {
        let from_small = self.small_charge > small_max || self.main.is_empty();
        let Some(entry) = (if from_small { self.small.pop_front() } else { self.main.pop_front() }) else {
            return;
        };
        if from_small {
            self.small_charge -= entry.charge;
        }
        let place = entry.slot();
        if !place.is_occupied() {
            return;
        }
        match place.frequency_or_ghost.load(Ordering::Relaxed) {
            0 => {
                self.evictions = self.evictions.wrapping_add(1);
                place.frequency_or_ghost.store(self.ghost_stamp(), Ordering::Relaxed);
                self.evict(place);
            }
            uses => {
                let left = if from_small { 0 } else { uses - 1 };
                place.frequency_or_ghost.store(left.min(FREQUENCY_MAX), Ordering::Relaxed);
                self.push(entry, true);
            }
        }
    }

    /// Empties a place that is filled.
    fn evict(&mut self, place: &CacheSlot<V>) {
        self.occupied_slots -= 1;
        self.retire(place.value.swap(None), place.charge.load(Ordering::Relaxed));
    }

    /// What was in a place and had this weight goes to limbo. Nothing of it is touched: it is long since anybody looked at it.
    fn retire(&mut self, value: Option<Retired<V>>, weight: u32) {
        // The caller looked under the lock.
        self.retire_list.push(value.expect("a place that is filled stays so under the lock"));
        self.total_charge -= weight as usize;
        self.newly_retired += 1;
        self.newly_retired_charge += weight as usize;
    }

    /// Asks all threads, if that is worth it, and gives about as many free values as are filled in: then who fills has memory for
    /// the next one, and nobody gets many at once.
    fn reclaim(&mut self, capacity: usize) -> Evicted<V> {
        let heavy = self.newly_retired_charge > capacity / RECLAIM_CAPACITY_DIVISOR;
        if heavy || self.newly_retired >= RECLAIM_BATCH {
            self.scan_hazards();
        }
        let kept = if heavy { 0 } else { RECLAIM_BATCH };
        let one = if self.free_values.is_empty() { None } else { Some(self.free_values.swap_remove(0)) };
        let more = self.free_values.split_off(kept.min(self.free_values.len()));
        Evicted { first: one, rest: more }
    }

    /// Asks all threads, and gives all that nobody holds.
    fn reclaim_all(&mut self) -> Evicted<V> {
        self.scan_hazards();
        Evicted { first: None, rest: std::mem::take(&mut self.free_values) }
    }

    fn scan_hazards(&mut self) {
        self.retire_list.reclaim(&mut self.free_values);
        (self.newly_retired, self.newly_retired_charge) = (0, 0);
    }

    /// Drops the entries of owners that are gone when they are more than half of all.
    fn compact_queues(&mut self) {
        if self.small.len() + self.main.len() <= 2 * self.occupied_slots + COMPACT_QUEUES_MIN {
            return;
        }
        for queue in [&mut self.small, &mut self.main] {
            queue.retain(|entry| entry.slot().is_occupied());
        }
        self.small_charge = self.small.iter().map(|entry| entry.charge).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weight.
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

    fn store(capacity: usize) -> Arc<S3FifoCache<usize>> {
        S3FifoCache::new(capacity)
    }

    /// The places that are filled.
    fn filled(places: &CacheSlots<usize>) -> Vec<usize> {
        (0..places.slots.len()).filter(|&at| places.slots[at].is_occupied()).collect()
    }

    #[test]
    fn evicts_oldest_first() {
        let store = store(30);
        let places = store.allocate_slots(5);
        (0..5).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert_eq!((filled(&places), store.total_charge()), (vec![2, 3, 4], 30));
    }

    #[test]
    fn scan_does_not_evict_used_values() {
        let store = store(100);
        let places = store.allocate_slots(1000);
        (0..5).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        (0..5).for_each(|at| assert!(places.get(at).is_some()));
        (5..1000).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert_eq!(filled(&places)[..5], [0, 1, 2, 3, 4]);
    }

    #[test]
    fn ghost_hit_goes_to_main_queue() {
        let store = store(100);
        let places = store.allocate_slots(1000);
        (0..10).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        (0..9).for_each(|at| assert!(places.get(at).is_some()));
        (10..18).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert!(places.get(10).is_none(), "it left by the small queue");
        places.insert(10, &Arc::new(10));
        (20..30).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert!(places.get(10).is_some());
    }

    #[test]
    fn charge_above_capacity_is_not_cached() {
        let store = store(10);
        let places = store.allocate_slots(1);
        places.insert(0, &Arc::new(11));
        assert!(places.get(0).is_none() && store.total_charge() == 0);
        let none = super::tests::store(0).allocate_slots(8);
        none.insert(0, &Arc::new(0));
        assert!(none.get(0).is_none());
    }

    #[test]
    fn reservation_reduces_capacity() {
        let store = store(40);
        let places = store.allocate_slots(5);
        (0..4).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert_eq!(store.reserve(15).list().len(), 2);
        assert_eq!((filled(&places), store.total_charge(), store.available_capacity()), (vec![2, 3], 20, 25));
        assert!(places.insert(0, &Arc::new(26)).list().is_empty(), "too heavy for what is left");
        assert_eq!(store.reserve(30).list().len(), 2, "more than there is");
        assert!(places.insert(0, &Arc::new(1)).list().is_empty());
        assert_eq!((filled(&places), store.available_capacity()), (vec![], 0));
        store.unreserve(45);
        (0..5).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert_eq!((filled(&places).len(), store.available_capacity()), (4, 40));
    }

    #[test]
    fn replacement_with_larger_charge_evicts() {
        let store = store(30);
        let places = store.allocate_slots(5);
        (0..3).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert!(places.get(2).is_some());
        assert_eq!(places.replace(2, &Arc::new(15)).list(), [10, 10], "itself, and another one");
        assert_eq!((filled(&places), store.total_charge()), (vec![1, 2], 25));
        assert!(places.replace(0, &Arc::new(15)).list().is_empty(), "it went meanwhile");
        assert!(places.replace(1, &Arc::new(31)).list().is_empty(), "too heavy for any room");
        assert_eq!(places.replace(1, &Arc::new(5)).list().len(), 1, "a lighter one");
        assert_eq!((filled(&places), store.total_charge()), (vec![1, 2], 20));
        places.replace(1, &Arc::new(7));
        drop(places);
        assert_eq!(store.total_charge(), 0);
    }

    #[test]
    fn one_reclaimed_value_is_returned_per_insert() {
        let store = store(64_000);
        let places = store.allocate_slots(8000);
        let values: Vec<Arc<usize>> = (0..8000).map(|_| Arc::new(10)).collect();
        let alive = || values.iter().filter(|value| Arc::strong_count(value) > 1).count();
        let mut held = None;
        for (at, value) in values.iter().enumerate() {
            assert!(places.insert(at, value).list().len() <= 1);
            // Not a use, which would keep it in its place.
            held = held.or_else(|| places.slots[7].value.protect());
            assert!(alive() <= 6400 + 2 * RECLAIM_BATCH);
        }
        assert!(Arc::strong_count(&values[7]) > 1 && places.get(7).is_none(), "somebody holds it");
        assert_eq!(store.total_charge(), 64_000);
        drop(held);
        store.clear();
        assert_eq!(alive(), 0);
    }

    #[test]
    fn dropped_slots_release_charge_and_queue_entries() {
        let store = store(1000);
        for _ in 0..100 {
            let places = store.allocate_slots(10);
            (0..10).for_each(|at| drop(places.insert(at, &Arc::new(10))));
            let held = places.get(3).unwrap();
            drop(places);
            assert_eq!((store.total_charge(), *held), (0, 10));
        }
        let queues = store.queues.lock();
        assert!(queues.small.len() + queues.main.len() <= COMPACT_QUEUES_MIN);
    }

    #[test]
    fn clear_evicts_everything() {
        let store = store(100);
        let places = store.allocate_slots(10);
        (0..10).for_each(|at| drop(places.insert(at, &Arc::new(10))));
        assert!(places.get(7).is_some());
        store.clear();
        assert_eq!((filled(&places), store.total_charge()), (vec![], 0));
    }
}
