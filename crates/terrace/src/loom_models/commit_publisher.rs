//! Writers who are done in any order, and what readers see of them.

use terrace_sync::thread;

use crate::db::components::commit_publisher::CommitPublisher;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Three writes, the middle one of two numbers, each by a thread of its own that puts down what it wrote.
pub(super) fn three_writers() {
    let (publication, written) = (Arc::new(CommitPublisher::new(0)), Arc::new([0; 3].map(AtomicU64::new)));
    let write = |at: usize, first: u64, last: u64| {
        let (publication, written) = (Arc::clone(&publication), Arc::clone(&written));
        move || {
            written[at].store(last, Ordering::Relaxed);
            publication.publish(first, last);
            assert!(publication.wait_until_visible(last), "a write that is done becomes visible");
            for (at, last) in [1, 3, 4].into_iter().enumerate() {
                let visible = publication.visible_seqno().load(Ordering::Acquire);
                assert!(
                    visible < last || written[at].load(Ordering::Relaxed) == last,
                    "seen before it is there"
                );
            }
        }
    };
    let others = [thread::spawn(write(0, 1, 1)), thread::spawn(write(1, 2, 3))];
    write(2, 4, 4)();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(publication.visible_seqno().load(Ordering::Acquire), 4);
}

/// One write never ends.
pub(super) fn poisoned() {
    let publication = Arc::new(CommitPublisher::new(0));
    let behind = {
        let publication = Arc::clone(&publication);
        thread::spawn(move || {
            publication.publish(2, 2);
            assert!(!publication.wait_until_visible(2), "nothing is visible behind what never is");
        })
    };
    publication.poison();
    behind.join().unwrap();
    assert_eq!(publication.visible_seqno().load(Ordering::Acquire), 0);
}

/// Writes that come round the ring: each begins only when its place is free.
pub(super) fn ring_wraparound() {
    let publication = Arc::new(CommitPublisher::new(0));
    let second = {
        let publication = Arc::clone(&publication);
        thread::spawn(move || {
            assert!(publication.reserve_slot(6), "the one that is in the way will be done");
            publication.publish(6, 9);
        })
    };
    publication.publish(2, 5);
    publication.publish(1, 1);
    second.join().unwrap();
    assert_eq!(publication.visible_seqno().load(Ordering::Acquire), 9);
}
