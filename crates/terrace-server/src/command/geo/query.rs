//! GEOPOS, GEODIST, GEOHASH.

use super::cell::text;
use super::distance::{distance, format_distance};
use super::{Position, SortedSet, parse_unit, position_of};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;

/// GEOPOS key member ..
pub(in crate::command) fn geopos(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    for_each_position(call, args, |reply, position| match position {
        Some(position) => reply_position(reply, position),
        None => reply.null_array(),
    })
}

/// GEOHASH key member ..
pub(in crate::command) fn geohash(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    for_each_position(call, args, |reply, position| match position {
        Some(position) => reply.bulk(text(position)),
        None => reply.null(),
    })
}

fn for_each_position(
    call: &mut Call<'_>,
    args: Args<'_>,
    append: impl Fn(&mut Reply, Option<Position>),
) -> CommandResult {
    let set = SortedSet::open(&mut call.view, call.session.database, &args[1])?;
    call.reply.array(args.len() - 2);
    for member in args.from(2) {
        let position = match &set {
            Some(set) => position_of(call, set, member)?,
            None => None,
        };
        append(call.reply, position);
    }
    Ok(())
}

/// Appends both coordinates.
pub(super) fn reply_position(reply: &mut Reply, position: Position) {
    reply.array(2);
    reply.decimal(position.longitude);
    reply.decimal(position.latitude);
}

/// GEODIST key member member [unit]
pub(in crate::command) fn geodist(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let unit = match args.len() {
        4 => 1.0,
        5 => parse_unit(args, 4)?,
        _ => return Err(Failure::SYNTAX),
    };
    let positions = match SortedSet::open(&mut call.view, call.session.database, &args[1])? {
        Some(set) => (position_of(call, &set, &args[2])?, position_of(call, &set, &args[3])?),
        None => (None, None),
    };
    match positions {
        (Some(from), Some(to)) => call.reply.bulk(format_distance(distance(from, to) / unit)),
        _ => call.reply.null(),
    }
    Ok(())
}
