//! Orders that the code can see through, and searches that use it.
//!
//! Nearly every database has bytewise keys. Then no comparator need be called, and of sorted keys a few bytes each
//! decide nearly every search:
//!
//! ```text
//!   keys     user/0017/mail    user/0017/name    user/0042/mail    user/1093/mail
//!   prefix   user/
//!   heads    "0017/mai"        "0017/nam"        "0042/mai"        "1093/mai"       u64 each, big-endian
//! ```

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::comparator::{Bytewise, Comparator};
use crate::key::{self, InternalComparator};

/// An order of keys.
#[derive(Clone)]
pub enum KeyOrder {
    /// Of the keys' bytes.
    Bytewise,
    /// Of internal keys: the bytes of their user keys, and then the newer one first.
    Internal,
    /// What a comparator says.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// The order of `a` and `b`.
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

    /// True if neither of `a` and `b` is before the other.
    #[inline]
    pub fn is_equal(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            // Keys that differ mostly do so at their ends, in lengths that are the same: no call for that.
            KeyOrder::Bytewise => a.len() == b.len() && common_prefix_len(a, b) == a.len(),
            order => order.compare(a, b).is_eq(),
        }
    }

    /// As [`KeyOrder::compare`], for who knows already how many bytes `a` and `b` have in common from the start: `same`, as
    /// [`common_prefix`] counts them.
    #[inline]
    pub fn compare_after_prefix(&self, same: usize, a: &[u8], b: &[u8]) -> Ordering {
        debug_assert_eq!(same, common_prefix_len(a, b));
        match self {
            KeyOrder::Bytewise => a.get(same).cmp(&b.get(same)),
            KeyOrder::Internal => {
                let (x, y) = (key::user_key(a), key::user_key(b));
                // What is the same may reach into the numbers behind the user keys.
                let same = same.min(x.len()).min(y.len());
                x.get(same).cmp(&y.get(same)).then_with(|| key::trailer(b).cmp(&key::trailer(a)))
            }
            KeyOrder::Custom(comparator) => comparator.compare(a, b),
        }
    }

    /// The bytes of `key` that come first in the order, if bytes do.
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
            KeyOrder::Bytewise => "Bytes",
            KeyOrder::Internal => "Internal",
            KeyOrder::Custom(comparator) => comparator.name(),
        })
    }
}

impl From<Arc<dyn Comparator>> for KeyOrder {
    /// Only the bytewise order goes by its name; that of internal keys over it, by its type.
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

/// The heads of sorted keys: what a search looks at before it looks at a key.
#[derive(Debug, Default)]
pub struct KeyHeads {
    /// What every key begins with.
    prefix: InlineVec<u8, 23>,
    heads: InlineVec<u64, 4>,
    /// Of many, the first of each group: so few that they stay in the processor's caches where the others do not.
    group_heads: Box<[u64]>,
}

/// So many heads are in a group: a line of memory.
pub const HEADS_PER_GROUP: usize = 8;

/// About where in [`KeyHeads`] a key is.
#[derive(Debug, Clone)]
pub struct ApproxRange {
    /// All keys before are below it, and all behind are not.
    range: Range<usize>,
    head: u64,
}

impl ApproxRange {
    /// All keys before it are below the key that was asked for, and all behind it are not.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// So many heads are looked at one and all.
const LINEAR_SEARCH_MAX: usize = 64;

/// Some values: up to `N` in place, so that who has this at hand has them, or more in memory of their own.
#[derive(Debug)]
pub(crate) enum InlineVec<T, const N: usize> {
    /// How many of the array count.
    Inline(u8, [T; N]),
    Heap(Box<[T]>),
}

impl<T: Copy + Default, const N: usize> InlineVec<T, N> {
    pub(crate) fn new(values: impl Iterator<Item = T> + Clone) -> InlineVec<T, N> {
        let mut here = [T::default(); N];
        let mut len = 0;
        for value in values.clone() {
            let Some(place) = here.get_mut(usize::from(len)) else {
                return InlineVec::Heap(values.collect());
            };
            *place = value;
            len += 1;
        }
        InlineVec::Inline(len, here)
    }

    /// Those beside itself.
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

/// Of sorted keys that begin with `prefix`, of which `heads` are the [`head`]s of what follows it, little-endian: the first
/// that is not below `target`, as far as heads tell; their number if there is none.
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
            // Loads that do not wait for one another: of a block that is not in the processor's caches a binary search
            // would miss one line after the other.
            heads.iter().map(|&h| usize::from(u64::from_le_bytes(h) < head)).sum()
        }
    }
}

impl KeyHeads {
    /// The bytes of memory that they take beside themselves.
    pub fn heap_bytes(&self) -> usize {
        self.prefix.heap_bytes() + self.heads.heap_bytes() + size_of_val(&*self.group_heads)
    }

    /// Of `keys`. None if bytes say nothing in `order`.
    pub fn new<'a>(order: &KeyOrder, keys: impl Iterator<Item = &'a [u8]> + Clone) -> Option<KeyHeads> {
        let mut bytes = keys.clone().map_while(|key| order.sort_bytes(key));
        let Some(first) = bytes.next() else {
            return (keys.count() == 0).then(KeyHeads::default);
        };
        let shared = bytes.fold(first.len(), |shared, key| common_prefix_len(&first[..shared], key));
        let heads =
            InlineVec::new(keys.filter_map(|key| order.sort_bytes(key)).map(|key| head(&key[shared..])));
        let groups = if heads.len() > LINEAR_SEARCH_MAX { heads.len() } else { 0 };
        let tops = heads[..groups].iter().step_by(HEADS_PER_GROUP).copied().collect();
        Some(KeyHeads { prefix: InlineVec::new(first[..shared].iter().copied()), heads, group_heads: tops })
    }

    /// About where `target` is, for [`KeyHeads::candidates_in`].
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
                let range = match self.group_heads.partition_point(|&top| top < head) {
                    _ if self.group_heads.is_empty() => 0..len,
                    0 => 0..0,
                    groups => (groups - 1) * HEADS_PER_GROUP..len.min(groups * HEADS_PER_GROUP),
                };
                ApproxRange { range, head }
            }
        }
    }

    /// The heads that [`KeyHeads::candidates_in`] looks at.
    pub fn heads_in(&self, near: &ApproxRange) -> &[u64] {
        &self.heads[near.range()]
    }

    /// The keys that heads can't tell from `target`, of the order that they were made with: those before are below it,
    /// those behind are above. If the keys do not rise, any range of them.
    #[inline]
    pub fn candidates(&self, order: &KeyOrder, target: &[u8]) -> Range<usize> {
        self.candidates_in(order, &self.approx_range(order, target))
    }

    /// [`KeyHeads::candidates`], of a target that is `near`.
    #[inline]
    pub fn candidates_in(&self, order: &KeyOrder, near: &ApproxRange) -> Range<usize> {
        if let KeyOrder::Custom(_) = order {
            return near.range();
        }
        let (group, head) = (self.heads_in(near), near.head);
        let below = if group.len() > HEADS_PER_GROUP {
            group.partition_point(|&h| h < head)
        } else {
            group.iter().map(|&h| usize::from(h < head)).sum()
        };
        let start = near.range.start + below;
        let same = match self.heads.get(start) {
            Some(&h) if h == head => self.heads[start..].partition_point(|&h| h == head),
            _ => 0,
        };
        start..start + same
    }
}

/// The first eight bytes as a number that sorts as they do; zeros stand for what is missing.
#[inline]
pub fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |head, &byte| head >> 8 | u64::from(byte) << 56),
    }
}

/// The [`head`] of `key` behind its first `skip` bytes; 0 if it has no more.
#[inline]
pub fn head_after(skip: usize, key: &[u8]) -> u64 {
    let Some(rest) = key.get(skip..) else { return 0 };
    match (rest.first_chunk(), key.last_chunk()) {
        (Some(first), _) => u64::from_be_bytes(*first),
        // Mostly there are bytes enough before the few: one load, where a copy of the few would have to be waited for.
        (None, Some(last)) => {
            let missing = 8 * (size_of::<u64>() - rest.len()) as u32;
            u64::from_be_bytes(*last).checked_shl(missing).unwrap_or(0)
        }
        (None, None) => head(rest),
    }
}

/// How many bytes `a` and `b` have in common from the start.
#[inline]
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
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
            let like = heads.candidates(&KeyOrder::Bytewise, &target);
            prop_assert!(keys[..like.start].iter().all(|key| *key < target));
            prop_assert!(keys[like.end..].iter().all(|key| *key > target));
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
            a in few_bytes(), b in few_bytes(), older in 0u64..3, newer in 0u64..3,
        ) {
            let comparator = InternalComparator::new(bytewise());
            let (a, b) = (InternalKey::new(&a, older, ValueType::Value), InternalKey::new(&b, newer, ValueType::Deletion));
            let (a, b) = (a.as_bytes(), b.as_bytes());
            prop_assert_eq!(KeyOrder::from(&comparator).compare(a, b), comparator.compare(a, b));
            for order in [KeyOrder::Bytewise, KeyOrder::from(&comparator), KeyOrder::Custom(Arc::new(comparator))] {
                prop_assert_eq!(order.is_equal(a, b), order.compare(a, b).is_eq(), "{:?}", order);
                prop_assert!(order.is_equal(a, a));
            }
        }

        #[test]
        fn compare_after_prefix_equals_compare(
            a in few_bytes(), b in few_bytes(), older in 0u64..3, newer in 0u64..3,
        ) {
            let internal = InternalComparator::new(bytewise());
            let (x, y) = (InternalKey::new(&a, older, ValueType::Value), InternalKey::new(&b, newer, ValueType::Deletion));
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
        let of = |comparator: Arc<dyn Comparator>| format!("{:?}", KeyOrder::from(comparator));
        assert_eq!(of(bytewise()), "Bytes");
        assert_eq!(of(Arc::new(InternalComparator::new(bytewise()))), "Internal");
        let browser = InternalComparator::new(Arc::new(crate::comparator::IndexedDb));
        assert_eq!(of(Arc::new(browser)), "leveldb.InternalKeyComparator");
    }

    #[test]
    fn inline_and_heap_values() {
        for count in 0..10u64 {
            let few = InlineVec::<u64, 4>::new(0..count);
            assert_eq!(*few, Vec::from_iter(0..count));
            assert_eq!(matches!(few, InlineVec::Inline(..)), count <= 4);
        }
    }

    #[test]
    fn custom_order_has_no_heads() {
        let order = KeyOrder::Custom(bytewise());
        assert!(KeyHeads::new(&order, [b"a".as_slice()].into_iter()).is_none());
    }
}
