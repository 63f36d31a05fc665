//! Iterators, over a database or over a table.
//!
//! Each move answers with all there is to know about the new place, so that the C++ class asks once an entry.

use terrace::DbIterator;
use terrace::table::SstIterator;

use super::types::{CxxSlice, ErrorReport, StatusCode, run_or, run_with_report};

/// A place among entries.
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
    fn from(cursor: SstIterator) -> CxxIterator {
        CxxIterator::Table(cursor)
    }
}

macro_rules! with_iterator {
    ($cursor:expr, $at:ident => $call:expr) => {
        match $cursor {
            CxxIterator::Db($at) => $call,
            CxxIterator::Table($at) => $call,
        }
    };
}

/// Where a cursor stands. The bytes stay until it moves or goes.
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
    fn read(cursor: &'a CxxIterator) -> CurrentEntry<'a> {
        with_iterator!(cursor, at => if at.valid() {
            CurrentEntry { key: at.key().into(), value: at.value().into(), valid: true }
        } else {
            CurrentEntry::INVALID
        })
    }
}

/// Moves, and says where to. A panic ends the walk.
#[inline]
fn move_iterator(cursor: &mut CxxIterator, to: impl FnOnce(&mut CxxIterator)) -> CurrentEntry<'_> {
    run_or(CurrentEntry::INVALID, move || {
        to(cursor);
        CurrentEntry::read(cursor)
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_first(cursor: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(cursor, |cursor| with_iterator!(cursor, at => at.seek_to_first()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_last(cursor: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(cursor, |cursor| with_iterator!(cursor, at => at.seek_to_last()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_seek<'a>(cursor: &'a mut CxxIterator, target: CxxSlice<'_>) -> CurrentEntry<'a> {
    let target = target.as_slice();
    move_iterator(cursor, |cursor| with_iterator!(cursor, at => at.seek(target)))
}

/// Does nothing where there is no entry.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_next(cursor: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(cursor, |cursor| with_iterator!(cursor, at => if at.valid() { at.next() }))
}

/// Does nothing where there is no entry.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_prev(cursor: &mut CxxIterator) -> CurrentEntry<'_> {
    move_iterator(cursor, |cursor| with_iterator!(cursor, at => if at.valid() { at.prev() }))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_status(cursor: &CxxIterator, report: &mut ErrorReport) -> StatusCode {
    run_with_report(report, || Ok(with_iterator!(cursor, at => at.status())?))
}

/// # Safety
///
/// The contract; `cursor` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cursor_drop(cursor: Box<CxxIterator>) {
    run_or((), || drop(cursor));
}
