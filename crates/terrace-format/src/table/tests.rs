//! Tables, compared with stock LevelDB 1.23's and with their own contents, and damaged tables.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::block::{Block, BlockIter};
use crate::comparator::{Comparator, bytewise};
use crate::compress::{self, Codec, NO_COMPRESSION, SNAPPY};
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::filename::FileName;
use crate::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
use crate::filter_block::{FilterBlockReader, TableFilter};
use crate::internal_iterator::InternalIterator;
use crate::key::{InternalComparator, InternalKey, ValueType};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn options(block_size: usize, restart_interval: usize) -> TableOptions {
    TableOptions {
        comparator: bytewise(),
        filter: None,
        block_size,
        restart_interval,
        codec: &compress::NO_COMPRESSION,
        file_name: FileName::Table,
        huge_pages: false,
    }
}

fn with_filter(options: TableOptions) -> TableOptions {
    TableOptions { filter: Some(TableFilter::BlockBased(Arc::new(BloomFilterPolicy::new(10)))), ..options }
}

fn built(options: TableOptions, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut builder = TableBuilder::new(options, Vec::new());
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    builder.finish().unwrap();
    assert_eq!(builder.num_entries(), entries.len() as u64);
    let size = builder.file_size();
    let table = builder.into_inner();
    assert_eq!(table.len() as u64, size);
    table
}

fn stored(table: &[u8], handle: BlockHandle) -> Result<&[u8], DecodeError> {
    handle.check(table.len() as u64 - FOOTER_SIZE as u64)?;
    Ok(&table[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE])
}

/// Returns the entries of one block.
fn entries(table: &[u8], handle: BlockHandle) -> Result<Entries, DecodeError> {
    let block = Block::new(read_block(stored(table, handle)?, true)?)?;
    let mut iter = BlockIter::new(Arc::new(block), bytewise());
    let mut entries = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().map(|()| entries)
}

/// Returns the index key, the handle and the entries of every data block.
fn data_blocks(table: &[u8]) -> Result<Vec<(Vec<u8>, BlockHandle, Entries)>, DecodeError> {
    let footer = Footer::decode(table, table.len() as u64)?;
    for (_, value) in entries(table, footer.metaindex)? {
        read_block(stored(table, BlockHandle::decode(&value)?.0)?, true)?;
    }
    let blocks = entries(table, footer.index)?.into_iter().map(|(key, value)| {
        let (handle, _) = BlockHandle::decode(&value)?;
        Ok((key, handle, entries(table, handle)?))
    });
    blocks.collect()
}

fn all(table: &[u8]) -> Result<Entries, DecodeError> {
    Ok(data_blocks(table)?.into_iter().flat_map(|(_, _, entries)| entries).collect())
}

fn owned(entries: &[(&str, &str)]) -> Entries {
    entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[track_caller]
fn check_same_as_stock(options: TableOptions, entries: &[(&str, &str)], stock: &str) {
    assert_eq!(built(options, &owned(entries)), unhex(stock));
    assert_eq!(all(&unhex(stock)).unwrap(), owned(entries));
}

const FRUIT: [(&str, &str); 3] = [("apple", "red"), ("apricot", "orange"), ("cherry", "dark red")];

#[test]
fn empty_like_stock() {
    let stock = "
        000000000100000000c0f2a1b0000000000100000000c0f2a1b000080d08000000000000000000000000000000000000
        00000000000000000000000000000000000057fb808b247547db";
    check_same_as_stock(options(4096, 16), &[], stock);
}

#[test]
fn empty_with_filter_like_stock() {
    let stock = "
        000000000b008ae8dad100220266696c7465722e6c6576656c64622e4275696c74696e426c6f6f6d46696c7465723200
        0500000000010000000065e85da8000000000100000000c0f2a1b00a2f3e080000000000000000000000000000000000
        0000000000000000000000000000000000000057fb808b247547db";
    check_same_as_stock(with_filter(options(4096, 16)), &[], stock);
}

#[test]
fn two_blocks_and_a_filter_like_stock() {
    let stock = "
        0005036170706c657265640205067269636f746f72616e6765000000000100000000e07fd99200060863686572727964
        61726b207265640000000001000000009559155140050004a002c00f0600000000090000000b00ef247a0b0022026669
        6c7465722e6c6576656c64622e4275696c74696e426c6f6f6d46696c7465723244120000000001000000004a463a7800
        010262002100010264261900000000060000000200000000be3a3e895b2f8f0118000000000000000000000000000000
        000000000000000000000000000000000000000057fb808b247547db";
    check_same_as_stock(with_filter(options(24, 16)), &FRUIT, stock);
}

#[test]
fn restarts_like_stock() {
    let stock = "
        0002006b3001010131760002026b327676010103337676760002046b3476767676000000000a00000018000000030000
        00007a2957a9000000000100000000c0f2a1b00001026c0031000000000100000000eb21b91f3608430e000000000000
        00000000000000000000000000000000000000000000000000000000000057fb808b247547db";
    let entries = [("k0", ""), ("k1", "v"), ("k2", "vv"), ("k3", "vvv"), ("k4", "vvvv")];
    check_same_as_stock(options(4096, 2), &entries, stock);
}

#[test]
fn keys_that_cannot_be_shortened_like_stock() {
    let stock = "
        000200ffff00000000010000000059cf026e000301ffff01780000000001000000008bb9f3cd000000000100000000c0
        f2a1b0000202ffff000d000302ffff02120f00000000070000000200000000de255e682608331b000000000000000000
        00000000000000000000000000000000000000000000000000000057fb808b247547db";
    let entries = [(b"\xff\xff".to_vec(), b"".to_vec()), (b"\xff\xff\x01".to_vec(), b"x".to_vec())];
    assert_eq!(built(options(1, 16), &entries), unhex(stock));
}

#[test]
fn snappy_of_stock() {
    let stock = "
        dc02300004186b30303076616c7565204606000c0301183146160009120c03011832090a4606000c0301183346160009
        120c03011834090a4606000c0301183546160009120c03011836090a4606000c0301183746160009120c03011838090a
        4606000c0301183946160009120c02021831d219011c000000000100000001e6df0c47000000000100000000c0f2a1b0
        0001026c007e0000000001000000002621bf8183010890010e0000000000000000000000000000000000000000000000
        000000000000000000000057fb808b247547db";
    let entries: Entries = (0..12).map(|n| (format!("k{n:03}").into_bytes(), b"value ".repeat(4))).collect();
    assert_eq!(all(&unhex(stock)).unwrap(), entries);
    let ours = built(TableOptions { codec: &compress::SNAPPY, ..options(4096, 16) }, &entries);
    assert_eq!(all(&ours).unwrap(), entries);
    assert!(ours.len() < unhex(stock).len() + 20, "the table is compressed");
}

/// Returns the type byte of the first block of a table with one entry of value `value`.
fn first_type(value: &[u8]) -> u8 {
    let options = TableOptions { codec: &compress::SNAPPY, ..options(1, 16) };
    let table = built(options, &[(b"k".to_vec(), value.to_vec())]);
    let (_, handle, _) = data_blocks(&table).unwrap().remove(0);
    table[(handle.offset + handle.size) as usize]
}

#[test]
fn compressed_only_if_it_saves_an_eighth() {
    let mut state = 1u64;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let random: Vec<u8> = random.take(2000).collect();
    assert_eq!(first_type(&random), compress::NO_COMPRESSION.id);
    assert_eq!(first_type(&[&[0; 200], &random[..]].concat()), compress::NO_COMPRESSION.id);
    assert_eq!(first_type(&[&[0; 400], &random[..]].concat()), compress::SNAPPY.id);
}

/// Reads the filter block, which is the first of the metaindex.
fn filter_of(table: &[u8], policy: Arc<dyn FilterPolicy>) -> FilterBlockReader {
    let footer = Footer::decode(table, table.len() as u64).unwrap();
    let metaindex = entries(table, footer.metaindex).unwrap();
    assert_eq!(metaindex[0].0, b"filter.leveldb.BuiltinBloomFilter2");
    let (handle, _) = BlockHandle::decode(&metaindex[0].1).unwrap();
    FilterBlockReader::new(policy, read_block(stored(table, handle).unwrap(), true).unwrap())
}

#[test]
fn a_filter_for_each_2_kib() {
    let entries = [(b"apple".to_vec(), vec![1; 3000]), (b"cherry".to_vec(), vec![2; 3000])];
    let table = built(with_filter(options(24, 16)), &entries);
    let filter = filter_of(&table, Arc::new(BloomFilterPolicy::new(10)));
    let second = data_blocks(&table).unwrap()[1].1.offset;
    assert!(filter.may_match(0, b"apple") && !filter.may_match(0, b"cherry"));
    assert!(filter.may_match(second, b"cherry") && !filter.may_match(second, b"apple"));
}

#[test]
fn meta_blocks_follow_the_filter_sorted_by_name() {
    let mut builder = TableBuilder::new(with_filter(options(24, 16)), Vec::new());
    for (key, value) in owned(&FRUIT) {
        builder.add(&key, &value).unwrap();
    }
    for (name, contents) in [("terrace.counts", "old"), ("zoo", ""), ("terrace.counts", "new")] {
        builder.add_meta_block(name, contents.into());
    }
    builder.finish().unwrap();
    let table = builder.into_inner();
    assert_eq!(all(&table).unwrap(), owned(&FRUIT));
    let footer = Footer::decode(&table, table.len() as u64).unwrap();
    let named = entries(&table, footer.metaindex).unwrap();
    let names: Vec<_> = named.iter().map(|(name, _)| name.escape_ascii().to_string()).collect();
    assert_eq!(names, ["filter.leveldb.BuiltinBloomFilter2", "terrace.counts", "zoo"]);
    let contents =
        |i: usize| read_block(stored(&table, BlockHandle::decode(&named[i].1).unwrap().0).unwrap(), true);
    assert_eq!((contents(1).unwrap(), contents(2).unwrap()), (b"new".to_vec(), vec![]));
    assert!(filter_of(&table, Arc::new(BloomFilterPolicy::new(10))).may_match(0, b"apple"));
}

#[test]
fn flush_block_ends_the_data_block() {
    let mut builder = TableBuilder::new(options(4096, 16), Vec::new());
    builder.flush_block().unwrap();
    assert_eq!(builder.file_size(), 0);
    builder.add(b"a", b"1").unwrap();
    assert_eq!(builder.file_size(), 0);
    assert!(builder.size_estimate() > 0);
    builder.flush_block().unwrap();
    let first_block = builder.file_size();
    assert!(first_block > 0);
    builder.flush_block().unwrap();
    assert_eq!(builder.file_size(), first_block);
    builder.add(b"b", b"2").unwrap();
    builder.finish().unwrap();
    let blocks = data_blocks(&builder.into_inner()).unwrap();
    assert_eq!(blocks.iter().map(|(_, _, entries)| entries.len()).collect::<Vec<_>>(), [1, 1]);
}

/// Adds each of `keys` to a table with `add_if_greater`, and compares the results with `expect`.
#[track_caller]
fn check_above(comparator: Arc<dyn Comparator>, block_size: usize, keys: &[&[u8]], expect: &[bool]) {
    let mut builder = TableBuilder::new(TableOptions { comparator, ..options(block_size, 16) }, Vec::new());
    assert_eq!(builder.last_key(), None);
    let mut added = Vec::new();
    for (key, expect) in keys.iter().zip(expect) {
        assert_eq!(
            builder.add_if_greater(key, b"").unwrap(),
            *expect,
            "{:?}",
            key.escape_ascii().to_string()
        );
        added.extend(expect.then(|| (key.to_vec(), Vec::new())));
        assert_eq!(builder.last_key(), added.last().map(|(key, _)| &key[..]));
    }
    assert_eq!(builder.num_entries(), added.len() as u64);
    builder.finish().unwrap();
    assert_eq!(all(&builder.into_inner()).unwrap(), added);
}

#[test]
fn add_if_greater_rejects_other_keys() {
    let internal =
        |user: &str, sequence, kind| InternalKey::new(user.as_bytes(), sequence, kind).as_bytes().to_vec();
    let versions = [
        internal("", 5, ValueType::Value),
        internal("a", 5, ValueType::Value),
        internal("a", 6, ValueType::Value),
        internal("a", 5, ValueType::Deletion),
        internal("a", 5, ValueType::Deletion),
        internal("", 9, ValueType::Value),
        internal("a\0", 7, ValueType::Value),
        internal("a", 1, ValueType::Value),
        internal("b", 1, ValueType::Value),
        internal("ab", 1, ValueType::Value),
    ];
    let versions: Vec<&[u8]> = versions.iter().map(Vec::as_slice).collect();
    let expect_versions = [true, true, false, true, false, false, true, false, true, false];
    let words: [&[u8]; 7] = [b"", b"", b"b", b"a", b"b", b"ba", b"b\xff"];
    let expect_words = [true, false, true, false, false, true, true];
    // With one entry per block, the last key belongs to the block before.
    for block_size in [1, 4096] {
        check_above(bytewise(), block_size, &words, &expect_words);
        let order = Arc::new(InternalComparator::new(bytewise()));
        check_above(order, block_size, &versions, &expect_versions);
        check_above(
            Arc::new(Falling),
            block_size,
            &[b"b", b"c", b"a", b"a", b""],
            &[true, false, true, false, true],
        );
    }
}

struct Falling;

impl Comparator for Falling {
    fn name(&self) -> &str {
        "test.Falling"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is not above the key before")]
fn keys_out_of_order() {
    built(options(1, 16), &owned(&[("b", ""), ("a", "")]));
}

/// File that is full after the given number of bytes.
struct FullFile(usize);

impl Write for FullFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(buf.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn disk_full_at_any_byte() {
    let size = built(with_filter(options(24, 16)), &owned(&FRUIT)).len();
    for capacity in 0..=size {
        let mut builder = TableBuilder::new(with_filter(options(24, 16)), FullFile(capacity));
        let added = owned(&FRUIT).iter().try_for_each(|(key, value)| builder.add(key, value));
        let result = added.and_then(|()| builder.finish());
        assert_eq!(result.is_ok(), capacity == size, "{capacity} bytes of {size}");
        assert!(builder.file_size() <= capacity as u64);
    }
}

#[test]
fn any_bit_flipped() {
    let table = built(with_filter(options(24, 16)), &owned(&FRUIT));
    for pos in 0..table.len() {
        for bit in 0..8 {
            let mut flipped = table.clone();
            flipped[pos] ^= 1 << bit;
            if let Ok(entries) = all(&flipped) {
                assert_eq!(entries, owned(&FRUIT), "bit {bit} of {pos}");
                // The handles take five bytes. The last one can become a longer varint of the same
                // number.
                let padding = table.len() - FOOTER_SIZE + 4..table.len() - 8;
                assert!(padding.contains(&pos), "bit {bit} of {pos} has no effect");
            }
        }
    }
}

#[test]
fn truncated_anywhere() {
    let table = built(with_filter(options(24, 16)), &owned(&FRUIT));
    for len in 0..table.len() {
        assert!(all(&table[..len]).is_err(), "{len} bytes");
    }
}

#[track_caller]
fn check_error(error: DecodeError, kind: DecodeErrorKind, expect: &str) {
    assert_eq!((error.kind, &format!("{}! {error}", error.offset)[..]), (kind, expect));
}

#[test]
fn blocks_as_stored() {
    let whole = [&b"abc"[..], &trailer::encode_block_trailer(b"abc", 0)].concat();
    assert_eq!(read_block(&whole, true).unwrap(), b"abc");
    let mut flipped = whole.clone();
    flipped[1] ^= 1;
    let error = read_block(&flipped, true).unwrap_err();
    assert_eq!((error.kind, error.offset), (DecodeErrorKind::ChecksumMismatch, 0));
    assert_eq!(read_block(&flipped, false).unwrap(), b"acc");
    let error = read_block(&whole[..4], true).unwrap_err();
    check_error(error, DecodeErrorKind::Truncated, "0! 4 bytes, expected 5 for the trailer of a block");
    let unknown = [&b"abc"[..], &trailer::encode_block_trailer(b"abc", 9)].concat();
    let error = read_block(&unknown, true).unwrap_err();
    check_error(error, DecodeErrorKind::Unknown, "3! block type 9, expected 0, 1, 2 or 4");
    assert_eq!(read_block(&trailer::encode_block_trailer(b"", 0), true).unwrap(), b"");
}

/// Uncompressed contents are borrowed from the file, others from the reused buffer. Large ones are
/// owned.
#[test]
fn blocks_borrowed_or_decompressed() {
    let mut memory = Vec::new();
    for (codec, len, is_owned) in
        [(&NO_COMPRESSION, 70_000, false), (&SNAPPY, 1000, false), (&SNAPPY, 70_000, true)]
    {
        let contents = vec![7; len];
        let mut stored = Vec::new();
        (codec.compress)(&contents, &mut stored);
        stored.extend(trailer::encode_block_trailer(&stored, codec.id));
        let addresses = stored.as_ptr_range();
        let found = read_block_cow(&stored, true, &mut memory).unwrap();
        assert_eq!(*found, contents);
        assert_eq!(matches!(found, Cow::Owned(_)), is_owned, "{len} bytes, {}", codec.name);
        assert_eq!(addresses.contains(&found.as_ptr()), codec.id == NO_COMPRESSION.id);
        *stored.last_mut().unwrap() ^= 1;
        assert_eq!(
            read_block_cow(&stored, true, &mut memory).unwrap_err().kind,
            DecodeErrorKind::ChecksumMismatch
        );
    }
}

#[test]
fn handles() {
    let handle = BlockHandle { offset: 300, size: u64::MAX };
    let mut bytes = Vec::new();
    handle.encode(&mut bytes);
    assert_eq!(bytes.len(), 12);
    bytes.extend(b"something else");
    assert_eq!(BlockHandle::decode(&bytes).unwrap(), (handle, 12));
    for len in 0..12 {
        assert_eq!(BlockHandle::decode(&bytes[..len]).unwrap_err().kind, DecodeErrorKind::Truncated);
    }
}

#[test]
fn handles_beyond_the_file() {
    let fits = |offset, size| BlockHandle { offset, size }.check(100);
    assert_eq!(fits(0, 95), Ok(()));
    assert_eq!(fits(95, 0), Ok(()));
    for (offset, size) in
        [(0, 96), (96, 0), (1, 95), (0, u64::MAX), (0, u64::MAX - 4), (u64::MAX - 4, 0), (u64::MAX, u64::MAX)]
    {
        assert_eq!(fits(offset, size).unwrap_err().kind, DecodeErrorKind::OutOfBounds, "{offset} + {size}");
    }
    let expect = "0! a block at 96 of 7 bytes and its trailer, expected an end at 100 or before";
    check_error(fits(96, 7).unwrap_err(), DecodeErrorKind::OutOfBounds, expect);
}

#[test]
fn footers() {
    let metaindex = BlockHandle { offset: 1, size: 200 };
    let index = BlockHandle { offset: 206, size: 3 };
    let bytes = Footer { metaindex, index }.encode();
    assert_eq!(Footer::decode(&bytes, 262), Ok(Footer { metaindex, index }));
    let longest = BlockHandle { offset: u64::MAX, size: u64::MAX };
    assert_eq!(Footer { metaindex: longest, index: longest }.encode()[39], 1);

    let error = Footer::decode(&bytes, 261).unwrap_err();
    let expect = "216! a block at 206 of 3 bytes and its trailer, expected an end at 213 or before";
    check_error(error, DecodeErrorKind::OutOfBounds, expect);
    let error = Footer::decode(&bytes[1..], 262).unwrap_err();
    check_error(error, DecodeErrorKind::Truncated, "0! 47 bytes, expected 48 for the footer of a table");
    let error = Footer::decode(&bytes, 47).unwrap_err();
    check_error(error, DecodeErrorKind::Truncated, "0! 47 bytes, expected 48 for the footer of a table");
    let error = Footer::decode(&[1; 48], 100).unwrap_err();
    check_error(error, DecodeErrorKind::Unknown, "92! magic 0101010101010101, expected 57fb808b247547db");
}

fn codec() -> impl Strategy<Value = &'static Codec> {
    prop::sample::select(compress::CODECS.iter().copied().filter(|codec| codec.writable).collect::<Vec<_>>())
}

fn user_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0), Just(0xff)], 0..9);
    prop::collection::btree_set(key, 0..80).prop_map(|keys| keys.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every entry is at or below the index key of its block and above the one before, and matches
    /// the filter.
    #[test]
    fn round_trips(
        keys in user_keys(),
        value in prop::collection::vec(0u8..3, 0..300),
        (block_size, restart_interval, codec) in (1usize..3000, 1usize..20, codec()),
        is_full_filter in any::<bool>(),
    ) {
        let comparator: Arc<dyn Comparator> = Arc::new(InternalComparator::new(bytewise()));
        let policy: Arc<dyn FilterPolicy> = Arc::new(InternalFilterPolicy(Arc::new(BloomFilterPolicy::new(10))));
        let filter = Some(if is_full_filter {
            TableFilter::Full(BloomFilterPolicy::new(10))
        } else {
            TableFilter::BlockBased(policy.clone())
        });
        let added: Entries = keys
            .iter()
            .flat_map(|key| [7, 3].map(|sequence| InternalKey::new(key, sequence, ValueType::Value)))
            .map(|key| (key.as_bytes().to_vec(), value.clone()))
            .collect();
        let order = comparator.clone();
        let options = TableOptions { comparator: order, filter, codec, ..options(block_size, restart_interval) };
        let table = built(options, &added);
        prop_assert_eq!(&all(&table).unwrap(), &added);

        let filter = filter_of(&table, policy);
        let mut previous_index_key: Option<Vec<u8>> = None;
        for (index_key, handle, entries) in data_blocks(&table).unwrap() {
            for (key, _) in &entries {
                prop_assert!(previous_index_key.as_ref().is_none_or(|previous| comparator.compare(previous, key).is_lt()));
                prop_assert!(comparator.compare(key, &index_key).is_le());
                prop_assert!(filter.may_match(handle.offset, key));
            }
            previous_index_key = Some(index_key);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut table in prop::collection::vec(any::<u8>(), 0..200), handles in prop::collection::vec(0u64..200, 4)) {
        let _ = all(&table);
        let handle = |i: usize| BlockHandle { offset: handles[i], size: handles[i + 1] };
        table.extend(Footer { metaindex: handle(0), index: handle(2) }.encode());
        let _ = all(&table);
    }
}
