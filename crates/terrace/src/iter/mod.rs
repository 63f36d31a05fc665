//! Iterators over several runs: one behind the other, merged, and as users see them.

mod concat;
mod merge;
mod visible;

pub(crate) use concat::{ConcatIter, Runs};
pub(crate) use merge::MergeIter;
pub use visible::{Backward, DbIterator, Forward};
pub(crate) use visible::{Owner, SAMPLE_PERIOD, Visible};

use crate::error::Result;
use crate::memtable::MemtableIter;
use crate::walk::InternalIterator;

/// One sorted run. A closed set, so that a step is a jump and not a call through a table.
#[allow(clippy::large_enum_variant)] // A handful per iterator: a box would cost a jump at every step.
pub(crate) enum Source {
    Memtable(MemtableIter),
    Level(ConcatIter),
}

macro_rules! each {
    ($source:expr, $iter:ident => $call:expr) => {
        match $source {
            Source::Memtable($iter) => $call,
            Source::Level($iter) => $call,
        }
    };
}

impl Source {
    /// Has that fetched which a seek of `target`, which comes next, looks at first.
    fn aim(&mut self, target: &[u8]) {
        if let Source::Level(run) = self {
            run.aim(target);
        }
    }

    /// Has that fetched which the seek looks at after that.
    fn close_in(&self, target: &[u8]) {
        if let Source::Level(run) = self {
            run.close_in(target);
        }
    }
}

impl InternalIterator for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, iter => iter.valid())
    }

    fn seek_to_first(&mut self) {
        each!(self, iter => iter.seek_to_first());
    }

    fn seek_to_last(&mut self) {
        each!(self, iter => iter.seek_to_last());
    }

    fn seek(&mut self, target: &[u8]) {
        each!(self, iter => iter.seek(target));
    }

    #[inline]
    fn next(&mut self) {
        each!(self, iter => iter.next());
    }

    #[inline]
    fn prev(&mut self) {
        each!(self, iter => iter.prev());
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, iter => iter.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, iter => iter.value())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        each!(self, iter => iter.entry())
    }

    fn status(&self) -> Result<()> {
        each!(self, iter => iter.status())
    }
}
