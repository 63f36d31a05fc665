//! Compact encodings of Redis: listpack, ziplist, intset.
//!
//! ```text
//!   listpack   bytes:4 count:2          entry ..  ff     entry: data, size of the entry backwards
//!   ziplist    bytes:4 last:4 count:2   entry ..  ff     entry: size of the one before, data
//!   intset     size:4 count:4           integer ..
//! ```
//!
//! Integers are little-endian, apart from the lengths within the first bytes of an entry.

/// First byte after the last entry.
const END: u8 = 0xff;
/// Size of the header of a listpack, in bytes.
const LISTPACK_HEADER: usize = 6;
/// Size of the header of a ziplist, in bytes.
const ZIPLIST_HEADER: usize = 10;

/// Reader of entries.
struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// Text of a signed integer of `len` bytes.
    fn integer(&mut self, len: usize) -> Option<Vec<u8>> {
        Some(signed(self.bytes(len)?).to_string().into_bytes())
    }

    fn text(&mut self, len: usize) -> Option<Vec<u8>> {
        self.bytes(len).map(<[u8]>::to_vec)
    }
}

/// Signed little-endian integer of up to 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    let number = bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    (number << unused) as i64 >> unused
}

/// Returns the entries of a listpack, or None if it is damaged or has more than `max`.
pub(super) fn listpack(bytes: &[u8], max: usize) -> Option<Vec<Vec<u8>>> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let mut entries = Entries { rest: bytes.get(LISTPACK_HEADER..)? };
    let mut found = Vec::new();
    while *entries.rest.first()? != END {
        let before = entries.rest.len();
        found.push(listpack_entry(&mut entries)?);
        if found.len() > max {
            return None;
        }
        let backwards = backwards_len(before - entries.rest.len());
        entries.bytes(backwards)?;
    }
    (size == bytes.len() && entries.rest.len() == 1).then_some(found)
}

fn listpack_entry(entries: &mut Entries<'_>) -> Option<Vec<u8>> {
    let first = entries.byte()?;
    match first {
        0..=0x7f => Some(first.to_string().into_bytes()),
        0x80..=0xbf => entries.text(usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let number = i32::from(first & 0x1f) << 8 | i32::from(entries.byte()?);
            let number = if number >= 1 << 12 { number - (1 << 13) } else { number };
            Some(number.to_string().into_bytes())
        }
        0xe0..=0xef => {
            let len = usize::from(first & 0x0f) << 8 | usize::from(entries.byte()?);
            entries.text(len)
        }
        0xf0 => {
            let len = u32::from_le_bytes(entries.bytes(4)?.try_into().ok()?);
            entries.text(len as usize)
        }
        0xf1 => entries.integer(2),
        0xf2 => entries.integer(3),
        0xf3 => entries.integer(4),
        0xf4 => entries.integer(8),
        _ => None,
    }
}

/// Writer of a listpack.
pub(super) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    /// Begins a listpack.
    pub(super) fn new() -> ListpackWriter {
        ListpackWriter { bytes: vec![0; LISTPACK_HEADER], count: 0 }
    }

    /// Appends an integer.
    pub(super) fn integer(&mut self, number: i64) {
        let begin = self.bytes.len();
        match number {
            0..=0x7f => self.bytes.push(number as u8),
            -0x1000..=0xfff => self.bytes.extend([0xc0 | (number >> 8 & 0x1f) as u8, number as u8]),
            -0x8000..=0x7fff => self.wide(0xf1, number, 2),
            -0x80_0000..=0x7f_ffff => self.wide(0xf2, number, 3),
            -0x8000_0000..=0x7fff_ffff => self.wide(0xf3, number, 4),
            _ => self.wide(0xf4, number, 8),
        }
        self.end_entry(begin);
    }

    fn wide(&mut self, kind: u8, number: i64, len: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&number.to_le_bytes()[..len]);
    }

    /// Appends a text.
    pub(super) fn text(&mut self, text: &[u8]) {
        let begin = self.bytes.len();
        match text.len() {
            len @ 0..=0x3f => self.bytes.push(0x80 | len as u8),
            len @ 0x40..=0xfff => self.bytes.extend([0xe0 | (len >> 8) as u8, len as u8]),
            len => {
                self.bytes.push(0xf0);
                // Arguments are smaller than 4 GiB.
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end_entry(begin);
    }

    /// Appends the size of the entry, which a reader decodes backwards.
    fn end_entry(&mut self, begin: usize) {
        let size = self.bytes.len() - begin;
        for index in (0..backwards_len(size)).rev() {
            let part = (size >> (7 * index) & 0x7f) as u8;
            let is_first = index + 1 == backwards_len(size);
            self.bytes.push(if is_first { part } else { part | 0x80 });
        }
        self.count += 1;
    }

    /// Returns the listpack.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&size.to_le_bytes());
        // All ones stand for more entries.
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        self.bytes[4..LISTPACK_HEADER].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

/// Number of bytes that hold the size of an entry of a listpack: seven bits each.
fn backwards_len(size: usize) -> usize {
    match size {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Returns the entries of a ziplist, or None if it is damaged or has more than `max`.
pub(super) fn ziplist(bytes: &[u8], max: usize) -> Option<Vec<Vec<u8>>> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let mut entries = Entries { rest: bytes.get(ZIPLIST_HEADER..)? };
    let mut found = Vec::new();
    while *entries.rest.first()? != END {
        if entries.byte()? == 0xfe {
            entries.bytes(4)?;
        }
        found.push(ziplist_entry(&mut entries)?);
        if found.len() > max {
            return None;
        }
    }
    (size == bytes.len() && entries.rest.len() == 1).then_some(found)
}

fn ziplist_entry(entries: &mut Entries<'_>) -> Option<Vec<u8>> {
    let first = entries.byte()?;
    match first {
        0..=0x3f => entries.text(usize::from(first)),
        0x40..=0x7f => {
            let len = usize::from(first & 0x3f) << 8 | usize::from(entries.byte()?);
            entries.text(len)
        }
        0x80..=0xbf => {
            let len = u32::from_be_bytes(entries.bytes(4)?.try_into().ok()?);
            entries.text(len as usize)
        }
        0xc0 => entries.integer(2),
        0xd0 => entries.integer(4),
        0xe0 => entries.integer(8),
        0xf0 => entries.integer(3),
        0xfe => entries.integer(1),
        0xf1..=0xfd => Some((first - 0xf1).to_string().into_bytes()),
        _ => None,
    }
}

/// Returns the members of an intset, or None if it is damaged or has more than `max`.
pub(super) fn intset(bytes: &[u8], max: usize) -> Option<Vec<Vec<u8>>> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    if count > max || !matches!(size, 2 | 4 | 8) || rest.len() != count.checked_mul(size)? {
        return None;
    }
    Some(rest.chunks_exact(size).map(|bytes| signed(bytes).to_string().into_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_integers() {
        assert_eq!(signed(&[0xff]), -1);
        assert_eq!(signed(&[0x00, 0x80, 0xff]), -32_768);
        assert_eq!(signed(&i64::MIN.to_le_bytes()), i64::MIN);
    }

    #[test]
    fn entries_of_a_listpack() {
        let bytes = b"\x0f\0\0\0\x03\0\x82ab\x03\x07\x01\xdf\xff\x02\xff";
        let expected: Vec<Vec<u8>> = vec![b"ab".to_vec(), b"7".to_vec(), b"-1".to_vec()];
        let mut bytes = bytes.to_vec();
        bytes[0] = bytes.len() as u8;
        assert_eq!(listpack(&bytes, 3), Some(expected));
        for len in 0..bytes.len() {
            assert_eq!(listpack(&bytes[..len], 3), None);
        }
    }

    #[test]
    fn written_listpack() {
        let mut writer = ListpackWriter::new();
        let numbers = [0, 127, 128, -1, -4096, 4095, 4096, -40_000, 1 << 20, -(1 << 30), i64::MIN, i64::MAX];
        numbers.iter().for_each(|number| writer.integer(*number));
        let texts = [0, 63, 64, 127, 4095, 4096, 20_000].map(|len| vec![b'x'; len]);
        texts.iter().for_each(|text| writer.text(text));
        let numbers = numbers.iter().map(|number| number.to_string().into_bytes());
        let expected: Vec<Vec<u8>> = numbers.chain(texts.iter().cloned()).collect();
        assert_eq!(listpack(&writer.finish(), 100), Some(expected));
    }

    #[test]
    fn members_of_an_intset() {
        assert_eq!(
            intset(b"\x02\0\0\0\x02\0\0\0\xff\xff\x05\0", 2),
            Some(vec![b"-1".to_vec(), b"5".to_vec()])
        );
        assert_eq!(intset(b"\x03\0\0\0\x00\0\0\0", 2), None);
        assert_eq!(intset(b"\x08\0\0\0\xff\xff\xff\xff", 2), None);
    }
}
