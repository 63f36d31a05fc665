//! Model of a new snapshot beside writes and a compaction that drops replaced versions.

use terrace_sync::thread;

use crate::snapshot::SnapshotList;
use crate::sync::{Arc, AtomicU64, Ordering};

pub(super) fn snapshot_beside_compaction() {
    let snapshots = Arc::new(SnapshotList::default());
    let visible = Arc::new(AtomicU64::new(1));
    let writer = {
        let visible = Arc::clone(&visible);
        thread::spawn(move || (2..4).for_each(|sequence| visible.store(sequence, Ordering::Release)))
    };
    let compaction = {
        let snapshots = Arc::clone(&snapshots);
        let visible = Arc::clone(&visible);
        thread::spawn(move || (snapshots.oldest(&visible), snapshots.oldest(&visible)))
    };
    let snapshot = snapshots.new_snapshot(&visible);
    writer.join().unwrap();
    let (first, second) = compaction.join().unwrap();
    assert!(first <= second, "a dropped version is needed again");
    // Both calls may precede the snapshot. Then their results are not above its sequence number.
    assert!(
        second <= snapshot.sequence(),
        "versions below {second} are dropped, and the snapshot is at {}",
        snapshot.sequence()
    );
    drop(snapshot);
    assert_eq!(snapshots.oldest(&visible), 3, "a released snapshot keeps no version");
}
