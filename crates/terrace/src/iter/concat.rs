//! Tables that do not overlap, in key order, as one run. A table is opened when the walk comes to it.

use terrace_format::block::BlockIter;

use crate::error::{Error, Result};
use crate::sync::Arc;
use crate::tables::TableIter;
use crate::walk::InternalIterator;

/// The tables of a run.
pub(crate) trait Runs: Send + Sync {
    /// How many.
    fn len(&self) -> usize;
    /// The first table whose greatest internal key is not below `target`; their number if there is none.
    fn find(&self, target: &[u8]) -> usize;
    /// Opens table `i`.
    fn open(&self, i: usize) -> Result<TableIter>;
}

/// A walk over a run.
pub(crate) struct ConcatIter {
    runs: Arc<dyn Runs>,
    /// The table of `iter`, if there is one.
    index: usize,
    iter: Option<TableIter>,
    damage: Option<Error>,
}

impl ConcatIter {
    pub(crate) fn new(runs: Arc<dyn Runs>) -> ConcatIter {
        ConcatIter { runs, index: 0, iter: None, damage: None }
    }

    /// The walk over the block that it is in, to step within that.
    #[inline]
    pub(crate) fn block(&mut self) -> Option<&mut BlockIter> {
        self.iter.as_mut()?.block()
    }

    /// Goes to the table that a seek of `target` would go to, and has that fetched which it looks at first there.
    pub(crate) fn aim(&mut self, target: &[u8]) {
        let index = self.runs.find(target);
        if index != self.index || self.iter.is_none() {
            self.enter(Some(index));
        }
        self.iter.iter().for_each(|iter| iter.aim(target));
    }

    /// Has that fetched which the seek looks at when it has what [`ConcatIter::aim`] had fetched.
    pub(crate) fn close_in(&self, target: &[u8]) {
        self.iter.iter().for_each(|iter| iter.close_in(target));
    }

    fn note(&mut self, result: Result<()>) {
        if let (None, Err(error)) = (&self.damage, result) {
            self.damage = Some(error);
        }
    }

    /// Leaves the present table for table `index`, if there is one.
    fn enter(&mut self, index: Option<usize>) {
        if let Some(iter) = self.iter.take() {
            self.note(iter.status());
        }
        let Some(index) = index.filter(|&i| i < self.runs.len()) else { return };
        self.index = index;
        match self.runs.open(index) {
            Ok(iter) => self.iter = Some(iter),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Moves on to the following tables until there is an entry.
    #[cold]
    fn skip_forward(&mut self) {
        while !self.valid() && self.index + 1 < self.runs.len() {
            self.enter(Some(self.index + 1));
            self.iter.iter_mut().for_each(TableIter::seek_to_first);
        }
    }

    #[cold]
    fn skip_backward(&mut self) {
        while !self.valid() && self.index > 0 {
            self.enter(Some(self.index - 1));
            self.iter.iter_mut().for_each(TableIter::seek_to_last);
        }
    }
}

impl InternalIterator for ConcatIter {
    #[inline]
    fn valid(&self) -> bool {
        self.iter.as_ref().is_some_and(TableIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.enter(Some(0));
        self.iter.iter_mut().for_each(TableIter::seek_to_first);
        self.skip_forward();
    }

    fn seek_to_last(&mut self) {
        self.enter(self.runs.len().checked_sub(1));
        self.iter.iter_mut().for_each(TableIter::seek_to_last);
        self.skip_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let index = self.runs.find(target);
        if index != self.index || self.iter.is_none() {
            self.enter(Some(index));
        }
        if index >= self.runs.len() {
            // Past the end: nothing to skip to.
            self.index = index;
            return;
        }
        self.iter.iter_mut().for_each(|iter| iter.seek(target));
        self.skip_forward();
    }

    #[inline]
    fn next(&mut self) {
        let Some(table) = &mut self.iter else { return };
        table.next();
        if !table.valid() {
            self.skip_forward();
        }
    }

    #[inline]
    fn prev(&mut self) {
        let Some(table) = &mut self.iter else { return };
        table.prev();
        if !table.valid() {
            self.skip_backward();
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], TableIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], TableIter::value)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.iter.as_ref()?.entry()
    }

    fn status(&self) -> Result<()> {
        if let Some(error) = &self.damage {
            return Err(error.clone());
        }
        self.iter.as_ref().map_or(Ok(()), TableIter::status)
    }
}
