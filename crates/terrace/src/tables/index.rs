//! The index of an open table, decoded: where each data block is, and the keys that lead there.
//!
//! Read as a whole once, so that a search touches an array of heads and, seldom, a key. A broken entry ends what can be
//! read: look-ups and walks that come there say so.

use std::path::Path;

use terrace_env::fetch_ahead;
use terrace_format::Flaw;
use terrace_format::block::{Block, BlockIter};
use terrace_format::order::{Heads, Near, Order};
use terrace_format::table::BlockHandle;

use crate::error::{Error, Result};
use crate::sync::Arc;

pub(crate) struct Index {
    order: Order,
    /// Of all separators but the last, which need not have anything in common with the others: it is as short as can be.
    heads: Option<Heads>,
    /// The separators, one behind the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<u32>,
    /// [`BROKEN`] where it can't be read.
    handles: Vec<BlockHandle>,
    flaw: Option<Flaw>,
}

/// Lies in no file.
const BROKEN: BlockHandle = BlockHandle { offset: u64::MAX, size: u64::MAX };

/// Of the heads near a target so much is fetched, in bytes.
const FETCHED: usize = 128;

/// Whole keys may take so many times the bytes of the block, in which keys that share much take little: as much as it
/// takes for the usual restart intervals. And this much in any case.
const KEYS_PER_BLOCK: usize = 16;
const KEYS_LEAST: usize = 1 << 20;

impl Index {
    /// From the index block of a table in `order`.
    pub(crate) fn new(block: Block, order: Order) -> Index {
        let most = (block.size() * KEYS_PER_BLOCK).max(KEYS_LEAST).min(u32::MAX as usize);
        let mut entries = BlockIter::new(Arc::new(block), order.clone());
        let mut index = Index { order, heads: None, keys: vec![], ends: vec![], handles: vec![], flaw: None };
        entries.seek_to_first();
        while entries.valid() {
            let key = entries.key();
            if index.keys.len() + key.len() > most {
                let found = format!("separators of more than {most} bytes");
                index.flaw = Some(Flaw::new(terrace_format::FlawKind::OutOfBounds, 0, found, "fewer"));
                break;
            }
            index.keys.extend_from_slice(key);
            index.ends.push(index.keys.len() as u32);
            index.handles.push(BlockHandle::decode(entries.value()).map_or(BROKEN, |(handle, _)| handle));
            entries.next();
        }
        index.flaw = index.flaw.or_else(|| entries.flaw().cloned());
        index.keys.shrink_to_fit();
        index.ends.shrink_to_fit();
        index.handles.shrink_to_fit();
        let most = index.len().saturating_sub(1);
        index.heads = Heads::new(&index.order, (0..most).map(|at| index.key(at)));
        index
    }

    /// How many blocks it leads to.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The bytes of memory that it takes beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let heads = self.heads.as_ref().map_or(0, Heads::bytes);
        let (ends, handles) = (self.ends.capacity() * size_of::<u32>(), self.handles.capacity());
        heads + self.keys.capacity() + ends + handles * size_of::<BlockHandle>()
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.keys[start..self.ends[at] as usize]
    }

    /// At most `most` of the separators, evenly apart. The last one is not among them: it is no key of the table.
    pub(crate) fn sample(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        let inner = self.len().saturating_sub(1);
        let step = inner.div_ceil(most.max(1)).max(1);
        (step - 1..inner).step_by(step).map(|at| self.key(at))
    }

    /// About where `target` is: found by what is nearly always in the processor's caches.
    #[inline]
    pub(crate) fn near(&self, target: &[u8]) -> Option<Near> {
        let near = self.heads.as_ref()?.near(&self.order, target);
        Some(near)
    }

    /// Has that fetched which [`Index::find_near`] will look at.
    #[inline]
    pub(crate) fn fetch(&self, near: &Near) {
        if let Some(heads) = &self.heads {
            let group = heads.at(near);
            fetch_ahead(group.as_ptr(), size_of_val(group).min(FETCHED));
        }
    }

    /// The block in which the first entry that is not below `target` is, if it is in any; else their number.
    pub(crate) fn find(&self, target: &[u8]) -> usize {
        self.find_near(target, self.near(target).as_ref())
    }

    /// [`Index::find`], of a target of which [`Index::near`] said that it is `near`.
    #[inline]
    pub(crate) fn find_near(&self, target: &[u8], near: Option<&Near>) -> usize {
        let last = self.len().saturating_sub(1);
        let open = match (&self.heads, near) {
            (Some(heads), Some(near)) => heads.like_near(&self.order, near),
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
    pub(crate) fn handle(&self, at: usize, path: &Path) -> Result<BlockHandle> {
        match self.handles[at] {
            BROKEN => {
                let key = self.key(at).escape_ascii();
                Err(Error::corruption(path, None, format!("index entry '{key}': no place of a block")))
            }
            handle => Ok(handle),
        }
    }

    /// Fails if there may be more blocks than it leads to.
    pub(crate) fn check_end(&self, path: &Path) -> Result<()> {
        let Some(flaw) = &self.flaw else { return Ok(()) };
        Err(Error::corruption(path, None, format!("index block: {flaw}")))
    }
}
