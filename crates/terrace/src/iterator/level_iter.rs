//! Tables that do not overlap, in key order, as one run. A table is opened when the walk comes to it.

use terrace_format::block::BlockIter;

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::table::TableIter;

/// The tables of a run.
pub(crate) trait SortedRun: Send + Sync {
    /// How many.
    fn len(&self) -> usize;
    /// The first table whose greatest internal key is not below `target`; their number if there is none.
    fn find_table(&self, target: &[u8]) -> usize;
    /// Opens table `i`.
    fn open_table(&self, i: usize) -> Result<TableIter>;
}

/// A walk over a run.
pub(crate) struct LevelIter {
    run: Arc<dyn SortedRun>,
    /// The table of `iter`, if there is one.
    table_index: usize,
    table_iter: Option<TableIter>,
    first_error: Option<Error>,
}

impl LevelIter {
    pub(crate) fn new(runs: Arc<dyn SortedRun>) -> LevelIter {
        LevelIter { run: runs, table_index: 0, table_iter: None, first_error: None }
    }

    /// The walk over the block that it is in, to step within that.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut BlockIter> {
        self.table_iter.as_mut()?.block_iter()
    }

    /// Goes to the table that a seek of `target` would go to, and has that fetched which it looks at first there.
    pub(crate) fn prefetch_index(&mut self, target: &[u8]) {
        let index = self.run.find_table(target);
        if index != self.table_index || self.table_iter.is_none() {
            self.load_table(Some(index));
        }
        self.table_iter.iter().for_each(|iter| iter.prefetch_index(target));
    }

    /// Has that fetched which the seek looks at when it has what [`LevelIter::prefetch_index`] had fetched.
    pub(crate) fn prefetch_block(&self, target: &[u8]) {
        self.table_iter.iter().for_each(|iter| iter.prefetch_block(target));
    }

    fn record_error(&mut self, result: Result<()>) {
        if let (None, Err(error)) = (&self.first_error, result) {
            self.first_error = Some(error);
        }
    }

    /// Leaves the present table for table `index`, if there is one.
    fn load_table(&mut self, index: Option<usize>) {
        if let Some(iter) = self.table_iter.take() {
            self.record_error(iter.status());
        }
        let Some(index) = index.filter(|&i| i < self.run.len()) else { return };
        self.table_index = index;
        match self.run.open_table(index) {
            Ok(iter) => self.table_iter = Some(iter),
            Err(error) => self.record_error(Err(error)),
        }
    }

    /// Moves on to the following tables until there is an entry.
    #[cold]
    fn skip_empty_tables_forward(&mut self) {
        while !self.valid() && self.table_index + 1 < self.run.len() {
            self.load_table(Some(self.table_index + 1));
            self.table_iter.iter_mut().for_each(TableIter::seek_to_first);
        }
    }

    #[cold]
    fn skip_empty_tables_backward(&mut self) {
        while !self.valid() && self.table_index > 0 {
            self.load_table(Some(self.table_index - 1));
            self.table_iter.iter_mut().for_each(TableIter::seek_to_last);
        }
    }
}

impl InternalIterator for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.table_iter.as_ref().is_some_and(TableIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.load_table(Some(0));
        self.table_iter.iter_mut().for_each(TableIter::seek_to_first);
        self.skip_empty_tables_forward();
    }

    fn seek_to_last(&mut self) {
        self.load_table(self.run.len().checked_sub(1));
        self.table_iter.iter_mut().for_each(TableIter::seek_to_last);
        self.skip_empty_tables_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let index = self.run.find_table(target);
        if index != self.table_index || self.table_iter.is_none() {
            self.load_table(Some(index));
        }
        if index >= self.run.len() {
            // Past the end: nothing to skip to.
            self.table_index = index;
            return;
        }
        self.table_iter.iter_mut().for_each(|iter| iter.seek(target));
        self.skip_empty_tables_forward();
    }

    #[inline]
    fn next(&mut self) {
        let Some(table) = &mut self.table_iter else { return };
        table.next();
        if !table.valid() {
            self.skip_empty_tables_forward();
        }
    }

    #[inline]
    fn prev(&mut self) {
        let Some(table) = &mut self.table_iter else { return };
        table.prev();
        if !table.valid() {
            self.skip_empty_tables_backward();
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.table_iter.as_ref().map_or(&[], TableIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.table_iter.as_ref().map_or(&[], TableIter::value)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.table_iter.as_ref()?.entry()
    }

    fn status(&self) -> Result<()> {
        if let Some(error) = &self.first_error {
            return Err(error.clone());
        }
        self.table_iter.as_ref().map_or(Ok(()), TableIter::status)
    }
}
