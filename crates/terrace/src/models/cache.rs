//! Two readers of the blocks of two tables, of which only one block has room, and one table goes meanwhile. A block
//! becomes heavier when it was found.

use terrace_sync::thread;

use crate::cache::Store;
use crate::sync::Arc;

pub(super) fn two_readers() {
    let store = Store::new(3, |_: &usize| 2);
    let (one, other) = (Arc::new(store.places(2)), store.places(1));
    let reader = {
        let one = Arc::clone(&one);
        thread::spawn(move || {
            if one.get(0).is_none() {
                one.fill(0, &Arc::new(10));
            }
            let found = one.get(0).map(|found| found.as_deref().copied());
            assert!(matches!(found, None | Some(Some(10))), "{found:?} in place 0");
            if found.is_some() {
                one.grow(0, 1);
            }
            usize::from(found.is_some())
        })
    };
    one.fill(1, &Arc::new(11));
    other.fill(0, &Arc::new(20));
    let held = other.get(0);
    drop(other);
    assert!(held.is_none_or(|held| held.as_deref() == Some(&20)), "a value that is held went");
    let grown = reader.join().unwrap();
    let first = if one.get(0).is_some() { 2 + grown } else { 0 };
    let second = if one.get(1).is_some() { 2 } else { 0 };
    assert_eq!(store.weight(), first + second);
}
