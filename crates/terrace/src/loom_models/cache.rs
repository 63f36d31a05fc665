//! Model of two readers of the blocks of two tables. The cache has space for one block, and one
//! table is closed meanwhile. A reader replaces the block that it finds by a larger one.

use terrace_sync::thread;

use crate::cache::{CacheValue, S3FifoCache};
use crate::sync::Arc;

/// Value with a name and a charge.
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
    let cache = S3FifoCache::new(3);
    let one = Arc::new(cache.allocate_slots(2));
    let other = cache.allocate_slots(1);
    let reader = {
        let one = Arc::clone(&one);
        thread::spawn(move || {
            if one.get(0).is_none() {
                one.insert(0, &Arc::new(ChargedValue(10, 2)));
            }
            let found = one.get(0).map(|found| found.0);
            assert!(matches!(found, None | Some(10)), "{found:?} in slot 0");
            if found.is_some() {
                one.replace(0, &Arc::new(ChargedValue(10, 3)));
            }
        })
    };
    one.insert(1, &Arc::new(ChargedValue(11, 2)));
    other.insert(0, &Arc::new(ChargedValue(20, 2)));
    let guard = other.get(0);
    drop(other);
    let name = guard.as_ref().map(|value| value.0);
    assert!(matches!(name, None | Some(20)), "a protected value was freed");
    reader.join().unwrap();
    let charge = |i| one.get(i).map_or(0, |found| found.1);
    assert_eq!(cache.total_charge(), charge(0) + charge(1));
}
