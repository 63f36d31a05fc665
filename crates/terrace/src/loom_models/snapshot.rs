//! Taking a snapshot, beside writes and the merge that would drop what they replace.

use terrace_sync::thread;

use crate::snapshot::SnapshotList;
use crate::sync::{Arc, AtomicU64, Ordering};

pub(super) fn snapshot_beside_compaction() {
    let (list, visible) = (Arc::new(SnapshotList::default()), Arc::new(AtomicU64::new(1)));
    let writer = {
        let visible = Arc::clone(&visible);
        thread::spawn(move || (2..4).for_each(|sequence| visible.store(sequence, Ordering::Release)))
    };
    let merge = {
        let (list, visible) = (Arc::clone(&list), Arc::clone(&visible));
        thread::spawn(move || (list.oldest(&visible), list.oldest(&visible)))
    };
    let snapshot = list.new_snapshot(&visible);
    writer.join().unwrap();
    let (first, second) = merge.join().unwrap();
    assert!(first <= second, "what was dropped is needed again");
    // Both answers may be from before the snapshot; then they are no greater than what was visible to it.
    assert!(
        second <= snapshot.sequence(),
        "{second} dropped, and the snapshot is of {}",
        snapshot.sequence()
    );
    drop(snapshot);
    assert_eq!(list.oldest(&visible), 3, "a snapshot that is gone holds nothing");
}
