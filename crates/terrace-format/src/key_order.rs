//! Key orders that need no comparator call, and searches with key heads.
//!
//! Nearly every database has bytewise keys. Comparisons then need no call of a comparator, and a
//! few bytes of each key decide nearly every search. The *head* of a key is its first eight bytes,
//! or the first eight bytes after a common prefix, as an integer (the term of Umbra and LeanStore):
//!
//! ```text
//!   keys     user/0017/mail    user/0017/name    user/0042/mail    user/1093/mail
//!   prefix   user/
//!   heads    "0017/mai"        "0017/nam"        "0042/mai"        "1093/mai"   u64, big-endian
//! ```

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::comparator::{Bytewise, Comparator};
use crate::key::{self, InternalComparator};

/// Order of keys.
#[derive(Clone)]
pub enum KeyOrder {
    /// Bytewise order.
    Bytewise,
    /// Internal keys: bytewise order of user keys, then newer versions first.
    Internal,
    /// Order of a comparator.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// Compares `a` and `b`.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::Internal => {
                key::user_key(a).cmp(key::user_key(b)).then_with(|| key::trailer(b).cmp(&key::trailer(a)))
            }
            KeyOrder::Custom(comparator) => comparator.compare(a, b),
        }
    }

    /// Returns true if neither of `a` and `b` precedes the other.
    #[inline]
    pub fn is_equal(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            // Different keys usually have the same length and differ at the end, so `memcmp` would
            // not pay.
            KeyOrder::Bytewise => a.len() == b.len() && common_prefix_len(a, b) == a.len(),
            order => order.compare(a, b).is_eq(),
        }
    }

    /// Like [`KeyOrder::compare`], for a caller that already knows the [`common_prefix_len`] of `a`
    /// and `b`: `same`.
    #[inline]
    pub fn compare_after_prefix(&self, same: usize, a: &[u8], b: &[u8]) -> Ordering {
        debug_assert_eq!(same, common_prefix_len(a, b));
        match self {
            KeyOrder::Bytewise => a.get(same).cmp(&b.get(same)),
            KeyOrder::Internal => {
                let x = key::user_key(a);
                let y = key::user_key(b);
                // The common bytes may include bytes of the trailers.
                let same = same.min(x.len()).min(y.len());
                x.get(same).cmp(&y.get(same)).then_with(|| key::trailer(b).cmp(&key::trailer(a)))
            }
            KeyOrder::Custom(comparator) => comparator.compare(a, b),
        }
    }

    /// Returns the bytes of `key` that decide the order, if the order is bytewise.
    fn sort_bytes<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            KeyOrder::Bytewise => Some(key),
            KeyOrder::Internal => Some(key::user_key(key)),
            KeyOrder::Custom(_) => None,
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyOrder::Bytewise => "Bytewise",
            KeyOrder::Internal => "Internal",
            KeyOrder::Custom(comparator) => comparator.name(),
        })
    }
}

impl From<Arc<dyn Comparator>> for KeyOrder {
    /// Recognises the bytewise order by its name, and the order of internal keys over it by its
    /// type.
    fn from(comparator: Arc<dyn Comparator>) -> KeyOrder {
        if comparator.name() == Bytewise.name() {
            return KeyOrder::Bytewise;
        }
        match (&*comparator as &dyn Any).downcast_ref::<InternalComparator>() {
            Some(internal) if internal.is_bytewise() => KeyOrder::Internal,
            _ => KeyOrder::Custom(comparator),
        }
    }
}

impl From<&InternalComparator> for KeyOrder {
    fn from(comparator: &InternalComparator) -> KeyOrder {
        if comparator.is_bytewise() {
            KeyOrder::Internal
        } else {
            KeyOrder::Custom(Arc::new(comparator.clone()))
        }
    }
}

/// Heads of sorted keys. A search compares heads before it reads any key.
#[derive(Debug, Default)]
pub struct KeyHeads {
    /// Common prefix of all keys.
    prefix: InlineVec<u8, 23>,
    heads: InlineVec<u64, 4>,
    /// First head of each group, if there are many heads. They are few enough to stay in the
    /// processor caches.
    group_heads: Box<[u64]>,
}

/// Number of heads in a group: a cache line.
pub const HEADS_PER_GROUP: usize = 8;

/// Approximate position of a key in [`KeyHeads`].
#[derive(Debug, Clone)]
pub struct ApproxRange {
    /// All keys before the range are below the target, and all keys after it are not.
    range: Range<usize>,
    head: u64,
}

impl ApproxRange {
    /// Returns the range: all keys before it are below the target, and all keys after it are not.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// Maximum number of heads for a linear search.
const LINEAR_SEARCH_MAX: usize = 64;

/// Immutable sequence with up to `N` values inline, or with more values on the heap. Inline values
/// save a cache miss.
#[derive(Debug)]
pub(crate) enum InlineVec<T, const N: usize> {
    /// Number of valid values in the array.
    Inline(u8, [T; N]),
    Heap(Box<[T]>),
}

impl<T: Copy + Default, const N: usize> InlineVec<T, N> {
    pub(crate) fn new(values: impl Iterator<Item = T> + Clone) -> InlineVec<T, N> {
        let mut array = [T::default(); N];
        let mut len = 0;
        for value in values.clone() {
            let Some(slot) = array.get_mut(usize::from(len)) else {
                return InlineVec::Heap(values.collect());
            };
            *slot = value;
            len += 1;
        }
        InlineVec::Inline(len, array)
    }

    /// Returns the heap use, in bytes.
    fn heap_bytes(&self) -> usize {
        match self {
            InlineVec::Inline(..) => 0,
            InlineVec::Heap(values) => size_of_val(&**values),
        }
    }
}

impl<T: Copy + Default, const N: usize> Default for InlineVec<T, N> {
    fn default() -> InlineVec<T, N> {
        InlineVec::Inline(0, [T::default(); N])
    }
}

impl<T, const N: usize> Deref for InlineVec<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            InlineVec::Inline(len, values) => &values[..usize::from(*len)],
            InlineVec::Heap(values) => values,
        }
    }
}

/// Returns the index of the first key at or after `target`, as far as heads can decide; the number
/// of keys if there is none.
///
/// The sorted keys have the common prefix `prefix`. `heads` are the [`head`]s of their remaining
/// bytes, little-endian.
#[inline]
pub(crate) fn lower_bound_by_head(prefix: &[u8], heads: &[[u8; 8]], target: &[u8]) -> usize {
    let shared = target.len().min(prefix.len());
    match target[..shared].cmp(prefix) {
        Ordering::Less => 0,
        Ordering::Greater => heads.len(),
        Ordering::Equal => {
            let head = head(&target[shared..]);
            if heads.len() > LINEAR_SEARCH_MAX {
                return heads.partition_point(|&h| u64::from_le_bytes(h) < head);
            }
            // These loads are independent. In an uncached block, a binary search would miss one
            // cache line after the other.
            heads.iter().map(|&h| usize::from(u64::from_le_bytes(h) < head)).sum()
        }
    }
}

impl KeyHeads {
    /// Returns the heap use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.prefix.heap_bytes() + self.heads.heap_bytes() + size_of_val(&*self.group_heads)
    }

    /// Collects the heads of `keys`. Returns `None` if bytes do not decide `order`.
    pub fn new<'a>(order: &KeyOrder, keys: impl Iterator<Item = &'a [u8]> + Clone) -> Option<KeyHeads> {
        let mut bytes = keys.clone().map_while(|key| order.sort_bytes(key));
        let Some(first) = bytes.next() else {
            return (keys.count() == 0).then(KeyHeads::default);
        };
        let shared = bytes.fold(first.len(), |shared, key| common_prefix_len(&first[..shared], key));
        let heads =
            InlineVec::new(keys.filter_map(|key| order.sort_bytes(key)).map(|key| head(&key[shared..])));
        let grouped = if heads.len() > LINEAR_SEARCH_MAX { heads.len() } else { 0 };
        let group_heads = heads[..grouped].iter().step_by(HEADS_PER_GROUP).copied().collect();
        Some(KeyHeads { prefix: InlineVec::new(first[..shared].iter().copied()), heads, group_heads })
    }

    /// Returns the approximate position of `target`, for [`KeyHeads::candidates_in`].
    #[inline]
    pub fn approx_range(&self, order: &KeyOrder, target: &[u8]) -> ApproxRange {
        let len = self.heads.len();
        let Some(bytes) = order.sort_bytes(target) else { return ApproxRange { range: 0..len, head: 0 } };
        let shared = bytes.len().min(self.prefix.len());
        match bytes[..shared].cmp(&self.prefix) {
            Ordering::Less => ApproxRange { range: 0..0, head: u64::MAX },
            Ordering::Greater => ApproxRange { range: len..len, head: u64::MAX },
            Ordering::Equal => {
                let head = head(&bytes[shared..]);
                let range = match self.group_heads.partition_point(|&first| first < head) {
                    _ if self.group_heads.is_empty() => 0..len,
                    0 => 0..0,
                    groups => (groups - 1) * HEADS_PER_GROUP..len.min(groups * HEADS_PER_GROUP),
                };
                ApproxRange { range, head }
            }
        }
    }

    /// Returns the heads that [`KeyHeads::candidates_in`] reads.
    pub fn heads_in(&self, approx: &ApproxRange) -> &[u64] {
        &self.heads[approx.range()]
    }

    /// Returns the keys whose heads equal the head of `target`. Keys before them are below it, and
    /// keys after them are above.
    ///
    /// `order` is the order of `new`. If the keys do not rise, the range is arbitrary.
    #[inline]
    pub fn candidates(&self, order: &KeyOrder, target: &[u8]) -> Range<usize> {
        self.candidates_in(order, &self.approx_range(order, target))
    }

    /// Returns the [`KeyHeads::candidates`] of a target with the approximate position `approx`.
    #[inline]
    pub fn candidates_in(&self, order: &KeyOrder, approx: &ApproxRange) -> Range<usize> {
        if let KeyOrder::Custom(_) = order {
            return approx.range();
        }
        let group = self.heads_in(approx);
        let head = approx.head;
        let below = if group.len() > HEADS_PER_GROUP {
            group.partition_point(|&h| h < head)
        } else {
            group.iter().map(|&h| usize::from(h < head)).sum()
        };
        let start = approx.range.start + below;
        let equal = match self.heads.get(start) {
            Some(&h) if h == head => self.heads[start..].partition_point(|&h| h == head),
            _ => 0,
        };
        start..start + equal
    }
}

/// Returns the first eight bytes as an integer in the same order. Missing bytes count as zeros.
#[inline]
pub fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |head, &byte| head >> 8 | u64::from(byte) << 56),
    }
}

/// Returns the [`head`] of `key` after its first `skip` bytes, or 0 if there are no more.
#[inline]
pub fn head_after(skip: usize, key: &[u8]) -> u64 {
    let Some(rest) = key.get(skip..) else { return 0 };
    match (rest.first_chunk(), key.last_chunk()) {
        (Some(first), _) => u64::from_be_bytes(*first),
        // Usually the key has eight bytes in total. One load of them avoids the wait for a copy of
        // the last few bytes.
        (None, Some(last)) => {
            let missing = 8 * (size_of::<u64>() - rest.len()) as u32;
            u64::from_be_bytes(*last).checked_shl(missing).unwrap_or(0)
        }
        (None, None) => head(rest),
    }
}

/// Returns the length of the common prefix of `a` and `b`.
#[inline]
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return same + (difference.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::comparator::bytewise;
    use crate::key::{InternalKey, ValueType};

    fn few_bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(0xff)], 0..12)
    }

    proptest! {
        #[test]
        fn heads_agree_with_the_order(mut keys in proptest::collection::vec(few_bytes(), 0..200), target in few_bytes()) {
            keys.sort();
            let heads = KeyHeads::new(&KeyOrder::Bytewise, keys.iter().map(Vec::as_slice)).unwrap();
            let candidates = heads.candidates(&KeyOrder::Bytewise, &target);
            prop_assert!(keys[..candidates.start].iter().all(|key| *key < target));
            prop_assert!(keys[candidates.end..].iter().all(|key| *key > target));
        }

        #[test]
        fn heads_after_a_prefix(key in proptest::collection::vec(any::<u8>(), 0..24), skip in 0usize..26) {
            prop_assert_eq!(head_after(skip, &key), head(key.get(skip..).unwrap_or_default()));
        }

        #[test]
        fn common_prefix_lengths(a in few_bytes(), b in few_bytes()) {
            prop_assert_eq!(common_prefix_len(&a, &b), a.iter().zip(&b).take_while(|(a, b)| a == b).count());
        }

        #[test]
        fn internal_order_equals_internal_comparator(
            a in few_bytes(), b in few_bytes(), a_sequence in 0u64..3, b_sequence in 0u64..3,
        ) {
            let comparator = InternalComparator::new(bytewise());
            let a = InternalKey::new(&a, a_sequence, ValueType::Value);
            let b = InternalKey::new(&b, b_sequence, ValueType::Deletion);
            let a = a.as_bytes();
            let b = b.as_bytes();
            prop_assert_eq!(KeyOrder::from(&comparator).compare(a, b), comparator.compare(a, b));
            for order in [KeyOrder::Bytewise, KeyOrder::from(&comparator), KeyOrder::Custom(Arc::new(comparator))] {
                prop_assert_eq!(order.is_equal(a, b), order.compare(a, b).is_eq(), "{:?}", order);
                prop_assert!(order.is_equal(a, a));
            }
        }

        #[test]
        fn compare_after_prefix_equals_compare(
            a in few_bytes(), b in few_bytes(), a_sequence in 0u64..3, b_sequence in 0u64..3,
        ) {
            let internal = InternalComparator::new(bytewise());
            let x = InternalKey::new(&a, a_sequence, ValueType::Value);
            let y = InternalKey::new(&b, b_sequence, ValueType::Deletion);
            for (a, b) in [(&a[..], &b[..]), (x.as_bytes(), y.as_bytes()), (&a[..], y.as_bytes())] {
                let same = common_prefix_len(a, b);
                for order in [KeyOrder::Bytewise, KeyOrder::from(&internal), KeyOrder::Custom(Arc::new(internal.clone()))] {
                    prop_assert_eq!(order.compare_after_prefix(same, a, b), order.compare(a, b), "{:?}", order);
                }
            }
        }
    }

    #[test]
    fn recognized_comparators() {
        let debug = |comparator: Arc<dyn Comparator>| format!("{:?}", KeyOrder::from(comparator));
        assert_eq!(debug(bytewise()), "Bytewise");
        assert_eq!(debug(Arc::new(InternalComparator::new(bytewise()))), "Internal");
        let indexed_db = InternalComparator::new(Arc::new(crate::comparator::IndexedDb));
        assert_eq!(debug(Arc::new(indexed_db)), "leveldb.InternalKeyComparator");
    }

    #[test]
    fn inline_and_heap_values() {
        for count in 0..10u64 {
            let values = InlineVec::<u64, 4>::new(0..count);
            assert_eq!(*values, Vec::from_iter(0..count));
            assert_eq!(matches!(values, InlineVec::Inline(..)), count <= 4);
        }
    }

    #[test]
    fn custom_order_has_no_heads() {
        let order = KeyOrder::Custom(bytewise());
        assert!(KeyHeads::new(&order, [b"a".as_slice()].into_iter()).is_none());
    }
}
