//! Two readers of the blocks of two tables, of which only one block has room, and one table goes meanwhile.

use terrace_sync::thread;

use crate::cache::Store;
use crate::sync::Arc;

pub(super) fn two_readers() {
    let store = Store::new(1, |_: &usize| 1);
    let (one, other) = (Arc::new(store.places(2)), store.places(1));
    let reader = {
        let one = Arc::clone(&one);
        thread::spawn(move || {
            if one.get(0).is_none() {
                one.fill(0, &Arc::new(10));
            }
            let found = one.get(0).map(|found| found.as_deref().copied());
            assert!(matches!(found, None | Some(Some(10))), "{found:?} in place 0");
        })
    };
    one.fill(1, &Arc::new(11));
    other.fill(0, &Arc::new(20));
    let held = other.get(0);
    drop(other);
    assert!(held.is_none_or(|held| held.as_deref() == Some(&20)), "a value that is held went");
    reader.join().unwrap();
    let there = usize::from(one.get(0).is_some()) + usize::from(one.get(1).is_some());
    assert_eq!(store.weight(), there);
}
