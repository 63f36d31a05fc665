//! Keys that a conditional write or an ingest watches while it checks them without a lock.
//!
//! ```text
//!   watching thread:    add the watch under `commit`   check   remove it under `commit`
//!   other writers:                  ... each notes its keys, under `commit` ...
//! ```

use std::ops::Bound;

use terrace_format::comparator::Comparator;

use crate::iterator::{RangeBound, is_after_begin, is_before_end};
use crate::sync::Arc;

/// Begin and end of a range.
type WatchedRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Keys and ranges of one conditional write or ingest.
pub(crate) struct WatchedKeys {
    comparator: Arc<dyn Comparator>,
    /// Single keys in the order of the comparator.
    keys: Vec<Vec<u8>>,
    /// Ranges in the order of the comparator, which neither overlap nor touch.
    ranges: Vec<WatchedRange>,
}

impl WatchedKeys {
    pub(crate) fn new(
        comparator: &Arc<dyn Comparator>,
        mut keys: Vec<Vec<u8>>,
        mut ranges: Vec<WatchedRange>,
    ) -> WatchedKeys {
        keys.sort_unstable_by(|a, b| comparator.compare(a, b));
        join_ranges(&mut ranges, &**comparator);
        WatchedKeys { comparator: Arc::clone(comparator), keys, ranges }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.keys.binary_search_by(|watched| self.comparator.compare(watched, key)).is_ok()
            || self.is_in_range(key)
    }

    fn is_in_range(&self, key: &[u8]) -> bool {
        let comparator = &*self.comparator;
        let index = self
            .ranges
            .partition_point(|(_, end)| !is_before_end(comparator, key, end.as_ref().map(Vec::as_slice)));
        self.ranges
            .get(index)
            .is_some_and(|(begin, _)| is_after_begin(comparator, key, begin.as_ref().map(Vec::as_slice)))
    }
}

/// Sorts `ranges`, and joins those that overlap or touch.
fn join_ranges(ranges: &mut Vec<WatchedRange>, comparator: &dyn Comparator) {
    ranges.retain(|(begin, end)| {
        RangeBound::of_begin(begin).compare(RangeBound::of_end(end), comparator).is_lt()
    });
    // The ranges of a transaction are nearly sorted. A stable sort makes use of that.
    ranges.sort_by(|(a, _), (b, _)| RangeBound::of_begin(a).compare(RangeBound::of_begin(b), comparator));
    ranges.dedup_by(|(begin, end), (_, earlier_end)| {
        let end_so_far = RangeBound::of_end(earlier_end);
        let is_joined = end_so_far.compare(RangeBound::of_begin(begin), comparator).is_ge();
        if is_joined && end_so_far.compare(RangeBound::of_end(end), comparator).is_lt() {
            std::mem::swap(earlier_end, end);
        }
        is_joined
    });
}

/// Watches of the running conditional writes and ingests.
#[derive(Default)]
pub(crate) struct WatchList {
    watches: Vec<Watch>,
    last_id: u64,
    /// Number of ingests since the database was opened.
    ingests: u64,
}

struct Watch {
    id: u64,
    keys: WatchedKeys,
    /// Watched key that another writer wrote.
    written_key: Option<Vec<u8>>,
}

impl WatchList {
    /// Returns true if no thread watches a key, so that a writer need not note its keys.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Starts to watch `keys`. Returns the identifier of the watch.
    pub(crate) fn add(&mut self, keys: WatchedKeys) -> u64 {
        self.last_id += 1;
        self.watches.push(Watch { id: self.last_id, keys, written_key: None });
        self.last_id
    }

    /// Ends watch `id`. Returns the key that another writer wrote meanwhile, if one did.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Vec<u8>> {
        let index = self.watches.iter().position(|watch| watch.id == id)?;
        self.watches.swap_remove(index).written_key
    }

    /// Notes that tables were ingested. A table may have many keys, so no watch notes them.
    pub(crate) fn note_ingest(&mut self) {
        self.ingests += 1;
    }

    /// Number of ingests so far.
    pub(crate) fn ingests(&self) -> u64 {
        self.ingests
    }

    /// Notes a write of `keys`.
    pub(crate) fn note_written<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        for watch in self.watches.iter_mut().filter(|watch| watch.written_key.is_none()) {
            watch.written_key = keys.clone().find(|key| watch.keys.contains(key)).map(<[u8]>::to_vec);
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    fn watched(keys: &[&str], ranges: &[(Bound<&str>, Bound<&str>)]) -> WatchedKeys {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let ranges = ranges.iter().map(|(begin, end)| (begin.map(bytes), end.map(bytes)));
        let keys = keys.iter().map(|key| bytes(key)).collect();
        WatchedKeys::new(&bytewise(), keys, ranges.collect())
    }

    #[test]
    fn watch_reports_the_first_written_key() {
        let mut list = WatchList::default();
        let keys = list.add(watched(&["d", "b"], &[]));
        let to_g = (Bound::Included("e"), Bound::Excluded("g"));
        let range = list.add(watched(&[], &[to_g, (Bound::Excluded("x"), Bound::Unbounded)]));
        let other = list.add(watched(&["a"], &[(Bound::Excluded("g"), Bound::Excluded("i"))]));
        list.note_written([b"c".as_slice(), b"g", b"d"].into_iter());
        list.note_written([b"b".as_slice(), b"i", b"x", b"zz"].into_iter());
        assert_eq!(list.remove(keys), Some(b"d".to_vec()));
        assert_eq!(list.remove(range), Some(b"zz".to_vec()));
        assert_eq!(list.remove(other), None);
        assert_eq!(list.remove(other), None);
        assert!(list.is_empty());
    }

    #[track_caller]
    fn check_ranges(ranges: &[(Bound<&str>, Bound<&str>)], expected: &str, count: usize) {
        let keys = watched(&[], ranges);
        let found: String = ('a'..='o').filter(|c| keys.contains(c.to_string().as_bytes())).collect();
        assert_eq!((found.as_str(), keys.ranges.len()), (expected, count), "{ranges:?}");
    }

    #[test]
    fn ranges_are_joined() {
        use Bound::{Excluded, Included, Unbounded};
        let closed = [("k", "m"), ("c", "e"), ("g", "g")];
        check_ranges(&closed.map(|(begin, end)| (Included(begin), Included(end))), "cdegklm", 3);
        let touching = [(Included("e"), Excluded("g")), (Included("c"), Excluded("e"))];
        check_ranges(&touching, "cdef", 1);
        check_ranges(&[(Included("c"), Included("e")), (Excluded("e"), Excluded("g"))], "cdef", 1);
        check_ranges(&[(Included("c"), Excluded("e")), (Excluded("e"), Excluded("g"))], "cdf", 2);
        let nested =
            [(Included("b"), Included("k")), (Included("c"), Excluded("d")), (Excluded("e"), Unbounded)];
        check_ranges(&nested, "bcdefghijklmno", 1);
        check_ranges(&[(Unbounded, Excluded("b")), (Unbounded, Excluded("c"))], "ab", 1);
        check_ranges(&[(Included("e"), Excluded("e")), (Included("g"), Included("e"))], "", 0);
        check_ranges(&[(Unbounded, Unbounded), (Included("c"), Included("d"))], "abcdefghijklmno", 1);
    }
}
