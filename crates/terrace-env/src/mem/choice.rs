//! Which of many pending pieces arrive: one decision after the other, in an order that a seed repeats.

use super::profiles::Arrives;
use crate::random::{Random, SeededRandom};

/// Decides about pieces as they are asked about.
pub(super) struct Choice {
    arrives: Arrives,
    random: SeededRandom,
    /// The pieces asked about so far.
    asked: usize,
}

impl Choice {
    pub(super) fn new(arrives: Arrives, seed: u64) -> Choice {
        Choice { arrives, random: SeededRandom::new(seed), asked: 0 }
    }

    /// True if the seed decides: then order is free, too.
    pub(super) fn is_free(&self) -> bool {
        self.arrives == Arrives::Some
    }

    /// Whether the next piece arrives.
    pub(super) fn takes(&mut self) -> bool {
        let piece = self.asked;
        self.asked += 1;
        match self.arrives {
            Arrives::None => false,
            Arrives::All => true,
            Arrives::AllBut(missing) => piece != missing,
            Arrives::Only(there) => piece == there,
            Arrives::First(count) => piece < count,
            Arrives::Some => self.below(2) == 0,
        }
    }

    /// How many of the next `count` pieces, which come in order, arrive: up to the first that does not.
    pub(super) fn prefix(&mut self, count: usize) -> usize {
        if self.is_free() {
            return self.below(count + 1);
        }
        let taken = (0..count).take_while(|_| self.takes()).count();
        self.asked += (count - taken).saturating_sub(1);
        taken
    }

    /// Which of the `last + 1` moments of the next piece arrives.
    pub(super) fn moment(&mut self, last: usize) -> usize {
        if self.is_free() {
            return self.below(last + 1);
        }
        if self.takes() { last } else { 0 }
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// Any order, each as likely as every other.
    pub(super) fn shuffle<T>(&self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    pub(super) fn garbage(&self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.random.next_u64().to_le_bytes());
        words.take(len).collect()
    }
}
