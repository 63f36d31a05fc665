//! A reader beside a writer, and beside a merge that shows a view without what is too old for the writer's number.

use terrace_sync::thread;

use crate::db::present::Present;
use crate::snapshot::Snapshots;
use crate::sync::Arc;

pub(super) fn merge() {
    // A view stands for the oldest number that can be read in it.
    let (present, list) = (Arc::new(Present::new(1, 1)), Arc::new(Snapshots::default()));
    let writer = {
        let present = Arc::clone(&present);
        thread::spawn(move || (2..4).for_each(|sequence| present.writes().complete(sequence, sequence)))
    };
    let merge = {
        let (present, list) = (Arc::clone(&present), Arc::clone(&list));
        thread::spawn(move || present.show(list.oldest(present.visible())))
    };
    let (view, sequence) = present.look();
    let oldest = **view;
    assert!(oldest <= sequence, "read at {sequence}, in a view from {oldest} on");
    drop(view);
    writer.join().unwrap();
    merge.join().unwrap();
    let (view, sequence) = present.look();
    assert!(**view <= sequence && sequence == 3);
}
