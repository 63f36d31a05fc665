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
mod iter;
mod search_index;
mod seek;

use std::borrow::Cow;
use std::ops::Range;

pub use builder::BlockBuilder;
pub use iter::BlockIter;
use iter::{decode_entry, entry_error};
use search_index::{SearchIndex, SearchIndexBuilder};
pub use seek::BlockLookup;

use crate::coding::get_fixed32;
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key_order::KeyOrder;

/// Largest contents that a block copies, in bytes. It takes larger contents over where the caller owns them, and the memory
/// of a larger block is not reused.
pub const COPIED_MAX: usize = 64 << 10;

/// Memory is reused for a block that needs up to an eighth and this many bytes less.
const SLACK: usize = 256;

/// The bytes of a restart point, and of their count.
const RESTART_SIZE: usize = 4;

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
    num_restarts: usize,
    search_index: SearchIndex,
    has_search_index: bool,
}

impl Block {
    /// Checks the restart points: they rise, and each is the place of an entry.
    pub fn new(contents: Vec<u8>) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts: restarts, .. } = BlockContents::new(&contents)?;
        let directory = SearchIndex::default();
        Ok(Block {
            bytes: fitted(contents),
            entries_end,
            num_restarts: restarts,
            search_index: directory,
            has_search_index: false,
        })
    }

    /// As [`Block::new`], of a copy of `contents` unless they are large, in `memory` if that suffices.
    pub fn copy_of(contents: Cow<'_, [u8]>, memory: Vec<u8>) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts: restarts, .. } = BlockContents::new(&contents)?;
        Ok(Block::build(contents, (entries_end, restarts), None, memory))
    }

    /// As [`Block::copy_of`], ready for many searches in `order`, the one order that its keys are in: with a directory of about
    /// ten bytes an entry, if it can have one, for as much time as a search or two take.
    pub fn copy_with_search_index(
        contents: Cow<'_, [u8]>,
        order: &KeyOrder,
        memory: Vec<u8>,
    ) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts: restarts, .. } = BlockContents::new(&contents)?;
        Ok(Block::build(contents, (entries_end, restarts), Some(order), memory))
    }

    /// The same block, as [`Block::copy_with_search_index`] makes it.
    pub fn with_search_index(&self, order: &KeyOrder, memory: Vec<u8>) -> Block {
        Block::build(self.contents().into(), (self.entries_end, self.num_restarts), Some(order), memory)
    }

    /// `prepared_for` an order or for none. The restart points were checked.
    fn build(
        contents: Cow<'_, [u8]>,
        (entries_end, restarts): (usize, usize),
        prepared_for: Option<&KeyOrder>,
        memory: Vec<u8>,
    ) -> Block {
        let survey = match prepared_for {
            Some(KeyOrder::Internal) => SearchIndexBuilder::new(BlockContents {
                bytes: &contents,
                entries_end,
                num_restarts: restarts,
            }),
            _ => None,
        };
        let directory = survey.as_ref().map_or_else(SearchIndex::default, SearchIndexBuilder::index);
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
        Block {
            bytes,
            entries_end,
            num_restarts: restarts,
            search_index: directory,
            has_search_index: prepared_for.is_some(),
        }
    }

    fn block_contents(&self) -> BlockContents<'_> {
        BlockContents {
            bytes: self.contents(),
            entries_end: self.entries_end,
            num_restarts: self.num_restarts,
        }
    }

    /// True if it was made with a directory, or can't have one.
    #[inline]
    pub fn has_search_index(&self) -> bool {
        self.has_search_index
    }

    /// All its bytes.
    #[inline]
    pub fn contents(&self) -> &[u8] {
        &self.bytes[self.search_index.size()..]
    }

    /// What the first thing is that a search or a walk looks at.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The memory that it was made in.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of memory that it takes.
    pub fn memory_usage(&self) -> usize {
        self.bytes.capacity()
    }

    /// Fails unless each restart point is the place of an entry that shares nothing. It is searches that begin there: a
    /// walk over the entries does not see it. Nothing is said of what comes behind a broken entry, which a walk sees.
    pub fn verify_restart_points(&self) -> Result<(), DecodeError> {
        if self.entries_end == 0 {
            return Ok(());
        }
        if self.num_restarts == 0 {
            let found = format!("{} bytes of entries without a restart point", self.entries_end);
            return Err(DecodeError::new(DecodeErrorKind::Malformed, self.entries_end as u64, found, "one"));
        }
        let mut at = self.restart_point(0);
        for (i, point) in (0..self.num_restarts).map(|i| (i, self.restart_point(i))) {
            while at < point {
                let Some(entry) = decode_entry(self.entries(), at) else { return Ok(()) };
                at = entry.value_end;
            }
            let is_whole = match decode_entry(self.entries(), at) {
                _ if at > point => false,
                Some(entry) => entry.shared == 0,
                None => return Ok(()),
            };
            if !is_whole {
                let place = (self.entries_end + i * RESTART_SIZE) as u64;
                let found = format!("restart point {i} at {point}");
                return Err(DecodeError::new(
                    DecodeErrorKind::Malformed,
                    place,
                    found,
                    "the place of an entry with a whole key",
                ));
            }
        }
        Ok(())
    }

    /// Where the last restart point is whose key is below `target`; or the first, whose key need not be looked at.
    fn last_restart_below(&self, order: &KeyOrder, target: &[u8]) -> Result<usize, DecodeError> {
        // Counts the points behind the first.
        let open = 0..self.num_restarts.saturating_sub(1);
        let below = partition_point(open, |i| Ok(order.compare(self.restart_key(i + 1)?, target).is_lt()))?;
        Ok(self.restart_point(below))
    }

    /// The key at restart point `i`.
    fn restart_key(&self, i: usize) -> Result<&[u8], DecodeError> {
        self.block_contents().restart_key(i)
    }

    /// The encoded entries.
    #[inline]
    fn entries(&self) -> &[u8] {
        let start = self.search_index.size();
        &self.bytes[start..start + self.entries_end]
    }

    /// The offset of the entry at restart point `i`; the end of the entries if there is no such point.
    fn restart_point(&self, i: usize) -> usize {
        self.block_contents().restart_point(i)
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
struct BlockContents<'a> {
    bytes: &'a [u8],
    entries_end: usize,
    num_restarts: usize,
}

impl<'a> BlockContents<'a> {
    /// Checks the restart points.
    fn new(bytes: &'a [u8]) -> Result<BlockContents<'a>, DecodeError> {
        let len = bytes.len();
        let Some(count_at) = len.checked_sub(RESTART_SIZE) else {
            return Err(DecodeError::truncated(
                0,
                "the restart count of a block",
                len as u64,
                RESTART_SIZE as u64,
            ));
        };
        let restarts = fixed32_at(bytes, count_at);
        let Some(entries_end) =
            restarts.checked_mul(RESTART_SIZE).and_then(|size| count_at.checked_sub(size))
        else {
            let (found, most) = (format!("{restarts} restart points"), count_at / RESTART_SIZE);
            return Err(DecodeError::new(
                DecodeErrorKind::OutOfBounds,
                count_at as u64,
                found,
                format!("at most {most}"),
            ));
        };
        let contents = BlockContents { bytes, entries_end, num_restarts: restarts };
        contents.check_restart_offsets()?;
        Ok(contents)
    }

    fn check_restart_offsets(self) -> Result<(), DecodeError> {
        if self.entries_end == 0 && self.num_restarts <= 1 && self.restart_point(0) == 0 {
            return Ok(()); // no entries: a lone restart point has none to point to
        }
        let mut least = 0;
        for i in 0..self.num_restarts {
            let point = self.restart_point(i);
            if point < least || point >= self.entries_end {
                let found = format!("restart point {i} at {point}");
                let expected = format!("{least} or more and below {}", self.entries_end);
                return Err(DecodeError::new(
                    DecodeErrorKind::OutOfOrder,
                    (self.entries_end + i * RESTART_SIZE) as u64,
                    found,
                    expected,
                ));
            }
            least = point + 1;
        }
        Ok(())
    }

    fn entries(self) -> &'a [u8] {
        &self.bytes[..self.entries_end]
    }

    fn restart_point(self, i: usize) -> usize {
        if i < self.num_restarts {
            fixed32_at(self.bytes, self.entries_end + i * RESTART_SIZE)
        } else {
            self.entries_end
        }
    }

    fn restart_key(self, i: usize) -> Result<&'a [u8], DecodeError> {
        let (entries, at) = (self.entries(), self.restart_point(i));
        let entry = decode_entry(entries, at).filter(|entry| entry.shared == 0);
        entry.map(|entry| &entries[entry.key_delta]).ok_or_else(|| entry_error(entries, at, 0))
    }
}

/// The first of `range` for which `below` is false, or the end. Stops at an error.
fn partition_point(
    range: Range<usize>,
    below: impl Fn(usize) -> Result<bool, DecodeError>,
) -> Result<usize, DecodeError> {
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
fn fixed32_at(contents: &[u8], at: usize) -> usize {
    get_fixed32(&contents[at..]).map_or(0, |value| value as usize)
}

#[cfg(test)]
mod tests;
