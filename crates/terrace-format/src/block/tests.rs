//! Blocks, compared with an ordered map, and damaged blocks.

use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::comparator::bytewise;
use crate::internal_iterator::InternalIterator;
use crate::key::{self, InternalKey, ValueType};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn built(restart_interval: usize, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
        assert_eq!(builder.last_key(), key);
    }
    assert_eq!(builder.is_empty(), entries.is_empty());
    let size = builder.size_estimate();
    let bytes = builder.finish().to_vec();
    assert_eq!(bytes.len(), size);
    bytes
}

fn iter(contents: &[u8]) -> Result<BlockIter, DecodeError> {
    Ok(BlockIter::new(Arc::new(Block::new(contents.to_vec())?), bytewise()))
}

/// Scans a block forward. Returns its entries as "key=value ...", and the error that stopped the
/// scan.
fn scan(contents: &[u8]) -> String {
    let mut iter = match iter(contents) {
        Ok(iter) => iter,
        Err(error) => return format!("{}! {error}", error.offset),
    };
    let mut entries = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        entries.push(format!("{}={}", iter.key().escape_ascii(), iter.value().escape_ascii()));
        iter.next();
    }
    entries.extend(iter.status().err().map(|error| format!("{}! {error}", error.offset)));
    entries.join(" ")
}

#[track_caller]
fn check(contents: &[u8], expect: &str) {
    assert_eq!(scan(contents), expect);
}

/// Returns a block of encoded entries with the given restart points.
fn block(entries: &[u8], restarts: &[u32]) -> Vec<u8> {
    let mut bytes = entries.to_vec();
    bytes.extend(restarts.iter().chain(&[restarts.len() as u32]).flat_map(|n| n.to_le_bytes()));
    bytes
}

fn owned(entries: &[(&str, &str)]) -> Entries {
    entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

const FRUIT: [(&str, &str); 3] = [("apple", "red"), ("apricot", "orange"), ("cherry", "")];
const FRUIT_BY_TWO: &[u8] = b"\0\x05\x03applered\x02\x05\x06ricotorange\0\x06\0cherry";

#[test]
fn encoding() {
    assert_eq!(built(2, &owned(&FRUIT)), block(FRUIT_BY_TWO, &[0, 25]));
    check(&block(FRUIT_BY_TWO, &[0, 25]), "apple=red apricot=orange cherry=");
    assert_eq!(built(16, &[]), block(b"", &[0]));
}

#[test]
fn reset_starts_a_new_block() {
    let mut builder = BlockBuilder::new(1);
    builder.add(b"a", b"");
    builder.add(b"b", b"");
    builder.finish();
    builder.reset();
    assert!(builder.is_empty() && builder.last_key().is_empty());
    builder.add(b"a", b"1");
    assert_eq!(builder.finish(), block(b"\0\x01\x01a1", &[0]));
}

#[test]
fn consecutive_blocks_keep_the_last_key() {
    let mut builder = BlockBuilder::new(2);
    builder.add(b"apple", b"");
    builder.finish();
    builder.reset_keeping_last_key();
    assert!(builder.is_empty());
    assert_eq!((builder.last_key(), builder.size_estimate()), (&b"apple"[..], 8));
    builder.set_restart_interval(1);
    builder.add(b"apricot", b"");
    builder.add_with_shared_prefix(4, b"aprils", b"");
    assert_eq!(builder.finish(), block(b"\0\x07\0apricot\0\x06\0aprils", &[0, 10]));
}

#[test]
fn empty_blocks() {
    for empty in [block(b"", &[]), block(b"", &[0]), block(FRUIT_BY_TWO, &[])] {
        check(&empty, "");
        let mut iter = iter(&empty).unwrap();
        iter.seek_to_last();
        assert!(!iter.valid());
        iter.seek(b"a");
        assert!(!iter.valid() && iter.status().is_ok());
    }
}

#[test]
fn lengths_of_more_than_one_byte() {
    let entries: Entries =
        (0..4).map(|n| ([vec![b'k'; 127 + n], vec![0; n]].concat(), vec![7; 200 * n])).collect();
    let contents = built(4, &entries);
    let mut iter = iter(&contents).unwrap();
    iter.seek_to_first();
    for (key, value) in &entries {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.next();
    }
    assert!(!iter.valid() && iter.status().is_ok());
}

#[test]
fn broken_restart_points() {
    check(b"abc", "0! 3 bytes, expected 4 for the restart count of a block");
    check(&2u32.to_le_bytes(), "0! 2 restart points, expected at most 0");
    check(&[0xff; 8], "4! 4294967295 restart points, expected at most 1");
    check(&block(b"", &[1]), "0! restart point 0 at 1, expected 0 or more and below 0");
    check(&block(FRUIT_BY_TWO, &[0, 34]), "38! restart point 1 at 34, expected 1 or more and below 34");
    check(&block(FRUIT_BY_TWO, &[0, 25, 25]), "42! restart point 2 at 25, expected 26 or more and below 34");
    check(&block(FRUIT_BY_TWO, &[25, 0]), "38! restart point 1 at 0, expected 26 or more and below 34");
}

#[test]
fn broken_entries() {
    check(&block(b"\0\x01", &[0]), "0! the end of the entries, expected three lengths");
    check(&block(b"\0\x01\0a\xff\xff\xff", &[0]), "a= 4! the end of the entries, expected three lengths");
    check(&block(b"\x01\x01\0a", &[0]), "0! a key that shares 1 bytes, expected at most 0");
    check(&block(b"\0\x01\0a\x02\x01\0b", &[0]), "a= 4! a key that shares 2 bytes, expected at most 1");
    check(&block(b"\0\x02\0a", &[0]), "0! 1 bytes, expected 2 for a key and its value");
    check(&block(b"\0\x01\x01a", &[0]), "0! 1 bytes, expected 2 for a key and its value");
}

#[test]
fn lengths_whose_sum_does_not_fit_32_bits() {
    let entry = b"\0\xff\xff\xff\xff\x0f\x02ab";
    check(&block(entry, &[0]), "0! 2 bytes, expected 4294967297 for a key and its value");
}

#[test]
fn seek_over_a_broken_restart_point() {
    let contents = block(b"\0\x01\0a\x01\x01\0b\0\x01\0c", &[0, 4, 8]);
    let mut iter = iter(&contents).unwrap();
    iter.seek(b"a");
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().to_string(), "a key that shares 1 bytes, expected at most 0");
    iter.seek_to_last();
    assert_eq!(iter.key(), b"c", "undamaged entries are readable");
    assert!(iter.status().is_err());
}

#[test]
fn prev_over_a_restart_point_within_an_entry() {
    // The second restart point is the value of the first entry. It is itself an entry that is too
    // long.
    let contents = block(b"\0\x01\x04a\0\x01\x04x\0\x01\0b", &[0, 4]);
    let mut iter = iter(&contents).unwrap();
    iter.seek_to_first();
    iter.next();
    assert_eq!(iter.key(), b"b");
    iter.prev();
    assert!(!iter.valid());
    assert_eq!(
        iter.status().unwrap_err().to_string(),
        "an entry that ends at 12, expected an end at 8, where the next one begins"
    );
}

#[test]
fn entries_before_the_first_restart_are_hidden() {
    let contents = block(FRUIT_BY_TWO, &[25]);
    check(&contents, "cherry=");
    let mut iter = iter(&contents).unwrap();
    iter.seek(b"apple");
    assert_eq!(iter.key(), b"cherry");
    iter.prev();
    assert!(!iter.valid() && iter.status().is_ok());
}

/// Iterates over a damaged block in every way. Each iteration ends, after no more steps than there
/// are bytes.
fn exercise(contents: &[u8]) {
    let Ok(mut iter) = iter(contents) else { return };
    let bounded = |iter: &mut BlockIter, step: fn(&mut BlockIter)| {
        let mut steps = 0;
        while iter.valid() {
            steps += iter.key().len().min(1) + iter.value().len().min(1);
            assert!(steps <= contents.len());
            step(iter);
        }
    };
    iter.seek_to_first();
    bounded(&mut iter, BlockIter::next);
    iter.seek_to_last();
    bounded(&mut iter, BlockIter::prev);
    for target in [&b""[..], b"apple", b"b", b"zzz"] {
        let _ = iter.source().seek_for_get(target);
        let _ = Block::new(contents.to_vec()).map(|block| {
            let _ = block.with_search_index(&KeyOrder::Internal, Vec::new()).unwrap().seek_for_get(target);
        });
        iter.seek(target);
        assert!(!iter.valid() || iter.key() >= target);
        bounded(&mut iter, BlockIter::prev);
        iter.seek(target);
        bounded(&mut iter, BlockIter::next);
    }
    for with_index in [false, true] {
        let Ok(mut block) = Block::new(contents.to_vec()) else { return };
        if with_index {
            block = block.with_search_index(&KeyOrder::Internal, Vec::new()).unwrap();
        }
        let mut iter = BlockIter::new(Arc::new(block), KeyOrder::Internal);
        let forward = |iter: &mut BlockIter| {
            if !iter.next_visible_fast(|_| true) {
                iter.next();
            }
        };
        let backward = |iter: &mut BlockIter| {
            if iter.is_newest_visible(|_| false) || !iter.prev_visible_fast(|_| true) {
                iter.prev();
            }
        };
        for target in [&b""[..], b"apple\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0", b"zzz"] {
            for steps in 0..3 {
                iter.seek(target);
                for _ in 0..steps {
                    if iter.valid() {
                        forward(&mut iter)
                    }
                }
                bounded(&mut iter, backward);
                iter.seek(target);
                bounded(&mut iter, forward);
            }
        }
        iter.seek_to_last();
        bounded(&mut iter, backward);
    }
}

#[test]
fn any_bit_flipped_or_byte_missing() {
    let whole = built(2, &owned(&FRUIT));
    for pos in 0..whole.len() {
        exercise(&whole[..pos]);
        exercise(&[&whole[..pos], &whole[pos + 1..]].concat());
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[pos] ^= 1 << bit;
            exercise(&flipped);
        }
    }
}

/// Step of an iterator.
#[derive(Debug, Clone)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    Next,
    Prev,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0), Just(0xff)], 0..6)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        3 => key().prop_map(Step::Seek),
        8 => Just(Step::Next),
        8 => Just(Step::Prev),
    ]
}

proptest! {
    #[test]
    fn iterates_like_an_ordered_map(
        map in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 0..4), 0..60),
        restart_interval in 1usize..20,
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let entries: Entries = map.clone().into_iter().collect();
        let mut iter = iter(&built(restart_interval, &entries)).unwrap();
        let mut current: Option<&Vec<u8>> = None;
        for step in steps {
            match (step, current) {
                (Step::First, _) => { iter.seek_to_first(); current = map.keys().next(); }
                (Step::Last, _) => { iter.seek_to_last(); current = map.keys().next_back(); }
                (Step::Seek(key), _) => { iter.seek(&key); current = map.range(key..).next().map(|(key, _)| key); }
                (Step::Next, Some(key)) => {
                    iter.next();
                    current = map.range::<Vec<u8>, _>((Bound::Excluded(key), Bound::Unbounded)).next().map(|(key, _)| key);
                }
                (Step::Prev, Some(key)) => {
                    iter.prev();
                    current = map.range::<Vec<u8>, _>(..key).next_back().map(|(key, _)| key);
                }
                (Step::Next | Step::Prev, None) => continue,
            }
            let found = iter.valid().then(|| (iter.key(), iter.value()));
            prop_assert_eq!(found, current.map(|key| (&key[..], &map[key][..])));
        }
        prop_assert_eq!(iter.status(), Ok(()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        entries in prop::collection::vec(prop_oneof![3 => 0u8..6, 1 => any::<u8>()], 0..60),
        restarts in prop::collection::btree_set(0u32..60, 0..5),
    ) {
        exercise(&entries);
        exercise(&block(&entries, &restarts.into_iter().collect::<Vec<_>>()));
    }

    /// The entries are complete, their keys have any order, and the restart points are wrong.
    #[test]
    fn misleading_restart_points_never_panic(
        entries in prop::collection::vec((0u8..12, prop::collection::vec(0u8..4, 0..20), 0u8..3), 0..12),
        restarts in prop::collection::btree_set(0u32..120, 0..5),
    ) {
        let mut bytes = Vec::new();
        for (shared, rest, value) in entries {
            bytes.extend([shared, rest.len() as u8, value]);
            bytes.extend(rest);
            bytes.extend(vec![0; value.into()]);
        }
        exercise(&block(&bytes, &restarts.into_iter().collect::<Vec<_>>()));
    }
}

/// Generates versions of user keys that are prefixes of each other, or that contain bytes of
/// trailers.
fn versions() -> impl Strategy<Value = std::collections::BTreeSet<(Vec<u8>, std::cmp::Reverse<u64>)>> {
    let byte = prop_oneof![4 => Just(b'a'), 1 => Just(b'b'), 1 => Just(1), 1 => Just(0)];
    let user_key = prop::collection::vec(byte, 0..6);
    let version = (user_key, prop_oneof![0u64..4, Just(0x6161)]);
    prop::collection::btree_set(version.prop_map(|(key, sequence)| (key, std::cmp::Reverse(sequence))), 0..60)
}

/// Returns the internal key of a put.
fn internal_key(user_key: &[u8], sequence: u64) -> Vec<u8> {
    InternalKey::new(user_key, sequence, ValueType::Value).as_bytes().to_vec()
}

/// Returns the internal key of a version of [`versions`].
fn version_key(version: &(Vec<u8>, std::cmp::Reverse<u64>)) -> Vec<u8> {
    internal_key(&version.0, version.1.0)
}

proptest! {
    #[test]
    fn gets_like_an_ordered_map(
        versions in versions(), targets in versions(), restart_interval in 1usize..20, with_index in any::<bool>(),
    ) {
        let entries: Entries = versions.iter().map(|v| (version_key(v), version_key(v))).collect();
        let mut block = Block::new(built(restart_interval, &entries)).unwrap();
        if with_index {
            block = block.with_search_index(&KeyOrder::Internal, Vec::new()).unwrap();
        }
        let mut iter = BlockIter::new(Arc::new(block), KeyOrder::Internal);
        for target_version in versions.iter().chain(&targets) {
            let target = version_key(target_version);
            let expect = versions.range(target_version..).next();
            iter.seek(&target);
            prop_assert_eq!(iter.entry().map(|(key, _)| key.to_vec()), expect.map(version_key));
            prop_assert_eq!(iter.status(), Ok(()));
            let found = match expect {
                Some(version) if version.0 == target_version.0 => {
                    BlockLookup::Found { trailer: key::trailer(iter.key()), value: iter.value_range() }
                }
                _ => BlockLookup::NotFound,
            };
            let lookup = iter.source().seek_for_get(&target).unwrap();
            prop_assert!(lookup == found || lookup == BlockLookup::NeedsIterator, "{:?}, expected {:?}", lookup, found);
            if iter.valid() {
                iter.prev();
                let before = versions.range(..target_version).next_back();
                prop_assert_eq!(iter.entry().map(|(key, _)| key.to_vec()), before.map(version_key));
            }
        }
    }

    /// Keys with one version and one length are the common case.
    #[test]
    fn plain_keys_need_no_iterator(numbers in prop::collection::btree_set(0u32..5000, 1..100), target in 0u32..5000) {
        let internal = |n: &u32| internal_key(format!("{n:06}").as_bytes(), 7);
        let entries: Entries = numbers.iter().map(|n| (internal(n), n.to_le_bytes().to_vec())).collect();
        let block = Block::new(built(16, &entries)).unwrap().with_search_index(&KeyOrder::Internal, Vec::new()).unwrap();
        for n in numbers.iter().chain([&target]) {
            let found = match block.seek_for_get(&internal(n)).unwrap() {
                BlockLookup::Found { trailer, value } => Some((trailer, &block.contents()[value])),
                other => {
                    prop_assert_eq!(other, BlockLookup::NotFound);
                    None
                }
            };
            let value = n.to_le_bytes();
            prop_assert_eq!(found, numbers.contains(n).then_some((key::pack_sequence_and_type(7, ValueType::Value), &value[..])));
        }
    }
}

/// The targets include keys with equal heads, and keys before and after all entries.
#[test]
fn seeks_with_a_search_index() {
    let internal = |key: &[u8]| internal_key(key, 7);
    let keys: [&[u8]; 8] = [
        b"mail/",
        b"mail/1",
        b"mail/1\0",
        b"mail/10000000-a",
        b"mail/10000000-b",
        b"mail/2",
        b"mail/20",
        b"name",
    ];
    for restart_interval in [1, 2, 3, 8] {
        for count in 0..=keys.len() {
            let entries: Entries = keys[..count].iter().map(|key| (internal(key), key.to_vec())).collect();
            let block = Block::new(built(restart_interval, &entries))
                .unwrap()
                .with_search_index(&KeyOrder::Internal, Vec::new())
                .unwrap();
            assert_eq!(
                (block.search_index.is_empty(), block.search_index.size() == 0),
                (count == 0, count == 0)
            );
            assert!(block.memory_usage() >= block.contents().len() + block.search_index.size());
            let mut iter = BlockIter::new(Arc::new(block), KeyOrder::Internal);
            let others: [&[u8]; 5] = [b"", b"mail/1\0\0", b"mail/10000000", b"mail/3", b"z"];
            for target in keys.into_iter().chain(others) {
                iter.seek(&internal(target));
                let expect = keys[..count].iter().find(|&&key| key >= target);
                let found = iter.valid().then(|| (key::user_key(iter.key()), iter.value()));
                assert_eq!(found, expect.map(|&key| (key, key)), "{} of {count}", target.escape_ascii());
            }
        }
    }
}

#[test]
fn blocks_without_a_search_index() {
    let entries: Entries = (0..4).map(|n| (internal_key(&[n], 7), vec![n; 20_000])).collect();
    let large = Block::new(built(16, &entries)).unwrap();
    let broken = Block::new(block(FRUIT_BY_TWO, &[0, 26])).unwrap();
    let short_keys = Block::new(block(FRUIT_BY_TWO, &[0, 25])).unwrap();
    for block in [large, broken, short_keys] {
        assert!(!block.has_search_index());
        let indexed = block.with_search_index(&KeyOrder::Internal, b"anything".to_vec()).unwrap();
        assert!(indexed.has_search_index() && indexed.search_index.is_empty());
        assert_eq!(indexed.contents(), block.contents());
    }
    let custom_order = Block::new(built(16, &entries[..1])).unwrap();
    let custom_order = custom_order.with_search_index(&KeyOrder::Custom(bytewise()), Vec::new()).unwrap();
    assert!(custom_order.search_index.is_empty());
}

#[test]
fn a_copy_is_the_same_block() {
    for (value_len, is_copied) in [(100, true), (20_000, false)] {
        let entries: Entries = (0..4).map(|n| (internal_key(&[n], 7), vec![n; value_len])).collect();
        let contents = built(16, &entries);
        let address = contents.as_ptr();
        let copy = Block::copy_of(contents.as_slice().into(), Vec::new()).unwrap();
        let indexed =
            Block::copy_with_search_index(contents.as_slice().into(), &KeyOrder::Internal, Vec::new());
        let indexed = indexed.unwrap();
        assert!(!copy.has_search_index() && indexed.has_search_index());
        assert_eq!((copy.contents(), indexed.contents()), (&contents[..], &contents[..]));
        assert_eq!(indexed.search_index.is_empty(), !is_copied);
        let owned = Block::copy_with_search_index(contents.into(), &KeyOrder::Internal, Vec::new()).unwrap();
        assert_eq!(owned.contents().as_ptr() == address, !is_copied);
        assert_eq!(owned.contents(), copy.contents());
    }
    let broken = block(FRUIT_BY_TWO, &[25, 0]);
    let error = Block::new(broken.clone()).unwrap_err();
    assert_eq!(Block::copy_of(broken.as_slice().into(), Vec::new()).unwrap_err(), error);
    let indexed = Block::copy_with_search_index(broken.into(), &KeyOrder::Internal, Vec::new());
    assert_eq!(indexed.unwrap_err(), error);
}

/// Step of an iterator over a block of versions.
#[derive(Debug, Clone)]
enum VersionStep {
    Seek(usize),
    Last,
    Next,
    Prev,
    NextVisible(u64),
    PrevVisible(u64),
    IsNewest(u64),
}

fn version_step() -> impl Strategy<Value = VersionStep> {
    prop_oneof![
        1 => Just(VersionStep::Last),
        2 => (0usize..60).prop_map(VersionStep::Seek),
        2 => Just(VersionStep::Next),
        2 => Just(VersionStep::Prev),
        4 => (0u64..4).prop_map(VersionStep::NextVisible),
        8 => (0u64..4).prop_map(VersionStep::PrevVisible),
        4 => (0u64..4).prop_map(VersionStep::IsNewest),
    ]
}

proptest! {
    /// A fast step either moves to the adjacent entry, which is then the newest version of its key,
    /// or does not move.
    #[test]
    fn fast_steps_like_an_ordered_map(
        versions in versions(), restart_interval in 1usize..20, steps in prop::collection::vec(version_step(), 0..100),
    ) {
        let versions = Vec::from_iter(versions);
        let entries: Entries = versions.iter().map(|v| (version_key(v), v.0.clone())).collect();
        let mut iter = BlockIter::new(Arc::new(Block::new(built(restart_interval, &entries)).unwrap()), KeyOrder::Internal);
        let is_newest = |i: usize| i == 0 || versions[i - 1].0 != versions[i].0;
        let is_visible = |max: u64| move |trailer: u64| trailer >> 8 <= max;
        let mut pos = None;
        for step in steps {
            match (step, pos) {
                (VersionStep::Last, _) => { iter.seek_to_last(); pos = entries.len().checked_sub(1); }
                (VersionStep::Seek(to), _) if to < entries.len() => { iter.seek(&entries[to].0); pos = Some(to); }
                (VersionStep::Next, Some(i)) => { iter.next(); pos = Some(i + 1).filter(|&i| i < entries.len()); }
                (VersionStep::Prev, Some(i)) => { iter.prev(); pos = i.checked_sub(1); }
                (VersionStep::NextVisible(max), old_pos) => if iter.next_visible_fast(is_visible(max)) {
                    let next = old_pos.unwrap() + 1;
                    prop_assert!(is_newest(next) && versions[next].1.0 <= max);
                    pos = Some(next);
                },
                (VersionStep::PrevVisible(max), old_pos) => if iter.prev_visible_fast(is_visible(max)) {
                    let before = old_pos.unwrap() - 1;
                    prop_assert!(is_newest(before) && is_newest(before + 1) && versions[before].1.0 <= max);
                    pos = Some(before);
                },
                (VersionStep::IsNewest(max), _) => if iter.is_newest_visible(is_visible(max)) {
                    prop_assert!(is_newest(pos.unwrap()) && versions[pos.unwrap()].1.0 <= max);
                },
                _ => continue,
            }
            prop_assert_eq!(iter.entry(), pos.map(|i| (&entries[i].0[..], &entries[i].1[..])));
        }
        prop_assert_eq!(iter.status(), Ok(()));
    }
}

/// Fast steps over keys with one version fail only at the ends of a block.
#[test]
fn fast_steps_over_plain_keys_succeed() {
    let entries: Entries =
        (90..140).map(|n| (internal_key(format!("{n:06}").as_bytes(), 7), vec![1; 100])).collect();
    let mut iter = BlockIter::new(Arc::new(Block::new(built(16, &entries)).unwrap()), KeyOrder::Internal);
    iter.seek_to_first();
    let forward = (0..).take_while(|_| iter.next_visible_fast(|_| true)).count();
    assert!(
        !iter.next_visible_fast(|_| true)
            && !iter.prev_visible_fast(|_| false)
            && iter.is_newest_visible(|_| true)
    );
    let backward = (0..).take_while(|_| iter.prev_visible_fast(|_| true)).count();
    // The entry before the first one is in another block.
    assert_eq!((forward, backward, iter.key()), (49, 48, &entries[1].0[..]));
}

/// The keys are larger than the cache of decoded entries.
#[test]
fn backward_over_large_keys() {
    let entries: Entries = (0..20u8).map(|n| ([&vec![n / 2; 30_000][..], &[n]].concat(), vec![n])).collect();
    let contents = built(20, &entries);
    let mut iter = iter(&contents).unwrap();
    iter.seek_to_last();
    for (key, value) in entries.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.prev();
    }
    assert!(!iter.valid() && iter.status().is_ok());
}

/// Searches depend on correct restart points. Iteration does not notice wrong ones.
#[test]
fn restart_points_at_entries_without_a_whole_key() {
    // Three entries of 5 bytes: a=1, ab=2 (which shares the a), b=3.
    let entries = b"\x00\x01\x01a1\x01\x01\x01b2\x00\x01\x01b3";
    #[track_caller]
    fn check(entries: &[u8], restarts: &[u32], expect: &str) {
        let block = Block::new(block(entries, restarts)).unwrap();
        assert_eq!(
            block
                .verify_restart_points()
                .map_or_else(|error| format!("{}! {error}", error.offset), |()| "right".into()),
            expect
        );
    }
    check(entries, &[0], "right");
    check(entries, &[0, 10], "right");
    check(entries, &[10], "right");
    check(b"", &[0], "right");
    check(b"", &[], "right");
    check(entries, &[], "15! 15 bytes of entries without a restart point, expected one");
    check(entries, &[0, 5], "19! restart point 1 at 5, expected the offset of an entry with a complete key");
    check(entries, &[0, 7], "19! restart point 1 at 7, expected the offset of an entry with a complete key");
    check(
        entries,
        &[0, 12],
        "19! restart point 1 at 12, expected the offset of an entry with a complete key",
    );
    check(entries, &[5, 10], "15! restart point 0 at 5, expected the offset of an entry with a complete key");
    check(b"\x00\x01\x01a1\x00\x7f", &[0, 6], "right");
}
