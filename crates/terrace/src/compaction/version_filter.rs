//! Version filter: decides which versions a compaction keeps.

use terrace_format::key::{self, InternalComparator, SequenceNumber, ValueType};
use terrace_format::key_order::KeyOrder;
use terrace_format::version_edit::NUM_LEVELS;

use crate::error::{Error, Result};
use crate::sync::Arc;
use crate::version::Version;

/// Decision about one version of a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Some reader may see the version.
    Keep,
    /// No reader can see the version.
    Drop,
    /// A tombstone that every reader sees. It can be dropped if no lower level holds an older
    /// version.
    DropIfBottommost,
}

/// Filter of versions, which the caller presents in key order, newest version first.
pub(super) struct VersionFilter {
    user_order: KeyOrder,
    /// Smallest sequence number at which a current or later reader reads.
    smallest_snapshot: SequenceNumber,
    current_user_key: Vec<u8>,
    /// Sequence number of the last version of the current user key.
    last_sequence_for_key: Option<SequenceNumber>,
    /// False before the first version.
    has_current_user_key: bool,
    /// True if the last version was the newest of its user key.
    pub(super) is_newest_version: bool,
}

impl VersionFilter {
    pub(super) fn new(comparator: &InternalComparator, smallest_snapshot: SequenceNumber) -> VersionFilter {
        VersionFilter {
            user_order: KeyOrder::from(Arc::clone(comparator.user_comparator())),
            smallest_snapshot,
            current_user_key: Vec::new(),
            last_sequence_for_key: None,
            has_current_user_key: false,
            is_newest_version: true,
        }
    }

    /// Decides about the version with `internal_key`.
    pub(super) fn decide(&mut self, internal_key: &[u8]) -> Result<Verdict> {
        let parsed = key::parse(internal_key).map_err(|error| {
            let message = format!("internal key '{}': {error}", internal_key.escape_ascii());
            Error::corruption("compaction input".as_ref(), None, message)
        })?;
        let is_same_user_key =
            self.has_current_user_key && self.user_order.is_equal(parsed.user_key, &self.current_user_key);
        let newer = if is_same_user_key { self.last_sequence_for_key } else { None };
        let verdict = match newer {
            // Every reader sees the newer version, so none needs this one.
            Some(newer) if newer <= self.smallest_snapshot => Verdict::Drop,
            // The same write twice: two tables come from the same log.
            Some(newer) if newer == parsed.sequence => Verdict::Drop,
            _ if parsed.value_type == ValueType::Deletion && parsed.sequence <= self.smallest_snapshot => {
                Verdict::DropIfBottommost
            }
            _ => Verdict::Keep,
        };
        self.is_newest_version = !is_same_user_key;
        self.last_sequence_for_key = Some(parsed.sequence);
        self.has_current_user_key = true;
        if !is_same_user_key {
            self.current_user_key.clear();
            self.current_user_key.extend_from_slice(parsed.user_key);
        }
        Ok(verdict)
    }
}

/// Levels below the output level. The caller asks about user keys in ascending order.
pub(super) struct LowerLevels<'a> {
    version: &'a Version,
    first_level: usize,
    /// For each level, the index of the first file that does not end before the last key.
    level_positions: [usize; NUM_LEVELS],
}

impl<'a> LowerLevels<'a> {
    pub(super) fn new(version: &'a Version, first_level: usize) -> LowerLevels<'a> {
        LowerLevels { version, first_level, level_positions: [0; NUM_LEVELS] }
    }

    /// Returns true if a file of a lower level may hold a version of `user_key`.
    pub(super) fn key_may_exist_below(&mut self, user_key: &[u8]) -> bool {
        let comparator = self.version.comparator.user_comparator();
        for level in self.first_level..NUM_LEVELS {
            let files = &self.version.levels[level];
            while let Some(file) = files.get(self.level_positions[level]) {
                if comparator.compare(user_key, file.largest.user_key()).is_le() {
                    if comparator.compare(user_key, file.smallest.user_key()).is_ge() {
                        return true;
                    }
                    break;
                }
                self.level_positions[level] += 1;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    #[track_caller]
    fn check(
        smallest_snapshot: SequenceNumber,
        versions: &[(&str, SequenceNumber, ValueType)],
        expect: &[Verdict],
    ) {
        let mut filter = VersionFilter::new(&InternalComparator::new(bytewise()), smallest_snapshot);
        let verdicts: Vec<Verdict> = versions
            .iter()
            .map(|(user_key, sequence, value_type)| {
                let mut internal_key = Vec::new();
                key::append(&mut internal_key, user_key.as_bytes(), *sequence, *value_type);
                filter.decide(&internal_key).unwrap()
            })
            .collect();
        assert_eq!(verdicts, expect);
    }

    use ValueType::{Deletion, Value};
    use Verdict::{Drop, DropIfBottommost, Keep};

    #[test]
    fn without_snapshots_only_newest_version_is_kept() {
        check(9, &[("a", 5, Value), ("a", 3, Value), ("b", 4, Value)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn snapshot_keeps_its_visible_version() {
        check(3, &[("a", 5, Value), ("a", 3, Value), ("a", 2, Value)], &[Keep, Keep, Drop]);
    }

    #[test]
    fn tombstone_is_dropped_only_at_bottommost_and_below_smallest_snapshot() {
        check(3, &[("a", 5, Deletion), ("a", 3, Deletion), ("a", 2, Value)], &[Keep, DropIfBottommost, Drop]);
    }

    #[test]
    fn empty_user_key_is_valid() {
        check(9, &[("", 5, Value), ("", 4, Value), ("a", 3, Value)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn duplicate_write_is_dropped() {
        check(0, &[("a", 5, Value), ("a", 5, Value)], &[Keep, Drop]);
    }
}
