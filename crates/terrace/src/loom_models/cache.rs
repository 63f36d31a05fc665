//! Two readers of the blocks of two tables, of which only one block has room, and one table goes meanwhile. A block
//! is replaced by a heavier one when it was found.

use terrace_sync::thread;

use crate::cache::{CacheValue, S3FifoCache};
use crate::sync::Arc;

/// A name and a weight.
struct ChargedValue(usize, usize);

impl CacheValue for ChargedValue {
    fn charge(&self) -> usize {
        self.1
    }

    fn data_ptr(&self) -> *const u8 {
        std::ptr::null()
    }
}

pub(super) fn two_readers() {
    let store = S3FifoCache::new(3);
    let (one, other) = (Arc::new(store.allocate_slots(2)), store.allocate_slots(1));
    let reader = {
        let one = Arc::clone(&one);
        thread::spawn(move || {
            if one.get(0).is_none() {
                one.insert(0, &Arc::new(ChargedValue(10, 2)));
            }
            let found = one.get(0).map(|found| found.0);
            assert!(matches!(found, None | Some(10)), "{found:?} in place 0");
            if found.is_some() {
                one.replace(0, &Arc::new(ChargedValue(10, 3)));
            }
        })
    };
    one.insert(1, &Arc::new(ChargedValue(11, 2)));
    other.insert(0, &Arc::new(ChargedValue(20, 2)));
    let held = other.get(0);
    drop(other);
    let name = held.as_ref().map(|held| held.0);
    assert!(matches!(name, None | Some(20)), "a value that is held went");
    reader.join().unwrap();
    let weight = |at| one.get(at).map_or(0, |found| found.1);
    assert_eq!(store.total_charge(), weight(0) + weight(1));
}
