//! Iterator below a scan: of the database, of an EXEC with its own writes, or of a shared store.

use std::rc::Rc;

use terrace::{DbIterator, ReadOptions, StateStamp, TransactionIterator};
use terrace_store::{StoreIterator, TransactionIterator as StoreTransactionIterator};

use super::kept_iter::{IterPlace, ReturnedIter};
use crate::failure::CommandResult;

enum Source {
    Kept(ReturnedIter),
    Plain(PlainIter),
}

/// Iterator that the thread does not keep.
enum PlainIter {
    Database(Box<DbIterator>),
    Transaction(Box<TransactionIterator>),
    Store(Box<StoreTransactionIterator>),
}

/// Calls a method of the iterator.
macro_rules! either {
    ($iter:expr, $call:ident()) => {
        match $iter {
            PlainIter::Database(iter) => iter.$call(),
            PlainIter::Transaction(iter) => iter.$call(),
            PlainIter::Store(iter) => iter.$call(),
        }
    };
}

/// Iterator over the entries between two bounds, in one direction.
pub(super) struct BaseIter {
    source: Source,
    is_reverse: bool,
    is_started: bool,
}

impl From<Source> for BaseIter {
    fn from(source: Source) -> BaseIter {
        BaseIter { source, is_reverse: false, is_started: false }
    }
}

impl From<DbIterator> for BaseIter {
    fn from(iter: DbIterator) -> BaseIter {
        Source::Plain(PlainIter::Database(Box::new(iter))).into()
    }
}

impl From<ReturnedIter> for BaseIter {
    fn from(iter: ReturnedIter) -> BaseIter {
        Source::Kept(iter).into()
    }
}

impl From<TransactionIterator> for BaseIter {
    fn from(iter: TransactionIterator) -> BaseIter {
        Source::Plain(PlainIter::Transaction(Box::new(iter))).into()
    }
}

impl From<StoreTransactionIterator> for BaseIter {
    fn from(iter: StoreTransactionIterator) -> BaseIter {
        Source::Plain(PlainIter::Store(Box::new(iter))).into()
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
            Source::Plain(PlainIter::Database(iter)) => Source::Kept(place.lend(iter, stamp, options)),
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
        let iter = match &mut self.source {
            Source::Kept(iter) => return iter.step(self.is_reverse),
            Source::Plain(iter) => iter,
        };
        match (self.is_started, self.is_reverse) {
            (false, false) => either!(iter, seek_to_first()),
            (false, true) => either!(iter, seek_to_last()),
            (true, false) => either!(iter, next()),
            (true, true) => either!(iter, prev()),
        }
        self.is_started = true;
        if either!(iter, valid()) {
            return Ok(true);
        }
        match iter {
            PlainIter::Database(iter) => iter.status()?,
            PlainIter::Transaction(iter) => iter.status()?,
            PlainIter::Store(iter) => iter.status()?,
        }
        Ok(false)
    }

    /// Key of the current entry.
    pub(super) fn key(&self) -> &[u8] {
        match &self.source {
            Source::Kept(iter) => iter.key(),
            Source::Plain(iter) => either!(iter, key()),
        }
    }

    /// Value of the current entry.
    pub(super) fn value(&self) -> &[u8] {
        match &self.source {
            Source::Kept(iter) => iter.value(),
            Source::Plain(iter) => either!(iter, value()),
        }
    }
}
