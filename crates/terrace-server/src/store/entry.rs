//! Values as a command reads them.

use terrace::PinnedValue;

use super::layout::{Header, ValueType};
use super::object::Object;
use crate::failure::{CommandResult, Failure};

/// Bytes of an entry of the database.
#[derive(Debug)]
pub(crate) enum StoredValue {
    Pinned(PinnedValue),
    Copied(Vec<u8>),
}

impl std::ops::Deref for StoredValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            StoredValue::Pinned(value) => value,
            StoredValue::Copied(value) => value,
        }
    }
}

/// Stored value of a key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) stored: StoredValue,
    pub(crate) header: Header,
}

impl Entry {
    /// Bytes after the header.
    pub(crate) fn value(&self) -> &[u8] {
        self.stored.get(self.header.len..).unwrap_or_default()
    }

    /// Returns the string.
    ///
    /// # Errors
    ///
    /// The value has another type.
    pub(crate) fn string(&self) -> CommandResult<&[u8]> {
        match self.header.value_type {
            ValueType::String => Ok(self.value()),
            _ => Err(Failure::WRONG_TYPE),
        }
    }

    /// Returns the object, or None for a string and for a damaged record.
    pub(crate) fn object(&self) -> Option<Object> {
        Object::decode(&self.header, self.value()).filter(Object::has_possible_count)
    }

    /// Number of the object, whose other fields may be damaged. None for a string.
    pub(super) fn object_number(&self) -> Option<u64> {
        Object::decode(&self.header, self.value()).map(|object| object.number)
    }

    /// Milliseconds since 1970 from which on the key does not exist.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.header.expires_at
    }
}

/// Entry that a write replaces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Replaced<'e> {
    /// The command has not read it. A stale entry of the expiry index may remain, which the expiry
    /// job removes.
    Unread,
    /// The entry, or None if there was none or it had expired.
    Read(Option<&'e Entry>),
    /// A string with this expiry.
    String(Option<u64>),
}
