//! Contents of a block in any memory, and the trait of the owners of such contents.

use std::ops::Range;

use super::RESTART_SIZE;
use super::entry::{decode_entry, entry_error};
use super::seek::SearchStart;
use crate::coding::get_fixed32;
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key_order::KeyOrder;

/// Contents of a block in any memory, with the sizes of its parts.
///
/// Every access checks its bounds, because the bytes of a mapped file can change after their
/// verification.
#[derive(Debug, Clone, Copy)]
pub struct BlockContents<'a> {
    /// Entries, restart points, and their count.
    pub(super) bytes: &'a [u8],
    /// Offset at which the entries end and the restart points begin.
    pub(super) entries_end: usize,
    /// Number of restart points. Without restart points no entry is reachable, so the block is
    /// empty.
    pub(super) num_restarts: usize,
}

/// Owner of the contents of a block, for [`super::BlockIter`].
pub trait BlockSource {
    /// Returns the contents.
    fn block_contents(&self) -> BlockContents<'_>;

    /// Returns the entry at which a search for the internal key `target` begins. The order of the
    /// block is [`KeyOrder::Internal`].
    fn search_start(&self, target: &[u8]) -> Result<SearchStart, DecodeError> {
        self.block_contents().restart_search_start(target)
    }
}

impl<'a> BlockContents<'a> {
    /// Returns the contents in `bytes` after a check of the restart points: they rise and lie
    /// within the entries.
    pub fn new(bytes: &'a [u8]) -> Result<BlockContents<'a>, DecodeError> {
        let contents = BlockContents::of_verified(bytes)?;
        contents.check_restart_offsets()?;
        Ok(contents)
    }

    /// Returns the contents in `bytes`, whose restart points were checked before. Checks only that
    /// the sizes of the parts fit. Other restart points cause wrong results of searches, and
    /// nothing worse.
    pub fn of_verified(bytes: &'a [u8]) -> Result<BlockContents<'a>, DecodeError> {
        let len = bytes.len();
        let Some(count_offset) = len.checked_sub(RESTART_SIZE) else {
            return Err(DecodeError::truncated(
                0,
                "the restart count of a block",
                len as u64,
                RESTART_SIZE as u64,
            ));
        };
        let num_restarts = fixed32_at(bytes, count_offset);
        let Some(entries_end) =
            num_restarts.checked_mul(RESTART_SIZE).and_then(|size| count_offset.checked_sub(size))
        else {
            return Err(DecodeError::new(
                DecodeErrorKind::OutOfBounds,
                count_offset as u64,
                format!("{num_restarts} restart points"),
                format!("at most {}", count_offset / RESTART_SIZE),
            ));
        };
        Ok(BlockContents { bytes, entries_end, num_restarts })
    }

    /// Returns the contents at the start of `bytes`, whose parts have known sizes. The caller has
    /// checked the restart points with [`BlockContents::new`]; other sizes cause wrong results of
    /// searches, and nothing worse.
    #[inline]
    pub fn from_parts(bytes: &'a [u8], entries_end: usize, num_restarts: usize) -> BlockContents<'a> {
        BlockContents { bytes, entries_end, num_restarts }
    }

    /// Returns the size of contents whose parts have these sizes, in bytes.
    #[inline]
    pub fn size(entries_end: usize, num_restarts: usize) -> usize {
        entries_end + (num_restarts + 1) * RESTART_SIZE
    }

    /// Returns all bytes of the contents.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset at which the entries end.
    pub fn entries_end(self) -> usize {
        self.entries_end
    }

    /// Returns the number of restart points.
    pub fn num_restarts(self) -> usize {
        self.num_restarts
    }

    fn check_restart_offsets(self) -> Result<(), DecodeError> {
        if self.entries_end == 0 && self.num_restarts <= 1 && self.restart_point(0) == 0 {
            // A block without entries may have one restart point, as LevelDB writes it.
            return Ok(());
        }
        let mut min = 0;
        for i in 0..self.num_restarts {
            let point = self.restart_point(i);
            if point < min || point >= self.entries_end {
                let found = format!("restart point {i} at {point}");
                let expected = format!("{min} or more and below {}", self.entries_end);
                return Err(DecodeError::new(
                    DecodeErrorKind::OutOfOrder,
                    (self.entries_end + i * RESTART_SIZE) as u64,
                    found,
                    expected,
                ));
            }
            min = point + 1;
        }
        Ok(())
    }

    /// Returns the encoded entries.
    #[inline]
    pub(super) fn entries(self) -> &'a [u8] {
        self.bytes.get(..self.entries_end).unwrap_or_default()
    }

    /// Returns the offset of the entry at restart point `i`, or the end of the entries if there is
    /// no such point.
    pub(super) fn restart_point(self, i: usize) -> usize {
        if i < self.num_restarts {
            fixed32_at(self.bytes, self.entries_end + i * RESTART_SIZE)
        } else {
            self.entries_end
        }
    }

    /// Returns the key at restart point `i`.
    pub(super) fn restart_key(self, i: usize) -> Result<&'a [u8], DecodeError> {
        let entries = self.entries();
        let offset = self.restart_point(i);
        let entry = decode_entry(entries, offset).filter(|entry| entry.shared == 0);
        entry.map(|entry| &entries[entry.key_delta]).ok_or_else(|| entry_error(entries, offset, 0))
    }

    /// Returns the offset of the last of the given restart points whose key is below `target`. If
    /// there is none, returns the first of them without a look at its key.
    pub(super) fn last_restart_below(
        self,
        restarts: Range<usize>,
        order: &KeyOrder,
        target: &[u8],
    ) -> Result<usize, DecodeError> {
        let later_restarts = restarts.start + 1..restarts.end.max(restarts.start + 1);
        let first_at_or_after =
            partition_point(later_restarts, |i| Ok(order.compare(self.restart_key(i)?, target).is_lt()))?;
        Ok(self.restart_point(first_at_or_after - 1))
    }

    /// Returns the start of a search for the internal key `target`, by a binary search of the
    /// restart points. The order of the block is [`KeyOrder::Internal`].
    #[inline]
    pub fn restart_search_start(self, target: &[u8]) -> Result<SearchStart, DecodeError> {
        self.last_restart_below(0..self.num_restarts, &KeyOrder::Internal, target).map(SearchStart::Restart)
    }
}

/// Returns the first index of `range` for which `below` is false, or the end of `range`. Stops at
/// an error.
pub(super) fn partition_point(
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

/// Returns the fixed32 at `offset`, or 0 beyond the end.
fn fixed32_at(contents: &[u8], offset: usize) -> usize {
    contents.get(offset..).and_then(get_fixed32).map_or(0, |value| value as usize)
}
