//! XGROUP: creation, change and removal of consumer groups.

use super::{Group, GroupEdit, Stream, StreamId, no_group_of_key};
use crate::command::subcommand::{Subcommand, dispatch, unknown_form};
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::EventClass;

/// XGROUP subcommand
pub(in crate::command) fn xgroup(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "xgroup", XGROUP)
}

pub(in crate::command) static XGROUP: &[Subcommand] = &[
    Subcommand { name: "create", arity: -5, run: create },
    Subcommand { name: "createconsumer", arity: 5, run: create_consumer },
    Subcommand { name: "delconsumer", arity: 5, run: delete_consumer },
    Subcommand { name: "destroy", arity: 4, run: destroy },
    Subcommand { name: "setid", arity: -5, run: set_id },
];

/// Options of CREATE and SETID.
#[derive(Default)]
struct GroupOptions {
    creates_stream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    fn parse(args: Args<'_>, is_create: bool) -> CommandResult<GroupOptions> {
        let mut options = GroupOptions::default();
        let mut index = 5;
        while index < args.len() {
            if is_create && args.is(index, "MKSTREAM") {
                options.creates_stream = true;
                index += 1;
            } else if args.is(index, "ENTRIESREAD") && index + 1 < args.len() {
                options.entries_read =
                    match args.integer(index + 1)? {
                        -1 => None,
                        read => Some(u64::try_from(read).map_err(|_| {
                            Failure::reply("ERR value for ENTRIESREAD must be positive or -1")
                        })?),
                    };
                index += 2;
            } else {
                return Err(unknown_form(args, "XGROUP"));
            }
        }
        Ok(options)
    }
}

fn open_stream(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<Stream> {
    let stream = Stream::open(&mut call.view, call.session.database, args.at(2))?;
    stream.ok_or(Failure::reply(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    ))
}

fn open_group(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<(Stream, GroupEdit)> {
    let stream = open_stream(call, args)?;
    match GroupEdit::open(&mut call.view, &stream, args.at(3))? {
        Some(group) => Ok((stream, group)),
        None => Err(no_group_of_key(args.at(2), args.at(3))),
    }
}

/// XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD count]
fn create(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = GroupOptions::parse(args, true)?;
    let database = call.session.database;
    let stream = if options.creates_stream {
        Stream::open_or_create(&mut call.view, database, args.at(2))?
    } else {
        open_stream(call, args)?
    };
    if args.len() > 8 {
        return Err(unknown_form(args, "XGROUP"));
    }
    let last_id = match args.at(4) {
        b"$" => stream.last_id(),
        text => StreamId::parse_strict(text, 0)?,
    };
    if GroupEdit::open(&mut call.view, &stream, args.at(3))?.is_some() {
        return Err(Failure::reply("BUSYGROUP Consumer Group name already exists"));
    }
    if stream.object.is_new {
        stream.save(&mut call.view, database, args.at(2))?;
    }
    GroupEdit::new(&stream, args.at(3), Group::new(last_id, options.entries_read)).save(&mut call.view)?;
    call.notify(EventClass::STREAM, "xgroup-create", args.at(2));
    call.reply.ok();
    Ok(())
}

/// XGROUP SETID key group id | $ [ENTRIESREAD count]
fn set_id(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let options = GroupOptions::parse(args, false)?;
    let (stream, mut edit) = open_group(call, args)?;
    if args.len() > 7 {
        return Err(unknown_form(args, "XGROUP"));
    }
    edit.group.last_id = match args.at(4) {
        b"$" => stream.last_id(),
        text => StreamId::parse(text, 0)?,
    };
    edit.group.entries_read = options.entries_read;
    edit.save(&mut call.view)?;
    call.notify(EventClass::STREAM, "xgroup-setid", args.at(2));
    call.reply.ok();
    Ok(())
}

/// XGROUP DESTROY key group
fn destroy(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let stream = open_stream(call, args)?;
    let group = GroupEdit::open(&mut call.view, &stream, args.at(3))?;
    call.reply.integer(i64::from(group.is_some()));
    if let Some(mut edit) = group {
        call.check_members_on_worker(edit.group.pending.saturating_add(edit.group.consumers))?;
        edit.delete(&mut call.view)?;
        call.notify(EventClass::STREAM, "xgroup-destroy", args.at(2));
        call.view.note_ready(call.session.database, args.at(2))?;
    }
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer
fn create_consumer(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (_, mut edit) = open_group(call, args)?;
    let now = call.view.now_ms();
    let is_created = edit.create_consumer(&mut call.view, args.at(4), now)?;
    if is_created {
        edit.save(&mut call.view)?;
        call.notify(EventClass::STREAM, "xgroup-createconsumer", args.at(2));
    }
    call.reply.integer(i64::from(is_created));
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
fn delete_consumer(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (_, mut edit) = open_group(call, args)?;
    let consumer = edit.consumer(&mut call.view, args.at(4))?.cloned();
    call.reply.count(consumer.as_ref().map_or(0, |consumer| consumer.pending as usize));
    if let Some(consumer) = consumer {
        call.check_members_on_worker(consumer.pending)?;
        edit.delete_consumer(&mut call.view, args.at(4), &consumer)?;
        edit.save(&mut call.view)?;
        call.notify(EventClass::STREAM, "xgroup-delconsumer", args.at(2));
    }
    Ok(())
}
