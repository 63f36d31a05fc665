//! Loss sampler: decides which of many pending pieces persist, in an order that a seed repeats.

use super::profiles::PersistedPieces;
use crate::random::{Random, SeededRandom};

/// Sampler of pieces. Each call decides the next piece.
pub(super) struct LossSampler {
    persisted: PersistedPieces,
    random: SeededRandom,
    /// Number of decided pieces.
    decided: usize,
}

impl LossSampler {
    pub(super) fn new(persisted: PersistedPieces, seed: u64) -> LossSampler {
        LossSampler { persisted, random: SeededRandom::new(seed), decided: 0 }
    }

    /// Returns true if the seed decides. The order of changes is then random, too.
    pub(super) fn is_random(&self) -> bool {
        self.persisted == PersistedPieces::Random
    }

    /// Returns true if the next piece persists.
    pub(super) fn next_persists(&mut self) -> bool {
        let piece = self.decided;
        self.decided += 1;
        match self.persisted {
            PersistedPieces::None => false,
            PersistedPieces::All => true,
            PersistedPieces::AllBut(lost) => piece != lost,
            PersistedPieces::Only(persisted) => piece == persisted,
            PersistedPieces::First(count) => piece < count,
            PersistedPieces::Random => self.uniform(2) == 0,
        }
    }

    /// Returns how many of the next `count` ordered pieces persist before the first one that does
    /// not.
    pub(super) fn persisted_prefix_len(&mut self, count: usize) -> usize {
        if self.is_random() {
            return self.uniform(count + 1);
        }
        let persisted = (0..count).take_while(|_| self.next_persists()).count();
        self.decided += (count - persisted).saturating_sub(1);
        persisted
    }

    /// Returns which of the `last + 1` versions of the next page persists.
    pub(super) fn persisted_page_version(&mut self, last: usize) -> usize {
        if self.is_random() {
            return self.uniform(last + 1);
        }
        if self.next_persists() { last } else { 0 }
    }

    pub(super) fn uniform(&self, bound: usize) -> usize {
        self.random.uniform(bound as u64) as usize
    }

    /// Shuffles `items` with equal probability of every order.
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
