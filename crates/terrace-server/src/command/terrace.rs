//! Commands beyond Redis: ranges of keys, and the state of the engine.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{Backend, KeyRange, Layout, ValueType, delete_objects};

/// Maximum number of keys in a reply.
const MAX_KEYS: usize = 1000;
/// Maximum size of the keys and values in a reply, in bytes, apart from the last entry.
const MAX_BYTES: usize = 1 << 20;

/// Options of a range.
struct RangeOptions {
    limit: usize,
    has_values: bool,
}

/// TERRACE.RANGE min max [REV] [LIMIT n] [VALUES]
pub(super) fn range(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = bounds(args.at(1), args.at(2))?;
    let (range, options) = parse_options(args, 3, range)?;
    reply_range(call, range, &options)
}

/// TERRACE.PREFIX prefix [AFTER key] [REV] [LIMIT n] [VALUES]
pub(super) fn prefix(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (range, options) = parse_options(args, 2, KeyRange::prefix(args.at(1)))?;
    reply_range(call, range, &options)
}

fn parse_options(
    args: Args<'_>,
    begin: usize,
    mut range: KeyRange,
) -> CommandResult<(KeyRange, RangeOptions)> {
    let mut options = RangeOptions { limit: MAX_KEYS, has_values: false };
    let mut after = None;
    let mut index = begin;
    while index < args.len() {
        if args.is(index, "REV") {
            range.is_reverse = true;
        } else if args.is(index, "VALUES") {
            options.has_values = true;
        } else if args.is(index, "LIMIT") && index + 1 < args.len() {
            index += 1;
            let limit = usize::try_from(args.integer(index)?).map_err(|_| Failure::NOT_AN_INTEGER)?;
            options.limit = limit.min(MAX_KEYS);
        } else if args.is(index, "AFTER") && index + 1 < args.len() {
            index += 1;
            after = Some(args.at(index).to_vec());
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 1;
    }
    let range = match after {
        Some(key) => range.after(key),
        None => range,
    };
    Ok((range, options))
}

/// Returns the range between two bounds: `-`, `+`, `[key` with the key or `(key` without it.
fn bounds(min: &[u8], max: &[u8]) -> CommandResult<KeyRange> {
    let invalid = || Failure::reply("ERR min or max not valid string range item");
    let begin = match min {
        b"-" => None,
        b"+" => return Ok(empty_range()),
        [b'[', key @ ..] => Some(key.to_vec()),
        [b'(', key @ ..] => Some(successor(key)),
        _ => return Err(invalid()),
    };
    let end = match max {
        b"+" => None,
        b"-" => return Ok(empty_range()),
        [b'[', key @ ..] => Some(successor(key)),
        [b'(', key @ ..] => Some(key.to_vec()),
        _ => return Err(invalid()),
    };
    match (&begin, &end) {
        (Some(begin), Some(end)) if begin >= end => Ok(empty_range()),
        _ => Ok(KeyRange { begin, end, ..KeyRange::all() }),
    }
}

/// Returns the first key after `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

fn empty_range() -> KeyRange {
    KeyRange { end: Some(Vec::new()), ..KeyRange::all() }
}

/// Replies the key at which to continue, or null, and the entries.
fn reply_range(call: &mut Call<'_>, range: KeyRange, options: &RangeOptions) -> CommandResult {
    let mut scan = call.view.scan(call.session.database, range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut continue_after = None;
    while let Some(next) = scan.next()? {
        if found.len() == options.limit || bytes > MAX_BYTES {
            continue_after = found.last().map(|(key, _): &(Vec<u8>, Option<Vec<u8>>)| key.clone());
            break;
        }
        // Only strings have a value of one part.
        let has_value = options.has_values && next.header.value_type == ValueType::String;
        let value = has_value.then(|| next.value.to_vec());
        bytes += next.key.len() + value.as_ref().map_or(0, Vec::len);
        found.push((next.key.to_vec(), value));
    }
    let reply = &mut *call.reply;
    reply.array(2);
    reply.optional_bulk(continue_after.as_deref());
    reply.array(found.len() * (1 + usize::from(options.has_values)));
    for (key, value) in &found {
        reply.bulk(key);
        if options.has_values {
            reply.optional_bulk(value.as_deref());
        }
    }
    Ok(())
}

/// TERRACE.COUNT min max
pub(super) fn count(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = bounds(args.at(1), args.at(2))?;
    let mut scan = call.view.scan(call.session.database, range)?;
    let mut count = 0;
    while scan.next()?.is_some() {
        count += 1;
    }
    call.reply.count(count);
    Ok(())
}

/// Record keys at the ends of a range.
fn record_bounds(call: &mut Call<'_>, range: &KeyRange) -> CommandResult<(Vec<u8>, Option<Vec<u8>>)> {
    let database = call.session.database;
    let begin = call.view.record_key(database, range.begin.as_deref().unwrap_or_default())?.to_vec();
    let end = match (&range.end, call.shared.store.layout) {
        (Some(end), _) => Some(call.view.record_key(database, end)?.to_vec()),
        (None, Layout::Raw) => None,
        (None, Layout::Typed) => {
            let space = call.view.space(database)?;
            Some(crate::store::space_bounds(space).1)
        }
    };
    Ok((begin, end))
}

/// Record keys at the ends of the range that the first two arguments are.
pub(super) fn parse_record_bounds(
    call: &mut Call<'_>,
    args: Args<'_>,
) -> CommandResult<(Vec<u8>, Option<Vec<u8>>)> {
    let range = bounds(args.at(1), args.at(2))?;
    record_bounds(call, &range)
}

/// TERRACE.EVENTS [count]
pub(super) fn events(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = if args.len() > 1 { args.integer(1)? } else { 100 };
    let count = usize::try_from(count).map_err(|_| Failure::NOT_AN_INTEGER)?;
    let events = call.shared.engine_events.last(count);
    call.reply.array(events.len());
    for event in events {
        call.reply.array(2);
        call.reply.integer(event.at_ms as i64);
        call.reply.bulk(event.text);
    }
    Ok(())
}

/// TERRACE.SIZE min max
pub(super) fn size(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = bounds(args.at(1), args.at(2))?;
    let (begin, end) = record_bounds(call, &range)?;
    // No key of a database is after these bytes, unless it is longer and begins with them.
    let end = end.unwrap_or_else(|| vec![0xff; 1024]);
    let size = match &call.shared.store.backend {
        Backend::Database(db) => db.approximate_sizes(&[(&begin, &end)])?.first().copied().unwrap_or(0),
        Backend::Store(shared) => shared.approximate_size(&terrace_store::KeyRange::new(begin, end))?,
    };
    call.reply.integer(i64::try_from(size).unwrap_or(i64::MAX));
    Ok(())
}

/// TERRACE.DELRANGE min max
///
/// Runs alone. After a crash, some keys of the range may remain.
pub(super) fn delrange(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let range = bounds(args.at(1), args.at(2))?;
    let (begin, end) = record_bounds(call, &range)?;
    delete_records(call, begin, end)?;
    call.reply.ok();
    Ok(())
}

/// Deletes the records from `begin` to `end`, and marks the clients that watch one of them.
pub(super) fn delete_records(call: &mut Call<'_>, begin: Vec<u8>, end: Option<Vec<u8>>) -> CommandResult {
    let store = &call.shared.store;
    let db = store.db()?;
    let mut changed = Vec::new();
    for watch_key in store.watch_table.keys_with_prefix(b"") {
        let key = store.watched_record(&watch_key);
        let is_inside = *key >= *begin && end.as_ref().is_none_or(|end| key < *end);
        if is_inside && db.contains(&key)? {
            changed.push(key);
        }
    }
    match end {
        Some(end) => {
            delete_objects(store, &begin, &end)?;
            db.delete_range(begin..end)?;
        }
        None => db.delete_range(begin..)?,
    }
    call.view.note_written(changed);
    Ok(())
}

/// TERRACE.PAGE
pub(super) fn page(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let access = call.shared.page_access.as_ref().ok_or(Failure::reply("ERR the server has no web page"))?;
    let link = access.new_link().ok_or(Failure::reply("ERR the system has no random numbers"))?;
    call.reply.bulk(link);
    Ok(())
}

/// TERRACE.STATS
pub(super) fn stats(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.verbatim(&call.shared.store.db()?.stats().to_string());
    Ok(())
}

/// TERRACE.LEVELS
pub(super) fn levels(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let stats = call.shared.store.db()?.stats();
    call.reply.array(stats.levels.len());
    for (level, row) in stats.levels.iter().enumerate() {
        let fields: [(&str, u64); 5] = [
            ("level", level as u64),
            ("files", row.files as u64),
            ("bytes", row.bytes),
            ("bytes_read", row.bytes_read),
            ("bytes_written", row.bytes_written),
        ];
        call.reply.map(fields.len());
        for (name, value) in fields {
            call.reply.bulk(name);
            call.reply.integer(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(min: &str, max: &str, begin: Option<&str>, end: Option<&str>) {
        let range = bounds(min.as_bytes(), max.as_bytes()).unwrap();
        let text = |key: &Option<Vec<u8>>| key.as_ref().map(|key| String::from_utf8(key.clone()).unwrap());
        assert_eq!((text(&range.begin).as_deref(), text(&range.end).as_deref()), (begin, end));
    }

    #[test]
    fn bounds_of_ranges() {
        check("-", "+", None, None);
        check("[a", "(b", Some("a"), Some("b"));
        check("(a", "[b", Some("a\0"), Some("b\0"));
        check("[b", "[a", None, Some(""));
        check("+", "-", None, Some(""));
        assert!(bounds(b"a", b"+").is_err());
    }
}
