//! Fields of an entry: in a record and in a reply.
//!
//! ```text
//!   varint length, field, varint length, value, ..
//! ```

use terrace_format::coding::{get_varint32, put_length_prefixed_slice};

use super::StreamId;
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;

/// Encodes fields and values.
pub(in crate::command) fn encode<'f>(parts: impl Iterator<Item = &'f [u8]>) -> Vec<u8> {
    let mut value = Vec::new();
    // Arguments are smaller than 4 GiB.
    parts.for_each(|part| put_length_prefixed_slice(&mut value, part));
    value
}

/// Returns the fields and the values of a record.
///
/// # Errors
///
/// The record is damaged.
pub(in crate::command) fn decode(mut value: &[u8]) -> CommandResult<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !value.is_empty() {
        let (part, rest) = split_part(value).ok_or_else(damaged)?;
        parts.push(part);
        value = rest;
    }
    if parts.is_empty() || parts.len() % 2 == 1 {
        return Err(damaged());
    }
    Ok(parts)
}

fn split_part(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, size) = get_varint32(value)?;
    value.get(size..)?.split_at_checked(len as usize)
}

fn damaged() -> Failure {
    Failure::reply("ERR damaged: an entry of the stream has no valid fields")
}

/// Appends an entry: its ID and its fields with their values.
pub(super) fn reply(reply: &mut Reply, id: StreamId, value: &[u8]) -> CommandResult {
    let parts = decode(value)?;
    reply.array(2);
    reply_id(reply, id);
    reply.bulks(&parts);
    Ok(())
}

/// Appends an ID.
pub(super) fn reply_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(id.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_record() {
        let long = vec![b'x'; 300];
        let parts = [&b"field"[..], b"", &long, b"\0"];
        let value = encode(parts.into_iter());
        assert_eq!(decode(&value).unwrap(), parts);
        for len in 0..value.len() {
            assert!(decode(&value[..len]).is_err() || len == 7, "{len} bytes");
        }
    }
}
