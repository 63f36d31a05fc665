//! Readers that hold what is in a spot without counting it, and a writer that replaces it and frees what nobody holds.

use terrace_sync::thread;

use crate::sync::{Arc, HazardCell, HazardGuard, LoomCells, RetireList};

/// Says when it is freed. Whoever reads it says so before: then no memory is looked at that is gone.
struct TrackedValue {
    name: u8,
    loom_cell: Arc<LoomCells>,
}

impl TrackedValue {
    fn new(name: u8, witness: &Arc<LoomCells>) -> Arc<TrackedValue> {
        let value = Arc::new(TrackedValue { name, loom_cell: Arc::clone(witness) });
        witness.record_write(Arc::as_ptr(&value).cast());
        value
    }
}

impl Drop for TrackedValue {
    fn drop(&mut self) {
        self.loom_cell.check_free(std::ptr::from_ref(self).cast());
    }
}

fn read(held: &HazardGuard<TrackedValue>, witness: &LoomCells) -> u8 {
    witness.check_read(std::ptr::from_ref(&**held).cast());
    held.name
}

/// Two values in turn, and then none. Loom gives a thread one slot, so of two that are held at once one is counted; what
/// counts order loom does not see, so nobody witnesses its reading.
pub(super) fn replaced_value() {
    let (spot, witness) = (Arc::new(HazardCell::empty()), Arc::new(LoomCells::new()));
    assert!(spot.swap(Some(TrackedValue::new(1, &witness))).is_none());
    let reader = {
        let (spot, witness) = (Arc::clone(&spot), Arc::clone(&witness));
        thread::spawn(move || {
            let first = spot.protect();
            let second = spot.protect();
            let first = first.map_or(3, |held| read(&held, &witness));
            let second = second.map_or(3, |held| held.name);
            assert!(first <= second, "{second} came before {first}");
        })
    };
    let (mut limbo, mut free) = (RetireList::new(), Vec::new());
    for next in [Some(TrackedValue::new(2, &witness)), None] {
        limbo.push(spot.swap(next).unwrap());
        limbo.reclaim(&mut free);
        free.clear();
    }
    reader.join().unwrap();
    limbo.reclaim(&mut free);
    assert!(limbo.is_empty(), "nobody holds anything");
}

/// A value is shared by who holds it, and retired meanwhile by who has no limbo. Nothing is left.
pub(super) fn retired_value() {
    let (spot, witness) = (Arc::new(HazardCell::empty()), Arc::new(LoomCells::new()));
    assert!(spot.swap(Some(TrackedValue::new(1, &witness))).is_none());
    let reader = {
        let (spot, witness) = (Arc::clone(&spot), Arc::clone(&witness));
        thread::spawn(move || {
            let held = spot.protect();
            let shared = held.as_ref().map(HazardGuard::to_arc);
            assert!(held.is_none_or(|held| read(&held, &witness) == 1));
            drop(shared);
        })
    };
    drop(spot.swap(None));
    reader.join().unwrap();
    // Whoever retires something looks at what was left over.
    assert!(spot.swap(Some(TrackedValue::new(2, &witness))).is_none());
    drop(spot);
    assert_eq!(Arc::strong_count(&witness), 1, "a value was left");
}
