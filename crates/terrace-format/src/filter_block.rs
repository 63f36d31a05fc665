//! The filter block of a table: one filter for each 2 KiB of the file.
//!
//! ```text
//!   0                        offsets                           n-5          n-1    n
//!   +----------+-------------+---------------------------------+------------+------+
//!   | filter 0 | filter 1 .. | start of filter 0, 1, .. (u32)  | offsets    | 11   |   2^11 = 2 KiB
//!   +----------+-------------+---------------------------------+------------+------+
//! ```
//!
//! Filter i holds the keys of the data blocks that begin in bytes [i * 2^11, (i+1) * 2^11) of the file. The last byte
//! is free to be another power of two, and readers follow it: a table with one filter for all of it says 30.
//! The block has no order of keys and does not know what a key is.

use std::sync::Arc;

use terrace_mutants::mutant;

use crate::coding::{get_fixed32, put_fixed32};
use crate::filter::FilterPolicy;

const BASE_LOG2: u8 = 11;

/// Builds a filter block. Called as (start_block add*)* finish, with block offsets that rise.
pub struct FilterBlockBuilder {
    policy: Arc<dyn FilterPolicy>,
    /// The keys of the filter that comes next, one behind the other, and where each ends.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    filters: Vec<u8>,
    starts: Vec<u32>,
}

impl FilterBlockBuilder {
    /// With filters of `policy`.
    pub fn new(policy: Arc<dyn FilterPolicy>) -> FilterBlockBuilder {
        FilterBlockBuilder {
            policy,
            keys: Vec::new(),
            key_ends: Vec::new(),
            filters: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The keys that follow are those of the data block at `offset`.
    pub fn start_block(&mut self, offset: u64) {
        let index = offset >> BASE_LOG2;
        debug_assert!(index >= self.starts.len() as u64, "data blocks rise in the file");
        while (self.starts.len() as u64) < index {
            self.end_filter();
        }
    }

    /// One more key of the current data block.
    pub fn add(&mut self, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
    }

    /// The contents of the block.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.key_ends.is_empty() {
            self.end_filter();
        }
        let offsets = self.filters_len();
        for start in self.starts {
            put_fixed32(&mut self.filters, start);
        }
        put_fixed32(&mut self.filters, offsets);
        self.filters.push(BASE_LOG2);
        self.filters
    }

    /// Without keys the filter is empty: no bytes, whatever the policy.
    fn end_filter(&mut self) {
        self.starts.push(self.filters_len());
        if self.key_ends.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        let keys: Vec<&[u8]> =
            starts.zip(&self.key_ends).map(|(start, &end)| &self.keys[start..end]).collect();
        let keys = if mutant!(FilterForgetsFirst) { &keys[1..] } else { &keys[..] };
        self.policy.create(keys, &mut self.filters);
        self.keys.clear();
        self.key_ends.clear();
    }

    fn filters_len(&self) -> u32 {
        debug_assert!(u32::try_from(self.filters.len()).is_ok(), "a table has less than 4 GiB of filters");
        self.filters.len() as u32
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
}

impl FilterBlock {
    /// From stored bytes. Of malformed ones comes a filter that matches everything: a table can be read without.
    pub fn new(policy: Arc<dyn FilterPolicy>, contents: Vec<u8>) -> FilterBlock {
        let (offsets, count, base_log2) = parse(&contents).unwrap_or_default();
        FilterBlock { policy, contents, offsets, count, base_log2 }
    }

    /// False only if `key` is certainly not in the data block at `block_offset`.
    pub fn may_match(&self, block_offset: u64, key: &[u8]) -> bool {
        let index = block_offset.checked_shr(u32::from(self.base_log2)).unwrap_or(0);
        if index >= self.count {
            return true;
        }
        let at = self.offsets + index as usize * 4;
        let (start, limit) = (self.offset(at), self.offset(at + 4));
        let filter = self.contents[..self.offsets].get(start..limit);
        filter.is_none_or(|filter| self.policy.may_match(key, filter))
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
    use crate::filter::{Bloom, hash};

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
        let mut builder = FilterBlockBuilder::new(Arc::new(Hashes));
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
        let mut builder = FilterBlockBuilder::new(Arc::new(Bloom::new(10)));
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
