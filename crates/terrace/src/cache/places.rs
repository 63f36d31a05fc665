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

use terrace_env::fetch_ahead;
use terrace_format::order::GROUP;

use crate::sync::{Arc, AtomicU32, Held, Limbo, Mutex, Ordering, Retired, Shared, Spot};

/// What a store has to know of its values.
pub(crate) trait Kept: Shared {
    /// The room that it takes.
    fn weight(&self) -> usize;

    /// What is read first of the memory that it has elsewhere.
    fn start(&self) -> *const u8;
}

/// Values of all owners together, up to a weight.
pub(crate) struct Store<V: Kept> {
    capacity: usize,
    queues: Mutex<Queues<V>>,
}

/// The places of one owner. Dropped, it empties them.
pub(crate) struct Places<V: Kept> {
    store: Arc<Store<V>>,
    places: Arc<[Place<V>]>,
}

/// Two of them are in a line of memory.
#[repr(align(32))]
struct Place<V: Kept> {
    /// [`Places`] empties every place when it goes, and no place is filled without one: so none asks all threads by itself.
    value: Spot<V>,
    /// Where the memory is that the value has elsewhere, or was, to have it fetched before it is known to be there: a wrong one
    /// costs time and nothing else. Not of `sync`: nothing follows from what it holds.
    start: std::sync::atomic::AtomicPtr<u8>,
    /// With a value: how often it was used, up to [`USES_MAX`]. Without one: when it was emptied, above that; or 0.
    mark: AtomicU32,
    /// Of the value, if there is one. Read and written under the lock of the queues.
    weight: AtomicU32,
}

const USES_MAX: u32 = 3;

impl<V: Kept> Place<V> {
    fn is_filled(&self) -> bool {
        !self.value.address().is_null()
    }

    /// Under the lock of the queues. Gives what was there.
    fn put(&self, value: &Arc<V>) -> Option<Retired<V>> {
        self.start.store(value.start().cast_mut(), Ordering::Relaxed);
        self.value.put(Some(Arc::clone(value)))
    }

    /// Has the counts of the value fetched, which stand in the line before it.
    #[inline]
    fn fetch_counts(&self) {
        fetch_ahead(self.value.address().cast::<u8>().wrapping_sub(1), 1);
    }

    /// Has the value fetched, and of the memory that it has elsewhere what is from `offset` on, up to [`FETCHED`].
    #[inline]
    fn fetch_value(&self, offset: usize) {
        fetch_ahead(self.value.address(), 1);
        fetch_ahead(self.start.load(Ordering::Relaxed).wrapping_add(offset), FETCHED);
    }
}

struct Queues<V: Kept> {
    small: VecDeque<Entry<V>>,
    main: VecDeque<Entry<V>>,
    /// Of the entries in the small queue.
    small_weight: usize,
    /// Of the filled places, and their number.
    weight: usize,
    filled: usize,
    /// How many places were emptied so far, for lack of use. Begins anew at 0.
    emptied: u32,
    /// Of the capacity, what something else takes.
    reserved: usize,
    /// What was emptied, until it is known that nobody holds it.
    limbo: Limbo<V>,
    /// How many were put there since it was last sifted, and their weight.
    fresh: usize,
    fresh_weight: usize,
    /// What nobody holds, for those who fill.
    free: Vec<Arc<V>>,
}

/// So many values are in limbo when all threads are asked, and so many free ones wait for who fills.
const BATCH: usize = 16;

/// Or what weighs more than this part of the capacity is in limbo: then nothing free waits.
const SLACK: usize = 64;

/// What had to go, and nobody holds: freed by who gets it, not under the lock.
pub(crate) struct Gone<V> {
    /// Most often no more, and no memory is needed to say so.
    one: Option<Arc<V>>,
    more: Vec<Arc<V>>,
}

impl<V> Gone<V> {
    pub(crate) const NONE: Gone<V> = Gone { one: None, more: Vec::new() };
}

impl<V> IntoIterator for Gone<V> {
    type Item = Arc<V>;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Arc<V>>, std::vec::IntoIter<Arc<V>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.one.into_iter().chain(self.more)
    }
}

struct Entry<V: Kept> {
    places: Arc<[Place<V>]>,
    at: usize,
    /// When it came.
    weight: usize,
}

impl<V: Kept> Entry<V> {
    fn place(&self) -> &Place<V> {
        &self.places[self.at]
    }
}

impl<V: Kept> Store<V> {
    pub(crate) fn new(capacity: usize) -> Arc<Store<V>> {
        let queues = Queues {
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_weight: 0,
            weight: 0,
            filled: 0,
            emptied: 0,
            reserved: 0,
            limbo: Limbo::new(),
            fresh: 0,
            fresh_weight: 0,
            free: Vec::new(),
        };
        Arc::new(Store { capacity, queues: Mutex::new(queues) })
    }

    /// `count` empty places.
    pub(crate) fn places(self: &Arc<Self>, count: usize) -> Places<V> {
        let place = |_| Place {
            value: Spot::empty(),
            start: Default::default(),
            mark: AtomicU32::new(0),
            weight: AtomicU32::new(0),
        };
        let count = if self.capacity == 0 { 0 } else { count };
        Places { store: Arc::clone(self), places: (0..count).map(place).collect() }
    }

    /// The weight of what is there.
    pub(crate) fn weight(&self) -> usize {
        self.queues.lock().weight
    }

    /// Gives so much of the capacity to something else, until [`Store::unreserve`]; and what had to go for that.
    pub(crate) fn reserve(&self, weight: usize) -> Gone<V> {
        let mut queues = self.queues.lock();
        queues.reserved += weight;
        queues.make_room(0, self.capacity);
        queues.settle(self.capacity)
    }

    /// Takes back what was given to something else.
    pub(crate) fn unreserve(&self, weight: usize) {
        self.queues.lock().reserved -= weight;
    }

    /// What is left of the capacity for values.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queues.lock().reserved)
    }

    /// Empties every place.
    pub(crate) fn clear(&self) {
        let mut queues = self.queues.lock();
        while queues.weight > 0 {
            queues.turn(0);
        }
        let gone = queues.settle_all();
        drop(queues);
        drop(gone);
    }
}

/// So many places are fetched of those that may be looked at: as many as an index can't tell apart at first, and one more.
const NEAR: usize = GROUP + 1;

/// What a search of a usual block looks at first, or a walk over it that comes from either side, in bytes.
const FETCHED: usize = 6 * 64;

/// What is fetched of the end of a value begins so far before what it weighs, in bytes: that counts what is around it, and what
/// it has and does not use.
const AROUND_THE_END: usize = FETCHED + 192;

impl<V: Kept> Places<V> {
    /// The memory that the places take themselves, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// The value in place `at`, if there is one.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Held<V>> {
        let place = self.places.get(at)?;
        place.fetch_value(0);
        let found = place.value.hold()?;
        // Uses that are lost between threads change nothing but which value stays. A store that is not needed would make
        // readers fight for the cache line.
        let uses = place.mark.load(Ordering::Relaxed);
        if uses < USES_MAX {
            place.mark.store(uses + 1, Ordering::Relaxed);
        }
        Some(found)
    }

    /// True if there is a value in place `at`, or was just now.
    pub(crate) fn is_filled(&self, at: usize) -> bool {
        self.places.get(at).is_some_and(Place::is_filled)
    }

    /// Has the places from `at` on fetched, a few of which will be looked at soon.
    #[inline]
    pub(crate) fn fetch(&self, at: usize) {
        if let Some(place) = self.places.get(at) {
            fetch_ahead(place, NEAR * size_of::<Place<V>>());
        }
    }

    /// Has the counts of the value in place `at` fetched, for who is going to share it.
    #[inline]
    pub(crate) fn fetch_counts(&self, at: usize) {
        if let Some(place) = self.places.get(at) {
            place.fetch_counts();
        }
    }

    /// Has the beginning of what is in place `at` fetched, which will be looked at soon.
    pub(crate) fn fetch_start(&self, at: usize) {
        if let Some(place) = self.places.get(at) {
            place.fetch_value(0);
        }
    }

    /// Has the end of what is in place `at` fetched, which will be looked at soon.
    pub(crate) fn fetch_end(&self, at: usize) {
        if let Some(place) = self.places.get(at) {
            let weight = place.weight.load(Ordering::Relaxed) as usize;
            place.fetch_value(weight.saturating_sub(AROUND_THE_END));
        }
    }

    /// Fills place `at`, unless it is filled or the value is too heavy for any, and gives what had to go for that.
    pub(crate) fn fill(&self, at: usize, value: &Arc<V>) -> Gone<V> {
        let (Some(place), Some((weight, room))) = (self.places.get(at), self.store.weigh(value)) else {
            return Gone::NONE;
        };
        let mut queues = self.store.queues.lock();
        if place.is_filled() || !queues.make_room(room, self.store.capacity) {
            return Gone::NONE;
        }
        let none = place.put(value);
        debug_assert!(none.is_none(), "places are filled under the lock");
        place.weight.store(weight, Ordering::Relaxed);
        let emptied = Some(place.mark.load(Ordering::Relaxed)).filter(|mark| *mark > USES_MAX);
        place.mark.store(0, Ordering::Relaxed);
        let recent = queues.main.len();
        let back_soon = emptied.is_some_and(|then| (queues.mark().wrapping_sub(then) as usize) < recent);
        queues.push(Entry { places: Arc::clone(&self.places), at, weight: room }, back_soon);
        (queues.weight, queues.filled) = (queues.weight + room, queues.filled + 1);
        queues.settle(self.store.capacity)
    }

    /// Puts `value` in the place of the value in place `at`, if there is one, and gives what had to go for that: the one that
    /// was there, and what it takes more room than that.
    pub(crate) fn replace(&self, at: usize, value: &Arc<V>) -> Gone<V> {
        let (Some(place), Some((weight, room))) = (self.places.get(at), self.store.weigh(value)) else {
            return Gone::NONE;
        };
        let mut queues = self.store.queues.lock();
        if !place.is_filled() {
            return Gone::NONE;
        }
        let old = place.put(value);
        queues.weight += room;
        queues.retire(old, place.weight.swap(weight, Ordering::Relaxed));
        queues.make_room(0, self.store.capacity);
        queues.settle(self.store.capacity)
    }
}

impl<V: Kept> Store<V> {
    /// The weight of a value, twice, unless it is too heavy for any room.
    fn weigh(&self, value: &V) -> Option<(u32, usize)> {
        let weight = value.weight();
        let fits = u32::try_from(weight).ok().filter(|_| weight <= self.capacity);
        fits.map(|small| (small, weight))
    }
}

impl<V: Kept> Drop for Places<V> {
    fn drop(&mut self) {
        let mut queues = self.store.queues.lock();
        self.places.iter().filter(|place| place.is_filled()).for_each(|place| queues.empty(place));
        queues.sweep();
        let gone = queues.settle_all();
        drop(queues);
        drop(gone);
    }
}

/// Fewer dead entries than this are not worth a sweep.
const SWEEP_MIN: usize = 64;

impl<V: Kept> Queues<V> {
    /// Of a place that is emptied now.
    fn mark(&self) -> u32 {
        self.emptied.max(USES_MAX + 1)
    }

    fn push(&mut self, entry: Entry<V>, to_main: bool) {
        if to_main {
            self.main.push_back(entry);
        } else {
            self.small_weight += entry.weight;
            self.small.push_back(entry);
        }
    }

    /// Empties places until so much more has room. False if it never has.
    fn make_room(&mut self, weight: usize, capacity: usize) -> bool {
        let capacity = capacity.saturating_sub(self.reserved);
        if weight > capacity {
            return false;
        }
        while self.weight + weight > capacity {
            self.turn(capacity / 10);
        }
        true
    }

    /// Takes the next entry of the small queue, if that weighs more than `small_max`, else of the main queue: its place
    /// is emptied, or it goes to the main queue.
    fn turn(&mut self, small_max: usize) {
        let from_small = self.small_weight > small_max || self.main.is_empty();
        let Some(entry) = (if from_small { self.small.pop_front() } else { self.main.pop_front() }) else {
            return;
        };
        if from_small {
            self.small_weight -= entry.weight;
        }
        let place = entry.place();
        if !place.is_filled() {
            return;
        }
        match place.mark.load(Ordering::Relaxed) {
            0 => {
                self.emptied = self.emptied.wrapping_add(1);
                place.mark.store(self.mark(), Ordering::Relaxed);
                self.empty(place);
            }
            uses => {
                let left = if from_small { 0 } else { uses - 1 };
                place.mark.store(left.min(USES_MAX), Ordering::Relaxed);
                self.push(entry, true);
            }
        }
    }

    /// Empties a place that is filled.
    fn empty(&mut self, place: &Place<V>) {
        self.filled -= 1;
        self.retire(place.value.put(None), place.weight.load(Ordering::Relaxed));
    }

    /// What was in a place and had this weight goes to limbo. Nothing of it is touched: it is long since anybody looked at it.
    fn retire(&mut self, value: Option<Retired<V>>, weight: u32) {
        // The caller looked under the lock.
        self.limbo.put(value.expect("a place that is filled stays so under the lock"));
        self.weight -= weight as usize;
        self.fresh += 1;
        self.fresh_weight += weight as usize;
    }

    /// Asks all threads, if that is worth it, and gives about as many free values as are filled in: then who fills has memory for
    /// the next one, and nobody gets many at once.
    fn settle(&mut self, capacity: usize) -> Gone<V> {
        let heavy = self.fresh_weight > capacity / SLACK;
        if heavy || self.fresh >= BATCH {
            self.sift();
        }
        let kept = if heavy { 0 } else { BATCH };
        let one = if self.free.is_empty() { None } else { Some(self.free.swap_remove(0)) };
        let more = self.free.split_off(kept.min(self.free.len()));
        Gone { one, more }
    }

    /// Asks all threads, and gives all that nobody holds.
    fn settle_all(&mut self) -> Gone<V> {
        self.sift();
        Gone { one: None, more: std::mem::take(&mut self.free) }
    }

    fn sift(&mut self) {
        self.limbo.sift(&mut self.free);
        (self.fresh, self.fresh_weight) = (0, 0);
    }

    /// Drops the entries of owners that are gone when they are more than half of all.
    fn sweep(&mut self) {
        if self.small.len() + self.main.len() <= 2 * self.filled + SWEEP_MIN {
            return;
        }
        for queue in [&mut self.small, &mut self.main] {
            queue.retain(|entry| entry.place().is_filled());
        }
        self.small_weight = self.small.iter().map(|entry| entry.weight).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weight.
    impl Kept for usize {
        fn weight(&self) -> usize {
            *self
        }

        fn start(&self) -> *const u8 {
            std::ptr::null()
        }
    }

    impl Gone<usize> {
        fn list(self) -> Vec<usize> {
            self.into_iter().map(|value| *value).collect()
        }
    }

    fn store(capacity: usize) -> Arc<Store<usize>> {
        Store::new(capacity)
    }

    /// The places that are filled.
    fn filled(places: &Places<usize>) -> Vec<usize> {
        (0..places.places.len()).filter(|&at| places.places[at].is_filled()).collect()
    }

    #[test]
    fn the_oldest_goes_first() {
        let store = store(30);
        let places = store.places(5);
        (0..5).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert_eq!((filled(&places), store.weight()), (vec![2, 3, 4], 30));
    }

    #[test]
    fn a_scan_does_not_displace_what_is_used() {
        let store = store(100);
        let places = store.places(1000);
        (0..5).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        (0..5).for_each(|at| assert!(places.get(at).is_some()));
        (5..1000).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert_eq!(filled(&places)[..5], [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_comes_back_soon_stays_longer() {
        let store = store(100);
        let places = store.places(1000);
        (0..10).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        (0..9).for_each(|at| assert!(places.get(at).is_some()));
        (10..18).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert!(places.get(10).is_none(), "it left by the small queue");
        places.fill(10, &Arc::new(10));
        (20..30).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert!(places.get(10).is_some());
    }

    #[test]
    fn too_heavy_for_any_room() {
        let store = store(10);
        let places = store.places(1);
        places.fill(0, &Arc::new(11));
        assert!(places.get(0).is_none() && store.weight() == 0);
        let none = super::tests::store(0).places(8);
        none.fill(0, &Arc::new(0));
        assert!(none.get(0).is_none());
    }

    #[test]
    fn what_something_else_takes_is_not_there() {
        let store = store(40);
        let places = store.places(5);
        (0..4).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert_eq!(store.reserve(15).list().len(), 2);
        assert_eq!((filled(&places), store.weight(), store.room()), (vec![2, 3], 20, 25));
        assert!(places.fill(0, &Arc::new(26)).list().is_empty(), "too heavy for what is left");
        assert_eq!(store.reserve(30).list().len(), 2, "more than there is");
        assert!(places.fill(0, &Arc::new(1)).list().is_empty());
        assert_eq!((filled(&places), store.room()), (vec![], 0));
        store.unreserve(45);
        (0..5).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert_eq!((filled(&places).len(), store.room()), (4, 40));
    }

    #[test]
    fn a_heavier_one_in_its_place_needs_room() {
        let store = store(30);
        let places = store.places(5);
        (0..3).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert!(places.get(2).is_some());
        assert_eq!(places.replace(2, &Arc::new(15)).list(), [10, 10], "itself, and another one");
        assert_eq!((filled(&places), store.weight()), (vec![1, 2], 25));
        assert!(places.replace(0, &Arc::new(15)).list().is_empty(), "it went meanwhile");
        assert!(places.replace(1, &Arc::new(31)).list().is_empty(), "too heavy for any room");
        assert_eq!(places.replace(1, &Arc::new(5)).list().len(), 1, "a lighter one");
        assert_eq!((filled(&places), store.weight()), (vec![1, 2], 20));
        places.replace(1, &Arc::new(7));
        drop(places);
        assert_eq!(store.weight(), 0);
    }

    #[test]
    fn what_left_goes_to_those_who_fill_one_by_one() {
        let store = store(64_000);
        let places = store.places(8000);
        let values: Vec<Arc<usize>> = (0..8000).map(|_| Arc::new(10)).collect();
        let alive = || values.iter().filter(|value| Arc::strong_count(value) > 1).count();
        let mut held = None;
        for (at, value) in values.iter().enumerate() {
            assert!(places.fill(at, value).list().len() <= 1);
            // Not a use, which would keep it in its place.
            held = held.or_else(|| places.places[7].value.hold());
            assert!(alive() <= 6400 + 2 * BATCH);
        }
        assert!(Arc::strong_count(&values[7]) > 1 && places.get(7).is_none(), "somebody holds it");
        assert_eq!(store.weight(), 64_000);
        drop(held);
        store.clear();
        assert_eq!(alive(), 0);
    }

    #[test]
    fn an_owner_that_goes_leaves_room_and_no_entries() {
        let store = store(1000);
        for _ in 0..100 {
            let places = store.places(10);
            (0..10).for_each(|at| drop(places.fill(at, &Arc::new(10))));
            let held = places.get(3).unwrap();
            drop(places);
            assert_eq!((store.weight(), *held), (0, 10));
        }
        let queues = store.queues.lock();
        assert!(queues.small.len() + queues.main.len() <= SWEEP_MIN);
    }

    #[test]
    fn cleared() {
        let store = store(100);
        let places = store.places(10);
        (0..10).for_each(|at| drop(places.fill(at, &Arc::new(10))));
        assert!(places.get(7).is_some());
        store.clear();
        assert_eq!((filled(&places), store.weight()), (vec![], 0));
    }
}
