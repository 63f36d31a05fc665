//! Models of writers that finish in any order, and of the readers of their writes.

use terrace_sync::thread;

use crate::db::components::commit_publisher::CommitPublisher;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Three threads write one batch each. The middle batch has two operations.
pub(super) fn three_writers() {
    let publisher = Arc::new(CommitPublisher::new(0));
    let written = Arc::new([0; 3].map(AtomicU64::new));
    let write = |i: usize, first: u64, last: u64| {
        let publisher = Arc::clone(&publisher);
        let written = Arc::clone(&written);
        move || {
            written[i].store(last, Ordering::Relaxed);
            publisher.publish(first, last);
            assert!(publisher.wait_until_visible(last), "a finished write does not become visible");
            for (i, last) in [1, 3, 4].into_iter().enumerate() {
                let visible = publisher.visible_seqno().load(Ordering::Acquire);
                assert!(
                    visible < last || written[i].load(Ordering::Relaxed) == last,
                    "a write is visible before its insertion"
                );
            }
        }
    };
    let others = [thread::spawn(write(0, 1, 1)), thread::spawn(write(1, 2, 3))];
    write(2, 4, 4)();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(publisher.visible_seqno().load(Ordering::Acquire), 4);
}

/// One write never finishes.
pub(super) fn poisoned() {
    let publisher = Arc::new(CommitPublisher::new(0));
    let later = {
        let publisher = Arc::clone(&publisher);
        thread::spawn(move || {
            publisher.publish(2, 2);
            assert!(!publisher.wait_until_visible(2), "a write is visible after one that never is");
        })
    };
    publisher.poison();
    later.join().unwrap();
    assert_eq!(publisher.visible_seqno().load(Ordering::Acquire), 0);
}

/// Writes wrap around the ring. Each write starts only when its slot is free.
pub(super) fn ring_wraparound() {
    let publisher = Arc::new(CommitPublisher::new(0));
    let second = {
        let publisher = Arc::clone(&publisher);
        thread::spawn(move || {
            assert!(publisher.reserve_slot(6), "the write in the slot does not finish");
            publisher.publish(6, 9);
        })
    };
    publisher.publish(2, 5);
    publisher.publish(1, 1);
    second.join().unwrap();
    assert_eq!(publisher.visible_seqno().load(Ordering::Acquire), 9);
}
