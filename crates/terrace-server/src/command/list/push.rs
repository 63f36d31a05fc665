//! Pushes, pops and moves of elements.

use super::{End, List, count_option, counted_keys, positive_count};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::store::{EventClass, ValueType, View};

/// LPUSH key element ..
pub(in crate::command) fn lpush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    push(call, args, End::Left, false)
}

/// RPUSH key element ..
pub(in crate::command) fn rpush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    push(call, args, End::Right, false)
}

/// LPUSHX key element ..
pub(in crate::command) fn lpushx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    push(call, args, End::Left, true)
}

/// RPUSHX key element ..
pub(in crate::command) fn rpushx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    push(call, args, End::Right, true)
}

fn push(call: &mut Call<'_>, args: Args<'_>, end: End, must_exist: bool) -> CommandResult {
    let database = call.session.database;
    let list = if must_exist {
        List::open(&mut call.view, database, &args[1])?
    } else {
        Some(List::new(call.open_or_create(&args[1], ValueType::List)?))
    };
    let Some(mut list) = list else {
        call.reply.integer(0);
        return Ok(());
    };
    for element in args.from(2) {
        list.push(&mut call.view, end, element)?;
    }
    call.save(&args[1], &list.object)?;
    call.notify(EventClass::LIST, end.push_event(), &args[1]);
    call.reply.count(list.len() as usize);
    Ok(())
}

/// LPOP key [count]
pub(in crate::command) fn lpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop(call, args, End::Left)
}

/// RPOP key [count]
pub(in crate::command) fn rpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop(call, args, End::Right)
}

fn pop(call: &mut Call<'_>, args: Args<'_>, end: End) -> CommandResult {
    if args.len() > 3 {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let count = if args.len() == 3 { Some(positive_count(args, 2)?) } else { None };
    let database = call.session.database;
    let Some(mut list) = List::open(&mut call.view, database, &args[1])? else {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    };
    match count {
        None => {
            let Call { view, reply, .. } = call;
            list.pop(view, end, |element| reply.bulk(element))?;
        }
        Some(0) => {
            call.reply.array(0);
            return Ok(());
        }
        Some(count) => {
            call.check_members_on_worker(count.min(list.len()))?;
            pop_many(&mut list, &mut call.view, end, count, call.reply)?;
        }
    }
    call.notify(EventClass::LIST, end.pop_event(), &args[1]);
    list.save(&mut call.view, database, &args[1])
}

/// Removes up to `count` elements and appends an array of them.
fn pop_many(list: &mut List, view: &mut View<'_>, end: End, count: u64, reply: &mut Reply) -> CommandResult {
    let count = count.min(list.len());
    let before = reply.len();
    reply.array(count as usize);
    for _ in 0..count {
        list.pop(view, end, |element| reply.bulk(element))?;
        super::check_bytes(reply.len() - before)?;
    }
    Ok(())
}

/// Removes up to `count` elements of the list at `key` and appends the key and the elements.
/// Returns false if the list has none.
pub(in crate::command) fn pop_elements(
    view: &mut View<'_>,
    database: u8,
    key: &[u8],
    end: End,
    count: u64,
    reply: &mut Reply,
) -> CommandResult<bool> {
    let Some(mut list) = List::open(view, database, key)? else { return Ok(false) };
    super::super::check_members(view, count.min(list.len()))?;
    reply.array(2);
    reply.bulk(key);
    pop_many(&mut list, view, end, count, reply)?;
    view.notify(database, EventClass::LIST, end.pop_event(), key);
    list.save(view, database, key)?;
    Ok(true)
}

/// LMPOP numkeys key .. LEFT | RIGHT [COUNT count]
pub(in crate::command) fn lmpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (keys, next) = counted_keys(args, 1)?;
    let end = End::parse(args, next)?;
    let count = count_option(args, next + 1)?;
    let database = call.session.database;
    for key in keys {
        if pop_elements(&mut call.view, database, key, end, count, call.reply)? {
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}

/// LMOVE source destination LEFT | RIGHT LEFT | RIGHT
pub(in crate::command) fn lmove(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let ends = [End::parse(args, 3)?, End::parse(args, 4)?];
    reply_move(call, args, ends)
}

/// RPOPLPUSH source destination
pub(in crate::command) fn rpoplpush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_move(call, args, [End::Right, End::Left])
}

fn reply_move(call: &mut Call<'_>, args: Args<'_>, ends: [End; 2]) -> CommandResult {
    let database = call.session.database;
    let element = move_element(&mut call.view, database, [&args[1], &args[2]], ends)?;
    call.reply.optional_bulk(element.as_deref());
    Ok(())
}

/// Moves an element from the list at the first key to the list at the second one. Returns None if
/// the first list does not exist.
pub(in crate::command) fn move_element(
    view: &mut View<'_>,
    database: u8,
    [source, destination]: [&[u8]; 2],
    [from, to]: [End; 2],
) -> CommandResult<Option<Vec<u8>>> {
    let Some(mut list) = List::open(view, database, source)? else { return Ok(None) };
    if source == destination {
        let element = list.pop(view, from, <[u8]>::to_vec)?;
        list.push(view, to, &element)?;
        list.save(view, database, source)?;
        view.notify(database, EventClass::LIST, to.push_event(), source);
        view.notify(database, EventClass::LIST, from.pop_event(), source);
        return Ok(Some(element));
    }
    let mut other = List::open_or_create(view, database, destination)?;
    let element = list.pop(view, from, <[u8]>::to_vec)?;
    other.push(view, to, &element)?;
    other.save(view, database, destination)?;
    view.notify(database, EventClass::LIST, to.push_event(), destination);
    view.notify(database, EventClass::LIST, from.pop_event(), source);
    list.save(view, database, source)?;
    Ok(Some(element))
}
