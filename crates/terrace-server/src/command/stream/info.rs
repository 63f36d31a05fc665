//! XINFO: states of streams, groups and consumers.

use super::{Group, GroupEdit, Stream, StreamId, entry, group, no_group_of_key, trim};
use crate::command::members::check_bytes;
use crate::command::subcommand::{Subcommand, dispatch, unknown_form};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// XINFO subcommand
pub(in crate::command) fn xinfo(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "xinfo", XINFO)
}

pub(in crate::command) static XINFO: &[Subcommand] = &[
    Subcommand { name: "consumers", arity: 4, run: consumers },
    Subcommand { name: "groups", arity: 3, run: groups },
    Subcommand { name: "stream", arity: -3, run: stream },
];

fn open_stream(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<Stream> {
    call.view.pin_state();
    let stream = Stream::open(&mut call.view, call.session.database, args.at(2))?;
    stream.ok_or(Failure::reply("ERR no such key"))
}

/// True if the IDs from `begin` on contain a deleted one.
fn has_gap_from(stream: &Stream, begin: StreamId) -> bool {
    let deleted = stream.max_deleted_id();
    stream.len() > 0 && deleted != StreamId::MIN && stream.first_id() <= deleted && begin <= deleted
}

/// Returns how many entries the stream had ever added up to `id`, if this is known.
pub(super) fn added_up_to(stream: &Stream, id: StreamId) -> Option<u64> {
    let before_first = stream.added().saturating_sub(stream.len());
    if stream.added() == 0 {
        return Some(0);
    }
    if id == stream.last_id() || (stream.len() == 0 && id < stream.last_id()) {
        return Some(stream.added());
    }
    let has_gap = stream.max_deleted_id() != StreamId::MIN && stream.max_deleted_id() >= stream.first_id();
    if id > stream.last_id() || has_gap {
        return None;
    }
    match id.cmp(&stream.first_id()) {
        std::cmp::Ordering::Less => Some(before_first),
        std::cmp::Ordering::Equal => Some(before_first + 1),
        std::cmp::Ordering::Greater => None,
    }
}

/// Returns the number of read entries of a group after the delivery of `id`, if this is known.
pub(super) fn entries_read_after(stream: &Stream, group: &Group, id: StreamId) -> Option<u64> {
    match group.entries_read {
        Some(read) if !has_gap_from(stream, id) => Some(read.saturating_add(1)),
        read if stream.added() == 0 => read,
        _ => added_up_to(stream, id),
    }
}

/// Number of entries that a group has not read, if this is known.
fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    if stream.added() == 0 {
        return Some(0);
    }
    let read = match group.entries_read {
        Some(read) if !has_gap_from(stream, group.last_id) => Some(read),
        _ => added_up_to(stream, group.last_id),
    };
    read.map(|read| (stream.added() as i64).wrapping_sub(read as i64))
}

fn reply_optional(call: &mut Call<'_>, number: Option<i64>) {
    match number {
        Some(number) => call.reply.integer(number),
        None => call.reply.null(),
    }
}

/// XINFO STREAM key [FULL [COUNT count]]
fn stream(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    const DEFAULT_COUNT: u64 = 10;
    let stream = open_stream(call, args)?;
    let count = match args.len() {
        3 => None,
        4 if args.is(3, "FULL") => Some(DEFAULT_COUNT),
        6 if args.is(3, "FULL") && args.is(4, "COUNT") => {
            Some(u64::try_from(args.integer(5)?).unwrap_or(DEFAULT_COUNT))
        }
        _ => return Err(unknown_form(args, "XINFO")),
    };
    call.reply.map(if count.is_some() { 9 } else { 10 });
    reply_head(call, &stream);
    match count {
        // Zero stands for all.
        Some(0) => full(call, &stream, u64::MAX),
        Some(count) => full(call, &stream, count),
        None => summary(call, &stream),
    }
}

fn reply_head(call: &mut Call<'_>, stream: &Stream) {
    let nodes = stream.len().div_ceil(trim::node_entries(call)) as usize;
    for (name, count) in
        [("length", stream.len() as usize), ("radix-tree-keys", nodes), ("radix-tree-nodes", nodes + 1)]
    {
        call.reply.bulk(name);
        call.reply.count(count);
    }
    call.reply.bulk("last-generated-id");
    entry::reply_id(call.reply, stream.last_id());
    call.reply.bulk("max-deleted-entry-id");
    entry::reply_id(call.reply, stream.max_deleted_id());
    call.reply.bulk("entries-added");
    call.reply.count(stream.added() as usize);
    call.reply.bulk("recorded-first-entry-id");
    entry::reply_id(call.reply, stream.first_id());
}

fn summary(call: &mut Call<'_>, stream: &Stream) -> CommandResult {
    let groups = group::groups(&mut call.view, stream)?;
    call.reply.bulk("groups");
    call.reply.count(groups.len());
    for (name, is_reverse) in [("first-entry", false), ("last-entry", true)] {
        call.reply.bulk(name);
        let mut scan = stream.entries(&mut call.view, StreamId::MIN, StreamId::MAX, is_reverse)?;
        match scan.next()? {
            Some((id, fields)) => entry::reply(call.reply, id, fields)?,
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn full(call: &mut Call<'_>, stream: &Stream, count: u64) -> CommandResult {
    call.require_slow_pool()?;
    call.reply.bulk("entries");
    let mut scan = stream.entries(&mut call.view, StreamId::MIN, StreamId::MAX, false)?;
    super::range::reply_entries(call.reply, &mut scan, count, |_| Ok(()))?;
    let groups = group::groups(&mut call.view, stream)?;
    call.reply.bulk("groups");
    call.reply.array(groups.len());
    for (name, group) in groups {
        call.reply.map(7);
        reply_group(call, stream, &name, &group);
        call.reply.bulk("pel-count");
        call.reply.count(group.pending as usize);
        let edit = GroupEdit::new(stream, &name, group);
        call.reply.bulk("pending");
        reply_pending(call, &edit, None, count)?;
        let consumers = edit.all_consumers(&mut call.view)?;
        call.reply.bulk("consumers");
        call.reply.array(consumers.len());
        for (name, consumer) in consumers {
            call.reply.map(4);
            call.reply.bulk("name");
            call.reply.bulk(&name);
            call.reply.bulk("seen-time");
            call.reply.count(consumer.seen as usize);
            call.reply.bulk("pel-count");
            call.reply.count(consumer.pending as usize);
            call.reply.bulk("pending");
            reply_pending(call, &edit, Some(&name), count)?;
        }
    }
    Ok(())
}

/// Appends name, last ID, number of read entries and lag.
fn reply_group(call: &mut Call<'_>, stream: &Stream, name: &[u8], group: &Group) {
    call.reply.bulk("name");
    call.reply.bulk(name);
    call.reply.bulk("last-delivered-id");
    entry::reply_id(call.reply, group.last_id);
    reply_reads(call, stream, group);
}

fn reply_reads(call: &mut Call<'_>, stream: &Stream, group: &Group) {
    call.reply.bulk("entries-read");
    reply_optional(call, group.entries_read.map(|read| read as i64));
    call.reply.bulk("lag");
    reply_optional(call, lag(stream, group));
}

/// Appends at most `count` pending entries.
fn reply_pending(
    call: &mut Call<'_>,
    edit: &GroupEdit,
    consumer: Option<&[u8]>,
    count: u64,
) -> CommandResult {
    let mut scan = edit.pending_entries(&mut call.view, consumer, StreamId::MIN, StreamId::MAX)?;
    let mut found = Vec::new();
    while (found.len() as u64) < count
        && let Some((id, pending)) = scan.next()?
    {
        let pending = match pending {
            Some(pending) => Some(pending),
            None => edit.pending(&mut call.view, id)?,
        };
        found.extend(pending.map(|pending| (id, pending)));
        check_bytes(found.len() * 128)?;
    }
    call.reply.array(found.len());
    for (id, pending) in found {
        call.reply.array(if consumer.is_some() { 3 } else { 4 });
        entry::reply_id(call.reply, id);
        if consumer.is_none() {
            call.reply.bulk(&pending.consumer);
        }
        call.reply.count(pending.delivered as usize);
        call.reply.count(pending.count as usize);
    }
    Ok(())
}

/// XINFO GROUPS key
fn groups(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let stream = open_stream(call, args)?;
    let groups = group::groups(&mut call.view, &stream)?;
    call.reply.array(groups.len());
    for (name, group) in groups {
        call.reply.map(6);
        call.reply.bulk("name");
        call.reply.bulk(&name);
        call.reply.bulk("consumers");
        call.reply.count(group.consumers as usize);
        call.reply.bulk("pending");
        call.reply.count(group.pending as usize);
        call.reply.bulk("last-delivered-id");
        entry::reply_id(call.reply, group.last_id);
        reply_reads(call, &stream, &group);
    }
    Ok(())
}

/// XINFO CONSUMERS key group
fn consumers(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let stream = open_stream(call, args)?;
    let Some(edit) = GroupEdit::open(&mut call.view, &stream, args.at(3))? else {
        return Err(no_group_of_key(args.at(2), args.at(3)));
    };
    let now = call.view.now_ms();
    let consumers = edit.all_consumers(&mut call.view)?;
    call.reply.array(consumers.len());
    for (name, consumer) in consumers {
        call.reply.map(3);
        call.reply.bulk("name");
        call.reply.bulk(name);
        call.reply.bulk("pending");
        call.reply.count(consumer.pending as usize);
        call.reply.bulk("idle");
        call.reply.count(now.saturating_sub(consumer.seen) as usize);
    }
    Ok(())
}
