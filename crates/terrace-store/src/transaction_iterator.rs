//! Iterator of a transaction: its own writes over a snapshot.
//!
//! ```text
//!   snapshot   a=1  b=2       d=4
//!   writes          b=-  c=3
//!   shown      a=1       c=3  d=4
//! ```

use crate::error::Result;
use crate::store::StoreIterator;

/// Cursor over the snapshot and the own writes of a transaction. It does not show later writes of
/// the transaction.
pub struct TransactionIterator {
    base: Box<dyn StoreIterator>,
    /// Own writes in the range, in the order of their keys. None is a deletion.
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Number of the writes before the position of the cursor.
    passed: usize,
    direction: Direction,
    current: Source,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Source of the current entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    None,
    Base,
    /// Index of a write.
    Write(usize),
}

impl TransactionIterator {
    pub(crate) fn new(
        base: Box<dyn StoreIterator>,
        writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    ) -> TransactionIterator {
        TransactionIterator { base, writes, passed: 0, direction: Direction::Forward, current: Source::None }
    }

    /// Chooses the smaller of the two next entries. Deleted keys are skipped.
    fn settle_forward(&mut self) {
        self.direction = Direction::Forward;
        loop {
            let written = self.writes.get(self.passed);
            let base = self.base.valid().then(|| self.base.key());
            self.current = match (base, written) {
                (None, None) => Source::None,
                (Some(_), None) => Source::Base,
                (Some(key), Some((own, _))) if key < own.as_slice() => Source::Base,
                (base, Some((own, value))) => {
                    let is_hidden = base == Some(own.as_slice());
                    if value.is_none() {
                        self.passed += 1;
                        if is_hidden {
                            self.base.next();
                        }
                        continue;
                    }
                    Source::Write(self.passed)
                }
            };
            return;
        }
    }

    /// Chooses the greater of the two previous entries. Deleted keys are skipped.
    fn settle_backward(&mut self) {
        self.direction = Direction::Backward;
        loop {
            let written = self.passed.checked_sub(1).and_then(|index| self.writes.get(index));
            let base = self.base.valid().then(|| self.base.key());
            self.current = match (base, written) {
                (None, None) => Source::None,
                (Some(_), None) => Source::Base,
                (Some(key), Some((own, _))) if key > own.as_slice() => Source::Base,
                (base, Some((own, value))) => {
                    let is_hidden = base == Some(own.as_slice());
                    if value.is_none() {
                        self.passed -= 1;
                        if is_hidden {
                            self.base.prev();
                        }
                        continue;
                    }
                    Source::Write(self.passed - 1)
                }
            };
            return;
        }
    }

    /// Moves both sources to the side of the current key at which `direction` begins.
    fn turn(&mut self, direction: Direction) {
        if self.direction == direction {
            return;
        }
        let key = self.key().to_vec();
        self.passed = self.writes.partition_point(|(own, _)| *own < key);
        self.base.seek(&key);
        if direction == Direction::Backward {
            // The cursor stands on `key` in each source that contains it, otherwise before it.
            if self.writes.get(self.passed).is_some_and(|(own, _)| *own == key) {
                self.passed += 1;
            }
            match self.base.valid() {
                true if self.base.key() != key => self.base.prev(),
                true => {}
                // Another seek would hide an error, and show other entries.
                false if self.base.status().is_err() => {}
                false => self.base.seek_to_last(),
            }
        }
        self.direction = direction;
    }
}

impl StoreIterator for TransactionIterator {
    fn valid(&self) -> bool {
        self.current != Source::None && self.base.status().is_ok()
    }

    fn key(&self) -> &[u8] {
        match self.current {
            Source::None => &[],
            Source::Base => self.base.key(),
            Source::Write(index) => self.writes.get(index).map_or(&[], |(key, _)| key),
        }
    }

    fn value(&self) -> &[u8] {
        match self.current {
            Source::None => &[],
            Source::Base => self.base.value(),
            Source::Write(index) => {
                self.writes.get(index).and_then(|(_, value)| value.as_deref()).unwrap_or_default()
            }
        }
    }

    fn status(&self) -> Result<()> {
        self.base.status()
    }

    fn seek_to_first(&mut self) {
        self.base.seek_to_first();
        self.passed = 0;
        self.settle_forward();
    }

    fn seek_to_last(&mut self) {
        self.base.seek_to_last();
        self.passed = self.writes.len();
        self.settle_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        self.base.seek(target);
        self.passed = self.writes.partition_point(|(own, _)| own.as_slice() < target);
        self.settle_forward();
    }

    fn next(&mut self) {
        if !self.valid() {
            return;
        }
        self.turn(Direction::Forward);
        // Both sources stand at the current key, or after it.
        let key = self.key().to_vec();
        if self.base.valid() && self.base.key() == key {
            self.base.next();
        }
        if self.writes.get(self.passed).is_some_and(|(own, _)| *own == key) {
            self.passed += 1;
        }
        self.settle_forward();
    }

    fn prev(&mut self) {
        if !self.valid() {
            return;
        }
        self.turn(Direction::Backward);
        let key = self.key().to_vec();
        if self.base.valid() && self.base.key() == key {
            self.base.prev();
        }
        let last = self.passed.checked_sub(1).and_then(|index| self.writes.get(index));
        if last.is_some_and(|(own, _)| *own == key) {
            self.passed -= 1;
        }
        self.settle_backward();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::key_range::KeyRange;
    use crate::{OpenOptions, open};

    /// Cursor of which each seek to a key fails, and no other move.
    struct FailingSeek {
        inner: Box<dyn StoreIterator>,
        has_failed: bool,
    }

    impl StoreIterator for FailingSeek {
        fn valid(&self) -> bool {
            !self.has_failed && self.inner.valid()
        }

        fn key(&self) -> &[u8] {
            self.inner.key()
        }

        fn value(&self) -> &[u8] {
            self.inner.value()
        }

        fn status(&self) -> Result<()> {
            if self.has_failed { Err(Error::Unavailable("no leader".into())) } else { Ok(()) }
        }

        fn seek_to_first(&mut self) {
            self.has_failed = false;
            self.inner.seek_to_first();
        }

        fn seek_to_last(&mut self) {
            self.has_failed = false;
            self.inner.seek_to_last();
        }

        fn seek(&mut self, _: &[u8]) {
            self.has_failed = true;
        }

        fn next(&mut self) {
            self.inner.next();
        }

        fn prev(&mut self) {
            self.inner.prev();
        }
    }

    /// A server that does not answer when the cursor turns leaves no entry, and the error stays.
    #[test]
    fn turn_that_fails_shows_no_entry() {
        let store = open("memory:", &OpenOptions::default()).unwrap();
        for key in ["a", "b", "c", "d"] {
            store.put(key.as_bytes(), b"1").unwrap();
        }
        for moves_forward in [true, false] {
            let inner = store.iter(&KeyRange::all()).unwrap();
            let base = Box::new(FailingSeek { inner, has_failed: false });
            let mut iter = TransactionIterator::new(base, vec![(b"b".to_vec(), Some(b"own".to_vec()))]);
            if moves_forward {
                iter.seek_to_first();
                iter.next();
                assert_eq!(iter.value(), b"own");
                iter.prev();
            } else {
                iter.seek_to_last();
                iter.prev();
                iter.next();
            }
            assert!(!iter.valid(), "'{}'", iter.key().escape_ascii());
            assert!(matches!(iter.status(), Err(Error::Unavailable(_))));
        }
    }
}
