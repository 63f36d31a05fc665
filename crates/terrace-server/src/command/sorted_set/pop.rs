//! ZPOPMIN, ZPOPMAX, ZMPOP.

use super::{Scored, Scores, SortedSet, reply_members};
use crate::command::list::{count_option, counted_keys, positive_count};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::store::{EventClass, View};

/// End of a sorted set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Side {
    Min,
    Max,
}

impl Side {
    /// Returns the side that argument `index` names.
    pub(in crate::command) fn parse(args: Args<'_>, index: usize) -> CommandResult<Side> {
        if args.is(index, "MIN") {
            Ok(Side::Min)
        } else if args.is(index, "MAX") {
            Ok(Side::Max)
        } else {
            Err(Failure::SYNTAX)
        }
    }
}

/// ZPOPMIN key [count]
pub(in crate::command) fn zpopmin(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop(call, args, Side::Min)
}

/// ZPOPMAX key [count]
pub(in crate::command) fn zpopmax(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    pop(call, args, Side::Max)
}

fn pop(call: &mut Call<'_>, args: Args<'_>, side: Side) -> CommandResult {
    if args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = if args.len() == 3 { Some(positive_count(args, 2)?) } else { None };
    let popped = take(&mut call.view, call.session.database, &args[1], side, count.unwrap_or(1))?;
    match (count, popped.as_slice()) {
        // Without a count, the member and its score are not a pair.
        (None, [(member, score)]) => {
            call.reply.array(2);
            call.reply.bulk(member);
            call.reply.double(*score);
        }
        (_, popped) => reply_members(call.reply, popped, Scores::Shown),
    }
    Ok(())
}

/// Removes up to `count` members.
fn take(view: &mut View<'_>, database: u8, key: &[u8], side: Side, count: u64) -> CommandResult<Vec<Scored>> {
    let Some(mut set) = SortedSet::open(view, database, key)? else { return Ok(Vec::new()) };
    if count == 0 {
        return Ok(Vec::new());
    }
    let popped = set.scan(view, side == Side::Max)?.take(count)?;
    for (member, score) in &popped {
        set.remove(view, member, *score)?;
    }
    let event = if side == Side::Min { "zpopmin" } else { "zpopmax" };
    view.notify(database, EventClass::SORTED_SET, event, key);
    set.save(view, database, key)?;
    Ok(popped)
}

/// Removes one member and appends the key, the member and the score. Returns false without members.
pub(in crate::command) fn pop_one(
    view: &mut View<'_>,
    database: u8,
    key: &[u8],
    side: Side,
    reply: &mut Reply,
) -> CommandResult<bool> {
    let popped = take(view, database, key, side, 1)?;
    let Some((member, score)) = popped.first() else { return Ok(false) };
    reply.array(3);
    reply.bulk(key);
    reply.bulk(member);
    reply.double(*score);
    Ok(true)
}

/// Removes up to `count` members and appends the key and the members. Returns false without
/// members.
pub(in crate::command) fn pop_members(
    view: &mut View<'_>,
    database: u8,
    key: &[u8],
    side: Side,
    count: u64,
    reply: &mut Reply,
) -> CommandResult<bool> {
    let popped = take(view, database, key, side, count)?;
    if popped.is_empty() {
        return Ok(false);
    }
    reply.array(2);
    reply.bulk(key);
    reply.array(popped.len());
    for (member, score) in &popped {
        reply.array(2);
        reply.bulk(member);
        reply.double(*score);
    }
    Ok(true)
}

/// ZMPOP numkeys key .. MIN | MAX [COUNT count]
pub(in crate::command) fn zmpop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (keys, next) = counted_keys(args, 1)?;
    let side = Side::parse(args, next)?;
    let count = count_option(args, next + 1)?;
    let database = call.session.database;
    for key in keys {
        if pop_members(&mut call.view, database, key, side, count, call.reply)? {
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}
