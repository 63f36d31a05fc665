//! Bounds of a DB iterator: the caller's key bounds, and the next key of the other sorted runs.

use std::ops::Bound;

use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key;
use terrace_sync::mutant;

use super::merging_iter::{Direction, MergingIter};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::options::ReadOptions;

/// Key bounds of an iterator: from `lower`, included, to `upper`, excluded.
#[derive(Default)]
pub(crate) struct IterBounds {
    pub(crate) lower: Option<Vec<u8>>,
    pub(crate) upper: Option<Vec<u8>>,
}

impl IterBounds {
    /// Returns the intersection of the bounds and the prefix of `options`.
    pub(crate) fn new(options: &ReadOptions, comparator: &dyn Comparator) -> Result<IterBounds> {
        let mut bounds =
            IterBounds { lower: options.lower_bound.clone(), upper: options.upper_bound.clone() };
        let Some(prefix) = &options.prefix else { return Ok(bounds) };
        if comparator.name() != Bytewise.name() {
            let name = comparator.name();
            return Err(Error::NotSupported(format!(
                "prefix iteration needs the bytewise comparator, the database uses {name}"
            )));
        }
        if bounds.lower.as_ref().is_none_or(|lower| lower < prefix) {
            bounds.lower = Some(prefix.clone());
        }
        if let Some(end) = prefix_upper_bound(prefix)
            && bounds.upper.as_ref().is_none_or(|upper| *upper > end)
        {
            bounds.upper = Some(end);
        }
        Ok(bounds)
    }
}

/// Returns the smallest key above every key that starts with `prefix`, if there is one.
fn prefix_upper_bound(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns true if `key` is not below the range that starts with `begin`.
pub(crate) fn is_after_begin(comparator: &dyn Comparator, key: &[u8], begin: Bound<&[u8]>) -> bool {
    match begin {
        Bound::Unbounded => true,
        Bound::Included(begin) => comparator.compare(key, begin).is_ge(),
        Bound::Excluded(begin) => comparator.compare(key, begin).is_gt(),
    }
}

/// Returns true if `key` is not above the range that ends with `end`.
pub(crate) fn is_before_end(comparator: &dyn Comparator, key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => true,
        Bound::Included(end) => comparator.compare(key, end).is_le(),
        Bound::Excluded(end) => comparator.compare(key, end).is_lt(),
    }
}

/// Next user key of the sorted runs other than the current one, in one direction.
///
/// The current run may step up to this key without a comparison of the heads of all runs.
#[derive(Default)]
pub(super) struct OtherRunsBound {
    /// Direction in which the bound holds. None if the bound is unknown, or if it is a version of
    /// the current key.
    pub(super) direction: Option<Direction>,
    /// False if the other runs have no further entry.
    has_bound: bool,
    user_key: Vec<u8>,
}

impl OtherRunsBound {
    /// Takes the bound from `merging_iter`, which is at the current entry. Returns false if another
    /// run may hold a version of the current key, or if the direction differs.
    ///
    /// The comparator is bytewise.
    #[inline]
    pub(super) fn update(&mut self, merging_iter: &MergingIter, direction: Direction) -> bool {
        let current = key::user_key(merging_iter.key());
        let next = merging_iter.runner_up_key().map(key::user_key);
        let is_known = merging_iter.is_direction(direction)
            && (next.is_none_or(|next| precedes(direction, current, next))
                || mutant!(NewerVersionInOtherRunMissed));
        self.direction = is_known.then_some(direction);
        if is_known {
            self.has_bound = next.is_some();
            self.user_key.clear();
            self.user_key.extend_from_slice(next.unwrap_or_default());
        }
        is_known
    }

    /// Returns true if `user_key` comes before every entry of the other runs.
    #[inline]
    pub(super) fn allows(&self, direction: Direction, user_key: &[u8]) -> bool {
        !self.has_bound || precedes(direction, user_key, &self.user_key)
    }
}

#[inline]
fn precedes(direction: Direction, a: &[u8], b: &[u8]) -> bool {
    match direction {
        Direction::Forward => a < b,
        Direction::Backward => a > b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_upper_bounds() {
        assert_eq!(prefix_upper_bound(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_upper_bound(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_upper_bound(b"\xff\xff"), None);
        assert_eq!(prefix_upper_bound(b""), None);
    }
}
