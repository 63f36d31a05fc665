//! MEMORY: the memory of the server and of values.

use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{MEMBER_PREFIX, MemberRange, Object, ValueType};

/// MEMORY subcommand
pub(super) fn memory(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "memory", MEMORY)
}

pub(super) static MEMORY: &[Subcommand] = &[
    Subcommand { name: "doctor", arity: 2, run: doctor },
    Subcommand { name: "malloc-stats", arity: 2, run: malloc_stats },
    Subcommand { name: "purge", arity: 2, run: purge },
    Subcommand { name: "stats", arity: 2, run: stats },
    Subcommand { name: "usage", arity: -3, run: usage },
];

/// Number of member records that MEMORY USAGE measures without SAMPLES.
const DEFAULT_SAMPLES: u64 = 5;

/// MEMORY USAGE key [SAMPLES count]: bytes of the records on disk, before compression. The size of
/// an object is estimated by its first records.
fn usage(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut samples = DEFAULT_SAMPLES;
    for index in (3..args.len()).step_by(2) {
        if index + 1 == args.len() || !args.is(index, "SAMPLES") {
            return Err(Failure::SYNTAX);
        }
        samples = u64::try_from(args.integer(index + 1)?).map_err(|_| Failure::SYNTAX)?;
    }
    call.view.pin_state();
    let Some(entry) = call.get(args.at(2))? else {
        call.reply.null();
        return Ok(());
    };
    let record = call.shared.store.layout.prefix_len() + args.at(2).len();
    let members = match entry.object() {
        Some(object) => member_bytes(call, &object, samples)?,
        None => 0,
    };
    call.reply.count(record + entry.header.len + entry.value().len() + members);
    Ok(())
}

/// Returns the bytes of the member records, estimated by the first `samples` of them. Zero samples
/// stand for all.
fn member_bytes(call: &mut Call<'_>, object: &Object, samples: u64) -> CommandResult<usize> {
    let limit = if samples == 0 { u64::MAX } else { samples };
    call.check_members_on_worker(limit.min(object.count))?;
    let mut scan = call.view.members(object, &MemberRange::all())?;
    let mut bytes = 0;
    let mut measured = 0u64;
    while let Some((suffix, value)) = scan.next()? {
        if measured == limit {
            // A sorted set has two records for each member, of about the same size.
            let per_member = if object.value_type == ValueType::SortedSet { 2 } else { 1 };
            let records = u128::from(object.count) * per_member;
            return Ok((bytes as u128 * records / u128::from(measured)) as usize);
        }
        bytes += MEMBER_PREFIX + suffix.len() + value.len();
        measured += 1;
    }
    Ok(bytes)
}

/// Memory by its use, in bytes.
fn stats(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let memory = call.shared.store.db()?.stats().memory;
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
    let memory = call.shared.store.db()?.stats().memory;
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
    let text = call.shared.store.db()?.stats().memory.to_string();
    call.reply.verbatim(&text);
    Ok(())
}

/// The engine returns memory by itself.
fn purge(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}
