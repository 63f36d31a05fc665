//! Model of an exclusive writer beside a concurrent one.

use terrace_format::comparator::bytewise;
use terrace_format::key::InternalComparator;
use terrace_sync::thread;

use crate::db::components::commit_publisher::CommitPublisher;
use crate::memtable::{InsertMode, Memtable};
use crate::sync::{Arc, Mutex};

struct ExclusiveWriterModel {
    /// Last assigned sequence number.
    commit: Mutex<u64>,
    memtable: Arc<Memtable>,
    publisher: CommitPublisher,
}

impl ExclusiveWriterModel {
    /// Puts a key of one byte, with its sequence number as the value, as the engine does. If
    /// `try_exclusive` and no other writer is active, keeps the lock during the insertion.
    fn put(&self, key: u8, try_exclusive: bool) {
        let mut last = self.commit.lock();
        let sequence = *last + 1;
        *last = sequence;
        let insert = |mode| {
            let key = [key];
            let value = [sequence as u8];
            let operation = (key.as_slice(), Some(value.as_slice()));
            self.memtable.insert_with_mode(mode, sequence, std::iter::once(operation));
        };
        if try_exclusive && self.publisher.is_next(sequence) {
            insert(InsertMode::Exclusive);
            self.publisher.publish_exclusive(sequence);
            drop(last);
        } else {
            drop(last);
            insert(InsertMode::Concurrent);
            self.publisher.publish(sequence, sequence);
            assert!(self.publisher.wait_until_visible(sequence));
        }
        assert_eq!(self.value(key, sequence), Some(sequence as u8), "a thread sees its own write");
    }

    /// Waits, as a flush does, for all writes with an assigned sequence number, and checks that it
    /// sees them.
    fn wait_for_writers(&self) {
        let last = *self.commit.lock();
        assert!(self.publisher.wait_until_visible(last), "a write does not finish");
        let found = [10, 20].iter().filter(|key| self.value(**key, last).is_some()).count();
        assert_eq!(found as u64, last);
    }

    fn value(&self, key: u8, sequence: u64) -> Option<u8> {
        self.memtable.get(&[key], sequence).map(|found| found.value.unwrap()[0])
    }
}

pub(super) fn exclusive_beside_concurrent() {
    let database = Arc::new(ExclusiveWriterModel {
        commit: Mutex::new(0),
        // The Bloom filter has one word.
        memtable: Memtable::with_pool(InternalComparator::new(bytewise()), &Arc::default(), 1, false),
        publisher: CommitPublisher::new(0),
    });
    let other = {
        let database = Arc::clone(&database);
        thread::spawn(move || database.put(10, false))
    };
    database.put(20, true);
    database.wait_for_writers();
    other.join().unwrap();
    database.wait_for_writers();
}
