//! Values of several types as lists of elements, for SORT, DUMP and RESTORE.

use super::Call;
use super::members::{all_members, check_bytes};
use super::sorted_set::{decode_score, encode_score};
use crate::failure::CommandResult;
use crate::store::{MemberRange, Object, ValueType};

/// Index of the first element of a new list.
const FIRST_INDEX: u64 = 1 << 63;
/// First byte of the records of a sorted set that find a score.
const BY_MEMBER: &[u8] = &[0];
/// First byte of the records of a sorted set in the order of the scores.
const BY_SCORE: &[u8] = &[1];
/// Size of a score, in bytes.
const SCORE_LEN: usize = 8;
/// Number of members up to which Redis uses its compact encoding of sorted sets.
const MAX_COMPACT_MEMBERS: u64 = 128;
/// Length of a member up to which Redis uses its compact encoding of sorted sets, in bytes.
const MAX_COMPACT_LEN: usize = 64;

/// Returns the elements of a set, a list or a sorted set in order.
pub(super) fn elements(call: &mut Call<'_>, object: &Object) -> CommandResult<Vec<Vec<u8>>> {
    if object.value_type == ValueType::SortedSet {
        return Ok(scored_members(call, object)?.into_iter().map(|(member, _)| member).collect());
    }
    let members = all_members(call, object, &MemberRange::all())?;
    let is_list = object.value_type == ValueType::List;
    Ok(members.into_iter().map(|(suffix, value)| if is_list { value } else { suffix }).collect())
}

/// Returns the members of a sorted set with their scores, in order.
pub(super) fn scored_members(call: &mut Call<'_>, object: &Object) -> CommandResult<Vec<(Vec<u8>, f64)>> {
    let members = all_members(call, object, &MemberRange::prefix(BY_SCORE))?;
    Ok(members.iter().filter_map(|(suffix, _)| split_suffix(suffix)).collect())
}

/// Returns the member and the score of a record in the order of the scores.
fn split_suffix(suffix: &[u8]) -> Option<(Vec<u8>, f64)> {
    let (score, member) = suffix.strip_prefix(BY_SCORE)?.split_first_chunk::<SCORE_LEN>()?;
    Some((member.to_vec(), decode_score(score)?))
}

/// Creates a list. No key names it yet.
pub(super) fn new_list<'e>(
    call: &mut Call<'_>,
    elements: impl Iterator<Item = &'e [u8]>,
) -> CommandResult<Object> {
    let mut list = call.view.create_object(ValueType::List)?;
    list.fields[0] = FIRST_INDEX;
    let mut bytes = 0;
    for element in elements {
        bytes += element.len() + SCORE_LEN;
        check_bytes(bytes)?;
        call.view.put_member(&list, &(FIRST_INDEX + list.count).to_be_bytes(), element)?;
        list.count += 1;
    }
    Ok(list)
}

/// Creates a sorted set of different members. No key names it yet.
pub(super) fn new_sorted_set(call: &mut Call<'_>, members: &[(Vec<u8>, f64)]) -> CommandResult<Object> {
    let mut set = call.view.create_object(ValueType::SortedSet)?;
    for (member, score) in members {
        let score = encode_score(*score);
        call.view.put_member(&set, &[BY_MEMBER, member].concat(), &score)?;
        call.view.put_member(&set, &[BY_SCORE, &score, member].concat(), b"")?;
        set.is_large |= member.len() > MAX_COMPACT_LEN;
    }
    set.count = members.len() as u64;
    set.is_large |= set.count > MAX_COMPACT_MEMBERS;
    Ok(set)
}
