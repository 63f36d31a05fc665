//! Entries of a bulk load, one after the other.

use std::ops::Range;

/// Source of entries. Returns None after the last one. The slices are valid until the next call.
///
/// The lifetimes of a closure cannot say that, so the source is an object.
pub struct EntrySource<'a> {
    next: &'a mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> EntrySource<'a> {
    /// Creates a source. `next` replaces key and value by those of the next entry, or returns
    /// false.
    pub fn new(next: &'a mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool) -> EntrySource<'a> {
        EntrySource { next, key: Vec::new(), value: Vec::new() }
    }

    /// Returns the next entry.
    #[inline]
    pub fn next_entry(&mut self) -> Option<(&[u8], &[u8])> {
        (self.next)(&mut self.key, &mut self.value).then_some((self.key.as_slice(), self.value.as_slice()))
    }

    /// Returns the remaining entries in key order. Of several entries with one key, the last one is
    /// left.
    pub fn into_sorted(mut self) -> SortedEntries {
        let mut sorted = SortedEntries::default();
        while (self.next)(&mut self.key, &mut self.value) {
            let start = sorted.bytes.len();
            sorted.bytes.extend_from_slice(&self.key);
            let key_end = sorted.bytes.len();
            sorted.bytes.extend_from_slice(&self.value);
            sorted.places.push((start..key_end, sorted.bytes.len()));
        }
        sorted.sort();
        sorted
    }
}

/// Entries in memory, in key order.
#[derive(Default)]
pub struct SortedEntries {
    bytes: Vec<u8>,
    /// Place of each key, and end of its value.
    places: Vec<(Range<usize>, usize)>,
}

impl SortedEntries {
    fn sort(&mut self) {
        let SortedEntries { bytes, places } = self;
        // The last entry of a key comes first, and is the one that `dedup_by` leaves.
        places.sort_unstable_by(|(a, _), (b, _)| {
            bytes[a.clone()].cmp(&bytes[b.clone()]).then_with(|| b.start.cmp(&a.start))
        });
        places.dedup_by(|(later, _), (first, _)| bytes[later.clone()] == bytes[first.clone()]);
    }

    /// Returns keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|(key, end)| (&self.bytes[key.clone()], &self.bytes[key.end..*end]))
    }
}

/// Copy of a key or value, usually without an allocation.
pub(super) enum SmallBytes {
    Inline([u8; Self::INLINE], u8),
    Allocated(Vec<u8>),
}

impl SmallBytes {
    /// Bytes that need no allocation: a value of 100 bytes is the longest of the published loads.
    const INLINE: usize = 104;
}

impl From<&[u8]> for SmallBytes {
    #[inline]
    fn from(bytes: &[u8]) -> SmallBytes {
        let mut inline = [0; SmallBytes::INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                SmallBytes::Inline(inline, bytes.len() as u8)
            }
            None => SmallBytes::Allocated(bytes.to_vec()),
        }
    }
}

impl AsRef<[u8]> for SmallBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            SmallBytes::Inline(bytes, len) => &bytes[..usize::from(*len)],
            SmallBytes::Allocated(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_entry_of_a_key_is_left() {
        let mut rest = [("b", "1"), ("a", "2"), ("b", "3"), ("c", "4"), ("a", "5")].into_iter();
        let mut next = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
            let Some((k, v)) = rest.next() else { return false };
            *key = k.into();
            *value = v.into();
            true
        };
        let sorted = EntrySource::new(&mut next).into_sorted();
        let text: Vec<String> = sorted.iter().map(|(k, v)| format!("{}={}", k[0], v[0])).collect();
        assert_eq!(text, ["97=53", "98=51", "99=52"]);
    }

    #[test]
    fn long_bytes_are_allocated() {
        for len in [0, 16, 104, 105] {
            assert_eq!(SmallBytes::from(vec![7; len].as_slice()).as_ref(), vec![7; len]);
        }
    }
}
