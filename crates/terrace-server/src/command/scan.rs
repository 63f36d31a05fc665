//! Scans of keys: KEYS, SCAN, DBSIZE.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::glob;
use crate::resp::parse_cursor;
use crate::store::{KeyCount, KeyRange};

/// Number of entries that a scan may read on a worker.
const MAX_ON_WORKER: usize = 1000;
/// Maximum size of a list of keys in a reply, in bytes.
const MAX_REPLY: usize = 256 << 20;
/// Maximum size of the keys in one reply of SCAN, in bytes.
const MAX_SCAN_BYTES: usize = 1 << 20;

/// KEYS pattern
pub(super) fn keys(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let pattern = args.at(1);
    let range = KeyRange::prefix(glob::literal_prefix(pattern));
    let mut scan = call.view.scan(call.session.database, range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some(next) = scan.next()? {
        if glob::is_match(pattern, next.key) {
            bytes += next.key.len() + size_of::<Vec<u8>>();
            found.push(next.key.to_vec());
        }
        if bytes > MAX_REPLY {
            return Err(Failure::reply("ERR the reply of KEYS exceeds 256 MiB, use SCAN"));
        }
    }
    call.reply.bulks(&found);
    Ok(())
}

/// Options of SCAN.
struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    value_type: Option<&'a [u8]>,
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(super) fn scan(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let cursor = parse_cursor(args.at(1)).ok_or(Failure::reply("ERR invalid cursor"))?;
    let options = parse(args)?;
    if options.count > MAX_ON_WORKER {
        call.require_slow_pool()?;
    }
    let prefix = options.pattern.map_or(&[][..], glob::literal_prefix);
    let mut range = KeyRange::prefix(prefix);
    if cursor != 0 {
        let position = call.shared.store.cursor(cursor)?;
        let text = "ERR the cursor was discarded: the server keeps 65,536 positions, start again with 0";
        range = range.after(position.ok_or(Failure::reply(text))?);
    }
    let (found, last) = scan_part(call, range, &options)?;
    let next = last.map_or(Ok(0), |last| call.shared.store.save_cursor(last))?;
    call.reply.array(2);
    call.reply.bulk(next.to_string());
    call.reply.bulks(&found);
    Ok(())
}

/// Keys of a part of a scan, and the last key that it has read, unless it reached the end.
type ScanPart = (Vec<Vec<u8>>, Option<Vec<u8>>);

/// Reads the next part of the keys.
fn scan_part(call: &mut Call<'_>, range: KeyRange, options: &ScanOptions<'_>) -> CommandResult<ScanPart> {
    let mut scan = call.view.scan(call.session.database, range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut read = 0;
    while let Some(next) = scan.next()? {
        let is_type = options
            .value_type
            .is_none_or(|name| name.eq_ignore_ascii_case(next.header.value_type.name().as_bytes()));
        if is_type && options.pattern.is_none_or(|pattern| glob::is_match(pattern, next.key)) {
            bytes += next.key.len();
            found.push(next.key.to_vec());
        }
        read += 1;
        if read >= options.count || bytes > MAX_SCAN_BYTES {
            return Ok((found, Some(next.key.to_vec())));
        }
    }
    Ok((found, None))
}

fn parse(args: Args<'_>) -> CommandResult<ScanOptions<'_>> {
    let mut options = ScanOptions { pattern: None, count: 10, value_type: None };
    for index in (2..args.len()).step_by(2) {
        if index + 1 == args.len() {
            return Err(Failure::SYNTAX);
        } else if args.is(index, "MATCH") {
            options.pattern = Some(args.at(index + 1));
        } else if args.is(index, "TYPE") {
            options.value_type = Some(args.at(index + 1));
        } else if args.is(index, "COUNT") {
            let count = args.integer(index + 1)?;
            options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::SYNTAX)?;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(options)
}

/// DBSIZE
pub(super) fn dbsize(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let count = count_keys(call, call.session.database)?;
    call.reply.integer(i64::try_from(count.keys).unwrap_or(i64::MAX));
    Ok(())
}

/// Counts the keys of a database. The count stays valid until the next write or expiry.
pub(super) fn count_keys(call: &mut Call<'_>, database: u8) -> CommandResult<KeyCount> {
    let sequence = call.view.position()?;
    let now_ms = call.view.now_ms();
    let is_in_transaction = call.view.is_transaction() || call.view.is_of_snapshot();
    let known = call.shared.store.key_counts.lock()[usize::from(database)];
    let known = known.filter(|known| known.sequence == sequence && known.valid_until > now_ms);
    if let Some(known) = known.filter(|_| !is_in_transaction) {
        return Ok(known);
    }
    call.require_slow_pool()?;
    call.view.pin_state();
    let mut count = KeyCount { keys: 0, keys_with_expiry: 0, sequence, valid_until: u64::MAX };
    let mut scan = call.view.scan(database, KeyRange::all())?;
    while let Some(next) = scan.next()? {
        count.keys += 1;
        if let Some(at) = next.header.expires_at {
            count.keys_with_expiry += 1;
            count.valid_until = count.valid_until.min(at);
        }
    }
    if !is_in_transaction {
        call.shared.store.key_counts.lock()[usize::from(database)] = Some(count);
    }
    Ok(count)
}
