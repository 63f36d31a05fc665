//! XADD, XLEN, XDEL, XTRIM, XSETID.

use std::collections::BTreeSet;

use super::id::NewId;
use super::trim::{Trim, TrimOptions};
use super::{Stream, StreamId, entry};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{EventClass, View};

/// Arguments of XADD before the fields.
struct AddOptions {
    trim: Option<Trim>,
    must_exist: bool,
    id: NewId,
    /// Index of the first field.
    fields: usize,
}

impl AddOptions {
    fn parse(call: &Call<'_>, args: Args<'_>) -> CommandResult<AddOptions> {
        let mut trim = TrimOptions::default();
        let mut must_exist = false;
        let mut id = NewId::Auto;
        let mut index = 2;
        while index < args.len() {
            if args.at(index) == b"*" {
                break;
            }
            if let Some(next) = trim.parse(args, index)? {
                index = next;
            } else if args.is(index, "NOMKSTREAM") {
                must_exist = true;
                index += 1;
            } else {
                id = NewId::parse(args.at(index), 0)?;
                break;
            }
        }
        let trim = trim.finish(call)?;
        let fields = index + 1;
        if args.len() < fields + 2 || (args.len() - fields) % 2 == 1 {
            return Err(Failure::reply("ERR wrong number of arguments for 'xadd' command"));
        }
        if id == NewId::Full(StreamId::MIN) {
            return Err(Failure::reply("ERR The ID specified in XADD must be greater than 0-0"));
        }
        Ok(AddOptions { trim, must_exist, id, fields })
    }
}

/// XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value ..
pub(in crate::command) fn xadd(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = AddOptions::parse(call, args)?;
    let database = call.session.database;
    let stream = if options.must_exist {
        Stream::open(&mut call.view, database, &args[1])?
    } else {
        Some(Stream::open_or_create(&mut call.view, database, &args[1])?)
    };
    let Some(mut stream) = stream else {
        call.reply.null();
        return Ok(());
    };
    let id = next_id(&mut call.view, &stream, options.id)?;
    stream.put_entry(&mut call.view, id, &entry::encode(args.from(options.fields)))?;
    if stream.len() == 0 {
        stream.set_first_id(id);
    }
    stream.set_last_id(id);
    stream.set_added(stream.added().saturating_add(1));
    stream.object.count = stream.object.count.saturating_add(1);
    let trimmed = match &options.trim {
        Some(trim) => trim.run(&mut call.view, &mut stream, Some(id))?,
        None => 0,
    };
    stream.save(&mut call.view, database, &args[1])?;
    call.notify(EventClass::STREAM, "xadd", &args[1]);
    if trimmed > 0 {
        call.notify(EventClass::STREAM, "xtrim", &args[1]);
    }
    entry::reply_id(call.reply, id);
    Ok(())
}

/// Returns the ID of a new entry.
///
/// # Errors
///
/// It would not be larger than the last one.
fn next_id(view: &mut View<'_>, stream: &Stream, id: NewId) -> CommandResult<StreamId> {
    let last = stream.last_id();
    let next = last.next().ok_or(Failure::reply(
        "ERR The stream has exhausted the last possible ID, unable to add more items",
    ))?;
    let id = match id {
        NewId::Auto => next.max(StreamId { ms: view.now_ms(), seq: 0 }),
        NewId::AutoSequence(ms) if ms == last.ms => {
            last.seq.checked_add(1).ok_or(Failure::reply("ERR Elements are too large to be stored"))?;
            next
        }
        NewId::AutoSequence(ms) => StreamId { ms, seq: 0 },
        NewId::Full(id) => id,
    };
    if id <= last {
        return Err(Failure::reply(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ));
    }
    Ok(id)
}

/// XLEN key
pub(in crate::command) fn xlen(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let stream = Stream::open(&mut call.view, call.session.database, &args[1])?;
    call.reply.count(stream.map_or(0, |stream| stream.len() as usize));
    Ok(())
}

/// XDEL key id ..
pub(in crate::command) fn xdel(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = call.session.database;
    let Some(mut stream) = Stream::open(&mut call.view, database, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids: CommandResult<BTreeSet<StreamId>> =
        args.from(2).map(|arg| StreamId::parse_strict(arg, 0)).collect();
    let mut deleted = BTreeSet::new();
    for id in ids? {
        if stream.entry(&mut call.view, id)?.is_some() {
            stream.delete_entry(&mut call.view, id)?;
            deleted.insert(id);
        }
    }
    if let Some(largest) = deleted.last() {
        stream.object.count = stream.object.count.saturating_sub(deleted.len() as u64);
        stream.set_max_deleted_id(stream.max_deleted_id().max(*largest));
        if deleted.contains(&stream.first_id()) {
            let first = first_except(&mut call.view, &stream, &deleted)?;
            stream.set_first_id(first);
        }
        stream.save(&mut call.view, database, &args[1])?;
        call.notify(EventClass::STREAM, "xdel", &args[1]);
    }
    call.reply.count(deleted.len());
    Ok(())
}

/// Returns the first entry that is not deleted, or 0-0.
fn first_except(
    view: &mut View<'_>,
    stream: &Stream,
    deleted: &BTreeSet<StreamId>,
) -> CommandResult<StreamId> {
    // The command does not see its own writes.
    let mut scan = stream.entries(view, StreamId::MIN, StreamId::MAX, false)?;
    while let Some((id, _)) = scan.next()? {
        if !deleted.contains(&id) {
            return Ok(id);
        }
    }
    Ok(StreamId::MIN)
}

/// XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]
pub(in crate::command) fn xtrim(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut options = TrimOptions::default();
    let mut index = 2;
    while index < args.len() {
        index = options.parse(args, index)?.ok_or(Failure::SYNTAX)?;
    }
    if options.is_none() {
        return Err(Failure::reply("ERR syntax error, XTRIM must be called with a trimming strategy"));
    }
    let trim = options.finish(call)?.ok_or(Failure::SYNTAX)?;
    let database = call.session.database;
    let Some(mut stream) = Stream::open(&mut call.view, database, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let removed = trim.run(&mut call.view, &mut stream, None)?;
    if removed > 0 {
        stream.save(&mut call.view, database, &args[1])?;
        call.notify(EventClass::STREAM, "xtrim", &args[1]);
    }
    call.reply.count(removed as usize);
    Ok(())
}

/// XSETID key id [ENTRIESADDED count] [MAXDELETEDID id]
pub(in crate::command) fn xsetid(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let id = StreamId::parse_strict(&args[2], 0)?;
    let (added, max_deleted) = set_id_options(args, id)?;
    let database = call.session.database;
    let stream = Stream::open(&mut call.view, database, &args[1])?;
    let mut stream = stream.ok_or(Failure::reply("ERR no such key"))?;
    if stream.len() > 0 {
        if last_entry(&mut call.view, &stream)?.is_some_and(|last| id < last) {
            return Err(Failure::reply(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| added < stream.len()) {
            return Err(Failure::reply(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    stream.set_last_id(id);
    stream.set_added(added.unwrap_or(stream.added()));
    if max_deleted != StreamId::MIN {
        stream.set_max_deleted_id(max_deleted);
    }
    stream.save(&mut call.view, database, &args[1])?;
    call.notify(EventClass::STREAM, "xsetid", &args[1]);
    call.reply.ok();
    Ok(())
}

fn set_id_options(args: Args<'_>, id: StreamId) -> CommandResult<(Option<u64>, StreamId)> {
    let mut added = None;
    let mut max_deleted = StreamId::MIN;
    for index in (3..args.len()).step_by(2) {
        let has_value = index + 1 < args.len();
        if has_value && args.is(index, "ENTRIESADDED") {
            let count = u64::try_from(args.integer(index + 1)?);
            added = Some(count.map_err(|_| Failure::reply("ERR entries_added must be positive"))?);
        } else if has_value && args.is(index, "MAXDELETEDID") {
            max_deleted = StreamId::parse_strict(args.at(index + 1), 0)?;
            if id < max_deleted {
                return Err(Failure::reply(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok((added, max_deleted))
}

/// ID of the last entry. The last ID of the stream may be larger.
pub(super) fn last_entry(view: &mut View<'_>, stream: &Stream) -> CommandResult<Option<StreamId>> {
    Ok(stream.entries(view, StreamId::MIN, StreamId::MAX, true)?.next()?.map(|(id, _)| id))
}
