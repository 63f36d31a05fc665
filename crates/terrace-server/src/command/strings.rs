//! Strings: reads, writes of several keys, and parts of strings.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Limits, Reply};
use crate::shared::{Counters, Shared};
use crate::store::{EventClass, Replaced};

/// Maximum size of a string, in bytes.
const MAX_STRING: usize = Limits::AFTER_LOGIN.arg_bytes;
/// Maximum size of the reply of MGET, in bytes.
const MAX_REPLY: usize = 256 << 20;

/// GET key
pub(super) fn get(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Call { view, reply, session, .. } = call;
    if let Some(found) = view.read_string(session.database, &args[1], |value, _| reply.bulk(value))? {
        if found.is_none() {
            call.reply.null();
        }
        count_lookup(call.shared, found.is_some());
        return Ok(());
    }
    let entry = call.get_string(&args[1])?;
    count_lookup(call.shared, entry.is_some());
    match &entry {
        Some(entry) => call.reply.bulk(entry.string()?),
        None => call.reply.null(),
    }
    Ok(())
}

fn count_lookup(shared: &Shared, is_hit: bool) {
    let counters = &shared.counters;
    Counters::add(if is_hit { &counters.hits } else { &counters.misses });
}

/// MGET key ..
pub(super) fn mget(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.reply.array(args.len() - 1);
    let Call { shared, view, reply, session } = call;
    let is_complete = view.read_strings(session.database, args.from(1), |is_hit, value| {
        count_lookup(shared, is_hit);
        append_string(reply, value)
    })?;
    if is_complete {
        return Ok(());
    }
    if args.len() > 2 {
        call.view.pin_state();
    }
    for key in args.from(1) {
        let entry = call.get(key)?;
        count_lookup(call.shared, entry.is_some());
        append_string(call.reply, entry.as_ref().and_then(|entry| entry.string().ok()))?;
    }
    Ok(())
}

/// Appends a value of MGET. One of another type is like a missing one.
fn append_string(reply: &mut Reply, value: Option<&[u8]>) -> CommandResult {
    reply.optional_bulk(value);
    if reply.len() > MAX_REPLY {
        return Err(Failure::reply("ERR the reply exceeds 256 MiB"));
    }
    Ok(())
}

/// MSET key value ..
pub(super) fn mset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    check_pairs(args, "mset")?;
    put_pairs(call, args)?;
    call.reply.ok();
    Ok(())
}

/// MSETNX key value ..
pub(super) fn msetnx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    check_pairs(args, "msetnx")?;
    for key in args.from(1).step_by(2) {
        if call.get(key)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    put_pairs(call, args)?;
    call.reply.integer(1);
    Ok(())
}

fn check_pairs(args: Args<'_>, name: &str) -> CommandResult {
    if args.len() % 2 == 1 {
        return Ok(());
    }
    Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")))
}

fn put_pairs(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    for index in (1..args.len()).step_by(2) {
        call.put_string(&args[index], &args[index + 1], None, Replaced::Unread)?;
        call.notify(EventClass::STRING, "set", &args[index]);
    }
    Ok(())
}

/// STRLEN key
pub(super) fn strlen(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get_string(&args[1])?;
    let len = entry.as_ref().map_or(0, |entry| entry.value().len());
    call.reply.count(len);
    Ok(())
}

/// APPEND key value
pub(super) fn append(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get_string(&args[1])?;
    let old = entry.as_ref().map_or(&[][..], |entry| entry.value());
    check_len(old.len() + args[2].len())?;
    let value = [old, &args[2]].concat();
    let expires_at = entry.as_ref().and_then(|entry| entry.expires_at());
    call.put_string(&args[1], &value, expires_at, Replaced::Read(entry.as_ref()))?;
    call.notify(EventClass::STRING, "append", &args[1]);
    call.reply.count(value.len());
    Ok(())
}

fn check_len(len: usize) -> CommandResult {
    if len <= MAX_STRING {
        return Ok(());
    }
    Err(Failure::reply("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
}

/// GETRANGE key start end; SUBSTR
pub(super) fn getrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let start = args.integer(2)?;
    let end = args.integer(3)?;
    let entry = call.get_string(&args[1])?;
    let value = entry.as_ref().map_or(&[][..], |entry| entry.value());
    call.reply.bulk(part(value, start, end));
    Ok(())
}

/// Returns the bytes from `start` to `end`, both included. Negative positions count from the end.
fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let position = |at: i64| if at < 0 { (len.saturating_add(at)).max(0) } else { at };
    let start = position(start);
    let end = position(end).min(len - 1);
    if start > end || len == 0 {
        return &[];
    }
    value.get(start as usize..=end as usize).unwrap_or_default()
}

/// SETRANGE key offset value
pub(super) fn setrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let offset = args.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| Failure::reply("ERR offset is out of range"))?;
    let entry = call.get_string(&args[1])?;
    let old = entry.as_ref().map_or(&[][..], |entry| entry.value());
    if args[3].is_empty() {
        call.reply.count(old.len());
        return Ok(());
    }
    let end = offset.saturating_add(args[3].len());
    check_len(end)?;
    let mut value = old.to_vec();
    value.resize(value.len().max(end), 0);
    value[offset..end].copy_from_slice(&args[3]);
    let expires_at = entry.as_ref().and_then(|entry| entry.expires_at());
    call.put_string(&args[1], &value, expires_at, Replaced::Read(entry.as_ref()))?;
    call.notify(EventClass::STRING, "setrange", &args[1]);
    call.reply.count(value.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_of_a_string() {
        let cases: &[(i64, i64, &str)] = &[
            (0, 3, "This"),
            (-3, -1, "ing"),
            (0, -1, "This is a string"),
            (10, 100, "string"),
            (5, 2, ""),
            (-1, -5, ""),
            (-100, 1, "Th"),
            (i64::MIN, i64::MAX, "This is a string"),
            (100, 200, ""),
        ];
        for (start, end, expected) in cases {
            assert_eq!(part(b"This is a string", *start, *end), expected.as_bytes(), "{start} {end}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
