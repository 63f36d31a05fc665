//! Models of a reader beside a writer, and beside a thread that installs a read state.

use terrace_sync::thread;

use crate::db::components::read_state::ReadStateCell;
use crate::snapshot::SnapshotList;
use crate::sync::Arc;

/// A compaction installs a read state without the versions that are too old for the visible
/// sequence number.
///
/// The writer does not load the sequence number before it stores the next one. Loom knows only the
/// latest access to an atomic. A load of the writer itself would hide the earlier loads of the
/// other threads, and loom would not explore the store before them.
pub(super) fn reader_beside_install() {
    // The read state of the model is the smallest sequence number at which it can be read.
    let read_state = Arc::new(ReadStateCell::new(1, 1));
    let snapshots = Arc::new(SnapshotList::default());
    let writer = {
        let read_state = Arc::clone(&read_state);
        thread::spawn(move || (2..4).for_each(|sequence| read_state.publisher().publish_exclusive(sequence)))
    };
    let compaction = {
        let read_state = Arc::clone(&read_state);
        let snapshots = Arc::clone(&snapshots);
        thread::spawn(move || read_state.install(snapshots.oldest(read_state.visible_seqno())))
    };
    let (state, sequence) = read_state.load();
    let oldest = **state;
    assert!(oldest <= sequence, "read at {sequence} in a read state from {oldest} on");
    drop(state);
    writer.join().unwrap();
    compaction.join().unwrap();
    let (state, sequence) = read_state.load();
    assert!(**state <= sequence && sequence == 3);
}

/// An ingest installs a read state, and a write follows it.
pub(super) fn reader_of_one_moment() {
    // The read state of the model is the number of ingests.
    let read_state = Arc::new(ReadStateCell::new(0, 0));
    let writer = {
        let read_state = Arc::clone(&read_state);
        thread::spawn(move || {
            for number in 1..3 {
                read_state.install(number);
                read_state.publisher().publish(number, number);
            }
        })
    };
    let (state, sequence) = read_state.load_one_moment();
    let ingests = **state;
    assert!(ingests >= sequence, "write {sequence} is visible, and only {ingests} ingests");
    drop(state);
    writer.join().unwrap();
}

/// A reader of several keys uses a stamp in place of a snapshot, beside an install and a write.
pub(super) fn reader_with_stamp() {
    // The read state of the model is the number of installs.
    let read_state = Arc::new(ReadStateCell::new(0, 0));
    let writer = {
        let read_state = Arc::clone(&read_state);
        thread::spawn(move || {
            read_state.install(1);
            read_state.publisher().publish(1, 1);
        })
    };
    let load = || {
        let (state, sequence) = read_state.load();
        (**state, sequence)
    };
    let stamp = read_state.stamp();
    let [first, second] = [load(), load()];
    if read_state.is_unchanged_since(stamp) {
        assert_eq!(first, second, "the stamp is unchanged between the reads of two states");
    }
    writer.join().unwrap();
}
