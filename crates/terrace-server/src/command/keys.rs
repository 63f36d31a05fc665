//! Keys of any type: deletion, existence, renaming, copies.

use std::collections::HashSet;

use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_i64;
use crate::store::{
    Entry, EventClass, KeyRange, Layout, Replaced, ValueType, damaged_record, not_in_raw_mode,
};

/// DEL key ..; UNLINK
pub(super) fn del(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut deleted = HashSet::new();
    for key in args.from(1) {
        let entry = if deleted.contains(key) { None } else { call.get(key)? };
        if let Some(entry) = entry {
            call.delete(key, &entry)?;
            call.notify(EventClass::GENERIC, "del", key);
            deleted.insert(key);
        }
    }
    call.reply.count(deleted.len());
    Ok(())
}

/// EXISTS key ..; TOUCH
pub(super) fn exists(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 {
        call.view.pin_state();
    }
    let mut count = 0;
    for key in args.from(1) {
        count += usize::from(call.get(key)?.is_some());
    }
    call.reply.count(count);
    Ok(())
}

/// TYPE key
pub(super) fn type_(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get(&args[1])?;
    call.reply.status(entry.map_or("none", |entry| entry.header.value_type.name()));
    Ok(())
}

/// RENAME key newkey
pub(super) fn rename(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    rename_key(call, args, true)?;
    call.reply.ok();
    Ok(())
}

/// RENAMENX key newkey
pub(super) fn renamenx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_renamed = rename_key(call, args, false)?;
    call.reply.integer(i64::from(is_renamed));
    Ok(())
}

/// Renames a key. Returns false if the new name exists and may not be replaced.
fn rename_key(call: &mut Call<'_>, args: Args<'_>, may_replace: bool) -> CommandResult<bool> {
    let entry = call.get(&args[1])?.ok_or(Failure::reply("ERR no such key"))?;
    if args[1] == args[2] {
        return Ok(may_replace);
    }
    let replaced = call.get(&args[2])?;
    if replaced.is_some() && !may_replace {
        return Ok(false);
    }
    let database = call.session.database;
    call.view.delete_record_of(database, &args[1], entry.expires_at())?;
    move_value(call, database, &args[2], &entry, replaced.as_ref())?;
    call.notify(EventClass::GENERIC, "rename_from", &args[1]);
    call.notify(EventClass::GENERIC, "rename_to", &args[2]);
    Ok(true)
}

/// Gives the value of `entry` to another key. An object keeps its number.
fn move_value(
    call: &mut Call<'_>,
    database: u8,
    key: &[u8],
    entry: &Entry,
    replaced: Option<&Entry>,
) -> CommandResult {
    notify_replaced(call, database, key, replaced);
    call.view.put(database, key, &entry.header, entry.value(), Replaced::Read(replaced))
}

/// Stores a copy of the value of `entry` at the second argument. A copy of an object has its own
/// members.
fn put_copy(
    call: &mut Call<'_>,
    args: Args<'_>,
    database: u8,
    entry: &Entry,
    replaced: Option<&Entry>,
) -> CommandResult {
    if entry.header.value_type == ValueType::String {
        return move_value(call, database, &args[2], entry, replaced);
    }
    notify_replaced(call, database, &args[2], replaced);
    let object = entry.object().ok_or_else(|| damaged_record(&args[1]))?;
    call.check_members_on_worker(object.count)?;
    let copy = call.view.copy_object(&object)?;
    call.view.replace_with_object(database, &args[2], &copy, Replaced::Read(replaced))
}

/// Redis deletes a replaced value first, so the key is a new one.
fn notify_replaced(call: &mut Call<'_>, database: u8, key: &[u8], replaced: Option<&Entry>) {
    if replaced.is_some() {
        call.view.notify(database, EventClass::NEW, "new", key);
    }
}

/// COPY source destination [DB database] [REPLACE]
pub(super) fn copy(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut database = call.session.database;
    let mut may_replace = false;
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "REPLACE") {
            may_replace = true;
        } else if args.is(index, "DB") && index + 1 < args.len() {
            index += 1;
            database = existing_database(call, args, index)?;
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 1;
    }
    if database == call.session.database && args[1] == args[2] {
        return Err(same_object());
    }
    let entry = call.get(&args[1])?;
    let replaced = call.view.get(database, &args[2])?;
    let entry = entry.filter(|_| may_replace || replaced.is_none());
    if let Some(entry) = &entry {
        put_copy(call, args, database, entry, replaced.as_ref())?;
        call.view.notify(database, EventClass::GENERIC, "copy_to", &args[2]);
    }
    call.reply.integer(i64::from(entry.is_some()));
    Ok(())
}

fn same_object() -> Failure {
    Failure::reply("ERR source and destination objects are the same")
}

/// Returns the database that argument `index` names. The raw layout has only database 0.
pub(super) fn existing_database(call: &Call<'_>, args: Args<'_>, index: usize) -> CommandResult<u8> {
    let database = args.database(index)?;
    if database > 0 && call.shared.store.layout == Layout::Raw {
        return Err(not_in_raw_mode("a database other than 0"));
    }
    Ok(database)
}

/// MOVE key db
pub(super) fn move_(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = existing_database(call, args, 2)?;
    if database == call.session.database {
        return Err(same_object());
    }
    let entry = call.get(&args[1])?;
    let is_free = call.view.get(database, &args[1])?.is_none();
    let entry = entry.filter(|_| is_free);
    if let Some(entry) = &entry {
        move_value(call, database, &args[1], entry, None)?;
        call.view.delete_record_of(call.session.database, &args[1], entry.expires_at())?;
        call.notify(EventClass::GENERIC, "move_from", &args[1]);
        call.view.notify(database, EventClass::GENERIC, "move_to", &args[1]);
    }
    call.reply.integer(i64::from(entry.is_some()));
    Ok(())
}

/// RANDOMKEY
///
/// One of the [`NEAR_KEYS`] keys after a random point between the first and the last key. With more
/// keys, those after a wide gap are more probable than others.
pub(super) fn randomkey(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let first = edge_key(call, KeyRange::all())?;
    let last = edge_key(call, KeyRange { is_reverse: true, ..KeyRange::all() })?;
    let (Some(first), Some(last)) = (first, last) else {
        call.reply.null();
        return Ok(());
    };
    let point = random_point(&first, &last, call.shared.random.next_u64());
    let mut near = first_keys(call, KeyRange { begin: Some(point.clone()), ..KeyRange::all() }, NEAR_KEYS)?;
    let before = KeyRange { end: Some(point), ..KeyRange::all() };
    near.extend(first_keys(call, before, NEAR_KEYS - near.len())?);
    let index = call.shared.random.next_u64() % near.len().max(1) as u64;
    call.reply.bulk(near.get(index as usize).unwrap_or(&last));
    Ok(())
}

/// Number of keys from which RANDOMKEY chooses one.
const NEAR_KEYS: usize = 32;

/// Returns at most `count` keys of `range`.
fn first_keys(call: &mut Call<'_>, range: KeyRange, count: usize) -> CommandResult<Vec<Vec<u8>>> {
    let mut scan = call.view.scan(call.session.database, range)?;
    let mut keys = Vec::new();
    while keys.len() < count
        && let Some(found) = scan.next()?
    {
        keys.push(found.key.to_vec());
    }
    Ok(keys)
}

fn edge_key(call: &mut Call<'_>, range: KeyRange) -> CommandResult<Option<Vec<u8>>> {
    Ok(first_keys(call, range, 1)?.pop())
}

/// Returns a key between `first` and `last`. The eight bytes after their common prefix are random.
pub(super) fn random_point(first: &[u8], last: &[u8], random: u64) -> Vec<u8> {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let head = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(common..).unwrap_or_default();
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let low = head(first);
    let span = head(last).saturating_sub(low).saturating_add(1);
    let point = low + random % span.max(1);
    [&first[..common], &point.to_be_bytes()].concat()
}

/// OBJECT subcommand
pub(super) fn object(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "object", OBJECT)
}

pub(super) static OBJECT: &[Subcommand] = &[
    Subcommand { name: "encoding", arity: 3, run: object_encoding },
    Subcommand { name: "freq", arity: 3, run: object_freq },
    Subcommand { name: "idletime", arity: 3, run: |call, args| object_number(call, args, 0) },
    Subcommand { name: "refcount", arity: 3, run: |call, args| object_number(call, args, 1) },
];

fn object_encoding(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entry = call.get(&args[2])?;
    match &entry {
        Some(entry) => call.reply.bulk(encoding(entry)),
        None => call.reply.null(),
    }
    Ok(())
}

/// Name of the encoding that Redis would use for a new value.
pub(super) fn encoding(entry: &Entry) -> &'static str {
    /// Maximum length of a string in Redis' encoding `embstr`.
    const MAX_EMBEDDED: usize = 44;
    let is_large = entry.object().is_some_and(|object| object.is_large);
    match (entry.header.value_type, is_large) {
        (ValueType::String, _) if parse_i64(entry.value()).is_some() => "int",
        (ValueType::String, _) if entry.value().len() <= MAX_EMBEDDED => "embstr",
        (ValueType::String, _) => "raw",
        (ValueType::Hash | ValueType::SortedSet, false) => "listpack",
        (ValueType::Set, false) => "intset",
        (ValueType::Hash | ValueType::Set, true) => "hashtable",
        (ValueType::SortedSet, true) => "skiplist",
        (ValueType::List, _) => "quicklist",
        (ValueType::Stream, _) => "stream",
    }
}

fn object_freq(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if call.get(&args[2])?.is_none() {
        call.reply.null();
        return Ok(());
    }
    Err(Failure::reply(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    ))
}

fn object_number(call: &mut Call<'_>, args: Args<'_>, number: i64) -> CommandResult {
    match call.get(&args[2])? {
        Some(_) => call.reply.integer(number),
        None => call.reply.null(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::random_point;

    #[test]
    fn random_points_are_between_the_keys() {
        for random in [0, 1, 77, u64::MAX] {
            for (first, last) in [("a", "z"), ("key:1", "key:9"), ("a", "a"), ("", "\u{ff}")] {
                let point = random_point(first.as_bytes(), last.as_bytes(), random);
                assert!(point.as_slice() >= first.as_bytes(), "{first} {last} {random}");
            }
        }
    }
}
