//! Counters: INCR and its forms.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{extended_sum, format_double, parse_double, parse_i64};
use crate::store::{Entry, EventClass, Replaced};

/// INCR key
pub(super) fn incr(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], 1)
}

/// DECR key
pub(super) fn decr(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], -1)
}

/// INCRBY key increment
pub(super) fn incrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    add(call, &args[1], args.integer(2)?)
}

/// DECRBY key decrement
pub(super) fn decrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let decrement = args.integer(2)?;
    let increment = decrement.checked_neg().ok_or(Failure::reply("ERR decrement would overflow"))?;
    add(call, &args[1], increment)
}

fn add(call: &mut Call<'_>, key: &[u8], increment: i64) -> CommandResult {
    let database = call.session.database;
    let found = call.view.read_string(database, key, |value, expires_at| (parse_i64(value), expires_at))?;
    let old = match found {
        Some(found) => found,
        None => call.get_string(key)?.map(|entry| (parse_i64(entry.value()), entry.expires_at())),
    };
    let number = old.map_or(Some(0), |(number, _)| number).ok_or(Failure::NOT_AN_INTEGER)?;
    let sum = number.checked_add(increment);
    let sum = sum.ok_or(Failure::reply("ERR increment or decrement would overflow"))?;
    let mut buffer = itoa::Buffer::new();
    let expires_at = old.and_then(|(_, expires_at)| expires_at);
    let replaced = old.map_or(Replaced::Read(None), |_| Replaced::String(expires_at));
    call.put_string(key, buffer.format(sum).as_bytes(), expires_at, replaced)?;
    call.notify(EventClass::STRING, "incrby", key);
    call.reply.integer(sum);
    Ok(())
}

/// INCRBYFLOAT key increment
pub(super) fn incrbyfloat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let not_a_float = || Failure::reply("ERR value is not a valid float");
    let old = call.get_string(&args[1])?;
    let number = old.as_ref().map_or(&b"0"[..], Entry::value);
    let sum = match extended_sum(number, &args[2]) {
        Some(sum) => sum,
        None => {
            let number = parse_double(number).ok_or_else(not_a_float)?;
            let increment = parse_double(&args[2]).ok_or_else(not_a_float)?;
            let sum = number + increment;
            if !sum.is_finite() {
                return Err(Failure::reply("ERR increment would produce NaN or Infinity"));
            }
            format_double(sum)
        }
    };
    let expires_at = old.as_ref().and_then(Entry::expires_at);
    call.put_string(&args[1], sum.as_bytes(), expires_at, Replaced::Read(old.as_ref()))?;
    call.notify(EventClass::STRING, "incrbyfloat", &args[1]);
    call.reply.bulk(sum);
    Ok(())
}
