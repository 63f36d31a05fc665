//! S3-FIFO: a slot for each value, and two queues that decide which slots are evicted.
//!
//! ```text
//!   table ── slots   [ value | none | value | ... ]     a hit is one load: no search, no lock
//!                        ^               ^
//!   new ──> small queue ─┼─ used? ──> main queue ─┬─ not used since: evicted
//!                        └─ not: evicted          └─ used: appended again
//! ```
//!
//! S3-FIFO (Yang et al., SOSP 2023): values that were used only once leave by the small queue, a
//! tenth of the capacity, so that a scan does not displace the blocks that gets use. A value that
//! returns soon after its eviction goes to the main queue at once. Instead of the paper's ghost
//! queue, the empty slot holds a stamp.
//!
//! Readers only load values and count their uses. Threads fill and evict slots under the lock of
//! the queues. Each occupied slot has one entry in a queue. An entry of a dropped owner is skipped.
//!
//! ```text
//!   evicted ──> retire list ── no reader holds it ──> free values ──> the next insert returns one
//!               up to 16       (one hazard scan)      up to 16
//! ```
//!
//! An evicted value has no charge any more. The retire list and the free values take at most about
//! a thirty-second of the capacity in addition to it, and readers may hold more.

use std::collections::VecDeque;

use terrace_env::prefetch;
use terrace_format::key_order::HEADS_PER_GROUP;
use terrace_sync::mutant;

use crate::sync::{
    Arc, AtomicU32, ForkLocks, ForkParticipant, ForkRank, HazardCell, HazardGuard, HazardValue, Mutex,
    Ordering, RetireList, Retired, Weak, register_fork_participant,
};

/// Value of an [`S3FifoCache`].
pub(crate) trait CacheValue: HazardValue {
    /// Returns the part of the capacity that the value takes.
    fn charge(&self) -> usize;

    /// Returns the start of the value's separate memory, which readers read first.
    fn data_ptr(&self) -> *const u8;
}

/// Cache of values of several owners, with a total capacity.
pub(crate) struct S3FifoCache<V: CacheValue> {
    capacity: usize,
    queues: Mutex<S3FifoQueues<V>>,
}

/// Slots of one owner. Their drop evicts their values.
pub(crate) struct CacheSlots<V: CacheValue> {
    cache: Arc<S3FifoCache<V>>,
    slots: Arc<[CacheSlot<V>]>,
}

/// Slot of one value. Two slots per cache line.
#[repr(align(32))]
struct CacheSlot<V: CacheValue> {
    /// [`CacheSlots`] evicts every slot on drop, and a slot is filled only through its
    /// `CacheSlots`. The drop of the cell finds no value, so it needs no hazard scan.
    value: HazardCell<V>,
    /// Start of the separate memory of the current or the previous value, for prefetches. A stale
    /// address only costs time. An atomic of the standard library instead of `sync`, because no
    /// other access depends on it.
    data_ptr: std::sync::atomic::AtomicPtr<u8>,
    /// Occupied slot: number of uses, up to [`FREQUENCY_MAX`]. Empty slot: stamp of its eviction,
    /// which is greater, or 0.
    frequency_or_ghost: AtomicU32,
    /// Charge of the value, if there is one. Threads access it under the lock of the queues;
    /// prefetches read it without.
    charge: AtomicU32,
}

const FREQUENCY_MAX: u32 = 3;

impl<V: CacheValue> CacheSlot<V> {
    fn new() -> CacheSlot<V> {
        CacheSlot {
            value: HazardCell::empty(),
            data_ptr: Default::default(),
            frequency_or_ghost: AtomicU32::new(0),
            charge: AtomicU32::new(0),
        }
    }

    fn is_occupied(&self) -> bool {
        !self.value.as_ptr().is_null()
    }

    /// Replaces the value and returns the old one. The caller holds the lock of the queues.
    fn set_value(&self, value: &Arc<V>) -> Option<Retired<V>> {
        self.data_ptr.store(value.data_ptr().cast_mut(), Ordering::Relaxed);
        self.value.swap(Some(Arc::clone(value)))
    }

    /// Prefetches the reference counts of the value, which lie in the cache line before it.
    #[inline]
    fn prefetch_ref_counts(&self) {
        prefetch(self.value.as_ptr().cast::<u8>().wrapping_sub(1), 1);
    }

    /// Prefetches the value, and [`PREFETCH_BLOCK_BYTES`] bytes of its separate memory from
    /// `offset` on.
    #[inline]
    fn prefetch_value(&self, offset: usize) {
        prefetch(self.value.as_ptr(), 1);
        prefetch(self.data_ptr.load(Ordering::Relaxed).wrapping_add(offset), PREFETCH_BLOCK_BYTES);
    }
}

struct S3FifoQueues<V: CacheValue> {
    small: VecDeque<QueueEntry<V>>,
    main: VecDeque<QueueEntry<V>>,
    /// Total charge of the entries of the small queue.
    small_charge: usize,
    /// Total charge of the occupied slots.
    total_charge: usize,
    occupied_slots: usize,
    /// Number of evictions so far. It wraps around to 0.
    evictions: u32,
    /// Part of the capacity that is reserved for other memory.
    reserved_charge: usize,
    /// Evicted values that readers may still hold.
    retire_list: RetireList<V>,
    /// Number of values that were retired since the last hazard scan.
    newly_retired: usize,
    newly_retired_charge: usize,
    /// Retired values that no reader holds. Inserts return them.
    free_values: Vec<Arc<V>>,
}

/// Number of retired values that triggers a hazard scan, and maximum number of free values.
const RECLAIM_BATCH: usize = 16;

/// Part of the capacity that triggers a hazard scan when the retired values have that charge. All
/// free values are then returned at once.
const RECLAIM_CAPACITY_DIVISOR: usize = 64;

/// Evicted values that no reader holds. The caller drops them without the lock.
pub(crate) struct Evicted<V> {
    /// First value. There are mostly no more, and then no vector is allocated.
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
    /// Charge of the value at its insertion.
    charge: usize,
}

impl<V: CacheValue> QueueEntry<V> {
    fn slot(&self) -> &CacheSlot<V> {
        &self.slots[self.index]
    }
}

impl<V: CacheValue> ForkParticipant for S3FifoCache<V> {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        if !mutant!(CacheNotLockedForFork) {
            locks.lock(&self, |cache| &cache.queues);
        }
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
        let cache = Arc::new(S3FifoCache { capacity, queues: Mutex::new(queues) });
        let weak: Weak<S3FifoCache<V>> = Arc::downgrade(&cache);
        register_fork_participant(ForkRank::Cache, weak);
        cache
    }

    /// Allocates `count` empty slots for one owner.
    pub(crate) fn allocate_slots(self: &Arc<Self>, count: usize) -> CacheSlots<V> {
        let count = if self.capacity == 0 { 0 } else { count };
        CacheSlots { cache: Arc::clone(self), slots: (0..count).map(|_| CacheSlot::new()).collect() }
    }

    /// Returns the total charge of all values.
    pub(crate) fn total_charge(&self) -> usize {
        self.queues.lock().total_charge
    }

    /// Reserves `charge` of the capacity until [`S3FifoCache::unreserve`]. Returns the evicted
    /// values.
    pub(crate) fn reserve(&self, charge: usize) -> Evicted<V> {
        let mut queues = self.queues.lock();
        queues.reserved_charge += charge;
        queues.evict_until_fits(0, self.capacity);
        queues.reclaim(self.capacity)
    }

    /// Releases a reservation of `charge`.
    pub(crate) fn unreserve(&self, charge: usize) {
        self.queues.lock().reserved_charge -= charge;
    }

    /// Reserves the part of the capacity that `reservation` returns under the lock, in place of all
    /// other reservations. Returns the evicted values.
    pub(crate) fn set_reservation(&self, reservation: impl FnOnce() -> usize) -> Evicted<V> {
        let mut queues = self.queues.lock();
        queues.reserved_charge = reservation();
        queues.evict_until_fits(0, self.capacity);
        queues.reclaim(self.capacity)
    }

    /// Returns the part of the capacity that is available for values.
    pub(crate) fn available_capacity(&self) -> usize {
        self.capacity.saturating_sub(self.queues.lock().reserved_charge)
    }

    /// Evicts all values.
    pub(crate) fn clear(&self) {
        let mut queues = self.queues.lock();
        while queues.total_charge > 0 {
            queues.evict_one(0);
        }
        let evicted = queues.reclaim_all();
        drop(queues);
        drop(evicted);
    }
}

/// Number of slots that a prefetch covers: as many index entries as can share a group of heads, and
/// one more.
const PREFETCH_SLOTS: usize = HEADS_PER_GROUP + 1;

/// Number of bytes at the start of a usual block, or at its end, that a search or a scan reads
/// first.
const PREFETCH_BLOCK_BYTES: usize = 6 * 64;

/// Distance in bytes from the charge back to the start of a prefetch of a block's end. The charge
/// includes overhead and slack.
const PREFETCH_END_OFFSET: usize = PREFETCH_BLOCK_BYTES + 192;

impl<V: CacheValue> CacheSlots<V> {
    /// Returns the size of the slots in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Returns the value in slot `index`, if there is one, and counts a use.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<HazardGuard<V>> {
        let slot = self.slots.get(index)?;
        slot.prefetch_value(0);
        let found = slot.value.protect()?;
        // A use that is lost between two threads only affects the choice of evictions. Redundant
        // stores would make readers compete for the cache line.
        let uses = slot.frequency_or_ghost.load(Ordering::Relaxed);
        if uses < FREQUENCY_MAX {
            slot.frequency_or_ghost.store(uses + 1, Ordering::Relaxed);
        }
        Some(found)
    }

    /// Returns true if slot `index` holds a value. It may be evicted at any time.
    pub(crate) fn is_occupied(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(CacheSlot::is_occupied)
    }

    /// Prefetches the slots from `index` on, some of which the caller will access.
    #[inline]
    pub(crate) fn prefetch_slots(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            prefetch(slot, PREFETCH_SLOTS * size_of::<CacheSlot<V>>());
        }
    }

    /// Prefetches the reference counts of the value in slot `index`, for a caller that will clone
    /// the `Arc`.
    #[inline]
    pub(crate) fn prefetch_ref_counts(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            slot.prefetch_ref_counts();
        }
    }

    /// Prefetches the start of the value in slot `index`.
    pub(crate) fn prefetch_start(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            slot.prefetch_value(0);
        }
    }

    /// Prefetches the end of the value in slot `index`.
    pub(crate) fn prefetch_end(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            let charge = slot.charge.load(Ordering::Relaxed) as usize;
            slot.prefetch_value(charge.saturating_sub(PREFETCH_END_OFFSET));
        }
    }

    /// Inserts a value into slot `index` and returns evicted values. Does nothing if the slot is
    /// occupied or the charge exceeds the capacity.
    pub(crate) fn insert(&self, index: usize, value: &Arc<V>) -> Evicted<V> {
        let Some(slot) = self.slots.get(index) else { return Evicted::EMPTY };
        let Some((stored_charge, charge)) = self.cache.charge_if_fits(value) else { return Evicted::EMPTY };
        let mut queues = self.cache.queues.lock();
        if slot.is_occupied() || !queues.evict_until_fits(charge, self.cache.capacity) {
            return Evicted::EMPTY;
        }
        let old = slot.set_value(value);
        debug_assert!(old.is_none(), "slots are filled under the lock");
        slot.charge.store(stored_charge, Ordering::Relaxed);
        let ghost = slot.frequency_or_ghost.load(Ordering::Relaxed);
        slot.frequency_or_ghost.store(0, Ordering::Relaxed);
        let is_ghost_hit =
            ghost > FREQUENCY_MAX && (queues.ghost_stamp().wrapping_sub(ghost) as usize) < queues.main.len();
        queues.push(QueueEntry { slots: Arc::clone(&self.slots), index, charge }, is_ghost_hit);
        queues.total_charge += charge;
        queues.occupied_slots += 1;
        queues.reclaim(self.cache.capacity)
    }

    /// Replaces the value in slot `index` and returns evicted values. Does nothing if the slot is
    /// empty.
    pub(crate) fn replace(&self, index: usize, value: &Arc<V>) -> Evicted<V> {
        let Some(slot) = self.slots.get(index) else { return Evicted::EMPTY };
        let Some((stored_charge, charge)) = self.cache.charge_if_fits(value) else { return Evicted::EMPTY };
        let mut queues = self.cache.queues.lock();
        if !slot.is_occupied() {
            return Evicted::EMPTY;
        }
        let old = slot.set_value(value);
        queues.total_charge += charge;
        queues.retire(old, slot.charge.swap(stored_charge, Ordering::Relaxed));
        queues.evict_until_fits(0, self.cache.capacity);
        queues.reclaim(self.cache.capacity)
    }
}

impl<V: CacheValue> S3FifoCache<V> {
    /// Returns the charge of a value as `u32` and as `usize`, or None if it exceeds the capacity.
    fn charge_if_fits(&self, value: &V) -> Option<(u32, usize)> {
        let charge = value.charge();
        if charge > self.capacity {
            return None;
        }
        Some((u32::try_from(charge).ok()?, charge))
    }
}

impl<V: CacheValue> Drop for CacheSlots<V> {
    fn drop(&mut self) {
        let mut queues = self.cache.queues.lock();
        for slot in self.slots.iter().filter(|slot| slot.is_occupied()) {
            queues.evict(slot);
        }
        queues.compact_queues();
        let evicted = queues.reclaim_all();
        drop(queues);
        drop(evicted);
    }
}

/// Minimum number of stale entries that justifies a pass over the queues.
const COMPACT_QUEUES_MIN: usize = 64;

impl<V: CacheValue> S3FifoQueues<V> {
    /// Returns the stamp of a slot that is evicted now.
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

    /// Evicts values until `charge` more fits. Returns false if it never fits.
    fn evict_until_fits(&mut self, charge: usize, capacity: usize) -> bool {
        let capacity = capacity.saturating_sub(self.reserved_charge);
        if charge > capacity {
            return false;
        }
        while self.total_charge + charge > capacity {
            self.evict_one(capacity / 10);
        }
        true
    }

    /// Removes the first entry of the small queue, or of the main queue if the charge of the small
    /// queue is at most `small_max`. Evicts its value or moves the entry to the main queue.
    fn evict_one(&mut self, small_max: usize) {
        let from_small = self.small_charge > small_max || self.main.is_empty();
        let Some(entry) = (if from_small { self.small.pop_front() } else { self.main.pop_front() }) else {
            return;
        };
        if from_small {
            self.small_charge -= entry.charge;
        }
        let slot = entry.slot();
        if !slot.is_occupied() {
            return;
        }
        match slot.frequency_or_ghost.load(Ordering::Relaxed) {
            0 => {
                self.evictions = self.evictions.wrapping_add(1);
                slot.frequency_or_ghost.store(self.ghost_stamp(), Ordering::Relaxed);
                self.evict(slot);
            }
            uses => {
                let left = if from_small { 0 } else { uses - 1 };
                slot.frequency_or_ghost.store(left.min(FREQUENCY_MAX), Ordering::Relaxed);
                self.push(entry, true);
            }
        }
    }

    /// Evicts the value of an occupied slot.
    fn evict(&mut self, slot: &CacheSlot<V>) {
        self.occupied_slots -= 1;
        self.retire(slot.value.swap(None), slot.charge.load(Ordering::Relaxed));
    }

    /// Moves an evicted value to the retire list. Does not access the value, whose memory is rarely
    /// cached.
    fn retire(&mut self, value: Option<Retired<V>>, charge: u32) {
        // The caller checked the slot under the lock.
        self.retire_list.push(value.expect("an occupied slot stays occupied under the lock"));
        self.total_charge -= charge as usize;
        self.newly_retired += 1;
        self.newly_retired_charge += charge as usize;
    }

    /// Scans the hazard pointers, if that pays, and returns about as many free values as inserts
    /// add. The caller can then recycle the memory of a value, and no caller has to drop many at
    /// once.
    fn reclaim(&mut self, capacity: usize) -> Evicted<V> {
        let available = capacity.saturating_sub(self.reserved_charge);
        let is_heavy = self.newly_retired_charge > available / RECLAIM_CAPACITY_DIVISOR;
        if is_heavy || self.newly_retired >= RECLAIM_BATCH {
            self.scan_hazards();
        }
        let kept = if is_heavy { 0 } else { RECLAIM_BATCH };
        let first = if self.free_values.is_empty() { None } else { Some(self.free_values.swap_remove(0)) };
        let rest = self.free_values.split_off(kept.min(self.free_values.len()));
        Evicted { first, rest }
    }

    /// Scans the hazard pointers and returns all values that no reader holds.
    fn reclaim_all(&mut self) -> Evicted<V> {
        self.scan_hazards();
        Evicted { first: None, rest: std::mem::take(&mut self.free_values) }
    }

    fn scan_hazards(&mut self) {
        self.retire_list.reclaim(&mut self.free_values);
        self.newly_retired = 0;
        self.newly_retired_charge = 0;
    }

    /// Removes the entries of dropped owners if they are more than half of all entries.
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
mod tests;
