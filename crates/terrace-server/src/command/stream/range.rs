//! XRANGE and XREVRANGE.

use super::{EntryScan, Stream, StreamId, entry};
use crate::command::members::check_bytes;
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;

/// XRANGE key start end [COUNT count]
pub(in crate::command) fn xrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    range(call, args, false)
}

/// XREVRANGE key end start [COUNT count]
pub(in crate::command) fn xrevrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    range(call, args, true)
}

fn range(call: &mut Call<'_>, args: Args<'_>, is_reverse: bool) -> CommandResult {
    let (begin, end) = if is_reverse { (3, 2) } else { (2, 3) };
    let begin = StreamId::parse_begin(&args[begin])?;
    let end = StreamId::parse_end(&args[end])?;
    let mut count = None;
    for index in (4..args.len()).step_by(2) {
        if !args.is(index, "COUNT") || index + 1 == args.len() {
            return Err(Failure::SYNTAX);
        }
        count = Some(u64::try_from(args.integer(index + 1)?).unwrap_or(0));
    }
    let Some(stream) = Stream::open(&mut call.view, call.session.database, &args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    let count = count.unwrap_or(u64::MAX);
    let mut scan = stream.entries(&mut call.view, begin, end, is_reverse)?;
    reply_entries(call.reply, &mut scan, count, |_| Ok(()))?;
    Ok(())
}

/// Appends an array of at most `count` entries, and calls `each` for their IDs. Returns their
/// number.
///
/// # Errors
///
/// The entries exceed 256 MiB.
pub(super) fn reply_entries(
    reply: &mut Reply,
    scan: &mut EntryScan,
    count: u64,
    mut each: impl FnMut(StreamId) -> CommandResult,
) -> CommandResult<usize> {
    let mut entries = Reply::new();
    let mut len = 0;
    while (len as u64) < count
        && let Some((id, fields)) = scan.next()?
    {
        entry::reply(&mut entries, id, fields)?;
        check_bytes(entries.len())?;
        each(id)?;
        len += 1;
    }
    reply.array(len);
    reply.raw(entries.as_bytes());
    Ok(len)
}
