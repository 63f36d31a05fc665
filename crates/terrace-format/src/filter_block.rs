//! Filter block of a table: one filter for each 2 KiB of the file, or one for the whole file.
//!
//! ```text
//!   0                        offsets                           n-5          n-1    n
//!   +----------+-------------+---------------------------------+------------+------+
//!   | filter 0 | filter 1 .. | start of filter 0, 1, .. (u32)  | offsets    | 11   |  2^11 = 2 KiB
//!   +----------+-------------+---------------------------------+------------+------+
//! ```
//!
//! Filter i holds the keys of the data blocks that start in bytes [i * 2^11, (i+1) * 2^11) of the
//! file. The last byte may be another power of two, and readers follow it. A table with one filter
//! for all of it, or for each GiB, stores 30.
//!
//! The module knows neither the order nor the form of keys.

use std::ops::Range;
use std::sync::Arc;

use terrace_sync::mutant;

use crate::coding::{get_fixed32, put_fixed32};
use crate::filter::{BloomFilterPolicy, BloomProbes, FilterPolicy, InternalFilterPolicy};
use crate::key;

/// Binary logarithm of the file range of a filter, in bytes: 2 KiB, as in LevelDB.
const FILTER_BASE_LG: u8 = 11;

/// Binary logarithm of the file range of a full filter, in bytes: 1 GiB. Filter offsets have 32
/// bits, so a larger table needs several filters anyway.
const FULL_FILTER_BASE_LG: u8 = 30;

/// Filter of a table.
#[derive(Clone)]
pub enum TableFilter {
    /// One filter for each 2 KiB, by any policy, as every LevelDB builds them.
    BlockBased(Arc<dyn FilterPolicy>),
    /// One filter of the built-in policy for the whole table, over the user keys of internal keys.
    /// A reader can probe it before the index, and every LevelDB with this policy can read it.
    Full(BloomFilterPolicy),
}

impl TableFilter {
    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        match self {
            TableFilter::BlockBased(policy) => policy.name(),
            TableFilter::Full(bloom) => bloom.name(),
        }
    }

    /// Returns the policy that probes the filter with keys as the table stores them.
    pub fn policy(&self) -> Arc<dyn FilterPolicy> {
        match self {
            TableFilter::BlockBased(policy) => Arc::clone(policy),
            TableFilter::Full(bloom) => Arc::new(InternalFilterPolicy(Arc::new(bloom.clone()))),
        }
    }
}

/// Builder of a filter block. The calls are (start_block add*)* finish, with rising block offsets.
pub struct FilterBlockBuilder {
    pending_keys: FilterKeys,
    base_lg: u8,
    filters: Vec<u8>,
    filter_offsets: Vec<u32>,
}

/// Keys of the current filter.
enum FilterKeys {
    /// Concatenated keys, and the end of each.
    Raw {
        policy: Arc<dyn FilterPolicy>,
        keys: Vec<u8>,
        ends: Vec<usize>,
    },
    Hashed {
        bloom: BloomFilterPolicy,
        hashes: Vec<u32>,
    },
}

impl FilterBlockBuilder {
    /// Creates a builder for the filters of `filter`.
    pub fn new(filter: TableFilter) -> FilterBlockBuilder {
        let (pending_keys, base_lg) = match filter {
            TableFilter::BlockBased(policy) => {
                (FilterKeys::Raw { policy, keys: Vec::new(), ends: Vec::new() }, FILTER_BASE_LG)
            }
            TableFilter::Full(bloom) => {
                (FilterKeys::Hashed { bloom, hashes: Vec::new() }, FULL_FILTER_BASE_LG)
            }
        };
        FilterBlockBuilder { pending_keys, base_lg, filters: Vec::new(), filter_offsets: Vec::new() }
    }

    /// Starts the data block at `offset`. Later keys belong to it.
    pub fn start_block(&mut self, offset: u64) {
        let index = offset >> self.base_lg;
        debug_assert!(index >= self.filter_offsets.len() as u64, "the offsets of data blocks rise");
        while (self.filter_offsets.len() as u64) < index {
            self.generate_filter();
        }
    }

    /// Adds a key of the current data block.
    pub fn add(&mut self, key: &[u8]) {
        match &mut self.pending_keys {
            FilterKeys::Raw { keys, ends, .. } => {
                keys.extend_from_slice(key);
                ends.push(keys.len());
            }
            FilterKeys::Hashed { hashes, .. } => {
                let key = if mutant!(FilterBuiltFromInternalKeys) { key } else { key::user_key(key) };
                let hash = BloomFilterPolicy::hash(key);
                // The versions of a user key are neighbours.
                if hashes.last() != Some(&hash) {
                    hashes.push(hash);
                }
            }
        }
    }

    /// Returns the contents of the block.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.pending_keys.is_empty() {
            self.generate_filter();
        }
        let offsets = self.filters_len();
        for start in self.filter_offsets {
            put_fixed32(&mut self.filters, start);
        }
        put_fixed32(&mut self.filters, offsets);
        self.filters.push(self.base_lg);
        self.filters
    }

    /// Appends the filter of the current keys. A filter without keys is empty, for every policy.
    fn generate_filter(&mut self) {
        self.filter_offsets.push(self.filters_len());
        if !self.pending_keys.is_empty() {
            self.pending_keys.drain_to_filter(&mut self.filters);
        }
    }

    fn filters_len(&self) -> u32 {
        debug_assert!(u32::try_from(self.filters.len()).is_ok(), "a table has less than 4 GiB of filters");
        self.filters.len() as u32
    }
}

impl FilterKeys {
    fn is_empty(&self) -> bool {
        match self {
            FilterKeys::Raw { ends, .. } => ends.is_empty(),
            FilterKeys::Hashed { hashes, .. } => hashes.is_empty(),
        }
    }

    /// Appends the filter of the keys and removes them.
    fn drain_to_filter(&mut self, filters: &mut Vec<u8>) {
        let omitted = usize::from(mutant!(FilterBlockOmitsFirstKey));
        match self {
            FilterKeys::Raw { policy, keys, ends } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let slices: Vec<&[u8]> = starts.zip(&*ends).map(|(start, &end)| &keys[start..end]).collect();
                policy.create(&slices[omitted..], filters);
                keys.clear();
                ends.clear();
            }
            FilterKeys::Hashed { bloom, hashes } => {
                bloom.create_from_hashes(hashes[omitted..].iter().copied(), filters);
                hashes.clear();
            }
        }
    }
}

/// Reader of the filter block of a table.
pub struct FilterBlockReader {
    policy: Arc<dyn FilterPolicy>,
    contents: Vec<u8>,
    /// Position of the offsets in `contents`.
    offsets_start: usize,
    /// Number of filters: 0 if the block is malformed.
    num_filters: u64,
    base_lg: u8,
    /// Range and parameters of the first filter, if the built-in policy built it.
    first_bloom: Option<(Range<usize>, BloomProbes)>,
}

/// Probe of a full filter of the built-in policy for one key.
#[derive(Clone, Copy)]
pub struct BloomQuery<'a> {
    filter: &'a [u8],
    probes: BloomProbes,
    hash: u32,
}

impl<'a> BloomQuery<'a> {
    /// Returns the bytes that the result depends on, for prefetching.
    #[inline]
    pub fn probed_bytes(self) -> impl Iterator<Item = &'a u8> {
        self.probes.probed_bytes(self.hash, self.filter)
    }

    /// Returns false only if the key is certainly not in the table.
    #[inline]
    pub fn may_match(self) -> bool {
        self.probes.may_match(self.hash, self.filter)
    }
}

impl FilterBlockReader {
    /// Creates a reader of stored bytes. Malformed bytes give a filter that matches every key: the
    /// table is readable without a filter.
    pub fn new(policy: Arc<dyn FilterPolicy>, contents: Vec<u8>) -> FilterBlockReader {
        let (offsets_start, num_filters, base_lg) = parse_trailer(&contents).unwrap_or_default();
        let mut reader =
            FilterBlockReader { policy, contents, offsets_start, num_filters, base_lg, first_bloom: None };
        if InternalFilterPolicy::is_bloom(&*reader.policy) {
            let filter = reader.filter_range(0);
            let probes = filter.clone().and_then(|range| BloomProbes::new(reader.contents.get(range)?));
            reader.first_bloom = filter.zip(probes);
        }
        reader
    }

    /// Prepares the probe of the first filter for a user key with this [`BloomFilterPolicy::hash`].
    ///
    /// The caller can prefetch the bytes of the filter before it probes. Returns `None` if only
    /// [`FilterBlockReader::may_match`] can probe the filter.
    #[inline]
    pub fn bloom_query(&self, hash: u32) -> Option<BloomQuery<'_>> {
        let (range, probes) = self.first_bloom.as_ref()?;
        let filter = self.contents.get(range.clone())?;
        Some(BloomQuery { filter, probes: *probes, hash })
    }

    /// Returns the memory use of the block, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.contents.capacity()
    }

    /// Returns true if the first filter covers all data blocks before offset `end`.
    pub fn is_full_filter(&self, end: u64) -> bool {
        self.num_filters > 0 && end.checked_shr(u32::from(self.base_lg)).unwrap_or(0) == 0
    }

    /// Returns false only if `key` is certainly not in the data block at `block_offset`.
    pub fn may_match(&self, block_offset: u64, key: &[u8]) -> bool {
        let index = block_offset.checked_shr(u32::from(self.base_lg)).unwrap_or(0);
        self.filter_range(index).is_none_or(|range| self.policy.may_match(key, &self.contents[range]))
    }

    /// Returns the range of filter `index`, if it exists.
    fn filter_range(&self, index: u64) -> Option<Range<usize>> {
        let pos = self.offsets_start + Some(index).filter(|index| *index < self.num_filters)? as usize * 4;
        let range = self.offset_at(pos)..self.offset_at(pos + 4);
        self.contents[..self.offsets_start].get(range.clone()).map(|_| range)
    }

    /// Returns the offset stored at `pos`. After the offset of the last filter follows the start of
    /// the offsets.
    fn offset_at(&self, pos: usize) -> usize {
        self.contents.get(pos..).and_then(get_fixed32).map_or(usize::MAX, |offset| offset as usize)
    }
}

/// Returns the position of the offsets, their number, and the binary logarithm of a filter's range.
fn parse_trailer(contents: &[u8]) -> Option<(usize, u64, u8)> {
    let (&base_lg, rest) = contents.split_last()?;
    let (before, last) = rest.split_last_chunk::<4>()?;
    let offsets = u32::from_le_bytes(*last) as usize;
    let offsets_size = before.len().checked_sub(offsets)?;
    Some((offsets, (offsets_size / 4) as u64, base_lg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::hash;
    use crate::key::{InternalKey, ValueType};

    /// Policy that stores the four bytes of each key's hash, so that a reader can recognise the
    /// bytes of a block.
    struct Hashes;

    impl FilterPolicy for Hashes {
        fn name(&self) -> &str {
            "test.Hashes"
        }

        fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
            for key in keys {
                put_fixed32(dst, hash(key, 1));
            }
        }

        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            filter.chunks(4).any(|stored| stored == hash(key, 1).to_le_bytes())
        }
    }

    /// Builds the filter block of data blocks at the given offsets with the given keys.
    fn build(blocks: &[(u64, &[&str])]) -> Vec<u8> {
        let mut builder = FilterBlockBuilder::new(TableFilter::BlockBased(Arc::new(Hashes)));
        for (offset, keys) in blocks {
            builder.start_block(*offset);
            for key in *keys {
                builder.add(key.as_bytes());
            }
        }
        builder.finish()
    }

    /// Returns the `keys` that match the filter of the data block at `offset`.
    fn matching(contents: &[u8], offset: u64, keys: &[&'static str]) -> Vec<&'static str> {
        let block = FilterBlockReader::new(Arc::new(Hashes), contents.to_vec());
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
        let targets = ["foo", "bar", "box", "hello", "missing", "other"];
        assert_eq!(matching(&contents, 100, &targets), ["foo", "bar", "box", "hello"]);
        assert_eq!(matching(&contents, 2047, &targets), ["foo", "bar", "box", "hello"]);
    }

    #[test]
    fn data_blocks_with_filters_of_their_own_and_a_gap() {
        let blocks: &[(u64, &[&str])] =
            &[(0, &["foo"]), (2000, &["bar"]), (3100, &["box"]), (9000, &["box", "hello"])];
        let contents = build(blocks);
        let targets = ["foo", "bar", "box", "hello"];
        assert_eq!(matching(&contents, 0, &targets), ["foo", "bar"]);
        assert_eq!(matching(&contents, 3100, &targets), ["box"]);
        assert_eq!(matching(&contents, 4100, &targets), [""; 0], "an empty filter");
        assert_eq!(matching(&contents, 9000, &targets), ["box", "hello"]);
        assert_eq!(matching(&contents, 10_240, &targets), targets, "after the last filter");
    }

    #[test]
    fn encoding() {
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
    fn full_filter() {
        let key = |user_key: &[u8], sequence| InternalKey::new(user_key, sequence, ValueType::Value);
        let mut builder = FilterBlockBuilder::new(TableFilter::Full(BloomFilterPolicy::new(10)));
        for (offset, user_key, sequence) in [(0, b"hello", 9), (0, b"hello", 3), (5000, b"world", 4)] {
            builder.start_block(offset);
            builder.add(key(user_key, sequence).as_bytes());
        }
        let contents = builder.finish();
        let mut expect = Vec::new();
        BloomFilterPolicy::new(10).create(&[b"hello", b"world"], &mut expect);
        let offsets = expect.len() as u8;
        expect.extend([0, 0, 0, 0, offsets, 0, 0, 0, 30]);
        assert_eq!(contents, expect);

        let block = FilterBlockReader::new(TableFilter::Full(BloomFilterPolicy::new(10)).policy(), contents);
        assert!(block.is_full_filter(6000) && !block.is_full_filter(1 << 30));
        assert!(block.may_match(5000, key(b"hello", 99).as_bytes()));
        assert!(!block.may_match(0, key(b"missing", 99).as_bytes()));
    }

    #[test]
    fn a_filter_for_each_gib() {
        let key = |user_key: &[u8]| InternalKey::new(user_key, 1, ValueType::Value);
        let mut builder = FilterBlockBuilder::new(TableFilter::Full(BloomFilterPolicy::new(10)));
        for (offset, user_key) in [(0, b"near".as_slice()), (3 << 30, b"far")] {
            builder.start_block(offset);
            builder.add(key(user_key).as_bytes());
        }
        let block =
            FilterBlockReader::new(TableFilter::Full(BloomFilterPolicy::new(10)).policy(), builder.finish());
        let targets = [(0, b"near".as_slice()), (0, b"far"), (3 << 30, b"near"), (3 << 30, b"far")];
        let answers = targets.map(|(offset, user_key)| block.may_match(offset, key(user_key).as_bytes()));
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
        let zeros = [0; 8];
        let huge = [0xff; 9];
        for contents in [&offsets_outside[..], &start_above_limit, &limit_in_the_offsets, &zeros, &huge] {
            assert_eq!(matching(contents, 0, &["x"]), ["x"], "{contents:?}");
        }
    }

    #[test]
    fn damage_to_any_byte_is_handled() {
        let mut builder =
            FilterBlockBuilder::new(TableFilter::BlockBased(Arc::new(BloomFilterPolicy::new(10))));
        for (i, key) in [b"a", b"b", b"c"].iter().enumerate() {
            builder.start_block(i as u64 * 3000);
            builder.add(*key);
        }
        let good = builder.finish();
        for pos in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[pos] ^= flip;
                let block = FilterBlockReader::new(Arc::new(BloomFilterPolicy::new(10)), bad);
                for offset in [0, 3000, 6000, u64::MAX] {
                    block.may_match(offset, b"a");
                }
            }
        }
    }
}
