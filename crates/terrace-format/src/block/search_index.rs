//! Search index: the head and the offset of every entry, for blocks with many searches.
//!
//! ```text
//!   entries   mail/1009 | 17 | 23 | mail/1108 | ...   difference from the key before
//!   heads     "009"  "017"  "023"  "108"              u64, after the common prefix
//!   offsets   0      31     54     77                 u16
//! ```
//!
//! The index precedes the contents in one allocation, so a search waits for memory once.
//!
//! A search looks among the heads and then checks the entries with the head of its target, nearly
//! always one. It may start at that entry, in the middle of a restart interval: the entry before
//! has a lesser head than the target and the entry. The bytes that these two share therefore lie
//! within the common prefix and the head, and the target has the same bytes there.

use super::contents::BlockContents;
use super::entry::decode_entry;
use crate::key;
use crate::key_order::{common_prefix_len, head, lower_bound_by_head};

/// Layout of the search index of a block of internal keys in bytewise order. Without an index, the
/// number of entries is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SearchIndex {
    num_entries: u16,
    /// Offset of the common prefix of all keys within the contents.
    prefix_offset: u16,
    /// Length of the common prefix of all keys.
    prefix_len: u16,
    /// Size of the heads and the offsets, in bytes.
    size: u32,
}

/// Size of a head, in bytes.
const HEAD_SIZE: usize = 8;
/// Size of an offset, in bytes.
const ENTRY_OFFSET_SIZE: usize = 2;

impl SearchIndex {
    /// Returns true if the block has no index.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.num_entries == 0
    }

    /// Returns the size of the index, in bytes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns the offset of the first entry that may be at or after `target`. `bytes` are the
    /// index and, after it, the contents.
    #[inline]
    pub(super) fn lower_bound(&self, bytes: &[u8], target: &[u8]) -> Option<usize> {
        let entries = usize::from(self.num_entries);
        let (heads, rest) = bytes.split_at_checked(entries * HEAD_SIZE)?;
        let (offsets, contents) = rest.split_at_checked(entries * ENTRY_OFFSET_SIZE)?;
        let prefix = contents.get(usize::from(self.prefix_offset)..)?.get(..usize::from(self.prefix_len))?;
        let first = lower_bound_by_head(prefix, heads.as_chunks().0, key::user_key(target));
        offsets.as_chunks().0.get(first).map(|&offset| usize::from(u16::from_le_bytes(offset)))
    }
}

/// Search index under construction, before the block has memory for it.
pub(super) struct SearchIndexBuilder {
    /// Offset of the common prefix of all keys within the contents.
    prefix_offset: u16,
    /// Length of the common prefix of all keys.
    prefix_len: u16,
    entries: HeadsAndOffsets,
}

/// Heads and offsets of the entries of a block.
struct HeadsAndOffsets {
    heads: Vec<u64>,
    offsets: Vec<u16>,
}

impl SearchIndexBuilder {
    /// Collects the heads of a block of internal keys. Returns `None` if the block is damaged,
    /// empty, too large for u16 offsets, or has unusual keys.
    pub(super) fn new(contents: BlockContents<'_>) -> Option<SearchIndexBuilder> {
        u16::try_from(contents.entries_end).ok()?;
        let prefix_offset =
            decode_entry(contents.entries(), contents.restart_point(0))?.key_delta.start as u16;
        let first = key::user_key(contents.restart_key(0).ok()?);
        let last = key::user_key(contents.restart_key(contents.num_restarts.checked_sub(1)?).ok()?);
        let shared = common_prefix_len(first, last);
        let (prefix_len, entries) = match HeadsAndOffsets::after_prefix(contents, &first[..shared])? {
            Ok(entries) => (shared, entries),
            // The keys after the last restart point have a shorter common prefix.
            Err(shorter) => (shorter, HeadsAndOffsets::after_prefix(contents, &first[..shorter])?.ok()?),
        };
        Some(SearchIndexBuilder { prefix_offset, prefix_len: prefix_len as u16, entries })
    }

    /// Returns the layout of the index.
    pub(super) fn index(&self) -> SearchIndex {
        let entries = self.entries.heads.len();
        // An entry has at least three bytes, and its offset fits 16 bits, so the count fits too.
        let num_entries = entries as u16;
        SearchIndex {
            num_entries,
            prefix_offset: self.prefix_offset,
            prefix_len: self.prefix_len,
            size: (entries * (HEAD_SIZE + ENTRY_OFFSET_SIZE)) as u32,
        }
    }

    /// Writes heads and offsets into `bytes`, whose length is [`SearchIndex::size`].
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let HeadsAndOffsets { heads, offsets } = &self.entries;
        let (to_heads, to_offsets) = bytes.split_at_mut(heads.len() * HEAD_SIZE);
        for (to, head) in to_heads.as_chunks_mut().0.iter_mut().zip(heads) {
            *to = head.to_le_bytes();
        }
        for (to, offset) in to_offsets.as_chunks_mut().0.iter_mut().zip(offsets) {
            *to = offset.to_le_bytes();
        }
    }
}

impl HeadsAndOffsets {
    /// Collects the heads after `prefix`. Returns the length of the common prefix as an error if it
    /// is shorter than `prefix`.
    fn after_prefix(contents: BlockContents<'_>, prefix: &[u8]) -> Option<Result<HeadsAndOffsets, usize>> {
        let entries = contents.entries();
        // Estimate for the default restart interval, 16, and entries of at least 16 bytes.
        let capacity = (contents.num_restarts * 16 * 5 / 4).min(entries.len() / 16);
        let mut heads = Vec::with_capacity(capacity);
        let mut offsets = Vec::with_capacity(capacity);
        let mut offset = contents.restart_point(0);
        let mut previous_len = 0;
        let mut last_head = 0;
        let mut common = prefix.len();
        while offset < entries.len() {
            let entry = decode_entry(entries, offset)?;
            let suffix = &entries[entry.key_delta.clone()];
            let user_key_len = (entry.shared + suffix.len()).checked_sub(key::KEY_TRAILER_SIZE)?;
            if entry.shared > previous_len || entry.shared > user_key_len {
                return None; // The entry shares bytes of a trailer.
            }
            let user_suffix = &suffix[..user_key_len - entry.shared];
            last_head = match entry.shared.checked_sub(prefix.len()) {
                Some(kept @ 0..8) => {
                    let new = truncated_head(user_suffix.len(), suffix);
                    last_head & !(u64::MAX >> (8 * kept)) | new >> (8 * kept)
                }
                Some(_) => last_head,
                None => {
                    let wanted = &prefix[entry.shared..];
                    user_suffix.strip_prefix(wanted).map(head).unwrap_or_else(|| {
                        common = common.min(entry.shared + common_prefix_len(user_suffix, wanted));
                        0
                    })
                }
            };
            heads.push(last_head);
            offsets.push(offset as u16);
            previous_len = user_key_len;
            offset = entry.value_end;
        }
        Some(if common < prefix.len() { Err(common) } else { Ok(HeadsAndOffsets { heads, offsets }) })
    }
}

/// Returns the [`head`] of the first `len` bytes of `suffix`. A trailer follows them, so one load
/// of eight bytes is possible.
#[inline]
fn truncated_head(len: usize, suffix: &[u8]) -> u64 {
    let head = suffix.first_chunk().map_or(0, |chunk| u64::from_be_bytes(*chunk));
    let unwanted = 8 * (8 - len.min(8)) as u32;
    head.checked_shr(unwanted).map_or(0, |head| head << unwanted)
}
