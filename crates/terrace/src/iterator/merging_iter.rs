//! Merging iterator: several sorted runs as one.
//!
//! Of equal keys, the entry of the run with the lowest index comes first. Most steps stay in the
//! current run: its next entry is still before the runner-up, which is the best entry of the other
//! runs. Such a step makes one comparison.

use terrace_format::comparator::Comparator;
use terrace_format::key::{self, InternalComparator, SequenceNumber};
use terrace_sync::mutant;

use super::LevelIter;
use crate::error::{Error, Result};
use crate::internal_iterator::{InternalIterator, delegate_iterator};
use crate::memtable::BTreeCursor;
use crate::table::DataBlockIter;

/// Iterator over one sorted run. It is an enum, so that a step makes no virtual call.
// An iterator has few runs, and a box would add a memory access to every step.
#[allow(clippy::large_enum_variant)]
pub(crate) enum ChildIter {
    Memtable(BTreeCursor),
    Level(LevelIter),
}

impl ChildIter {
    /// Prefetches the index entries that a seek of `target` reads first.
    fn prefetch_index(&mut self, target: &[u8]) {
        if let ChildIter::Level(run) = self {
            run.prefetch_index(target);
        }
    }

    /// Prefetches the block that a seek of `target` reads second.
    fn prefetch_block(&self, target: &[u8]) {
        if let ChildIter::Level(run) = self {
            run.prefetch_block(target);
        }
    }
}

impl InternalIterator for ChildIter {
    type Error = Error;

    delegate_iterator! {
        iter in [ChildIter::Memtable(iter) | ChildIter::Level(iter)];
        #[inline]
        fn valid;
        fn seek_to_first;
        fn seek_to_last;
        fn seek;
        #[inline]
        fn next;
        #[inline]
        fn prev;
        #[inline]
        fn key;
        #[inline]
        fn value;
        #[inline]
        fn entry;
        fn status;
    }
}

/// Direction of the last move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Every run is at its first entry that is not before the current entry.
    Forward,
    /// Every run is at its last entry that is not after the current entry.
    Backward,
}

/// Iterator over the entries of several sorted runs in one order.
pub(crate) struct MergingIter {
    /// Order of the internal keys of all runs.
    pub(super) comparator: InternalComparator,
    children: Vec<ChildIter>,
    /// Index of the run with the current entry.
    current: Option<usize>,
    /// Index of the best of the other valid runs.
    runner_up: Option<usize>,
    direction: Direction,
}

impl MergingIter {
    /// Creates an invalid iterator over `children`, whose keys are in the order of `comparator`.
    pub(crate) fn new(comparator: InternalComparator, children: Vec<ChildIter>) -> MergingIter {
        MergingIter { comparator, children, current: None, runner_up: None, direction: Direction::Forward }
    }

    /// Returns the iterator over the current block if the current run consists of tables.
    ///
    /// A caller that moves the block iterator to another entry must call
    /// [`MergingIter::on_current_moved`] afterwards, unless no other run has an entry before the
    /// new one.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut DataBlockIter> {
        match &mut self.children[self.current?] {
            ChildIter::Level(run) => run.block_iter(),
            ChildIter::Memtable(_) => None,
        }
    }

    /// Forgets the errors of all runs. The iterator is invalid afterwards.
    pub(crate) fn forget_errors(&mut self) {
        for child in &mut self.children {
            if let ChildIter::Level(run) = child {
                run.forget_errors();
            }
        }
        self.current = None;
        self.runner_up = None;
    }

    /// Returns true if there is only one run.
    #[inline]
    pub(crate) fn has_single_child(&self) -> bool {
        self.children.len() == 1
    }

    /// Returns true if a bound of the other runs can be useful: the comparator is bytewise, there
    /// are several runs, and the current run consists of tables.
    #[inline]
    pub(crate) fn can_bound_other_runs(&self) -> bool {
        !self.has_single_child()
            && self.comparator.is_bytewise()
            && self.current.is_some_and(|current| matches!(self.children[current], ChildIter::Level(_)))
    }

    /// Returns true if the current run is the newest memtable.
    #[inline]
    pub(crate) fn is_in_newest_memtable(&self) -> bool {
        self.current == Some(0) && matches!(self.children[0], ChildIter::Memtable(_))
    }

    /// Returns the best key of the other runs, if there is one.
    #[inline]
    pub(crate) fn runner_up_key(&self) -> Option<&[u8]> {
        self.runner_up.map(|i| self.children[i].key())
    }

    /// Returns true if the last move was in `direction`.
    #[inline]
    pub(crate) fn is_direction(&self, direction: Direction) -> bool {
        self.direction == direction
    }

    /// Compares the current user key with `user_key`. The iterator must be valid.
    #[inline]
    pub(super) fn compare_user_key(&self, user_key: &[u8]) -> std::cmp::Ordering {
        self.comparator.compare_user_keys(key::user_key(self.key()), user_key)
    }

    /// Finds the current run again after the caller moved the block iterator of the current run in
    /// the direction of the last move.
    pub(crate) fn on_current_moved(&mut self) {
        if self.current.is_some_and(|current| !self.is_still_first(current)) {
            self.promote_runner_up();
        }
    }

    /// Returns true if run `a` is before run `b` in the direction of the last move. Both runs are
    /// valid.
    #[inline]
    fn precedes(&self, a: usize, b: usize) -> bool {
        let order = self.comparator.compare(self.children[a].key(), self.children[b].key());
        match self.direction {
            _ if order.is_eq() => a < b,
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        }
    }

    /// Returns true if the run `current`, which moved, is still before all other runs.
    #[inline]
    fn is_still_first(&self, current: usize) -> bool {
        self.children[current].valid() && self.runner_up.is_none_or(|other| self.precedes(current, other))
    }

    /// Finds the valid run that is before all others in the direction of the last move, and the
    /// runner-up.
    fn find_current(&mut self) {
        self.current = None;
        self.runner_up = None;
        for i in (0..self.children.len()).filter(|&i| self.children[i].valid()) {
            match (self.current, self.runner_up) {
                (None, _) => self.current = Some(i),
                (Some(best), _) if self.precedes(i, best) => {
                    self.current = Some(i);
                    self.runner_up = Some(best);
                }
                (_, Some(second)) if !self.precedes(i, second) => {}
                _ => self.runner_up = Some(i),
            }
        }
    }

    /// Moves every other run to the position that the new `direction` requires.
    #[cold]
    fn switch_direction(&mut self, current: usize, direction: Direction) {
        let key = self.children[current].key().to_vec();
        for (i, run) in self.children.iter_mut().enumerate() {
            if i == current || mutant!(DirectionChangeWithoutReseek) {
                continue;
            }
            run.seek(&key);
            match direction {
                Direction::Forward => {
                    if run.valid() && self.comparator.compare(&key, run.key()).is_eq() {
                        run.next();
                    }
                }
                Direction::Backward if run.valid() => run.prev(),
                Direction::Backward => run.seek_to_last(),
            }
        }
        self.direction = direction;
    }

    #[inline]
    fn step(&mut self, direction: Direction) {
        self.move_current(direction, |run| match direction {
            Direction::Forward => run.next(),
            Direction::Backward => run.prev(),
        });
    }

    /// Moves the current run with `move_run`, in `direction`, and finds the new current run.
    #[inline]
    fn move_current(&mut self, direction: Direction, move_run: impl FnOnce(&mut ChildIter)) {
        let Some(current) = self.current else { return };
        let is_switch = self.direction != direction;
        if is_switch {
            self.switch_direction(current, direction);
        }
        move_run(&mut self.children[current]);
        // A switch moves the other runs too.
        if is_switch {
            self.find_current();
        } else if !self.is_still_first(current) {
            self.promote_runner_up();
        }
    }

    /// Makes the runner-up the current run, after the current run has moved beyond it. Finds the
    /// new runner-up.
    fn promote_runner_up(&mut self) {
        self.current = self.runner_up.take();
        let Some(current) = self.current else { return };
        for i in (0..self.children.len()).filter(|&i| i != current && self.children[i].valid()) {
            if self.runner_up.is_none_or(|best| self.precedes(i, best)) {
                self.runner_up = Some(i);
            }
        }
    }

    /// Returns the index of the current run.
    #[inline]
    pub(super) fn current_run(&self) -> Option<usize> {
        self.current
    }

    /// Returns true if the current run is a memtable.
    #[inline]
    pub(super) fn is_in_memtable(&self) -> bool {
        self.current.is_some_and(|current| matches!(self.children[current], ChildIter::Memtable(_)))
    }

    /// Moves the current run forward, beyond all versions of its current user key, `user_key`.
    ///
    /// A run of a damaged table may stay at a version of the key, or move back.
    pub(super) fn skip_user_key(&mut self, user_key: &[u8]) {
        self.move_current(Direction::Forward, |run| {
            match run {
                ChildIter::Memtable(cursor) => cursor.next_user_key(),
                ChildIter::Level(level) => key::with_seek_key(user_key, 0, |target| level.seek(target)),
            }
            if mutant!(ReseekSkipsVisibleVersion) {
                run.next();
            }
        });
    }

    /// Moves the current run forward, beyond the versions of its current user key after `sequence`.
    pub(super) fn skip_newer_versions(&mut self, sequence: SequenceNumber) {
        self.move_current(Direction::Forward, |run| match run {
            ChildIter::Memtable(cursor) => cursor.skip_newer_versions(sequence),
            ChildIter::Level(level) => level.next(),
        });
    }

    /// Moves the current run of tables back to the newest version of its current user key,
    /// `user_key`, that `sequence` sees. The current entry is such a version.
    pub(super) fn seek_newest_version(&mut self, user_key: &[u8], sequence: SequenceNumber) {
        self.move_current(Direction::Backward, |run| {
            key::with_seek_key(user_key, sequence, |target| run.seek(target));
        });
    }

    /// Moves the current run back to the newest version of its current user key that `sequence`
    /// sees, if the run is a memtable. The current entry is such a version, and the last move was
    /// backward. Returns false if the run has not moved.
    #[inline]
    pub(super) fn skip_to_newest_in_memtable(&mut self, sequence: SequenceNumber) -> bool {
        let Some(current) = self.current else { return false };
        let ChildIter::Memtable(cursor) = &mut self.children[current] else { return false };
        let has_moved = cursor.skip_to_newest_version(sequence);
        if has_moved && !self.is_still_first(current) {
            self.promote_runner_up();
        }
        has_moved
    }

    /// Moves the current run back. A memtable moves beyond all newer versions of its current user
    /// key.
    #[inline]
    pub(super) fn prev_user_key_of_memtable(&mut self) {
        self.move_current(Direction::Backward, |run| match run {
            ChildIter::Memtable(cursor) => cursor.prev_user_key(),
            ChildIter::Level(level) => level.prev(),
        });
    }
}

impl InternalIterator for MergingIter {
    type Error = Error;

    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_to_first(&mut self) {
        self.children.iter_mut().for_each(ChildIter::seek_to_first);
        self.direction = Direction::Forward;
        self.find_current();
    }

    fn seek_to_last(&mut self) {
        self.children.iter_mut().for_each(ChildIter::seek_to_last);
        self.direction = Direction::Backward;
        self.find_current();
    }

    fn seek(&mut self, target: &[u8]) {
        if self.children.len() > 1 && self.comparator.is_bytewise() {
            // Each seek waits for memory several times. The prefetches let all runs wait at the
            // same time. They repeat comparisons, which are cheap only in the bytewise order.
            self.children.iter_mut().for_each(|run| run.prefetch_index(target));
            self.children.iter().for_each(|run| run.prefetch_block(target));
        }
        self.children.iter_mut().for_each(|run| run.seek(target));
        self.direction = Direction::Forward;
        self.find_current();
    }

    #[inline]
    fn next(&mut self) {
        self.step(Direction::Forward);
    }

    #[inline]
    fn prev(&mut self) {
        self.step(Direction::Backward);
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current.map_or(&[], |i| self.children[i].key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current.map_or(&[], |i| self.children[i].value())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.children[self.current?].entry()
    }

    fn status(&self) -> Result<()> {
        self.children.iter().try_for_each(ChildIter::status)
    }
}
