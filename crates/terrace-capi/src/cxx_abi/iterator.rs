//! Iterators over a database or over a table.
//!
//! Each move returns the complete new position, so the C++ class makes one call per entry.

use terrace::DbIterator;
use terrace::table::SstIterator;

use super::types::{CxxSlice, ErrorReport, StatusCode, run_or, run_with_report};

/// An iterator over a database or over a table.
#[allow(clippy::large_enum_variant, reason = "one at a time, in a box of its own")]
pub(super) enum CxxIterator {
    Db(DbIterator),
    Table(SstIterator),
}

impl From<DbIterator> for CxxIterator {
    fn from(iterator: DbIterator) -> CxxIterator {
        CxxIterator::Db(iterator)
    }
}

impl From<SstIterator> for CxxIterator {
    fn from(iterator: SstIterator) -> CxxIterator {
        CxxIterator::Table(iterator)
    }
}

macro_rules! with_iterator {
    ($iterator:expr, $inner:ident => $call:expr) => {
        match $iterator {
            CxxIterator::Db($inner) => $call,
            CxxIterator::Table($inner) => $call,
        }
    };
}

/// Current entry of an iterator. The bytes are valid until the iterator moves or is destroyed.
#[repr(C)]
pub(super) struct CurrentEntry<'a> {
    key: CxxSlice<'a>,
    value: CxxSlice<'a>,
    valid: bool,
}

impl<'a> CurrentEntry<'a> {
    const INVALID: CurrentEntry<'static> =
        CurrentEntry { key: CxxSlice::EMPTY, value: CxxSlice::EMPTY, valid: false };

    #[inline]
    fn read(iterator: &'a CxxIterator) -> CurrentEntry<'a> {
        with_iterator!(iterator, inner => if inner.valid() {
            CurrentEntry { key: inner.key().into(), value: inner.value().into(), valid: true }
        } else {
            CurrentEntry::INVALID
        })
    }
}

/// Moves the iterator and returns the new position. A panic makes the position invalid.
#[inline]
fn move_iterator(iterator: &mut CxxIterator, step: impl FnOnce(&mut CxxIterator)) -> CurrentEntry<'_> {
    run_or(CurrentEntry::INVALID, move || {
        step(iterator);
        CurrentEntry::read(iterator)
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_first(iterator: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(iterator, |iterator| with_iterator!(iterator, inner => inner.seek_to_first()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_last(iterator: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(iterator, |iterator| with_iterator!(iterator, inner => inner.seek_to_last()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_seek<'a>(iterator: &'a mut CxxIterator, target: CxxSlice<'_>) -> CurrentEntry<'a> {
    let target = target.as_slice();
    move_iterator(iterator, |iterator| with_iterator!(iterator, inner => inner.seek(target)))
}

/// Moves to the next entry. Does nothing if the iterator is not valid.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_next(iterator: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(iterator, |iterator| with_iterator!(iterator, inner => if inner.valid() { inner.next() }))
}

/// Moves to the previous entry. Does nothing if the iterator is not valid.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_prev(iterator: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(iterator, |iterator| with_iterator!(iterator, inner => if inner.valid() { inner.prev() }))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_status(iterator: &CxxIterator, report: &mut ErrorReport) -> StatusCode {
    run_with_report(report, || Ok(with_iterator!(iterator, inner => inner.status())?))
}

/// # Safety
///
/// The contract; `iterator` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cursor_drop(iterator: Box<CxxIterator>) {
    run_or((), || drop(iterator));
}
