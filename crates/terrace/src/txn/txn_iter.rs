//! Iterator of a transaction: the entries of its snapshot, merged with its own writes.
//!
//! ```text
//!   database at the snapshot     a   b   c       e
//!   own writes                       b'      d   e (deleted)
//!   iterator                     a   b'  c   d
//! ```

use std::cmp::Ordering;
use std::ops::Bound;

use terrace_format::comparator::Comparator;

use super::read_set::{ReadRange, ReadRanges};
use super::write_set::{OwnWrite, WriteSet, key_of, value_of};
use crate::error::{Error, Result};
use crate::iterator::{DbIterator, IterBounds, copy_entry};
use crate::sync::{Arc, Mutex};

/// Iterator over the entries that a transaction sees, in key order and in both directions.
///
/// It shows the state of the transaction's snapshot with the transaction's own writes up to the
/// creation of the iterator. Later writes do not change it. A new iterator is invalid: the caller
/// seeks first. The commit of a serializable transaction checks the range that the iterator read,
/// from the target of its seek to its farthest position.
///
/// ```
/// # let env = terrace::Env::in_memory();
/// # let options = terrace::Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put("CH/Bern", "46.95,7.45")?;
/// let mut transaction = db.begin(&terrace::TransactionOptions::default());
/// transaction.put("CH/Chur", "46.85,9.53")?;
/// let mut iter = transaction.raw_iter()?;
/// iter.seek_to_last();
/// assert_eq!(iter.key(), b"CH/Chur");
/// iter.prev();
/// assert_eq!(iter.key(), b"CH/Bern");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct TransactionIterator {
    comparator: Arc<dyn Comparator>,
    base: DbIterator,
    writes: Arc<WriteSet>,
    /// Own write at or beyond the current position, in the current direction.
    own: Option<OwnEntry>,
    position: MergePosition,
    direction: MergeDirection,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// None if the transaction does not check its reads.
    recorder: Option<RangeRecorder>,
    error: Option<Error>,
}

struct OwnEntry {
    key: Vec<u8>,
    /// Place of its operation in the write set, which holds the value.
    offset: usize,
    is_tombstone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergePosition {
    Invalid,
    AtBase,
    AtOwn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeDirection {
    Forward,
    Backward,
}

/// Records which ranges the iterator has read.
pub(super) struct RangeRecorder {
    pub(super) ranges: Arc<Mutex<ReadRanges>>,
    /// Index of the iterator in `ranges`. None before its first seek.
    pub(super) current: Option<usize>,
    /// True if the iterator is at the edge of the range to which it moves, so that each step
    /// extends the range. Saves a comparison for each entry.
    pub(super) is_at_edge: bool,
    /// Maximum size of all ranges of the transaction in bytes.
    pub(super) limit: usize,
}

impl Drop for RangeRecorder {
    fn drop(&mut self) {
        if let Some(index) = self.current {
            self.ranges.lock().end_iterator(index);
        }
    }
}

impl TransactionIterator {
    /// Creates an iterator that merges `base` with `writes`, which have an index or are empty.
    /// `bounds` are those of `base`.
    pub(super) fn new(
        comparator: Arc<dyn Comparator>,
        base: DbIterator,
        writes: Arc<WriteSet>,
        bounds: IterBounds,
        recorder: Option<RangeRecorder>,
    ) -> TransactionIterator {
        TransactionIterator {
            comparator,
            base,
            writes,
            own: None,
            position: MergePosition::Invalid,
            direction: MergeDirection::Forward,
            lower: bounds.lower.map_or(Bound::Unbounded, Bound::Included),
            upper: bounds.upper.map_or(Bound::Unbounded, Bound::Excluded),
            recorder,
            error: None,
        }
    }

    /// Returns true if the iterator is at an entry.
    pub fn valid(&self) -> bool {
        self.position != MergePosition::Invalid
    }

    /// Returns the current key, or an empty slice if the iterator is invalid.
    pub fn key(&self) -> &[u8] {
        match self.position {
            MergePosition::AtBase => self.base.key(),
            MergePosition::AtOwn => self.own.as_ref().map_or(&[], |own| &own.key),
            MergePosition::Invalid => &[],
        }
    }

    /// Returns the current value, or an empty slice if the iterator is invalid.
    pub fn value(&self) -> &[u8] {
        match self.position {
            MergePosition::AtBase => self.base.value(),
            MergePosition::AtOwn => {
                self.own.as_ref().and_then(|own| self.own_value(own.offset)).unwrap_or_default()
            }
            MergePosition::Invalid => &[],
        }
    }

    /// Returns the first error since the iterator was created: damage, as for
    /// [`DbIterator::status`], or ranges that exceed the memory limit of the transaction.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or_else(|| self.base.status(), Err)
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        if self.error.is_some() {
            return;
        }
        self.base.seek_to_first();
        self.own = self.first_own(self.lower.clone());
        self.direction = MergeDirection::Forward;
        self.settle();
        self.begin_range(Some(self.lower.clone()), None);
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        if self.error.is_some() {
            return;
        }
        self.base.seek_to_last();
        self.own = self.last_own(self.upper.clone());
        self.direction = MergeDirection::Backward;
        self.settle();
        self.begin_range(None, Some(self.upper.clone()));
    }

    /// Moves to the first key that is at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.base.seek(target);
        let begin = match &self.lower {
            Bound::Included(lower) if self.comparator.compare(target, lower).is_lt() => self.lower.clone(),
            _ => Bound::Included(target.to_vec()),
        };
        self.own = self.first_own(begin.clone());
        self.direction = MergeDirection::Forward;
        self.settle();
        let is_read = self.recorder.as_ref().is_some_and(|recorder| {
            recorder
                .current
                .is_some_and(|index| recorder.ranges.lock().contains(index, target, &*self.comparator))
        });
        if is_read {
            self.set_at_edge(false);
            self.extend_range()
        } else {
            self.begin_range(Some(begin), None)
        }
    }

    /// Moves to the next key. Does nothing if the iterator is invalid.
    pub fn next(&mut self) {
        match (self.position, self.direction) {
            (MergePosition::Invalid, _) => return,
            (MergePosition::AtBase, MergeDirection::Forward) => self.base.next(),
            (MergePosition::AtOwn, MergeDirection::Forward) => self.step_own(),
            (_, MergeDirection::Backward) => {
                let key = self.key().to_vec();
                self.base.seek(&key);
                if self.base.valid() && self.comparator.compare(self.base.key(), &key).is_eq() {
                    self.base.next();
                }
                self.own = self.first_own(Bound::Excluded(key));
                self.direction = MergeDirection::Forward;
                self.set_at_edge(false);
            }
        }
        self.settle();
        self.extend_range();
    }

    /// Moves to the key before. Does nothing if the iterator is invalid.
    pub fn prev(&mut self) {
        match (self.position, self.direction) {
            (MergePosition::Invalid, _) => return,
            (MergePosition::AtBase, MergeDirection::Backward) => self.base.prev(),
            (MergePosition::AtOwn, MergeDirection::Backward) => self.step_own(),
            (_, MergeDirection::Forward) => {
                let key = self.key().to_vec();
                self.base.seek(&key);
                if !self.base.valid() {
                    self.base.seek_to_last();
                }
                // More than one step if the seek passed over a block that is now readable.
                while self.base.valid() && self.comparator.compare(self.base.key(), &key).is_ge() {
                    self.base.prev();
                }
                self.own = self.last_own(Bound::Excluded(key));
                self.direction = MergeDirection::Backward;
                self.set_at_edge(false);
            }
        }
        self.settle();
        self.extend_range();
    }

    /// Same as [`DbIterator::entries_before_error`].
    pub fn entries_before_error(&mut self, first: &[u8], forward: bool, count: usize) -> usize {
        if self.error.is_some() || !self.base.forget_errors() {
            return count;
        }
        self.seek(first);
        for shown in 0..count {
            if self.status().is_err() {
                return shown;
            }
            if forward { self.next() } else { self.prev() }
        }
        count
    }

    /// Moves to the entry of the base or of the own writes that comes first in the current
    /// direction. Own writes replace and delete entries of the base.
    fn settle(&mut self) {
        loop {
            let order = match (&self.own, self.base.valid()) {
                (None, false) => {
                    self.position = MergePosition::Invalid;
                    return;
                }
                (None, true) => Ordering::Greater,
                (Some(_), false) => Ordering::Less,
                (Some(own), true) => match self.direction {
                    MergeDirection::Forward => self.comparator.compare(&own.key, self.base.key()),
                    MergeDirection::Backward => self.comparator.compare(self.base.key(), &own.key),
                },
            };
            if order.is_gt() {
                self.position = MergePosition::AtBase;
                return;
            }
            if order.is_eq() {
                match self.direction {
                    MergeDirection::Forward => self.base.next(),
                    MergeDirection::Backward => self.base.prev(),
                }
            }
            if self.own.as_ref().is_some_and(|own| !own.is_tombstone) {
                self.position = MergePosition::AtOwn;
                return;
            }
            self.step_own();
        }
    }

    /// Moves to the next own write in the current direction.
    fn step_own(&mut self) {
        let Some(own) = self.own.take() else { return };
        self.own = match self.direction {
            MergeDirection::Forward => self.first_own(Bound::Excluded(own.key)),
            MergeDirection::Backward => self.last_own(Bound::Excluded(own.key)),
        };
    }

    fn first_own(&self, begin: Bound<Vec<u8>>) -> Option<OwnEntry> {
        let found =
            self.writes.first(begin.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        self.own_entry(found?)
    }

    fn last_own(&self, end: Bound<Vec<u8>>) -> Option<OwnEntry> {
        let found = self.writes.last(self.lower.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
        self.own_entry(found?)
    }

    fn own_entry(&self, offset: usize) -> Option<OwnEntry> {
        let operation = self.writes.operation_at(offset)?;
        let is_tombstone = value_of(operation).is_none();
        Some(OwnEntry { key: key_of(operation).to_vec(), offset, is_tombstone })
    }

    fn own_value(&self, offset: usize) -> OwnWrite<'_> {
        self.writes.operation_at(offset).and_then(value_of)
    }

    /// Starts a new range after a seek. None is the current position, or the end of the bounds.
    fn begin_range(&mut self, begin: Option<Bound<Vec<u8>>>, end: Option<Bound<Vec<u8>>>) {
        let Some(recorder) = &self.recorder else { return };
        let position = self.valid().then(|| Bound::Included(self.key().to_vec()));
        let begin = begin.or_else(|| position.clone()).unwrap_or_else(|| self.lower.clone());
        let end = end.or(position).unwrap_or_else(|| self.upper.clone());
        let mut ranges = recorder.ranges.lock();
        let index = ranges.begin(recorder.current, ReadRange { begin, end }, &self.comparator);
        let bytes = ranges.memory_usage();
        drop(ranges);
        let limit = recorder.limit;
        if let Some(recorder) = &mut self.recorder {
            recorder.current = Some(index);
            recorder.is_at_edge = self.position != MergePosition::Invalid;
        }
        if bytes > limit {
            self.error = Some(Error::TransactionTooLarge { bytes, limit });
            self.position = MergePosition::Invalid;
        }
    }

    /// Extends the current range to the current position, after a step or a seek within the range.
    fn extend_range(&mut self) {
        let Some(RangeRecorder { ranges, current: Some(index), is_at_edge, .. }) = &self.recorder else {
            return;
        };
        let is_forward = self.direction == MergeDirection::Forward;
        let position = match (self.position, is_forward) {
            (MergePosition::Invalid, true) => self.upper.as_ref().map(Vec::as_slice),
            (MergePosition::Invalid, false) => self.lower.as_ref().map(Vec::as_slice),
            _ => Bound::Included(self.key()),
        };
        let mut ranges = ranges.lock();
        if *is_at_edge && self.position != MergePosition::Invalid {
            return ranges.move_edge(*index, is_forward, position);
        }
        let is_extended = ranges.extend(*index, is_forward, position, &*self.comparator);
        drop(ranges);
        self.set_at_edge(is_extended && self.position != MergePosition::Invalid);
    }

    fn set_at_edge(&mut self, is_at_edge: bool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.is_at_edge = is_at_edge;
        }
    }
}

impl std::fmt::Debug for TransactionIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.valid() {
            true => write!(f, "TransactionIterator('{}')", self.key().escape_ascii()),
            false => f.write_str("TransactionIterator"),
        }
    }
}

/// Forward iterator over copies of the entries that a transaction sees. An error is the last item.
#[derive(Debug)]
pub struct TransactionEntries {
    iter: Option<TransactionIterator>,
    is_started: bool,
}

impl TransactionEntries {
    pub(super) fn new(iter: TransactionIterator) -> TransactionEntries {
        TransactionEntries { iter: Some(iter), is_started: false }
    }
}

impl Iterator for TransactionEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let iter = self.iter.as_mut()?;
        if std::mem::replace(&mut self.is_started, true) {
            iter.next()
        } else {
            iter.seek_to_first()
        }
        let entry = match iter.valid() {
            true => copy_entry(iter.key(), iter.value()).map(Some),
            false => iter.status().map(|()| None),
        };
        if !matches!(entry, Ok(Some(_))) {
            self.iter = None;
        }
        entry.transpose()
    }
}

impl std::iter::FusedIterator for TransactionEntries {}
