//! Several sorted runs as one.
//!
//! Keys of equal rank come from the run that was given first.

use terrace_format::comparator::Comparator;
use terrace_format::key::InternalComparator;
use terrace_mutants::mutant;

use super::Source;
use crate::error::Result;
use crate::walk::InternalIterator;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Every run stands at its first entry that is not before the current one.
    Forward,
    /// Every run stands at its last entry that is not behind the current one.
    Backward,
}

/// A merge of runs.
pub(crate) struct MergeIter {
    comparator: InternalComparator,
    runs: Vec<Source>,
    current: Option<usize>,
    direction: Direction,
}

impl MergeIter {
    pub(crate) fn new(comparator: InternalComparator, runs: Vec<Source>) -> MergeIter {
        MergeIter { comparator, runs, current: None, direction: Direction::Forward }
    }

    /// The valid run whose entry is before all others in the direction given.
    fn choose(&mut self) {
        let before = match self.direction {
            Direction::Forward => std::cmp::Ordering::Less,
            Direction::Backward => std::cmp::Ordering::Greater,
        };
        let mut best: Option<usize> = None;
        for (i, run) in self.runs.iter().enumerate() {
            let closer = |b: usize| self.comparator.compare(run.key(), self.runs[b].key()) == before;
            if run.valid() && best.is_none_or(closer) {
                best = Some(i);
            }
        }
        self.current = best;
    }

    /// Makes every other run agree with a new direction.
    fn turn(&mut self, current: usize, direction: Direction) {
        let key = self.runs[current].key().to_vec();
        for (i, run) in self.runs.iter_mut().enumerate() {
            if i == current || mutant!(TurnWithoutSeek) {
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

    fn step(&mut self, direction: Direction) {
        let Some(current) = self.current else { return };
        if self.direction != direction {
            self.turn(current, direction);
        }
        match direction {
            Direction::Forward => self.runs[current].next(),
            Direction::Backward => self.runs[current].prev(),
        }
        self.choose();
    }
}

impl InternalIterator for MergeIter {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_to_first(&mut self) {
        self.runs.iter_mut().for_each(Source::seek_to_first);
        self.direction = Direction::Forward;
        self.choose();
    }

    fn seek_to_last(&mut self) {
        self.runs.iter_mut().for_each(Source::seek_to_last);
        self.direction = Direction::Backward;
        self.choose();
    }

    fn seek(&mut self, target: &[u8]) {
        self.runs.iter_mut().for_each(|run| run.seek(target));
        self.direction = Direction::Forward;
        self.choose();
    }

    fn next(&mut self) {
        self.step(Direction::Forward);
    }

    fn prev(&mut self) {
        self.step(Direction::Backward);
    }

    fn key(&self) -> &[u8] {
        self.current.map_or(&[], |i| self.runs[i].key())
    }

    fn value(&self) -> &[u8] {
        self.current.map_or(&[], |i| self.runs[i].value())
    }

    fn status(&self) -> Result<()> {
        self.runs.iter().try_for_each(Source::status)
    }
}
