//! Version set: the current version and the counters that the MANIFEST stores with it.

use std::collections::BTreeSet;
use std::path::Path;

use terrace_format::key::{InternalComparator, InternalKey, SequenceNumber};
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};

use super::manifest_mark::ManifestMark;
use super::{Version, VersionBuilder};
use crate::error::Result;
use crate::sync::Arc;

/// Suffix of the comparator name of a database that stock LevelDB cannot read. LevelDB refuses to
/// open such a database, and changes nothing, because the name differs from its own.
pub(crate) const INCOMPATIBLE_SUFFIX: &str = "+terrace.1";

/// Current version and its counters.
#[derive(Clone)]
pub(crate) struct VersionSet {
    pub(crate) version: Arc<Version>,
    /// Number of the oldest log that is needed. All writes of older logs are in tables.
    pub(crate) log_number: u64,
    /// Number of a second needed log, or 0. A LevelDB from before 2011 that was killed during a
    /// compaction left one.
    pub(crate) prev_log_number: u64,
    /// Last sequence number of the tables. It is not below the sequence number before the first
    /// record of log `log_number`.
    pub(crate) last_sequence: SequenceNumber,
    /// For each level, the key at which its next compaction starts.
    pub(crate) compact_pointers: [Option<InternalKey>; NUM_LEVELS],
    /// Numbers of the live tables that have, or may have, blocks that need the marker.
    pub(crate) marked_tables: BTreeSet<u64>,
    /// True if tables without the marker have blocks that need it. Another program wrote them and
    /// expects the comparator name, so new tables add no marker.
    pub(crate) keeps_comparator_name: bool,
    /// Number of the MANIFEST that the last repair by Terrace wrote. A follower of an older one has
    /// shown another history.
    pub(crate) repaired_manifest: Option<u64>,
}

impl VersionSet {
    /// Creates the version set of an empty database.
    pub(crate) fn empty(comparator: InternalComparator) -> VersionSet {
        VersionSet {
            version: Arc::new(Version::empty(comparator)),
            log_number: 0,
            prev_log_number: 0,
            last_sequence: 0,
            compact_pointers: Default::default(),
            marked_tables: BTreeSet::new(),
            keeps_comparator_name: false,
            repaired_manifest: None,
        }
    }

    /// Returns true if the comparator name must have [`INCOMPATIBLE_SUFFIX`].
    pub(crate) fn needs_marker(&self) -> bool {
        !self.marked_tables.is_empty()
    }

    /// Returns the comparator name that a MANIFEST stores.
    fn stored_comparator_name(&self, is_marked: bool) -> Vec<u8> {
        let name = self.version.comparator.user_comparator().name_bytes();
        [name, if is_marked { INCOMPATIBLE_SUFFIX.as_bytes() } else { &[] }].concat()
    }

    /// Returns the edit with which a new MANIFEST starts, with the marker if `is_marked`. The edit
    /// after it adds the counters.
    pub(crate) fn snapshot_edit(&self, is_marked: bool) -> VersionEdit {
        let mut edit = VersionEdit {
            comparator: Some(self.stored_comparator_name(is_marked)),
            ..VersionEdit::default()
        };
        let repaired = self.repaired_manifest.map(|number| ManifestMark::Repaired { number });
        edit.compact_pointers.extend(repaired.map(ManifestMark::to_compact_pointer));
        // The pointer of the last level has a mark, which is not valid in the new MANIFEST.
        for (level, key) in self.compact_pointers.iter().enumerate().take(NUM_LEVELS - 1) {
            edit.compact_pointers.extend(key.clone().map(|key| (level, key)));
        }
        for (level, files) in self.version.levels.iter().enumerate() {
            edit.new_files.extend(files.iter().map(|file| (level, file.to_new_file())));
        }
        edit
    }

    /// Returns the approximate size in bytes of [`VersionSet::snapshot_edit`] in a MANIFEST.
    pub(crate) fn approximate_snapshot_size(&self) -> u64 {
        // A tag, a level, a number, a size and two lengths.
        const NUMBERS_OF_A_FILE: usize = 11;
        let tables =
            self.version.levels.iter().flatten().map(|file| {
                NUMBERS_OF_A_FILE + file.smallest.as_bytes().len() + file.largest.as_bytes().len()
            });
        let pointers = self.compact_pointers.iter().flatten().map(|key| key.as_bytes().len());
        (tables.sum::<usize>() + pointers.sum::<usize>()) as u64
    }

    /// Returns the version set after `edit`. Errors name the MANIFEST at `path`.
    ///
    /// New tables count as tables without marked blocks; see [`VersionSet::mark_tables`].
    pub(crate) fn apply_edit(&self, edit: &VersionEdit, path: &Path) -> Result<VersionSet> {
        let mut builder = VersionBuilder::default();
        let find = |number| self.version.levels.iter().flatten().find(|file| file.number == number);
        // A compaction writes the entries of the files that it deletes, a flush those up to the
        // last sequence number.
        let inputs = edit.deleted_files.iter().filter_map(|(_, number)| find(*number));
        let largest_sequence = match edit.deleted_files.is_empty() {
            true => edit.last_sequence.unwrap_or(self.last_sequence),
            false => inputs.map(|file| file.largest_sequence).max().unwrap_or_default(),
        };
        builder.apply_with_known_files(edit, largest_sequence, |number| find(number).cloned());
        let mut next = self.clone();
        next.version = Arc::new(builder.build(&self.version, path)?);
        next.apply_numbers(edit);
        if !next.marked_tables.is_empty() {
            let live = next.version.levels.iter().flatten().map(|file| file.number).collect();
            next.marked_tables = &next.marked_tables & &live;
        }
        Ok(next)
    }

    /// Marks all tables if `is_marked`, because the MANIFEST does not say which of them need it.
    pub(super) fn mark_all_tables_if(&mut self, is_marked: bool) {
        let tables = self.version.levels.iter().flatten().filter(|_| is_marked);
        self.marked_tables = tables.map(|file| file.number).collect();
    }

    /// Records that the tables with these numbers have blocks that need the marker.
    pub(crate) fn mark_tables(&mut self, numbers: impl IntoIterator<Item = u64>) {
        if !self.keeps_comparator_name {
            self.marked_tables.extend(numbers);
        }
    }

    /// Takes over the counters of `edit`.
    pub(super) fn apply_numbers(&mut self, edit: &VersionEdit) {
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        self.repaired_manifest = ManifestMark::repaired_manifest(edit).or(self.repaired_manifest);
        for (level, key) in &edit.compact_pointers {
            self.compact_pointers[*level] = Some(key.clone());
        }
    }
}
