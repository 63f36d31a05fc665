//! Level iterator: the disjoint tables of a sorted run as one sequence of entries. It opens a table
//! when it reaches it.

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::table::{DataBlockIter, TableIter};

/// Tables of a sorted run, in key order.
pub(crate) trait SortedRun: Send + Sync {
    /// Returns the number of tables.
    fn len(&self) -> usize;
    /// Returns the index of the first table whose largest internal key is at or after `target`, or
    /// the number of tables if there is none.
    fn find_table(&self, target: &[u8]) -> usize;
    /// Opens the table at `index`.
    fn open_table(&self, index: usize) -> Result<TableIter>;
}

/// Iterator over the entries of a sorted run.
pub(crate) struct LevelIter {
    run: Arc<dyn SortedRun>,
    /// Index of the current table. After a seek beyond the last table, the number of tables.
    table_index: usize,
    /// Iterator over the current table. None if no table is open.
    table_iter: Option<TableIter>,
    first_error: Option<Error>,
}

impl LevelIter {
    /// Creates an invalid iterator over `run`.
    pub(crate) fn new(run: Arc<dyn SortedRun>) -> LevelIter {
        LevelIter { run, table_index: 0, table_iter: None, first_error: None }
    }

    /// Returns the iterator over the current block, for a step within this block.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut DataBlockIter> {
        self.table_iter.as_mut()?.block_iter()
    }

    /// Opens the table of `target` and prefetches the index entries that a seek reads first.
    pub(crate) fn prefetch_index(&mut self, target: &[u8]) {
        self.load_table_of(target);
        if let Some(table_iter) = &self.table_iter {
            table_iter.prefetch_index(target);
        }
    }

    /// Prefetches the block that a seek reads second. Call it after
    /// [`LevelIter::prefetch_index`].
    pub(crate) fn prefetch_block(&self, target: &[u8]) {
        if let Some(table_iter) = &self.table_iter {
            table_iter.prefetch_block(target);
        }
    }

    /// Forgets the errors, and closes the current table, which has its own. The iterator is invalid
    /// afterwards.
    pub(crate) fn forget_errors(&mut self) {
        self.first_error = None;
        self.table_iter = None;
    }

    fn record_error(&mut self, result: Result<()>) {
        if let (None, Err(error)) = (&self.first_error, result) {
            self.first_error = Some(error);
        }
    }

    /// Opens the table of `target` unless it is the current one. Returns its index.
    #[inline]
    fn load_table_of(&mut self, target: &[u8]) -> usize {
        let index = self.run.find_table(target);
        if index != self.table_index || self.table_iter.is_none() {
            self.load_table(Some(index));
        }
        index
    }

    /// Closes the current table and opens the table at `index`, if there is one.
    fn load_table(&mut self, index: Option<usize>) {
        if let Some(table_iter) = self.table_iter.take() {
            self.record_error(table_iter.status());
        }
        let Some(index) = index.filter(|&index| index < self.run.len()) else { return };
        self.table_index = index;
        match self.run.open_table(index) {
            Ok(table_iter) => self.table_iter = Some(table_iter),
            Err(error) => self.record_error(Err(error)),
        }
    }

    /// Opens the table at `index` and moves to its first entry.
    fn load_table_at_first(&mut self, index: usize) {
        self.load_table(Some(index));
        if let Some(table_iter) = &mut self.table_iter {
            table_iter.seek_to_first();
        }
    }

    /// Opens the table at `index`, if there is one, and moves to its last entry.
    fn load_table_at_last(&mut self, index: Option<usize>) {
        self.load_table(index);
        if let Some(table_iter) = &mut self.table_iter {
            table_iter.seek_to_last();
        }
    }

    /// Moves to the following tables until there is an entry.
    #[cold]
    fn skip_empty_tables_forward(&mut self) {
        while !self.valid() && self.table_index + 1 < self.run.len() {
            self.load_table_at_first(self.table_index + 1);
        }
    }

    /// Moves to the preceding tables until there is an entry.
    #[cold]
    fn skip_empty_tables_backward(&mut self) {
        while !self.valid() && self.table_index > 0 {
            self.load_table_at_last(Some(self.table_index - 1));
        }
    }
}

impl InternalIterator for LevelIter {
    type Error = Error;

    #[inline]
    fn valid(&self) -> bool {
        self.table_iter.as_ref().is_some_and(TableIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.load_table_at_first(0);
        self.skip_empty_tables_forward();
    }

    fn seek_to_last(&mut self) {
        self.load_table_at_last(self.run.len().checked_sub(1));
        self.skip_empty_tables_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let index = self.load_table_of(target);
        if index >= self.run.len() {
            self.table_index = index;
            return;
        }
        if let Some(table_iter) = &mut self.table_iter {
            table_iter.seek(target);
        }
        self.skip_empty_tables_forward();
    }

    #[inline]
    fn next(&mut self) {
        let Some(table_iter) = &mut self.table_iter else { return };
        table_iter.next();
        if !table_iter.valid() {
            self.skip_empty_tables_forward();
        }
    }

    #[inline]
    fn prev(&mut self) {
        let Some(table_iter) = &mut self.table_iter else { return };
        table_iter.prev();
        if !table_iter.valid() {
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
