//! Hashes: a record per field, `10 object:8 field`.

use std::collections::HashSet;

use super::members::{
    Member, ScannedType, all_members, damaged_count, random_amount, random_member, random_members,
    scan_members,
};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, extended_sum, format_double, parse_double, parse_i64};
use crate::store::{EventClass, MemberRange, Object, StoredValue, ValueType};

/// Number of fields up to which Redis uses its compact encoding.
const MAX_COMPACT_FIELDS: u64 = 512;
/// Length of a field or value up to which Redis uses its compact encoding, in bytes.
const MAX_COMPACT_LEN: usize = 64;

fn open(call: &mut Call<'_>, key: &[u8]) -> CommandResult<Option<Object>> {
    call.open(key, ValueType::Hash)
}

/// Result of `read` for the value of `field`, or None without the key or the field.
fn read_field<T>(
    call: &mut Call<'_>,
    key: &[u8],
    field: &[u8],
    read: impl FnOnce(&mut Reply, &[u8]) -> T,
) -> CommandResult<Option<T>> {
    let Some(hash) = open(call, key)? else { return Ok(None) };
    let Call { view, reply, .. } = call;
    view.read_member(&hash, field, |value| read(reply, value))
}

/// Stores a field. `is_added` says that the hash does not have it.
pub(super) fn put_field(
    call: &mut Call<'_>,
    hash: &mut Object,
    field: &[u8],
    value: &[u8],
    is_added: bool,
) -> CommandResult {
    call.view.put_member(hash, field, value)?;
    hash.count += u64::from(is_added);
    hash.is_large |= field.len().max(value.len()) > MAX_COMPACT_LEN || hash.count > MAX_COMPACT_FIELDS;
    Ok(())
}

/// Stores the record of the hash if it differs from `old`. Records the change otherwise.
fn save(call: &mut Call<'_>, key: &[u8], hash: &Object, old: &Object) -> CommandResult {
    if hash == old && !hash.is_new {
        call.view.note_changed(call.session.database, key)?;
        return Ok(());
    }
    call.save(key, hash)
}

/// HSET key field value ..
pub(super) fn hset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let added = set_fields(call, args, "hset")?;
    call.reply.count(added);
    Ok(())
}

/// HMSET key field value ..
pub(super) fn hmset(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    set_fields(call, args, "hmset")?;
    call.reply.ok();
    Ok(())
}

/// Stores fields. Returns the number of new ones.
fn set_fields(call: &mut Call<'_>, args: Args<'_>, command: &str) -> CommandResult<usize> {
    if args.len() % 2 == 1 {
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{command}' command")));
    }
    let old = call.open_or_create(&args[1], ValueType::Hash)?;
    let mut hash = old;
    let mut seen = HashSet::new();
    let mut added = 0;
    for index in (2..args.len()).step_by(2) {
        let field = args.at(index);
        // The command does not see its own writes.
        let is_first = args.len() == 4 || seen.insert(field);
        let is_added = is_first && (hash.is_new || !call.view.has_member(&old, field)?);
        put_field(call, &mut hash, field, args.at(index + 1), is_added)?;
        added += usize::from(is_added);
    }
    save(call, &args[1], &hash, &old)?;
    call.notify(EventClass::HASH, "hset", &args[1]);
    Ok(added)
}

/// HSETNX key field value
pub(super) fn hsetnx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut hash = call.open_or_create(&args[1], ValueType::Hash)?;
    let is_added = hash.is_new || !call.view.has_member(&hash, &args[2])?;
    if is_added {
        put_field(call, &mut hash, &args[2], &args[3], true)?;
        call.save(&args[1], &hash)?;
        call.notify(EventClass::HASH, "hset", &args[1]);
    }
    call.reply.integer(i64::from(is_added));
    Ok(())
}

/// HGET key field
pub(super) fn hget(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if read_field(call, &args[1], &args[2], |reply, value| reply.bulk(value))?.is_none() {
        call.reply.null();
    }
    Ok(())
}

/// HMGET key field ..
pub(super) fn hmget(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let hash = open(call, &args[1])?;
    call.reply.array(args.len() - 2);
    let before = call.reply.len();
    for field in args.from(2) {
        let Call { view, reply, .. } = call;
        let value = match &hash {
            Some(hash) => view.read_member(hash, field, |value| reply.bulk(value))?,
            None => None,
        };
        if value.is_none() {
            call.reply.null();
        }
        super::members::check_bytes(call.reply.len() - before)?;
    }
    Ok(())
}

/// HEXISTS key field
pub(super) fn hexists(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let exists = read_field(call, &args[1], &args[2], |_, _| ())?.is_some();
    call.reply.integer(i64::from(exists));
    Ok(())
}

/// HSTRLEN key field
pub(super) fn hstrlen(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let len = read_field(call, &args[1], &args[2], |_, value| value.len())?;
    call.reply.count(len.unwrap_or(0));
    Ok(())
}

/// HLEN key
pub(super) fn hlen(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = open(call, &args[1])?.map_or(0, |hash| hash.count);
    call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// HDEL key field ..
pub(super) fn hdel(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(mut hash) = open(call, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut deleted = HashSet::new();
    for field in args.from(2) {
        if !deleted.contains(field) && call.view.has_member(&hash, field)? {
            call.view.delete_member(&hash, field)?;
            deleted.insert(field);
        }
    }
    hash.count = hash.count.saturating_sub(deleted.len() as u64);
    if !deleted.is_empty() {
        call.notify(EventClass::HASH, "hdel", &args[1]);
        call.save(&args[1], &hash)?;
    }
    call.reply.count(deleted.len());
    Ok(())
}

/// Returns all fields with their values. The number of records is that of the hash.
fn all_fields(call: &mut Call<'_>, key: &[u8]) -> CommandResult<Vec<Member>> {
    let Some(hash) = open(call, key)? else { return Ok(Vec::new()) };
    let fields = all_members(call, &hash, &MemberRange::all())?;
    if fields.len() as u64 != hash.count {
        return Err(damaged_count(key, &hash, fields.len()));
    }
    Ok(fields)
}

/// HGETALL key
pub(super) fn hgetall(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let fields = all_fields(call, &args[1])?;
    call.reply.map(fields.len());
    for (field, value) in &fields {
        call.reply.bulk(field);
        call.reply.bulk(value);
    }
    Ok(())
}

/// HKEYS key
pub(super) fn hkeys(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let fields = all_fields(call, &args[1])?;
    call.reply.array(fields.len());
    fields.iter().for_each(|(field, _)| call.reply.bulk(field));
    Ok(())
}

/// HVALS key
pub(super) fn hvals(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let fields = all_fields(call, &args[1])?;
    call.reply.array(fields.len());
    fields.iter().for_each(|(_, value)| call.reply.bulk(value));
    Ok(())
}

/// HINCRBY key field increment
pub(super) fn hincrby(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let increment = args.integer(3)?;
    let (hash, value) = open_field(call, args)?;
    let number = match &value {
        Some(value) => parse_i64(value).ok_or(Failure::reply("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = number.checked_add(increment);
    let sum = sum.ok_or(Failure::reply("ERR increment or decrement would overflow"))?;
    replace_field(call, args, &hash, sum.to_string().as_bytes(), value.is_none())?;
    call.notify(EventClass::HASH, "hincrby", &args[1]);
    call.reply.integer(sum);
    Ok(())
}

/// HINCRBYFLOAT key field increment
pub(super) fn hincrbyfloat(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let increment = parse_double(&args[3]).ok_or(Failure::reply("ERR value is not a valid float"))?;
    if !increment.is_finite() {
        return Err(Failure::reply("ERR value is NaN or Infinity"));
    }
    let (hash, value) = open_field(call, args)?;
    let number = value.as_deref().unwrap_or(b"0");
    let sum = match extended_sum(number, &args[3]) {
        Some(sum) => sum,
        None => {
            let number = parse_double(number).ok_or(Failure::reply("ERR hash value is not a float"))?;
            let sum = number + increment;
            if !sum.is_finite() {
                return Err(Failure::reply("ERR increment would produce NaN or Infinity"));
            }
            format_double(sum)
        }
    };
    replace_field(call, args, &hash, sum.as_bytes(), value.is_none())?;
    call.notify(EventClass::HASH, "hincrbyfloat", &args[1]);
    call.reply.bulk(sum);
    Ok(())
}

/// Hash at the first argument, or a new one, and its field that the second argument names.
fn open_field(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<(Object, Option<StoredValue>)> {
    let hash = call.open_or_create(&args[1], ValueType::Hash)?;
    let value = if hash.is_new { None } else { call.view.member(&hash, &args[2])? };
    Ok((hash, value))
}

fn replace_field(
    call: &mut Call<'_>,
    args: Args<'_>,
    old: &Object,
    value: &[u8],
    is_added: bool,
) -> CommandResult {
    let mut hash = *old;
    put_field(call, &mut hash, &args[2], value, is_added)?;
    save(call, &args[1], &hash, old)
}

/// HRANDFIELD key [count [WITHVALUES]]
pub(super) fn hrandfield(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 2 {
        let found = match open(call, &args[1])? {
            Some(hash) => random_member(call, &hash, &MemberRange::all())?,
            None => None,
        };
        call.reply.optional_bulk(found.as_ref().map(|(field, _)| field.as_slice()));
        return Ok(());
    }
    let amount = random_amount(args, 2)?;
    let has_values = args.len() == 4 && args.is(3, "WITHVALUES");
    if args.len() > 3 && !has_values {
        return Err(Failure::SYNTAX);
    }
    if has_values && amount.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::reply("ERR value is out of range"));
    }
    let fields = match open(call, &args[1])? {
        Some(hash) => random_members(call, &hash, &MemberRange::all(), amount)?,
        None => Vec::new(),
    };
    let is_nested = has_values && call.reply.is_resp3();
    call.reply.array(fields.len() * if has_values && !is_nested { 2 } else { 1 });
    for (field, value) in &fields {
        if is_nested {
            call.reply.array(2);
        }
        call.reply.bulk(field);
        if has_values {
            call.reply.bulk(value);
        }
    }
    Ok(())
}

/// HSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn hscan(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    scan_members(
        call,
        args,
        &ScannedType { value_type: ValueType::Hash, prefix: b"", value: Some(<[u8]>::to_vec) },
    )
}
