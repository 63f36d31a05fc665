//! ZREM and its forms for ranges.

use super::range::rank_bounds;
use super::{LexRange, OwnScores, ScoreRange, Scored, SortedSet};
use crate::command::{Args, Call};
use crate::failure::CommandResult;
use crate::store::EventClass;

/// ZREM key member ..
pub(in crate::command) fn zrem(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = call.session.database;
    let Some(mut set) = SortedSet::open(&mut call.view, database, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut own = OwnScores::default();
    let mut removed = 0;
    for member in args.from(2) {
        if let Some(score) = own.score(&mut call.view, &set, member)? {
            set.remove(&mut call.view, member, score)?;
            own.note(member, None, args.len() == 3);
            removed += 1;
        }
    }
    if removed > 0 {
        call.notify(EventClass::SORTED_SET, "zrem", &args[1]);
        set.save(&mut call.view, database, &args[1])?;
    }
    call.reply.count(removed);
    Ok(())
}

/// ZREMRANGEBYRANK key start stop
pub(in crate::command) fn zremrangebyrank(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let start = args.integer(2)?;
    let stop = args.integer(3)?;
    remove_range(call, args, "zremrangebyrank", |call, set| {
        let Some((begin, end)) = rank_bounds(set.len(), start, stop) else { return Ok(Vec::new()) };
        let from_end = set.len() - begin;
        let is_reverse = from_end < end;
        let mut scan = set.scan(&mut call.view, is_reverse)?;
        scan.skip(if is_reverse { set.len() - end } else { begin })?;
        scan.take(end - begin)
    })
}

/// ZREMRANGEBYSCORE key min max
pub(in crate::command) fn zremrangebyscore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = ScoreRange::parse(&args[2], &args[3])?;
    remove_range(call, args, "zremrangebyscore", |call, set| {
        range.scan(&mut call.view, set, false)?.take(u64::MAX)
    })
}

/// ZREMRANGEBYLEX key min max
pub(in crate::command) fn zremrangebylex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = LexRange::parse(&args[2], &args[3])?;
    remove_range(call, args, "zremrangebylex", |call, set| match range.scan(&mut call.view, set, false)? {
        Some(mut scan) => scan.take(u64::MAX),
        None => Ok(Vec::new()),
    })
}

/// Removes the members that `find` returns.
fn remove_range(
    call: &mut Call<'_>,
    args: Args<'_>,
    event: &'static str,
    find: impl FnOnce(&mut Call<'_>, &SortedSet) -> CommandResult<Vec<Scored>>,
) -> CommandResult {
    let database = call.session.database;
    let mut removed = Vec::new();
    if let Some(mut set) = SortedSet::open(&mut call.view, database, &args[1])? {
        removed = find(call, &set)?;
        for (member, score) in &removed {
            set.remove(&mut call.view, member, *score)?;
        }
        if !removed.is_empty() {
            call.notify(EventClass::SORTED_SET, event, &args[1]);
            set.save(&mut call.view, database, &args[1])?;
        }
    }
    call.reply.count(removed.len());
    Ok(())
}
