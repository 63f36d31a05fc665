//! Search for one key in a block. It builds no key.
//!
//! ```text
//!   target     mail/1017
//!   previous   mail/1009          shares 7 bytes with the target and is below it
//!
//!   next key   shares 8 or more   it differs from the target where the previous key did: below it
//!              shares 7 or less   compare its suffix with the target from there on
//! ```
//!
//! The bytes that the found entry shares with its predecessor are therefore a prefix of the target.
//! Its key is this prefix and the suffix.

use std::hint::black_box;
use std::ops::Range;

use super::Block;
use super::contents::BlockContents;
use super::entry::{EncodedEntry, decode_entry, entry_error};
use crate::decode_error::DecodeError;
use crate::key;
use crate::key_order::common_prefix_len;

/// Cache line size of current processors, in bytes.
const CPU_LINE_SIZE: usize = 64;

/// Result of a lookup in a block.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockLookup {
    /// The newest visible version: the trailer of its key, and the range of its value within the
    /// block contents.
    Found {
        #[expect(missing_docs)]
        trailer: u64,
        #[expect(missing_docs)]
        value: Range<usize>,
    },
    /// The block has no visible version of the user key.
    NotFound,
    /// Neighbouring entries have the same user key, or a key has an unusual form. The caller must
    /// use an iterator.
    NeedsIterator,
}

/// Result of a search for a position.
pub(super) enum BlockSeekResult {
    /// First entry at or after the target: its offset, and its trailer if its user key is that of
    /// the target. The bytes that it shares with the entry before are a prefix of the target.
    AtEntry(usize, EncodedEntry, Option<u64>),
    /// Every entry is below the target.
    PastEnd,
    /// Like [`BlockLookup::NeedsIterator`].
    NeedsIterator,
}

/// Entry at which a search in a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStart {
    /// Offset of the first entry that may be at or after the target. The bytes that the entry
    /// shares with the entry before are a prefix of the target.
    Entry(usize),
    /// Offset of a restart point. The entries before it are below the target.
    Restart(usize),
    /// Every entry is below the target.
    PastEnd,
}

impl Block {
    /// Looks up the newest version of a user key that is visible to the internal key `target`. The
    /// order of the block is [`KeyOrder::Internal`].
    ///
    /// [`KeyOrder::Internal`]: crate::key_order::KeyOrder::Internal
    #[inline]
    pub fn seek_for_get(&self, target: &[u8]) -> Result<BlockLookup, DecodeError> {
        self.block_contents().seek_for_get(self.search_start(target)?, target)
    }

    /// Returns the entry at which a search for the internal key `target` begins.
    #[inline]
    pub(super) fn search_start(&self, target: &[u8]) -> Result<SearchStart, DecodeError> {
        if self.search_index.is_empty() {
            return self.block_contents().restart_search_start(target);
        }
        let Some(first) = self.search_index.lower_bound(&self.bytes, target) else {
            return Ok(SearchStart::PastEnd);
        };
        // Start the loads of all cache lines of the entry at once, instead of one after the other.
        for line in [first + CPU_LINE_SIZE, first + 2 * CPU_LINE_SIZE] {
            black_box(self.block_contents().entries().get(line).copied());
        }
        Ok(SearchStart::Entry(first))
    }
}

impl BlockContents<'_> {
    /// Looks up the newest version of a user key that is visible to the internal key `target`, from
    /// `start` on. The order of the block is [`KeyOrder::Internal`].
    ///
    /// [`KeyOrder::Internal`]: crate::key_order::KeyOrder::Internal
    #[inline]
    pub fn seek_for_get(self, start: SearchStart, target: &[u8]) -> Result<BlockLookup, DecodeError> {
        Ok(match self.seek_position(start, target)? {
            BlockSeekResult::AtEntry(_, entry, Some(trailer)) => {
                BlockLookup::Found { trailer, value: entry.key_delta.end..entry.value_end }
            }
            BlockSeekResult::AtEntry(..) | BlockSeekResult::PastEnd => BlockLookup::NotFound,
            BlockSeekResult::NeedsIterator => BlockLookup::NeedsIterator,
        })
    }

    /// Finds the position of the internal key `target` from `start` on. The order of the block is
    /// [`KeyOrder::Internal`].
    ///
    /// [`KeyOrder::Internal`]: crate::key_order::KeyOrder::Internal
    #[inline]
    pub(super) fn seek_position(
        self,
        start: SearchStart,
        target: &[u8],
    ) -> Result<BlockSeekResult, DecodeError> {
        let entries = self.entries();
        let user_key = key::user_key(target);
        // `same` bytes of the previous user key, which has `previous_len` bytes, equal the
        // target's: at least as many as the entry shares.
        let (mut offset, mut known, mut previous_len, mut same) = match start {
            SearchStart::Entry(first) => (first, usize::MAX, usize::MAX, usize::MAX),
            SearchStart::Restart(first) => (first, 0, 0, 0),
            SearchStart::PastEnd => return Ok(BlockSeekResult::PastEnd),
        };
        while offset < entries.len() {
            let entry = decode_entry(entries, offset).filter(|entry| entry.shared <= known);
            let entry = entry.ok_or_else(|| entry_error(entries, offset, known))?;
            let suffix = &entries[entry.key_delta.clone()];
            known = entry.shared + suffix.len();
            let Some(user_key_len) = known.checked_sub(key::KEY_TRAILER_SIZE) else {
                return Ok(BlockSeekResult::NeedsIterator);
            };
            if entry.shared > same {
                if same >= previous_len || same >= user_key_len {
                    // The entry shares bytes of a trailer, which say nothing about the user key.
                    return Ok(BlockSeekResult::NeedsIterator);
                }
            } else {
                let Some((suffix, trailer)) = suffix.split_last_chunk() else {
                    return Ok(BlockSeekResult::NeedsIterator);
                };
                let Some(wanted) = user_key.get(entry.shared..) else {
                    return Ok(BlockSeekResult::NeedsIterator);
                };
                let common = common_prefix_len(suffix, wanted);
                same = entry.shared + common;
                match (suffix.get(common), wanted.get(common)) {
                    (None, None) => {
                        let trailer = u64::from_le_bytes(*trailer);
                        if trailer <= key::trailer(target) {
                            return Ok(BlockSeekResult::AtEntry(offset, entry, Some(trailer)));
                        }
                    }
                    (Some(_), None) => return Ok(BlockSeekResult::AtEntry(offset, entry, None)),
                    (Some(a), Some(b)) if a > b => return Ok(BlockSeekResult::AtEntry(offset, entry, None)),
                    _ => {}
                }
            }
            previous_len = user_key_len;
            offset = entry.value_end;
        }
        Ok(BlockSeekResult::PastEnd)
    }
}
