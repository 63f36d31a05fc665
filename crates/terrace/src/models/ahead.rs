//! A writer who needs logs beside a flush that makes them.

use terrace_sync::thread;

use crate::db::ahead::Ahead;
use crate::sync::{Arc, AtomicU64, Ordering};

/// The numbers of the logs that get writes rise, whoever makes them and whenever.
pub(super) fn switches() {
    let (ahead, next) = (Arc::new(Ahead::<u64>::default()), Arc::new(AtomicU64::new(1)));
    let new = |next: &AtomicU64| next.fetch_add(1, Ordering::Relaxed);
    let (reserve, numbers) = (Arc::clone(&ahead), Arc::clone(&next));
    let flushes = thread::spawn(move || {
        for _ in 0..2 {
            if !reserve.is_ready(|_| true) {
                let number = new(&numbers);
                reserve.keep(number, number);
            }
        }
    });
    let mut last = 0;
    for _ in 0..2 {
        let number = ahead.take(|_| true).unwrap_or_else(|| {
            let number = new(&next);
            ahead.pass(number);
            number
        });
        assert!(number > last, "log {number} behind log {last}");
        last = number;
    }
    flushes.join().unwrap();
    let left = ahead.take(|_| true);
    assert!(left.is_none_or(|number| number > last), "log {left:?} behind log {last}");
}
