//! A reader beside the writer of a memtable.

use terrace_format::comparator::bytewise;
use terrace_format::key::InternalComparator;
use terrace_sync::thread;

use crate::db::present::Present;
use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::walk::InternalIterator;

pub(super) fn reader() {
    let memtable = Memtable::new(InternalComparator::new(bytewise()));
    let present = Arc::new(Present::new(Arc::clone(&memtable), 0));
    let writer = {
        let present = Arc::clone(&present);
        thread::spawn(move || {
            // Batches of two, numbered 1 and 2, 3 and 4.
            for first in [1, 3] {
                let value = [first as u8];
                memtable.insert(
                    first,
                    [b"a", b"b"].map(|key| (key.as_slice(), Some(value.as_slice()))).into_iter(),
                );
                present.reveal(first + 1);
            }
        })
    };
    let (view, sequence) = present.look();
    let value = |key: &[u8]| view.get(key, sequence).and_then(|found| found.value);
    let expect = (sequence > 0).then(|| vec![sequence as u8 - 1]);
    assert_eq!((value(b"a"), value(b"b")), (expect.clone(), expect), "at {sequence}");
    let mut iterator = view.iter();
    iterator.seek_to_first();
    assert!(iterator.valid() || sequence == 0);
    drop(view);
    writer.join().unwrap();
}
