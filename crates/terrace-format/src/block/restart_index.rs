//! Restart index: scaled heads and offsets of the restart points of a block, in one cache line.
//!
//! ```text
//!   separators       mail/1009 < keys of the block <= mail/1131      common prefix "mail/1"
//!   restart points   "mail/1010"   "mail/1043"   "mail/1087"         heads "010", "043", "087"
//!   scaled heads          0          0x6060        0xe0e0            (head - first head) >> shift
//! ```
//!
//! A block that is searched in place has no memory of its own for a search index. A search compares
//! the scaled head of its target with those of the restart points and then reads one interval of
//! the block: it waits for memory once. The separators of the table index bound all keys of the
//! block and all targets that belong to it, so both have the common prefix of the separators.

use std::ops::Range;

use terrace_sync::mutant;

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
        let mut bound = scaled << u16::BITS;
        if mutant!(RestartIndexCountsEqualHead) {
            bound |= u32::from(u16::MAX);
        }
        self.words[HEADER_WORDS..].iter().map(|&word| usize::from(word < bound)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::block::{BlockBuilder, BlockIter, BlockLookup, BlockSource};
    use crate::comparator::{Comparator, bytewise};
    use crate::internal_iterator::InternalIterator;
    use crate::key::{InternalComparator, InternalKey, ValueType};

    /// Block with a restart index.
    struct IndexedBlock<'a> {
        contents: BlockContents<'a>,
        index: RestartIndex,
    }

    impl BlockSource for IndexedBlock<'_> {
        fn block_contents(&self) -> BlockContents<'_> {
            self.contents
        }

        fn search_start(&self, target: &[u8]) -> Result<SearchStart, DecodeError> {
            self.index.search_start(self.contents, target)
        }
    }

    fn internal(user_key: &[u8], sequence: u64) -> Vec<u8> {
        InternalKey::new(user_key, sequence, ValueType::Value).as_bytes().to_vec()
    }

    fn build(restart_interval: usize, keys: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = BlockBuilder::new(restart_interval);
        for key in keys {
            builder.add(key, key);
        }
        builder.finish().to_vec()
    }

    #[test]
    fn words_of_the_example() {
        let keys = ["mail/1010", "mail/1043", "mail/1087"].map(|key| internal(key.as_bytes(), 7));
        let bytes = build(1, &keys);
        let contents = BlockContents::new(&bytes).unwrap();
        let before = internal(b"mail/1009", 7);
        let index = RestartIndex::new(contents, Some(&before), &internal(b"mail/1131", 7)).unwrap();
        // The heads "010" and "087" differ by 51 bits.
        let heads = [*b"010\0\0\0\0\0", *b"043\0\0\0\0\0", *b"087\0\0\0\0\0"].map(u64::from_be_bytes);
        let scaled = heads.map(|head| (head - heads[0]) >> 35);
        let entry_size = 3 + 17 + 17;
        let place = |i: usize| (scaled[i] << 16) as u32 | (i * entry_size) as u32;
        let mut words = [UNUSED; RESTART_INDEX_WORDS];
        words[0] = u32::from_le_bytes([6, 35, 3, 1]);
        words[1] = 3 * entry_size as u32;
        words[2] = heads[0] as u32;
        words[3] = (heads[0] >> 32) as u32;
        words[4] = place(1);
        words[5] = place(2);
        assert_eq!(index.words(), &words);
        assert_eq!(scaled, [0, 0x6060, 0xe0e0]);
        let interval = |key: &str| index.interval(&internal(key.as_bytes(), 7));
        assert_eq!(interval("mail/101"), 0..entry_size);
        assert_eq!(interval("mail/1043"), 0..entry_size, "an equal head may belong to a greater key");
        assert_eq!(interval("mail/1044"), entry_size..2 * entry_size);
        assert_eq!(interval("mail/1131"), 2 * entry_size..3 * entry_size);
    }

    #[test]
    fn blocks_of_plain_keys_have_an_index() {
        for count in [1, 2, 15, 16, 17, 180, 400, 1500] {
            let keys: Vec<_> =
                (0..count).map(|n| internal(format!("{:010}", 37 * n).as_bytes(), 7)).collect();
            for restart_interval in [8, 16, 64] {
                let bytes = build(restart_interval, &keys);
                let contents = BlockContents::new(&bytes).unwrap();
                let index = RestartIndex::new(contents, None, keys.last().unwrap());
                let fits = contents.entries_end() <= 0xffff && contents.num_restarts() <= 0xff;
                assert_eq!(index.is_some(), fits, "{count} keys, a restart point for {restart_interval}");
            }
        }
    }

    #[test]
    fn blocks_without_an_index() {
        #[track_caller]
        fn check(restart_interval: usize, keys: &[Vec<u8>]) {
            let bytes = build(restart_interval, keys);
            let contents = BlockContents::new(&bytes).unwrap();
            assert!(RestartIndex::new(contents, None, &internal(b"zz", 1)).is_none());
        }
        check(1, &[]);
        check(1, &(0..256u64).map(|n| internal(&n.to_be_bytes(), 1)).collect::<Vec<_>>());
        check(1, &[internal(b"a", 2), internal(b"a", 1)]);
        check(1, &[internal(b"12345678a", 1), internal(b"12345678b", 1)]);
        check(16, &[[internal(&[b'a'; 40_000], 1)].concat()]);
        let bytes = [0; 4];
        assert!(RestartIndex::new(BlockContents::new(&bytes).unwrap(), None, b"").is_none());
    }

    /// Generates user keys of few different bytes, among them prefixes of each other, after a
    /// common prefix that is sometimes longer than a head.
    fn user_keys() -> impl Strategy<Value = (Vec<u8>, Vec<Vec<u8>>)> {
        let byte = prop_oneof![3 => b'a'..=b'c', 1 => Just(0), 1 => Just(0xff), 1 => any::<u8>()];
        let prefix = prop_oneof![Just(0usize), 1..4usize, Just(20)].prop_map(|len| vec![b'p'; len]);
        (prefix, prop::collection::vec(prop::collection::vec(byte, 0..12), 1..150))
    }

    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        KeyOrder::Internal.compare(a, b)
    }

    /// Returns an internal key that is not below `low` and below `high`. Tightness 0 returns `low`,
    /// 1 the separator that a table builder chooses, and 2 the greatest such key.
    fn separator(tightness: u8, low: &[u8], high: &[u8]) -> Vec<u8> {
        let mut separator = low.to_vec();
        match tightness {
            0 => {}
            1 => InternalComparator::new(bytewise()).shortest_separator(&mut separator, high),
            _ => {
                let greatest = internal(key::user_key(high), (key::trailer(high) >> 8) + 1);
                if compare(low, &greatest).is_lt() {
                    separator = greatest;
                }
            }
        }
        assert!(compare(low, &separator).is_le() && compare(&separator, high).is_lt());
        separator
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 500 } else { 2_000 }))]

        /// The index may only change the start of a search.
        #[test]
        fn searches_find_the_same_position(
            (prefix, suffixes) in user_keys(),
            versions in prop::collection::vec(1u64..4, 150),
            (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
            restart_interval in 1usize..20,
            (tightness_before, tightness_last, is_first) in (0u8..3, 0u8..3, any::<bool>()),
        ) {
            let mut keys: Vec<_> = suffixes
                .iter()
                .zip(&versions)
                .flat_map(|(suffix, versions)| (0..*versions).map(|n| (suffix, n)).collect::<Vec<_>>())
                .map(|(suffix, sequence)| internal(&[&prefix, &suffix[..]].concat(), sequence))
                .collect();
            keys.sort_by(|a, b| compare(a, b));
            keys.dedup();
            let start = from.index(keys.len()).min(to.index(keys.len()));
            let last = from.index(keys.len()).max(to.index(keys.len()));
            let before = (start > 0 && !is_first)
                .then(|| separator(tightness_before, &keys[start - 1], &keys[start]));
            let start = if before.is_some() { start } else { 0 };
            let end = match keys.get(last + 1) {
                Some(next) => separator(tightness_last, &keys[last], next),
                None => internal(&[&prefix[..], &[0xff; 13]].concat(), 0),
            };
            let bytes = build(restart_interval, &keys[start..=last]);
            let contents = BlockContents::new(&bytes).unwrap();
            let Some(index) = RestartIndex::new(contents, before.as_deref(), &end) else { return Ok(()) };
            let index = RestartIndex::from_words(*index.words());
            let found_contents = index.contents(&bytes);
            prop_assert_eq!(found_contents.entries_end(), contents.entries_end());
            prop_assert_eq!(found_contents.num_restarts(), contents.num_restarts());
            let mut iter = BlockIter::new(IndexedBlock { contents, index }, KeyOrder::Internal);
            let other_targets = suffixes.iter().flat_map(|suffix| {
                [&suffix[..], &suffix[..suffix.len() / 2], &[&suffix[..], &[0]].concat(), &[&suffix[..], b"b"].concat()]
                    .map(|suffix| internal(&[&prefix, suffix].concat(), 9))
            });
            let other_targets: Vec<_> = other_targets.chain([end.clone(), internal(&prefix, 9)]).collect();
            for target in keys.iter().chain(&other_targets) {
                let is_above_before = before.as_ref().is_none_or(|before| compare(before, target).is_lt());
                if !is_above_before || compare(target, &end).is_gt() {
                    continue;
                }
                let expected = keys[start..=last].iter().find(|key| compare(key, target).is_ge());
                iter.seek(target);
                prop_assert_eq!(iter.status(), Ok(()));
                prop_assert_eq!(iter.entry().map(|(key, _)| key), expected.map(Vec::as_slice));
                let lookup = contents.seek_for_get(index.search_start(contents, target).unwrap(), target).unwrap();
                let found = match expected {
                    Some(key) if key::user_key(key) == key::user_key(target) => {
                        BlockLookup::Found { trailer: key::trailer(key), value: iter.value_range() }
                    }
                    _ => BlockLookup::NotFound,
                };
                prop_assert!(lookup == found || lookup == BlockLookup::NeedsIterator, "{:?}, expected {:?}", lookup, found);
            }
        }

        /// The bytes of a mapping can change after the index was built.
        #[test]
        fn arbitrary_words_and_bytes_never_panic(
            words in prop::array::uniform15(prop_oneof![any::<u32>(), any::<u32>().prop_map(|word| word & 0x3f_003f)]),
            bytes in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..300),
            target in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let index = RestartIndex::from_words(words);
            let contents = index.contents(&bytes);
            let _ = contents.bytes().get(index.interval(&target));
            if let Ok(start) = index.search_start(contents, &target) {
                let _ = contents.seek_for_get(start, &target);
            }
            let _ = RestartIndex::new(contents, Some(&target), &bytes);
            let mut iter = BlockIter::new(IndexedBlock { contents, index }, KeyOrder::Internal);
            iter.seek(&target);
            for _ in 0..2 {
                for _ in 0..200 {
                    if iter.valid() {
                        let _ = (iter.key(), iter.value(), iter.value_address());
                        iter.prev();
                    }
                }
                iter.seek_to_last();
            }
            iter.seek_to_first();
            for _ in 0..200 {
                if iter.valid() && !iter.next_visible_fast(|_| true) {
                    iter.next();
                }
            }
        }
    }

    #[test]
    fn greatest_separator_is_a_newer_version() {
        assert_eq!(separator(2, &internal(b"a", 1), &internal(b"b", 1)), internal(b"b", 2));
        assert_eq!(separator(2, &internal(b"b", 2), &internal(b"b", 1)), internal(b"b", 2));
    }
}
