//! MEMORY: the memory of the server and of values.

use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// MEMORY subcommand
pub(super) fn memory(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "memory", MEMORY)
}

static MEMORY: &[Subcommand] = &[
    Subcommand { name: "doctor", arity: 2, run: doctor },
    Subcommand { name: "malloc-stats", arity: 2, run: malloc_stats },
    Subcommand { name: "purge", arity: 2, run: purge },
    Subcommand { name: "stats", arity: 2, run: stats },
    Subcommand { name: "usage", arity: -3, run: usage },
];

/// MEMORY USAGE key [SAMPLES count]: bytes of the record on disk, before compression.
fn usage(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_valid = match args.len() {
        3 => true,
        5 => args.is(3, "SAMPLES") && args.integer(4)? >= 0,
        _ => false,
    };
    if !is_valid {
        return Err(Failure::SYNTAX);
    }
    let entry = call.get(args.at(2))?;
    let record = call.shared.store.layout.prefix_len() + args.at(2).len();
    match entry {
        Some(entry) => call.reply.count(record + entry.header.len + entry.value().len()),
        None => call.reply.null(),
    }
    Ok(())
}

/// Memory by its use, in bytes.
fn stats(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let memory = call.shared.store.db.stats().memory;
    let clients = call.shared.clients.buffered();
    let rows = [
        ("total.allocated", memory.total() + clients),
        ("clients.normal", clients),
        ("engine.memtables", memory.memtables.bytes),
        ("engine.pooled-chunks", memory.pooled_chunks.bytes),
        ("engine.block-cache", memory.block_cache.bytes),
        ("engine.tables", memory.tables.bytes),
        ("engine.limit", memory.limit.unwrap_or_default()),
    ];
    call.reply.map(rows.len());
    for (name, bytes) in rows {
        call.reply.bulk(name);
        call.reply.count(bytes);
    }
    Ok(())
}

fn doctor(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let memory = call.shared.store.db.stats().memory;
    let text = match memory.limit {
        Some(limit) if memory.total() > limit / 10 * 9 => format!(
            "The engine uses {} of {limit} bytes. A larger memory budget may speed up reads.\n",
            memory.total()
        ),
        _ => "The engine is within its memory budget.\n".into(),
    };
    call.reply.verbatim(&text);
    Ok(())
}

fn malloc_stats(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let text = call.shared.store.db.stats().memory.to_string();
    call.reply.verbatim(&text);
    Ok(())
}

/// The engine returns memory by itself.
fn purge(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}
