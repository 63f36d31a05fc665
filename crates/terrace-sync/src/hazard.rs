//! Hazard pointers (Michael, 2004): cells that many threads read and few change. A read changes no
//! reference count.
//!
//! ```text
//!   reader:  slot = pointer (SeqCst) -> cell unchanged (SeqCst)? -> read -> slot = null (Release)
//!   writer:  swap the cell (SeqCst) -> retire list -> scan all slots (SeqCst): not found? -> free
//! ```
//!
//! A reader announces a value, and a writer removes it from the cell. The four SeqCst accesses have
//! one total order. Therefore the reader finds that the cell has changed, or the writer finds the
//! announcement. A slot without the value means that the reads before the slot's Release store are
//! over.
//!
//! Each thread has a record of slots on its own cache lines. To protect a value costs one locked
//! operation on a cached line, and to release it costs a plain store. A scan of all threads is
//! expensive, so a [`RetireList`] collects retired values and scans once for many. It holds at most
//! the values that were pushed since the last scan, and one value for each slot.
//!
//! A cell owns one reference count of its value, which the retire list takes over. Pushing a value
//! accesses neither the value nor its counts.
// Guards do not count their references, which is the purpose of hazard pointers.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::{AtomicBool, AtomicPtr, Mutex, Ordering};

/// Value that threads share through cells. Any thread may read it, and the last reader may free it.
pub trait HazardValue: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> HazardValue for T {}

/// Shared cell that holds a value or none.
pub struct HazardCell<T: HazardValue> {
    /// Null, or a pointer of `Arc::into_raw` with one reference count, which the cell owns.
    value: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

/// Guard of a protected value. The value stays alive until the guard is dropped, even if its cell
/// changes.
///
/// Guards are for short reads: a thread has few slots, and guards beyond them use a reference count
/// like [`Arc`]. A guard stays in its thread.
pub struct HazardGuard<T: HazardValue> {
    /// Pointer to a live value: `slot` announces it, or the guard owns a reference count if there
    /// is no slot.
    value: NonNull<T>,
    slot: Option<&'static HazardSlot>,
}

/// Value that was removed from its cell. Readers may still hold it.
///
/// Dropping it scans all threads. A [`RetireList`] scans once for many values.
#[derive(Debug)]
#[must_use = "dropping it scans every thread"]
pub struct Retired<T: HazardValue> {
    /// None only during the drop, or after the value was freed.
    value: Option<Arc<T>>,
}

/// Retired values that readers may still hold.
#[derive(Debug)]
pub struct RetireList<T: HazardValue> {
    retired: Vec<Retired<T>>,
    /// Addresses in slots at the last scan. The field keeps the memory.
    hazards: Vec<*const ()>,
}

// SAFETY: `hazards` holds addresses that are only compared, never dereferenced. The values in
// `retired` are `Arc<T>`, and `T` is Send and Sync.
unsafe impl<T: HazardValue> Send for RetireList<T> {}
// SAFETY: a shared reference only gives access to the number of values. `hazards` is never
// dereferenced, and `T` is Send and Sync.
unsafe impl<T: HazardValue> Sync for RetireList<T> {}

/// Announcement of a value that a thread reads, or null. Only that thread writes it.
type HazardSlot = AtomicPtr<()>;

/// Slots of a thread. Loom explores all of them, so it has fewer.
const SLOTS_PER_THREAD: usize = if cfg!(feature = "loom") { 2 } else { 8 };

/// Slots of a thread. A record is never freed: a new thread reuses the record of an ended one.
#[repr(align(128))]
struct HazardRecord {
    /// The last slot is for values that get a reference count: it announces one only until the
    /// count is taken.
    slots: [HazardSlot; SLOTS_PER_THREAD],
    /// Set with the registry locked (Acquire load before), cleared by the ending thread (Release
    /// store). The pair passes the slots to the next thread.
    in_use: AtomicBool,
    /// Index of the record in the registry.
    thread_slot: usize,
}

/// Registry of all records.
///
/// A scan may miss a new record. The thread of that record then locked the registry after the scan,
/// so it finds the cell without the removed value.
struct HazardRegistry {
    records: Mutex<Vec<&'static HazardRecord>>,
    /// Values that readers held when their retire list was dropped: at most one for each slot.
    /// Every drop of a [`Retired`] or a [`RetireList`] scans for them.
    orphans: Mutex<Vec<OrphanedValue>>,
}

/// Value of any type.
struct OrphanedValue {
    address: *const (),
    _value: Box<dyn Send>,
}

// SAFETY: `address` is only compared, never dereferenced, and `_value` is Send.
unsafe impl Send for OrphanedValue {}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
static REGISTRY: HazardRegistry =
    HazardRegistry { records: Mutex::new(Vec::new()), orphans: Mutex::new(Vec::new()) };
#[cfg(any(feature = "loom", feature = "shuttle"))]
crate::lazy_static! {
    static ref REGISTRY: HazardRegistry =
        HazardRegistry { records: Mutex::new(Vec::new()), orphans: Mutex::new(Vec::new()) };
}

crate::thread_local! {
    /// Record of this thread, if it has one. The cell has no destructor, so an access needs no
    /// check.
    static THREAD_RECORD: Cell<Option<&'static HazardRecord>> = const { Cell::new(None) };
    /// Returns the record at the end of the thread.
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
    /// Claims a record that no thread uses.
    fn claim() -> &'static HazardRecord {
        let mut records = REGISTRY.records.lock();
        if let Some(record) = records.iter().find(|record| !record.in_use.load(Ordering::Acquire)) {
            record.in_use.store(true, Ordering::Relaxed);
            return record;
        }
        let record: &'static HazardRecord = Box::leak(Box::new(HazardRecord {
            slots: Default::default(),
            in_use: AtomicBool::new(true),
            thread_slot: records.len(),
        }));
        records.push(record);
        record
    }

    /// Claims a record for this thread. Returns `None` if the thread is about to end and cannot
    /// return a record.
    #[cold]
    fn for_new_thread() -> Option<&'static HazardRecord> {
        EXIT_GUARD.try_with(|_| ()).ok()?;
        let record = HazardRecord::claim();
        THREAD_RECORD.try_with(|own| own.set(Some(record))).ok()?;
        Some(record)
    }

    /// Returns a slot that announces nothing, if there is one.
    #[inline]
    fn free_slot(&'static self) -> Option<&'static HazardSlot> {
        // Only this thread writes its slots. The previous owner may have released one in a
        // destructor after its `ThreadExitGuard`: the Acquire load pairs with the Release store in
        // `HazardGuard::drop`.
        self.slots[..SLOTS_PER_THREAD - 1].iter().find(|slot| slot.load(Ordering::Acquire).is_null())
    }
}

/// Takes the locks of the registry for a fork. In the child, clears the announcements of the other
/// threads, which the child does not have, and frees their records.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) fn lock_for_fork(locks: &mut crate::ForkLocks) {
    locks.lock_static(&REGISTRY.orphans);
    locks.lock_static(&REGISTRY.records);
    locks.run_in_child(|| {
        let own = THREAD_RECORD.try_with(Cell::get).ok().flatten().map(|record| record.thread_slot);
        for record in REGISTRY.records.lock().iter().filter(|record| Some(record.thread_slot) != own) {
            for slot in &record.slots {
                slot.store(ptr::null_mut(), Ordering::Relaxed);
            }
            record.in_use.store(false, Ordering::Relaxed);
        }
    });
}

/// Returns a small number that no other live thread has.
///
/// Everything that an earlier thread did with the same number happened before. Returns `None` to a
/// thread that is about to end, and to threads of a model checker.
#[inline]
pub fn thread_slot() -> Option<usize> {
    if cfg!(any(feature = "loom", feature = "shuttle")) {
        return None;
    }
    let own = THREAD_RECORD.try_with(Cell::get).ok().flatten();
    own.or_else(HazardRecord::for_new_thread).map(|record| record.thread_slot)
}

impl<T: HazardValue> HazardCell<T> {
    /// Creates an empty cell.
    pub fn empty() -> HazardCell<T> {
        HazardCell { value: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Returns the current or a recent address of the value, or null, for a check of presence or a
    /// prefetch.
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self.value.load(Ordering::Relaxed)
    }

    /// Protects the value and returns its guard, if there is a value.
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
        let record = record.or_else(HazardRecord::for_new_thread);
        match record.and_then(HazardRecord::free_slot) {
            Some(slot) => self.announce(slot).map(|value| HazardGuard { value, slot: Some(slot) }),
            None => self.protect_by_count(record),
        }
    }

    /// Announces the value in `slot`, if there is a value.
    #[inline]
    fn announce(&self, slot: &'static HazardSlot) -> Option<NonNull<T>> {
        let mut announced = self.value.load(Ordering::Relaxed);
        loop {
            // Precedes the second load of the cell in the total order of SeqCst accesses. Pairs
            // with `HazardCell::swap` and `HazardRegistry::snapshot_hazards`, as the module comment
            // explains.
            slot.store(announced.cast(), Ordering::SeqCst);
            crate::fence_for_checker();
            // Also pairs with the SeqCst store of `HazardCell::swap`, which follows the
            // initialisation of the value.
            let current = self.value.load(Ordering::SeqCst);
            if current == announced {
                let value = NonNull::new(current);
                if value.is_none() {
                    slot.store(ptr::null_mut(), Ordering::Release);
                }
                return value;
            }
            announced = current;
        }
    }

    /// Protects the value by a reference count, because the thread has no free slot, or cannot have
    /// a record.
    fn protect_by_count(&self, own: Option<&'static HazardRecord>) -> Option<HazardGuard<T>> {
        let record = own.unwrap_or_else(HazardRecord::claim);
        let slot = &record.slots[SLOTS_PER_THREAD - 1];
        let guard = self.announce(slot).map(|value| {
            // SAFETY: the pointer comes from `Arc::into_raw`, as the field `value` of the cell
            // documents. While the slot announces it, no writer releases the reference count that
            // the cell had.
            unsafe { Arc::increment_strong_count(value.as_ptr()) };
            HazardGuard { value, slot: None }
        });
        // Pairs with the SeqCst load in `HazardRegistry::snapshot_hazards`: a scan that sees null
        // also sees the new count.
        slot.store(ptr::null_mut(), Ordering::Release);
        if own.is_none() {
            record.in_use.store(false, Ordering::Release);
        }
        guard
    }

    /// Replaces the value and returns the old one.
    pub fn swap(&self, value: Option<Arc<T>>) -> Option<Retired<T>> {
        let new = value.map_or(ptr::null(), Arc::into_raw);
        // Pairs with both loads of the cell in `announce`, as the module comment explains.
        let old = self.value.swap(new.cast_mut(), Ordering::SeqCst);
        // SAFETY: the pointer comes from `Arc::into_raw` with one reference count of the cell. A
        // swap takes over this count, and each pointer is swapped out once.
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
        write!(f, "HazardCell({:?})", self.as_ptr())
    }
}

impl<T: HazardValue> HazardGuard<T> {
    /// Returns a counted reference, which may outlive the guard or move to another thread.
    pub fn to_arc(&self) -> Arc<T> {
        // SAFETY: `value` comes from `Arc::into_raw` and is alive, because the slot or the guard's
        // own count keeps it.
        unsafe { Arc::increment_strong_count(self.value.as_ptr()) };
        // SAFETY: the increment above created the reference count that this `Arc` owns.
        unsafe { Arc::from_raw(self.value.as_ptr()) }
    }
}

impl<T: HazardValue> Deref for HazardGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot or the guard's own count keeps the value alive. It is shared, so no
        // thread writes it.
        unsafe { self.value.as_ref() }
    }
}

impl<T: HazardValue> Drop for HazardGuard<T> {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            // Pairs with the SeqCst load in `HazardRegistry::snapshot_hazards`: a scan that sees
            // null comes after all reads.
            Some(slot) => slot.store(ptr::null_mut(), Ordering::Release),
            // SAFETY: a guard without a slot owns one reference count, which
            // `HazardCell::protect_by_count` created.
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
    /// Creates an empty list.
    pub const fn new() -> RetireList<T> {
        RetireList { retired: Vec::new(), hazards: Vec::new() }
    }

    /// Adds a retired value without an access to it.
    pub fn push(&mut self, retired: Retired<T>) {
        self.retired.push(retired);
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.retired.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.retired.is_empty()
    }

    /// Scans all threads once, and moves the values that no reader holds to `free`, in the order of
    /// their retirement.
    pub fn reclaim(&mut self, free: &mut Vec<Arc<T>>) {
        if self.retired.is_empty() {
            return;
        }
        REGISTRY.snapshot_hazards(&mut self.hazards);
        let hazards = &self.hazards;
        self.retired.retain_mut(|retired| {
            let is_announced = hazards.binary_search(&retired.address()).is_ok();
            if !is_announced {
                free.extend(retired.value.take());
            }
            is_announced
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
        // Each remaining value scans again when it is dropped, and may become an orphan.
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
    /// Fills `hazards` with the sorted addresses in all slots. No reader holds or will hold a value
    /// that was removed from its cell before, unless its address is among them.
    fn snapshot_hazards(&self, hazards: &mut Vec<*const ()>) {
        hazards.clear();
        let records = self.records.lock();
        crate::fence_for_checker();
        for slot in records.iter().flat_map(|record| &record.slots) {
            // Pairs with the SeqCst store in `HazardCell::announce`, which is in one total order
            // with this load and with `HazardCell::swap`. Also pairs with the Release stores in
            // `HazardGuard::drop` and `HazardCell::protect_by_count`.
            let address = slot.load(Ordering::SeqCst).cast_const();
            if !address.is_null() {
                hazards.push(address);
            }
        }
        drop(records);
        hazards.sort_unstable();
    }

    /// Drops `new` and all orphans that no reader holds.
    fn reclaim_orphans(&self, new: OrphanedValue) {
        let mut hazards = Vec::new();
        let mut orphans = self.orphans.lock();
        orphans.push(new);
        self.snapshot_hazards(&mut hazards);
        let free: Vec<_> =
            orphans.extract_if(.., |orphan| hazards.binary_search(&orphan.address).is_err()).collect();
        drop(orphans);
        // Outside the lock, because the drop of a value may drop other guards and cells.
        drop(free);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
