//! Changes inside of a list: LSET, LINSERT, LREM, LTRIM.

use super::read::bounds;
use super::{List, check_bytes};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{EventClass, Replaced, ValueType, View};

/// Number of removed elements above which LTRIM copies the kept elements, if these are fewer.
const MAX_DELETED: u64 = 1000;
/// Memory that the deletion of an element takes until the commit, in bytes.
const DELETION_BYTES: usize = 32;

/// LSET key index element
pub(in crate::command) fn lset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = call.session.database;
    let list = List::open(&mut call.view, database, &args[1])?;
    let list = list.ok_or(Failure::reply("ERR no such key"))?;
    let position = u64::try_from(list.position(args.integer(2)?)).ok().filter(|at| *at < list.len());
    let position = position.ok_or(Failure::reply("ERR index out of range"))?;
    list.put(&mut call.view, list.index(position), &args[3])?;
    call.view.note_changed(database, &args[1])?;
    call.notify(EventClass::LIST, "lset", &args[1]);
    call.reply.ok();
    Ok(())
}

/// LINSERT key BEFORE | AFTER pivot element
pub(in crate::command) fn linsert(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_after = args.is(2, "AFTER");
    if !is_after && !args.is(2, "BEFORE") {
        return Err(Failure::SYNTAX);
    }
    let database = call.session.database;
    let Some(mut list) = List::open(&mut call.view, database, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    call.check_members_on_worker(list.len())?;
    let mut elements = list.elements(&mut call.view, 0, list.len(), false)?;
    let pivot = loop {
        match elements.next()? {
            Some((position, element)) if element == &args[3] => break Some(position),
            Some(_) => {}
            None => break None,
        }
    };
    drop(elements);
    let Some(pivot) = pivot else {
        call.reply.integer(-1);
        return Ok(());
    };
    insert(&mut list, &mut call.view, pivot + u64::from(is_after), &args[4])?;
    list.save(&mut call.view, database, &args[1])?;
    call.notify(EventClass::LIST, "linsert", &args[1]);
    call.reply.count(list.len() as usize);
    Ok(())
}

/// Inserts an element before `position`.
fn insert(list: &mut List, view: &mut View<'_>, position: u64, element: &[u8]) -> CommandResult {
    let len = list.len();
    let is_left_shorter = position < len - position;
    let (begin, end) = if is_left_shorter { (0, position) } else { (position, len) };
    let mut elements = list.elements(view, begin, end, false)?;
    let offset = if is_left_shorter { u64::MAX } else { 1 };
    let mut bytes = 0;
    while let Some((moved, element)) = elements.next()? {
        bytes += element.len();
        check_bytes(bytes)?;
        list.put(view, list.index(moved.wrapping_add(offset)), element)?;
    }
    if is_left_shorter {
        list.object.fields[0] = list.index(u64::MAX);
    }
    list.object.count += 1;
    list.put(view, list.index(position), element)
}

/// LREM key count element
pub(in crate::command) fn lrem(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = args.integer(2)?;
    let database = call.session.database;
    let Some(mut list) = List::open(&mut call.view, database, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    call.check_members_on_worker(list.len())?;
    let limit = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut removed = Vec::new();
    let mut elements = list.elements(&mut call.view, 0, list.len(), count < 0)?;
    while let Some((position, element)) = elements.next()? {
        if element == &args[3] {
            removed.push(position);
            if removed.len() as u64 >= limit {
                break;
            }
        }
    }
    drop(elements);
    removed.sort_unstable();
    if !removed.is_empty() {
        remove(&mut list, &mut call.view, &removed)?;
        call.notify(EventClass::LIST, "lrem", &args[1]);
        list.save(&mut call.view, database, &args[1])?;
    }
    call.reply.count(removed.len());
    Ok(())
}

/// Removes the elements at the positions `removed`, which are in order.
fn remove(list: &mut List, view: &mut View<'_>, removed: &[u64]) -> CommandResult {
    let (Some(first), Some(last)) = (removed.first(), removed.last()) else { return Ok(()) };
    let len = list.len();
    let gone = removed.len() as u64;
    let moved_left = last + 1 - gone;
    let moved_right = len - first - gone;
    let is_left_shorter = moved_left < moved_right;
    let (begin, end) = if is_left_shorter { (0, *last) } else { (first + 1, len) };
    let mut elements = list.elements(view, begin, end, false)?;
    let mut bytes = 0;
    while let Some((position, element)) = elements.next()? {
        let before = removed.partition_point(|at| *at < position) as u64;
        if removed.get(before as usize) == Some(&position) {
            continue;
        }
        let target = if is_left_shorter { position + (gone - before) } else { position - before };
        bytes += element.len();
        check_bytes(bytes)?;
        list.put(view, list.index(target), element)?;
    }
    let (deleted, left) = if is_left_shorter { (0..gone, gone) } else { (len - gone..len, 0) };
    for position in deleted {
        list.delete(view, list.index(position))?;
    }
    list.drop_ends(left, gone);
    Ok(())
}

/// LTRIM key start stop
pub(in crate::command) fn ltrim(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let start = args.integer(2)?;
    let stop = args.integer(3)?;
    let database = call.session.database;
    if let Some(mut list) = List::open(&mut call.view, database, &args[1])? {
        let (begin, end) = bounds(&list, start, stop).unwrap_or((0, 0));
        let kept = end - begin;
        let removed = list.len() - kept;
        call.notify(EventClass::LIST, "ltrim", &args[1]);
        call.view.touch(database, &args[1]);
        if removed > MAX_DELETED && kept < removed {
            call.check_members_on_worker(kept)?;
            keep_copy(call, &args[1], &list, begin, end)?;
        } else if removed > 0 {
            check_bytes(usize::try_from(removed).unwrap_or(usize::MAX).saturating_mul(DELETION_BYTES))?;
            call.check_members_on_worker(removed)?;
            for position in (0..begin).chain(end..list.len()) {
                list.delete(&mut call.view, list.index(position))?;
            }
            list.drop_ends(begin, removed);
            list.save(&mut call.view, database, &args[1])?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Replaces the list by a new one with the elements from `begin` to `end`.
fn keep_copy(call: &mut Call<'_>, key: &[u8], list: &List, begin: u64, end: u64) -> CommandResult {
    let database = call.session.database;
    let entry = call.get(key)?;
    let mut copy = List::new(call.view.create_object(ValueType::List)?);
    copy.object.expires_at = list.object.expires_at;
    let mut elements = list.elements(&mut call.view, begin, end, false)?;
    let mut bytes = 0;
    while let Some((_, element)) = elements.next()? {
        bytes += element.len();
        check_bytes(bytes)?;
        copy.push(&mut call.view, super::End::Right, element)?;
    }
    drop(elements);
    call.view.replace_with_object(database, key, &copy.object, Replaced::Read(entry.as_ref()))
}
