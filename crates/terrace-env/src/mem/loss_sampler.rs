//! Which of many pending pieces arrive: one decision after the other, in an order that a seed repeats.

use super::profiles::PersistedPieces;
use crate::random::{Random, SeededRandom};

/// Decides about pieces as they are asked about.
pub(super) struct LossSampler {
    persisted: PersistedPieces,
    random: SeededRandom,
    /// The pieces asked about so far.
    decided: usize,
}

impl LossSampler {
    pub(super) fn new(arrives: PersistedPieces, seed: u64) -> LossSampler {
        LossSampler { persisted: arrives, random: SeededRandom::new(seed), decided: 0 }
    }

    /// True if the seed decides: then order is free, too.
    pub(super) fn is_random(&self) -> bool {
        self.persisted == PersistedPieces::Random
    }

    /// Whether the next piece arrives.
    pub(super) fn next_persists(&mut self) -> bool {
        let piece = self.decided;
        self.decided += 1;
        match self.persisted {
            PersistedPieces::None => false,
            PersistedPieces::All => true,
            PersistedPieces::AllBut(missing) => piece != missing,
            PersistedPieces::Only(there) => piece == there,
            PersistedPieces::First(count) => piece < count,
            PersistedPieces::Random => self.uniform(2) == 0,
        }
    }

    /// How many of the next `count` pieces, which come in order, arrive: up to the first that does not.
    pub(super) fn persisted_prefix_len(&mut self, count: usize) -> usize {
        if self.is_random() {
            return self.uniform(count + 1);
        }
        let taken = (0..count).take_while(|_| self.next_persists()).count();
        self.decided += (count - taken).saturating_sub(1);
        taken
    }

    /// Which of the `last + 1` moments of the next piece arrives.
    pub(super) fn persisted_page_version(&mut self, last: usize) -> usize {
        if self.is_random() {
            return self.uniform(last + 1);
        }
        if self.next_persists() { last } else { 0 }
    }

    pub(super) fn uniform(&self, bound: usize) -> usize {
        self.random.uniform(bound as u64) as usize
    }

    /// Any order, each as likely as every other.
    pub(super) fn shuffle<T>(&self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.uniform(i + 1));
        }
    }

    pub(super) fn random_bytes(&self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.random.next_u64().to_le_bytes());
        words.take(len).collect()
    }
}
