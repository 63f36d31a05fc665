//! Comparison of the tree with a sorted list of the same records, the model.

use proptest::prelude::*;
use terrace_format::comparator::bytewise;
use terrace_sync::thread;

use super::super::cursor::BTreeCursor;
use super::*;
use crate::internal_iterator::InternalIterator;

/// Orders keys by descending length, then by descending bytes. Heads do not help with this order.
struct LongestKeyFirst;

impl Comparator for LongestKeyFirst {
    fn name(&self) -> &str {
        "odd"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        (b.len(), b).cmp(&(a.len(), a))
    }
}

fn comparators() -> [Arc<dyn Comparator>; 2] {
    [bytewise(), Arc::new(LongestKeyFirst)]
}

impl BTree {
    /// Returns the trailer and the value of the version that `sequence` sees.
    fn get(self: &Arc<Self>, user_key: &[u8], sequence: SequenceNumber) -> Option<(u64, Vec<u8>)> {
        let found = self.find(user_key, sequence)?;
        // SAFETY: `find` returned a record of this tree.
        let ArenaRecord { key, value } = unsafe { self.context.arena.read_record(found.record) };
        assert_eq!(found.pin().value(), value);
        Some((key::trailer(key), value.to_vec()))
    }
}

/// User keys, trailers and values in the order of their internal keys.
type ExpectedRecords = Vec<(Vec<u8>, u64, Vec<u8>)>;

/// Builds a tree and its model from keys in this order, with trailers from 1 on.
fn build(
    comparator: &Arc<dyn Comparator>,
    keys: impl Iterator<Item = Vec<u8>>,
) -> (Arc<BTree>, ExpectedRecords) {
    let tree = Arc::new(BTree::new(Arc::clone(comparator), Arc::default(), 1 << 12, false));
    let mut model = ExpectedRecords::new();
    for (key, trailer) in keys.zip(1u64..) {
        let value = trailer.to_string().into_bytes();
        let mode = if trailer.is_multiple_of(2) { InsertMode::Exclusive } else { InsertMode::Concurrent };
        tree.insert(&key, trailer, &value, mode);
        model.push((key, trailer, value));
    }
    sort(comparator, &mut model);
    (tree, model)
}

fn sort(comparator: &Arc<dyn Comparator>, model: &mut ExpectedRecords) {
    model.sort_by(|a, b| comparator.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
}

fn current(cursor: &BTreeCursor) -> Option<(Vec<u8>, u64, Vec<u8>)> {
    let (key, value) = cursor.entry()?;
    Some((key::user_key(key).to_vec(), key::trailer(key), value.to_vec()))
}

/// Checks that iteration and searches in the tree agree with the model.
fn check(comparator: &Arc<dyn Comparator>, tree: &Arc<BTree>, model: &ExpectedRecords, probes: &[Vec<u8>]) {
    let mut cursor = BTreeCursor::new(Arc::clone(tree));
    cursor.seek_to_first();
    for expected in model {
        assert_eq!(current(&cursor).as_ref(), Some(expected), "forwards");
        cursor.next();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last();
    for expected in model.iter().rev() {
        assert_eq!(current(&cursor).as_ref(), Some(expected), "backwards");
        cursor.prev();
    }
    assert!(!cursor.valid());
    for probe in probes {
        for trailer in [0, 1, model.len() as u64 / 2, u64::MAX] {
            let expected =
                model.iter().find(|(key, t, _)| comparator.compare(key, probe).then(trailer.cmp(t)).is_ge());
            let mut internal = probe.clone();
            internal.extend_from_slice(&trailer.to_le_bytes());
            cursor.seek(&internal);
            assert_eq!(current(&cursor).as_ref(), expected, "from {probe:?} at {trailer} on");
            let found = tree.get(probe, trailer >> 8).map(|(trailer, _)| trailer);
            let seek = key::pack_sequence_and_type(
                (trailer >> 8).min(key::MAX_SEQUENCE_NUMBER),
                ValueType::FOR_SEEK,
            );
            let expected =
                model.iter().find(|(key, t, _)| comparator.compare(key, probe).is_eq() && *t <= seek);
            assert_eq!(found, expected.map(|(_, trailer, _)| *trailer), "{probe:?} at {trailer}");
        }
    }
}

fn check_all(keys: &[Vec<u8>]) {
    for comparator in &comparators() {
        let (tree, model) = build(comparator, keys.iter().cloned());
        let probes: Vec<_> = keys.iter().step_by(keys.len() / 100 + 1).flat_map(|key| near(key)).collect();
        check(comparator, &tree, &model, &probes);
    }
}

/// Returns a key and three neighbors of it.
fn near(key: &[u8]) -> [Vec<u8>; 4] {
    let mut near = [key, key, key, key].map(<[u8]>::to_vec);
    near[1].push(0);
    near[2].pop();
    if let Some(last) = near[3].last_mut() {
        *last = last.wrapping_add(1);
    }
    near
}

fn scattered(n: u64, modulus: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % modulus)
}

fn decimal(n: u64) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// Checks the moves from user key to user key, at the sequence number `sequence`.
fn check_key_moves(tree: &Arc<BTree>, model: &ExpectedRecords, sequence: SequenceNumber) {
    let keys: Vec<_> = model.chunk_by(|a, b| a.0 == b.0).collect();
    let newest_visible = |versions: &[(Vec<u8>, u64, Vec<u8>)]| {
        versions.iter().find(|(_, trailer, _)| trailer >> 8 <= sequence).cloned()
    };
    let mut cursor = BTreeCursor::new(Arc::clone(tree));
    cursor.seek_to_first();
    for versions in &keys {
        assert_eq!(current(&cursor).as_ref(), versions.first(), "forwards");
        let mut newer = BTreeCursor::new(Arc::clone(tree));
        newer.seek_to_first();
        while current(&newer) != current(&cursor) {
            newer.next_user_key();
        }
        newer.skip_newer_versions(sequence);
        cursor.next_user_key();
        assert_eq!(current(&newer), newest_visible(versions).or(current(&cursor)));
    }
    assert!(!cursor.valid());
    cursor.seek_to_last();
    for versions in keys.iter().rev() {
        assert_eq!(current(&cursor).as_ref(), versions.last(), "backwards");
        if let Some(newest) = newest_visible(versions) {
            let is_there = versions.last() == Some(&newest);
            assert_eq!(cursor.skip_to_newest_version(sequence), !is_there);
            assert_eq!(current(&cursor), Some(newest));
            assert!(!cursor.skip_to_newest_version(sequence), "it is there already");
        }
        cursor.prev_user_key();
    }
    assert!(!cursor.valid());
}

#[test]
fn cursor_moves_from_user_key_to_user_key() {
    for comparator in &comparators() {
        let keys = scattered(2_000, 150).map(|n| decimal(if n < 100 { n } else { 7 }));
        let (tree, mut model) = build(comparator, std::iter::empty());
        for (key, sequence) in keys.zip(1u64..) {
            tree.insert(&key, sequence << 8 | 1, b"", InsertMode::Concurrent);
            model.push((key, sequence << 8 | 1, Vec::new()));
        }
        sort(comparator, &mut model);
        [0, 1, 700, 1_999, 3_000].iter().for_each(|&sequence| check_key_moves(&tree, &model, sequence));
    }
}

#[test]
fn empty_tree() {
    check_all(&[]);
    check_all(&[vec![]]);
}

#[test]
fn ascending_and_descending() {
    check_all(&(0..5000).map(decimal).collect::<Vec<_>>());
    check_all(&(0..5000).rev().map(decimal).collect::<Vec<_>>());
}

#[test]
fn scattered_with_versions() {
    check_all(&scattered(8000, 3000).map(decimal).collect::<Vec<_>>());
    check_all(&scattered(8000, 3000).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>());
}

#[test]
fn common_prefixes_that_shrink_late() {
    let keys = (0..3000u64).map(|i| format!("tenant/{:04}/user/{:06}/name", i * 7 % 30, i * 37 % 3000));
    let mut keys: Vec<_> = keys.map(String::into_bytes).collect();
    check_all(&keys);
    // Then keys with other prefixes, at the edges and in between.
    keys.extend([b"".to_vec(), b"a".to_vec(), b"tenant".to_vec(), b"tenant/0010".to_vec(), b"u".to_vec()]);
    keys.extend((0..500u64).map(|i| i.to_be_bytes().to_vec()));
    check_all(&keys);
}

#[test]
fn keys_that_differ_in_trailing_zeros() {
    let keys = (0..900).map(|i| [vec![i as u8 % 3], vec![0; i / 3 * 7 % 300]].concat());
    check_all(&keys.collect::<Vec<_>>());
}

#[test]
fn values_larger_than_a_chunk() {
    let tree = Arc::new(BTree::new(bytewise(), Arc::default(), 1 << 12, false));
    let before = tree.memory_usage();
    tree.insert(b"a", 256, &[7; 3 << 20], InsertMode::Concurrent);
    tree.insert(b"b", 512, b"", InsertMode::Concurrent);
    assert_eq!(tree.get(b"a", 9).map(|(_, value)| value.len()), Some(3 << 20));
    assert!(tree.memory_usage() - before >= 3 << 20);
}

#[test]
fn ascending_load_fills_leaves() {
    let (ascending, scatter) = [true, false]
        .map(|ascends| {
            let tree = BTree::new(bytewise(), Arc::default(), 1 << 12, false);
            let keys = (0..64 * 200u64).map(|i| if ascends { i } else { i.reverse_bits() });
            keys.for_each(|key| tree.insert(&key.to_be_bytes(), 1, b"", InsertMode::Concurrent));
            tree.memory_usage()
        })
        .into();
    assert!(ascending < scatter, "{ascending} bytes and {scatter}");
    assert!(ascending < 64 * 200 * (24 + 20), "{ascending} bytes");
}

#[test]
fn cursor_with_concurrent_writers() {
    for comparator in &comparators() {
        let tree = Arc::new(BTree::new(Arc::clone(comparator), Arc::default(), 1 << 12, false));
        let even: Vec<_> = (0..2000u64).map(|n| decimal(2 * n)).collect();
        even.iter().for_each(|key| tree.insert(key, 1 << 8, b"", InsertMode::Concurrent));
        thread::scope(|scope| {
            for thread in 0..2u64 {
                let tree = &tree;
                scope.spawn(move || {
                    for n in scattered(20_000, 4000).map(|n| n ^ thread) {
                        tree.insert(&decimal(n), (2 + n + thread) << 8, b"new", InsertMode::Concurrent);
                    }
                });
            }
            let mut expected = even.clone();
            expected.sort_by(|a, b| comparator.compare(a, b));
            for round in 0..10 {
                let mut cursor = BTreeCursor::new(Arc::clone(&tree));
                let mut seen = Vec::new();
                if round % 2 == 0 {
                    cursor.seek_to_first()
                } else {
                    cursor.seek_to_last()
                }
                while let Some((key, number, _)) = current(&cursor) {
                    if number == 1 << 8 {
                        seen.push(key);
                    }
                    if round % 2 == 0 { cursor.next() } else { cursor.prev() }
                }
                if round % 2 == 1 {
                    seen.reverse();
                }
                assert!(seen == expected, "a scan misses entries that were added before it began");
            }
        });
    }
}

#[test]
fn concurrent_writers() {
    for comparator in &comparators() {
        let tree = Arc::new(BTree::new(Arc::clone(comparator), Arc::default(), 1 << 12, false));
        let mut model = ExpectedRecords::new();
        for thread in 0..4 {
            for (i, n) in (0u64..).zip(scattered(10_000, 4000)) {
                model.push((decimal(n), (i * 4 + thread + 1) << 8, decimal(i)));
            }
        }
        thread::scope(|scope| {
            for mine in model.chunks(10_000) {
                let tree = &tree;
                scope.spawn(move || {
                    mine.iter().for_each(|(key, trailer, value)| {
                        tree.insert(key, *trailer, value, InsertMode::Concurrent)
                    })
                });
            }
        });
        sort(comparator, &mut model);
        check(comparator, &tree, &model, &scattered(50, 5000).map(decimal).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn arbitrary_keys_match_model(keys in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..12), 0..400)) {
        check_all(&keys);
    }
}

/// Consecutive trees in the same recycled chunks hold only their own records.
#[test]
fn pooled_chunks_are_reused() {
    let pool = Arc::default();
    for turn in 0..4u32 {
        let tree = Arc::new(BTree::new(bytewise(), Arc::clone(&pool), 1 << 12, false));
        let value = vec![turn as u8; 1000];
        for key in 0..3000u32 {
            tree.insert(
                &(key * 7 % 3000).to_be_bytes(),
                key::pack_sequence_and_type(1, ValueType::Value),
                &value,
                InsertMode::Concurrent,
            );
        }
        assert!(tree.get(&3000u32.to_be_bytes(), 1).is_none());
        let mut cursor = BTreeCursor::new(tree);
        cursor.seek_to_first();
        for key in 0..3000u32 {
            let (found, stored) = cursor.entry().unwrap();
            assert!(key::user_key(found) == key.to_be_bytes() && stored == value, "{key}, turn {turn}");
            cursor.next();
        }
        assert!(!cursor.valid());
    }
}
