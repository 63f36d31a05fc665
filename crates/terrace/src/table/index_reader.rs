//! The index of an open table, decoded: where each data block is, and the keys that lead there.
//!
//! Read as a whole once, so that a search touches an array of heads and, seldom, a key. A broken entry ends what can be
//! read: look-ups and walks that come there say so.

use std::path::Path;

use terrace_env::prefetch;
use terrace_format::DecodeError;
use terrace_format::block::{Block, BlockIter};
use terrace_format::key_order::{ApproxRange, KeyHeads, KeyOrder};
use terrace_format::table::BlockHandle;

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

pub(crate) struct IndexReader {
    order: KeyOrder,
    /// Of all separators but the last, which need not have anything in common with the others: it is as short as can be.
    heads: Option<KeyHeads>,
    /// The separators, one behind the other, and where each ends.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// [`INVALID_HANDLE`] where it can't be read.
    handles: Vec<BlockHandle>,
    decode_error: Option<DecodeError>,
}

/// Lies in no file.
const INVALID_HANDLE: BlockHandle = BlockHandle { offset: u64::MAX, size: u64::MAX };

/// Of the heads near a target so much is fetched, in bytes.
const PREFETCH_HEADS_BYTES: usize = 128;

/// Whole keys may take so many times the bytes of the block, in which keys that share much take little: as much as it
/// takes for the usual restart intervals. And this much in any case.
const KEY_BYTES_PER_BLOCK_BYTE: usize = 16;
const KEY_BYTES_LIMIT_MIN: usize = 1 << 20;

impl IndexReader {
    /// From the index block of a table in `order`.
    pub(crate) fn new(block: Block, order: KeyOrder) -> IndexReader {
        let most =
            (block.memory_usage() * KEY_BYTES_PER_BLOCK_BYTE).max(KEY_BYTES_LIMIT_MIN).min(u32::MAX as usize);
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
            if index.keys.len() + key.len() > most {
                let found = format!("separators of more than {most} bytes");
                index.decode_error =
                    Some(DecodeError::new(terrace_format::DecodeErrorKind::OutOfBounds, 0, found, "fewer"));
                break;
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
        let most = index.len().saturating_sub(1);
        index.heads = KeyHeads::new(&index.order, (0..most).map(|at| index.key(at)));
        index
    }

    /// How many blocks it leads to.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The bytes of memory that it takes beside itself.
    pub(crate) fn memory_usage(&self) -> usize {
        let heads = self.heads.as_ref().map_or(0, KeyHeads::heap_bytes);
        let (ends, handles) = (self.key_ends.capacity() * size_of::<u32>(), self.handles.capacity());
        heads + self.keys.capacity() + ends + handles * size_of::<BlockHandle>()
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.key_ends[before] as usize);
        &self.keys[start..self.key_ends[at] as usize]
    }

    /// At most `most` of the separators, evenly apart. The last one is not among them: it is no key of the table.
    pub(crate) fn sample_separators(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        let inner = self.len().saturating_sub(1);
        let step = inner.div_ceil(most.max(1)).max(1);
        (step - 1..inner).step_by(step).map(|at| self.key(at))
    }

    /// About where `target` is: found by what is nearly always in the processor's caches.
    #[inline]
    pub(crate) fn approx_range(&self, target: &[u8]) -> Option<ApproxRange> {
        let near = self.heads.as_ref()?.approx_range(&self.order, target);
        Some(near)
    }

    /// Has that fetched which [`IndexReader::find_in_range`] will look at.
    #[inline]
    pub(crate) fn prefetch(&self, near: &ApproxRange) {
        if let Some(heads) = &self.heads {
            let group = heads.heads_in(near);
            prefetch(group.as_ptr(), size_of_val(group).min(PREFETCH_HEADS_BYTES));
        }
    }

    /// The block in which the first entry that is not below `target` is, if it is in any; else their number.
    pub(crate) fn find(&self, target: &[u8]) -> usize {
        self.find_in_range(target, self.approx_range(target).as_ref())
    }

    /// [`IndexReader::find`], of a target of which [`IndexReader::approx_range`] said that it is `near`.
    #[inline]
    pub(crate) fn find_in_range(&self, target: &[u8], near: Option<&ApproxRange>) -> usize {
        let last = self.len().saturating_sub(1);
        let open = match (&self.heads, near) {
            (Some(heads), Some(near)) => heads.candidates_in(&self.order, near),
            _ => 0..last,
        };
        let below = |at: usize| self.order.compare(self.key(at), target).is_lt();
        let (mut low, mut high) = (open.start, open.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if below(middle) { low = middle + 1 } else { high = middle }
        }
        if low == last && low < self.len() && below(low) { self.len() } else { low }
    }

    /// Where block `at` is.
    pub(crate) fn block_handle(&self, at: usize, path: &Path) -> Result<BlockHandle> {
        match self.handles[at] {
            INVALID_HANDLE => {
                let key = self.key(at).escape_ascii();
                Err(Error::corruption(path, None, format!("index entry '{key}': no place of a block")))
            }
            handle => Ok(handle),
        }
    }

    /// Fails if there may be more blocks than it leads to.
    pub(crate) fn check_complete(&self, path: &Path) -> Result<()> {
        let Some(flaw) = &self.decode_error else { return Ok(()) };
        Err(Error::corruption(path, None, format!("index block: {flaw}")))
    }
}
