//! COMMAND and its subcommands: the table of commands for clients.

use super::subcommand::{Subcommand, dispatch, is_arity};
use super::table::{self, Command, Flags, Keys, find, key_access};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;

/// COMMAND [subcommand]
pub(super) fn command(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 1 {
        call.reply.array(table::all().count());
        for row in table::all() {
            reply_row(call.reply, row);
        }
        return Ok(());
    }
    dispatch(call, args, "command", COMMAND)
}

pub(super) static COMMAND: &[Subcommand] = &[
    Subcommand { name: "count", arity: 2, run: count },
    Subcommand { name: "docs", arity: -2, run: docs },
    Subcommand { name: "getkeys", arity: -4, run: getkeys },
    Subcommand { name: "getkeysandflags", arity: -4, run: getkeysandflags },
    Subcommand { name: "info", arity: -2, run: info },
    Subcommand { name: "list", arity: -2, run: list },
];

fn reply_row(reply: &mut Reply, row: &Command) {
    reply_fields(reply, row, row.name, row.arity, row.keys);
    let help = (!row.subcommands.is_empty()).then_some(("help", 2));
    let subcommands = row.subcommands.iter().map(|it| (it.name, it.arity)).chain(help);
    reply.array(row.subcommands.len() + usize::from(help.is_some()));
    for (name, arity) in subcommands {
        let full_name = format!("{}|{name}", row.name);
        reply_fields(reply, row, &full_name, arity, row.keys.of_subcommand(arity));
        reply.array(0);
    }
}

/// Writes an array of all fields but the last one, the subcommands.
fn reply_fields(reply: &mut Reply, row: &Command, name: &str, arity: i32, keys: Keys) {
    let movable = row.has_movable_keys().then_some("movablekeys");
    let flags: Vec<&str> = row.flags.names().chain(movable).collect();
    reply.array(10);
    reply.bulk(name);
    reply.integer(i64::from(arity));
    reply.set(flags.len());
    for flag in flags {
        reply.status(flag);
    }
    reply.count(keys.first);
    reply.integer(i64::from(keys.last));
    reply.count(keys.step);
    let categories = table::CATEGORIES.iter().filter(|name| table::is_in_category(row, None, name));
    reply.set(categories.clone().count());
    categories.for_each(|name| reply.status(&format!("@{name}")));
    // Tips and key specifications.
    reply.array(0);
    reply.array(0);
}

fn count(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.count(table::all().count());
    Ok(())
}

fn info(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 2 {
        call.reply.array(table::all().count());
        for row in table::all() {
            reply_row(call.reply, row);
        }
        return Ok(());
    }
    call.reply.array(args.len() - 2);
    for name in args.from(2) {
        match find(name) {
            Some(row) => reply_row(call.reply, row),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn docs(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let rows: Vec<&Command> = match args.len() {
        2 => table::all().collect(),
        _ => args.from(2).filter_map(find).collect(),
    };
    call.reply.map(rows.len());
    for row in rows {
        call.reply.bulk(row.name);
        let fields = [("summary", row.summary), ("since", row.since), ("group", row.group)];
        call.reply.map(fields.len());
        for (name, value) in fields {
            call.reply.bulk(name);
            call.reply.bulk(value);
        }
    }
    Ok(())
}

fn list(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let filter = match args.len() {
        2 => "",
        5 if args.is(2, "FILTERBY") && args.is(3, "PATTERN") => "pattern",
        5 if args.is(2, "FILTERBY") && args.is(3, "ACLCAT") => "category",
        5 if args.is(2, "FILTERBY") && args.is(3, "MODULE") => "module",
        _ => return Err(Failure::SYNTAX),
    };
    // Names are in lower case. Both kinds of filters ignore the case.
    let pattern = args.at(4).to_ascii_lowercase();
    let category = String::from_utf8_lossy(&pattern).into_owned();
    let is_known = table::CATEGORIES.contains(&category.as_str());
    let rows = table::all_counted().filter(|(name, row, _)| match filter {
        "pattern" => crate::glob::is_match(&pattern, name.as_bytes()),
        "category" => is_known && table::is_in_category(row, None, &category),
        // There are no modules.
        filter => filter.is_empty(),
    });
    let names: Vec<&str> = rows.map(|(name, ..)| name).collect();
    call.reply.bulks(&names);
    Ok(())
}

fn getkeys(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (_, _, keys) = keys_of(args)?;
    call.reply.bulks(&keys);
    Ok(())
}

fn getkeysandflags(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (row, inner, keys) = keys_of(args)?;
    call.reply.array(keys.len());
    for (index, key) in keys.iter().enumerate() {
        let access: Vec<&str> = key_access(row.name, inner, index == 0).split(' ').collect();
        call.reply.array(2);
        call.reply.bulk(key);
        call.reply.set(access.len());
        access.iter().for_each(|word| call.reply.status(word));
    }
    Ok(())
}

/// Row, arguments and keys of the command after the subcommand.
fn keys_of(args: Args<'_>) -> CommandResult<(&'static Command, Args<'_>, Vec<&[u8]>)> {
    let inner = args.skip(2);
    let row = find(inner.at(0)).ok_or(Failure::reply("ERR Invalid command specified"))?;
    // The channels of shards are no keys.
    if row.keys.is_empty() || row.group == "pubsub" {
        return Err(Failure::reply("ERR The command has no key arguments"));
    }
    if !is_arity(row.arity, inner.len()) {
        return Err(Failure::reply("ERR Invalid number of arguments specified for command"));
    }
    let mut keys: Vec<&[u8]> = match row.name {
        "georadius" => stored_keys(inner, 6),
        "georadiusbymember" => stored_keys(inner, 5),
        _ => row.keys.of(inner).collect(),
    };
    if !row.keys.is_count_valid(inner) {
        keys.clear();
    }
    if keys.is_empty() && !row.flags.contains(Flags::SCRIPT) {
        return Err(Failure::reply("ERR Invalid arguments specified for command"));
    }
    Ok((row, inner, keys))
}

/// Keys of GEORADIUS. Redis reports both destinations, although only the last one is written.
fn stored_keys(args: Args<'_>, begin: usize) -> Vec<&[u8]> {
    let destinations = ["STORE", "STOREDIST"].into_iter().filter_map(|word| {
        let at = (begin..args.len()).find(|index| args.is(*index, word))?;
        args.get(at + 1)
    });
    std::iter::once(args.at(1)).chain(destinations).collect()
}
