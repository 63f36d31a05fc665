//! Iterators, over a database or over a table.
//!
//! Each move answers with all there is to know about the new place, so that the C++ class asks once an entry.

use terrace::DbIterator;
use terrace::table::TableCursor;

use super::abi::{Bytes, Code, Report, answer, quietly};

/// A place among entries.
#[allow(clippy::large_enum_variant, reason = "one at a time, in a box of its own")]
pub(super) enum Cursor {
    Db(DbIterator),
    Table(TableCursor),
}

impl From<DbIterator> for Cursor {
    fn from(iterator: DbIterator) -> Cursor {
        Cursor::Db(iterator)
    }
}

impl From<TableCursor> for Cursor {
    fn from(cursor: TableCursor) -> Cursor {
        Cursor::Table(cursor)
    }
}

macro_rules! each {
    ($cursor:expr, $at:ident => $call:expr) => {
        match $cursor {
            Cursor::Db($at) => $call,
            Cursor::Table($at) => $call,
        }
    };
}

/// Where a cursor stands. The bytes stay until it moves or goes.
#[repr(C)]
pub(super) struct Entry<'a> {
    key: Bytes<'a>,
    value: Bytes<'a>,
    valid: bool,
}

impl<'a> Entry<'a> {
    const NOWHERE: Entry<'static> = Entry { key: Bytes::NONE, value: Bytes::NONE, valid: false };

    #[inline]
    fn of(cursor: &'a Cursor) -> Entry<'a> {
        each!(cursor, at => if at.valid() {
            Entry { key: at.key().into(), value: at.value().into(), valid: true }
        } else {
            Entry::NOWHERE
        })
    }
}

/// Moves, and says where to. A panic ends the walk.
#[inline]
fn step(cursor: &mut Cursor, to: impl FnOnce(&mut Cursor)) -> Entry<'_> {
    quietly(Entry::NOWHERE, move || {
        to(cursor);
        Entry::of(cursor)
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_first(cursor: &mut Cursor) -> Entry<'_> {
    step(cursor, |cursor| each!(cursor, at => at.seek_to_first()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_last(cursor: &mut Cursor) -> Entry<'_> {
    step(cursor, |cursor| each!(cursor, at => at.seek_to_last()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_seek<'a>(cursor: &'a mut Cursor, target: Bytes<'_>) -> Entry<'a> {
    let target = target.get();
    step(cursor, |cursor| each!(cursor, at => at.seek(target)))
}

/// Does nothing where there is no entry.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_next(cursor: &mut Cursor) -> Entry<'_> {
    step(cursor, |cursor| each!(cursor, at => if at.valid() { at.next() }))
}

/// Does nothing where there is no entry.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_prev(cursor: &mut Cursor) -> Entry<'_> {
    step(cursor, |cursor| each!(cursor, at => if at.valid() { at.prev() }))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_status(cursor: &Cursor, report: &mut Report) -> Code {
    answer(report, || Ok(each!(cursor, at => at.status())?))
}

/// # Safety
///
/// The contract; `cursor` is not used again.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_cursor_drop(cursor: Box<Cursor>) {
    quietly((), || drop(cursor));
}
