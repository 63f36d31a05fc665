//! Lists: one record per element. The indexes of the elements are consecutive.
//!
//! ```text
//!   first                    first + count - 1
//!     | LPUSH <- [a][b][c][d] -> RPUSH |
//! ```
//!
//! A push or a pop changes one record and the record of the key. LINSERT and LREM move the elements
//! of the shorter side.

mod edit;
mod push;
mod read;

use super::args::Args;
use crate::failure::{CommandResult, Failure};
use crate::store::{MemberRange, MemberScan, Object, ValueType, View};

pub(super) use edit::{linsert, lrem, lset, ltrim};
pub(super) use push::{lmove, lmpop, lpop, lpush, lpushx, rpop, rpoplpush, rpush, rpushx};
pub(super) use push::{move_element, pop_elements};
pub(super) use read::{lindex, llen, lpos, lrange};

/// Index of the first element of a new list.
const MIDDLE: u64 = 1 << 63;
/// Number of elements after the popped one that the next commands of a pipeline may pop.
const POPS_AHEAD: u64 = 63;
/// Maximum size of the elements that a command moves or returns, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// End of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    /// Returns the end that argument `index` names.
    pub(super) fn parse(args: Args<'_>, index: usize) -> CommandResult<End> {
        if args.is(index, "LEFT") {
            Ok(End::Left)
        } else if args.is(index, "RIGHT") {
            Ok(End::Right)
        } else {
            Err(Failure::SYNTAX)
        }
    }
}

impl End {
    /// Event of an element that is added at this end.
    fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    /// Event of an element that is removed from this end.
    fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}

/// List of a key.
#[derive(Debug)]
pub(super) struct List {
    object: Object,
}

impl List {
    /// Returns the list at `key`, or None if the key does not exist.
    pub(super) fn open(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<Option<List>> {
        Ok(view.open_object(database, key, ValueType::List)?.map(|object| List { object }))
    }

    /// Returns the list at `key`, or a new one.
    fn open_or_create(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<List> {
        Ok(List::new(view.open_or_create_object(database, key, ValueType::List)?))
    }

    fn new(mut object: Object) -> List {
        if object.is_new {
            object.fields[0] = MIDDLE;
        }
        List { object }
    }

    /// Number of the elements.
    pub(super) fn len(&self) -> u64 {
        self.object.count
    }

    /// Index of the element at `position`.
    fn index(&self, position: u64) -> u64 {
        self.object.fields[0].wrapping_add(position)
    }

    /// Returns the position that a command names: negative ones count from the end. It may be
    /// outside of the list.
    fn position(&self, position: i64) -> i64 {
        let len = i64::try_from(self.len()).unwrap_or(i64::MAX);
        if position < 0 { position.saturating_add(len) } else { position }
    }

    /// Returns the result of `read` for the element at `position`, which is inside of the list.
    fn read_element<T>(
        &self,
        view: &mut View<'_>,
        position: u64,
        read: impl FnOnce(&[u8]) -> T,
    ) -> CommandResult<T> {
        let suffix = self.index(position).to_be_bytes();
        view.read_member(&self.object, &suffix, read)?.ok_or_else(damaged)
    }

    fn put(&self, view: &mut View<'_>, index: u64, element: &[u8]) -> CommandResult {
        view.put_member(&self.object, &index.to_be_bytes(), element)
    }

    fn delete(&self, view: &mut View<'_>, index: u64) -> CommandResult {
        view.delete_member(&self.object, &index.to_be_bytes())
    }

    /// Adds an element at an end.
    fn push(&mut self, view: &mut View<'_>, end: End, element: &[u8]) -> CommandResult {
        if end == End::Left {
            self.object.fields[0] = self.object.fields[0].wrapping_sub(1);
        }
        let position = if end == End::Left { 0 } else { self.len() };
        self.object.count += 1;
        self.put(view, self.index(position), element)
    }

    /// Removes an element from an end and returns the result of `read` for it. The list has
    /// elements.
    fn pop<T>(&mut self, view: &mut View<'_>, end: End, read: impl FnOnce(&[u8]) -> T) -> CommandResult<T> {
        let position = if end == End::Left { 0 } else { self.len() - 1 };
        // Pops of a pipeline read neighbouring elements.
        let last = if end == End::Left {
            POPS_AHEAD.min(self.len() - 1)
        } else {
            position.saturating_sub(POPS_AHEAD)
        };
        let [suffix, last] = [position, last].map(|position| self.index(position).to_be_bytes());
        let element = view.read_next_member(&self.object, &suffix, &last, end == End::Right, read)?;
        let element = element.ok_or_else(damaged)?;
        self.delete(view, self.index(position))?;
        self.drop_ends(u64::from(end == End::Left), 1);
        Ok(element)
    }

    /// Records that `count` elements are gone, `left` of them at the left end.
    fn drop_ends(&mut self, left: u64, count: u64) {
        self.object.fields[0] = self.index(left);
        self.object.count -= count;
    }

    /// Returns the elements from `begin` to `end`, which is not included.
    fn elements(
        &self,
        view: &mut View<'_>,
        begin: u64,
        end: u64,
        is_reverse: bool,
    ) -> CommandResult<Elements> {
        let bound = |position: u64| Some(self.index(position).to_be_bytes().to_vec());
        let range = MemberRange { begin: bound(begin), end: bound(end), is_reverse: false };
        let range = if is_reverse { range.reverse() } else { range };
        let scan = view.members(&self.object, &range)?;
        let next = if is_reverse { end.wrapping_sub(1) } else { begin };
        Ok(Elements { scan, first: self.object.fields[0], next, left: end.saturating_sub(begin), is_reverse })
    }

    /// Stores the record of the list.
    fn save(&self, view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult {
        view.save_object(database, key, &self.object)
    }
}

/// Iterator over elements with their positions.
struct Elements {
    scan: MemberScan,
    first: u64,
    next: u64,
    left: u64,
    is_reverse: bool,
}

impl Elements {
    /// Returns the next element, or None at the end.
    ///
    /// # Errors
    ///
    /// An element is missing.
    fn next(&mut self) -> CommandResult<Option<(u64, &[u8])>> {
        if self.left == 0 {
            return Ok(None);
        }
        let position = self.next;
        self.left -= 1;
        self.next = if self.is_reverse { position.wrapping_sub(1) } else { position + 1 };
        match self.scan.next()? {
            Some((suffix, element)) if suffix == self.first.wrapping_add(position).to_be_bytes() => {
                Ok(Some((position, element)))
            }
            _ => Err(damaged()),
        }
    }
}

fn damaged() -> Failure {
    Failure::reply("ERR damaged: an element of the list is missing")
}

/// Fails if the elements of a command exceed the limit.
fn check_bytes(bytes: usize) -> CommandResult {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(Failure::reply("ERR the elements of the command exceed 256 MiB"))
}

/// Returns the number of things that argument `index` states.
pub(super) fn positive_count(args: Args<'_>, index: usize) -> CommandResult<u64> {
    let count = args.integer(index).ok().and_then(|count| u64::try_from(count).ok());
    count.ok_or(Failure::reply("ERR value is out of range, must be positive"))
}

/// Keys of a command with a number of keys, and the position after them.
pub(super) fn counted_keys(
    args: Args<'_>,
    count_at: usize,
) -> CommandResult<(impl Iterator<Item = &[u8]> + Clone, usize)> {
    let count = args.integer(count_at).ok().filter(|count| *count > 0);
    let count = count.ok_or(Failure::reply("ERR numkeys should be greater than 0"))?;
    let end = (count_at + 1).saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
    if end >= args.len() {
        return Err(Failure::SYNTAX);
    }
    Ok((args.from(count_at + 1).take(end - count_at - 1), end))
}

/// Returns the count of `[COUNT count]` at the end of a command.
pub(super) fn count_option(args: Args<'_>, index: usize) -> CommandResult<u64> {
    match args.len().saturating_sub(index) {
        0 => Ok(1),
        2.. if args.is(index, "COUNT") => {
            let count = args.integer(index + 1).ok().and_then(|count| u64::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            let count = count.ok_or(Failure::reply("ERR count should be greater than 0"))?;
            if args.len() > index + 2 { Err(Failure::SYNTAX) } else { Ok(count) }
        }
        _ => Err(Failure::SYNTAX),
    }
}
