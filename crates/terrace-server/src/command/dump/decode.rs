//! Values of a payload. No input causes a panic, or memory that the input does not justify.

use std::collections::HashSet;

use super::compact;
use super::encode::value_type;
use super::lzf;
use super::stream::{self, StreamValue};
use crate::resp::{Limits, parse_double};

/// Maximum size of all parts of a value in memory, in bytes.
const MAX_VALUE: usize = 256 << 20;
/// Number of entries of compact encodings that a value may have beyond one for each byte of its
/// payload. Compressed payloads have fewer bytes than entries. An entry takes about 60 bytes.
const MORE_ENTRIES: usize = 1 << 20;

/// Decoded value.
#[derive(Debug, PartialEq)]
pub(super) enum DumpedValue {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    SortedSet(Vec<(Vec<u8>, f64)>),
    Stream(StreamValue),
}

/// Returns the value that `payload` holds, or None if it is damaged or has an unknown type.
pub(super) fn value(payload: &[u8]) -> Option<DumpedValue> {
    let (kind, rest) = payload.split_first()?;
    let mut reader = Reader::new(rest);
    let value = match *kind {
        value_type::STRING => DumpedValue::String(reader.string()?),
        value_type::LIST => DumpedValue::List(reader.strings(1)?),
        value_type::SET => DumpedValue::Set(reader.strings(1)?),
        value_type::HASH => DumpedValue::Hash(pairs(reader.strings(2)?)?),
        value_type::SORTED_SET => DumpedValue::SortedSet(reader.scored(Reader::binary_score)?),
        value_type::SORTED_SET_TEXT => DumpedValue::SortedSet(reader.scored(Reader::text_score)?),
        value_type::SET_INTSET => DumpedValue::Set(reader.compact(compact::intset)?),
        value_type::HASH_LISTPACK => DumpedValue::Hash(pairs(reader.compact(compact::listpack)?)?),
        value_type::HASH_ZIPLIST => DumpedValue::Hash(pairs(reader.compact(compact::ziplist)?)?),
        value_type::SORTED_SET_LISTPACK => {
            DumpedValue::SortedSet(scored(reader.compact(compact::listpack)?)?)
        }
        value_type::SORTED_SET_ZIPLIST => DumpedValue::SortedSet(scored(reader.compact(compact::ziplist)?)?),
        value_type::LIST_ZIPLIST => DumpedValue::List(reader.compact(compact::ziplist)?),
        value_type::LIST_QUICKLIST => DumpedValue::List(reader.quicklist(false)?),
        value_type::LIST_QUICKLIST_2 => DumpedValue::List(reader.quicklist(true)?),
        value_type::STREAM => DumpedValue::Stream(stream::decode(&mut reader, 1)?),
        value_type::STREAM_2 => DumpedValue::Stream(stream::decode(&mut reader, 2)?),
        _ => return None,
    };
    (reader.rest.is_empty() && is_valid(&value)).then_some(value)
}

/// Returns true if the value has members, and no member twice.
fn is_valid(value: &DumpedValue) -> bool {
    fn are_different<'m>(members: impl ExactSizeIterator<Item = &'m Vec<u8>>) -> bool {
        let count = members.len();
        count > 0 && members.collect::<HashSet<_>>().len() == count
    }
    match value {
        // The decoder of streams checks the order of the entries.
        DumpedValue::String(_) | DumpedValue::Stream(_) => true,
        DumpedValue::List(elements) => !elements.is_empty(),
        DumpedValue::Set(members) => are_different(members.iter()),
        DumpedValue::Hash(fields) => are_different(fields.iter().map(|(field, _)| field)),
        DumpedValue::SortedSet(members) => {
            are_different(members.iter().map(|(member, _)| member))
                && members.iter().all(|(_, score)| !score.is_nan())
        }
    }
}

fn pairs(items: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let Some(first) = items.next() {
        pairs.push((first, items.next()?));
    }
    Some(pairs)
}

fn scored(items: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, f64)>> {
    pairs(items)?.into_iter().map(|(member, score)| Some((member, parse_double(&score)?))).collect()
}

/// Length, or a special encoding of a string.
enum Len {
    Plain(usize),
    Special(u8),
}

/// Decoder of a compact encoding, with the maximum number of entries.
type CompactDecoder = fn(&[u8], usize) -> Option<Vec<Vec<u8>>>;

/// Reader of a payload.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Size of the parts so far in memory, in bytes.
    used: usize,
    /// Number of entries of compact encodings that may follow.
    entries_left: usize,
}

impl<'a> Reader<'a> {
    /// Reader at the start of `rest`.
    pub(super) fn new(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest, used: 0, entries_left: rest.len() + MORE_ENTRIES }
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn any_len(&mut self) -> Option<Len> {
        let [first] = self.array()?;
        let len = match first {
            0..=0x3f => usize::from(first),
            0x40..=0x7f => {
                let [second] = self.array()?;
                usize::from(first & 0x3f) << 8 | usize::from(second)
            }
            0x80 => u32::from_be_bytes(self.array()?) as usize,
            0x81 => usize::try_from(u64::from_be_bytes(self.array()?)).ok()?,
            0xc0.. => return Some(Len::Special(first & 0x3f)),
            _ => return None,
        };
        Some(Len::Plain(len))
    }

    pub(super) fn len(&mut self) -> Option<usize> {
        match self.any_len()? {
            Len::Plain(len) => Some(len),
            Len::Special(_) => None,
        }
    }

    /// Counts memory. Returns None above the limit.
    pub(super) fn charge(&mut self, bytes: usize) -> Option<()> {
        self.used = self.used.checked_add(bytes)?;
        (self.used <= MAX_VALUE).then_some(())
    }

    pub(super) fn string(&mut self) -> Option<Vec<u8>> {
        self.charge(size_of::<Vec<u8>>())?;
        let integer = |number: i32| Some(number.to_string().into_bytes());
        match self.any_len()? {
            Len::Plain(len) => self.bytes(len).map(<[u8]>::to_vec),
            Len::Special(0) => integer(i32::from(i8::from_le_bytes(self.array()?))),
            Len::Special(1) => integer(i32::from(i16::from_le_bytes(self.array()?))),
            Len::Special(2) => integer(i32::from_le_bytes(self.array()?)),
            Len::Special(3) => self.compressed(),
            Len::Special(_) => None,
        }
    }

    fn compressed(&mut self) -> Option<Vec<u8>> {
        let compressed_len = self.len()?;
        let len = self.len()?;
        let input = self.bytes(compressed_len)?;
        if len > Limits::AFTER_LOGIN.arg_bytes {
            return None;
        }
        self.charge(len)?;
        lzf::decompress(input, len)
    }

    /// Strings of a value with `per_item` of them in each item.
    fn strings(&mut self, per_item: usize) -> Option<Vec<Vec<u8>>> {
        let count = self.len()?.checked_mul(per_item)?;
        let mut strings = Vec::new();
        for _ in 0..count {
            strings.push(self.string()?);
        }
        Some(strings)
    }

    fn scored(&mut self, score: fn(&mut Reader<'a>) -> Option<f64>) -> Option<Vec<(Vec<u8>, f64)>> {
        let count = self.len()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let member = self.string()?;
            members.push((member, score(self)?));
        }
        Some(members)
    }

    fn binary_score(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.array()?))
    }

    fn text_score(&mut self) -> Option<f64> {
        match self.array()? {
            [0xfd] => None,
            [0xfe] => Some(f64::INFINITY),
            [0xff] => Some(f64::NEG_INFINITY),
            [len] => parse_double(self.bytes(usize::from(len))?),
        }
    }

    /// Entries of the next string, which has a compact encoding.
    pub(super) fn compact(&mut self, decode: CompactDecoder) -> Option<Vec<Vec<u8>>> {
        let part = self.string()?;
        self.entries(decode, &part)
    }

    fn entries(&mut self, decode: CompactDecoder, part: &[u8]) -> Option<Vec<Vec<u8>>> {
        let entries = decode(part, self.entries_left)?;
        self.entries_left -= entries.len();
        Some(entries)
    }

    /// Parts of a list. In the second version, each has a number: 1 for one element, 2 for a
    /// listpack.
    fn quicklist(&mut self, is_second: bool) -> Option<Vec<Vec<u8>>> {
        let count = self.len()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            let container = if is_second { self.len()? } else { 0 };
            let part = self.string()?;
            match container {
                0 => elements.extend(self.entries(compact::ziplist, &part)?),
                1 => elements.push(part),
                2 => elements.extend(self.entries(compact::listpack, &part)?),
                _ => return None,
            }
        }
        Some(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    fn items(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn plain_encodings() {
        let long = "x".repeat(20_000);
        let members = items(&["a", "", &long]);
        assert_eq!(value(&encode::string(b"a")), Some(DumpedValue::String(b"a".to_vec())));
        assert_eq!(value(&encode::list(&members)), Some(DumpedValue::List(members.clone())));
        assert_eq!(value(&encode::set(&members)), Some(DumpedValue::Set(members.clone())));
        let pairs = vec![(b"f".to_vec(), b"v".to_vec()), (long.into_bytes(), Vec::new())];
        assert_eq!(value(&encode::hash(&pairs)), Some(DumpedValue::Hash(pairs)));
        let scored = vec![(b"a".to_vec(), -1.5), (b"b".to_vec(), f64::INFINITY)];
        assert_eq!(value(&encode::sorted_set(&scored)), Some(DumpedValue::SortedSet(scored)));
    }

    #[test]
    fn damaged_values() {
        assert_eq!(value(&encode::set(&items(&["a", "a"]))), None);
        assert_eq!(value(&encode::list(&[])), None);
        let payload = encode::hash(&[(b"f".to_vec(), b"v".to_vec())]);
        for len in 0..payload.len() {
            assert_eq!(value(&payload[..len]), None, "{len} bytes");
        }
        assert_eq!(value(&[&payload[..], b"x"].concat()), None);
        // Announced lengths without their bytes.
        assert_eq!(value(b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(value(b"\x00\xc3\x01\x80\x7f\xff\xff\xff\x00"), None);
    }

    /// Payload of a list with compressed ziplists of `count` entries each as its parts.
    fn compressed_list(parts: usize, count: usize) -> Vec<u8> {
        // Literals: the header of the ziplist and one entry. Then copies of the entry, and the end.
        let size = 10 + 2 * count + 1;
        let mut bytes = (size as u32).to_le_bytes().to_vec();
        bytes.extend([0; 6]);
        bytes.extend([0, 0xf2]);
        let mut compressed = vec![bytes.len() as u8 - 1];
        compressed.extend(&bytes);
        for _ in 0..(count - 1) / 132 {
            compressed.extend([0xe0, 255, 1]);
        }
        compressed.extend([0, 0xff]);
        let mut payload = vec![value_type::LIST_QUICKLIST, 0x80];
        payload.extend((parts as u32).to_be_bytes());
        for _ in 0..parts {
            payload.extend([0xc3, 0x80]);
            payload.extend((compressed.len() as u32).to_be_bytes());
            payload.push(0x80);
            payload.extend((size as u32).to_be_bytes());
            payload.extend(&compressed);
        }
        payload
    }

    #[test]
    fn received_bytes_bound_the_entries() {
        let count = 1 + 132 * 1000;
        let honest = value(&compressed_list(7, count));
        assert!(matches!(honest, Some(DumpedValue::List(elements)) if elements.len() == 7 * count));
        assert_eq!(value(&compressed_list(9, count)), None);
    }

    #[test]
    fn random_bytes_cause_no_panic() {
        let random = terrace_env::SeededRandom::new(7);
        use terrace_env::Random;
        for _ in 0..200_000 {
            let kind = random.uniform(20) as u8;
            let mut payload = vec![kind];
            let len = random.uniform(40);
            payload.push(len as u8);
            payload.extend((0..len).map(|_| random.next_u64() as u8));
            let _ = value(&payload);
        }
    }
}
