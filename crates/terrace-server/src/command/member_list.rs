//! Members of an object of any type, in the order of their records.

use super::{sorted_set, stream};
use crate::failure::{CommandResult, Failure};
use crate::store::{MemberRange, Object, ValueType, View};

/// Value beside the name of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MemberValue {
    None,
    Bytes(Vec<u8>),
    Score(f64),
}

/// Member with its name and value.
pub(crate) type ListedMember = (Vec<u8>, MemberValue);

/// Returns the first `count` members of `object` from the record `begin` on, and the record after
/// them. The members have about `max_bytes` bytes at most.
///
/// # Errors
///
/// A record is damaged.
pub(crate) fn list_members(
    view: &mut View<'_>,
    object: &Object,
    begin: Option<Vec<u8>>,
    count: usize,
    max_bytes: usize,
) -> CommandResult<(Vec<ListedMember>, Option<Vec<u8>>)> {
    let mut range = match object.value_type {
        ValueType::SortedSet => MemberRange::prefix(sorted_set::ORDERED_MEMBERS),
        ValueType::Stream => MemberRange::prefix(stream::ENTRIES),
        _ => MemberRange::all(),
    };
    if begin.is_some() {
        range.begin = begin.max(range.begin);
    }
    let mut scan = view.members(object, &range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some((suffix, value)) = scan.next()? {
        if found.len() == count || bytes > max_bytes {
            return Ok((found, Some(suffix.to_vec())));
        }
        bytes += suffix.len() + value.len();
        found.push(member(object, suffix, value).ok_or(Failure::reply("ERR damaged: a member's record"))?);
    }
    Ok((found, None))
}

/// Decodes the record of a member.
fn member(object: &Object, suffix: &[u8], value: &[u8]) -> Option<ListedMember> {
    Some(match object.value_type {
        ValueType::Hash => (suffix.to_vec(), MemberValue::Bytes(value.to_vec())),
        ValueType::SortedSet => {
            let (score, name) = suffix.get(1..)?.split_first_chunk::<8>()?;
            (name.to_vec(), MemberValue::Score(sorted_set::decode_score(score)?))
        }
        ValueType::List => {
            let index = u64::from_be_bytes(suffix.try_into().ok()?);
            let position = index.wrapping_sub(object.fields[0]).to_string();
            (position.into_bytes(), MemberValue::Bytes(value.to_vec()))
        }
        ValueType::Stream => {
            let id = stream::StreamId::from_bytes(suffix.get(1..)?)?;
            let fields = stream::decode_entry(value).ok()?;
            (id.to_string().into_bytes(), MemberValue::Bytes(fields.join(&b' ')))
        }
        ValueType::Set | ValueType::String => (suffix.to_vec(), MemberValue::None),
    })
}
