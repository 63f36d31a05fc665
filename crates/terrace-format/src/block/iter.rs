//! Block iterator.
//!
//! ```text
//!   seek    binary search for the last restart point whose key is below the target, then forward
//!   next    decode the entry at the end of the current one
//!   prev    decode forward from the last restart point before the current entry, up to that entry;
//!           keep these entries with their keys in the PrevCache, because the next steps back reach
//!           them
//! ```
//!
//! [`BlockIter::next_visible_fast`] and [`BlockIter::prev_visible_fast`] step to the newest version
//! of the neighbouring user key in a block of internal keys. They decide from the shared length of
//! two neighbours, without a comparison of whole keys.
//!
//! The block may be hostile: every step moves by at least one entry, stops at an end, or stops with
//! an error. The iterator does not check that the keys rise. If they do not, a seek finds an
//! arbitrary entry.

use std::ops::Range;
use std::sync::Arc;

use super::Block;
use super::contents::{BlockContents, BlockSource, partition_point};
use super::entry::{EncodedEntry, decode_entry, entry_error};
use super::entry_cache::{KeyBuffer, PrevCache, trailer_if_new_user_key};
use super::seek::BlockSeekResult;
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::internal_iterator::InternalIterator;
use crate::key;
use crate::key_order::KeyOrder;

/// Iterator over a block: at an entry, or invalid. A new iterator is invalid.
#[derive(Debug)]
pub struct BlockIter<S = Arc<Block>> {
    source: S,
    order: KeyOrder,
    valid: bool,
    /// Offset of the current entry.
    entry_offset: usize,
    /// Range of the current value. The next entry starts at its end.
    value: Range<usize>,
    /// Current key, unless `prev_cache` has the current entry.
    key: KeyBuffer,
    /// True if the current user key is known to be above the user key of the entry before.
    is_new_user_key: bool,
    error: Option<Box<DecodeError>>,
    prev_cache: PrevCache,
}

impl<S: BlockSource> BlockIter<S> {
    /// Creates an invalid iterator over the block of `source`, whose keys are in `order`.
    pub fn new(source: S, order: impl Into<KeyOrder>) -> BlockIter<S> {
        BlockIter {
            source,
            order: order.into(),
            valid: false,
            entry_offset: 0,
            value: 0..0,
            key: KeyBuffer::default(),
            is_new_user_key: false,
            error: None,
            prev_cache: PrevCache::default(),
        }
    }

    /// Gives access to the source of the block, so that the caller can replace it by another block
    /// with the same order. The iterator becomes invalid and forgets its error.
    pub fn reset(&mut self) -> &mut S {
        self.error = None;
        self.invalidate();
        &mut self.source
    }

    /// Returns the source of the block.
    #[inline]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the contents of the block.
    #[inline]
    pub fn contents(&self) -> BlockContents<'_> {
        self.source.block_contents()
    }

    /// Returns the encoded entries.
    #[inline]
    fn entries(&self) -> &[u8] {
        self.contents().entries()
    }

    /// Makes the iterator invalid.
    pub fn invalidate(&mut self) {
        self.valid = false;
    }

    /// Returns the range of the current value within the block contents. The iterator must be
    /// valid.
    pub fn value_range(&self) -> Range<usize> {
        debug_assert!(self.valid);
        self.value.clone()
    }

    /// Returns the address of the current value, for prefetches. The blocks around a block of a
    /// mapped table are at the addresses around it.
    #[inline]
    pub fn value_address(&self) -> *const u8 {
        self.contents().bytes().as_ptr().wrapping_add(self.value.start)
    }

    /// Moves to the entry at `offset`. The bytes that it shares with the entry before are a prefix
    /// of `target`.
    fn set_position(&mut self, offset: usize, entry: EncodedEntry, target: &[u8]) {
        self.seek_to_offset(offset);
        self.key.replace(0, target, 0..entry.shared);
        self.value = entry.key_delta.end..entry.value_end;
        self.key.replace(entry.shared, self.source.block_contents().bytes(), entry.key_delta);
        self.entry_offset = offset;
        self.valid = true;
        self.is_new_user_key = false;
    }

    /// Moves to the next entry if its user key is greater and `is_visible` accepts its trailer.
    /// Returns true if it moved.
    ///
    /// The order of the block is [`KeyOrder::Internal`]. A result of false says nothing about the
    /// next entry.
    #[inline]
    pub fn next_visible_fast(&mut self, is_visible: impl FnOnce(u64) -> bool) -> bool {
        let contents = self.source.block_contents();
        let entries = contents.entries();
        let start = self.value.end;
        if !self.valid || !self.prev_cache.is_empty() {
            return false;
        }
        let Some(entry) = decode_entry(entries, start) else { return false };
        let suffix = &entries[entry.key_delta.clone()];
        if !trailer_if_new_user_key(self.key.as_bytes(), entry.shared, suffix).is_some_and(is_visible) {
            return false;
        }
        self.value = entry.key_delta.end..entry.value_end;
        self.entry_offset = start;
        self.is_new_user_key = true;
        self.key.replace(entry.shared, contents.bytes(), entry.key_delta);
        true
    }

    /// Moves to the entry before if it is the newest version of a lesser user key and `is_visible`
    /// accepts its trailer. Returns true if it moved.
    ///
    /// The order of the block is [`KeyOrder::Internal`]. A result of false says nothing about the
    /// entry before.
    #[inline]
    pub fn prev_visible_fast(&mut self, is_visible: impl FnOnce(u64) -> bool) -> bool {
        if !self.valid {
            return false;
        }
        let cache = &self.prev_cache;
        if cache.is_near_first() && cache.before().is_none_or(|before| !before.is_new_user_key) {
            // The first cached entry needs the entry before it.
            self.fill_prev_cache();
        }
        let Some(before) = self.prev_cache.before() else { return false };
        let trailer = key::trailer(self.prev_cache.key(before));
        self.is_new_user_key && before.is_new_user_key && is_visible(trailer) && self.pop_prev()
    }

    /// Returns true if the current entry is known to be the newest version of its user key and
    /// `is_visible` accepts its trailer.
    ///
    /// The order of the block is [`KeyOrder::Internal`]. A result of false says nothing about the
    /// entry.
    pub fn is_newest_visible(&mut self, is_visible: impl FnOnce(u64) -> bool) -> bool {
        if !self.valid {
            return false;
        }
        if !self.is_new_user_key && self.prev_cache.is_empty() {
            self.fill_prev_cache();
        }
        self.is_new_user_key && is_visible(key::trailer(self.key()))
    }

    /// Returns the last restart point before `offset`.
    fn restart_before(&self, offset: usize) -> Option<usize> {
        let contents = self.contents();
        let before = partition_point(0..contents.num_restarts, |i| Ok(contents.restart_point(i) < offset));
        before.ok()?.checked_sub(1).map(|last| contents.restart_point(last))
    }

    /// Scans from `start` to the entry that ends at `target`.
    fn scan_to(&mut self, target: usize, start: usize) {
        self.seek_to_offset(start);
        while self.parse_next_entry() && self.value.end < target {}
        if self.valid && self.value.end != target {
            let found = format!("an entry that ends at {}", self.value.end);
            let expected = format!("an end at {target}, where the next one begins");
            self.fail(DecodeError::new(
                DecodeErrorKind::Malformed,
                self.entry_offset as u64,
                found,
                expected,
            ));
        }
    }

    /// Fills the cache from the last restart point before the cached entries, or before the current
    /// entry, up to the current entry. Returns false if there is no such restart point, or if an
    /// entry is damaged.
    #[inline(never)]
    fn fill_prev_cache(&mut self) -> bool {
        let first = self.prev_cache.first_offset().unwrap_or(self.entry_offset);
        let Some(start) = self.restart_before(first) else { return false };
        self.leave_prev_cache();
        self.prev_cache.fill(self.source.block_contents(), start, self.value.end);
        // In a damaged block, the current key may come from other entries.
        let current = self.prev_cache.current().filter(|current| {
            current.offset == self.entry_offset && self.prev_cache.key(current) == self.key.as_bytes()
        });
        match current {
            Some(current) => self.is_new_user_key = current.is_new_user_key,
            None => self.prev_cache.clear(),
        }
        !self.prev_cache.is_empty()
    }

    /// Empties the cache, and keeps the current key.
    #[inline]
    fn leave_prev_cache(&mut self) {
        if let Some(current) = self.prev_cache.current() {
            let key = self.prev_cache.key(current);
            self.key.clear();
            self.key.replace(0, key, 0..key.len());
            self.prev_cache.clear();
        }
    }

    /// Moves to the entry before in the cache. Returns false if the cache does not have it.
    #[inline]
    fn pop_prev(&mut self) -> bool {
        if self.prev_cache.before().is_none() {
            return false;
        }
        self.prev_cache.pop();
        self.show_cached()
    }

    /// Moves to the last entry of the cache. Returns false if the cache is empty.
    #[inline]
    fn show_cached(&mut self) -> bool {
        let Some(current) = self.prev_cache.current() else { return false };
        self.value = current.value.clone();
        self.entry_offset = current.offset;
        self.is_new_user_key = current.is_new_user_key;
        self.valid = true;
        true
    }

    /// Makes the iterator invalid and prepares it to parse the entry at `offset`, which has a
    /// complete key.
    fn seek_to_offset(&mut self, offset: usize) {
        self.prev_cache.clear();
        self.key.clear();
        self.value = offset..offset;
        self.valid = false;
    }

    /// Moves to the entry that starts at the end of the current value. Returns false if there is
    /// none, or if it is damaged.
    #[inline]
    fn parse_next_entry(&mut self) -> bool {
        let contents = self.source.block_contents();
        let entries = contents.entries();
        let start = self.value.end;
        self.entry_offset = start;
        self.valid = false;
        self.is_new_user_key = false;
        if start >= entries.len() {
            return false;
        }
        match decode_entry(entries, start).filter(|entry| entry.shared <= self.key.len()) {
            Some(entry) => {
                self.value = entry.key_delta.end..entry.value_end;
                self.key.replace(entry.shared, contents.bytes(), entry.key_delta);
                self.valid = true;
            }
            None => self.fail(entry_error(entries, start, self.key.len())),
        }
        self.valid
    }

    #[cold]
    fn fail(&mut self, error: DecodeError) {
        self.valid = false;
        self.error.get_or_insert_with(|| Box::new(error));
    }
}

impl<S: BlockSource> InternalIterator for BlockIter<S> {
    type Error = DecodeError;

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) {
        self.seek_to_offset(self.contents().restart_point(0));
        self.parse_next_entry();
    }

    fn seek_to_last(&mut self) {
        let contents = self.contents();
        let start = contents.restart_point(contents.num_restarts.saturating_sub(1));
        self.seek_to_offset(start);
        let contents = self.source.block_contents();
        if self.prev_cache.fill(contents, start, contents.entries_end) && self.show_cached() {
            return;
        }
        while self.parse_next_entry() && self.value.end < self.contents().entries_end {}
    }

    fn seek(&mut self, target: &[u8]) {
        if let KeyOrder::Internal = self.order {
            let start = self.source.search_start(target);
            match start.and_then(|start| self.contents().seek_position(start, target)) {
                Ok(BlockSeekResult::AtEntry(offset, entry, _)) => {
                    return self.set_position(offset, entry, target);
                }
                Ok(BlockSeekResult::PastEnd) => return self.seek_to_offset(self.contents().entries_end),
                Ok(BlockSeekResult::NeedsIterator) => {}
                Err(error) => return self.fail(error),
            }
        }
        let contents = self.contents();
        match contents.last_restart_below(0..contents.num_restarts, &self.order, target) {
            Ok(offset) => self.seek_to_offset(offset),
            Err(error) => return self.fail(error),
        }
        while self.parse_next_entry() && self.order.compare(self.key.as_bytes(), target).is_lt() {}
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid);
        self.leave_prev_cache();
        self.parse_next_entry();
    }

    fn prev(&mut self) {
        debug_assert!(self.valid);
        if self.pop_prev() || self.fill_prev_cache() && self.pop_prev() {
            return;
        }
        // The current entry is the first one, or the block is damaged.
        let current = self.entry_offset;
        match self.restart_before(current) {
            Some(start) => self.scan_to(current, start),
            None => self.valid = false,
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        match self.prev_cache.current() {
            Some(current) => self.prev_cache.key(current),
            None => self.key.as_bytes(),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.entries()[self.value.clone()]
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid.then(|| (self.key(), self.value()))
    }

    fn status(&self) -> Result<(), DecodeError> {
        self.error.as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }
}
