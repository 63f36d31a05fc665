//! Interface of all iterators over sorted entries: of a block, a table, a level, a memtable, or
//! several of them as one.

/// Iterator over entries in key order, in both directions.
///
/// A new iterator is invalid: the caller seeks first. An iterator also becomes invalid when it
/// moves beyond an end. `next`, `prev`, `key` and `value` need a valid iterator.
///
/// The keys are internal keys, except in the iterators over other blocks and in the engine's
/// iterator over user entries.
pub trait InternalIterator {
    /// Error of [`InternalIterator::status`].
    type Error;

    /// Returns true if the iterator is at an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry whose key is at or after `target`.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the next entry, or makes the iterator invalid after the last one.
    fn next(&mut self);
    /// Moves to the entry before, or makes the iterator invalid before the first one.
    fn prev(&mut self);
    /// Returns the current key.
    fn key(&self) -> &[u8];
    /// Returns the current value.
    fn value(&self) -> &[u8];
    /// Returns the current key and value if the iterator is valid.
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
    /// Returns the first error since the iterator was created. An error does not end the
    /// iteration: the iterator continues after the damage if it can.
    fn status(&self) -> Result<(), Self::Error>;
}
