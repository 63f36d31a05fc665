//! Iterators over several runs: one behind the other, merged, and as users see them.

mod db_iter;
mod level_iter;
mod merging_iter;

pub use db_iter::{Backward, DbIterator, Forward};
pub(crate) use db_iter::{DbIter, IterObserver, READ_BYTES_PERIOD};
pub(crate) use level_iter::{LevelIter, SortedRun};
pub(crate) use merging_iter::MergingIter;

use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::memtable::MemtableIter;

/// One sorted run. A closed set, so that a step is a jump and not a call through a table.
#[allow(clippy::large_enum_variant)] // A handful per iterator: a box would cost a jump at every step.
pub(crate) enum ChildIter {
    Memtable(MemtableIter),
    Level(LevelIter),
}

macro_rules! dispatch {
    ($source:expr, $iter:ident => $call:expr) => {
        match $source {
            ChildIter::Memtable($iter) => $call,
            ChildIter::Level($iter) => $call,
        }
    };
}

impl ChildIter {
    /// Has that fetched which a seek of `target`, which comes next, looks at first.
    fn prefetch_index(&mut self, target: &[u8]) {
        if let ChildIter::Level(run) = self {
            run.prefetch_index(target);
        }
    }

    /// Has that fetched which the seek looks at after that.
    fn prefetch_block(&self, target: &[u8]) {
        if let ChildIter::Level(run) = self {
            run.prefetch_block(target);
        }
    }
}

impl InternalIterator for ChildIter {
    #[inline]
    fn valid(&self) -> bool {
        dispatch!(self, iter => iter.valid())
    }

    fn seek_to_first(&mut self) {
        dispatch!(self, iter => iter.seek_to_first());
    }

    fn seek_to_last(&mut self) {
        dispatch!(self, iter => iter.seek_to_last());
    }

    fn seek(&mut self, target: &[u8]) {
        dispatch!(self, iter => iter.seek(target));
    }

    #[inline]
    fn next(&mut self) {
        dispatch!(self, iter => iter.next());
    }

    #[inline]
    fn prev(&mut self) {
        dispatch!(self, iter => iter.prev());
    }

    #[inline]
    fn key(&self) -> &[u8] {
        dispatch!(self, iter => iter.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        dispatch!(self, iter => iter.value())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        dispatch!(self, iter => iter.entry())
    }

    fn status(&self) -> Result<()> {
        dispatch!(self, iter => iter.status())
    }
}
