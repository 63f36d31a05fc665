//! Several sorted runs as one.
//!
//! Keys of equal rank come from the run that was given first. Most steps stay in the run of the last one: that is so if it
//! is still before the runner-up, the best of the others, which stand where they stood.

use terrace_format::block::BlockIter;
use terrace_format::comparator::Comparator;
use terrace_format::key::InternalComparator;
use terrace_sync::mutant;

use super::ChildIter;
use crate::error::Result;
use crate::internal_iterator::InternalIterator;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Every run stands at its first entry that is not before the current one.
    Forward,
    /// Every run stands at its last entry that is not behind the current one.
    Backward,
}

/// A merge of runs.
pub(crate) struct MergingIter {
    /// Of the keys that it merges.
    pub(super) comparator: InternalComparator,
    children: Vec<ChildIter>,
    current: Option<usize>,
    /// The best of the other valid runs.
    runner_up: Option<usize>,
    direction: Direction,
}

impl MergingIter {
    pub(crate) fn new(comparator: InternalComparator, runs: Vec<ChildIter>) -> MergingIter {
        MergingIter {
            comparator,
            children: runs,
            current: None,
            runner_up: None,
            direction: Direction::Forward,
        }
    }

    /// The walk over the block that the current run is in, if it is one over tables. Who moves it from an entry to another says so
    /// by [`MergingIter::on_current_moved`], unless no other run has an entry that comes before that.
    #[inline]
    pub(crate) fn block_iter(&mut self) -> Option<&mut BlockIter> {
        match &mut self.children[self.current?] {
            ChildIter::Level(run) => run.block_iter(),
            ChildIter::Memtable(_) => None,
        }
    }

    /// True if there is one run only.
    #[inline]
    pub(crate) fn has_single_child(&self) -> bool {
        self.children.len() == 1
    }

    /// True if the current run is one over tables, of several in the order of bytes: of what the others have next, it is worth
    /// knowing more.
    #[inline]
    pub(crate) fn can_bound_other_runs(&self) -> bool {
        let is_in_tables = |i: usize| matches!(self.children[i], ChildIter::Level(_));
        !self.has_single_child() && self.comparator.is_bytewise() && self.current.is_some_and(is_in_tables)
    }

    /// True if the current run is the first one, and a memtable.
    #[inline]
    pub(crate) fn is_in_newest_memtable(&self) -> bool {
        self.current == Some(0) && matches!(self.children[0], ChildIter::Memtable(_))
    }

    /// The best key of all other runs, if there is any, in the direction of the last step or search.
    #[inline]
    pub(crate) fn runner_up_key(&self) -> Option<&[u8]> {
        self.runner_up.map(|i| self.children[i].key())
    }

    #[inline]
    pub(crate) fn is_direction(&self, direction: Direction) -> bool {
        self.direction == direction
    }

    /// The current run was moved on in the direction of the last step or search.
    pub(crate) fn on_current_moved(&mut self) {
        if self.current.is_some_and(|current| !self.is_still_first(current)) {
            self.find_current();
        }
    }

    /// True if run `a` comes before run `b` in the direction given. Both are valid.
    #[inline]
    fn precedes(&self, a: usize, b: usize) -> bool {
        let order = self.comparator.compare(self.children[a].key(), self.children[b].key());
        match self.direction {
            _ if order.is_eq() => a < b,
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        }
    }

    /// True if run `current`, which moved, is still before all others.
    #[inline]
    fn is_still_first(&self, current: usize) -> bool {
        self.children[current].valid() && self.runner_up.is_none_or(|other| self.precedes(current, other))
    }

    /// Finds the valid run whose entry is before all others in the direction given, and the next best.
    fn find_current(&mut self) {
        (self.current, self.runner_up) = (None, None);
        for i in (0..self.children.len()).filter(|&i| self.children[i].valid()) {
            match (self.current, self.runner_up) {
                (None, _) => self.current = Some(i),
                (Some(best), _) if self.precedes(i, best) => {
                    (self.current, self.runner_up) = (Some(i), Some(best));
                }
                (_, Some(second)) if !self.precedes(i, second) => {}
                _ => self.runner_up = Some(i),
            }
        }
    }

    /// Makes every other run agree with a new direction.
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
        let Some(current) = self.current else { return };
        let turned = self.direction != direction;
        if turned {
            self.switch_direction(current, direction);
        }
        let run = &mut self.children[current];
        match direction {
            Direction::Forward => run.next(),
            Direction::Backward => run.prev(),
        }
        // A turn moved the others.
        if turned || !self.is_still_first(current) {
            self.find_current();
        }
    }
}

impl InternalIterator for MergingIter {
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
            // Each search waits for memory, some times over. So they wait together. (Other orders may be dear to ask twice.)
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
