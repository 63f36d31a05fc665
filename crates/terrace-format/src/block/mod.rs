//! A block: sorted keys and values, each key stored as what it adds to the one before.
//!
//! ```text
//!   block  +-------+-------+-- --+-------+----------+-- --+----------+-------+
//!          | entry | entry | ... | entry | restart  | ... | restart  | count |   u32 each, little-endian
//!          +-------+-------+-- --+-------+----------+-- --+----------+-------+
//!   entry  +--------+----------+-----------+----------------+-------+
//!          | shared | unshared | value len | rest of key    | value |             the three lengths are varint32
//!          +--------+----------+-----------+----------------+-------+
//! ```
//!
//! A restart is the offset of an entry that shares nothing, so that a search can begin there. Data, index and metaindex
//! blocks of tables look like this. What is around a block in a file (compression, checksum) is [`crate::table`]'s.

mod builder;
mod directory;
mod iter;
mod search;

use std::borrow::Cow;
use std::ops::Range;

pub use builder::BlockBuilder;
use directory::{Directory, Survey};
pub use iter::BlockIter;
use iter::{bad_entry, decode};
pub use search::Lookup;

use crate::coding::get_fixed32;
use crate::flaw::{Flaw, FlawKind};
use crate::order::Order;

/// Largest contents that a block copies, in bytes. It takes larger contents over where the caller owns them, and the memory
/// of a larger block is not reused.
pub const COPIED_MAX: usize = 64 << 10;

/// Memory is reused for a block that needs up to an eighth and this many bytes less.
const SLACK: usize = 256;

/// The bytes of a restart point, and of their count.
const U32: usize = 4;

/// The contents of a block, its restart points checked. Entries are checked as they are met.
///
/// What a search has to know of it stands in one line of memory, and all else in one piece, so that who finds it waits twice.
/// The default is an empty one.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Block {
    /// The directory, if it has one, and behind that the contents.
    bytes: Vec<u8>,
    /// Where in the contents the entries end and the restart points begin.
    entries_end: usize,
    /// How many restart points there are. Without any no entry can be reached: the block is empty.
    restarts: usize,
    directory: Directory,
    prepared: bool,
}

impl Block {
    /// Checks the restart points: they rise, and each is the place of an entry.
    pub fn new(contents: Vec<u8>) -> Result<Block, Flaw> {
        let Contents { entries_end, restarts, .. } = Contents::new(&contents)?;
        let directory = Directory::default();
        Ok(Block { bytes: fitted(contents), entries_end, restarts, directory, prepared: false })
    }

    /// As [`Block::new`], of a copy of `contents` unless they are large, in `memory` if that suffices.
    pub fn copied(contents: Cow<'_, [u8]>, memory: Vec<u8>) -> Result<Block, Flaw> {
        let Contents { entries_end, restarts, .. } = Contents::new(&contents)?;
        Ok(Block::made(contents, (entries_end, restarts), None, memory))
    }

    /// As [`Block::copied`], ready for many searches in `order`, the one order that its keys are in: with a directory of about
    /// ten bytes an entry, if it can have one, for as much time as a search or two take.
    pub fn copied_prepared(contents: Cow<'_, [u8]>, order: &Order, memory: Vec<u8>) -> Result<Block, Flaw> {
        let Contents { entries_end, restarts, .. } = Contents::new(&contents)?;
        Ok(Block::made(contents, (entries_end, restarts), Some(order), memory))
    }

    /// The same block, as [`Block::copied_prepared`] makes it.
    pub fn prepared(&self, order: &Order, memory: Vec<u8>) -> Block {
        Block::made(self.contents().into(), (self.entries_end, self.restarts), Some(order), memory)
    }

    /// `prepared_for` an order or for none. The restart points were checked.
    fn made(
        contents: Cow<'_, [u8]>,
        (entries_end, restarts): (usize, usize),
        prepared_for: Option<&Order>,
        memory: Vec<u8>,
    ) -> Block {
        let survey = match prepared_for {
            Some(Order::Internal) => Survey::of(Contents { bytes: &contents, entries_end, restarts }),
            _ => None,
        };
        let directory = survey.as_ref().map_or_else(Directory::default, Survey::directory);
        let bytes = if survey.is_none() && contents.len() > COPIED_MAX {
            fitted(contents.into_owned())
        } else {
            let mut bytes = reuse(memory, directory.size() + contents.len());
            bytes.resize(directory.size(), 0);
            if let Some(survey) = &survey {
                survey.write(&mut bytes);
            }
            bytes.extend_from_slice(&contents);
            bytes
        };
        Block { bytes, entries_end, restarts, directory, prepared: prepared_for.is_some() }
    }

    fn parts(&self) -> Contents<'_> {
        Contents { bytes: self.contents(), entries_end: self.entries_end, restarts: self.restarts }
    }

    /// True if it was made with a directory, or can't have one.
    #[inline]
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// All its bytes.
    #[inline]
    pub fn contents(&self) -> &[u8] {
        &self.bytes[self.directory.size()..]
    }

    /// What the first thing is that a search or a walk looks at.
    pub fn start(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The memory that it was made in.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of memory that it takes.
    pub fn size(&self) -> usize {
        self.bytes.capacity()
    }

    /// Fails unless each restart point is the place of an entry that shares nothing. It is searches that begin there: a
    /// walk over the entries does not see it. Nothing is said of what comes behind a broken entry, which a walk sees.
    pub fn check_searches(&self) -> Result<(), Flaw> {
        if self.entries_end == 0 {
            return Ok(());
        }
        if self.restarts == 0 {
            let found = format!("{} bytes of entries without a restart point", self.entries_end);
            return Err(Flaw::new(FlawKind::Malformed, self.entries_end as u64, found, "one"));
        }
        let mut at = self.restart(0);
        for (i, point) in (0..self.restarts).map(|i| (i, self.restart(i))) {
            while at < point {
                let Some(entry) = decode(self.entries(), at) else { return Ok(()) };
                at = entry.value_end;
            }
            let is_whole = match decode(self.entries(), at) {
                _ if at > point => false,
                Some(entry) => entry.shared == 0,
                None => return Ok(()),
            };
            if !is_whole {
                let place = (self.entries_end + i * U32) as u64;
                let found = format!("restart point {i} at {point}");
                return Err(Flaw::new(
                    FlawKind::Malformed,
                    place,
                    found,
                    "the place of an entry with a whole key",
                ));
            }
        }
        Ok(())
    }

    /// Where the last restart point is whose key is below `target`; or the first, whose key need not be looked at.
    fn last_restart_below(&self, order: &Order, target: &[u8]) -> Result<usize, Flaw> {
        // Counts the points behind the first.
        let open = 0..self.restarts.saturating_sub(1);
        let below = first_not(open, |i| Ok(order.compare(self.restart_key(i + 1)?, target).is_lt()))?;
        Ok(self.restart(below))
    }

    /// The key at restart point `i`.
    fn restart_key(&self, i: usize) -> Result<&[u8], Flaw> {
        self.parts().restart_key(i)
    }

    /// The encoded entries.
    #[inline]
    fn entries(&self) -> &[u8] {
        let start = self.directory.size();
        &self.bytes[start..start + self.entries_end]
    }

    /// The offset of the entry at restart point `i`; the end of the entries if there is no such point.
    fn restart(&self, i: usize) -> usize {
        self.parts().restart(i)
    }
}

/// `bytes` without spare capacity.
fn fitted(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.shrink_to_fit();
    bytes
}

/// Empty memory for `len` bytes: that of `old` if it suffices and is not much larger than needed.
fn reuse(mut old: Vec<u8>, len: usize) -> Vec<u8> {
    if (len..=len + len / 8 + SLACK).contains(&old.capacity()) {
        old.clear();
        return old;
    }
    drop(old);
    Vec::with_capacity(len)
}

/// The contents of a block, wherever they are, and what they are made of.
#[derive(Clone, Copy)]
struct Contents<'a> {
    bytes: &'a [u8],
    entries_end: usize,
    restarts: usize,
}

impl<'a> Contents<'a> {
    /// Checks the restart points.
    fn new(bytes: &'a [u8]) -> Result<Contents<'a>, Flaw> {
        let len = bytes.len();
        let Some(count_at) = len.checked_sub(U32) else {
            return Err(Flaw::truncated(0, "the restart count of a block", len as u64, U32 as u64));
        };
        let restarts = fixed32(bytes, count_at);
        let Some(entries_end) = restarts.checked_mul(U32).and_then(|size| count_at.checked_sub(size)) else {
            let (found, most) = (format!("{restarts} restart points"), count_at / U32);
            return Err(Flaw::new(FlawKind::OutOfBounds, count_at as u64, found, format!("at most {most}")));
        };
        let contents = Contents { bytes, entries_end, restarts };
        contents.check_restarts()?;
        Ok(contents)
    }

    fn check_restarts(self) -> Result<(), Flaw> {
        if self.entries_end == 0 && self.restarts <= 1 && self.restart(0) == 0 {
            return Ok(()); // no entries: a lone restart point has none to point to
        }
        let mut least = 0;
        for i in 0..self.restarts {
            let point = self.restart(i);
            if point < least || point >= self.entries_end {
                let found = format!("restart point {i} at {point}");
                let expected = format!("{least} or more and below {}", self.entries_end);
                return Err(Flaw::new(FlawKind::Order, (self.entries_end + i * U32) as u64, found, expected));
            }
            least = point + 1;
        }
        Ok(())
    }

    fn entries(self) -> &'a [u8] {
        &self.bytes[..self.entries_end]
    }

    fn restart(self, i: usize) -> usize {
        if i < self.restarts { fixed32(self.bytes, self.entries_end + i * U32) } else { self.entries_end }
    }

    fn restart_key(self, i: usize) -> Result<&'a [u8], Flaw> {
        let (entries, at) = (self.entries(), self.restart(i));
        let entry = decode(entries, at).filter(|entry| entry.shared == 0);
        entry.map(|entry| &entries[entry.rest_of_key]).ok_or_else(|| bad_entry(entries, at, 0))
    }
}

/// The first of `range` for which `below` is false, or the end. Stops at an error.
fn first_not(range: Range<usize>, below: impl Fn(usize) -> Result<bool, Flaw>) -> Result<usize, Flaw> {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The number at `at`, which is at least four bytes before the end.
fn fixed32(contents: &[u8], at: usize) -> usize {
    get_fixed32(&contents[at..]).map_or(0, |value| value as usize)
}

#[cfg(test)]
mod tests;
