//! Readers that hold what is in a spot without counting it, and a writer that replaces it and frees what nobody holds.

use terrace_sync::thread;

use crate::sync::{Arc, Held, Limbo, Spot, Witness};

/// Says when it is freed. Whoever reads it says so before: then no memory is looked at that is gone.
struct Value {
    name: u8,
    witness: Arc<Witness>,
}

impl Value {
    fn new(name: u8, witness: &Arc<Witness>) -> Arc<Value> {
        let value = Arc::new(Value { name, witness: Arc::clone(witness) });
        witness.wrote(Arc::as_ptr(&value).cast());
        value
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.witness.frees(std::ptr::from_ref(self).cast());
    }
}

fn read(held: &Held<Value>, witness: &Witness) -> u8 {
    witness.reads(std::ptr::from_ref(&**held).cast());
    held.name
}

/// Two values in turn, and then none. Loom gives a thread one slot, so of two that are held at once one is counted; what
/// counts order loom does not see, so nobody witnesses its reading.
pub(super) fn replaced() {
    let (spot, witness) = (Arc::new(Spot::empty()), Arc::new(Witness::new()));
    assert!(spot.put(Some(Value::new(1, &witness))).is_none());
    let reader = {
        let (spot, witness) = (Arc::clone(&spot), Arc::clone(&witness));
        thread::spawn(move || {
            let first = spot.hold();
            let second = spot.hold();
            let first = first.map_or(3, |held| read(&held, &witness));
            let second = second.map_or(3, |held| held.name);
            assert!(first <= second, "{second} came before {first}");
        })
    };
    let (mut limbo, mut free) = (Limbo::new(), Vec::new());
    for next in [Some(Value::new(2, &witness)), None] {
        limbo.put(spot.put(next).unwrap());
        limbo.sift(&mut free);
        free.clear();
    }
    reader.join().unwrap();
    limbo.sift(&mut free);
    assert!(limbo.is_empty(), "nobody holds anything");
}

/// A value is shared by who holds it, and retired meanwhile by who has no limbo. Nothing is left.
pub(super) fn retired() {
    let (spot, witness) = (Arc::new(Spot::empty()), Arc::new(Witness::new()));
    assert!(spot.put(Some(Value::new(1, &witness))).is_none());
    let reader = {
        let (spot, witness) = (Arc::clone(&spot), Arc::clone(&witness));
        thread::spawn(move || {
            let held = spot.hold();
            let shared = held.as_ref().map(Held::share);
            assert!(held.is_none_or(|held| read(&held, &witness) == 1));
            drop(shared);
        })
    };
    drop(spot.put(None));
    reader.join().unwrap();
    // Whoever retires something looks at what was left over.
    assert!(spot.put(Some(Value::new(2, &witness))).is_none());
    drop(spot);
    assert_eq!(Arc::strong_count(&witness), 1, "a value was left");
}
