//! Decoded index of an open table: the separators and the handles of the data blocks.
//!
//! The index block is decoded once, so that a search reads an array of heads and rarely a key. A
//! damaged entry ends the index. Gets and iterators that come to that place return an error.

use std::path::Path;

use terrace_env::prefetch;
use terrace_format::block::{Block, BlockIter};
use terrace_format::key_order::{ApproxRange, KeyHeads, KeyOrder};
use terrace_format::table::BlockHandle;
use terrace_format::{DecodeError, DecodeErrorKind};

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

pub(crate) struct IndexReader {
    order: KeyOrder,
    /// Heads of all separators but the last one. The last separator is as short as possible, so it
    /// may share no prefix with the others.
    heads: Option<KeyHeads>,
    /// Separators, one after another. `key_ends` holds the end of each.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// Handles of the blocks. [`INVALID_HANDLE`] replaces a handle that cannot be decoded.
    handles: Vec<BlockHandle>,
    decode_error: Option<DecodeError>,
}

/// Block handle that is outside of any file.
const INVALID_HANDLE: BlockHandle = BlockHandle { offset: u64::MAX, size: u64::MAX };

/// Number of bytes of heads near the target that are prefetched.
const PREFETCH_HEADS_BYTES: usize = 128;

/// Maximum size of the decoded separators relative to the index block, which stores only their
/// differences. The usual restart intervals stay below it.
const KEY_BYTES_PER_BLOCK_BYTE: usize = 16;
/// Size of the decoded separators in bytes that every index may have, even a small one.
const KEY_BYTES_LIMIT_MIN: usize = 1 << 20;

impl IndexReader {
    /// Decodes the index block of a table whose keys are in `order`.
    ///
    /// An error means that there is no memory. Damage is an error of the methods that meet it.
    pub(crate) fn new(block: Block, order: KeyOrder) -> std::result::Result<IndexReader, DecodeError> {
        let max_key_bytes = block.memory_usage() * KEY_BYTES_PER_BLOCK_BYTE;
        let max_key_bytes = max_key_bytes.max(KEY_BYTES_LIMIT_MIN).min(u32::MAX as usize);
        let mut entries = BlockIter::new(Arc::new(block), order.clone());
        let mut index = IndexReader {
            order,
            heads: None,
            keys: vec![],
            key_ends: vec![],
            handles: vec![],
            decode_error: None,
        };
        entries.seek_to_first();
        while entries.valid() {
            let key = entries.key();
            if index.keys.len() + key.len() > max_key_bytes {
                index.decode_error = Some(DecodeError::new(
                    DecodeErrorKind::OutOfBounds,
                    0,
                    format!("index keys of more than {max_key_bytes} bytes"),
                    format!("at most {max_key_bytes}"),
                ));
                break;
            }
            if index.keys.try_reserve(key.len()).is_err() {
                let found = format!("no memory for {} bytes", index.keys.len() + key.len());
                return Err(DecodeError::new(DecodeErrorKind::OutOfMemory, 0, found, ""));
            }
            index.keys.extend_from_slice(key);
            index.key_ends.push(index.keys.len() as u32);
            index
                .handles
                .push(BlockHandle::decode(entries.value()).map_or(INVALID_HANDLE, |(handle, _)| handle));
            entries.next();
        }
        index.decode_error = index.decode_error.or_else(|| entries.status().err());
        index.keys.shrink_to_fit();
        index.key_ends.shrink_to_fit();
        index.handles.shrink_to_fit();
        let all_but_last = 0..index.len().saturating_sub(1);
        index.heads = KeyHeads::new(&index.order, all_but_last.map(|i| index.key(i)));
        Ok(index)
    }

    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns the size of the heap memory in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let heads = self.heads.as_ref().map_or(0, KeyHeads::heap_bytes);
        let key_ends = self.key_ends.capacity() * size_of::<u32>();
        let handles = self.handles.capacity() * size_of::<BlockHandle>();
        heads + self.keys.capacity() + key_ends + handles
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.key_ends[previous] as usize);
        &self.keys[start..self.key_ends[index] as usize]
    }

    /// Returns the separators before and after the keys of block `index`, if bytes decide the order
    /// of the keys. The first block has no separator before it.
    pub(crate) fn separators(&self, index: usize) -> Option<(Option<&[u8]>, &[u8])> {
        let is_bytewise = matches!(self.order, KeyOrder::Internal) && index < self.len();
        is_bytewise.then(|| (index.checked_sub(1).map(|before| self.key(before)), self.key(index)))
    }

    /// Returns at most `most` separators at even distances. The last separator is left out, because
    /// it is no key of the table.
    pub(crate) fn sample_separators(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        let samples_end = self.len().saturating_sub(1);
        let step = samples_end.div_ceil(most.max(1)).max(1);
        (step - 1..samples_end).step_by(step).map(|index| self.key(index))
    }

    /// Returns the range of entries that may contain `target`. The search reads only memory that is
    /// nearly always in the processor's cache.
    #[inline]
    pub(crate) fn approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
        Some(self.heads.as_ref()?.approx_range(&self.order, target))
    }

    /// Prefetches the heads that [`IndexReader::find_in_range`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, range: &ApproxRange) {
        if let Some(heads) = &self.heads {
            let group = heads.heads_in(range);
            prefetch(group.as_ptr(), size_of_val(group).min(PREFETCH_HEADS_BYTES));
        }
    }

    /// Returns the index of the block that holds the first entry not below `target`, or the number
    /// of blocks if there is none.
    pub(crate) fn find(&self, target: &[u8]) -> usize {
        self.find_in_range(target, self.approx_range(target).as_ref())
    }

    /// Returns the same as [`IndexReader::find`], for a target in the range that
    /// [`IndexReader::approx_range`] returned.
    #[inline]
    pub(crate) fn find_in_range(&self, target: &[u8], range: Option<&ApproxRange>) -> usize {
        let last = self.len().saturating_sub(1);
        let candidates = match (&self.heads, range) {
            (Some(heads), Some(range)) => heads.candidates_in(&self.order, range),
            _ => 0..last,
        };
        let is_below = |index: usize| self.order.compare(self.key(index), target).is_lt();
        let mut low = candidates.start;
        let mut high = candidates.end;
        while low < high {
            let middle = low + (high - low) / 2;
            if is_below(middle) { low = middle + 1 } else { high = middle }
        }
        if low == last && low < self.len() && is_below(low) { self.len() } else { low }
    }

    /// Returns the handle of block `index`.
    pub(crate) fn block_handle(&self, index: usize, path: &Path) -> Result<BlockHandle> {
        match self.handles[index] {
            INVALID_HANDLE => {
                let key = self.key(index).escape_ascii();
                Err(Error::corruption(path, None, format!("index entry '{key}': invalid block handle")))
            }
            handle => Ok(handle),
        }
    }

    /// Returns an error if the index block is damaged, so that blocks may be missing.
    pub(crate) fn check_complete(&self, path: &Path) -> Result<()> {
        let Some(error) = &self.decode_error else { return Ok(()) };
        Err(Error::corruption(path, None, format!("index block: {error}")))
    }
}
