//! Write set: the operations of a transaction, in their order and by key.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_format::batch::{BatchOp, WriteBatch};
use terrace_format::comparator::Comparator;

use crate::sync::Arc;

/// Number of operations that a search reads one by one. Beyond it, an index is faster.
const MAX_UNINDEXED: usize = 8;

/// Initial capacity of the batch in bytes, for a few small operations.
const INITIAL_BATCH_BYTES: usize = 256;

/// Operations of a transaction.
#[derive(Clone)]
pub(super) struct WriteSet {
    comparator: Arc<dyn Comparator>,
    batch: WriteBatch,
    /// Offset of the last operation of each key in the batch. None if it is not up to date.
    index: Option<BTreeMap<OrderedKey, usize>>,
}

/// Own operation of a key: the value of a put, or None for a tombstone.
pub(super) type OwnWrite<'a> = Option<&'a [u8]>;

/// Number of bytes and operations of a write set at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteSetLength {
    bytes: usize,
    operations: usize,
}

/// User key in the order of the comparator of its database.
#[derive(Clone)]
struct OrderedKey {
    comparator: Arc<dyn Comparator>,
    bytes: Vec<u8>,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.comparator.compare(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl WriteSet {
    pub(super) fn new(comparator: &Arc<dyn Comparator>) -> WriteSet {
        let batch = WriteBatch::with_capacity(INITIAL_BATCH_BYTES);
        WriteSet { comparator: Arc::clone(comparator), batch, index: None }
    }

    /// Returns all operations in their order.
    pub(super) fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        // The index has a copy of each key, which is at most as long as its operation.
        self.batch.approximate_size() + self.index.as_ref().map_or(0, |_| self.batch.approximate_size())
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.add(key, |batch| {
            batch.put(key, value);
        });
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        self.add(key, |batch| {
            batch.delete(key);
        });
    }

    fn add(&mut self, key: &[u8], append: impl FnOnce(&mut WriteBatch)) {
        let offset = self.batch.approximate_size();
        append(&mut self.batch);
        if let Some(index) = &mut self.index {
            let comparator = Arc::clone(&self.comparator);
            index.insert(OrderedKey { comparator, bytes: key.to_vec() }, offset);
        }
    }

    pub(super) fn length(&self) -> WriteSetLength {
        WriteSetLength { bytes: self.batch.approximate_size(), operations: self.batch.len() }
    }

    /// Removes all operations after `length`, an earlier length of this set.
    pub(super) fn truncate(&mut self, length: WriteSetLength) {
        self.batch.truncate(length.bytes, length.operations);
        self.index = None;
    }

    pub(super) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Returns true if a search would be slow without an index.
    pub(super) fn needs_index(&self) -> bool {
        self.index.is_none() && self.batch.len() > MAX_UNINDEXED
    }

    pub(super) fn build_index(&mut self) {
        let mut index = BTreeMap::new();
        let mut offset = WriteBatch::new().approximate_size();
        let mut rest = self.batch.iter_from(offset);
        while let Some(operation) = rest.next() {
            let comparator = Arc::clone(&self.comparator);
            index.insert(OrderedKey { comparator, bytes: key_of(operation).to_vec() }, offset);
            offset = self.batch.approximate_size() - rest.remaining_bytes();
        }
        self.index = Some(index);
    }

    /// Returns the last operation of `key`, if there is one.
    pub(super) fn get(&self, key: &[u8]) -> Option<OwnWrite<'_>> {
        match &self.index {
            Some(index) => {
                let comparator = Arc::clone(&self.comparator);
                let offset = *index.get(&OrderedKey { comparator, bytes: key.to_vec() })?;
                self.batch.iter_from(offset).next().map(value_of)
            }
            None => self.batch.iter().filter(|own| self.is_equal(key_of(*own), key)).last().map(value_of),
        }
    }

    fn is_equal(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.comparator.compare(a, b).is_eq()
    }

    /// Returns the first key within the bounds, and its last operation. The set has an index.
    pub(super) fn first(&self, begin: Bound<&[u8]>, end: Bound<&[u8]>) -> Option<(&[u8], OwnWrite<'_>)> {
        self.entry(begin, end, |mut range| range.next())
    }

    /// Returns the last key within the bounds, and its last operation. The set has an index.
    pub(super) fn last(&self, begin: Bound<&[u8]>, end: Bound<&[u8]>) -> Option<(&[u8], OwnWrite<'_>)> {
        self.entry(begin, end, |mut range| range.next_back())
    }

    fn entry<'a>(
        &'a self,
        begin: Bound<&[u8]>,
        end: Bound<&[u8]>,
        take: impl FnOnce(
            std::collections::btree_map::Range<'a, OrderedKey, usize>,
        ) -> Option<(&'a OrderedKey, &'a usize)>,
    ) -> Option<(&'a [u8], OwnWrite<'a>)> {
        let index = self.index.as_ref()?;
        if let (
            Bound::Included(first) | Bound::Excluded(first),
            Bound::Included(last) | Bound::Excluded(last),
        ) = (begin, end)
            && self.comparator.compare(first, last).is_ge()
        {
            // `BTreeMap::range` panics for a reversed range. No caller asks for a single key.
            return None;
        }
        let ordered =
            |key: &[u8]| OrderedKey { comparator: Arc::clone(&self.comparator), bytes: key.to_vec() };
        let (key, offset) = take(index.range((begin.map(ordered), end.map(ordered))))?;
        Some((&key.bytes, self.batch.iter_from(*offset).next().and_then(value_of)))
    }
}

/// Returns the key of `operation`.
pub(super) fn key_of(operation: BatchOp<'_>) -> &[u8] {
    match operation {
        BatchOp::Put { key, .. } | BatchOp::Delete { key } => key,
    }
}

fn value_of(operation: BatchOp<'_>) -> OwnWrite<'_> {
    match operation {
        BatchOp::Put { value, .. } => Some(value),
        BatchOp::Delete { .. } => None,
    }
}
