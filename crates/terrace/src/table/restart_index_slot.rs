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
