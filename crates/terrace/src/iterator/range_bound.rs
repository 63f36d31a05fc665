//! Bounds of key ranges, for a comparison of ranges.

use std::cmp::Ordering;
use std::ops::Bound;

use terrace_format::comparator::Comparator;

/// Begin or end of a key range, as a position between two keys.
///
/// A range to `b`, excluded, and one from `b` on, included, have this bound in common.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RangeBound<'a> {
    /// Before all keys.
    Lowest,
    /// Immediately before the key.
    Before(&'a [u8]),
    /// Immediately after the key.
    After(&'a [u8]),
    /// After all keys.
    Highest,
}

impl<'a> RangeBound<'a> {
    pub(crate) fn of_begin(begin: &'a Bound<Vec<u8>>) -> RangeBound<'a> {
        match begin {
            Bound::Unbounded => RangeBound::Lowest,
            Bound::Included(key) => RangeBound::Before(key),
            Bound::Excluded(key) => RangeBound::After(key),
        }
    }

    pub(crate) fn of_end(end: &'a Bound<Vec<u8>>) -> RangeBound<'a> {
        match end {
            Bound::Unbounded => RangeBound::Highest,
            Bound::Included(key) => RangeBound::After(key),
            Bound::Excluded(key) => RangeBound::Before(key),
        }
    }

    /// Returns the order of two bounds. A range is empty if its begin is not less than its end.
    pub(crate) fn compare(self, other: RangeBound<'_>, comparator: &dyn Comparator) -> Ordering {
        match (self, other) {
            (RangeBound::Lowest, RangeBound::Lowest) | (RangeBound::Highest, RangeBound::Highest) => {
                Ordering::Equal
            }
            (RangeBound::Lowest, _) | (_, RangeBound::Highest) => Ordering::Less,
            (RangeBound::Highest, _) | (_, RangeBound::Lowest) => Ordering::Greater,
            (
                RangeBound::Before(key) | RangeBound::After(key),
                RangeBound::Before(other_key) | RangeBound::After(other_key),
            ) => {
                let is_after = |bound| matches!(bound, RangeBound::After(_));
                comparator.compare(key, other_key).then_with(|| is_after(self).cmp(&is_after(other)))
            }
        }
    }
}
