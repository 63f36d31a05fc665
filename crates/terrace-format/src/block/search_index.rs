//! A head and a place for every entry of a block that is searched often.
//!
//! ```text
//!   entries   mail/1009 | 17 | 23 | mail/1108 | ...       of each what it adds to the one before
//!   heads     "009"  "017"  "023"  "108"                  u64 each, behind the prefix of all keys
//!   places    0      31     54     77                     u16 each
//! ```
//!
//! They stand in front of the contents, in one piece of memory, so that who waits for the one waits for the other.
//!
//! A search goes over the heads, and then looks at the entries that have the head of its target: one of them, nearly
//! always. It may begin there in the middle of an interval, because the entry before has a lesser head than the target
//! and than the entry: what these two share then stands within the prefix and the bytes of a head, and the target, which
//! is between them, has it too.

use super::BlockContents;
use super::iter::decode_entry;
use crate::key;
use crate::key_order::{common_prefix_len, head, lower_bound_by_head};

/// Where what is, of a block of internal keys in the order of their bytes. No entries if there is no directory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SearchIndex {
    num_entries: u16,
    /// Where in the contents a key begins, and with how many bytes, that all keys begin with.
    prefix_offset: u16,
    prefix_len: u16,
    /// In bytes.
    size: u32,
}

/// Bytes of a head, and of a place.
const HEAD_SIZE: usize = 8;
const ENTRY_OFFSET_SIZE: usize = 2;

impl SearchIndex {
    /// True if there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.num_entries == 0
    }

    /// The bytes of memory that it takes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// The first entry that may not be below `target`, if there is one: where it begins. `bytes` are those of the directory and
    /// behind them the contents.
    #[inline]
    pub(super) fn lower_bound(&self, bytes: &[u8], target: &[u8]) -> Option<usize> {
        let entries = usize::from(self.num_entries);
        let (heads, rest) = bytes.split_at_checked(entries * HEAD_SIZE)?;
        let (places, contents) = rest.split_at_checked(entries * ENTRY_OFFSET_SIZE)?;
        let prefix = contents.get(usize::from(self.prefix_offset)..)?.get(..usize::from(self.prefix_len))?;
        let first = lower_bound_by_head(prefix, heads.as_chunks().0, key::user_key(target));
        places.as_chunks().0.get(first).map(|&place| usize::from(u16::from_le_bytes(place)))
    }
}

/// What a directory says, before it has its place.
pub(super) struct SearchIndexBuilder {
    /// Where the first key is, and how much of it all keys begin with.
    prefix_offset: u16,
    prefix_len: u16,
    entries: HeadsAndOffsets,
}

/// The heads and the places of the entries of a block.
struct HeadsAndOffsets {
    heads: Vec<u64>,
    offsets: Vec<u16>,
}

impl SearchIndexBuilder {
    /// Of a block of internal keys. None if it is damaged, odd, or larger than places can tell, or has no entries.
    pub(super) fn new(contents: BlockContents<'_>) -> Option<SearchIndexBuilder> {
        u16::try_from(contents.entries_end).ok()?;
        let first = decode_entry(contents.entries(), contents.restart_point(0))?.key_delta.start as u16;
        let key = key::user_key(contents.restart_key(0).ok()?);
        let last = key::user_key(contents.restart_key(contents.num_restarts.checked_sub(1)?).ok()?);
        let shared = common_prefix_len(key, last);
        let (shared, entries) = match HeadsAndOffsets::after_prefix(contents, &key[..shared])? {
            Ok(entries) => (shared, entries),
            // Those behind the last restart point have less in common.
            Err(fewer) => (fewer, HeadsAndOffsets::after_prefix(contents, &key[..fewer])?.ok()?),
        };
        Some(SearchIndexBuilder { prefix_offset: first, prefix_len: shared as u16, entries })
    }

    /// The directory that says so.
    pub(super) fn index(&self) -> SearchIndex {
        let entries = self.entries.heads.len();
        // Each entry takes three bytes at least, and each of them is at a place.
        let (count, size) = (entries as u16, (entries * (HEAD_SIZE + ENTRY_OFFSET_SIZE)) as u32);
        SearchIndex {
            num_entries: count,
            prefix_offset: self.prefix_offset,
            prefix_len: self.prefix_len,
            size,
        }
    }

    /// Puts what is to stand before the contents into `bytes`, which are so many.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let HeadsAndOffsets { heads, offsets: places } = &self.entries;
        let (to_heads, to_places) = bytes.split_at_mut(heads.len() * HEAD_SIZE);
        to_heads.as_chunks_mut().0.iter_mut().zip(heads).for_each(|(to, head)| *to = head.to_le_bytes());
        to_places.as_chunks_mut().0.iter_mut().zip(places).for_each(|(to, place)| *to = place.to_le_bytes());
    }
}

impl HeadsAndOffsets {
    /// With the heads behind `prefix`; or how many bytes of that all keys begin with, if it is not all of it.
    fn after_prefix(contents: BlockContents<'_>, prefix: &[u8]) -> Option<Result<HeadsAndOffsets, usize>> {
        let entries = contents.entries();
        // By the usual interval, and entries of some bytes.
        let guess = (contents.num_restarts * 16 * 5 / 4).min(entries.len() / 16);
        let (mut heads, mut places) = (Vec::with_capacity(guess), Vec::with_capacity(guess));
        let (mut at, mut before, mut newest, mut fewest) = (contents.restart_point(0), 0, 0, prefix.len());
        while at < entries.len() {
            let entry = decode_entry(entries, at)?;
            let rest = &entries[entry.key_delta.clone()];
            let length = (entry.shared + rest.len()).checked_sub(key::KEY_TRAILER_SIZE)?;
            if entry.shared > before || entry.shared > length {
                return None; // it shares bytes of a number
            }
            let more = &rest[..length - entry.shared];
            newest = match entry.shared.checked_sub(prefix.len()) {
                Some(kept @ 0..8) => {
                    newest & !(u64::MAX >> (8 * kept)) | truncated_head(more.len(), rest) >> (8 * kept)
                }
                Some(_) => newest,
                None => {
                    let wanted = &prefix[entry.shared..];
                    more.strip_prefix(wanted).map(head).unwrap_or_else(|| {
                        fewest = fewest.min(entry.shared + common_prefix_len(more, wanted));
                        0
                    })
                }
            };
            heads.push(newest);
            places.push(at as u16);
            (before, at) = (length, entry.value_end);
        }
        Some(if fewest < prefix.len() { Err(fewest) } else { Ok(HeadsAndOffsets { heads, offsets: places }) })
    }
}

/// The [`head`] of the first `len` bytes of `rest`, behind which a number stands: so there are eight to load at once.
#[inline]
fn truncated_head(len: usize, rest: &[u8]) -> u64 {
    let head = rest.first_chunk().map_or(0, |chunk| u64::from_be_bytes(*chunk));
    let unwanted = 8 * (8 - len.min(8)) as u32;
    head.checked_shr(unwanted).map_or(0, |head| head << unwanted)
}
