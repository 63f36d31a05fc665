//! ZRANDMEMBER.

use super::{Scored, Scores, SortedSet, reply_members};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use std::collections::HashSet;

/// ZRANDMEMBER key [count [WITHSCORES]]
pub(in crate::command) fn zrandmember(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = if args.len() > 2 { Some(parse_count(args)?) } else { None };
    let scores = match args.len() {
        ..4 => Scores::Hidden,
        4 if args.is(3, "WITHSCORES") => Scores::Shown,
        _ => return Err(Failure::SYNTAX),
    };
    if scores == Scores::Shown && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(Failure::reply("ERR value is out of range"));
    }
    let Some(set) = SortedSet::open(&mut call.view, call.session.database, &args[1])? else {
        match count {
            Some(_) => call.reply.array(0),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let found = match count {
        Some(count @ 0..) => distinct(call, &set, count.unsigned_abs())?,
        Some(count) => repeated(call, &set, count.unsigned_abs())?,
        None => repeated(call, &set, 1)?,
    };
    match (count, found.first()) {
        (None, Some((member, _))) => call.reply.bulk(member),
        _ => reply_members(call.reply, &found, scores),
    }
    Ok(())
}

fn parse_count(args: Args<'_>) -> CommandResult<i64> {
    let count = args.integer(2)?;
    if count == i64::MIN {
        let max = i64::MAX;
        return Err(Failure::reply(format!(
            "ERR value is out of range, value must between -{max} and {max}"
        )));
    }
    Ok(count)
}

/// Returns up to `count` different members.
fn distinct(call: &mut Call<'_>, set: &SortedSet, count: u64) -> CommandResult<Vec<Scored>> {
    if count >= set.len() {
        return set.scan(&mut call.view, false)?.take(u64::MAX);
    }
    // Floyd's algorithm: each set of ranks has the same probability.
    let mut ranks = HashSet::new();
    for last in set.len() - count..set.len() {
        super::check_bytes(ranks.len() * size_of::<Scored>())?;
        let rank = call.shared.random.next_u64() % (last + 1);
        if !ranks.insert(rank) {
            ranks.insert(last);
        }
    }
    at_ranks(call, set, ranks.into_iter().collect())
}

/// Returns `count` members, which may repeat.
fn repeated(call: &mut Call<'_>, set: &SortedSet, count: u64) -> CommandResult<Vec<Scored>> {
    super::check_bytes(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<Scored>()))?;
    let ranks = (0..count).map(|_| call.shared.random.next_u64() % set.len().max(1)).collect();
    at_ranks(call, set, ranks)
}

/// Returns the members with the ranks `ranks`, in the same order.
fn at_ranks(call: &mut Call<'_>, set: &SortedSet, ranks: Vec<u64>) -> CommandResult<Vec<Scored>> {
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_unstable_by_key(|index| ranks[*index]);
    let last = order.last().map_or(0, |index| ranks[*index]);
    // The scan begins at the nearer end.
    let is_reverse = order.first().is_some_and(|index| set.len() - ranks[*index] <= last);
    if is_reverse {
        order.reverse();
    }
    let mut scan = set.scan(&mut call.view, is_reverse)?;
    let mut found = vec![Scored::default(); ranks.len()];
    let mut current: Option<(u64, Scored)> = None;
    let mut position = 0;
    let mut bytes = 0;
    for index in order {
        let rank = if is_reverse { set.len() - 1 - ranks[index] } else { ranks[index] };
        if current.as_ref().is_none_or(|(at, _)| *at != rank) {
            scan.skip(rank - position)?;
            position = rank + 1;
            let Some((score, member)) = scan.next()? else { return Err(super::damaged()) };
            current = Some((rank, (member.to_vec(), score)));
        }
        if let Some((_, scored)) = &current {
            bytes += scored.0.len();
            super::check_bytes(bytes)?;
            found[index] = scored.clone();
        }
    }
    Ok(found)
}
