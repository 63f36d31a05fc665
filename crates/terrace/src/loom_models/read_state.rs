//! A reader beside a writer, and beside a merge that shows a view without what is too old for the writer's number.

use terrace_sync::thread;

use crate::db::components::read_state::ReadStateCell;
use crate::snapshot::SnapshotList;
use crate::sync::Arc;

pub(super) fn reader_beside_install() {
    // A view stands for the oldest number that can be read in it.
    let (present, list) = (Arc::new(ReadStateCell::new(1, 1)), Arc::new(SnapshotList::default()));
    let writer = {
        let present = Arc::clone(&present);
        thread::spawn(move || (2..4).for_each(|sequence| present.publisher().publish(sequence, sequence)))
    };
    let merge = {
        let (present, list) = (Arc::clone(&present), Arc::clone(&list));
        thread::spawn(move || present.install(list.oldest(present.visible_seqno())))
    };
    let (view, sequence) = present.load();
    let oldest = **view;
    assert!(oldest <= sequence, "read at {sequence}, in a view from {oldest} on");
    drop(view);
    writer.join().unwrap();
    merge.join().unwrap();
    let (view, sequence) = present.load();
    assert!(**view <= sequence && sequence == 3);
}
