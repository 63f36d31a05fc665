//! ZRANGE and its forms.

use super::{
    LexRange, ScoreRange, ScoreScan, Scored, Scores, SortedSet, begin_members, check_bytes, damaged,
    reply_member, reply_members, store_members,
};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::View;

/// Kind of a range.
#[derive(Debug)]
enum RangeKind {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange),
}

/// Range with its options.
#[derive(Debug)]
struct RangeQuery {
    kind: RangeKind,
    is_reverse: bool,
    offset: i64,
    limit: i64,
    scores: Scores,
}

/// Unit of the bounds in the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// Properties of a command, or of its options.
#[derive(Debug, Clone, Copy)]
struct RangeForm {
    by: By,
    is_reverse: bool,
    /// The command has no options for the unit and the order.
    is_fixed: bool,
    /// The command stores the result.
    is_store: bool,
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub(in crate::command) fn zrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let form = RangeForm { by: By::Rank, is_reverse: false, is_fixed: false, is_store: false };
    reply_range(call, args, form)
}

/// ZREVRANGE key start stop [WITHSCORES]
pub(in crate::command) fn zrevrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    fixed(call, args, By::Rank, true)
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub(in crate::command) fn zrangebyscore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    fixed(call, args, By::Score, false)
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub(in crate::command) fn zrevrangebyscore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    fixed(call, args, By::Score, true)
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub(in crate::command) fn zrangebylex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    fixed(call, args, By::Lex, false)
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub(in crate::command) fn zrevrangebylex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    fixed(call, args, By::Lex, true)
}

fn fixed(call: &mut Call<'_>, args: Args<'_>, by: By, is_reverse: bool) -> CommandResult {
    reply_range(call, args, RangeForm { by, is_reverse, is_fixed: true, is_store: false })
}

fn reply_range(call: &mut Call<'_>, args: Args<'_>, form: RangeForm) -> CommandResult {
    let query = parse(args, 2, form)?;
    let Some(set) = SortedSet::open(&mut call.view, call.session.database, &args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    if let RangeKind::Rank(start, stop) = query.kind
        && reply_ranks(call, &set, start, stop, &query)?
    {
        return Ok(());
    }
    let found = query.run(&mut call.view, &set)?;
    reply_members(call.reply, &found, query.scores);
    Ok(())
}

/// Appends the members with the ranks from `start` to `stop` in the order of the scan. Returns
/// false, without a reply, if the scan from the other end is shorter.
fn reply_ranks(
    call: &mut Call<'_>,
    set: &SortedSet,
    start: i64,
    stop: i64,
    query: &RangeQuery,
) -> CommandResult<bool> {
    let Some((begin, end)) =
        rank_bounds(set.len(), start, stop).filter(|(begin, end)| !is_far(set, *begin, *end))
    else {
        return Ok(false);
    };
    let before = call.reply.len();
    let mut scan = set.scan(&mut call.view, query.is_reverse)?;
    scan.skip(begin)?;
    begin_members(call.reply, (end - begin) as usize, query.scores);
    for _ in begin..end {
        let (score, member) = scan.next()?.ok_or_else(damaged)?;
        reply_member(call.reply, member, score, query.scores);
        check_bytes(call.reply.len() - before)?;
    }
    Ok(true)
}

/// True if the ranks from `begin` to `end` are nearer to the end.
fn is_far(set: &SortedSet, begin: u64, end: u64) -> bool {
    set.len() - begin < end
}

/// ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]
pub(in crate::command) fn zrangestore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let form = RangeForm { by: By::Rank, is_reverse: false, is_fixed: false, is_store: true };
    let query = parse(args, 3, form)?;
    let found = find(call, &args[2], &query)?;
    store_members(call, &args[1], &found, "zrangestore")?;
    call.reply.count(found.len());
    Ok(())
}

fn find(call: &mut Call<'_>, key: &[u8], query: &RangeQuery) -> CommandResult<Vec<Scored>> {
    match SortedSet::open(&mut call.view, call.session.database, key)? {
        Some(set) => query.run(&mut call.view, &set),
        None => Ok(Vec::new()),
    }
}

/// Parses the bounds at argument `first`, and the options after them.
fn parse(args: Args<'_>, first: usize, mut form: RangeForm) -> CommandResult<RangeQuery> {
    let mut scores = Scores::Hidden;
    let mut offset = 0;
    let mut limit = -1;
    let mut index = first + 2;
    let mut has_unit = form.is_fixed;
    let mut has_order = form.is_fixed;
    while index < args.len() {
        if args.is(index, "WITHSCORES") && !form.is_store {
            scores = Scores::Shown;
        } else if args.is(index, "LIMIT") && index + 2 < args.len() {
            (offset, limit) = (args.integer(index + 1)?, args.integer(index + 2)?);
            index += 2;
        } else if !has_order && args.is(index, "REV") {
            form.is_reverse = true;
            has_order = true;
        } else if !has_unit && (args.is(index, "BYSCORE") || args.is(index, "BYLEX")) {
            form.by = if args.is(index, "BYLEX") { By::Lex } else { By::Score };
            has_unit = true;
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 1;
    }
    if limit != -1 && form.by == By::Rank {
        return Err(Failure::reply(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if scores == Scores::Shown && form.by == By::Lex {
        return Err(Failure::reply("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    Ok(RangeQuery { kind: kind(args, first, form)?, is_reverse: form.is_reverse, offset, limit, scores })
}

/// Parses the bounds. A range in descending order begins with its maximum, except for ranks.
fn kind(args: Args<'_>, first: usize, form: RangeForm) -> CommandResult<RangeKind> {
    let [min, max] = if form.is_reverse { [first + 1, first] } else { [first, first + 1] };
    Ok(match form.by {
        By::Rank => RangeKind::Rank(args.integer(first)?, args.integer(first + 1)?),
        By::Score => RangeKind::Score(ScoreRange::parse(args.at(min), args.at(max))?),
        By::Lex => RangeKind::Lex(LexRange::parse(args.at(min), args.at(max))?),
    })
}

impl RangeQuery {
    /// Returns the members of the range, in the order of the reply.
    fn run(&self, view: &mut View<'_>, set: &SortedSet) -> CommandResult<Vec<Scored>> {
        match &self.kind {
            RangeKind::Rank(start, stop) => by_rank(view, set, *start, *stop, self.is_reverse),
            RangeKind::Score(range) => self.limited(range.scan(view, set, self.is_reverse)?),
            RangeKind::Lex(range) => match range.scan(view, set, self.is_reverse)? {
                Some(scan) => self.limited(scan),
                None => Ok(Vec::new()),
            },
        }
    }

    fn limited(&self, mut scan: ScoreScan) -> CommandResult<Vec<Scored>> {
        let Ok(offset) = u64::try_from(self.offset) else { return Ok(Vec::new()) };
        scan.skip(offset)?;
        scan.take(u64::try_from(self.limit).unwrap_or(u64::MAX))
    }
}

/// Returns the members with the ranks from `start` to `stop`, from the nearer end.
fn by_rank(
    view: &mut View<'_>,
    set: &SortedSet,
    start: i64,
    stop: i64,
    is_reverse: bool,
) -> CommandResult<Vec<Scored>> {
    let Some((begin, end)) = rank_bounds(set.len(), start, stop) else { return Ok(Vec::new()) };
    let is_far = is_far(set, begin, end);
    let mut scan = set.scan(view, is_reverse != is_far)?;
    scan.skip(if is_far { set.len() - end } else { begin })?;
    let mut found = scan.take(end - begin)?;
    if is_far {
        found.reverse();
    }
    Ok(found)
}

/// Returns the first rank and the rank after the last one, or None for an empty range.
pub(super) fn rank_bounds(len: u64, start: i64, stop: i64) -> Option<(u64, u64)> {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let position = |at: i64| if at < 0 { at.saturating_add(signed) } else { at };
    let begin = u64::try_from(position(start)).unwrap_or(0);
    let last = u64::try_from(position(stop)).ok()?.min(len.checked_sub(1)?);
    (begin <= last).then_some((begin, last + 1))
}

#[cfg(test)]
mod tests {
    use super::rank_bounds;

    #[test]
    fn bounds_of_ranks() {
        for (start, stop, expected) in [
            (0, -1, Some((0, 5))),
            (-2, -1, Some((3, 5))),
            (-9, 1, Some((0, 2))),
            (3, 99, Some((3, 5))),
            (3, 2, None),
            (5, 9, None),
            (0, -6, None),
            (i64::MIN, i64::MAX, Some((0, 5))),
        ] {
            assert_eq!(rank_bounds(5, start, stop), expected, "{start} {stop}");
        }
        assert_eq!(rank_bounds(0, 0, -1), None);
    }
}
