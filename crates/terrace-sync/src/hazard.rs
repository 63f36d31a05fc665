//! Spots that many threads read and few change, with hazard pointers (Michael, 2004): who reads a value counts nothing.
//!
//! ```text
//!   reader:   its slot = pointer (SeqCst) ── the spot still has it (SeqCst)? ── reads ── slot = null (Release)
//!   writer:   takes it out of the spot (SeqCst) ── limbo ── all slots (SeqCst): no one names it? ── free
//! ```
//!
//! Of a reader that names a value and a writer that takes it out, one sees the other: the four accesses have one order. So
//! either the reader finds that the spot has something else, or the writer finds the name. What a writer finds
//! free was read before a name was taken back, and the reading is over when the slot says so.
//!
//! Each thread has a record of slots on cache lines of its own, so to hold a value is one locked operation on a line that
//! is at hand, and to let it go is a plain store. To ask all threads is dear. So that is done for many values at once, which wait in a
//! [`RetireList`] for it: what is in one is at most what was put there since it was last sifted, and one value for each slot.
//!
//! A spot owns a count of its value, and limbo takes that over. To put a value there touches neither it nor its counts.
#![allow(unsafe_code)] // a reader's reference is counted nowhere, which is the point

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::{AtomicBool, AtomicPtr, Mutex, Ordering};

/// What threads share by spots: readers of one may be anywhere, and the last of them may be who frees it.
pub trait HazardValue: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> HazardValue for T {}

/// A place for a shared value, or for none.
pub struct HazardCell<T: HazardValue> {
    /// Null, or of `Arc::into_raw`, with a count that is the spot's.
    value: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

/// A value that is held: it stays until this is dropped, whatever happens to its spot.
///
/// Meant for a moment: a thread has few slots, and what it holds beyond them, is counted like any other [`Arc`]. Stays in its thread.
pub struct HazardGuard<T: HazardValue> {
    /// Alive: named by `slot`, or with a count that is this one's if there is none.
    value: NonNull<T>,
    slot: Option<&'static HazardSlot>,
}

/// A value that was taken out of its spot. Readers may still hold it.
///
/// Dropped, it asks all threads at once; a [`RetireList`] does so for many.
#[derive(Debug)]
#[must_use = "to drop it asks every thread"]
pub struct Retired<T: HazardValue> {
    /// None only while it is dropped, or made free.
    value: Option<Arc<T>>,
}

/// Values that were taken out of their spots, until it is known that nobody holds them.
#[derive(Debug)]
pub struct RetireList<T: HazardValue> {
    retired: Vec<Retired<T>>,
    /// What slots name; kept for its memory.
    hazards: Vec<*const ()>,
}

// SAFETY: the addresses in `named` are compared, not followed; the values go from thread to thread as an `Arc` does.
unsafe impl<T: HazardValue> Send for RetireList<T> {}
// SAFETY: as above; and a shared limbo only says how many it has.
unsafe impl<T: HazardValue> Sync for RetireList<T> {}

/// Names what its thread holds, or nothing. Written by that thread alone.
type HazardSlot = AtomicPtr<()>;

/// Of a thread; few under loom, which tries them all.
const SLOTS_PER_THREAD: usize = if cfg!(feature = "loom") { 2 } else { 8 };

/// The slots of a thread. Never freed: a thread that comes takes over that of one that went.
#[repr(align(128))]
struct HazardRecord {
    /// The last one names a value only while that is counted.
    slots: [HazardSlot; SLOTS_PER_THREAD],
    /// Set under the lock of the registry (Acquire), cleared by the thread that goes (Release): its slots are the next one's then.
    in_use: AtomicBool,
    /// Its place in the registry.
    thread_slot: usize,
}

/// All records.
///
/// A record that is not in it yet when a writer asks has a thread that locked behind the writer, and so finds the
/// spot without what the writer took out.
struct HazardRegistry {
    records: Mutex<Vec<&'static HazardRecord>>,
    /// What was held when nobody was left to sift it: at most one for each slot. Whoever drops a [`Retired`] or a [`RetireList`] looks at
    /// it.
    orphans: Mutex<Vec<OrphanedValue>>,
}

/// A value of any type.
struct OrphanedValue {
    address: *const (),
    _value: Box<dyn Send>,
}

// SAFETY: the address is compared, not followed.
unsafe impl Send for OrphanedValue {}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
static REGISTRY: HazardRegistry =
    HazardRegistry { records: Mutex::new(Vec::new()), orphans: Mutex::new(Vec::new()) };
#[cfg(any(feature = "loom", feature = "shuttle"))]
crate::lazy_static! {
    static ref REGISTRY: HazardRegistry = HazardRegistry { records: Mutex::new(Vec::new()), orphans: Mutex::new(Vec::new()) };
}

crate::thread_local! {
    /// Of this thread, if it has one. Without a destructor, so that nothing need be checked to look at it.
    static THREAD_RECORD: Cell<Option<&'static HazardRecord>> = const { Cell::new(None) };
    /// Gives it back.
    static EXIT_GUARD: ThreadExitGuard = const { ThreadExitGuard };
}

struct ThreadExitGuard;

impl Drop for ThreadExitGuard {
    fn drop(&mut self) {
        if let Some(record) = THREAD_RECORD.try_with(Cell::take).ok().flatten() {
            record.in_use.store(false, Ordering::Release);
        }
    }
}

impl HazardRecord {
    /// One that no thread has.
    fn claim() -> &'static HazardRecord {
        let mut records = REGISTRY.records.lock();
        if let Some(record) = records.iter().find(|record| !record.in_use.load(Ordering::Acquire)) {
            record.in_use.store(true, Ordering::Relaxed);
            return record;
        }
        let number = records.len();
        let record =
            HazardRecord { slots: Default::default(), in_use: AtomicBool::new(true), thread_slot: number };
        let record: &'static HazardRecord = Box::leak(Box::new(record));
        records.push(record);
        record
    }

    /// This thread's. None when the thread is so near its end that it can't give one back.
    #[cold]
    fn for_new_thread() -> Option<&'static HazardRecord> {
        EXIT_GUARD.try_with(|_| ()).ok()?;
        let record = HazardRecord::claim();
        THREAD_RECORD.try_with(|own| own.set(Some(record))).ok()?;
        Some(record)
    }

    /// A slot that names nothing, if there is one.
    #[inline]
    fn free_slot(&'static self) -> Option<&'static HazardSlot> {
        // Only this thread writes to them; but the one before may have let go behind its keeper, in another destructor (Release
        // there, Acquire here).
        self.slots[..SLOTS_PER_THREAD - 1].iter().find(|slot| slot.load(Ordering::Acquire).is_null())
    }
}

/// A small number that no other thread has as long as this one lives; what a thread before it did under that number happened
/// before. None to a thread that is nearly gone, and to those of a model checker.
#[inline]
pub fn thread_slot() -> Option<usize> {
    if cfg!(any(feature = "loom", feature = "shuttle")) {
        return None;
    }
    let own = THREAD_RECORD.try_with(Cell::get).ok().flatten();
    own.or_else(HazardRecord::for_new_thread).map(|record| record.thread_slot)
}

impl<T: HazardValue> HazardCell<T> {
    /// With nothing in it.
    pub fn empty() -> HazardCell<T> {
        HazardCell { value: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Where its value is or just was, null if there was none: for who wants to know whether there is any, or have it fetched.
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self.value.load(Ordering::Relaxed)
    }

    /// Holds its value, if it has one.
    #[inline]
    pub fn protect(&self) -> Option<HazardGuard<T>> {
        if self.as_ptr().is_null() {
            return None;
        }
        let record = THREAD_RECORD.try_with(Cell::get).ok().flatten();
        match record.and_then(HazardRecord::free_slot) {
            Some(slot) => self.announce(slot).map(|value| HazardGuard { value, slot: Some(slot) }),
            None => self.protect_slow(record),
        }
    }

    #[cold]
    fn protect_slow(&self, record: Option<&'static HazardRecord>) -> Option<HazardGuard<T>> {
        let own = record.or_else(HazardRecord::for_new_thread);
        match own.and_then(HazardRecord::free_slot) {
            Some(slot) => self.announce(slot).map(|value| HazardGuard { value, slot: Some(slot) }),
            None => self.protect_by_count(own),
        }
    }

    /// Has `slot` name the value, if there is one.
    #[inline]
    fn announce(&self, slot: &'static HazardSlot) -> Option<NonNull<T>> {
        let mut seen = self.value.load(Ordering::Relaxed);
        loop {
            // Before the second look at the spot, for every thread: pairs with `Spot::swap` and `HazardRegistry::snapshot_hazards`, as the head of
            // this file says.
            slot.store(seen.cast(), Ordering::SeqCst);
            crate::fence_for_checker();
            // Also pairs with the store in `put`, which comes behind all that made the value.
            let now = self.value.load(Ordering::SeqCst);
            if now == seen {
                let named = NonNull::new(now);
                if named.is_none() {
                    slot.store(ptr::null_mut(), Ordering::Release);
                }
                return named;
            }
            seen = now;
        }
    }

    /// Holds the value by a count: the thread has no slot to spare, or can have no record of its own.
    fn protect_by_count(&self, own: Option<&'static HazardRecord>) -> Option<HazardGuard<T>> {
        let record = own.unwrap_or_else(HazardRecord::claim);
        let slot = &record.slots[SLOTS_PER_THREAD - 1];
        let held = self.announce(slot).map(|value| {
            // SAFETY: of `Arc::into_raw`, as the field says; and while the slot names it the count that was the spot's is not given up.
            unsafe { Arc::increment_strong_count(value.as_ptr()) };
            HazardGuard { value, slot: None }
        });
        // Pairs with the SeqCst load in `HazardRegistry::snapshot_hazards`: who sees it sees the new count.
        slot.store(ptr::null_mut(), Ordering::Release);
        if own.is_none() {
            record.in_use.store(false, Ordering::Release);
        }
        held
    }

    /// Puts `value` there, and gives what was there.
    pub fn swap(&self, value: Option<Arc<T>>) -> Option<Retired<T>> {
        let new = value.map_or(ptr::null(), Arc::into_raw);
        // Pairs with both looks of a reader at the spot, as the head of this file says.
        let old = self.value.swap(new.cast_mut(), Ordering::SeqCst);
        // SAFETY: of `Arc::into_raw`, with the count that was the spot's: who takes a pointer out takes that too, and
        // each is taken out once.
        let old = (!old.is_null()).then(|| unsafe { Arc::from_raw(old) });
        old.map(|old| Retired { value: Some(old) })
    }
}

impl<T: HazardValue> Drop for HazardCell<T> {
    fn drop(&mut self) {
        if !self.as_ptr().is_null() {
            drop(self.swap(None));
        }
    }
}

impl<T: HazardValue> Default for HazardCell<T> {
    fn default() -> HazardCell<T> {
        HazardCell::empty()
    }
}

impl<T: HazardValue> fmt::Debug for HazardCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spot({:?})", self.as_ptr())
    }
}

impl<T: HazardValue> HazardGuard<T> {
    /// To be kept, or to go to another thread.
    pub fn to_arc(&self) -> Arc<T> {
        // SAFETY: of `Arc::into_raw`, and alive, as the field says.
        unsafe { Arc::increment_strong_count(self.value.as_ptr()) };
        // SAFETY: with the count that was just made for it.
        unsafe { Arc::from_raw(self.value.as_ptr()) }
    }
}

impl<T: HazardValue> Deref for HazardGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: alive, as the field says, and shared, so that nobody writes to it.
        unsafe { self.value.as_ref() }
    }
}

impl<T: HazardValue> Drop for HazardGuard<T> {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            // Pairs with the SeqCst load in `HazardRegistry::snapshot_hazards`: all reading is over for who sees it.
            Some(slot) => slot.store(ptr::null_mut(), Ordering::Release),
            // SAFETY: without a slot it has a count of its own, made by `Spot::protect_by_count`.
            None => unsafe { Arc::decrement_strong_count(self.value.as_ptr()) },
        }
    }
}

impl<T: HazardValue + fmt::Debug> fmt::Debug for HazardGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: HazardValue> RetireList<T> {
    /// With nothing in it.
    pub const fn new() -> RetireList<T> {
        RetireList { retired: Vec::new(), hazards: Vec::new() }
    }

    /// Adds a value, which is not touched.
    pub fn push(&mut self, retired: Retired<T>) {
        self.retired.push(retired);
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.retired.len()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.retired.is_empty()
    }

    /// Asks every thread once, and moves to `free` what nobody holds, in the order in which it came.
    pub fn reclaim(&mut self, free: &mut Vec<Arc<T>>) {
        if self.retired.is_empty() {
            return;
        }
        REGISTRY.snapshot_hazards(&mut self.hazards);
        let named = &self.hazards;
        self.retired.retain_mut(|retired| {
            let is_named = named.binary_search(&retired.address()).is_ok();
            if !is_named {
                free.extend(retired.value.take());
            }
            is_named
        });
    }
}

impl<T: HazardValue> Default for RetireList<T> {
    fn default() -> RetireList<T> {
        RetireList::new()
    }
}

impl<T: HazardValue> Drop for RetireList<T> {
    fn drop(&mut self) {
        // What is left then asks once more, and is an orphan.
        self.reclaim(&mut Vec::new());
    }
}

impl<T: HazardValue> Retired<T> {
    fn address(&self) -> *const () {
        self.value.as_ref().map_or(ptr::null(), |value| Arc::as_ptr(value).cast())
    }
}

impl<T: HazardValue> Drop for Retired<T> {
    fn drop(&mut self) {
        let address = self.address();
        if let Some(value) = self.value.take() {
            REGISTRY.reclaim_orphans(OrphanedValue { address, _value: Box::new(value) });
        }
    }
}

impl HazardRegistry {
    /// Puts into `named` what slots name now, in order. What was taken out of its spot before that, and is not among them, nobody
    /// holds nor will.
    fn snapshot_hazards(&self, named: &mut Vec<*const ()>) {
        named.clear();
        let records = self.records.lock();
        crate::fence_for_checker();
        for slot in records.iter().flat_map(|record| &record.slots) {
            // Pairs with the stores to slots: in `name_in`, which is in one order with this and with `Spot::swap`, and
            // in `Held::drop` and `count`.
            let name = slot.load(Ordering::SeqCst).cast_const();
            named.extend(Some(name).filter(|name| !name.is_null()));
        }
        drop(records);
        named.sort_unstable();
    }

    /// Drops `new` and all orphans that nobody holds.
    fn reclaim_orphans(&self, new: OrphanedValue) {
        let mut named = Vec::new();
        let mut orphans = self.orphans.lock();
        orphans.push(new);
        self.snapshot_hazards(&mut named);
        let free: Vec<_> =
            orphans.extract_if(.., |orphan| named.binary_search(&orphan.address).is_err()).collect();
        drop(orphans);
        // Outside of the lock: what goes may take others along.
        drop(free);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn live_threads_have_distinct_slots() {
        let all = Barrier::new(10);
        let numbers = || {
            crate::thread::scope(|scope| {
                let number = || {
                    let number = thread_slot();
                    all.wait();
                    assert_eq!(thread_slot(), number);
                    number.unwrap()
                };
                let threads: Vec<_> = (0..10).map(|_| scope.spawn(number)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<HashSet<_>>()
            })
        };
        let turns: Vec<_> = (0..20).map(|_| numbers()).collect();
        assert!(turns.iter().all(|numbers| numbers.len() == 10), "{turns:?}");
        assert!(turns.iter().flatten().all(|number| *number < 100), "they come again: {turns:?}");
    }

    /// A spot, and how often its value is counted.
    fn spot() -> (HazardCell<u32>, impl Fn() -> usize) {
        let (spot, value) = (HazardCell::empty(), Arc::new(7));
        assert!(spot.swap(Some(Arc::clone(&value))).is_none());
        (spot, move || Arc::strong_count(&value) - 1)
    }

    #[test]
    fn protects_more_values_than_slots() {
        let (spot, counts) = spot();
        let held: Vec<_> = (0..2 * SLOTS_PER_THREAD).filter_map(|_| spot.protect()).collect();
        assert_eq!(counts(), 1 + SLOTS_PER_THREAD + 1, "the last slot is for counting");
        let (mut limbo, mut free) = (RetireList::new(), Vec::new());
        limbo.push(spot.swap(None).unwrap());
        limbo.reclaim(&mut free);
        assert!(free.is_empty() && spot.protect().is_none() && held.iter().all(|held| **held == 7));
        drop(held);
        limbo.reclaim(&mut free);
        assert_eq!((limbo.len(), free.len(), counts()), (0, 1, 1));
    }

    #[test]
    fn guard_outlives_its_cell() {
        let (spot, counts) = spot();
        let held = spot.protect().unwrap();
        drop(spot);
        assert_eq!((*held, counts()), (7, 1));
        drop(held);
        drop(super::tests::spot());
        assert_eq!(counts(), 0);
    }

    #[test]
    fn swap_under_concurrent_readers() {
        let spot = HazardCell::empty();
        let gone = AtomicBool::new(false);
        crate::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !gone.load(Ordering::Relaxed) {
                        let held: [Option<HazardGuard<[u64; 2]>>; 10] =
                            std::array::from_fn(|_| spot.protect());
                        for [one, other] in held.iter().flatten().map(|held| **held) {
                            assert_eq!(one, !other);
                            assert!(one >= last);
                            last = one;
                        }
                    }
                });
            }
            let (mut limbo, mut free) = (RetireList::new(), Vec::new());
            for n in 1..20_000u64 {
                spot.swap(Some(Arc::new([n, !n]))).into_iter().for_each(|retired| limbo.push(retired));
                if limbo.len() >= 10 {
                    limbo.reclaim(&mut free);
                    free.clear();
                }
                assert!(limbo.len() <= 10 + 4 * SLOTS_PER_THREAD, "{}", limbo.len());
            }
            gone.store(true, Ordering::Relaxed);
        });
        // Not by its end, which would take care of what another test left.
        spot.swap(None).into_iter().for_each(|retired| RetireList::new().push(retired));
    }
}
