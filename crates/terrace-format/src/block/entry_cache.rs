//! Cache of decoded entries for backward iteration over a block, and the key buffer of the
//! iterator.

use std::ops::Range;

use super::contents::BlockContents;
use super::entry::{EncodedEntry, decode_entry};
use crate::key;

/// Key of which a suffix changes at each step. Bytes after `len` are arbitrary.
#[derive(Debug, Default)]
pub(super) struct KeyBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) len: usize,
}

/// Number of bytes that one copy moves, even if the suffix is shorter.
const KEY_COPY_CHUNK: usize = 32;

impl KeyBuffer {
    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Replaces all bytes after the first `shared` ones by `source[suffix]`. The key has at least
    /// `shared` bytes.
    #[inline]
    pub(super) fn replace(&mut self, shared: usize, source: &[u8], suffix: Range<usize>) {
        debug_assert!(shared <= self.len);
        self.len = shared + suffix.len();
        let from = source.get(suffix.start..).and_then(<[u8]>::first_chunk::<KEY_COPY_CHUNK>);
        let to = self.bytes.get_mut(shared..).and_then(<[u8]>::first_chunk_mut::<KEY_COPY_CHUNK>);
        match (from, to) {
            (Some(from), Some(to)) if suffix.len() <= KEY_COPY_CHUNK => *to = *from,
            _ => self.replace_long(shared, &source[suffix]),
        }
    }

    fn replace_long(&mut self, shared: usize, suffix: &[u8]) {
        self.resize(self.len);
        self.bytes[shared..self.len].copy_from_slice(suffix);
    }

    /// Sets the length. Bytes after the old length are arbitrary.
    pub(super) fn resize(&mut self, len: usize) {
        self.len = len;
        if self.bytes.len() < len + KEY_COPY_CHUNK {
            self.bytes.resize(2 * len + 2 * KEY_COPY_CHUNK, 0);
        }
    }
}

/// Entries that a step back has decoded, up to the entry before the current one. It stores their
/// encoded keys, not whole keys.
#[derive(Debug, Default)]
pub(super) struct PrevCache {
    pub(super) entries: Vec<CachedEntry>,
    /// Key of the last entry at the time of the last `fill`.
    pub(super) key: KeyBuffer,
}

#[derive(Debug, Clone)]
pub(super) struct CachedEntry {
    pub(super) offset: usize,
    pub(super) entry: EncodedEntry,
    /// True if the user key is known to be above the user key of the entry before.
    pub(super) is_new_user_key: bool,
}

impl PrevCache {
    /// Caches the entries from the restart point at `start` up to the entry that ends at `end`.
    /// Returns false if an entry is damaged.
    pub(super) fn fill(&mut self, contents: BlockContents<'_>, start: usize, end: usize) -> bool {
        self.entries.clear();
        self.key.len = 0;
        let entries = contents.entries();
        let mut offset = start;
        while offset < end {
            let Some(entry) = decode_entry(entries, offset).filter(|entry| entry.shared <= self.key.len)
            else {
                return false;
            };
            let suffix = entry.key_delta.clone();
            let trailer =
                trailer_if_new_user_key(self.key.as_bytes(), entry.shared, &entries[suffix.clone()]);
            self.key.replace(entry.shared, entries, suffix);
            let next = entry.value_end;
            // The first entry has no predecessor in the cache.
            let is_new_user_key = trailer.is_some() && offset > start;
            self.entries.push(CachedEntry { offset, entry, is_new_user_key });
            offset = next;
        }
        offset == end
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
