//! SET with its options, and the commands that are short forms of it.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{Entry, EventClass, Replaced};

/// Condition on the existence of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Missing,
    Existing,
}

/// Expiry that a command gives to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewExpiry {
    None,
    Keep,
    Persist,
    /// Milliseconds since 1970.
    At(u64),
}

/// Options of SET and GETEX.
#[derive(Debug)]
struct SetOptions<'a> {
    condition: Option<Condition>,
    returns_old: bool,
    expiry: NewExpiry,
    /// Time with its unit, before its check.
    time: Option<(TimeUnit, &'a [u8])>,
}

/// Unit of a time, and its reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeUnit {
    /// Milliseconds of the unit.
    pub(super) ms: i64,
    /// True for times since 1970, false for times from now on.
    pub(super) is_absolute: bool,
}

/// Words of the options that take a time.
static TIME_UNITS: &[(&str, TimeUnit)] = &[
    ("EX", TimeUnit { ms: 1000, is_absolute: false }),
    ("PX", TimeUnit { ms: 1, is_absolute: false }),
    ("EXAT", TimeUnit { ms: 1000, is_absolute: true }),
    ("PXAT", TimeUnit { ms: 1, is_absolute: true }),
];

impl<'a> SetOptions<'a> {
    /// Parses the options from argument `begin` on. GETEX knows fewer words.
    fn parse(args: Args<'a>, begin: usize, is_getex: bool) -> CommandResult<SetOptions<'a>> {
        let mut options =
            SetOptions { condition: None, returns_old: false, expiry: NewExpiry::None, time: None };
        let mut index = begin;
        while index < args.len() {
            let unit = TIME_UNITS.iter().find(|(word, _)| args.is(index, word));
            if let Some((_, unit)) = unit.filter(|row| options.may_have(row.1) && index + 1 < args.len()) {
                options.time = Some((*unit, args.at(index + 1)));
                index += 2;
                continue;
            }
            if args.is(index, "NX") && !is_getex && options.condition != Some(Condition::Existing) {
                options.condition = Some(Condition::Missing);
            } else if args.is(index, "XX") && !is_getex && options.condition != Some(Condition::Missing) {
                options.condition = Some(Condition::Existing);
            } else if args.is(index, "GET") && !is_getex {
                options.returns_old = true;
            } else if args.is(index, "KEEPTTL") && !is_getex && options.time.is_none() {
                options.expiry = NewExpiry::Keep;
            } else if args.is(index, "PERSIST") && is_getex && options.time.is_none() {
                options.expiry = NewExpiry::Persist;
            } else {
                return Err(Failure::SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }

    /// True if the options may have a time with the unit `unit`. A time may be repeated: the last
    /// one is valid, and the others are not checked.
    fn may_have(&self, unit: TimeUnit) -> bool {
        self.expiry == NewExpiry::None && self.time.is_none_or(|(present, _)| present == unit)
    }

    /// Checks the time.
    fn resolve(&mut self, call: &mut Call<'_>, command: &str) -> CommandResult {
        if let Some((unit, text)) = self.time {
            let at = parse_expiry(call, unit, text, command)?;
            self.expiry = NewExpiry::At(at);
        }
        Ok(())
    }
}

/// Returns the milliseconds since 1970 that `text` stands for.
fn parse_expiry(call: &mut Call<'_>, unit: TimeUnit, text: &[u8], command: &str) -> CommandResult<u64> {
    let time = crate::resp::parse_i64(text).ok_or(Failure::NOT_AN_INTEGER)?;
    let now = if unit.is_absolute { 0 } else { call.view.now_ms() as i64 };
    let at = time.checked_mul(unit.ms).and_then(|time| time.checked_add(now));
    match at.filter(|_| time > 0).and_then(|at| u64::try_from(at).ok()) {
        Some(at) => Ok(at),
        None => Err(Failure::reply(format!("ERR invalid expire time in '{command}' command"))),
    }
}

/// SET key value [NX | XX] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL]
pub(super) fn set(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 3 {
        // The common case reads nothing.
        call.put_string(&args[1], &args[2], None, Replaced::Unread)?;
        call.notify(EventClass::STRING, "set", &args[1]);
        call.reply.ok();
        return Ok(());
    }
    let mut options = SetOptions::parse(args, 3, false)?;
    options.resolve(call, "set")?;
    let needs_old = options.returns_old || options.condition.is_some() || options.expiry == NewExpiry::Keep;
    let old = if needs_old { call.get(&args[1])? } else { None };
    if options.returns_old {
        let value = old.as_ref().map(Entry::string).transpose()?;
        call.reply.optional_bulk(value);
    }
    let is_met = match options.condition {
        None => true,
        Some(Condition::Missing) => old.is_none(),
        Some(Condition::Existing) => old.is_some(),
    };
    if !is_met {
        if !options.returns_old {
            call.reply.null();
        }
        return Ok(());
    }
    let replaced = if needs_old { Replaced::Read(old.as_ref()) } else { Replaced::Unread };
    put_with_expiry(call, &args[1], &args[2], options.expiry, replaced)?;
    notify_set(call, &args[1], options.expiry);
    if !options.returns_old {
        call.reply.ok();
    }
    Ok(())
}

/// Stores a string. A key that has expired already is deleted instead.
fn put_with_expiry(
    call: &mut Call<'_>,
    key: &[u8],
    value: &[u8],
    expiry: NewExpiry,
    replaced: Replaced<'_>,
) -> CommandResult {
    let expires_at = match (expiry, replaced) {
        (NewExpiry::At(at), _) => Some(at),
        (NewExpiry::Keep, Replaced::Read(old)) => old.and_then(Entry::expires_at),
        _ => None,
    };
    if expires_at.is_some_and(|at| at <= call.view.now_ms()) {
        return call.view.delete(call.session.database, key, replaced);
    }
    call.put_string(key, value, expires_at, replaced)
}

/// Notes the events of a SET: the new value, and its expiry.
fn notify_set(call: &mut Call<'_>, key: &[u8], expiry: NewExpiry) {
    call.notify(EventClass::STRING, "set", key);
    if let NewExpiry::At(_) = expiry {
        call.notify(EventClass::GENERIC, "expire", key);
    }
}

/// SETNX key value
pub(super) fn setnx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_missing = call.get(&args[1])?.is_none();
    if is_missing {
        call.put_string(&args[1], &args[2], None, Replaced::Read(None))?;
        call.notify(EventClass::STRING, "set", &args[1]);
    }
    call.reply.integer(i64::from(is_missing));
    Ok(())
}

/// SETEX key seconds value
pub(super) fn setex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_with_time(call, args, 1000, "setex")
}

/// PSETEX key milliseconds value
pub(super) fn psetex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_with_time(call, args, 1, "psetex")
}

fn set_with_time(call: &mut Call<'_>, args: Args<'_>, ms: i64, command: &str) -> CommandResult {
    let unit = TimeUnit { ms, is_absolute: false };
    let at = parse_expiry(call, unit, args.at(2), command)?;
    put_with_expiry(call, &args[1], &args[3], NewExpiry::At(at), Replaced::Unread)?;
    notify_set(call, &args[1], NewExpiry::At(at));
    call.reply.ok();
    Ok(())
}

/// GETSET key value
pub(super) fn getset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let old = call.get_string(&args[1])?;
    call.reply.optional_bulk(old.as_ref().map(Entry::value));
    call.put_string(&args[1], &args[2], None, Replaced::Read(old.as_ref()))?;
    call.notify(EventClass::STRING, "set", &args[1]);
    Ok(())
}

/// GETDEL key
pub(super) fn getdel(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let old = call.get_string(&args[1])?;
    call.reply.optional_bulk(old.as_ref().map(Entry::value));
    if let Some(old) = &old {
        call.delete(&args[1], old)?;
        call.notify(EventClass::GENERIC, "del", &args[1]);
    }
    Ok(())
}

/// GETEX key [EX | PX | EXAT | PXAT time | PERSIST]
pub(super) fn getex(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut options = SetOptions::parse(args, 2, true)?;
    let Some(old) = call.get_string(&args[1])? else {
        call.reply.null();
        return Ok(());
    };
    options.resolve(call, "getex")?;
    call.reply.bulk(old.value());
    let is_change = match options.expiry {
        NewExpiry::None | NewExpiry::Keep => false,
        NewExpiry::Persist => old.expires_at().is_some(),
        NewExpiry::At(_) => true,
    };
    if is_change {
        put_with_expiry(call, &args[1], old.value(), options.expiry, Replaced::Read(Some(&old)))?;
        let name = match options.expiry {
            NewExpiry::At(at) if at <= call.view.now_ms() => "del",
            NewExpiry::At(_) => "expire",
            _ => "persist",
        };
        call.notify(EventClass::GENERIC, name, &args[1]);
    }
    Ok(())
}

/// CAS key old new
///
/// Replies 1 if the value was `old` and is `new` now, 0 if it was another, -1 without a key.
pub(super) fn cas(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get_string(&args[1])?;
    let outcome = compare(entry.as_ref(), &args[2]);
    if outcome == 1 {
        call.put_string(&args[1], &args[3], None, Replaced::Read(entry.as_ref()))?;
        call.notify(EventClass::STRING, "set", &args[1]);
    }
    call.reply.integer(outcome);
    Ok(())
}

/// CAD key old
///
/// Replies 1 if the value was `old` and is deleted now, 0 if it was another, -1 without a key.
pub(super) fn cad(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get_string(&args[1])?;
    let outcome = compare(entry.as_ref(), &args[2]);
    if let Some(entry) = entry.filter(|_| outcome == 1) {
        call.delete(&args[1], &entry)?;
        call.notify(EventClass::GENERIC, "del", &args[1]);
    }
    call.reply.integer(outcome);
    Ok(())
}

fn compare(entry: Option<&Entry>, expected: &[u8]) -> i64 {
    entry.map_or(-1, |entry| i64::from(entry.value() == expected))
}
