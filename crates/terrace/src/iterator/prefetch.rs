//! Prefetch hints of the DB iterator: the block bytes that a scan reaches a few steps later.
//!
//! Hardware prefetchers follow a scan only up to the next page boundary (4 KiB), and a block is
//! about as long as a page.

use terrace_env::prefetch;

use crate::table::DataBlockIter;

/// Bytes between the current entry and the prefetched bytes of a forward scan.
const PREFETCH_FORWARD_DISTANCE: usize = 640;

/// Bytes between the current entry and the prefetched bytes of a backward scan. The distance is
/// longer than forward because a backward step decodes all entries from a restart point.
const PREFETCH_BACKWARD_DISTANCE: usize = 2048;

/// Bytes that each step prefetches.
const PREFETCH_STEP_BYTES: usize = 128;

/// Prefetches the bytes that a forward scan reaches next. In a mapped table, these may be in the
/// next block.
#[inline]
pub(super) fn prefetch_forward(block: &DataBlockIter) {
    prefetch(block.value_address().wrapping_add(PREFETCH_FORWARD_DISTANCE), PREFETCH_STEP_BYTES);
}

/// Prefetches the bytes that a backward scan reaches next. In a mapped table, these may be in the
/// block before.
#[inline]
pub(super) fn prefetch_backward(block: &DataBlockIter) {
    prefetch(block.value_address().wrapping_sub(PREFETCH_BACKWARD_DISTANCE), PREFETCH_STEP_BYTES);
}
