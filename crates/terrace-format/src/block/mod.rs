//! Block: sorted keys and values. Each key is stored as its difference from the key before.
//!
//! ```text
//!   block  +-------+-------+-- --+-------+----------+-- --+----------+-------+
//!          | entry | entry | ... | entry | restart  | ... | restart  | count |  u32, little-endian
//!          +-------+-------+-- --+-------+----------+-- --+----------+-------+
//!   entry  +--------+----------+-----------+----------------+-------+
//!          | shared | unshared | value len | rest of key    | value |  the lengths are varint32
//!          +--------+----------+-----------+----------------+-------+
//! ```
//!
//! A restart point is the offset of an entry that shares no bytes with the key before, so that a
//! search can begin there. Data, index and metaindex blocks of tables have this form. The module
//! [`crate::table`] adds compression and checksum.

mod builder;
mod contents;
mod entry;
mod entry_cache;
mod iter;
mod restart_index;
mod search_index;
mod seek;

use std::borrow::Cow;
use std::sync::Arc;

pub use builder::BlockBuilder;
pub use contents::{BlockContents, BlockSource};
use entry::decode_entry;
pub use iter::BlockIter;
pub use restart_index::{RESTART_INDEX_WORDS, RestartIndex};
use search_index::{SearchIndex, SearchIndexBuilder};
pub use seek::{BlockLookup, SearchStart};

use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key_order::KeyOrder;

/// Maximum size of contents that [`Block`] copies, in bytes. It takes ownership of larger contents,
/// and does not reuse the memory of a larger block.
pub const COPIED_MAX: usize = 64 << 10;

/// Excess capacity that a reused buffer may have, in bytes, in addition to an eighth of the needed
/// size.
const SLACK: usize = 256;

/// Size of a restart point, and of the count of restart points, in bytes.
const RESTART_SIZE: usize = 4;

/// Contents of a block with checked restart points. Iterators and searches check the entries when
/// they reach them.
///
/// The fields that a search needs fill one cache line, and all other bytes are in one allocation. A
/// search of a block thus waits for memory twice. The default is an empty block.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Block {
    /// Search index, if the block has one, and then the contents.
    bytes: Vec<u8>,
    /// Offset within the contents at which the entries end and the restart points begin.
    entries_end: usize,
    /// Number of restart points. Without restart points no entry is reachable, so the block is
    /// empty.
    num_restarts: usize,
    search_index: SearchIndex,
    has_search_index: bool,
}

impl Block {
    /// Creates a block and checks that the restart points rise and lie within the entries.
    pub fn new(contents: Vec<u8>) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts, .. } = BlockContents::new(&contents)?;
        Ok(Block {
            bytes: without_excess_capacity(contents),
            entries_end,
            num_restarts,
            search_index: SearchIndex::default(),
            has_search_index: false,
        })
    }

    /// Creates a block from a copy of `contents`, or from `contents` itself if they are large.
    ///
    /// The copy uses `memory` if its capacity suffices. The checks are those of [`Block::new`].
    pub fn copy_of(contents: Cow<'_, [u8]>, memory: Vec<u8>) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts, .. } = BlockContents::new(&contents)?;
        Block::build(contents, (entries_end, num_restarts), None, memory)
    }

    /// Creates a block like [`Block::copy_of`], with a search index for many searches in `order`.
    ///
    /// All keys of the block are in `order`. The index takes about ten bytes per entry and as much
    /// time as one or two searches. A block whose keys do not permit an index gets none.
    pub fn copy_with_search_index(
        contents: Cow<'_, [u8]>,
        order: &KeyOrder,
        memory: Vec<u8>,
    ) -> Result<Block, DecodeError> {
        let BlockContents { entries_end, num_restarts, .. } = BlockContents::new(&contents)?;
        Block::build(contents, (entries_end, num_restarts), Some(order), memory)
    }

    /// Returns the same block with a search index, as [`Block::copy_with_search_index`] creates it.
    pub fn with_search_index(&self, order: &KeyOrder, memory: Vec<u8>) -> Result<Block, DecodeError> {
        Block::build(self.contents().into(), (self.entries_end, self.num_restarts), Some(order), memory)
    }

    /// Creates a block with a search index for `index_order`, or without one. The caller has
    /// checked the restart points.
    fn build(
        contents: Cow<'_, [u8]>,
        (entries_end, num_restarts): (usize, usize),
        index_order: Option<&KeyOrder>,
        memory: Vec<u8>,
    ) -> Result<Block, DecodeError> {
        let builder = match index_order {
            Some(KeyOrder::Internal) => {
                SearchIndexBuilder::new(BlockContents { bytes: &contents, entries_end, num_restarts })
            }
            _ => None,
        };
        let search_index = builder.as_ref().map_or_else(SearchIndex::default, SearchIndexBuilder::index);
        let bytes = if builder.is_none() && contents.len() > COPIED_MAX {
            without_excess_capacity(into_owned(contents)?)
        } else {
            let mut bytes = reuse(memory, search_index.size() + contents.len())?;
            bytes.resize(search_index.size(), 0);
            if let Some(builder) = &builder {
                builder.write(&mut bytes);
            }
            bytes.extend_from_slice(&contents);
            bytes
        };
        let has_search_index = index_order.is_some();
        Ok(Block { bytes, entries_end, num_restarts, search_index, has_search_index })
    }

    /// Returns the contents of the block with the sizes of its parts.
    #[inline]
    pub fn block_contents(&self) -> BlockContents<'_> {
        BlockContents {
            bytes: self.contents(),
            entries_end: self.entries_end,
            num_restarts: self.num_restarts,
        }
    }

    /// Returns true if the block was built with a search index, or can have none.
    #[inline]
    pub fn has_search_index(&self) -> bool {
        self.has_search_index
    }

    /// Returns the contents of the block.
    #[inline]
    pub fn contents(&self) -> &[u8] {
        &self.bytes[self.search_index.size()..]
    }

    /// Returns the address of the first byte that a search or an iterator reads.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Returns the memory of the block.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the memory use of the block, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.bytes.capacity()
    }

    /// Checks that each restart point is the offset of an entry with a complete key.
    ///
    /// Only searches start at restart points: iteration from the first entry does not notice a
    /// wrong one. The check stops at a damaged entry, which iteration reports.
    pub fn verify_restart_points(&self) -> Result<(), DecodeError> {
        let contents = self.block_contents();
        if self.entries_end == 0 {
            return Ok(());
        }
        if self.num_restarts == 0 {
            let found = format!("{} bytes of entries without a restart point", self.entries_end);
            return Err(DecodeError::new(DecodeErrorKind::Malformed, self.entries_end as u64, found, "one"));
        }
        let mut offset = contents.restart_point(0);
        for (i, point) in (0..self.num_restarts).map(|i| (i, contents.restart_point(i))) {
            while offset < point {
                let Some(entry) = decode_entry(contents.entries(), offset) else { return Ok(()) };
                offset = entry.value_end;
            }
            let has_complete_key = match decode_entry(contents.entries(), offset) {
                _ if offset > point => false,
                Some(entry) => entry.shared == 0,
                None => return Ok(()),
            };
            if !has_complete_key {
                return Err(DecodeError::new(
                    DecodeErrorKind::Malformed,
                    (self.entries_end + i * RESTART_SIZE) as u64,
                    format!("restart point {i} at {point}"),
                    "the offset of an entry with a complete key",
                ));
            }
        }
        Ok(())
    }
}

impl BlockSource for Arc<Block> {
    #[inline]
    fn block_contents(&self) -> BlockContents<'_> {
        Block::block_contents(self)
    }

    #[inline]
    fn search_start(&self, target: &[u8]) -> Result<SearchStart, DecodeError> {
        Block::search_start(self, target)
    }
}

/// Returns `bytes` without excess capacity.
fn without_excess_capacity(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.shrink_to_fit();
    bytes
}

/// Returns an empty buffer for `len` bytes: `old` if its capacity suffices and is not much larger
/// than needed.
fn reuse(mut old: Vec<u8>, len: usize) -> Result<Vec<u8>, DecodeError> {
    if (len..=len + len / 8 + SLACK).contains(&old.capacity()) {
        old.clear();
        return Ok(old);
    }
    drop(old);
    let mut new = Vec::new();
    crate::memory::reserve(&mut new, len)?;
    Ok(new)
}

/// Returns `contents` itself, or a copy if it is borrowed.
fn into_owned(contents: Cow<'_, [u8]>) -> Result<Vec<u8>, DecodeError> {
    match contents {
        Cow::Owned(contents) => Ok(contents),
        Cow::Borrowed(contents) => {
            let mut copy = Vec::new();
            crate::memory::reserve(&mut copy, contents.len())?;
            copy.extend_from_slice(contents);
            Ok(copy)
        }
    }
}

#[cfg(test)]
mod tests;
