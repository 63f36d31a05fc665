//! Readers and writers of a memtable.
//!
//! Loom remembers only the last access to an atomic. A reader runs in the thread that is begun, and so is tried behind the
//! writer first: what it reads is then held against what was written, and tried before that too.

use terrace_format::comparator::bytewise;
use terrace_format::key::InternalComparator;
use terrace_sync::thread;

use crate::db::components::read_state::ReadStateCell;
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;

pub(super) fn reader_sees_whole_batches() {
    let memtable = Memtable::new(InternalComparator::new(bytewise()));
    let present = Arc::new(ReadStateCell::new(Arc::clone(&memtable), 0));
    let reader = {
        let present = Arc::clone(&present);
        thread::spawn(move || {
            let (view, sequence) = present.load();
            let value =
                |key: &[u8]| view.get(key, sequence).and_then(|found| found.value).map(<[u8]>::to_vec);
            let expect = (sequence > 0).then(|| vec![sequence as u8 - 1]);
            assert_eq!((value(b"a"), value(b"b")), (expect.clone(), expect), "at {sequence}");
            let mut iterator = view.iter();
            iterator.seek_to_first();
            assert!(iterator.valid() || sequence == 0);
        })
    };
    // Batches of two, numbered 1 and 2, 3 and 4.
    for first in [1, 3] {
        let value = [first as u8];
        memtable.insert(first, [b"a", b"b"].map(|key| (key.as_slice(), Some(value.as_slice()))).into_iter());
        present.publisher().publish(first, first + 1);
    }
    reader.join().unwrap();
}

/// Whose filter has one word, for all keys.
pub(super) fn bloom_filter() {
    let memtable = Memtable::with_pool(InternalComparator::new(bytewise()), &Arc::default(), 1, false);
    let present = Arc::new(ReadStateCell::new(Arc::clone(&memtable), 0));
    let reader = {
        let present = Arc::clone(&present);
        thread::spawn(move || {
            let (view, sequence) = present.load();
            assert_eq!(value(&view, 10, sequence), (sequence > 0).then_some(1), "at {sequence}");
        })
    };
    put(&memtable, 10, 1);
    present.publisher().publish(1, 1);
    reader.join().unwrap();
}

fn memtable(keys: &[u8]) -> Arc<Memtable> {
    let memtable = Memtable::new(InternalComparator::new(bytewise()));
    keys.iter().zip(1..).for_each(|(key, number)| put(&memtable, *key, number));
    memtable
}

/// A key of one byte, whose value is the number of the write.
fn put(memtable: &Memtable, key: u8, number: u64) {
    memtable.insert(number, std::iter::once(([key].as_slice(), Some([number as u8].as_slice()))));
}

fn value(memtable: &Memtable, key: u8, number: u64) -> Option<u8> {
    memtable.get(&[key], number).map(|found| found.value.unwrap()[0])
}

/// The keys forwards, and again backwards.
fn walk(memtable: &Arc<Memtable>) -> (Vec<u8>, Vec<u8>) {
    let mut iterator = memtable.iter();
    let (mut there, mut back) = (Vec::new(), Vec::new());
    iterator.seek_to_first();
    while iterator.valid() {
        there.push(iterator.key()[0]);
        iterator.next();
    }
    iterator.seek_to_last();
    while iterator.valid() {
        back.insert(0, iterator.key()[0]);
        iterator.prev();
    }
    (there, back)
}

/// A leaf that holds as much as it can is split while somebody reads in it.
pub(super) fn leaf_split() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let reader = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || assert_eq!([10, 40].map(|key| value(&memtable, key, 4)), [Some(1), Some(4)]))
    };
    put(&memtable, 15, 5);
    reader.join().unwrap();
    let all = vec![10, 15, 20, 30, 40];
    assert_eq!(walk(&memtable), (all.clone(), all));
}

/// The same, for an iterator in it.
pub(super) fn split_under_iterator() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let reader = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || {
            let (mut there, mut back) = walk(&memtable);
            there.retain(|&key| key != 15);
            back.retain(|&key| key != 15);
            assert_eq!((there, back), (vec![10, 20, 30, 40], vec![10, 20, 30, 40]));
        })
    };
    put(&memtable, 15, 5);
    reader.join().unwrap();
}

/// Two writers want to split the same leaf.
pub(super) fn concurrent_splits() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let writer = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || put(&memtable, 50, 5))
    };
    put(&memtable, 15, 6);
    assert_eq!(value(&memtable, 15, 9), Some(6), "what a thread wrote it finds");
    writer.join().unwrap();
    let all = vec![10, 15, 20, 30, 40, 50];
    assert_eq!(walk(&memtable), (all.clone(), all));
}

/// Two writes of one key arrive in any order, beside a reader of what was before.
pub(super) fn version_chain() {
    let memtable = memtable(&[10]);
    let writers = [2, 3].map(|number| {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || put(&memtable, 10, number))
    });
    assert_eq!(value(&memtable, 10, 1), Some(1));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!([1, 2, 3, 9].map(|number| value(&memtable, 10, number)), [Some(1), Some(2), Some(3), Some(3)]);
    assert_eq!(walk(&memtable).0, [10; 3]);
}
