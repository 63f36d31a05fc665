//! Double-ended Rust iterator over the entries of a key range.
//!
//! ```text
//!   next() -->  front cursor                         back cursor  <-- next_back()
//!               |                                              |
//!   [ k1   k2   k3   k4   k5   k6   k7   k8   k9   k10   k11   k12   k13 ]
//!                    ^------ entries that are left ------^
//! ```
//!
//! Each end opens its cursor at its first call, so an iteration in one direction costs one cursor.
//! Both cursors read the same state. The iteration ends where they meet.

use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::path::Path;

use super::db_iterator::DbIterator;
use crate::error::{Error, Result};
use crate::file_io::try_copy;

/// State that both ends of an [`Iter`] read.
pub(crate) trait IterSource: Send + Sync {
    /// Opens a cursor on the state. The cursor is invalid until a seek.
    fn open(&self) -> DbIterator;

    /// Compares two user keys by the comparator of the database.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
}

/// Iterator over the entries of a database in key order, at the state of one moment.
///
/// `iter`, `range` and `prefix` of `Db` and of `Snapshot` return it. It is
/// double-ended: [`Iterator::rev`] iterates backward. An item is a copy of a key and its value;
/// [`Iter::next_entry`] lends both without a copy.
///
/// Damage does not hide later entries: the iterator skips a damaged block and returns the error as
/// the last item. The iterator keeps its files and the database open until it is dropped.
///
/// ```
/// # let env = terrace::Env::in_memory();
/// # let options = terrace::Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put("AT/Wien", "48.21,16.37")?;
/// db.put("CH/Bern", "46.95,7.45")?;
/// db.put("CH/Chur", "46.85,9.53")?;
/// for entry in db.prefix("CH/").rev() {
///     let (city, location) = entry?;
///     println!("{} {}", city.escape_ascii(), location.escape_ascii());
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Iter {
    /// State of the iteration, or the error that its first call returns. None after the end.
    source: Option<Result<Box<dyn IterSource>>>,
    /// Cursor at the last entry that the front returned. None before the first call.
    front: Option<DbIterator>,
    /// Cursor at the last entry that the back returned. None before the first call.
    back: Option<DbIterator>,
}

/// One end of the iteration.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

impl Iter {
    /// Creates an iterator that reads `source`, or that returns its error once.
    pub(crate) fn new(source: Result<Box<dyn IterSource>>) -> Iter {
        Iter { source: Some(source), front: None, back: None }
    }

    /// Returns the next key and its value without a copy. Both live until the next call.
    ///
    /// A scan with this method allocates nothing per entry.
    ///
    /// # Errors
    ///
    /// As an item of the iterator: an error is the last result.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut bytes = 0;
    /// let mut iter = db.prefix("");
    /// while let Some((key, value)) = iter.next_entry()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 17);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.advance(End::Front)?;
        Ok(self.front.as_ref().map(|cursor| (cursor.key(), cursor.value())))
    }

    /// Moves one end by one entry. At the end of the iteration it drops both cursors, so that the
    /// caller finds none, and returns their first error.
    fn advance(&mut self, end: End) -> Result<()> {
        let source = match self.source.take() {
            None => return Ok(()),
            Some(source) => source?,
        };
        let (own, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        let cursor = step(own, &*source, end);
        let is_left = cursor.valid()
            && other.as_ref().is_none_or(|other| {
                let order = source.compare(cursor.key(), other.key());
                if matches!(end, End::Front) { order.is_lt() } else { order.is_gt() }
            });
        if is_left {
            self.source = Some(Ok(source));
            return Ok(());
        }
        let status = cursor.status();
        let other_status = other.as_ref().map_or(Ok(()), DbIterator::status);
        self.front = None;
        self.back = None;
        status.and(other_status)
    }

    fn next_copy(&mut self, end: End) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if let Err(error) = self.advance(end) {
            return Some(Err(error));
        }
        let cursor = match end {
            End::Front => self.front.as_ref()?,
            End::Back => self.back.as_ref()?,
        };
        Some(copy_entry(cursor.key(), cursor.value()))
    }
}

/// Copies an entry, which the caller of an iterator gets.
pub(crate) fn copy_entry(key: &[u8], value: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let path = Path::new("database");
    Ok((try_copy(key, path)?, try_copy(value, path)?))
}

/// Moves the cursor of `end` by one entry, or opens it at its first entry.
fn step<'a>(cursor: &'a mut Option<DbIterator>, source: &dyn IterSource, end: End) -> &'a DbIterator {
    match (cursor, end) {
        (Some(cursor), End::Front) => {
            cursor.next();
            cursor
        }
        (Some(cursor), End::Back) => {
            cursor.prev();
            cursor
        }
        (cursor @ None, End::Front) => {
            let cursor = cursor.insert(source.open());
            cursor.seek_to_first();
            cursor
        }
        (cursor @ None, End::Back) => {
            let cursor = cursor.insert(source.open());
            cursor.seek_to_last();
            cursor
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_copy(End::Front)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_copy(End::Back)
    }
}

impl FusedIterator for Iter {}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("front", &self.front).field("back", &self.back).finish_non_exhaustive()
    }
}

impl From<Error> for Iter {
    /// Creates an iterator that returns `error` as its only item.
    fn from(error: Error) -> Iter {
        Iter::new(Err(error))
    }
}
