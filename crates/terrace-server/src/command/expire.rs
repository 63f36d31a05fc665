//! Expiry: EXPIRE and its forms, TTL and its forms, PERSIST.

use super::set::TimeUnit;
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{Entry, EventClass, Layout, Replaced};

/// Conditions of EXPIRE.
#[derive(Debug, Default)]
struct ExpireConditions {
    without_expiry: bool,
    with_expiry: bool,
    later: bool,
    earlier: bool,
}

/// EXPIRE key seconds [NX | XX | GT | LT]
pub(super) fn expire(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_expiry(call, args, TimeUnit { ms: 1000, is_absolute: false }, "expire")
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub(super) fn pexpire(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_expiry(call, args, TimeUnit { ms: 1, is_absolute: false }, "pexpire")
}

/// EXPIREAT key seconds [NX | XX | GT | LT]
pub(super) fn expireat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_expiry(call, args, TimeUnit { ms: 1000, is_absolute: true }, "expireat")
}

/// PEXPIREAT key milliseconds [NX | XX | GT | LT]
pub(super) fn pexpireat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_expiry(call, args, TimeUnit { ms: 1, is_absolute: true }, "pexpireat")
}

fn set_expiry(call: &mut Call<'_>, args: Args<'_>, unit: TimeUnit, command: &str) -> CommandResult {
    let conditions = parse_conditions(args)?;
    let time = args.integer(2)?;
    let now = call.view.now_ms() as i64;
    let base = if unit.is_absolute { 0 } else { now };
    let at = time.checked_mul(unit.ms).and_then(|time| time.checked_add(base));
    let at = at.ok_or_else(|| Failure::reply(format!("ERR invalid expire time in '{command}' command")))?;
    if call.shared.store.layout == Layout::Raw {
        return Err(crate::store::not_in_raw_mode("expiry"));
    }
    let entry = call.get(&args[1])?;
    let Some(entry) = entry.filter(|entry| conditions.are_met(entry.expires_at(), at)) else {
        call.reply.integer(0);
        return Ok(());
    };
    match u64::try_from(at).ok().filter(|_| at > now) {
        Some(at) => {
            put_expiry(call, &args[1], &entry, Some(at))?;
            call.notify(EventClass::GENERIC, "expire", &args[1]);
        }
        None => {
            call.delete(&args[1], &entry)?;
            call.notify(EventClass::GENERIC, "del", &args[1]);
        }
    }
    call.reply.integer(1);
    Ok(())
}

fn put_expiry(call: &mut Call<'_>, key: &[u8], entry: &Entry, expires_at: Option<u64>) -> CommandResult {
    let header = crate::store::Header { expires_at, ..entry.header };
    call.view.put(call.session.database, key, &header, entry.value(), Replaced::Read(Some(entry)))
}

fn parse_conditions(args: Args<'_>) -> CommandResult<ExpireConditions> {
    let mut conditions = ExpireConditions::default();
    for index in 3..args.len() {
        if args.is(index, "NX") {
            conditions.without_expiry = true;
        } else if args.is(index, "XX") {
            conditions.with_expiry = true;
        } else if args.is(index, "GT") {
            conditions.later = true;
        } else if args.is(index, "LT") {
            conditions.earlier = true;
        } else {
            let option = String::from_utf8_lossy(args.at(index));
            return Err(Failure::reply(format!("ERR Unsupported option {option}")));
        }
    }
    let ExpireConditions { without_expiry, with_expiry, later, earlier } = conditions;
    if without_expiry && (with_expiry || later || earlier) {
        let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Failure::reply(text));
    }
    if later && earlier {
        return Err(Failure::reply("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(conditions)
}

impl ExpireConditions {
    /// True if the expiry `at` may replace `current`. A key without expiry lives longest.
    fn are_met(&self, current: Option<u64>, at: i64) -> bool {
        let current = current.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        (!self.without_expiry || current.is_none())
            && (!self.with_expiry || current.is_some())
            && (!self.later || current.is_some_and(|current| at > current))
            && (!self.earlier || current.is_none_or(|current| at < current))
    }
}

/// TTL key
pub(super) fn ttl(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_expiry(call, args, |at, now| (at.saturating_sub(now)).saturating_add(500) / 1000)
}

/// PTTL key
pub(super) fn pttl(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_expiry(call, args, u64::saturating_sub)
}

/// EXPIRETIME key
pub(super) fn expiretime(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_expiry(call, args, |at, _| at.saturating_add(500) / 1000)
}

/// PEXPIRETIME key
pub(super) fn pexpiretime(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_expiry(call, args, |at, _| at)
}

/// Replies -2 without the key, -1 without expiry, or the value of `convert`.
fn reply_expiry(call: &mut Call<'_>, args: Args<'_>, convert: fn(u64, u64) -> u64) -> CommandResult {
    let entry = call.get(&args[1])?;
    let number = match entry.map(|entry| entry.expires_at()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(convert(at, call.view.now_ms())).unwrap_or(i64::MAX),
    };
    call.reply.integer(number);
    Ok(())
}

/// PERSIST key
pub(super) fn persist(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get(&args[1])?;
    let entry = entry.filter(|entry| entry.expires_at().is_some());
    if let Some(entry) = &entry {
        put_expiry(call, &args[1], entry, None)?;
        call.notify(EventClass::GENERIC, "persist", &args[1]);
    }
    call.reply.integer(i64::from(entry.is_some()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let later = ExpireConditions { later: true, ..ExpireConditions::default() };
        assert!(later.are_met(Some(5), 6) && !later.are_met(Some(5), 5) && !later.are_met(None, 6));
        let earlier = ExpireConditions { earlier: true, ..ExpireConditions::default() };
        assert!(earlier.are_met(Some(5), 4) && !earlier.are_met(Some(5), 5) && earlier.are_met(None, 6));
        let missing = ExpireConditions { without_expiry: true, ..ExpireConditions::default() };
        assert!(missing.are_met(None, 1) && !missing.are_met(Some(1), 2));
    }
}
