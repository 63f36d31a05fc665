//! What every iterator over internal keys promises.

use crate::error::Result;

/// A walk over internal keys in their order. Begins nowhere: seek first.
pub(crate) trait InternalIterator {
    /// True if it stands at an entry.
    fn valid(&self) -> bool;
    /// To the least entry.
    fn seek_to_first(&mut self);
    /// To the greatest entry.
    fn seek_to_last(&mut self);
    /// To the first entry that is not below `target`.
    fn seek(&mut self, target: &[u8]);
    /// To the entry behind. Needs a valid place.
    fn next(&mut self);
    /// To the entry before. Needs a valid place.
    fn prev(&mut self);
    /// The internal key here. Needs a valid place.
    fn key(&self) -> &[u8];
    /// The value here. Needs a valid place.
    fn value(&self) -> &[u8];
    /// The internal key and the value here, if there is a here.
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
    /// The first damage met so far. The walk goes on behind it.
    fn status(&self) -> Result<()>;
}
