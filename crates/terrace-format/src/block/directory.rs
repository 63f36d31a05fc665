//! A head and a place for every entry of a block that is searched often.
//!
//! ```text
//!   entries   mail/1009 | 17 | 23 | mail/1108 | ...       of each what it adds to the one before
//!   heads     "009"  "017"  "023"  "108"                  u64 each, behind the prefix of all keys
//!   places    0      31     54     77                     u16 each
//! ```
//!
//! Both stand in one piece of memory, so that who waits for the heads waits for no more.
//!
//! A search goes over the heads, and then looks at the entries that have the head of its target: one of them, nearly
//! always. It may begin there in the middle of an interval, because the entry before has a lesser head than the target
//! and than the entry: what these two share then stands within the prefix and the bytes of a head, and the target, which
//! is between them, has it too.

use super::Block;
use super::iter::decode;
use crate::key;
use crate::order::{Few, common_prefix, first_like, head};

/// Of a block of internal keys in the order of their bytes.
#[derive(Debug)]
pub(super) struct Directory {
    /// What all keys begin with.
    prefix: Few<u8, 23>,
    entries: usize,
    /// The heads, and behind them the places, four in a number, the first the least of it.
    table: Box<[u64]>,
}

/// Places in a number of the table.
const PLACES: usize = size_of::<u64>() / size_of::<u16>();

impl Directory {
    /// None if the block is damaged, odd, or larger than places can tell.
    pub(super) fn new(block: &Block) -> Option<Directory> {
        u16::try_from(block.entries_end).ok()?;
        let first = key::user_key(block.restart_key(0).ok()?);
        let last = key::user_key(block.restart_key(block.restarts.checked_sub(1)?).ok()?);
        let shared = common_prefix(first, last);
        match Directory::behind(block, &first[..shared])? {
            Ok(directory) => Some(directory),
            // The entries behind the last restart point have less in common.
            Err(fewer) => Directory::behind(block, &first[..fewer])?.ok(),
        }
    }

    /// With the heads behind `prefix`; or how many bytes of that all keys begin with, if it is not all of it.
    fn behind(block: &Block, prefix: &[u8]) -> Option<Result<Directory, usize>> {
        let entries = block.entries();
        // By the usual interval, and entries of some bytes.
        let guess = (block.restarts * 16 * 5 / 4).min(entries.len() / 16);
        let (mut heads, mut places) = (Vec::with_capacity(guess), Vec::with_capacity(guess));
        let (mut at, mut before, mut newest, mut fewest) = (block.restart(0), 0, 0, prefix.len());
        while at < entries.len() {
            let entry = decode(entries, at)?;
            let rest = &entries[entry.rest_of_key.clone()];
            let length = (entry.shared + rest.len()).checked_sub(key::TRAILER_SIZE)?;
            if entry.shared > before || entry.shared > length {
                return None; // it shares bytes of a number
            }
            let more = &rest[..length - entry.shared];
            newest = match entry.shared.checked_sub(prefix.len()) {
                Some(kept @ 0..8) => newest & !(u64::MAX >> (8 * kept)) | head(more) >> (8 * kept),
                Some(_) => newest,
                None => {
                    let wanted = &prefix[entry.shared..];
                    more.strip_prefix(wanted).map(head).unwrap_or_else(|| {
                        fewest = fewest.min(entry.shared + common_prefix(more, wanted));
                        0
                    })
                }
            };
            heads.push(newest);
            places.push(at as u64);
            (before, at) = (length, entry.value_end);
        }
        if fewest < prefix.len() {
            return Some(Err(fewest));
        }
        let entries = heads.len();
        heads.extend(places.chunks(PLACES).map(|few| few.iter().rev().fold(0, |all, &at| all << 16 | at)));
        Some(Ok(Directory { prefix: Few::new(prefix.iter().copied()), entries, table: heads.into() }))
    }

    /// The bytes of memory that it takes, about.
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.table)
    }

    /// The first entry that may not be below `target`, if there is one: where it begins.
    #[inline]
    pub(super) fn find(&self, target: &[u8]) -> Option<usize> {
        let (heads, places) = self.table.split_at_checked(self.entries)?;
        let first = first_like(&self.prefix, heads, key::user_key(target));
        let few = places.get(first / PLACES).filter(|_| first < self.entries)?;
        Some(usize::from((few >> (16 * (first % PLACES))) as u16))
    }
}
