//! Models of readers and writers of a memtable.
//!
//! Loom remembers only the last access to an atomic. The reader runs in the spawned thread, so loom
//! runs it after the writer first. Its reads then conflict with the writes, and loom explores the
//! reverse order too.

use terrace_format::comparator::bytewise;
use terrace_format::key::InternalComparator;
use terrace_sync::thread;

use crate::db::components::read_state::ReadStateCell;
use crate::internal_iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::sync::Arc;

pub(super) fn reader_sees_whole_batches() {
    let memtable = Memtable::new(InternalComparator::new(bytewise()));
    let read_state = Arc::new(ReadStateCell::new(Arc::clone(&memtable), 0));
    let reader = {
        let read_state = Arc::clone(&read_state);
        thread::spawn(move || {
            let (memtable, sequence) = read_state.load();
            let value =
                |key: &[u8]| memtable.get(key, sequence).and_then(|found| found.value).map(<[u8]>::to_vec);
            let expect = (sequence > 0).then(|| vec![sequence as u8 - 1]);
            assert_eq!((value(b"a"), value(b"b")), (expect.clone(), expect), "at {sequence}");
            let mut iterator = memtable.iter();
            iterator.seek_to_first();
            assert!(iterator.valid() || sequence == 0);
        })
    };
    // Two batches of two puts each, with the sequence numbers 1, 2 and 3, 4.
    for first in [1, 3] {
        let value = [first as u8];
        memtable.insert(first, [b"a", b"b"].map(|key| (key.as_slice(), Some(value.as_slice()))).into_iter());
        read_state.publisher().publish(first, first + 1);
    }
    reader.join().unwrap();
}

/// The Bloom filter has one word, which all keys share.
pub(super) fn bloom_filter() {
    let memtable = Memtable::with_pool(InternalComparator::new(bytewise()), &Arc::default(), 1, false);
    let read_state = Arc::new(ReadStateCell::new(Arc::clone(&memtable), 0));
    let reader = {
        let read_state = Arc::clone(&read_state);
        thread::spawn(move || {
            let (memtable, sequence) = read_state.load();
            assert_eq!(value(&memtable, 10, sequence), (sequence > 0).then_some(1), "at {sequence}");
        })
    };
    put(&memtable, 10, 1);
    read_state.publisher().publish(1, 1);
    reader.join().unwrap();
}

fn memtable(keys: &[u8]) -> Arc<Memtable> {
    let memtable = Memtable::new(InternalComparator::new(bytewise()));
    for (key, sequence) in keys.iter().zip(1..) {
        put(&memtable, *key, sequence);
    }
    memtable
}

/// Puts a key of one byte. Its value is the sequence number.
fn put(memtable: &Memtable, key: u8, sequence: u64) {
    memtable.insert(sequence, std::iter::once(([key].as_slice(), Some([sequence as u8].as_slice()))));
}

fn value(memtable: &Memtable, key: u8, sequence: u64) -> Option<u8> {
    memtable.get(&[key], sequence).map(|found| found.value.unwrap()[0])
}

/// Returns the keys of a forward scan and of a backward scan, both in ascending order.
fn scan(memtable: &Arc<Memtable>) -> (Vec<u8>, Vec<u8>) {
    let mut iterator = memtable.iter();
    let mut forward = Vec::new();
    let mut backward = Vec::new();
    iterator.seek_to_first();
    while iterator.valid() {
        forward.push(iterator.key()[0]);
        iterator.next();
    }
    iterator.seek_to_last();
    while iterator.valid() {
        backward.insert(0, iterator.key()[0]);
        iterator.prev();
    }
    (forward, backward)
}

/// A writer splits a full leaf while a reader searches it.
pub(super) fn leaf_split() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let reader = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || assert_eq!([10, 40].map(|key| value(&memtable, key, 4)), [Some(1), Some(4)]))
    };
    put(&memtable, 15, 5);
    reader.join().unwrap();
    let all = vec![10, 15, 20, 30, 40];
    assert_eq!(scan(&memtable), (all.clone(), all));
}

/// A writer splits a full leaf while an iterator is in it.
pub(super) fn split_under_iterator() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let reader = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || {
            let (mut forward, mut backward) = scan(&memtable);
            forward.retain(|&key| key != 15);
            backward.retain(|&key| key != 15);
            assert_eq!((forward, backward), (vec![10, 20, 30, 40], vec![10, 20, 30, 40]));
        })
    };
    put(&memtable, 15, 5);
    reader.join().unwrap();
}

/// Two writers try to split the same leaf.
pub(super) fn concurrent_splits() {
    let memtable = memtable(&[10, 20, 30, 40]);
    let writer = {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || put(&memtable, 50, 5))
    };
    put(&memtable, 15, 6);
    assert_eq!(value(&memtable, 15, 9), Some(6), "a thread sees its own write");
    writer.join().unwrap();
    let all = vec![10, 15, 20, 30, 40, 50];
    assert_eq!(scan(&memtable), (all.clone(), all));
}

/// Two writes of one key arrive in any order beside a reader of the older version.
pub(super) fn version_chain() {
    let memtable = memtable(&[10]);
    let writers = [2, 3].map(|sequence| {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || put(&memtable, 10, sequence))
    });
    assert_eq!(value(&memtable, 10, 1), Some(1));
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(
        [1, 2, 3, 9].map(|sequence| value(&memtable, 10, sequence)),
        [Some(1), Some(2), Some(3), Some(3)]
    );
    assert_eq!(scan(&memtable).0, [10; 3]);
}
