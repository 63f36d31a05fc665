//! A writer who takes himself for alone, beside one who does not.

use terrace_format::comparator::bytewise;
use terrace_format::key::InternalComparator;
use terrace_sync::thread;

use crate::db::components::commit_publisher::CommitPublisher;
use crate::memtable::{InsertMode, Memtable};
use crate::sync::{Arc, Mutex};

struct ExclusiveWriterModel {
    /// The last number that was given out.
    commit: Mutex<u64>,
    memtable: Arc<Memtable>,
    publisher: CommitPublisher,
}

impl ExclusiveWriterModel {
    /// Puts a key of one byte whose value is the number of the write, as the engine does: with the lock kept if that may be, and
    /// nobody else is at work.
    fn put(&self, key: u8, may_be_alone: bool) {
        let mut last = self.commit.lock();
        let number = *last + 1;
        *last = number;
        let insert = |company| {
            let operation = ([key], [number as u8]);
            let operations = std::iter::once((operation.0.as_slice(), Some(operation.1.as_slice())));
            self.memtable.insert_with_mode(company, number, operations);
        };
        if may_be_alone && self.publisher.is_next(number) {
            insert(InsertMode::Exclusive);
            self.publisher.publish_exclusive(number);
            drop(last);
        } else {
            drop(last);
            insert(InsertMode::Concurrent);
            self.publisher.publish(number, number);
            assert!(self.publisher.wait_until_visible(number));
        }
        assert_eq!(self.value(key, number), Some(number as u8), "what a thread wrote it finds");
    }

    /// As a flush does: waits for all that were given a number, and finds them.
    fn wait_for_writers(&self) {
        let last = *self.commit.lock();
        assert!(self.publisher.wait_until_visible(last), "everybody comes to an end");
        let there = [10, 20].iter().filter(|key| self.value(**key, last).is_some()).count();
        assert_eq!(there as u64, last);
    }

    fn value(&self, key: u8, number: u64) -> Option<u8> {
        self.memtable.get(&[key], number).map(|found| found.value.unwrap()[0])
    }
}

pub(super) fn exclusive_beside_concurrent() {
    let database = Arc::new(ExclusiveWriterModel {
        commit: Mutex::new(0),
        // With a filter of one word.
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
