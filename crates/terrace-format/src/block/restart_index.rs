//! Restart index: scaled heads and offsets of the restart points of a block, in one cache line.
//!
//! ```text
//!   separators       mail/1009 < keys of the block <= mail/1131      common prefix "mail/1"
//!   restart points   "mail/1010"   "mail/1043"   "mail/1087"         heads "010", "043", "087"
//!   scaled heads          0          0x6dbb        0xffff            (head - first head) >> shift
//! ```
//!
//! A block that is searched in place has no memory of its own for a search index. A search compares
//! the scaled head of its target with those of the restart points and then reads one interval of
//! the block: it waits for memory once. The separators of the table index bound all keys of the
//! block and all targets that belong to it, so both have the common prefix of the separators.

use std::ops::Range;

use super::contents::BlockContents;
use super::seek::SearchStart;
use crate::decode_error::DecodeError;
use crate::key;
use crate::key_order::{KeyOrder, common_prefix_len, head_after};

/// Number of 32-bit words of a [`RestartIndex`]: a cache line without one word, which the owner
/// uses.
pub const RESTART_INDEX_WORDS: usize = 15;

/// Number of words before the restart points.
const HEADER_WORDS: usize = 4;

/// Maximum number of restart points in the index. The first restart point needs no place in it.
const MAX_INDEXED: usize = RESTART_INDEX_WORDS - HEADER_WORDS;

/// Number of restart points between two indexed ones that are searched entry by entry.
const MAX_LINEAR_STRIDE: usize = 2;

/// Word of an unused place. No scaled head is greater.
const UNUSED: u32 = u32::MAX;

/// Scaled heads and offsets of the restart points of a block of internal keys in bytewise order.
///
/// The words are:
///
/// | word | contents |
/// |---|---|
/// | 0 | length of the common prefix, shift, number of restart points, stride: one byte each |
/// | 1 | offset at which the entries end |
/// | 2, 3 | head of the first key, low half first |
/// | 4 to 14 | scaled head (upper half) and offset (lower half) of each `stride`th restart point |
#[derive(Debug, Clone, Copy)]
pub struct RestartIndex {
    words: [u32; RESTART_INDEX_WORDS],
}

impl RestartIndex {
    /// Creates the index of a block between two separators, which are internal keys. Every key of
    /// the block, and every target of a search, is above `before` and not above `last`. The first
    /// block of a table has no `before`.
    ///
    /// Returns `None` for a block whose offsets do not fit 16 bits, or whose heads do not differ.
    pub fn new(contents: BlockContents<'_>, before: Option<&[u8]>, last: &[u8]) -> Option<RestartIndex> {
        let prefix_len =
            before.map_or(0, |before| common_prefix_len(key::user_key(before), key::user_key(last)));
        let prefix_byte = u8::try_from(prefix_len).ok()?;
        let restarts_byte = u8::try_from(contents.num_restarts).ok()?;
        u16::try_from(contents.entries_end).ok()?;
        if contents.restart_point(0) != 0 {
            return None;
        }
        let later_restarts = contents.num_restarts.checked_sub(1)?;
        let head = |i: usize| Some(head_after(prefix_len, key::user_key(contents.restart_key(i).ok()?)));
        let base = head(0)?;
        let span = head(later_restarts)?.checked_sub(base)?;
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(u16::BITS);
        let stride = later_restarts.div_ceil(MAX_INDEXED).max(1);
        let mut words = [UNUSED; RESTART_INDEX_WORDS];
        words[0] = u32::from_le_bytes([prefix_byte, shift as u8, restarts_byte, stride as u8]);
        words[1] = contents.entries_end as u32;
        words[2] = base as u32;
        words[3] = (base >> u32::BITS) as u32;
        let mut previous = 0;
        for (word, i) in
            words[HEADER_WORDS..].iter_mut().zip((1..contents.num_restarts).skip(stride - 1).step_by(stride))
        {
            let scaled = u16::try_from(head(i)?.checked_sub(base)? >> shift).ok()?;
            if scaled <= previous {
                return None;
            }
            previous = scaled;
            *word = u32::from(scaled) << u16::BITS | contents.restart_point(i) as u32;
        }
        Some(RestartIndex { words })
    }

    /// Returns the index with these words, which come from [`RestartIndex::words`]. Other words
    /// cause wrong results of searches, and nothing worse.
    #[inline]
    pub fn from_words(words: [u32; RESTART_INDEX_WORDS]) -> RestartIndex {
        RestartIndex { words }
    }

    /// Returns the words of the index.
    pub fn words(&self) -> &[u32; RESTART_INDEX_WORDS] {
        &self.words
    }

    /// Returns the contents of the block at the start of `bytes`.
    #[inline]
    pub fn contents<'a>(&self, bytes: &'a [u8]) -> BlockContents<'a> {
        let [_, _, num_restarts, _] = self.words[0].to_le_bytes();
        BlockContents::from_parts(bytes, self.words[1] as usize, num_restarts.into())
    }

    /// Returns the offsets at which a search for the internal key `target` starts and usually ends.
    #[inline]
    pub fn interval(&self, target: &[u8]) -> Range<usize> {
        let offset = |place: usize| (self.words[HEADER_WORDS + place] & u32::from(u16::MAX)) as usize;
        let below = self.count_below(target);
        let start = if below == 0 { 0 } else { offset(below - 1) };
        let is_last = below == MAX_INDEXED || self.words[HEADER_WORDS + below] == UNUSED;
        start..if is_last { self.words[1] as usize } else { offset(below) }
    }

    /// Returns the start of a search for the internal key `target` in `contents`, the contents of
    /// this block.
    #[inline]
    pub fn search_start(
        &self,
        contents: BlockContents<'_>,
        target: &[u8],
    ) -> Result<SearchStart, DecodeError> {
        let [.., stride] = self.words[0].to_le_bytes();
        let stride = usize::from(stride);
        if stride <= MAX_LINEAR_STRIDE {
            return Ok(SearchStart::Restart(self.interval(target).start));
        }
        let first = self.count_below(target) * stride;
        let restarts = first..(first + stride).min(contents.num_restarts);
        contents.last_restart_below(restarts, &KeyOrder::Internal, target).map(SearchStart::Restart)
    }

    /// Returns the number of indexed restart points whose keys are certainly below `target`.
    #[inline]
    fn count_below(&self, target: &[u8]) -> usize {
        let [prefix_len, shift, ..] = self.words[0].to_le_bytes();
        let base = u64::from(self.words[2]) | u64::from(self.words[3]) << u32::BITS;
        let head = head_after(prefix_len.into(), key::user_key(target));
        let scaled = (head.saturating_sub(base) >> (shift & 63)).min(u16::MAX.into()) as u32;
        let bound = scaled << u16::BITS;
        self.words[HEADER_WORDS..].iter().map(|&word| usize::from(word < bound)).sum()
    }
}
