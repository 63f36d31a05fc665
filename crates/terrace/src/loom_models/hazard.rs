//! Models of readers that protect the value of a cell, and of a writer that replaces and frees
//! values.

use terrace_sync::thread;

use crate::sync::{Arc, HazardCell, HazardGuard, LoomCells, RetireList};

/// Value that tells loom when it is freed. A reader tells loom before it reads, so that loom finds
/// reads of freed memory.
struct TrackedValue {
    name: u8,
    loom_cell: Arc<LoomCells>,
}

impl TrackedValue {
    fn new(name: u8, loom_cells: &Arc<LoomCells>) -> Arc<TrackedValue> {
        let value = Arc::new(TrackedValue { name, loom_cell: Arc::clone(loom_cells) });
        loom_cells.record_write(Arc::as_ptr(&value).cast());
        value
    }
}

impl Drop for TrackedValue {
    fn drop(&mut self) {
        self.loom_cell.check_free(std::ptr::from_ref(self).cast());
    }
}

fn read(guard: &HazardGuard<TrackedValue>, loom_cells: &LoomCells) -> u8 {
    loom_cells.check_read(std::ptr::from_ref(&**guard).cast());
    guard.name
}

/// A cell holds two values in turn, and then none.
///
/// Under loom, a thread has one hazard slot. So the second of two guards uses a reference count,
/// whose ordering loom does not see. The model does not check the reads of this guard.
pub(super) fn replaced_value() {
    let cell = Arc::new(HazardCell::empty());
    let loom_cells = Arc::new(LoomCells::new());
    assert!(cell.swap(Some(TrackedValue::new(1, &loom_cells))).is_none());
    let reader = {
        let cell = Arc::clone(&cell);
        let loom_cells = Arc::clone(&loom_cells);
        thread::spawn(move || {
            let first = cell.protect();
            let second = cell.protect();
            let first = first.map_or(3, |guard| read(&guard, &loom_cells));
            let second = second.map_or(3, |guard| guard.name);
            assert!(first <= second, "{second} came before {first}");
        })
    };
    let mut retired = RetireList::new();
    let mut free = Vec::new();
    for next in [Some(TrackedValue::new(2, &loom_cells)), None] {
        retired.push(cell.swap(next).unwrap());
        retired.reclaim(&mut free);
        free.clear();
    }
    reader.join().unwrap();
    retired.reclaim(&mut free);
    assert!(retired.is_empty(), "no guard protects a value");
}

/// A reader turns its guard into an `Arc` while a writer without a retire list retires the value.
/// No value is left at the end.
pub(super) fn retired_value() {
    let cell = Arc::new(HazardCell::empty());
    let loom_cells = Arc::new(LoomCells::new());
    assert!(cell.swap(Some(TrackedValue::new(1, &loom_cells))).is_none());
    let reader = {
        let cell = Arc::clone(&cell);
        let loom_cells = Arc::clone(&loom_cells);
        thread::spawn(move || {
            let guard = cell.protect();
            let shared = guard.as_ref().map(HazardGuard::to_arc);
            assert!(guard.is_none_or(|guard| read(&guard, &loom_cells) == 1));
            drop(shared);
        })
    };
    drop(cell.swap(None));
    reader.join().unwrap();
    // A thread that retires a value also reclaims the values that other threads left.
    assert!(cell.swap(Some(TrackedValue::new(2, &loom_cells))).is_none());
    drop(cell);
    assert_eq!(Arc::strong_count(&loom_cells), 1, "a value was left");
}
