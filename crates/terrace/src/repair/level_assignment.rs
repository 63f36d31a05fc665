//! Which tables may stand side by side, and which must be merged.
//!
//! Terrace tells versions of a key apart by their sequence numbers. LevelDB's look-ups do not: on level 0 they trust
//! that a file with a higher number is newer, and below that levels hold one version range each. What is placed here
//! is right for both:
//!
//! ```text
//!   apart    a sorted level    no two tables overlap
//!   by_age   level 0           of two tables that overlap, the one with the higher number holds only newer entries
//! ```

use std::cmp::Ordering;

use terrace_format::comparator::Comparator;
use terrace_format::key::{InternalComparator, InternalKey, SequenceNumber};

use super::recovered_table::{self, RecoveredTable};

/// When two tables overlap.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyOverlap {
    /// Both may have versions of one key.
    UserKeys,
    /// Their ranges of versions meet. That they don't is all that a manifest promises of a level.
    InternalKeys,
}

/// Groups tables that overlap, directly or through others. Groups are in key order and do not overlap.
///
pub(super) fn group_by_overlap(
    mut pieces: Vec<RecoveredTable>,
    order: &InternalComparator,
    overlap: KeyOverlap,
) -> Vec<Vec<RecoveredTable>> {
    pieces.sort_by(|a, b| order.compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes()));
    let joins = |end: &InternalKey, begin: &InternalKey| match overlap {
        KeyOverlap::UserKeys => order.user_comparator().compare(end.user_key(), begin.user_key()).is_ge(),
        KeyOverlap::InternalKeys => order.compare(end.as_bytes(), begin.as_bytes()).is_ge(),
    };
    let mut groups: Vec<Vec<RecoveredTable>> = Vec::new();
    let mut end: Option<InternalKey> = None;
    for piece in pieces {
        let (smallest, largest) = (&piece.file.smallest, &piece.file.largest);
        match (groups.last_mut(), &mut end) {
            (Some(group), Some(end)) if joins(end, smallest) => {
                if order.compare(largest.as_bytes(), end.as_bytes()).is_gt() {
                    *end = largest.clone();
                }
                group.push(piece);
            }
            _ => {
                end = Some(largest.clone());
                groups.push(vec![piece]);
            }
        }
    }
    groups
}

/// Groups tables whose numbers do not tell their age. A group of several is to be merged into tables with new numbers,
/// in the order in which the groups are returned.
pub(super) fn group_by_age(
    pieces: Vec<RecoveredTable>,
    order: &InternalComparator,
) -> Vec<Vec<RecoveredTable>> {
    let mut groups: Vec<AgeGroup> = pieces.into_iter().map(AgeGroup::new).collect();
    while let Some((i, j)) = find_age_conflict(&groups, order) {
        let other = groups.swap_remove(j);
        groups[i].join(other);
    }
    groups.sort_by_key(|group| group.min_sequence);
    groups.into_iter().map(|group| group.tables).collect()
}

/// Tables that will be one run, with one age.
struct AgeGroup {
    tables: Vec<RecoveredTable>,
    /// None if it will be a new one, above all others.
    number: Option<u64>,
    min_sequence: SequenceNumber,
    max_sequence: SequenceNumber,
}

impl AgeGroup {
    fn new(piece: RecoveredTable) -> AgeGroup {
        let (number, oldest, newest) = (Some(piece.file.number), piece.min_sequence, piece.max_sequence);
        AgeGroup { tables: vec![piece], number, min_sequence: oldest, max_sequence: newest }
    }

    fn join(&mut self, other: AgeGroup) {
        self.tables.extend(other.tables);
        self.number = None;
        self.min_sequence = self.min_sequence.min(other.min_sequence);
        self.max_sequence = self.max_sequence.max(other.max_sequence);
    }

    /// True if the numbers of the two say which one is newer, and say it right.
    fn file_numbers_match_age(&self, other: &AgeGroup) -> bool {
        let by_number = match (self.number, other.number) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            // They will be numbered in the order of their entries.
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

/// Two groups that overlap and whose numbers do not tell their age, the lesser index first.
fn find_age_conflict(groups: &[AgeGroup], order: &InternalComparator) -> Option<(usize, usize)> {
    let pairs = (0..groups.len()).flat_map(|i| (i + 1..groups.len()).map(move |j| (i, j)));
    let mut pairs = pairs.map(|(i, j)| (i, j, &groups[i], &groups[j]));
    pairs.find(|(_, _, a, b)| !a.file_numbers_match_age(b) && a.overlaps(b, order)).map(|(i, j, _, _)| (i, j))
}

/// Splits the tables of one group into as few runs as possible, each of tables that do not overlap, in key order.
pub(super) fn split_into_sorted_runs(
    group: &[RecoveredTable],
    order: &InternalComparator,
) -> Vec<Vec<RecoveredTable>> {
    let mut pieces = group.to_vec();
    pieces.sort_by(|a, b| {
        order
            .compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes())
            .then(b.file.number.cmp(&a.file.number))
    });
    let mut runs: Vec<Vec<RecoveredTable>> = Vec::new();
    for piece in pieces {
        let fits = |run: &&mut Vec<RecoveredTable>| {
            run.last().is_none_or(|last| {
                order.compare(last.file.largest.as_bytes(), piece.file.smallest.as_bytes()).is_lt()
            })
        };
        match runs.iter_mut().find(fits) {
            Some(run) => run.push(piece),
            None => runs.push(vec![piece]),
        }
    }
    runs
}
