//! Counts, scores and ranks; ZSCAN.

use super::{LexRange, ScoreRange, ScoreScan, Scored, SortedSet};
use crate::command::members::ScanOptions;
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::glob;
use crate::resp::{format_score, parse_cursor};
use crate::store::{MemberRange, ValueType};

/// Maximum size of the members in one reply of ZSCAN, in bytes.
const MAX_SCAN_BYTES: usize = 1 << 20;

fn open(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<Option<SortedSet>> {
    Ok(call.open(args.at(1), ValueType::SortedSet)?.map(|object| SortedSet { object }))
}

/// ZCARD key
pub(in crate::command) fn zcard(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let set = open(call, args)?;
    call.reply.count(set.map_or(0, |set| set.len() as usize));
    Ok(())
}

/// ZCOUNT key min max
pub(in crate::command) fn zcount(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = ScoreRange::parse(&args[2], &args[3])?;
    let count = match open(call, args)? {
        Some(set) => count_all(range.scan(&mut call.view, &set, false)?)?,
        None => 0,
    };
    call.reply.count(count);
    Ok(())
}

/// ZLEXCOUNT key min max
pub(in crate::command) fn zlexcount(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = LexRange::parse(&args[2], &args[3])?;
    let scan = match open(call, args)? {
        Some(set) => range.scan(&mut call.view, &set, false)?,
        None => None,
    };
    call.reply.count(scan.map_or(Ok(0), count_all)?);
    Ok(())
}

fn count_all(mut scan: ScoreScan) -> CommandResult<usize> {
    let mut count = 0;
    while scan.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// ZSCORE key member
pub(in crate::command) fn zscore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let set = open(call, args)?;
    reply_score(call, set.as_ref(), &args[2])
}

/// ZMSCORE key member ..
pub(in crate::command) fn zmscore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let set = open(call, args)?;
    call.reply.array(args.len() - 2);
    for member in args.from(2) {
        reply_score(call, set.as_ref(), member)?;
    }
    Ok(())
}

fn reply_score(call: &mut Call<'_>, set: Option<&SortedSet>, member: &[u8]) -> CommandResult {
    let score = match set {
        Some(set) => set.score(&mut call.view, member)?,
        None => None,
    };
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

/// ZRANK key member
pub(in crate::command) fn zrank(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_rank(call, args, false)
}

/// ZREVRANK key member
pub(in crate::command) fn zrevrank(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_rank(call, args, true)
}

fn reply_rank(call: &mut Call<'_>, args: Args<'_>, is_reverse: bool) -> CommandResult {
    let rank = match open(call, args)? {
        Some(set) => {
            rank(call, &set, &args[2])?.map(|rank| if is_reverse { set.len() - 1 - rank } else { rank })
        }
        None => None,
    };
    match rank {
        Some(rank) => call.reply.count(rank as usize),
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns the number of members before `member`. The scans from both ends take turns, so that the
/// nearer end decides the cost.
fn rank(call: &mut Call<'_>, set: &SortedSet, member: &[u8]) -> CommandResult<Option<u64>> {
    if set.score(&mut call.view, member)?.is_none() {
        return Ok(None);
    }
    let mut up = set.scan(&mut call.view, false)?;
    let mut down = set.scan(&mut call.view, true)?;
    for distance in 0..set.len() {
        if up.next()?.is_some_and(|(_, found)| found == member) {
            return Ok(Some(distance));
        }
        if down.next()?.is_some_and(|(_, found)| found == member) {
            return Ok(Some(set.len() - 1 - distance));
        }
    }
    Err(super::damaged())
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
///
/// A sorted set that Redis would store in its compact encoding is returned as a whole, like there.
pub(in crate::command) fn zscan(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let cursor = parse_cursor(args.at(2)).ok_or(Failure::reply("ERR invalid cursor"))?;
    let Some(set) = open(call, args)? else {
        call.reply.array(2);
        call.reply.bulk("0");
        call.reply.array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(args)?;
    let (found, next) = match &set {
        set if set.is_compact() => (set.scan(&mut call.view, false)?.take(u64::MAX)?, 0),
        set => scan_part(call, set, cursor, options.count)?,
    };
    let found: Vec<&Scored> = match options.pattern {
        Some(pattern) => found.iter().filter(|(member, _)| glob::is_match(pattern, member)).collect(),
        None => found.iter().collect(),
    };
    call.reply.array(2);
    call.reply.bulk(next.to_string());
    call.reply.array(2 * found.len());
    for (member, score) in found {
        call.reply.bulk(member);
        call.reply.bulk(format_score(*score));
    }
    Ok(())
}

/// Returns the members after the position of `cursor`, and the cursor of the next part.
fn scan_part(
    call: &mut Call<'_>,
    set: &SortedSet,
    cursor: u64,
    count: usize,
) -> CommandResult<(Vec<Scored>, u64)> {
    call.check_members_on_worker(count as u64)?;
    let mut range = MemberRange::prefix(&[super::BY_MEMBER]);
    if cursor != 0 {
        let position = call.shared.store.cursor(cursor)?;
        let text = "ERR the cursor was discarded: the server keeps 65,536 positions, start again with 0";
        let position = position.ok_or(Failure::reply(text))?;
        // The first possible key after the last member.
        range.begin = Some([&super::member_suffix(&position)[..], &[0]].concat());
    }
    let mut scan = call.view.members(&set.object, &range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some((suffix, value)) = scan.next()? {
        let member = suffix.get(1..).unwrap_or_default();
        let score = super::decode_score(value).ok_or_else(super::damaged)?;
        bytes += member.len();
        found.push((member.to_vec(), score));
        if found.len() >= count || bytes > MAX_SCAN_BYTES {
            let next = call.shared.store.save_cursor(member.to_vec())?;
            return Ok((found, next));
        }
    }
    Ok((found, 0))
}
