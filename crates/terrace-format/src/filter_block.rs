//! The filter block of a table: one filter for each 2 KiB of the file, or one for all of it.
//!
//! ```text
//!   0                        offsets                           n-5          n-1    n
//!   +----------+-------------+---------------------------------+------------+------+
//!   | filter 0 | filter 1 .. | start of filter 0, 1, .. (u32)  | offsets    | 11   |   2^11 = 2 KiB
//!   +----------+-------------+---------------------------------+------------+------+
//! ```
//!
//! Filter i holds the keys of the data blocks that begin in bytes [i * 2^11, (i+1) * 2^11) of the file. The last byte
//! is free to be another power of two, and readers follow it: a table with one filter for all of it, or for each GiB,
//! says 30.
//! The block has no order of keys and does not know what a key is.

use std::ops::Range;
use std::sync::Arc;

use terrace_sync::mutant;

use crate::coding::{get_fixed32, put_fixed32};
use crate::filter::{Bloom, FilterPolicy, OfUserKeys, Probes};
use crate::key;

/// 2 KiB, as LevelDB has it.
const RANGE_LOG2: u8 = 11;

/// 1 GiB. A filter's start is stored in 32 bits: those of a table that is larger need several anyway.
const WHOLE_LOG2: u8 = 30;

/// What makes the filters of a table.
#[derive(Clone)]
pub enum Filters {
    /// A policy's, one for each 2 KiB, as every LevelDB makes them.
    OfRanges(Arc<dyn FilterPolicy>),
    /// The built-in policy's, one for the whole table, of the user keys of internal keys. It can be asked before the
    /// index is, and every LevelDB that has the policy asks it, too.
    OfTable(Bloom),
}

impl Filters {
    /// The name of the policy.
    pub fn name(&self) -> &str {
        match self {
            Filters::OfRanges(policy) => policy.name(),
            Filters::OfTable(bloom) => bloom.name(),
        }
    }

    /// What answers for keys as they are stored in the table.
    pub fn policy(&self) -> Arc<dyn FilterPolicy> {
        match self {
            Filters::OfRanges(policy) => Arc::clone(policy),
            Filters::OfTable(bloom) => Arc::new(OfUserKeys(Arc::new(bloom.clone()))),
        }
    }
}

/// Builds a filter block. Called as (start_block add*)* finish, with block offsets that rise.
pub struct FilterBlockBuilder {
    keys: Keys,
    base_log2: u8,
    filters: Vec<u8>,
    starts: Vec<u32>,
}

/// The keys of the filter that comes next.
enum Keys {
    /// One behind the other, and where each ends.
    Whole {
        policy: Arc<dyn FilterPolicy>,
        keys: Vec<u8>,
        ends: Vec<usize>,
    },
    Hashes {
        bloom: Bloom,
        hashes: Vec<u32>,
    },
}

impl FilterBlockBuilder {
    /// With the filters of `filters`.
    pub fn new(filters: Filters) -> FilterBlockBuilder {
        let (keys, base_log2) = match filters {
            Filters::OfRanges(policy) => {
                (Keys::Whole { policy, keys: Vec::new(), ends: Vec::new() }, RANGE_LOG2)
            }
            Filters::OfTable(bloom) => (Keys::Hashes { bloom, hashes: Vec::new() }, WHOLE_LOG2),
        };
        FilterBlockBuilder { keys, base_log2, filters: Vec::new(), starts: Vec::new() }
    }

    /// The keys that follow are those of the data block at `offset`.
    pub fn start_block(&mut self, offset: u64) {
        let index = offset >> self.base_log2;
        debug_assert!(index >= self.starts.len() as u64, "data blocks rise in the file");
        while (self.starts.len() as u64) < index {
            self.end_filter();
        }
    }

    /// One more key of the current data block.
    pub fn add(&mut self, key: &[u8]) {
        match &mut self.keys {
            Keys::Whole { keys, ends, .. } => {
                keys.extend_from_slice(key);
                ends.push(keys.len());
            }
            Keys::Hashes { hashes, .. } => {
                let key = if mutant!(FilterBuiltFromInternalKeys) { key } else { key::user_key(key) };
                let hash = Bloom::hash(key);
                // The versions of a key follow each other.
                if hashes.last() != Some(&hash) {
                    hashes.push(hash);
                }
            }
        }
    }

    /// The contents of the block.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.keys.is_empty() {
            self.end_filter();
        }
        let offsets = self.filters_len();
        for start in self.starts {
            put_fixed32(&mut self.filters, start);
        }
        put_fixed32(&mut self.filters, offsets);
        self.filters.push(self.base_log2);
        self.filters
    }

    /// Without keys the filter is empty: no bytes, whatever the policy.
    fn end_filter(&mut self) {
        self.starts.push(self.filters_len());
        if !self.keys.is_empty() {
            self.keys.take_filter(&mut self.filters);
        }
    }

    fn filters_len(&self) -> u32 {
        debug_assert!(u32::try_from(self.filters.len()).is_ok(), "a table has less than 4 GiB of filters");
        self.filters.len() as u32
    }
}

impl Keys {
    fn is_empty(&self) -> bool {
        match self {
            Keys::Whole { ends, .. } => ends.is_empty(),
            Keys::Hashes { hashes, .. } => hashes.is_empty(),
        }
    }

    /// Appends their filter, and forgets them.
    fn take_filter(&mut self, filters: &mut Vec<u8>) {
        let forgotten = usize::from(mutant!(FilterBlockOmitsFirstKey));
        match self {
            Keys::Whole { policy, keys, ends } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let slices: Vec<&[u8]> = starts.zip(&*ends).map(|(start, &end)| &keys[start..end]).collect();
                policy.create(&slices[forgotten..], filters);
                keys.clear();
                ends.clear();
            }
            Keys::Hashes { bloom, hashes } => {
                bloom.create_of(hashes[forgotten..].iter().copied(), filters);
                hashes.clear();
            }
        }
    }
}

/// A filter block as read from a table.
pub struct FilterBlock {
    policy: Arc<dyn FilterPolicy>,
    contents: Vec<u8>,
    /// Where the offsets begin, and how many there are: 0 if the block is malformed.
    offsets: usize,
    count: u64,
    base_log2: u8,
    /// Of the first filter, where it is, if it is one of the built-in policy.
    first: Option<(Range<usize>, Probes)>,
}

/// What is asked of a filter of the built-in policy that stands for a whole table.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    filter: &'a [u8],
    probes: Probes,
    hash: u32,
}

impl<'a> Question<'a> {
    /// The bytes that the answer depends on.
    #[inline]
    pub fn bytes(self) -> impl Iterator<Item = &'a u8> {
        self.probes.bytes(self.hash, self.filter)
    }

    /// As [`FilterBlock::may_match`].
    #[inline]
    pub fn may_match(self) -> bool {
        self.probes.may_match(self.hash, self.filter)
    }
}

impl FilterBlock {
    /// From stored bytes. Of malformed ones comes a filter that matches everything: a table can be read without.
    pub fn new(policy: Arc<dyn FilterPolicy>, contents: Vec<u8>) -> FilterBlock {
        let (offsets, count, base_log2) = parse(&contents).unwrap_or_default();
        let mut block = FilterBlock { policy, contents, offsets, count, base_log2, first: None };
        if OfUserKeys::is_bloom(&*block.policy) {
            let filter = block.range(0);
            let probes = filter.clone().and_then(|range| Probes::of(block.contents.get(range)?));
            block.first = filter.zip(probes);
        }
        block
    }

    /// What [`FilterBlock::may_match`] asks about an internal key in the data block at 0, of whose user key this is
    /// [`Bloom::hash`], so that it can be asked when the bytes are at hand; None if the filter has to be asked as it is.
    #[inline]
    pub fn question(&self, hash: u32) -> Option<Question<'_>> {
        let (range, probes) = self.first.as_ref()?;
        let filter = self.contents.get(range.clone())?;
        Some(Question { filter, probes: *probes, hash })
    }

    /// The bytes of memory that it takes.
    pub fn size(&self) -> usize {
        self.contents.capacity()
    }

    /// True if what it says of the data block at 0 it says of all blocks before `end`.
    pub fn is_whole(&self, end: u64) -> bool {
        self.count > 0 && end.checked_shr(u32::from(self.base_log2)).unwrap_or(0) == 0
    }

    /// False only if `key` is certainly not in the data block at `block_offset`.
    pub fn may_match(&self, block_offset: u64, key: &[u8]) -> bool {
        let index = block_offset.checked_shr(u32::from(self.base_log2)).unwrap_or(0);
        self.range(index).is_none_or(|range| self.policy.may_match(key, &self.contents[range]))
    }

    /// Where filter `index` is, if it is anywhere.
    fn range(&self, index: u64) -> Option<Range<usize>> {
        let at = self.offsets + Some(index).filter(|index| *index < self.count)? as usize * 4;
        let range = self.offset(at)..self.offset(at + 4);
        self.contents[..self.offsets].get(range.clone()).map(|_| range)
    }

    /// The offset stored at `at`. The one behind the last filter's is where the offsets begin.
    fn offset(&self, at: usize) -> usize {
        self.contents.get(at..).and_then(get_fixed32).map_or(usize::MAX, |offset| offset as usize)
    }
}

/// Where the offsets begin, their count, and the power of two.
fn parse(contents: &[u8]) -> Option<(usize, u64, u8)> {
    let (&base_log2, rest) = contents.split_last()?;
    let (before, last) = rest.split_last_chunk::<4>()?;
    let offsets = u32::from_le_bytes(*last) as usize;
    let room = before.len().checked_sub(offsets)?;
    Some((offsets, (room / 4) as u64, base_log2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::hash;
    use crate::key::{InternalKey, Kind};

    /// Keeps the four bytes of each key's hash, so that the bytes of a block can be told by eye.
    struct Hashes;

    impl FilterPolicy for Hashes {
        fn name(&self) -> &str {
            "test.Hashes"
        }

        fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
            keys.iter().for_each(|key| put_fixed32(dst, hash(key, 1)));
        }

        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            filter.chunks(4).any(|stored| stored == hash(key, 1).to_le_bytes())
        }
    }

    /// The block of data blocks at these offsets with these keys.
    fn build(blocks: &[(u64, &[&str])]) -> Vec<u8> {
        let mut builder = FilterBlockBuilder::new(Filters::OfRanges(Arc::new(Hashes)));
        for (offset, keys) in blocks {
            builder.start_block(*offset);
            keys.iter().for_each(|key| builder.add(key.as_bytes()));
        }
        builder.finish()
    }

    /// Which of `keys` the block lets through for the data block at `offset`.
    fn matching(contents: &[u8], offset: u64, keys: &[&'static str]) -> Vec<&'static str> {
        let block = FilterBlock::new(Arc::new(Hashes), contents.to_vec());
        keys.iter().copied().filter(|key| block.may_match(offset, key.as_bytes())).collect()
    }

    #[test]
    fn no_data_block() {
        let contents = build(&[]);
        assert_eq!(contents, [0, 0, 0, 0, 11]);
        assert_eq!(matching(&contents, 0, &["any"]), ["any"]);
        assert_eq!(matching(&contents, 100_000, &["any"]), ["any"]);
    }

    #[test]
    fn data_blocks_that_share_a_filter() {
        let contents = build(&[(100, &["foo", "bar", "box"]), (200, &["box"]), (300, &["hello"])]);
        assert_eq!(contents.len(), 5 * 4 + 4 + 4 + 1);
        let asked = ["foo", "bar", "box", "hello", "missing", "other"];
        assert_eq!(matching(&contents, 100, &asked), ["foo", "bar", "box", "hello"]);
        assert_eq!(matching(&contents, 2047, &asked), ["foo", "bar", "box", "hello"]);
    }

    #[test]
    fn data_blocks_with_filters_of_their_own_and_a_gap() {
        let blocks: &[(u64, &[&str])] =
            &[(0, &["foo"]), (2000, &["bar"]), (3100, &["box"]), (9000, &["box", "hello"])];
        let contents = build(blocks);
        let asked = ["foo", "bar", "box", "hello"];
        assert_eq!(matching(&contents, 0, &asked), ["foo", "bar"]);
        assert_eq!(matching(&contents, 3100, &asked), ["box"]);
        assert_eq!(matching(&contents, 4100, &asked), [""; 0], "an empty filter");
        assert_eq!(matching(&contents, 9000, &asked), ["box", "hello"]);
        assert_eq!(matching(&contents, 10_240, &asked), asked, "behind the last filter");
    }

    #[test]
    fn the_bytes() {
        let contents = build(&[(0, &["a"]), (4096, &["b"])]);
        let mut expect = Vec::new();
        put_fixed32(&mut expect, hash(b"a", 1));
        put_fixed32(&mut expect, hash(b"b", 1));
        for offset in [0, 4, 4, 8] {
            put_fixed32(&mut expect, offset);
        }
        expect.push(11);
        assert_eq!(contents, expect);
    }

    #[test]
    fn one_filter_for_the_file() {
        let mut contents = build(&[(0, &["a"])]);
        *contents.last_mut().unwrap() = 30;
        assert_eq!(matching(&contents, (1 << 30) - 1, &["a", "b"]), ["a"]);
        *contents.last_mut().unwrap() = 255;
        assert_eq!(matching(&contents, u64::MAX, &["a", "b"]), ["a"], "a power beyond 64 bits");
    }

    #[test]
    fn of_a_whole_table() {
        let key = |user_key: &[u8], sequence| InternalKey::new(user_key, sequence, Kind::Put);
        let mut builder = FilterBlockBuilder::new(Filters::OfTable(Bloom::new(10)));
        for (offset, user_key, sequence) in [(0, b"hello", 9), (0, b"hello", 3), (5000, b"world", 4)] {
            builder.start_block(offset);
            builder.add(key(user_key, sequence).as_bytes());
        }
        let contents = builder.finish();
        let mut expect = Vec::new();
        Bloom::new(10).create(&[b"hello", b"world"], &mut expect);
        let offsets = expect.len() as u8;
        expect.extend([0, 0, 0, 0, offsets, 0, 0, 0, 30]);
        assert_eq!(contents, expect);

        let block = FilterBlock::new(Filters::OfTable(Bloom::new(10)).policy(), contents);
        assert!(block.is_whole(6000) && !block.is_whole(1 << 30));
        assert!(block.may_match(5000, key(b"hello", 99).as_bytes()));
        assert!(!block.may_match(0, key(b"missing", 99).as_bytes()));
    }

    #[test]
    fn a_filter_for_each_gib() {
        let key = |user_key: &[u8]| InternalKey::new(user_key, 1, Kind::Put);
        let mut builder = FilterBlockBuilder::new(Filters::OfTable(Bloom::new(10)));
        for (offset, user_key) in [(0, b"near".as_slice()), (3 << 30, b"far")] {
            builder.start_block(offset);
            builder.add(key(user_key).as_bytes());
        }
        let block = FilterBlock::new(Filters::OfTable(Bloom::new(10)).policy(), builder.finish());
        let asked = [(0, b"near".as_slice()), (0, b"far"), (3 << 30, b"near"), (3 << 30, b"far")];
        let answers = asked.map(|(offset, user_key)| block.may_match(offset, key(user_key).as_bytes()));
        assert_eq!(answers, [true, false, false, true]);
    }

    #[test]
    fn malformed_matches_everything() {
        let good = build(&[(0, &["a"])]);
        for cut in 0..5 {
            assert_eq!(matching(&good[..cut], 0, &["x"]), ["x"], "{cut} bytes");
        }
        let offsets_outside = [0, 0, 0, 0, 9, 0, 0, 0, 11];
        let start_above_limit = [1, 2, 3, 4, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 11];
        let limit_in_the_offsets = [0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 11];
        let (zeros, huge) = ([0; 8], [0xff; 9]);
        for contents in [&offsets_outside[..], &start_above_limit, &limit_in_the_offsets, &zeros, &huge] {
            assert_eq!(matching(contents, 0, &["x"]), ["x"], "{contents:?}");
        }
    }

    #[test]
    fn every_damaged_byte_is_survived() {
        let mut builder = FilterBlockBuilder::new(Filters::OfRanges(Arc::new(Bloom::new(10))));
        for (i, key) in [b"a", b"b", b"c"].iter().enumerate() {
            builder.start_block(i as u64 * 3000);
            builder.add(*key);
        }
        let good = builder.finish();
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let block = FilterBlock::new(Arc::new(Bloom::new(10)), bad);
                for offset in [0, 3000, 6000, u64::MAX] {
                    block.may_match(offset, b"a");
                }
            }
        }
    }
}
