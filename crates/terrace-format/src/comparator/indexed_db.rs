//! Key order of Chromium's IndexedDB databases.
//!
//! ```text
//!   sizes            : 3 bits, 3 bits, 2 bits: bytes of each id, minus one
//!   ids              : database, object store, index (little-endian)
//!   then, by the ids : 0 * *     type byte, fields        global metadata
//!                      d 0 *     type byte, fields        metadata of a database
//!                      d s 1..3  value                    a record, its existence entry, its blobs
//!                      d s 30..  value, sequence, value   an index entry with its record
//!
//!   value:  0          above all values       int:  varint64
//!           1 text     int units, UTF-16BE
//!           2 date     double, LE
//!           3 number   double, LE
//!           4 array    int elements, values
//!           5          below all values
//!           6 binary   int bytes, bytes
//! ```
//!
//! The comparator splits keys into tokens and compares token by token, so it orders arbitrary bytes
//! totally. From the first invalid token on, the rest of a key is one token above all others. Keys
//! that Chromium compares as equal are equal here too, such as keys that differ only after their
//! last field.
//!
//! It is for reading: it builds no keys and shortens none. Sources: `indexed_db_leveldb_coding.cc`
//! and `leveldb_coding_scheme.md` in `content/browser/indexed_db` of Chromium.

use std::cmp::Ordering;

use super::Comparator;
use crate::coding::get_varint64;

/// Chromium's order of IndexedDB keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexedDb;

impl Comparator for IndexedDb {
    fn name(&self) -> &str {
        "idb_cmp1"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        KeyTokens::new(a).cmp(KeyTokens::new(b))
    }
}

/// Unit of comparison. The order of the variants is the order of values in IndexedDB. The end of an
/// array sorts before all elements, since a prefix of an array is below the array.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyToken<'a> {
    ArrayEnd,
    Ids(u64, u64, u64),
    Int(u64),
    Lowest,
    Number(u64),
    Date(u64),
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Array,
    Highest,
    Invalid(&'a [u8]),
}

/// Next field of a key.
#[derive(Clone, Copy)]
enum KeyField {
    Ids,
    GlobalType,
    DatabaseType,
    Byte,
    Int,
    Text,
    Value,
    /// Sequence number of an index entry. It is stored before the primary key and compared after
    /// it.
    Sequence,
    DeferredSequence,
    /// All remaining bytes.
    Rest,
}

use KeyField::{Byte, DatabaseType, DeferredSequence, GlobalType, Ids, Int, Rest, Sequence, Text, Value};

fn fields_by_ids(database: u64, store: u64, index: u64) -> &'static [KeyField] {
    match (database, store, index) {
        (0, _, _) => &[GlobalType],
        (_, 0, _) => &[DatabaseType],
        (_, _, 1..=3) => &[Value],
        (_, _, 30..) => &[Value, Sequence, Value, DeferredSequence],
        _ => &[Rest],
    }
}

fn fields_by_global_type(kind: u8) -> &'static [KeyField] {
    match kind {
        0..=6 => &[],         // Schema version, last database id, data version, journals, times.
        100 => &[Int],        // Free database id.
        201 => &[Text, Text], // Origin, database name.
        _ => &[Rest],         // Chromium compares 50, scopes, bytewise, too.
    }
}

fn fields_by_database_type(kind: u8) -> &'static [KeyField] {
    match kind {
        0..=5 => &[],             // Names, versions, last ids.
        50 => &[Int, Byte],       // Object store, property.
        100 => &[Int, Int, Byte], // Object store, index, property.
        150 => &[Int],            // Free object store id.
        151 => &[Int, Int],       // Object store, free index id.
        200 => &[Text],           // Name of an object store.
        201 => &[Int, Text],      // Object store, name of an index.
        _ => &[Rest],
    }
}

/// Iterator over the tokens of a key. It ends with the key: a prefix sorts before longer keys.
struct KeyTokens<'a> {
    rest: &'a [u8],
    fields: &'static [KeyField],
    /// Number of remaining elements of each open array.
    arrays: Vec<u64>,
    sequence: u64,
}

impl<'a> Iterator for KeyTokens<'a> {
    type Item = KeyToken<'a>;

    fn next(&mut self) -> Option<KeyToken<'a>> {
        if let Some(remaining) = self.arrays.last_mut() {
            let Some(fewer) = remaining.checked_sub(1) else {
                self.arrays.pop();
                return Some(KeyToken::ArrayEnd);
            };
            *remaining = fewer;
            return Some(self.token_or_invalid(Value));
        }
        let (&field, later) = self.fields.split_first()?;
        if self.rest.is_empty() && !matches!(field, DeferredSequence) {
            self.fields = &[];
            return None;
        }
        self.fields = later;
        match (field, self.token_or_invalid(field)) {
            (Sequence, KeyToken::Int(sequence)) => {
                self.sequence = sequence;
                self.next()
            }
            (_, token) => Some(token),
        }
    }
}

impl<'a> KeyTokens<'a> {
    fn new(key: &'a [u8]) -> KeyTokens<'a> {
        KeyTokens { rest: key, fields: &[Ids], arrays: Vec::new(), sequence: 0 }
    }

    fn token_or_invalid(&mut self, field: KeyField) -> KeyToken<'a> {
        let start = self.rest;
        self.parse_field(field).unwrap_or_else(|| {
            self.fields = &[];
            self.arrays.clear();
            KeyToken::Invalid(start)
        })
    }

    fn parse_field(&mut self, field: KeyField) -> Option<KeyToken<'a>> {
        match field {
            Ids => self.ids(),
            GlobalType => {
                let kind = self.byte()?;
                self.fields = fields_by_global_type(kind);
                Some(KeyToken::Int(kind.into()))
            }
            DatabaseType => {
                let kind = self.byte()?;
                self.fields = fields_by_database_type(kind);
                Some(KeyToken::Int(kind.into()))
            }
            Byte => Some(KeyToken::Int(self.byte()?.into())),
            Int | Sequence => self.varint().map(KeyToken::Int),
            Text => self.text(),
            Value => self.value(),
            DeferredSequence => Some(KeyToken::Int(self.sequence)),
            Rest => self.take_bytes(self.rest.len() as u64).map(KeyToken::Binary),
        }
    }

    fn ids(&mut self) -> Option<KeyToken<'a>> {
        let sizes = self.byte()?;
        let database = self.id((sizes >> 5) + 1)?;
        let store = self.id((sizes >> 2 & 7) + 1)?;
        let index = self.id((sizes & 3) + 1)?;
        self.fields = fields_by_ids(database, store, index);
        Some(KeyToken::Ids(database, store, index))
    }

    /// Decodes an id of `size` bytes, at most 8.
    fn id(&mut self, size: u8) -> Option<u64> {
        let bytes = self.take_bytes(size.into())?;
        Some(bytes.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }

    fn value(&mut self) -> Option<KeyToken<'a>> {
        match self.byte()? {
            0 => Some(KeyToken::Highest),
            1 => self.text(),
            2 => self.double().map(KeyToken::Date),
            3 => self.double().map(KeyToken::Number),
            4 => {
                let len = self.varint()?;
                self.arrays.push(len);
                Some(KeyToken::Array)
            }
            5 => Some(KeyToken::Lowest),
            6 => {
                let len = self.varint()?;
                self.take_bytes(len).map(KeyToken::Binary)
            }
            _ => None,
        }
    }

    /// Decodes a string. Big-endian UTF-16 units are in bytewise order.
    fn text(&mut self) -> Option<KeyToken<'a>> {
        let units = self.varint()?;
        self.take_bytes(units.checked_mul(2)?).map(KeyToken::Text)
    }

    /// Decodes a double into an integer with the same order. Negative values are inverted, and both
    /// zeros are equal. NaN, which no page can store, sorts first or last.
    fn double(&mut self) -> Option<u64> {
        let value = f64::from_le_bytes(self.take_bytes(8)?.try_into().ok()?);
        let bits = if value == 0.0 { 0 } else { value.to_bits() };
        Some(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, len) = get_varint64(self.rest)?;
        self.rest = &self.rest[len..];
        Some(value)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take_bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests;
