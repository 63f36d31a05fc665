//! A head and a place for every entry of a block that is searched often.
//!
//! ```text
//!   entries   mail/1009 | 17 | 23 | mail/1108 | ...       of each what it adds to the one before
//!   heads     "009"  "017"  "023"  "108"                  u64 each, behind the prefix of all keys
//!   places    0      31     54     77                     u16 each
//! ```
//!
//! They stand in front of the contents, in one piece of memory, so that who waits for the one waits for the other.
//!
//! A search goes over the heads, and then looks at the entries that have the head of its target: one of them, nearly
//! always. It may begin there in the middle of an interval, because the entry before has a lesser head than the target
//! and than the entry: what these two share then stands within the prefix and the bytes of a head, and the target, which
//! is between them, has it too.

use super::Block;
use super::iter::decode;
use crate::key;
use crate::order::{common_prefix, first_like, head};

/// Where what is, of a block of internal keys in the order of their bytes. No entries if there is no directory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Directory {
    entries: u16,
    /// Where in the contents a key begins, and with how many bytes, that all keys begin with.
    prefix: u16,
    prefix_len: u16,
    /// In bytes.
    size: u32,
}

/// Bytes of a head, and of a place.
const HEAD: usize = 8;
const PLACE: usize = 2;

/// The heads and the places of the entries of a block.
struct Entries {
    heads: Vec<u64>,
    places: Vec<u16>,
}

impl Directory {
    /// Appends the directory of `block`, which has none, to `bytes`. None if the block is damaged, odd, or larger than places
    /// can tell.
    pub(super) fn write(block: &Block, bytes: &mut Vec<u8>) -> Directory {
        let Some((first, prefix_len, Entries { heads, places })) = Directory::survey(block) else {
            return Directory::default();
        };
        bytes.reserve_exact(heads.len() * (HEAD + PLACE) + HEAD + block.bytes.len());
        let start = bytes.len();
        heads.iter().for_each(|head| bytes.extend_from_slice(&head.to_le_bytes()));
        places.iter().for_each(|place| bytes.extend_from_slice(&place.to_le_bytes()));
        // Each entry takes three bytes at least, and each of them is at a place.
        let (entries, size) = (heads.len() as u16, (bytes.len() - start) as u32);
        Directory { entries, prefix: first, prefix_len, size }
    }

    /// Where the first key is, how much of it all keys begin with, and all entries.
    fn survey(block: &Block) -> Option<(u16, u16, Entries)> {
        u16::try_from(block.entries_end).ok()?;
        let entries = block.entries();
        let first = decode(entries, block.restart(0))?.rest_of_key.start;
        let key = key::user_key(block.restart_key(0).ok()?);
        let last = key::user_key(block.restart_key(block.restarts.checked_sub(1)?).ok()?);
        let shared = common_prefix(key, last);
        let (shared, entries) = match Entries::behind(block, &key[..shared])? {
            Ok(entries) => (shared, entries),
            // Those behind the last restart point have less in common.
            Err(fewer) => (fewer, Entries::behind(block, &key[..fewer])?.ok()?),
        };
        Some((first as u16, shared as u16, entries))
    }

    /// True if there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The bytes of memory that it takes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// The first entry that may not be below `target`, if there is one: where it begins. `bytes` are those of the directory and
    /// behind them the contents.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], target: &[u8]) -> Option<usize> {
        let entries = usize::from(self.entries);
        let (heads, rest) = bytes.split_at_checked(entries * HEAD)?;
        let (places, contents) = rest.split_at_checked(entries * PLACE)?;
        let prefix = contents.get(usize::from(self.prefix)..)?.get(..usize::from(self.prefix_len))?;
        let first = first_like(prefix, heads.as_chunks().0, key::user_key(target));
        places.as_chunks().0.get(first).map(|&place| usize::from(u16::from_le_bytes(place)))
    }
}

impl Entries {
    /// With the heads behind `prefix`; or how many bytes of that all keys begin with, if it is not all of it.
    fn behind(block: &Block, prefix: &[u8]) -> Option<Result<Entries, usize>> {
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
            places.push(at as u16);
            (before, at) = (length, entry.value_end);
        }
        Some(if fewest < prefix.len() { Err(fewest) } else { Ok(Entries { heads, places }) })
    }
}
