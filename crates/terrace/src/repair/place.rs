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
use terrace_format::key::{InternalComparator, InternalKey, Sequence};

use super::piece::{self, Piece};

/// When two tables overlap.
#[derive(Debug, Clone, Copy)]
pub(super) enum Overlap {
    /// Both may have versions of one key.
    UserKeys,
    /// Their ranges of versions meet. That they don't is all that a manifest promises of a level.
    InternalKeys,
}

/// Groups tables that overlap, directly or through others. Groups are in key order and do not overlap.
///
pub(super) fn apart(mut pieces: Vec<Piece>, order: &InternalComparator, overlap: Overlap) -> Vec<Vec<Piece>> {
    pieces.sort_by(|a, b| order.compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes()));
    let joins = |end: &InternalKey, begin: &InternalKey| match overlap {
        Overlap::UserKeys => order.user().compare(end.user_key(), begin.user_key()).is_ge(),
        Overlap::InternalKeys => order.compare(end.as_bytes(), begin.as_bytes()).is_ge(),
    };
    let mut groups: Vec<Vec<Piece>> = Vec::new();
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
pub(super) fn by_age(pieces: Vec<Piece>, order: &InternalComparator) -> Vec<Vec<Piece>> {
    let mut groups: Vec<Aged> = pieces.into_iter().map(Aged::new).collect();
    while let Some((i, j)) = conflict(&groups, order) {
        let other = groups.swap_remove(j);
        groups[i].join(other);
    }
    groups.sort_by_key(|group| group.oldest);
    groups.into_iter().map(|group| group.pieces).collect()
}

/// Tables that will be one run, with one age.
struct Aged {
    pieces: Vec<Piece>,
    /// None if it will be a new one, above all others.
    number: Option<u64>,
    oldest: Sequence,
    newest: Sequence,
}

impl Aged {
    fn new(piece: Piece) -> Aged {
        let (number, oldest, newest) = (Some(piece.file.number), piece.oldest, piece.newest);
        Aged { pieces: vec![piece], number, oldest, newest }
    }

    fn join(&mut self, other: Aged) {
        self.pieces.extend(other.pieces);
        self.number = None;
        self.oldest = self.oldest.min(other.oldest);
        self.newest = self.newest.max(other.newest);
    }

    /// True if the numbers of the two say which one is newer, and say it right.
    fn in_order(&self, other: &Aged) -> bool {
        let by_number = match (self.number, other.number) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            // They will be numbered in the order of their entries.
            (None, None) => self.oldest.cmp(&other.oldest),
        };
        match by_number {
            Ordering::Less => self.newest < other.oldest,
            _ => other.newest < self.oldest,
        }
    }

    fn overlaps(&self, other: &Aged, order: &InternalComparator) -> bool {
        self.pieces.iter().any(|a| other.pieces.iter().any(|b| piece::overlap(&a.file, &b.file, order)))
    }
}

/// Two groups that overlap and whose numbers do not tell their age, the lesser index first.
fn conflict(groups: &[Aged], order: &InternalComparator) -> Option<(usize, usize)> {
    let pairs = (0..groups.len()).flat_map(|i| (i + 1..groups.len()).map(move |j| (i, j)));
    let mut pairs = pairs.map(|(i, j)| (i, j, &groups[i], &groups[j]));
    pairs.find(|(_, _, a, b)| !a.in_order(b) && a.overlaps(b, order)).map(|(i, j, _, _)| (i, j))
}

/// Splits the tables of one group into as few runs as possible, each of tables that do not overlap, in key order.
pub(super) fn runs(group: &[Piece], order: &InternalComparator) -> Vec<Vec<Piece>> {
    let mut pieces = group.to_vec();
    pieces.sort_by(|a, b| {
        order
            .compare(a.file.smallest.as_bytes(), b.file.smallest.as_bytes())
            .then(b.file.number.cmp(&a.file.number))
    });
    let mut runs: Vec<Vec<Piece>> = Vec::new();
    for piece in pieces {
        let fits = |run: &&mut Vec<Piece>| {
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
