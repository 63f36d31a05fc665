//! Parts of the commands for objects that all types share: lists of members, random members, scans.

use std::collections::BTreeSet;

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::glob;
use crate::resp::parse_cursor;
use crate::store::{MemberRange, Object, ValueType};

/// Maximum size of the members that a command holds or replies, in bytes.
pub(super) const MAX_REPLY: usize = 256 << 20;
/// Number of members up to which a scan ignores COUNT, as Redis does for its compact encodings.
const SMALL_OBJECT: u64 = 512;
/// Maximum size of the members in one reply of a scan, in bytes.
const MAX_SCAN_BYTES: usize = 1 << 20;
/// Number of members up to which each member is equally probable.
const UNIFORM: u64 = 1000;

/// Suffix of a member record, and its value.
pub(super) type Member = (Vec<u8>, Vec<u8>);

/// Returns all members of a range.
///
/// # Errors
///
/// The members exceed 256 MiB.
pub(super) fn all_members(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
) -> CommandResult<Vec<Member>> {
    call.check_members_on_worker(object.count)?;
    let mut scan = call.view.members(object, range)?;
    let mut members = Vec::new();
    let mut bytes = 0;
    while let Some((suffix, value)) = scan.next()? {
        bytes += suffix.len() + value.len() + size_of::<Member>();
        check_bytes(bytes)?;
        members.push((suffix.to_vec(), value.to_vec()));
    }
    Ok(members)
}

/// Checks the size of the members that a command holds.
pub(super) fn check_bytes(bytes: usize) -> CommandResult {
    if bytes <= MAX_REPLY {
        return Ok(());
    }
    Err(Failure::reply("ERR the members exceed 256 MiB"))
}

/// Error for a number of records that differs from the number in the object's record.
pub(super) fn damaged_count(key: &[u8], object: &Object, found: usize) -> Failure {
    Failure::reply(format!(
        "ERR damaged: the value of the key '{}' has {found} members, expected {}",
        key.escape_ascii(),
        object.count
    ))
}

/// Returns a random member of a range, or None if the range is empty.
///
/// Each member of a small object is equally probable. Otherwise, members after wide gaps are more
/// probable than others.
pub(super) fn random_member(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
) -> CommandResult<Option<Member>> {
    let random = call.shared.random.next_u64();
    if object.count <= UNIFORM {
        return nth_member(call, object, range, random % object.count.max(1));
    }
    let first = nth_member(call, object, range, 0)?;
    let last = nth_member(call, object, &range.clone().reverse(), 0)?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
    let point = super::keys::random_point(&first.0, &last.0, random);
    let found = nth_member(call, object, &MemberRange { begin: Some(point), ..range.clone() }, 0)?;
    Ok(Some(found.unwrap_or(last)))
}

fn nth_member(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
    index: u64,
) -> CommandResult<Option<Member>> {
    let mut scan = call.view.members(object, range)?;
    for _ in 0..index {
        scan.next()?;
    }
    Ok(scan.next()?.map(|(suffix, value)| (suffix.to_vec(), value.to_vec())))
}

/// Returns `count` different members of a range in random order, or all of them.
pub(super) fn different_members(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
    count: u64,
) -> CommandResult<Vec<Member>> {
    if count >= object.count {
        return all_members(call, object, range);
    }
    // Before the indexes take memory.
    check_bytes(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<Member>()))?;
    call.check_members_on_worker(object.count)?;
    let random = &call.shared.random;
    // Floyd's sampling: each set of `count` indexes is equally probable.
    let mut indexes = BTreeSet::new();
    for last in object.count - count..object.count {
        let index = random.uniform(last + 1);
        indexes.insert(if indexes.contains(&index) { last } else { index });
    }
    let mut scan = call.view.members(object, range)?;
    let mut members = Vec::new();
    let mut bytes = 0;
    for index in 0..object.count {
        let Some((suffix, value)) = scan.next()? else { break };
        if indexes.remove(&index) {
            bytes += suffix.len() + value.len() + size_of::<Member>();
            check_bytes(bytes)?;
            members.push((suffix.to_vec(), value.to_vec()));
        }
        if indexes.is_empty() {
            break;
        }
    }
    shuffle(&mut members, |bound| random.uniform(bound));
    Ok(members)
}

fn shuffle<T>(items: &mut [T], uniform: impl Fn(u64) -> u64) {
    for last in (1..items.len()).rev() {
        items.swap(last, uniform(last as u64 + 1) as usize);
    }
}

/// Returns the members that a command with the argument `amount` replies: a negative one permits
/// repetitions.
pub(super) fn random_members(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
    amount: i64,
) -> CommandResult<Vec<Member>> {
    if amount >= 0 {
        return different_members(call, object, range, amount.unsigned_abs());
    }
    let count = amount.unsigned_abs();
    call.check_members_on_worker(count)?;
    let small = if object.count <= UNIFORM { all_members(call, object, range)? } else { Vec::new() };
    let mut members = Vec::new();
    let mut bytes = 0;
    for _ in 0..count {
        let member = match small.len() {
            0 => random_member(call, object, range)?,
            len => small.get(call.shared.random.uniform(len as u64) as usize).cloned(),
        };
        let Some(member) = member else { break };
        bytes += member.0.len() + member.1.len() + size_of::<Member>();
        check_bytes(bytes)?;
        members.push(member);
    }
    Ok(members)
}

/// Argument `index` as the number of random members.
pub(super) fn random_amount(args: Args<'_>, index: usize) -> CommandResult<i64> {
    let amount = args.integer(index)?;
    if amount == i64::MIN {
        let text =
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
        return Err(Failure::reply(text));
    }
    Ok(amount)
}

/// Options of HSCAN and its relatives.
pub(super) struct ScanOptions<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) count: usize,
}

impl<'a> ScanOptions<'a> {
    pub(super) fn parse(args: Args<'a>) -> CommandResult<ScanOptions<'a>> {
        let mut options = ScanOptions { pattern: None, count: 10 };
        for index in (3..args.len()).step_by(2) {
            if index + 1 == args.len() {
                return Err(Failure::SYNTAX);
            } else if args.is(index, "MATCH") {
                options.pattern = Some(args.at(index + 1));
            } else if args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                options.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::SYNTAX)?;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Text of a stored value in a reply.
type ValueText = fn(&[u8]) -> Vec<u8>;

/// Type with the form of its members in the reply of a scan.
pub(super) struct ScannedType {
    pub(super) value_type: ValueType,
    /// First bytes of the suffixes of the members.
    pub(super) prefix: &'static [u8],
    /// Text of a value, or None if the members have no value.
    pub(super) value: Option<ValueText>,
}

/// HSCAN key cursor [MATCH pattern] [COUNT count], and the same for other types.
pub(super) fn scan_members(call: &mut Call<'_>, args: Args<'_>, scanned: &ScannedType) -> CommandResult {
    let cursor = parse_cursor(args.at(2)).ok_or(Failure::reply("ERR invalid cursor"))?;
    let Some(object) = call.open(&args[1], scanned.value_type)? else {
        reply_scan(call, 0, &[]);
        return Ok(());
    };
    let options = ScanOptions::parse(args)?;
    call.check_members_on_worker(object.count.min(options.count as u64))?;
    let mut range = MemberRange::prefix(scanned.prefix);
    if cursor != 0 {
        let position = call.shared.store.cursor(cursor)?;
        let text = "ERR the cursor was discarded: the server keeps 65,536 positions, start again with 0";
        // The position is the last suffix that the client has seen.
        range.begin = Some([&position.ok_or(Failure::reply(text))?, &b"\0"[..]].concat());
    }
    let (found, last) = scan_part(call, &object, &range, scanned, &options)?;
    let next = last.map_or(Ok(0), |last| call.shared.store.save_cursor(last))?;
    reply_scan(call, next, &found);
    Ok(())
}

fn reply_scan(call: &mut Call<'_>, cursor: u64, found: &[Vec<u8>]) {
    call.reply.array(2);
    call.reply.bulk(cursor.to_string());
    call.reply.bulks(found);
}

/// Items of a part of a scan, and the last suffix that it has read, unless it reached the end.
type ScanPart = (Vec<Vec<u8>>, Option<Vec<u8>>);

fn scan_part(
    call: &mut Call<'_>,
    object: &Object,
    range: &MemberRange,
    scanned: &ScannedType,
    options: &ScanOptions<'_>,
) -> CommandResult<ScanPart> {
    let limit =
        if object.count <= SMALL_OBJECT { options.count.max(SMALL_OBJECT as usize) } else { options.count };
    let mut scan = call.view.members(object, range)?;
    let mut found = Vec::new();
    let mut read = 0;
    let mut bytes = 0;
    while let Some((suffix, value)) = scan.next()? {
        let member = suffix.get(scanned.prefix.len()..).unwrap_or_default();
        if options.pattern.is_none_or(|pattern| glob::is_match(pattern, member)) {
            bytes += member.len() + value.len();
            found.push(member.to_vec());
            found.extend(scanned.value.map(|text| text(value)));
        }
        read += 1;
        if read >= limit || bytes > MAX_SCAN_BYTES {
            let last = suffix.to_vec();
            let is_end = scan.next()?.is_none();
            return Ok((found, (!is_end).then_some(last)));
        }
    }
    Ok((found, None))
}
