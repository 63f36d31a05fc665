//! Sets: a record per member, `11 object:8 member`.

use std::collections::{BTreeSet, HashSet};

use super::members::{
    ScannedType, all_members, check_bytes, damaged_count, different_members, random_amount, random_member,
    random_members, scan_members,
};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_i64;
use crate::store::{EventClass, MemberRange, Object, Replaced, ValueType};

/// Number of members up to which Redis uses its compact encoding.
const MAX_COMPACT: u64 = 512;

fn open(call: &mut Call<'_>, key: &[u8]) -> CommandResult<Option<Object>> {
    call.open(key, ValueType::Set)
}

fn is_member(call: &mut Call<'_>, set: Option<&Object>, member: &[u8]) -> CommandResult<bool> {
    match set {
        Some(set) => call.view.has_member(set, member),
        None => Ok(false),
    }
}

/// Adds a member that the set does not have.
pub(super) fn put_member(call: &mut Call<'_>, set: &mut Object, member: &[u8]) -> CommandResult {
    call.view.put_member(set, member, b"")?;
    set.count += 1;
    set.is_large |= set.count > MAX_COMPACT || parse_i64(member).is_none();
    Ok(())
}

/// SADD key member ..
pub(super) fn sadd(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let old = call.open_or_create(&args[1], ValueType::Set)?;
    let mut set = old;
    // The command does not see its own writes.
    let mut added = HashSet::new();
    for member in args.from(2) {
        if !added.contains(member) && (old.is_new || !call.view.has_member(&old, member)?) {
            put_member(call, &mut set, member)?;
            if args.len() > 3 {
                added.insert(member);
            }
        }
    }
    if set != old {
        call.save(&args[1], &set)?;
        call.notify(EventClass::SET, "sadd", &args[1]);
    }
    call.reply.integer((set.count - old.count) as i64);
    Ok(())
}

/// SREM key member ..
pub(super) fn srem(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(mut set) = open(call, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut deleted = HashSet::new();
    for member in args.from(2) {
        if !deleted.contains(member) && call.view.has_member(&set, member)? {
            call.view.delete_member(&set, member)?;
            deleted.insert(member);
        }
    }
    set.count = set.count.saturating_sub(deleted.len() as u64);
    if !deleted.is_empty() {
        call.notify(EventClass::SET, "srem", &args[1]);
        call.save(&args[1], &set)?;
    }
    call.reply.count(deleted.len());
    Ok(())
}

/// SCARD key
pub(super) fn scard(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = open(call, &args[1])?.map_or(0, |set| set.count);
    call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// SISMEMBER key member
pub(super) fn sismember(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let set = open(call, &args[1])?;
    let is_member = is_member(call, set.as_ref(), &args[2])?;
    call.reply.integer(i64::from(is_member));
    Ok(())
}

/// SMISMEMBER key member ..
pub(super) fn smismember(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let set = open(call, &args[1])?;
    call.reply.array(args.len() - 2);
    for member in args.from(2) {
        let is_member = is_member(call, set.as_ref(), member)?;
        call.reply.integer(i64::from(is_member));
    }
    Ok(())
}

/// SMOVE source destination member
pub(super) fn smove(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let Some(mut source) = open(call, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let destination = open(call, &args[2])?;
    let is_moved = is_member(call, Some(&source), &args[3])?;
    if is_moved && args[1] != args[2] {
        call.view.delete_member(&source, &args[3])?;
        source.count = source.count.saturating_sub(1);
        call.notify(EventClass::SET, "srem", &args[1]);
        call.save(&args[1], &source)?;
        let mut destination = match destination {
            Some(destination) => destination,
            None => call.view.create_object(ValueType::Set)?,
        };
        if destination.is_new || !call.view.has_member(&destination, &args[3])? {
            put_member(call, &mut destination, &args[3])?;
            call.save(&args[2], &destination)?;
            call.notify(EventClass::SET, "sadd", &args[2]);
        }
    }
    call.reply.integer(i64::from(is_moved));
    Ok(())
}

/// SPOP key [count]
pub(super) fn spop(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    if args.len() == 3 {
        return spop_several(call, args);
    }
    let popped = match open(call, &args[1])? {
        Some(set) => random_member(call, &set, &MemberRange::all())?.map(|(member, _)| (set, member)),
        None => None,
    };
    let Some((mut set, member)) = popped else {
        call.reply.null();
        return Ok(());
    };
    call.view.delete_member(&set, &member)?;
    set.count = set.count.saturating_sub(1);
    call.notify(EventClass::SET, "spop", &args[1]);
    call.save(&args[1], &set)?;
    call.reply.bulk(&member);
    Ok(())
}

fn spop_several(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = args.integer(2).ok().and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(Failure::reply("ERR value is out of range, must be positive"))?;
    let set = open(call, &args[1])?.filter(|_| count > 0);
    let Some(mut set) = set else {
        call.reply.set(0);
        return Ok(());
    };
    let members = different_members(call, &set, &MemberRange::all(), count)?;
    call.notify(EventClass::SET, "spop", &args[1]);
    if count >= set.count {
        // One record instead of a tombstone per member.
        call.view.discard(call.session.database, &args[1], &set)?;
    } else {
        for (member, _) in &members {
            call.view.delete_member(&set, member)?;
        }
        set.count = set.count.saturating_sub(members.len() as u64);
        call.save(&args[1], &set)?;
    }
    call.reply.set(members.len());
    members.iter().for_each(|(member, _)| call.reply.bulk(member));
    Ok(())
}

/// SRANDMEMBER key [count]
pub(super) fn srandmember(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    if args.len() == 2 {
        let found = match open(call, &args[1])? {
            Some(set) => random_member(call, &set, &MemberRange::all())?,
            None => None,
        };
        call.reply.optional_bulk(found.as_ref().map(|(member, _)| member.as_slice()));
        return Ok(());
    }
    let amount = random_amount(args, 2)?;
    let members = match open(call, &args[1])? {
        Some(set) => random_members(call, &set, &MemberRange::all(), amount)?,
        None => Vec::new(),
    };
    call.reply.array(members.len());
    members.iter().for_each(|(member, _)| call.reply.bulk(member));
    Ok(())
}

/// SMEMBERS key
pub(super) fn smembers(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let members = match open(call, &args[1])? {
        Some(set) => {
            let members = all_members(call, &set, &MemberRange::all())?;
            if members.len() as u64 != set.count {
                return Err(damaged_count(&args[1], &set, members.len()));
            }
            members
        }
        None => Vec::new(),
    };
    call.reply.set(members.len());
    members.iter().for_each(|(member, _)| call.reply.bulk(member));
    Ok(())
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn sscan(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    scan_members(call, args, &ScannedType { value_type: ValueType::Set, prefix: b"", value: None })
}

/// Operation on several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

/// SINTER key ..
pub(super) fn sinter(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Intersection)
}

/// SUNION key ..
pub(super) fn sunion(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Union)
}

/// SDIFF key ..
pub(super) fn sdiff(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    reply_combined(call, args, Operation::Difference)
}

/// SINTERSTORE destination key ..
pub(super) fn sinterstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Intersection, "sinterstore")
}

/// SUNIONSTORE destination key ..
pub(super) fn sunionstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Union, "sunionstore")
}

/// SDIFFSTORE destination key ..
pub(super) fn sdiffstore(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    store_combined(call, args, Operation::Difference, "sdiffstore")
}

/// SINTERCARD numkeys key .. [LIMIT limit]
pub(super) fn sintercard(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let keys = args.integer(1).ok().and_then(|keys| usize::try_from(keys).ok()).filter(|keys| *keys > 0);
    let keys = keys.ok_or(Failure::reply("ERR numkeys should be greater than 0"))?;
    if keys > args.len() - 2 {
        return Err(Failure::reply("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    for index in (2 + keys..args.len()).step_by(2) {
        if !args.is(index, "LIMIT") || index + 1 == args.len() {
            return Err(Failure::SYNTAX);
        }
        let number = args.integer(index + 1).ok().and_then(|limit| usize::try_from(limit).ok());
        limit = number.ok_or(Failure::reply("ERR LIMIT can't be negative"))?;
    }
    let sets = open_all(call, args.from(2).take(keys))?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let members = combine(call, &sets, Operation::Intersection, limit)?;
    call.reply.count(members.len());
    Ok(())
}

fn open_all<'k>(
    call: &mut Call<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> CommandResult<Vec<Option<Object>>> {
    keys.map(|key| open(call, key)).collect()
}

fn reply_combined(call: &mut Call<'_>, args: Args<'_>, operation: Operation) -> CommandResult {
    let sets = open_all(call, args.from(1))?;
    let members = combine(call, &sets, operation, usize::MAX)?;
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}

fn store_combined(
    call: &mut Call<'_>,
    args: Args<'_>,
    operation: Operation,
    event: &'static str,
) -> CommandResult {
    let sets = open_all(call, args.from(2))?;
    let members = combine(call, &sets, operation, usize::MAX)?;
    let replaced = call.get(&args[1])?;
    let mut set = call.view.create_object(ValueType::Set)?;
    for member in &members {
        put_member(call, &mut set, member)?;
    }
    let replaced = match &replaced {
        None if set.count == 0 => {
            call.reply.integer(0);
            return Ok(());
        }
        replaced => Replaced::Read(replaced.as_ref()),
    };
    call.view.replace_with_object(call.session.database, &args[1], &set, replaced)?;
    call.notify_stored(EventClass::SET, event, &args[1], members.is_empty());
    call.reply.count(members.len());
    Ok(())
}

/// Returns the members of the result in order, at most `limit`.
fn combine(
    call: &mut Call<'_>,
    sets: &[Option<Object>],
    operation: Operation,
    limit: usize,
) -> CommandResult<Vec<Vec<u8>>> {
    let first = match operation {
        Operation::Union => return union(call, sets),
        Operation::Intersection if sets.iter().any(Option::is_none) => return Ok(Vec::new()),
        Operation::Intersection => sets.iter().flatten().min_by_key(|set| set.count),
        Operation::Difference => sets.first().and_then(Option::as_ref),
    };
    let Some(first) = first else { return Ok(Vec::new()) };
    call.check_members_on_worker(first.count.saturating_mul(sets.len() as u64))?;
    let skipped = if operation == Operation::Difference { 1 } else { 0 };
    let others: Vec<&Object> = sets.iter().skip(skipped).flatten().collect();
    let others: Vec<&Object> =
        others.into_iter().filter(|set| skipped == 1 || set.number != first.number).collect();
    let mut scan = call.view.members(first, &MemberRange::all())?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some((member, _)) = scan.next()? {
        let mut is_found = true;
        for other in &others {
            let is_in_other = call.view.has_member(other, member)?;
            is_found = is_in_other == (operation == Operation::Intersection);
            if !is_found {
                break;
            }
        }
        if is_found {
            bytes += member.len() + size_of::<Vec<u8>>();
            check_bytes(bytes)?;
            found.push(member.to_vec());
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

fn union(call: &mut Call<'_>, sets: &[Option<Object>]) -> CommandResult<Vec<Vec<u8>>> {
    let mut found = BTreeSet::new();
    let mut bytes = 0;
    let count = sets.iter().flatten().map(|set| set.count).fold(0, u64::saturating_add);
    call.check_members_on_worker(count)?;
    for set in sets.iter().flatten() {
        let mut scan = call.view.members(set, &MemberRange::all())?;
        while let Some((member, _)) = scan.next()? {
            if found.insert(member.to_vec()) {
                bytes += member.len() + 2 * size_of::<Vec<u8>>();
                check_bytes(bytes)?;
            }
        }
    }
    Ok(found.into_iter().collect())
}
