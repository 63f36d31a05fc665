//! Plain encodings of values.

use super::stream::StreamValue;

/// Types of values in a payload.
pub(super) mod value_type {
    pub(in super::super) const STRING: u8 = 0;
    pub(in super::super) const LIST: u8 = 1;
    pub(in super::super) const SET: u8 = 2;
    pub(in super::super) const SORTED_SET_TEXT: u8 = 3;
    pub(in super::super) const HASH: u8 = 4;
    pub(in super::super) const SORTED_SET: u8 = 5;
    pub(in super::super) const LIST_ZIPLIST: u8 = 10;
    pub(in super::super) const SET_INTSET: u8 = 11;
    pub(in super::super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(in super::super) const HASH_ZIPLIST: u8 = 13;
    pub(in super::super) const LIST_QUICKLIST: u8 = 14;
    pub(in super::super) const STREAM: u8 = 15;
    pub(in super::super) const HASH_LISTPACK: u8 = 16;
    pub(in super::super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(in super::super) const LIST_QUICKLIST_2: u8 = 18;
    pub(in super::super) const STREAM_2: u8 = 19;
}

pub(super) fn put_len(payload: &mut Vec<u8>, len: usize) {
    match len {
        0..=0x3f => payload.push(len as u8),
        0x40..=0x3fff => payload.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            payload.push(0x80);
            payload.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            payload.push(0x81);
            payload.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

pub(super) fn put_string(payload: &mut Vec<u8>, text: &[u8]) {
    put_len(payload, text.len());
    payload.extend_from_slice(text);
}

/// Encodes a string.
pub(super) fn string(value: &[u8]) -> Vec<u8> {
    let mut payload = vec![value_type::STRING];
    put_string(&mut payload, value);
    payload
}

/// Encodes a list.
pub(super) fn list(elements: &[Vec<u8>]) -> Vec<u8> {
    strings(value_type::LIST, elements)
}

/// Encodes a set.
pub(super) fn set(members: &[Vec<u8>]) -> Vec<u8> {
    strings(value_type::SET, members)
}

fn strings(kind: u8, items: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![kind];
    put_len(&mut payload, items.len());
    items.iter().for_each(|item| put_string(&mut payload, item));
    payload
}

/// Encodes a hash.
pub(super) fn hash(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut payload = vec![value_type::HASH];
    put_len(&mut payload, fields.len());
    for (field, value) in fields {
        put_string(&mut payload, field);
        put_string(&mut payload, value);
    }
    payload
}

/// Encodes a sorted set.
pub(super) fn sorted_set(members: &[(Vec<u8>, f64)]) -> Vec<u8> {
    let mut payload = vec![value_type::SORTED_SET];
    put_len(&mut payload, members.len());
    for (member, score) in members {
        put_string(&mut payload, member);
        payload.extend_from_slice(&score.to_le_bytes());
    }
    payload
}

/// Encodes a stream.
pub(super) fn stream(value: &StreamValue) -> Vec<u8> {
    let mut payload = vec![value_type::STREAM_2];
    super::stream::encode(&mut payload, value);
    payload
}
