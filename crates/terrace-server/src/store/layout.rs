//! The two layouts: records of Redis keys as entries of the database.
//!
//! ```text
//!             key of the entry                value of the entry
//!   raw       key                             value
//!   typed     01 space:2 key                  header [expiry ms:8] value
//!             02 ms:8 space:2 key             (empty)
//!             03 object:8                     type:1
//!             03 ff space:2                   (empty)
//!             04 number:8                     ms:8 position of a scan, in a shared store
//! ```
//!
//! `object.rs` describes the values and the further records of types other than strings.
//!
//! Integers are big-endian. `space` is the namespace of a Redis database. The header is one byte:
//! the type in the lower four bits, and 80 if an expiry follows. `docs/format/serve.md` describes
//! the format.

/// Number of Redis databases in the typed layout.
pub(crate) const DATABASES: usize = 16;

/// First byte of the records of keys.
const KEY: u8 = 0x01;
/// First byte of the expiry index.
const EXPIRY: u8 = 0x02;
/// First byte of the garbage records.
const GARBAGE: u8 = 0x03;
/// First byte of the cursors of scans.
const CURSOR: u8 = 0x04;
/// First byte of the records of members. Those of a type begin with this byte or a later one.
const FIRST_MEMBER: u8 = 0x10;
/// First two bytes of the garbage records of namespaces.
const GARBAGE_SPACE: [u8; 2] = [0x03, 0xff];
/// Bit of a header with an expiry.
const HAS_EXPIRY: u8 = 0x80;
/// Bits of a header that hold the type.
const TYPE_BITS: u8 = 0x0f;
/// Size of an expiry, in bytes.
const EXPIRY_LEN: usize = 8;

/// Layout of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A Redis key is the key of the entry, and its value is the value of the entry.
    Raw,
    /// Entries have headers, so that keys have types, an expiry and a Redis database.
    Typed,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    String,
    Hash,
    Set,
    SortedSet,
    List,
    Stream,
}

/// Row of the table of types.
struct TypeRow {
    value_type: ValueType,
    /// Bits of the header. A code is never used for another type.
    code: u8,
    /// Name in replies.
    name: &'static str,
    /// First byte of the keys of the members.
    member_tag: u8,
    /// Number of integers after the flags of the object. None for strings.
    field_count: Option<usize>,
}

const fn type_row(
    value_type: ValueType,
    code: u8,
    name: &'static str,
    member_tag: u8,
    field_count: Option<usize>,
) -> TypeRow {
    TypeRow { value_type, code, name, member_tag, field_count }
}

/// Table of the types, in the order of [`ValueType`].
static TYPES: &[TypeRow] = &[
    type_row(ValueType::String, 1, "string", 0, None),
    type_row(ValueType::Hash, 2, "hash", 0x10, Some(0)),
    type_row(ValueType::Set, 3, "set", 0x11, Some(0)),
    type_row(ValueType::SortedSet, 4, "zset", 0x12, Some(0)),
    // Index of the first element.
    type_row(ValueType::List, 5, "list", 0x13, Some(1)),
    // Last ID, largest deleted ID and first ID, in two parts each; number of added entries.
    type_row(ValueType::Stream, 6, "stream", 0x14, Some(7)),
];

impl ValueType {
    /// All types that consist of many records.
    #[cfg(test)]
    pub(super) const OBJECTS: [ValueType; 5] =
        [ValueType::Hash, ValueType::Set, ValueType::SortedSet, ValueType::List, ValueType::Stream];

    fn row(self) -> &'static TypeRow {
        &TYPES[self as usize]
    }

    /// Name in replies.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// Bits of the header.
    pub(super) fn code(self) -> u8 {
        self.row().code
    }

    /// Returns the type with the bits `code`.
    pub(super) fn from_code(code: u8) -> Option<ValueType> {
        TYPES.iter().find(|row| row.code == code).map(|row| row.value_type)
    }

    /// First byte of the keys of the members.
    pub(super) fn member_tag(self) -> u8 {
        self.row().member_tag
    }

    /// Number of the integers that an object of the type has. None for strings.
    pub(super) fn field_count(self) -> Option<usize> {
        self.row().field_count
    }
}

/// Decoded header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) value_type: ValueType,
    /// Milliseconds since 1970 from which on the key does not exist.
    pub(crate) expires_at: Option<u64>,
    /// Number of bytes before the value.
    pub(crate) len: usize,
}

impl Layout {
    /// Name in options and replies.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Layout::Raw => "raw",
            Layout::Typed => "typed",
        }
    }

    /// Stores the key of the record of `key` in `record`.
    pub(crate) fn record_key(self, space: u16, key: &[u8], record: &mut Vec<u8>) {
        record.clear();
        self.append_record_key(space, key, record);
    }

    /// Appends the key of the record of `key` to `record`.
    pub(super) fn append_record_key(self, space: u16, key: &[u8], record: &mut Vec<u8>) {
        if self == Layout::Typed {
            let [high, low] = space.to_be_bytes();
            record.extend_from_slice(&[KEY, high, low]);
        }
        record.extend_from_slice(key);
    }

    /// Length of the record's key before the Redis key.
    pub(crate) fn prefix_len(self) -> usize {
        match self {
            Layout::Raw => 0,
            Layout::Typed => 3,
        }
    }

    /// Stores the value of a record in `record`.
    pub(crate) fn record_value(self, header: &Header, value: &[u8], record: &mut Vec<u8>) {
        record.clear();
        if self == Layout::Typed {
            let flag = if header.expires_at.is_some() { HAS_EXPIRY } else { 0 };
            record.push(header.value_type.code() | flag);
            if let Some(at) = header.expires_at {
                record.extend_from_slice(&at.to_be_bytes());
            }
        }
        record.extend_from_slice(value);
    }

    /// Returns the header of a stored value, or None if it is damaged or of another version.
    pub(crate) fn header(self, stored: &[u8]) -> Option<Header> {
        if self == Layout::Raw {
            return Some(Header::new(ValueType::String, None, 0));
        }
        let (first, rest) = stored.split_first()?;
        if first & !(HAS_EXPIRY | TYPE_BITS) != 0 {
            return None;
        }
        let value_type = ValueType::from_code(first & TYPE_BITS)?;
        if first & HAS_EXPIRY == 0 {
            return Some(Header::new(value_type, None, 1));
        }
        let expiry = rest.first_chunk::<EXPIRY_LEN>()?;
        Some(Header::new(value_type, Some(u64::from_be_bytes(*expiry)), 1 + EXPIRY_LEN))
    }
}

impl Header {
    pub(super) fn new(value_type: ValueType, expires_at: Option<u64>, len: usize) -> Header {
        Header { value_type, expires_at, len }
    }

    /// Header of a string.
    pub(crate) fn string(expires_at: Option<u64>) -> Header {
        Header::new(ValueType::String, expires_at, 0)
    }
}

/// Returns the key of the expiry index for the record `record_key` of the typed layout.
pub(crate) fn expiry_key(at: u64, record_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + EXPIRY_LEN + record_key.len());
    key.push(EXPIRY);
    key.extend_from_slice(&at.to_be_bytes());
    key.extend_from_slice(record_key.get(1..).unwrap_or_default());
    key
}

/// Returns the expiry of an index entry and the key of its record.
pub(crate) fn parse_expiry_key(entry: &[u8]) -> Option<(u64, Vec<u8>)> {
    let rest = entry.strip_prefix(&[EXPIRY])?;
    let (at, rest) = rest.split_first_chunk::<EXPIRY_LEN>()?;
    let mut record = vec![KEY];
    record.extend_from_slice(rest);
    (rest.len() >= 2).then(|| (u64::from_be_bytes(*at), record))
}

/// Returns the first key of the expiry index that is not before `at`.
pub(crate) fn expiry_bound(at: u64) -> Vec<u8> {
    [&[EXPIRY], &at.to_be_bytes()[..]].concat()
}

/// Returns the bounds of the records of `space`: the first key, and the key after the last one.
pub(crate) fn space_bounds(space: u16) -> (Vec<u8>, Vec<u8>) {
    let begin = [&[KEY], &space.to_be_bytes()[..]].concat();
    let end = match space.checked_add(1) {
        Some(next) => [&[KEY], &next.to_be_bytes()[..]].concat(),
        None => vec![KEY + 1],
    };
    (begin, end)
}

/// Returns the bounds of the records of all keys: the first possible key, and the key after the
/// last one.
pub(super) fn record_bounds() -> (Vec<u8>, Vec<u8>) {
    (vec![KEY], vec![KEY + 1])
}

/// Returns the namespace and the Redis key of a typed record.
pub(crate) fn parse_record_key(record: &[u8]) -> Option<(u16, &[u8])> {
    let (space, key) = record.strip_prefix(&[KEY])?.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*space), key))
}

/// Returns the key of the garbage record of `space`.
pub(crate) fn garbage_key(space: u16) -> Vec<u8> {
    [&GARBAGE_SPACE, &space.to_be_bytes()[..]].concat()
}

/// Returns the namespace of a garbage record.
pub(crate) fn parse_garbage_key(key: &[u8]) -> Option<u16> {
    let space = key.strip_prefix(&GARBAGE_SPACE)?;
    Some(u16::from_be_bytes(space.try_into().ok()?))
}

/// Returns the key of the garbage record of the object `number`.
pub(crate) fn object_garbage_key(number: u64) -> Vec<u8> {
    [&[GARBAGE], &number.to_be_bytes()[..]].concat()
}

/// Returns the object number of a garbage record.
pub(crate) fn parse_object_garbage_key(key: &[u8]) -> Option<u64> {
    let number = key.strip_prefix(&[GARBAGE])?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// Returns the bounds of the garbage records of objects.
pub(crate) fn object_garbage_bounds() -> (Vec<u8>, Vec<u8>) {
    (vec![GARBAGE], GARBAGE_SPACE.to_vec())
}

/// Returns the key of the cursor `number`.
pub(super) fn cursor_key(number: u64) -> Vec<u8> {
    [&[CURSOR], &number.to_be_bytes()[..]].concat()
}

/// Returns the bounds of the cursors.
pub(super) fn cursor_bounds() -> (Vec<u8>, Vec<u8>) {
    (vec![CURSOR], vec![CURSOR + 1])
}

/// Returns the value of a cursor that was created at `now_ms`.
pub(super) fn cursor_value(now_ms: u64, position: &[u8]) -> Vec<u8> {
    [&now_ms.to_be_bytes()[..], position].concat()
}

/// Returns the time of creation and the position of a cursor.
pub(super) fn parse_cursor_value(value: &[u8]) -> Option<(u64, &[u8])> {
    let (created, position) = value.split_first_chunk()?;
    Some((u64::from_be_bytes(*created), position))
}

/// True for a record that no writer changes without a record of a key, of the marker or of the map.
pub(super) fn is_guarded(record: &[u8]) -> bool {
    record.first().is_some_and(|first| *first > KEY)
}

/// Returns the number of the object that the member record `record` belongs to, or None for other
/// records.
pub(super) fn member_number(record: &[u8]) -> Option<u64> {
    let (first, rest) = record.split_first()?;
    let number = rest.first_chunk().filter(|_| *first >= FIRST_MEMBER)?;
    Some(u64::from_be_bytes(*number))
}

/// Prefix of the garbage records of namespaces.
pub(crate) fn garbage_prefix() -> &'static [u8] {
    &GARBAGE_SPACE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the entries of a typed string like `docs/format/serve.md`.
    fn entries(space: u16, key: &[u8], value: &[u8], expires_at: Option<u64>) -> Vec<String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
        let mut record_key = Vec::new();
        let mut stored = Vec::new();
        Layout::Typed.record_key(space, key, &mut record_key);
        Layout::Typed.record_value(&Header::string(expires_at), value, &mut stored);
        let mut lines = vec![format!("{}: {}", hex(&record_key).trim(), hex(&stored).trim())];
        lines.extend(expires_at.map(|at| format!("{}:", hex(&expiry_key(at, &record_key)).trim())));
        lines
    }

    #[test]
    fn example_of_the_format_document() {
        assert_eq!(entries(0, b"Bern", b"46.95", None), ["01 00 00 42 65 72 6e: 01 34 36 2e 39 35"]);
        assert_eq!(
            entries(2, b"Bern", b"46.95", Some(1_700_000_000_000)),
            [
                "01 00 02 42 65 72 6e: 81 00 00 01 8b cf e5 68 00 34 36 2e 39 35",
                "02 00 00 01 8b cf e5 68 00 00 02 42 65 72 6e:",
            ]
        );
    }

    #[test]
    fn index_entry_names_its_record() {
        let mut record = Vec::new();
        Layout::Typed.record_key(7, b"Chur", &mut record);
        assert_eq!(parse_expiry_key(&expiry_key(9, &record)), Some((9, record)));
        for damaged in [&b"\x02"[..], b"\x02\0\0\0\0\0\0\0\x09", b"\x01\0\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(parse_expiry_key(damaged), None);
        }
    }

    #[test]
    fn damaged_headers() {
        for damaged in [&b""[..], b"\x00", b"\x07", b"\x41a", b"\x81\0\0\0\0\0\0\0"] {
            assert_eq!(Layout::Typed.header(damaged), None);
        }
    }

    #[test]
    fn table_of_types() {
        for (index, row) in TYPES.iter().enumerate() {
            assert_eq!(row.value_type as usize, index);
            assert_eq!(ValueType::from_code(row.code), Some(row.value_type));
        }
        assert_eq!(parse_object_garbage_key(&object_garbage_key(513)), Some(513));
        assert_eq!(parse_object_garbage_key(&garbage_key(513)), None);
    }

    #[test]
    fn records_that_others_stand_for() {
        assert!(!is_guarded(b"\0terrace.serve") && !is_guarded(b"\x01\0\0Bern") && !is_guarded(b""));
        assert!(is_guarded(b"\x03\xff\0\0") && is_guarded(b"\x10\0\0\0\0\0\0\0\x07field"));
        assert_eq!(member_number(b"\x14\0\0\0\0\0\0\x01\x02x"), Some(258));
        assert_eq!([member_number(b"\x03\0\0\0\0\0\0\x01\x02"), member_number(b"\x10\0")], [None, None]);
    }

    #[test]
    fn cursors() {
        let (begin, end) = cursor_bounds();
        assert!(begin < cursor_key(0) && cursor_key(u64::MAX) < end);
        assert_eq!(parse_cursor_value(&cursor_value(7, b"Bern")), Some((7, &b"Bern"[..])));
        assert_eq!(parse_cursor_value(b"1234567"), None);
    }

    #[test]
    fn bounds_of_namespaces() {
        assert_eq!(space_bounds(0xff), (vec![1, 0, 0xff], vec![1, 1, 0]));
        assert_eq!(space_bounds(0xffff), (vec![1, 0xff, 0xff], vec![2]));
        assert_eq!(parse_garbage_key(&garbage_key(513)), Some(513));
    }
}
