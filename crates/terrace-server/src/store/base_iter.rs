//! Iterator below a scan: of the database, of an EXEC with its own writes, or of a shared store.

use std::rc::Rc;

use terrace::{DbIterator, ReadOptions, StateStamp, TransactionIterator};
use terrace_store::{StoreIterator, TransactionIterator as StoreTransactionIterator};

use super::kept_iter::{IterPlace, ReturnedIter};
use crate::failure::CommandResult;

enum Source {
    Database(Box<DbIterator>),
    Kept(ReturnedIter),
    Transaction(Box<TransactionIterator>),
    Store(Box<StoreTransactionIterator>),
}

/// Calls a method of the iterator.
macro_rules! either {
    ($iter:expr, $call:ident()) => {
        match $iter {
            Source::Database(iter) => iter.$call(),
            Source::Kept(iter) => iter.$call(),
            Source::Transaction(iter) => iter.$call(),
            Source::Store(iter) => iter.$call(),
        }
    };
}

/// Iterator over the entries between two bounds, in one direction.
pub(super) struct BaseIter {
    source: Source,
    is_reverse: bool,
    is_started: bool,
}

impl From<DbIterator> for BaseIter {
    fn from(iter: DbIterator) -> BaseIter {
        BaseIter { source: Source::Database(Box::new(iter)), is_reverse: false, is_started: false }
    }
}

impl From<ReturnedIter> for BaseIter {
    fn from(iter: ReturnedIter) -> BaseIter {
        BaseIter { source: Source::Kept(iter), is_reverse: false, is_started: false }
    }
}

impl From<TransactionIterator> for BaseIter {
    fn from(iter: TransactionIterator) -> BaseIter {
        BaseIter { source: Source::Transaction(Box::new(iter)), is_reverse: false, is_started: false }
    }
}

impl From<StoreTransactionIterator> for BaseIter {
    fn from(iter: StoreTransactionIterator) -> BaseIter {
        BaseIter { source: Source::Store(Box::new(iter)), is_reverse: false, is_started: false }
    }
}

impl BaseIter {
    /// Chooses the direction. True stands for descending order.
    pub(super) fn reverse(mut self, is_reverse: bool) -> BaseIter {
        self.is_reverse = is_reverse;
        self
    }

    /// Lets the thread of `place` keep the iterator if it shows the database. It has the options
    /// `options` and shows the state of `stamp`.
    pub(super) fn keep(mut self, place: &Rc<IterPlace>, stamp: StateStamp, options: ReadOptions) -> BaseIter {
        self.source = match self.source {
            Source::Database(iter) => Source::Kept(place.lend(iter, stamp, options)),
            other => other,
        };
        self
    }

    /// Moves to the next entry. Returns false at the end.
    ///
    /// # Errors
    ///
    /// A block is damaged, or the store does not answer.
    pub(super) fn step(&mut self) -> CommandResult<bool> {
        match (self.is_started, self.is_reverse) {
            (false, false) => either!(&mut self.source, seek_to_first()),
            (false, true) => either!(&mut self.source, seek_to_last()),
            (true, false) => either!(&mut self.source, next()),
            (true, true) => either!(&mut self.source, prev()),
        }
        self.is_started = true;
        if either!(&self.source, valid()) {
            return Ok(true);
        }
        match &self.source {
            Source::Database(iter) => iter.status()?,
            Source::Kept(iter) => iter.status()?,
            Source::Transaction(iter) => iter.status()?,
            Source::Store(iter) => iter.status()?,
        }
        Ok(false)
    }

    /// Key of the current entry.
    pub(super) fn key(&self) -> &[u8] {
        either!(&self.source, key())
    }

    /// Value of the current entry.
    pub(super) fn value(&self) -> &[u8] {
        either!(&self.source, value())
    }
}
