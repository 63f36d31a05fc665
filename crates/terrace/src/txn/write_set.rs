//! Write set: the operations of a transaction, in their order and by key.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Bound, Deref};

use terrace_format::batch::{BatchOp, WriteBatch};
use terrace_format::comparator::Comparator;

use super::key_order::OrderedKey;
use crate::sync::Arc;

/// Number of operations that a search reads one by one. Beyond it, an index is faster.
const MAX_UNINDEXED: usize = 8;

/// Initial capacity of the batch in bytes, for a few small operations.
const INITIAL_BATCH_BYTES: usize = 256;

/// Maximum size of a write set that a thread keeps for its next transaction, in bytes.
const MAX_SPARE_BYTES: usize = 4 << 10;

thread_local! {
    /// Empty write set of the last transaction that ended in this thread. A transaction of one put
    /// would otherwise spend a tenth of its time in the allocator.
    static SPARE: Cell<Option<Arc<WriteSet>>> = const { Cell::new(None) };
}

/// Operations of a transaction.
#[derive(Clone)]
pub(super) struct WriteSet {
    batch: WriteBatch,
    /// None if it is not up to date.
    index: Option<WriteIndex>,
    /// True if a rollback has removed operations, so that the batch may have much unused memory.
    is_large: bool,
}

/// Write set that its transaction shares with iterators. A change copies a shared set.
pub(super) struct SharedWriteSet {
    /// None only during the drop.
    set: Option<Arc<WriteSet>>,
}

/// Offset of the last operation of each key in the batch.
#[derive(Clone)]
struct WriteIndex {
    comparator: Arc<dyn Comparator>,
    offsets: BTreeMap<OrderedKey, usize>,
}

/// Own operation of a key: the value of a put, or None for a tombstone.
pub(super) type OwnWrite<'a> = Option<&'a [u8]>;

/// Number of bytes and operations of a write set at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteSetLength {
    bytes: usize,
    operations: usize,
}

impl SharedWriteSet {
    /// Returns an empty write set.
    pub(super) fn new() -> SharedWriteSet {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let set = spare.unwrap_or_else(|| {
            let batch = WriteBatch::with_capacity(INITIAL_BATCH_BYTES);
            Arc::new(WriteSet { batch, index: None, is_large: false })
        });
        SharedWriteSet { set: Some(set) }
    }

    pub(super) fn make_mut(&mut self) -> &mut WriteSet {
        // Only the drop takes the set.
        Arc::make_mut(self.set.as_mut().expect("a set before the drop"))
    }

    /// Returns the set as it is now.
    pub(super) fn share(&self) -> Arc<WriteSet> {
        // Only the drop takes the set.
        Arc::clone(self.set.as_ref().expect("a set before the drop"))
    }
}

impl Deref for SharedWriteSet {
    type Target = WriteSet;

    fn deref(&self) -> &WriteSet {
        // Only the drop takes the set.
        self.set.as_ref().expect("a set before the drop")
    }
}

impl Drop for SharedWriteSet {
    /// Keeps a small set for the next transaction of the thread.
    fn drop(&mut self) {
        let Some(mut shared) = self.set.take() else { return };
        if let Some(set) = Arc::get_mut(&mut shared)
            && !set.is_large
            && set.batch.approximate_size() <= MAX_SPARE_BYTES
        {
            set.batch.clear();
            set.index = None;
            // Fails at the end of the thread.
            let _ = SPARE.try_with(|spare| spare.set(Some(shared)));
        }
    }
}

impl WriteSet {
    /// Returns all operations in their order.
    pub(super) fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        // The index has a copy of each key, which is at most as long as its operation.
        self.batch.approximate_size() + self.index.as_ref().map_or(0, |_| self.batch.approximate_size())
    }

    /// Adds a put. Returns false, without a change, if it is too long or has no memory.
    #[must_use]
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.add(key, |batch| _ = batch.put(key, value))
    }

    /// Adds a tombstone. Returns false, without a change, if it is too long or has no memory.
    #[must_use]
    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        self.add(key, |batch| _ = batch.delete(key))
    }

    fn add(&mut self, key: &[u8], append: impl FnOnce(&mut WriteBatch)) -> bool {
        let offset = self.batch.approximate_size();
        let is_added = self.batch.try_add(append);
        if let Some(index) = self.index.as_mut().filter(|_| is_added) {
            let key = index.ordered_key(key);
            index.offsets.insert(key, offset);
        }
        is_added
    }

    pub(super) fn length(&self) -> WriteSetLength {
        WriteSetLength { bytes: self.batch.approximate_size(), operations: self.batch.len() }
    }

    /// Removes all operations after `length`, an earlier length of this set.
    pub(super) fn truncate(&mut self, length: WriteSetLength) {
        self.is_large |= self.batch.approximate_size() > MAX_SPARE_BYTES;
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

    /// Builds the index, in the order of `comparator`.
    pub(super) fn build_index(&mut self, comparator: &Arc<dyn Comparator>) {
        let mut index = WriteIndex { comparator: Arc::clone(comparator), offsets: BTreeMap::new() };
        let mut offset = WriteBatch::new().approximate_size();
        let mut rest = self.batch.iter_from(offset);
        while let Some(operation) = rest.next() {
            index.offsets.insert(index.ordered_key(key_of(operation)), offset);
            offset = self.batch.approximate_size() - rest.remaining_bytes();
        }
        self.index = Some(index);
    }

    /// Returns the last operation of `key`, if there is one. Keys are equal if `comparator` says
    /// so.
    pub(super) fn get(&self, key: &[u8], comparator: &dyn Comparator) -> Option<OwnWrite<'_>> {
        if let Some(index) = &self.index {
            let offset = *index.offsets.get(&index.ordered_key(key))?;
            return self.batch.iter_from(offset).next().map(value_of);
        }
        let operations = self.batch.iter().filter(|operation| {
            let own_key = key_of(*operation);
            own_key == key || comparator.compare(own_key, key).is_eq()
        });
        operations.last().map(value_of)
    }

    /// Returns the operation at `offset`, which [`WriteSet::first`] or [`WriteSet::last`] returned.
    pub(super) fn operation_at(&self, offset: usize) -> Option<BatchOp<'_>> {
        self.batch.iter_from(offset).next()
    }

    /// Returns the offset of the last operation of the first key within the bounds. The set has an
    /// index. The operation has the key, too: the index may have other bytes of an equal one.
    pub(super) fn first(&self, begin: Bound<&[u8]>, end: Bound<&[u8]>) -> Option<usize> {
        self.offset(begin, end, |mut offsets| offsets.next())
    }

    /// Returns the offset of the last operation of the last key within the bounds, like
    /// [`WriteSet::first`].
    pub(super) fn last(&self, begin: Bound<&[u8]>, end: Bound<&[u8]>) -> Option<usize> {
        self.offset(begin, end, |mut offsets| offsets.next_back())
    }

    fn offset<'a>(
        &'a self,
        begin: Bound<&[u8]>,
        end: Bound<&[u8]>,
        take: impl FnOnce(
            std::collections::btree_map::Range<'a, OrderedKey, usize>,
        ) -> Option<(&'a OrderedKey, &'a usize)>,
    ) -> Option<usize> {
        let index = self.index.as_ref()?;
        if let (
            Bound::Included(first) | Bound::Excluded(first),
            Bound::Included(last) | Bound::Excluded(last),
        ) = (begin, end)
            && index.comparator.compare(first, last).is_ge()
        {
            // `BTreeMap::range` panics for a reversed range. No caller asks for a single key.
            return None;
        }
        let ordered = |key: &[u8]| index.ordered_key(key);
        take(index.offsets.range((begin.map(ordered), end.map(ordered)))).map(|(_, offset)| *offset)
    }
}

impl WriteIndex {
    fn ordered_key(&self, key: &[u8]) -> OrderedKey {
        OrderedKey { comparator: Arc::clone(&self.comparator), bytes: key.to_vec() }
    }
}

/// Returns the key of `operation`.
pub(super) fn key_of(operation: BatchOp<'_>) -> &[u8] {
    match operation {
        BatchOp::Put { key, .. } | BatchOp::Delete { key } => key,
    }
}

/// Returns the value of `operation`, or None for a tombstone.
pub(super) fn value_of(operation: BatchOp<'_>) -> OwnWrite<'_> {
    match operation {
        BatchOp::Put { value, .. } => Some(value),
        BatchOp::Delete { .. } => None,
    }
}
