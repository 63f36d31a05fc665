//! Choice of the tables that may share a level and those that must be merged.
//!
//! Terrace orders the versions of a key by their sequence numbers. Point lookups of LevelDB do not.
//! On level 0 they expect a file with a higher number to be newer. On a deeper level they expect
//! each key in one table. The groups of this module are correct for both engines:
//!
//! ```text
//!   group_by_overlap   sorted levels   no two tables overlap
//!   group_by_age       level 0         of two overlapping tables, the one with the higher number
//!                                      has only newer entries
//! ```

use std::cmp::Ordering;

use terrace_format::comparator::Comparator;
use terrace_format::key::{InternalComparator, InternalKey, SequenceNumber};

use super::recovered_table::{self, RecoveredTable};

/// Definition of an overlap.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyOverlap {
    /// Both tables may hold versions of one user key.
    UserKeys,
    /// The ranges of internal keys meet. A manifest excludes only this on a sorted level.
    InternalKeys,
}

impl KeyOverlap {
    /// Returns whether a table that ends at `end` overlaps one that begins at `begin` or before it.
    fn reaches(self, end: &InternalKey, begin: &InternalKey, order: &InternalComparator) -> bool {
        match self {
            KeyOverlap::UserKeys => order.user_comparator().compare(end.user_key(), begin.user_key()).is_ge(),
            KeyOverlap::InternalKeys => order.compare(end.as_bytes(), begin.as_bytes()).is_ge(),
        }
    }
}

/// Groups tables that overlap, directly or through others. The groups are in key order and do not
/// overlap.
pub(super) fn group_by_overlap(
    mut tables: Vec<RecoveredTable>,
    order: &InternalComparator,
    overlap: KeyOverlap,
) -> Vec<Vec<RecoveredTable>> {
    tables.sort_by(|a, b| order.compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes()));
    let mut groups: Vec<Vec<RecoveredTable>> = Vec::new();
    let mut end: Option<InternalKey> = None;
    for table in tables {
        let smallest = &table.file.smallest;
        let largest = &table.file.largest;
        match (groups.last_mut(), &mut end) {
            (Some(group), Some(end)) if overlap.reaches(end, smallest, order) => {
                if order.compare(largest.as_bytes(), end.as_bytes()).is_gt() {
                    *end = largest.clone();
                }
                group.push(table);
            }
            _ => {
                end = Some(largest.clone());
                groups.push(vec![table]);
            }
        }
    }
    groups
}

/// Groups overlapping tables whose file numbers contradict their age. Tables of one group must be
/// merged into tables with new numbers, in the order of the returned groups.
pub(super) fn group_by_age(
    tables: Vec<RecoveredTable>,
    order: &InternalComparator,
) -> Vec<Vec<RecoveredTable>> {
    let mut groups: Vec<AgeGroup> = tables.into_iter().map(AgeGroup::new).collect();
    while let Some((i, j)) = find_age_conflict(&groups, order) {
        let other = groups.swap_remove(j);
        groups[i].join(other);
    }
    groups.sort_by_key(|group| group.min_sequence);
    groups.into_iter().map(|group| group.tables).collect()
}

/// Tables that become one sorted run with one age.
struct AgeGroup {
    tables: Vec<RecoveredTable>,
    /// File number; None for tables that will be merged: their new number is above all others.
    number: Option<u64>,
    min_sequence: SequenceNumber,
    max_sequence: SequenceNumber,
}

impl AgeGroup {
    fn new(table: RecoveredTable) -> AgeGroup {
        AgeGroup {
            number: Some(table.file.number),
            min_sequence: table.min_sequence,
            max_sequence: table.max_sequence,
            tables: vec![table],
        }
    }

    fn join(&mut self, other: AgeGroup) {
        self.tables.extend(other.tables);
        self.number = None;
        self.min_sequence = self.min_sequence.min(other.min_sequence);
        self.max_sequence = self.max_sequence.max(other.max_sequence);
    }

    /// Returns whether the file numbers order the two groups by age.
    fn file_numbers_match_age(&self, other: &AgeGroup) -> bool {
        let by_number = match (self.number, other.number) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            // Merged tables are numbered in the order of their entries.
            (None, None) => self.min_sequence.cmp(&other.min_sequence),
        };
        match by_number {
            Ordering::Less => self.max_sequence < other.min_sequence,
            _ => other.max_sequence < self.min_sequence,
        }
    }

    fn overlaps(&self, other: &AgeGroup, order: &InternalComparator) -> bool {
        self.tables
            .iter()
            .any(|a| other.tables.iter().any(|b| recovered_table::user_keys_overlap(&a.file, &b.file, order)))
    }
}

/// Returns two overlapping groups with file numbers that contradict their age, the smaller index
/// first.
fn find_age_conflict(groups: &[AgeGroup], order: &InternalComparator) -> Option<(usize, usize)> {
    let pairs = (0..groups.len()).flat_map(|i| (i + 1..groups.len()).map(move |j| (i, j)));
    let mut pairs = pairs.map(|(i, j)| (i, j, &groups[i], &groups[j]));
    pairs.find(|(_, _, a, b)| !a.file_numbers_match_age(b) && a.overlaps(b, order)).map(|(i, j, _, _)| (i, j))
}

/// Splits the tables of one group into as few sorted runs as possible.
pub(super) fn split_into_sorted_runs(
    group: &[RecoveredTable],
    order: &InternalComparator,
) -> Vec<Vec<RecoveredTable>> {
    let mut tables = group.to_vec();
    tables.sort_by(|a, b| {
        order
            .compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes())
            .then(b.file.number.cmp(&a.file.number))
    });
    let mut runs: Vec<Vec<RecoveredTable>> = Vec::new();
    for table in tables {
        let run = runs.iter_mut().find(|run| {
            run.last().is_none_or(|last| {
                order.compare(last.file.largest.as_bytes(), table.file.smallest.as_bytes()).is_lt()
            })
        });
        match run {
            Some(run) => run.push(table),
            None => runs.push(vec![table]),
        }
    }
    runs
}
