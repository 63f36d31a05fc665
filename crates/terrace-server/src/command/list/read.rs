//! Reads of lists.

use super::{List, check_bytes};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// LLEN key
pub(in crate::command) fn llen(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let list = List::open(&mut call.view, call.session.database, &args[1])?;
    call.reply.count(list.map_or(0, |list| list.len() as usize));
    Ok(())
}

/// LINDEX key index
pub(in crate::command) fn lindex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(list) = List::open(&mut call.view, call.session.database, &args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let position = u64::try_from(list.position(args.integer(2)?)).ok().filter(|at| *at < list.len());
    match position {
        Some(position) => {
            let Call { view, reply, .. } = call;
            list.read_element(view, position, |element| reply.bulk(element))?;
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// LRANGE key start stop
pub(in crate::command) fn lrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let start = args.integer(2)?;
    let stop = args.integer(3)?;
    let list = List::open(&mut call.view, call.session.database, &args[1])?;
    let range = list.as_ref().and_then(|list| bounds(list, start, stop));
    let (Some(list), Some((begin, end))) = (list, range) else {
        call.reply.array(0);
        return Ok(());
    };
    call.check_members_on_worker(end - begin)?;
    let before = call.reply.len();
    call.reply.array((end - begin) as usize);
    let mut elements = list.elements(&mut call.view, begin, end, false)?;
    while let Some((_, element)) = elements.next()? {
        call.reply.bulk(element);
        check_bytes(call.reply.len() - before)?;
    }
    Ok(())
}

/// Returns the first position and the position after the last one, or None for an empty range.
pub(super) fn bounds(list: &List, start: i64, stop: i64) -> Option<(u64, u64)> {
    let begin = u64::try_from(list.position(start)).unwrap_or(0);
    let last = u64::try_from(list.position(stop)).ok()?.min(list.len().saturating_sub(1));
    (begin <= last && begin < list.len()).then_some((begin, last + 1))
}

/// Options of LPOS.
struct PositionOptions {
    rank: i64,
    count: Option<u64>,
    /// Maximum number of compared elements.
    max_len: u64,
}

/// LPOS key element [RANK rank] [COUNT count] [MAXLEN len]
pub(in crate::command) fn lpos(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = parse(args)?;
    let found = match List::open(&mut call.view, call.session.database, &args[1])? {
        Some(list) => find(call, &list, &args[2], &options)?,
        None => Vec::new(),
    };
    match (options.count, found.first()) {
        (Some(_), _) => {
            call.reply.array(found.len());
            for position in found {
                call.reply.count(position as usize);
            }
        }
        (None, Some(position)) => call.reply.count(*position as usize),
        (None, None) => call.reply.null(),
    }
    Ok(())
}

fn parse(args: Args<'_>) -> CommandResult<PositionOptions> {
    let mut options = PositionOptions { rank: 1, count: None, max_len: u64::MAX };
    let number = |index: usize, text: &'static str| {
        u64::try_from(args.integer(index).unwrap_or(-1)).map_err(|_| Failure::reply(text))
    };
    for index in (3..args.len()).step_by(2) {
        if index + 1 == args.len() {
            return Err(Failure::SYNTAX);
        } else if args.is(index, "RANK") {
            options.rank = args.integer(index + 1)?;
            if options.rank == 0 {
                return Err(Failure::reply(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                ));
            }
        } else if args.is(index, "COUNT") {
            options.count = Some(number(index + 1, "ERR COUNT can't be negative")?);
        } else if args.is(index, "MAXLEN") {
            let max_len = number(index + 1, "ERR MAXLEN can't be negative")?;
            options.max_len = if max_len == 0 { u64::MAX } else { max_len };
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(options)
}

/// Returns the positions of the elements that are equal to `wanted`.
fn find(
    call: &mut Call<'_>,
    list: &List,
    wanted: &[u8],
    options: &PositionOptions,
) -> CommandResult<Vec<u64>> {
    let is_reverse = options.rank < 0;
    let compared = options.max_len.min(list.len());
    call.check_members_on_worker(compared)?;
    let mut skipped = options.rank.unsigned_abs() - 1;
    let limit = match options.count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    let (begin, end) = if is_reverse { (list.len() - compared, list.len()) } else { (0, compared) };
    let mut found = Vec::new();
    let mut elements = list.elements(&mut call.view, begin, end, is_reverse)?;
    while let Some((position, element)) = elements.next()? {
        if element != wanted {
            continue;
        }
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        found.push(position);
        if found.len() as u64 >= limit {
            break;
        }
    }
    Ok(found)
}
