//! XACK and XPENDING.

use super::{GroupEdit, Stream, StreamId, entry, no_group};
use crate::command::members::check_bytes;
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;

/// Opens the stream at the first argument and the group that the second one names.
pub(super) fn open_group(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<Option<(Stream, GroupEdit)>> {
    let Some(stream) = Stream::open(&mut call.view, call.session.database, &args[1])? else {
        return Ok(None);
    };
    let edit = GroupEdit::open(&mut call.view, &stream, &args[2])?;
    Ok(edit.map(|edit| (stream, edit)))
}

/// XACK key group id ..
pub(in crate::command) fn xack(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some((_, mut edit)) = open_group(call, args)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids: CommandResult<Vec<StreamId>> = args.from(3).map(|arg| StreamId::parse_strict(arg, 0)).collect();
    let mut acknowledged = 0;
    for id in ids? {
        if let Some(pending) = edit.pending(&mut call.view, id)? {
            edit.remove_pending(&mut call.view, id, &pending)?;
            acknowledged += 1;
        }
    }
    if acknowledged > 0 {
        edit.save(&mut call.view)?;
    }
    call.reply.count(acknowledged);
    Ok(())
}

/// Range of XPENDING in its long form.
struct PendingRange<'a> {
    min_idle: u64,
    begin: StreamId,
    end: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingRange<'a> {
    fn parse(args: Args<'a>) -> CommandResult<PendingRange<'a>> {
        let has_idle = args.is(3, "IDLE");
        let min_idle = if has_idle { args.integer(4)? } else { 0 };
        let first = if has_idle { 5 } else { 3 };
        if args.len() < first + 3 {
            return Err(Failure::SYNTAX);
        }
        let count = u64::try_from(args.integer(first + 2)?).unwrap_or(0);
        Ok(PendingRange {
            min_idle: u64::try_from(min_idle).unwrap_or(0),
            begin: StreamId::parse_begin(args.at(first))?,
            end: StreamId::parse_end(args.at(first + 1))?,
            count,
            consumer: args.get(first + 3),
        })
    }
}

/// XPENDING key group [[IDLE ms] start end count [consumer]]
pub(in crate::command) fn xpending(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = match args.len() {
        3 => None,
        6..=9 => Some(PendingRange::parse(args)?),
        _ => return Err(Failure::SYNTAX),
    };
    call.view.pin_state();
    let Some((_, mut edit)) = open_group(call, args)? else {
        return Err(no_group(&args[1], &args[2], ""));
    };
    match range {
        Some(range) => reply_range(call, &mut edit, &range),
        None => reply_summary(call, &edit),
    }
}

fn reply_summary(call: &mut Call<'_>, edit: &GroupEdit) -> CommandResult {
    call.reply.array(4);
    call.reply.count(edit.group.pending as usize);
    let first = edit.pending_entries(&mut call.view, None, StreamId::MIN, StreamId::MAX)?.next()?;
    let last = edit.last_pending(&mut call.view)?;
    let (Some((first, _)), Some(last)) = (first, last) else {
        call.reply.null();
        call.reply.null();
        call.reply.null_array();
        return Ok(());
    };
    entry::reply_id(call.reply, first);
    entry::reply_id(call.reply, last);
    let mut consumers = edit.all_consumers(&mut call.view)?;
    consumers.retain(|(_, consumer)| consumer.pending > 0);
    call.reply.array(consumers.len());
    for (name, consumer) in consumers {
        call.reply.array(2);
        call.reply.bulk(name);
        call.reply.bulk(consumer.pending.to_string());
    }
    Ok(())
}

fn reply_range(call: &mut Call<'_>, edit: &mut GroupEdit, range: &PendingRange<'_>) -> CommandResult {
    if let Some(name) = range.consumer
        && edit.consumer(&mut call.view, name)?.is_none()
    {
        call.reply.array(0);
        return Ok(());
    }
    let now = call.view.now_ms();
    let mut scan = edit.pending_entries(&mut call.view, range.consumer, range.begin, range.end)?;
    let mut rows = Reply::new();
    let mut len = 0;
    while (len as u64) < range.count
        && let Some((id, pending)) = scan.next()?
    {
        let pending = match pending {
            Some(pending) => Some(pending),
            None => edit.pending(&mut call.view, id)?,
        };
        let Some(pending) = pending else { continue };
        let idle = now.saturating_sub(pending.delivered);
        if idle < range.min_idle {
            continue;
        }
        rows.array(4);
        entry::reply_id(&mut rows, id);
        rows.bulk(&pending.consumer);
        rows.count(idle as usize);
        rows.count(pending.count as usize);
        check_bytes(rows.len())?;
        len += 1;
    }
    call.reply.array(len);
    call.reply.raw(rows.as_bytes());
    Ok(())
}
