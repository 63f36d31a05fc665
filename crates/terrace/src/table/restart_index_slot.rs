//! Slot for the restart index of one uncompressed block, which readers publish once and search
//! often.
//!
//! ```text
//!   word     0                          1 to 15
//!   +--------+---------------------------------+
//!   | state  | restart index                   |   one cache line
//!   +--------+---------------------------------+
//!   state    0: not verified    u32::MAX: verified, without an index    otherwise: offset + 1
//! ```
//!
//! A slot that says *verified* is published after the check of the checksum. Two threads may verify
//! the same block at the same time: they store equal words. The words differ only if another
//! program changes the file meanwhile, and then every search still checks its bounds.

use terrace_format::block::{RESTART_INDEX_WORDS, RestartIndex};
use terrace_sync::mutant;

use crate::sync::{AtomicU32, Ordering};

const NOT_VERIFIED: u32 = 0;
const VERIFIED_WITHOUT_INDEX: u32 = u32::MAX;

/// Slot of one block.
#[repr(align(64))]
pub(crate) struct RestartIndexSlot {
    /// State of the block. The Release store in `publish` follows the stores of the words, and the
    /// Acquire load in `load` precedes their loads.
    state: AtomicU32,
    words: [AtomicU32; RESTART_INDEX_WORDS],
}

/// Uncompressed block whose checksum was verified since the open of the table.
pub(crate) enum VerifiedBlock {
    /// Offset in the file and restart index of the block.
    Indexed(u32, RestartIndex),
    /// Block with an offset beyond 4 GiB, a size beyond 64 KiB, or keys whose heads do not differ.
    NotIndexed,
}

impl RestartIndexSlot {
    pub(crate) fn new() -> RestartIndexSlot {
        let words = std::array::from_fn(|_| AtomicU32::new(0));
        RestartIndexSlot { state: AtomicU32::new(NOT_VERIFIED), words }
    }

    /// Publishes the block at `offset` of the file as verified.
    pub(crate) fn publish(&self, offset: u64, index: Option<&RestartIndex>) {
        let state = u32::try_from(offset).ok().and_then(|offset| offset.checked_add(1));
        let (state, index) = match (state, index) {
            (Some(state), Some(index)) if state != VERIFIED_WITHOUT_INDEX => (state, index),
            _ => return self.state.store(VERIFIED_WITHOUT_INDEX, Ordering::Release),
        };
        if mutant!(BlockVerifiedBeforeItsIndex) {
            self.state.store(state, Ordering::Release);
        }
        for (word, &value) in self.words.iter().zip(index.words()) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the Acquire load in `load`: a reader that sees the state sees all words.
        self.state.store(state, Ordering::Release);
    }

    /// Returns the block, if a thread has verified it.
    #[inline]
    pub(crate) fn load(&self) -> Option<VerifiedBlock> {
        // Pairs with the Release stores in `publish`.
        match self.state.load(Ordering::Acquire) {
            NOT_VERIFIED => None,
            VERIFIED_WITHOUT_INDEX => Some(VerifiedBlock::NotIndexed),
            state => {
                let words = std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
                Some(VerifiedBlock::Indexed(state - 1, RestartIndex::from_words(words)))
            }
        }
    }

    /// Returns the address of the slot, for a prefetch.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const RestartIndexSlot {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(slot: &RestartIndexSlot) -> Option<Option<(u32, RestartIndex)>> {
        slot.load().map(|block| match block {
            VerifiedBlock::Indexed(offset, index) => Some((offset, index)),
            VerifiedBlock::NotIndexed => None,
        })
    }

    #[test]
    fn fills_one_cache_line() {
        assert_eq!((size_of::<RestartIndexSlot>(), align_of::<RestartIndexSlot>()), (64, 64));
    }

    #[test]
    fn published_blocks_are_loaded() {
        let words = std::array::from_fn(|i| 0x1000_0000 * i as u32);
        let index = RestartIndex::from_words(words);
        // Offsets from 4 GiB - 2 on do not fit the state.
        let last = u64::from(u32::MAX) - 2;
        for offset in [0, 1, 4096, last, last + 1, last + 2, last + 3, u64::MAX] {
            let slot = RestartIndexSlot::new();
            assert!(slot.load().is_none());
            slot.publish(offset, Some(&index));
            let found = loaded(&slot).expect("published");
            let found = found.map(|(offset, index)| (u64::from(offset), *index.words()));
            assert_eq!(found, (offset <= last).then_some((offset, words)), "offset {offset}");
        }
        let slot = RestartIndexSlot::new();
        slot.publish(7, None);
        assert!(loaded(&slot).is_some_and(|block| block.is_none()));
    }
}
