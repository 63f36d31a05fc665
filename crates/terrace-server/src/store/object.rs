//! Objects: values that consist of many records.
//!
//! ```text
//!   01 space:2 key          header [expiry:8] object:8 count:8 flags:1 fields
//!   10..14 object:8 ..      records of the members
//! ```
//!
//! The record of the key names the object by its number. Therefore RENAME and DEL change one
//! record, whatever the number of members.

use super::layout::{Header, ValueType};

/// Maximum number of fields of a type.
pub(crate) const MAX_FIELDS: usize = 7;
/// Flag of an object that Redis would not store in its compact encoding any more.
const IS_LARGE: u8 = 1;
/// Size of the number, the count and the flags, in bytes.
const FIXED_LEN: usize = 17;
/// Number of members that no directory reaches. Sums of a few counts do not overflow below it.
const MAX_COUNT: u64 = 1 << 48;
/// Size of the prefix of a member record's key, in bytes.
pub(crate) const MEMBER_PREFIX: usize = 9;

/// Decoded object record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) value_type: ValueType,
    /// Number of the object. No two objects of a directory have the same.
    pub(crate) number: u64,
    /// Number of members.
    pub(crate) count: u64,
    /// True if Redis would not store it in its compact encoding. It stays true.
    pub(crate) is_large: bool,
    /// Numbers that the type needs, see [`ValueType::field_count`].
    pub(crate) fields: [u64; MAX_FIELDS],
    /// Milliseconds since 1970 from which on the key does not exist.
    pub(crate) expires_at: Option<u64>,
    /// True if no record names the object yet.
    pub(crate) is_new: bool,
}

impl Object {
    /// Object without members and without a record.
    pub(super) fn new(value_type: ValueType, number: u64) -> Object {
        Object {
            value_type,
            number,
            count: 0,
            is_large: false,
            fields: [0; MAX_FIELDS],
            expires_at: None,
            is_new: true,
        }
    }

    /// True if the key of the object is deleted: only a stream may be without members.
    pub(super) fn is_gone(&self) -> bool {
        self.count == 0 && self.value_type != ValueType::Stream
    }

    /// True if an object of the server can have its number of members. Commands compute with it.
    pub(super) fn has_possible_count(&self) -> bool {
        !self.is_gone() && self.count <= MAX_COUNT
    }

    /// Decodes the part of a record after its header.
    pub(super) fn decode(header: &Header, value: &[u8]) -> Option<Object> {
        let value_type = header.value_type;
        let fields_len = 8 * value_type.field_count()?;
        if value.len() != FIXED_LEN + fields_len || value[FIXED_LEN - 1] & !IS_LARGE != 0 {
            return None;
        }
        let integer = |at: usize| value.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let mut fields = [0; MAX_FIELDS];
        for (index, field) in fields.iter_mut().enumerate().take(fields_len / 8) {
            *field = integer(FIXED_LEN + 8 * index)?;
        }
        Some(Object {
            value_type,
            number: integer(0)?,
            count: integer(8)?,
            is_large: value[FIXED_LEN - 1] & IS_LARGE != 0,
            fields,
            expires_at: header.expires_at,
            is_new: false,
        })
    }

    /// Returns the part of the record after its header.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(FIXED_LEN + 8 * MAX_FIELDS);
        value.extend_from_slice(&self.number.to_be_bytes());
        value.extend_from_slice(&self.count.to_be_bytes());
        value.push(if self.is_large { IS_LARGE } else { 0 });
        for field in &self.fields[..self.value_type.field_count().unwrap_or(0)] {
            value.extend_from_slice(&field.to_be_bytes());
        }
        value
    }

    /// Stores the key of a member record in `record`.
    pub(super) fn member_key(&self, suffix: &[u8], record: &mut Vec<u8>) {
        record.clear();
        record.extend(member_prefix(self.value_type, self.number));
        record.extend_from_slice(suffix);
    }
}

/// Returns the first bytes of the keys of all member records of an object.
pub(super) fn member_prefix(value_type: ValueType, number: u64) -> [u8; MEMBER_PREFIX] {
    let mut prefix = [0; MEMBER_PREFIX];
    prefix[0] = value_type.member_tag();
    prefix[1..].copy_from_slice(&number.to_be_bytes());
    prefix
}

/// Returns the bounds of the member records of an object: the first key, and the key after the
/// last one.
pub(super) fn member_bounds(value_type: ValueType, number: u64) -> (Vec<u8>, Vec<u8>) {
    // The number is never the maximum: an allocation fails before.
    (member_prefix(value_type, number).to_vec(), member_prefix(value_type, number.saturating_add(1)).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value_type: ValueType) -> Header {
        Header { value_type, expires_at: Some(7), len: 9 }
    }

    #[test]
    fn every_type_of_object() {
        for value_type in ValueType::OBJECTS {
            let mut object = Object::new(value_type, 77);
            object.count = 3;
            object.is_large = true;
            for (index, field) in object.fields.iter_mut().enumerate().take(value_type.field_count().unwrap())
            {
                *field = index as u64 + 5;
            }
            let decoded = Object::decode(&header(value_type), &object.encode()).unwrap();
            assert_eq!(decoded, Object { expires_at: Some(7), is_new: false, ..object });
        }
    }

    #[test]
    fn damaged_objects() {
        let stored = Object::new(ValueType::List, 1).encode();
        for len in 0..stored.len() {
            assert_eq!(Object::decode(&header(ValueType::List), &stored[..len]), None);
        }
        let mut unknown = stored.clone();
        unknown[16] = 2;
        assert_eq!(Object::decode(&header(ValueType::List), &unknown), None);
        assert_eq!(Object::decode(&header(ValueType::String), &stored), None);
    }
}
