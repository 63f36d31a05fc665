//! XCLAIM and XAUTOCLAIM: pending entries get another consumer.

use super::pending::open_group;
use super::{GroupEdit, Pending, Stream, StreamId, entry, no_group};
use crate::command::members::check_bytes;
use crate::command::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, parse_i64};
use crate::store::{EventClass, StoredValue};

/// Maximum count of XAUTOCLAIM.
const MAX_COUNT: i64 = i64::MAX / 16;
/// Number of pending entries that XAUTOCLAIM looks at for each entry that it may return.
const ATTEMPTS: u64 = 10;

/// Claim of entries for a consumer.
struct Claim<'a> {
    key: &'a [u8],
    consumer: &'a [u8],
    min_idle: u64,
    /// Time of the delivery that the entries get.
    delivered: u64,
    /// Number of deliveries that the entries get.
    retry_count: Option<u64>,
    only_ids: bool,
}

impl Claim<'_> {
    /// Gives an entry with the fields `fields` to the consumer, and appends it. Returns false if
    /// the entry is not idle for long enough.
    fn take(
        &self,
        call: &mut Call<'_>,
        edit: &mut GroupEdit,
        id: StreamId,
        pending: (Pending, bool),
        fields: &StoredValue,
        rows: &mut Reply,
    ) -> CommandResult<bool> {
        let (pending, is_stored) = pending;
        let idle = call.view.now_ms().saturating_sub(pending.delivered);
        if is_stored && idle < self.min_idle {
            return Ok(false);
        }
        if edit.touch_consumer(&mut call.view, self.consumer)? {
            call.notify(EventClass::STREAM, "xgroup-createconsumer", self.key);
        }
        let count = self.retry_count.unwrap_or(pending.count.saturating_add(u64::from(!self.only_ids)));
        let new = Pending { delivered: self.delivered, count, consumer: self.consumer.to_vec() };
        edit.put_pending(&mut call.view, id, is_stored.then_some(&pending), new)?;
        if self.only_ids {
            entry::reply_id(rows, id);
        } else {
            entry::reply(rows, id, fields)?;
        }
        check_bytes(rows.len())?;
        Ok(true)
    }
}

/// Returns the minimum idle time that argument 4 states.
fn min_idle(args: Args<'_>, command: &str) -> CommandResult<u64> {
    let min_idle = labelled_integer(args, 4, || format!("min-idle-time argument for {command}"))?;
    Ok(u64::try_from(min_idle).unwrap_or(0))
}

fn labelled_integer(args: Args<'_>, index: usize, label: impl Fn() -> String) -> CommandResult<i64> {
    parse_i64(args.at(index)).ok_or_else(|| Failure::reply(format!("ERR Invalid {}", label())))
}

/// Options of XCLAIM after the IDs.
#[derive(Default)]
struct ClaimOptions {
    delivered: Option<i64>,
    retry_count: Option<u64>,
    last_id: StreamId,
    is_forced: bool,
    only_ids: bool,
}

impl ClaimOptions {
    fn parse(args: Args<'_>, begin: usize, now: u64) -> CommandResult<ClaimOptions> {
        let mut options = ClaimOptions::default();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let mut index = begin;
        while index < args.len() {
            let has_value = index + 1 < args.len();
            let number = |name: &str| {
                labelled_integer(args, index + 1, || format!("{name} option argument for XCLAIM"))
            };
            let mut width = 2;
            if args.is(index, "FORCE") {
                options.is_forced = true;
                width = 1;
            } else if args.is(index, "JUSTID") {
                options.only_ids = true;
                width = 1;
            } else if has_value && args.is(index, "IDLE") {
                options.delivered = Some(now.wrapping_sub(number("IDLE")?));
            } else if has_value && args.is(index, "TIME") {
                options.delivered = Some(number("TIME")?);
            } else if has_value && args.is(index, "RETRYCOUNT") {
                options.retry_count = u64::try_from(number("RETRYCOUNT")?).ok();
            } else if has_value && args.is(index, "LASTID") {
                options.last_id = StreamId::parse_strict(args.at(index + 1), 0)?;
            } else {
                let option = String::from_utf8_lossy(args.at(index));
                return Err(Failure::reply(format!("ERR Unrecognized XCLAIM option '{option}'")));
            }
            index += width;
        }
        Ok(options)
    }

    /// Time of the delivery. An impossible time is the present one, because clients compute it by
    /// clocks of their own.
    fn delivered(&self, now: u64) -> u64 {
        // Redis takes -1 for no time.
        let given = self.delivered.and_then(|time| u64::try_from(time).ok());
        given.filter(|time| *time <= now).unwrap_or(now)
    }
}

/// XCLAIM key group consumer min-idle-time id .. [IDLE ms] [TIME ms] [RETRYCOUNT count] [FORCE]
/// [JUSTID] [LASTID id]
pub(in crate::command) fn xclaim(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some((stream, mut edit)) = open_group(call, args)? else {
        return Err(no_group(&args[1], &args[2], ""));
    };
    let min_idle = min_idle(args, "XCLAIM")?;
    let ids: Vec<StreamId> = args.from(5).map_while(|arg| StreamId::parse_strict(arg, 0).ok()).collect();
    let now = call.view.now_ms();
    let options = ClaimOptions::parse(args, 5 + ids.len(), now)?;
    let before = edit.group.clone();
    edit.group.last_id = edit.group.last_id.max(options.last_id);
    let claim = Claim {
        key: &args[1],
        consumer: &args[3],
        min_idle,
        delivered: options.delivered(now),
        retry_count: options.retry_count,
        only_ids: options.only_ids,
    };
    let mut rows = Reply::new();
    let mut len = 0;
    for id in ids {
        len += usize::from(claim_one(call, &stream, &mut edit, &claim, id, options.is_forced, &mut rows)?);
    }
    if edit.is_changed() || edit.group != before {
        edit.save(&mut call.view)?;
    }
    call.reply.array(len);
    call.reply.raw(rows.as_bytes());
    Ok(())
}

fn claim_one(
    call: &mut Call<'_>,
    stream: &Stream,
    edit: &mut GroupEdit,
    claim: &Claim<'_>,
    id: StreamId,
    is_forced: bool,
    rows: &mut Reply,
) -> CommandResult<bool> {
    let pending = edit.pending(&mut call.view, id)?;
    let Some(fields) = stream.entry(&mut call.view, id)? else {
        if let Some(pending) = pending {
            edit.remove_pending(&mut call.view, id, &pending)?;
        }
        return Ok(false);
    };
    let pending = match pending {
        Some(pending) => (pending, true),
        // As after a first delivery.
        None if is_forced => (Pending { delivered: 0, count: 1, consumer: Vec::new() }, false),
        None => return Ok(false),
    };
    claim.take(call, edit, id, pending, &fields, rows)
}

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
pub(in crate::command) fn xautoclaim(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let min_idle = min_idle(args, "XAUTOCLAIM")?;
    let begin = StreamId::parse_begin(&args[5])?;
    let (count, only_ids) = auto_claim_options(args)?;
    let Some((stream, mut edit)) = open_group(call, args)? else {
        return Err(no_group(&args[1], &args[2], ""));
    };
    let delivered = call.view.now_ms();
    let claim = Claim { key: &args[1], consumer: &args[3], min_idle, delivered, retry_count: None, only_ids };
    let attempts = count.saturating_mul(ATTEMPTS);
    let mut scan = edit.pending_entries(&mut call.view, None, begin, StreamId::MAX)?;
    let mut rows = Reply::new();
    let mut len = 0;
    let mut deleted = Vec::new();
    let mut attempt = 0;
    let mut next = scan.next()?;
    while let Some((id, Some(pending))) =
        next.take_if(|_| attempt < attempts && len + deleted.len() < count as usize)
    {
        attempt += 1;
        match stream.entry(&mut call.view, id)? {
            Some(fields) => {
                len += usize::from(claim.take(call, &mut edit, id, (pending, true), &fields, &mut rows)?);
            }
            None => {
                edit.remove_pending(&mut call.view, id, &pending)?;
                deleted.push(id.to_string());
                check_bytes(deleted.len() * size_of::<String>() * 2)?;
            }
        }
        next = scan.next()?;
    }
    if edit.is_changed() {
        edit.save(&mut call.view)?;
    }
    call.reply.array(3);
    entry::reply_id(call.reply, next.map_or(StreamId::MIN, |(id, _)| id));
    call.reply.array(len);
    call.reply.raw(rows.as_bytes());
    call.reply.bulks(&deleted);
    Ok(())
}

/// Returns the count, and whether the reply has only IDs.
fn auto_claim_options(args: Args<'_>) -> CommandResult<(u64, bool)> {
    const DEFAULT_COUNT: u64 = 100;
    let mut count = DEFAULT_COUNT;
    let mut only_ids = false;
    let mut index = 6;
    while index < args.len() {
        if args.is(index, "COUNT") && index + 1 < args.len() {
            let given = parse_i64(args.at(index + 1)).filter(|count| (1..=MAX_COUNT).contains(count));
            count = given.ok_or(Failure::reply("ERR COUNT must be > 0"))? as u64;
            index += 2;
        } else if args.is(index, "JUSTID") {
            only_ids = true;
            index += 1;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok((count, only_ids))
}
