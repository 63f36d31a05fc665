//! Cache of decoded entries for backward iteration over a block, and the key buffer of the
//! iterator.
//!
//! ```text
//!   block   restart point | a | b | c | current entry | ...      decoded once, forward
//!   cache                 [ a | b | c | current entry ]          a step back removes the last one
//! ```

use std::ops::Range;

use super::contents::BlockContents;
use super::entry::{EncodedEntry, decode_entry};
use crate::key;

/// Number of bytes of a short key, a user key of at most 24 bytes. A step replaces all of them, so
/// that no branch depends on the number of shared bytes.
const SHORT_KEY_SIZE: usize = 32;

/// Number of bytes of keys after which the cache forgets its first entries. In a hostile block, the
/// keys are far longer than the block.
const MAX_CACHED_KEYS_SIZE: usize = 64 << 10;

/// Key of which a suffix changes at each step. Bytes after `len` are arbitrary.
#[derive(Debug, Default)]
pub(super) struct KeyBuffer {
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuffer {
    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Replaces all bytes after the first `shared` ones by `source[suffix]`. The key has at least
    /// `shared` bytes.
    #[inline]
    pub(super) fn replace(&mut self, shared: usize, source: &[u8], suffix: Range<usize>) {
        debug_assert!(shared <= self.len);
        self.len = shared + suffix.len();
        if let Some(key) = self.bytes.first_chunk_mut()
            && let Some(new) = replace_in_short_key(key, shared, source, &suffix)
        {
            *key = new;
        } else {
            self.replace_in_long_key(shared, &source[suffix]);
        }
    }

    fn replace_in_long_key(&mut self, shared: usize, suffix: &[u8]) {
        if self.bytes.len() < self.len + SHORT_KEY_SIZE {
            self.bytes.resize(2 * self.len + 2 * SHORT_KEY_SIZE, 0);
        }
        self.bytes[shared..self.len].copy_from_slice(suffix);
    }
}

/// Masks of all numbers of kept bytes: `[0xff; SHORT_KEY_SIZE]`, followed by as many zeros.
const KEPT_BYTES: [u8; 2 * SHORT_KEY_SIZE] = {
    let mut masks = [0; 2 * SHORT_KEY_SIZE];
    let mut i = 0;
    while i < SHORT_KEY_SIZE {
        masks[i] = 0xff;
        i += 1;
    }
    masks
};

/// Returns the first `shared` bytes of `key` and then `source[suffix]`, if both together are a
/// short key. The bytes after it are arbitrary.
#[inline]
fn replace_in_short_key(
    key: &[u8; SHORT_KEY_SIZE],
    shared: usize,
    source: &[u8],
    suffix: &Range<usize>,
) -> Option<[u8; SHORT_KEY_SIZE]> {
    if shared + suffix.len() > SHORT_KEY_SIZE {
        return None;
    }
    // The bytes around the suffix, so that the suffix stands at its place in the key.
    let around = source.get(suffix.start.checked_sub(shared)?..)?.first_chunk::<SHORT_KEY_SIZE>()?;
    let kept = KEPT_BYTES.get(SHORT_KEY_SIZE - shared..)?.first_chunk::<SHORT_KEY_SIZE>()?;
    let mut new = [0; SHORT_KEY_SIZE];
    let words = key.as_chunks().0.iter().zip(around.as_chunks().0).zip(kept.as_chunks().0);
    for (new, ((key, around), kept)) in new.as_chunks_mut().0.iter_mut().zip(words) {
        let [key, around, kept] = [key, around, kept].map(|word| u64::from_ne_bytes(*word));
        *new = (key & kept | around & !kept).to_ne_bytes();
    }
    Some(new)
}

/// Entries that a step back has decoded, up to the current entry, with their whole keys.
#[derive(Debug, Default)]
pub(super) struct PrevCache {
    entries: Vec<CachedEntry>,
    /// Keys of the entries, and then arbitrary bytes.
    keys: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(super) struct CachedEntry {
    pub(super) offset: usize,
    pub(super) value: Range<usize>,
    /// Range of the key within the keys of the cache.
    key: Range<usize>,
    /// True if the user key is known to be above the user key of the entry before.
    pub(super) is_new_user_key: bool,
}

impl PrevCache {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the current entry.
    #[inline]
    pub(super) fn current(&self) -> Option<&CachedEntry> {
        self.entries.last()
    }

    /// Returns the entry before the current one.
    #[inline]
    pub(super) fn before(&self) -> Option<&CachedEntry> {
        self.entries.len().checked_sub(2).map(|before| &self.entries[before])
    }

    /// Returns the offset of the first entry.
    pub(super) fn first_offset(&self) -> Option<usize> {
        self.entries.first().map(|first| first.offset)
    }

    /// Returns true if the entry before the current one is the first entry, or is not cached.
    #[inline]
    pub(super) fn is_near_first(&self) -> bool {
        self.entries.len() <= 2
    }

    #[inline]
    pub(super) fn key(&self, entry: &CachedEntry) -> &[u8] {
        &self.keys[entry.key.clone()]
    }

    /// Removes the current entry. The entry before becomes the current one.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.entries.pop();
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Caches the entries from the restart point at `start` up to the entry that ends at `end`, or
    /// only the last ones of them. Returns false, and caches nothing, if an entry is damaged.
    pub(super) fn fill(&mut self, contents: BlockContents<'_>, start: usize, end: usize) -> bool {
        self.entries.clear();
        let entries = contents.entries();
        let mut offset = start;
        let mut key = 0..0;
        // The first bytes of the key.
        let mut short_key = [0; SHORT_KEY_SIZE];
        while offset < end {
            let Some(entry) = decode_entry(entries, offset).filter(|entry| entry.shared <= key.len()) else {
                break;
            };
            let suffix = &entries[entry.key_delta.clone()];
            let trailer = trailer_if_new_user_key(&self.keys[key.clone()], entry.shared, suffix);
            // The first entry has no predecessor in the cache.
            let is_new_user_key = trailer.is_some() && offset > start;
            if key.end > MAX_CACHED_KEYS_SIZE {
                self.keys.copy_within(key.clone(), 0);
                self.entries.clear();
                key = 0..key.len();
            }
            key = self.append_key(key, &mut short_key, contents, &entry);
            let value = entry.key_delta.end..entry.value_end;
            self.entries.push(CachedEntry { offset, value, key: key.clone(), is_new_user_key });
            offset = entry.value_end;
        }
        if offset != end {
            self.entries.clear();
        }
        offset == end
    }

    /// Appends the key of `entry`, which follows the entry with the key at `previous`. `short_key`
    /// holds the first bytes of that key, and then those of the new one. Returns the range of the
    /// new key.
    #[inline]
    fn append_key(
        &mut self,
        previous: Range<usize>,
        short_key: &mut [u8; SHORT_KEY_SIZE],
        contents: BlockContents<'_>,
        entry: &EncodedEntry,
    ) -> Range<usize> {
        let key = previous.end..previous.end + entry.shared + entry.key_delta.len();
        if self.keys.len() < key.end + SHORT_KEY_SIZE {
            self.keys.resize(2 * key.end + 2 * SHORT_KEY_SIZE, 0);
        }
        let bytes = &mut self.keys[key.start..];
        if let Some(new) = replace_in_short_key(short_key, entry.shared, contents.bytes(), &entry.key_delta)
            && let Some(place) = bytes.first_chunk_mut()
        {
            *place = new;
            *short_key = new;
        } else {
            let suffix = &contents.entries()[entry.key_delta.clone()];
            bytes[entry.shared..key.len()].copy_from_slice(suffix);
            self.keys.copy_within(previous.start..previous.start + entry.shared, key.start);
            short_key.copy_from_slice(&self.keys[key.start..key.start + SHORT_KEY_SIZE]);
        }
        key
    }
}

/// Returns the trailer of an internal key if its user key is above the one of `previous`.
///
/// The key consists of the first `shared` bytes of `previous` and of `suffix`. The result is also
/// `None` if one of the keys has no trailer.
#[inline]
pub(super) fn trailer_if_new_user_key(previous: &[u8], shared: usize, suffix: &[u8]) -> Option<u64> {
    let (new, trailer) = suffix.split_last_chunk::<{ key::KEY_TRAILER_SIZE }>()?;
    let old = previous.get(shared..previous.len().checked_sub(key::KEY_TRAILER_SIZE)?)?;
    let is_above = match (old.first(), new.first()) {
        // The usual case.
        (Some(old), Some(new)) if old != new => old < new,
        _ => old < new,
    };
    is_above.then_some(u64::from_le_bytes(*trailer))
}
