//! Version builder: applies version edits to a version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use terrace_format::comparator::Comparator;
use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::sync::Arc;

/// Collected version edits.
///
/// Within one edit, deletions come before additions, and an addition cancels an earlier deletion of
/// the same file number. So one edit can move a file to another level, and a later edit can move it
/// back.
#[derive(Default)]
pub(crate) struct VersionBuilder {
    added: [BTreeMap<u64, Arc<FileMeta>>; NUM_LEVELS],
    deleted: [BTreeSet<u64>; NUM_LEVELS],
}

impl VersionBuilder {
    /// Adds an `edit` of an earlier run. The base of all edits is the empty version, so a deletion
    /// concerns only a file that an earlier edit added.
    pub(crate) fn apply_to_empty(&mut self, edit: VersionEdit) {
        for (level, number) in edit.deleted_files {
            self.added[level].remove(&number);
        }
        for (level, file) in edit.new_files {
            self.added[level].insert(file.number, FileMeta::new(file, 0));
        }
    }

    /// Adds `edit`. No entry of its new files is newer than `largest_sequence`. `known` returns the
    /// metadata of a file that the edit only moves, so that its table stays open.
    pub(crate) fn apply_with_known_files(
        &mut self,
        edit: &VersionEdit,
        largest_sequence: SequenceNumber,
        known: impl Fn(u64) -> Option<Arc<FileMeta>>,
    ) {
        for &(level, number) in &edit.deleted_files {
            self.deleted[level].insert(number);
            self.added[level].remove(&number);
        }
        for (level, file) in &edit.new_files {
            self.deleted[*level].remove(&file.number);
            let meta = known(file.number).unwrap_or_else(|| FileMeta::new(file.clone(), largest_sequence));
            self.added[*level].insert(file.number, meta);
        }
    }

    /// Returns the version after all edits to `base`. Overlapping files of a sorted level are an
    /// error that names the MANIFEST at `path`.
    pub(crate) fn build(&self, base: &Version, path: &Path) -> Result<Version> {
        let mut next = Version::empty(base.comparator.clone());
        for level in 0..NUM_LEVELS {
            let kept = base.levels[level].iter().filter(|file| {
                !self.deleted[level].contains(&file.number) && !self.added[level].contains_key(&file.number)
            });
            let mut files: Vec<_> = kept.chain(self.added[level].values()).cloned().collect();
            if level == 0 {
                files.sort_by_key(|file| std::cmp::Reverse(file.number));
            } else {
                let comparator = &base.comparator;
                files.sort_by(|a, b| {
                    let order = comparator.compare(a.smallest.as_bytes(), b.smallest.as_bytes());
                    order.then(a.number.cmp(&b.number))
                });
                check_disjoint(&files, comparator, level, path)?;
            }
            next.set_level(level, files);
        }
        Ok(next)
    }
}

fn check_disjoint(
    files: &[Arc<FileMeta>],
    comparator: &dyn Comparator,
    level: usize,
    path: &Path,
) -> Result<()> {
    for pair in files.windows(2) {
        if comparator.compare(pair[0].largest.as_bytes(), pair[1].smallest.as_bytes()).is_ge() {
            let message =
                format!("tables {} and {} overlap on level {level}", pair[0].number, pair[1].number);
            return Err(Error::corruption(path, None, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;
    use terrace_format::key::{InternalComparator, InternalKey, ValueType};
    use terrace_format::version_edit::NewFile;

    use super::*;

    fn file(number: u64, smallest: &str, largest: &str) -> NewFile {
        let key = |user_key: &str| InternalKey::new(user_key.as_bytes(), number, ValueType::Value);
        NewFile { number, size: 1000, smallest: key(smallest), largest: key(largest) }
    }

    fn edit(deleted: &[(usize, u64)], added: &[(usize, NewFile)]) -> VersionEdit {
        VersionEdit { deleted_files: deleted.to_vec(), new_files: added.to_vec(), ..VersionEdit::default() }
    }

    fn base() -> Version {
        Version::empty(InternalComparator::new(bytewise()))
    }

    fn text(version: &Version) -> String {
        let levels = version
            .levels
            .iter()
            .map(|files| files.iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" "));
        levels.collect::<Vec<_>>().join("|")
    }

    #[track_caller]
    fn check(edits: &[VersionEdit], expect: &str) {
        let mut builder = VersionBuilder::default();
        for edit in edits {
            builder.apply_to_empty(edit.clone());
        }
        let built = builder.build(&base(), "MANIFEST-000002".as_ref());
        assert_eq!(built.as_ref().map_or_else(|error| error.to_string(), text), expect);
    }

    #[test]
    fn level_0_sorts_by_number_others_by_key() {
        let added =
            [(0, file(3, "a", "c")), (0, file(5, "b", "d")), (1, file(4, "x", "y")), (1, file(6, "a", "b"))];
        check(&[edit(&[], &added)], "5 3|6 4|||||");
    }

    #[test]
    fn file_moves_down_in_one_edit() {
        let moved = edit(&[(0, 3)], &[(1, file(3, "a", "c"))]);
        check(&[edit(&[], &[(0, file(3, "a", "c"))]), moved], "|3|||||");
    }

    #[test]
    fn addition_cancels_deletion() {
        let deletion = edit(&[(0, 3)], &[]);
        let addition = edit(&[(0, 3)], &[(0, file(3, "a", "c"))]);
        check(&[deletion, addition], "3||||||");
    }

    #[test]
    fn overlap_on_sorted_level_is_corruption() {
        let added = [(2, file(3, "a", "c")), (2, file(4, "b", "d"))];
        check(&[edit(&[], &added)], "corruption: MANIFEST-000002: tables 3 and 4 overlap on level 2");
    }
}
