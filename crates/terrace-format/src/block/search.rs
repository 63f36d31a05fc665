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
use super::iter::{Entry, bad_entry, decode};
use crate::flaw::Flaw;
use crate::key;
use crate::order::{Order, common_prefix};

/// The bytes that a processor fetches at once.
const LINE: usize = 64;

/// What a look-up came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The newest version at or behind the target: the number behind its user key, and where in the block's contents its
    /// value is.
    Found {
        #[expect(missing_docs)]
        trailer: u64,
        #[expect(missing_docs)]
        value: Range<usize>,
    },
    /// There is no version of the user key at or behind the target.
    Absent,
    /// Versions of one user key stand here side by side, or the keys are odd: seek it with an iterator.
    Unclear,
}

/// What a search for a place came to.
pub(super) enum Spot {
    /// The first entry that is not below the target, where it begins, and the number behind its user key if that is the
    /// target's. It shares with the one before what the target begins with.
    At(usize, Entry, Option<u64>),
    /// Behind the last entry.
    End,
    /// As [`Lookup::Unclear`].
    Unclear,
}

impl Block {
    /// Looks up the newest version, at or behind the internal key `target`, of its user key, in a block in the order
    /// [`Order::Internal`].
    pub fn look_up(&self, target: &[u8]) -> Result<Lookup, Flaw> {
        Ok(match self.spot(target)? {
            Spot::At(_, entry, Some(trailer)) => {
                Lookup::Found { trailer, value: entry.rest_of_key.end..entry.value_end }
            }
            Spot::At(..) | Spot::End => Lookup::Absent,
            Spot::Unclear => Lookup::Unclear,
        })
    }

    /// The place of the internal key `target` in a block in the order [`Order::Internal`].
    #[inline]
    pub(super) fn spot(&self, target: &[u8]) -> Result<Spot, Flaw> {
        let (entries, user_key) = (self.entries(), key::user_key(target));
        // How much of the key before is user key, and how much of that is the target's: no less than the entry shares.
        let (mut at, mut known, mut before, mut same);
        if !self.directory.is_empty() {
            let Some(first) = self.directory.find(&self.bytes, target) else { return Ok(Spot::End) };
            (at, known, before, same) = (first, usize::MAX, usize::MAX, usize::MAX);
            // Loads that nobody waits for: the lines of the entry come together, not one when the other says that it is needed.
            for line in [first + LINE, first + 2 * LINE] {
                black_box(entries.get(line).copied());
            }
        } else {
            (at, known, before, same) = (self.last_restart_below(&Order::Internal, target)?, 0, 0, 0);
        }
        while at < entries.len() {
            let entry = decode(entries, at).filter(|entry| entry.shared <= known);
            let entry = entry.ok_or_else(|| bad_entry(entries, at, known))?;
            let rest = &entries[entry.rest_of_key.clone()];
            known = entry.shared + rest.len();
            let Some(length) = known.checked_sub(key::TRAILER_SIZE) else { return Ok(Spot::Unclear) };
            if entry.shared > same {
                if same >= before || same >= length {
                    // It shares bytes of a number, which say nothing of the user key.
                    return Ok(Spot::Unclear);
                }
            } else {
                let Some((rest, trailer)) = rest.split_last_chunk() else { return Ok(Spot::Unclear) };
                let Some(wanted) = user_key.get(entry.shared..) else { return Ok(Spot::Unclear) };
                let more = common_prefix(rest, wanted);
                same = entry.shared + more;
                match (rest.get(more), wanted.get(more)) {
                    (None, None) => {
                        let trailer = u64::from_le_bytes(*trailer);
                        if trailer <= key::trailer(target) {
                            return Ok(Spot::At(at, entry, Some(trailer)));
                        }
                    }
                    (Some(_), None) => return Ok(Spot::At(at, entry, None)),
                    (Some(a), Some(b)) if a > b => return Ok(Spot::At(at, entry, None)),
                    _ => {}
                }
            }
            (before, at) = (length, entry.value_end);
        }
        Ok(Spot::End)
    }
}
