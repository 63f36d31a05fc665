//! The order of keys in the databases that Chromium keeps for web pages (IndexedDB).
//!
//! ```text
//!   sizes            : 3 bits, 3 bits, 2 bits: bytes of each id, less one
//!   ids              : database, object store, index (little-endian)
//!   then, by the ids : 0 * *     type byte, fields        about everything
//!                      d 0 *     type byte, fields        about a database
//!                      d s 1..3  value                    a record, its mark of existence, its blobs
//!                      d s 30..  value, sequence, value   an entry of an index, its record
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
//! A key is read as a row of tokens, and rows are compared token by token; so any bytes have a place in one total
//! order. Where a key stops making sense the rest of it is one token, above all others. Keys that Chromium itself
//! compares as equal, such as those that differ only behind their last field, are equal here.
//!
//! For reading: it makes no keys and shortens none. Source: `indexed_db_leveldb_coding.cc` and
//! `leveldb_coding_scheme.md` in `content/browser/indexed_db` of Chromium.

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
        Tokens::of(a).cmp(Tokens::of(b))
    }
}

/// A part of a key that is compared at once. The order of the kinds is that of the values in IndexedDB; the end of an
/// array is below them, since a shorter array is below a longer one that it begins.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token<'a> {
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
    Senseless(&'a [u8]),
}

/// What a key of some type has next.
#[derive(Clone, Copy)]
enum Field {
    Ids,
    GlobalType,
    DatabaseType,
    Byte,
    Int,
    Text,
    Value,
    /// The sequence number of an index entry counts only behind the value that follows it: read here, told there.
    Sequence,
    SequenceTold,
    /// All that is left, as it is.
    Rest,
}

use Field::{Byte, DatabaseType, GlobalType, Ids, Int, Rest, Sequence, SequenceTold, Text, Value};

fn fields_by_ids(database: u64, store: u64, index: u64) -> &'static [Field] {
    match (database, store, index) {
        (0, _, _) => &[GlobalType],
        (_, 0, _) => &[DatabaseType],
        (_, _, 1..=3) => &[Value],
        (_, _, 30..) => &[Value, Sequence, Value, SequenceTold],
        _ => &[Rest],
    }
}

fn fields_by_global_type(kind: u8) -> &'static [Field] {
    match kind {
        0..=6 => &[],         // schema version, last database id, data version, journals, times
        100 => &[Int],        // free database id
        201 => &[Text, Text], // origin, database name
        _ => &[Rest],         // 50, scopes, is compared as bytes by Chromium too
    }
}

fn fields_by_database_type(kind: u8) -> &'static [Field] {
    match kind {
        0..=5 => &[],             // names, versions, last ids
        50 => &[Int, Byte],       // object store, property
        100 => &[Int, Int, Byte], // object store, index, property
        150 => &[Int],            // free object store id
        151 => &[Int, Int],       // object store, free index id
        200 => &[Text],           // object store's name
        201 => &[Int, Text],      // object store, index's name
        _ => &[Rest],
    }
}

/// The tokens of a key. Ends early if the key does: a bare prefix is below all that it begins.
struct Tokens<'a> {
    rest: &'a [u8],
    fields: &'static [Field],
    /// The elements that are still to come, of each array that is open.
    arrays: Vec<u64>,
    sequence: u64,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some(left) = self.arrays.last_mut() {
            let Some(fewer) = left.checked_sub(1) else {
                self.arrays.pop();
                return Some(Token::ArrayEnd);
            };
            *left = fewer;
            return Some(self.token(Value));
        }
        let (&field, later) = self.fields.split_first()?;
        if self.rest.is_empty() && !matches!(field, SequenceTold) {
            self.fields = &[];
            return None;
        }
        self.fields = later;
        match (field, self.token(field)) {
            (Sequence, Token::Int(sequence)) => {
                self.sequence = sequence;
                self.next()
            }
            (_, token) => Some(token),
        }
    }
}

impl<'a> Tokens<'a> {
    fn of(key: &'a [u8]) -> Tokens<'a> {
        Tokens { rest: key, fields: &[Ids], arrays: Vec::new(), sequence: 0 }
    }

    fn token(&mut self, field: Field) -> Token<'a> {
        let start = self.rest;
        self.read(field).unwrap_or_else(|| {
            self.fields = &[];
            self.arrays.clear();
            Token::Senseless(start)
        })
    }

    fn read(&mut self, field: Field) -> Option<Token<'a>> {
        match field {
            Ids => self.ids(),
            GlobalType => {
                let kind = self.byte()?;
                self.fields = fields_by_global_type(kind);
                Some(Token::Int(kind.into()))
            }
            DatabaseType => {
                let kind = self.byte()?;
                self.fields = fields_by_database_type(kind);
                Some(Token::Int(kind.into()))
            }
            Byte => Some(Token::Int(self.byte()?.into())),
            Int | Sequence => self.varint().map(Token::Int),
            Text => self.text(),
            Value => self.value(),
            SequenceTold => Some(Token::Int(self.sequence)),
            Rest => self.take(self.rest.len() as u64).map(Token::Binary),
        }
    }

    fn ids(&mut self) -> Option<Token<'a>> {
        let sizes = self.byte()?;
        let database = self.id((sizes >> 5) + 1)?;
        let store = self.id((sizes >> 2 & 7) + 1)?;
        let index = self.id((sizes & 3) + 1)?;
        self.fields = fields_by_ids(database, store, index);
        Some(Token::Ids(database, store, index))
    }

    /// `size` is at most 8.
    fn id(&mut self, size: u8) -> Option<u64> {
        let bytes = self.take(size.into())?;
        Some(bytes.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }

    fn value(&mut self) -> Option<Token<'a>> {
        match self.byte()? {
            0 => Some(Token::Highest),
            1 => self.text(),
            2 => self.double().map(Token::Date),
            3 => self.double().map(Token::Number),
            4 => {
                let len = self.varint()?;
                self.arrays.push(len);
                Some(Token::Array)
            }
            5 => Some(Token::Lowest),
            6 => {
                let len = self.varint()?;
                self.take(len).map(Token::Binary)
            }
            _ => None,
        }
    }

    /// Big-endian units of UTF-16 have the order of their bytes.
    fn text(&mut self) -> Option<Token<'a>> {
        let units = self.varint()?;
        self.take(units.checked_mul(2)?).map(Token::Text)
    }

    /// A number whose order is that of the double: negative ones turned over, positive ones above them, both zeros
    /// the same. NaN, which no page can store, gets a place at the ends.
    fn double(&mut self) -> Option<u64> {
        let value = f64::from_le_bytes(self.take(8)?.try_into().ok()?);
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

    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::put_varint64;
    use proptest::prelude::*;

    fn ids(database: u8, store: u8, index: u8) -> Vec<u8> {
        vec![0, database, store, index]
    }

    fn text(text: &str) -> Vec<u8> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut bytes = Vec::new();
        put_varint64(&mut bytes, units.len() as u64);
        bytes.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
        bytes
    }

    fn string(value: &str) -> Vec<u8> {
        [vec![1], text(value)].concat()
    }

    fn date(value: f64) -> Vec<u8> {
        [vec![2], value.to_le_bytes().to_vec()].concat()
    }

    fn number(value: f64) -> Vec<u8> {
        [vec![3], value.to_le_bytes().to_vec()].concat()
    }

    fn array(elements: &[Vec<u8>]) -> Vec<u8> {
        [vec![4, elements.len() as u8], elements.concat()].concat()
    }

    fn binary(bytes: &[u8]) -> Vec<u8> {
        [&[6, bytes.len() as u8], bytes].concat()
    }

    /// Keys of one object store with these values.
    fn records(values: &[Vec<u8>]) -> Vec<Vec<u8>> {
        values.iter().map(|value| [ids(1, 1, 1), value.clone()].concat()).collect()
    }

    #[track_caller]
    fn check_rising(keys: &[Vec<u8>]) {
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(IndexedDb.compare(a, b), i.cmp(&j), "{a:x?} and {b:x?}, rows {i} and {j}");
            }
        }
    }

    #[track_caller]
    fn check_equal(a: &[u8], b: &[u8]) {
        assert_eq!(IndexedDb.compare(a, b), Ordering::Equal, "{a:x?} and {b:x?}");
    }

    #[test]
    fn values() {
        const LOWEST: u8 = 5;
        const HIGHEST: u8 = 0;
        check_rising(&records(&[
            vec![LOWEST],
            number(f64::NEG_INFINITY),
            number(-2.5),
            number(-1e-300),
            number(0.0),
            number(3.25),
            number(1e300),
            number(f64::INFINITY),
            date(-1.0),
            date(1e12),
            string(""),
            string("a"),
            string("aa"),
            string("b"),
            string("\u{ff}"),
            string("\u{100}"),
            binary(b""),
            binary(b"\0"),
            binary(b"\0\0"),
            binary(b"\xff"),
            array(&[]),
            array(&[number(1.0)]),
            array(&[number(1.0), number(2.0)]),
            array(&[number(1.0), string("x")]),
            array(&[number(2.0)]),
            array(&[array(&[]), number(1.0)]),
            array(&[array(&[number(5.0)])]),
            vec![HIGHEST],
        ]));
    }

    #[test]
    fn an_array_inside_ends_before_the_next_element() {
        check_rising(&records(&[
            array(&[array(&[number(1.0)]), number(9.0)]),
            array(&[array(&[number(1.0), number(0.0)]), number(0.0)]),
        ]));
    }

    #[test]
    fn ids_are_numbers_whatever_their_size() {
        let wide = |index: u32| [&[0b001_010_11, 1, 0, 1, 0, 0], &index.to_le_bytes()[..], &[5]].concat();
        check_rising(&[
            [ids(0, 0, 0), vec![0]].concat(),
            [ids(1, 0, 0), vec![0]].concat(),
            [ids(1, 1, 1), vec![5]].concat(),
            [ids(1, 1, 2), vec![5]].concat(),
            [ids(1, 1, 3), vec![5]].concat(),
            [ids(1, 1, 30), vec![5]].concat(),
            wide(31),
            [ids(1, 1, 255), vec![5]].concat(),
            wide(256),
            [ids(1, 2, 1), vec![5]].concat(),
            [ids(2, 1, 1), vec![5]].concat(),
        ]);
        check_equal(&wide(30), &[ids(1, 1, 30), vec![5]].concat());
    }

    #[test]
    fn about_everything() {
        let key = |rest: &[u8]| [&ids(0, 0, 0), rest].concat();
        check_rising(&[
            key(&[]),
            key(&[0]),
            key(&[6]),
            key(b"\x32"),
            key(b"\x32abc"),
            key(b"\x32b"),
            key(&[100, 0x05]),
            key(&[100, 0x80, 0x01]),
            key(&[&[201], &text("a")[..], &text("z")].concat()),
            key(&[&[201], &text("b")[..], &text("a")].concat()),
            key(&[&[201], &text("b")[..], &text("aa")].concat()),
        ]);
        check_equal(&key(&[3]), &key(&[3, 7]));
    }

    #[test]
    fn about_a_database() {
        let key = |rest: &[u8]| [&ids(1, 0, 0), rest].concat();
        check_rising(&[
            key(&[]),
            key(&[0]),
            key(&[5]),
            key(&[50, 1, 0]),
            key(&[50, 1, 255]),
            key(&[50, 0xac, 0x02, 0]),
            key(&[100, 1, 30, 1]),
            key(&[100, 1, 31, 0]),
            key(&[100, 2, 30, 0]),
            key(&[150, 1]),
            key(&[151, 1, 30]),
            key(&[151, 1, 31]),
            key(&[&[200], &text("a")[..]].concat()),
            key(&[&[200], &text("b")[..]].concat()),
            key(&[&[201, 1], &text("b")[..]].concat()),
            key(&[&[201, 2], &text("a")[..]].concat()),
        ]);
    }

    #[test]
    fn index_entries() {
        let key =
            |sequence: &[u8], primary: &[u8]| [&ids(1, 1, 30), &string("k")[..], sequence, primary].concat();
        check_rising(&[
            ids(1, 1, 30),
            key(&[], &[]),
            key(&[9], &number(1.0)),
            key(&[0x80, 0x01], &number(1.0)),
            key(&[0], &number(2.0)),
        ]);
        check_equal(&key(&[], &[]), &key(&[7], &[]));
    }

    #[test]
    fn zeros_are_one_number() {
        let keys = records(&[number(0.0), number(-0.0)]);
        check_equal(&keys[0], &keys[1]);
    }

    #[test]
    fn damaged_keys_come_behind_whole_ones() {
        let whole = records(&[array(&[number(1.0)]), vec![0]]);
        let array_cut_off = records(&[vec![4, 2, 5]]);
        check_rising(&[array_cut_off[0].clone(), whole[0].clone(), whole[1].clone()]);
        let unknown_type = records(&[vec![9], vec![9, 1]]);
        let length_beyond_the_end = records(&[vec![1, 3, 0, 1]]);
        check_rising(&[
            whole[1].clone(),
            length_beyond_the_end[0].clone(),
            unknown_type[0].clone(),
            unknown_type[1].clone(),
            vec![0xff, 1],
        ]);
    }

    #[test]
    fn hostile_lengths_and_depths() {
        let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        for kind in [1, 4, 6] {
            let key = records(&[[&[kind], &huge[..]].concat()]);
            check_equal(&key[0], &key[0]);
        }
        let deep = records(&[[4, 1].repeat(1 << 20)]);
        check_equal(&deep[0], &deep[0]);
    }

    fn arbitrary_key() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![4 => 0u8..8, 1 => Just(30u8), 1 => Just(100u8), 1 => Just(201u8), 1 => any::<u8>()];
        let id = prop_oneof![0u8..4, Just(30u8)];
        (proptest::collection::vec(id, 3), proptest::collection::vec(byte, 0..12))
            .prop_map(|(ids, rest)| [vec![0], ids, rest].concat())
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_order(a in arbitrary_key(), b in arbitrary_key(), c in arbitrary_key()) {
            prop_assert_eq!(IndexedDb.compare(&a, &a), Ordering::Equal);
            prop_assert_eq!(IndexedDb.compare(&a, &b), IndexedDb.compare(&b, &a).reverse());
            let mut keys = [a, b, c];
            keys.sort_by(|x, y| IndexedDb.compare(x, y));
            prop_assert!(IndexedDb.compare(&keys[0], &keys[2]).is_le());
        }

        #[test]
        fn noise_is_survived(a in proptest::collection::vec(any::<u8>(), 0..40), cut in 0usize..40) {
            let b = &a[..cut.min(a.len())];
            prop_assert_eq!(IndexedDb.compare(&a, b), IndexedDb.compare(b, &a).reverse());
        }
    }
}
