//! Finds one key in a block, without making any key whole.
//!
//! ```text
//!   target     mail/1017
//!   before     mail/1009          has 7 bytes in common with the target, and is below it
//!
//!   next key   shares 8 or more   it differs from the target where the one before did: below it
//!              shares 7 or less   its own bytes are compared with the target's from there on
//! ```
//!
//! So what the entry shares that a search comes to, the target has too, and its key is made of that and the rest.

use std::hint::black_box;
use std::ops::Range;

use super::Block;
use super::iter::{EncodedEntry, decode_entry, entry_error};
use crate::decode_error::DecodeError;
use crate::key;
use crate::key_order::{KeyOrder, common_prefix_len};

/// The bytes that a processor fetches at once.
const CACHE_LINE_SIZE: usize = 64;

/// What a look-up came to.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockLookup {
    /// The newest version at or behind the target: the number behind its user key, and where in the block's contents its
    /// value is.
    Found {
        #[expect(missing_docs)]
        trailer: u64,
        #[expect(missing_docs)]
        value: Range<usize>,
    },
    /// There is no version of the user key at or behind the target.
    NotFound,
    /// Versions of one user key stand here side by side, or the keys are odd: seek it with an iterator.
    NeedsIterator,
}

/// What a search for a place came to.
pub(super) enum BlockSeekResult {
    /// The first entry that is not below the target, where it begins, and the number behind its user key if that is the
    /// target's. It shares with the one before what the target begins with.
    AtEntry(usize, EncodedEntry, Option<u64>),
    /// Behind the last entry.
    PastEnd,
    /// As [`BlockLookup::NeedsIterator`].
    NeedsIterator,
}

impl Block {
    /// Looks up the newest version, at or behind the internal key `target`, of its user key, in a block in the order
    /// [`Order::DisplayInternalKey`].
    pub fn seek_for_get(&self, target: &[u8]) -> Result<BlockLookup, DecodeError> {
        Ok(match self.seek_position(target)? {
            BlockSeekResult::AtEntry(_, entry, Some(trailer)) => {
                BlockLookup::Found { trailer, value: entry.key_delta.end..entry.value_end }
            }
            BlockSeekResult::AtEntry(..) | BlockSeekResult::PastEnd => BlockLookup::NotFound,
            BlockSeekResult::NeedsIterator => BlockLookup::NeedsIterator,
        })
    }

    /// The place of the internal key `target` in a block in the order [`Order::DisplayInternalKey`].
    #[inline]
    pub(super) fn seek_position(&self, target: &[u8]) -> Result<BlockSeekResult, DecodeError> {
        let (entries, user_key) = (self.entries(), key::user_key(target));
        // How much of the key before is user key, and how much of that is the target's: no less than the entry shares.
        let (mut at, mut known, mut before, mut same);
        if !self.search_index.is_empty() {
            let Some(first) = self.search_index.lower_bound(&self.bytes, target) else {
                return Ok(BlockSeekResult::PastEnd);
            };
            (at, known, before, same) = (first, usize::MAX, usize::MAX, usize::MAX);
            // Loads that nobody waits for: the lines of the entry come together, not one when the other says that it is needed.
            for line in [first + CACHE_LINE_SIZE, first + 2 * CACHE_LINE_SIZE] {
                black_box(entries.get(line).copied());
            }
        } else {
            (at, known, before, same) = (self.last_restart_below(&KeyOrder::Internal, target)?, 0, 0, 0);
        }
        while at < entries.len() {
            let entry = decode_entry(entries, at).filter(|entry| entry.shared <= known);
            let entry = entry.ok_or_else(|| entry_error(entries, at, known))?;
            let rest = &entries[entry.key_delta.clone()];
            known = entry.shared + rest.len();
            let Some(length) = known.checked_sub(key::KEY_TRAILER_SIZE) else {
                return Ok(BlockSeekResult::NeedsIterator);
            };
            if entry.shared > same {
                if same >= before || same >= length {
                    // It shares bytes of a number, which say nothing of the user key.
                    return Ok(BlockSeekResult::NeedsIterator);
                }
            } else {
                let Some((rest, trailer)) = rest.split_last_chunk() else {
                    return Ok(BlockSeekResult::NeedsIterator);
                };
                let Some(wanted) = user_key.get(entry.shared..) else {
                    return Ok(BlockSeekResult::NeedsIterator);
                };
                let more = common_prefix_len(rest, wanted);
                same = entry.shared + more;
                match (rest.get(more), wanted.get(more)) {
                    (None, None) => {
                        let trailer = u64::from_le_bytes(*trailer);
                        if trailer <= key::trailer(target) {
                            return Ok(BlockSeekResult::AtEntry(at, entry, Some(trailer)));
                        }
                    }
                    (Some(_), None) => return Ok(BlockSeekResult::AtEntry(at, entry, None)),
                    (Some(a), Some(b)) if a > b => return Ok(BlockSeekResult::AtEntry(at, entry, None)),
                    _ => {}
                }
            }
            (before, at) = (length, entry.value_end);
        }
        Ok(BlockSeekResult::PastEnd)
    }
}
