//! Looks one key up in a block, without making any key whole.
//!
//! ```text
//!   target     mail/1017
//!   before     mail/1009          has 7 bytes in common with the target, and is below it
//!
//!   next key   shares 8 or more   it differs from the target where the one before did: below it
//!              shares 7 or less   its own bytes are compared with the target's from there on
//! ```

use std::ops::Range;

use super::Block;
use super::iter::{bad_entry, decode};
use crate::flaw::Flaw;
use crate::key;
use crate::order::{Order, common_prefix};

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

impl Block {
    /// Looks up the newest version, at or behind the internal key `target`, of its user key, in a block in the order
    /// [`Order::Internal`].
    pub fn look_up(&self, target: &[u8]) -> Result<Lookup, Flaw> {
        let (entries, user_key) = (self.entries(), key::user_key(target));
        let mut at = self.last_restart_below(&Order::Internal, target)?;
        // How much of the key before is user key, and how much of that is the target's.
        let (mut known, mut before, mut same) = (0, 0, 0);
        while at < entries.len() {
            let entry = decode(entries, at).filter(|entry| entry.shared <= known);
            let entry = entry.ok_or_else(|| bad_entry(entries, at, known))?;
            let rest = &entries[entry.rest_of_key.clone()];
            known = entry.shared + rest.len();
            let Some(length) = known.checked_sub(key::TRAILER_SIZE) else { return Ok(Lookup::Unclear) };
            if entry.shared > same {
                if same >= before || same >= length {
                    // It shares bytes of a number, which say nothing of the user key.
                    return Ok(Lookup::Unclear);
                }
            } else {
                let Some((rest, trailer)) = rest.split_last_chunk() else { return Ok(Lookup::Unclear) };
                let wanted = &user_key[entry.shared..];
                let more = common_prefix(rest, wanted);
                same = entry.shared + more;
                match (rest.get(more), wanted.get(more)) {
                    (None, None) => {
                        let trailer = u64::from_le_bytes(*trailer);
                        if trailer <= key::trailer(target) {
                            return Ok(Lookup::Found {
                                trailer,
                                value: entry.rest_of_key.end..entry.value_end,
                            });
                        }
                    }
                    (Some(_), None) => return Ok(Lookup::Absent),
                    (Some(a), Some(b)) if a > b => return Ok(Lookup::Absent),
                    _ => {}
                }
            }
            (before, at) = (length, entry.value_end);
        }
        Ok(Lookup::Absent)
    }
}
