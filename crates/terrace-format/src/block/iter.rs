//! Block iterator.
//!
//! ```text
//!   seek    binary search for the last restart point whose key is below the target, then forward
//!   next    decode the entry at the end of the current one
//!   prev    decode forward from the last restart point before the current entry, up to that entry;
//!           keep these entries in the PrevCache, because the next steps back reach them
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
use super::entry_cache::{CachedEntry, KeyBuffer, PrevCache, trailer_if_new_user_key};
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
    key: KeyBuffer,
    /// Number of bytes that the current key shares with the key before.
    shared: usize,
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
            shared: 0,
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

    /// Returns the byte at `distance` bytes after the current entry, if the block has it. A scan
    /// prefetches it.
    #[inline]
    pub fn byte_after(&self, distance: usize) -> Option<&u8> {
        self.entries().get(self.value.end + distance)
    }

    /// Returns the byte at `distance` bytes before the current entry, if the block has it. A
    /// backward scan prefetches it.
    #[inline]
    pub fn byte_before(&self, distance: usize) -> Option<&u8> {
        self.entries().get(self.entry_offset.checked_sub(distance)?)
    }

    /// Moves to the entry at `offset`. The bytes that it shares with the entry before are a prefix
    /// of `target`.
    fn set_position(&mut self, offset: usize, entry: EncodedEntry, target: &[u8]) {
        self.seek_to_offset(offset);
        self.key.replace(0, target, 0..entry.shared);
        self.value = entry.key_delta.end..entry.value_end;
        self.key.replace(entry.shared, self.source.block_contents().entries(), entry.key_delta);
        self.entry_offset = offset;
        self.shared = entry.shared;
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
        let entries = self.source.block_contents().entries();
        let start = self.value.end;
        if !self.valid || !self.prev_cache.entries.is_empty() {
            return false;
        }
        let Some(entry) = decode_entry(entries, start) else { return false };
        let suffix = &entries[entry.key_delta.clone()];
        if !trailer_if_new_user_key(self.key.as_bytes(), entry.shared, suffix).is_some_and(is_visible) {
            return false;
        }
        self.value = entry.key_delta.end..entry.value_end;
        self.entry_offset = start;
        self.shared = entry.shared;
        self.is_new_user_key = true;
        self.key.replace(entry.shared, entries, entry.key_delta);
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
        if self.prev_cache.entries.len() < 2 {
            self.fill_prev_cache();
        }
        let Some(before) =
            self.prev_cache.entries.last().filter(|before| self.is_new_user_key && before.is_new_user_key)
        else {
            return false;
        };
        let suffix = &self.entries()[before.entry.key_delta.clone()];
        suffix.last_chunk().is_some_and(|trailer| is_visible(u64::from_le_bytes(*trailer))) && self.pop_prev()
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
        if !self.is_new_user_key && self.prev_cache.entries.is_empty() {
            self.fill_prev_cache();
        }
        self.is_new_user_key && is_visible(key::trailer(self.key.as_bytes()))
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

    /// Fills the cache from the last restart point before the cached entries, of which there is at
    /// most one. Returns false if there is no such restart point, or if an entry is damaged.
    fn fill_prev_cache(&mut self) -> bool {
        let cached = self.prev_cache.entries.first().cloned();
        let end = cached.as_ref().map_or(self.entry_offset, |cached| cached.offset);
        let Some(start) = self.restart_before(end) else { return false };
        let filled = self.prev_cache.fill(self.source.block_contents(), start, end);
        let previous = self.prev_cache.key.as_bytes();
        let previous_user_key = key::user_key(previous);
        match cached {
            Some(cached) => {
                // The cached entry is at a restart point, so its encoded key is complete.
                let user_key = key::user_key(&self.entries()[cached.entry.key_delta.clone()]);
                let is_new_user_key = filled && previous_user_key < user_key;
                if !filled {
                    self.prev_cache.entries.clear();
                }
                self.prev_cache.entries.push(CachedEntry { is_new_user_key, ..cached });
                filled
            }
            None => {
                // In a damaged block, the current key may come from other entries than the cached
                // ones.
                let key = self.key.as_bytes();
                let fits = filled && previous.get(..self.shared) == Some(&key[..self.shared]);
                self.is_new_user_key = fits && previous_user_key < key::user_key(key);
                if !fits {
                    self.prev_cache.entries.clear();
                }
                fits
            }
        }
    }

    /// Moves to the last cached entry. Returns false if the cache is empty.
    #[inline]
    fn pop_prev(&mut self) -> bool {
        let Some(CachedEntry { offset, entry, is_new_user_key }) = self.prev_cache.entries.pop() else {
            return false;
        };
        let shared = self.shared;
        match shared.checked_sub(entry.shared) {
            Some(known) => {
                let suffix = entry.key_delta.start + known..entry.key_delta.end;
                self.key.len = shared;
                self.key.replace(shared, self.source.block_contents().entries(), suffix);
            }
            None => self.rebuild_prev_key(&entry),
        }
        self.value = entry.key_delta.end..entry.value_end;
        self.entry_offset = offset;
        self.shared = entry.shared;
        self.is_new_user_key = is_new_user_key;
        true
    }

    /// Rebuilds the key of `entry`, which shares more bytes with its predecessor than the current
    /// key shares with `entry`. The shared bytes come from earlier cached entries.
    fn rebuild_prev_key(&mut self, entry: &EncodedEntry) {
        let entries = self.source.block_contents().entries();
        let shared = self.shared;
        self.key.resize(entry.shared + entry.key_delta.len());
        let mut missing_end = self.key.len;
        for source in
            std::iter::once(entry).chain(self.prev_cache.entries.iter().rev().map(|cached| &cached.entry))
        {
            let start = source.shared.max(shared);
            if start < missing_end {
                let bytes = start - source.shared..missing_end - source.shared;
                self.key.bytes[start..missing_end].copy_from_slice(&entries[source.key_delta.clone()][bytes]);
                missing_end = start;
            }
            if missing_end <= shared {
                break;
            }
        }
    }

    /// Makes the iterator invalid and prepares it to parse the entry at `offset`, which has a
    /// complete key.
    fn seek_to_offset(&mut self, offset: usize) {
        self.prev_cache.entries.clear();
        self.key.len = 0;
        self.shared = 0;
        self.value = offset..offset;
        self.valid = false;
    }

    /// Moves to the entry that starts at the end of the current value. Returns false if there is
    /// none, or if it is damaged.
    #[inline]
    fn parse_next_entry(&mut self) -> bool {
        let entries = self.source.block_contents().entries();
        let start = self.value.end;
        self.entry_offset = start;
        self.valid = false;
        self.is_new_user_key = false;
        if start >= entries.len() {
            return false;
        }
        match decode_entry(entries, start).filter(|entry| entry.shared <= self.key.len) {
            Some(entry) => {
                self.value = entry.key_delta.end..entry.value_end;
                self.shared = entry.shared;
                self.key.replace(entry.shared, entries, entry.key_delta);
                self.valid = true;
            }
            None => self.fail(entry_error(entries, start, self.key.len)),
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
        self.seek_to_offset(contents.restart_point(contents.num_restarts.saturating_sub(1)));
        // `fill_prev_cache` decodes up to `entry_offset`.
        self.entry_offset = self.contents().entries_end;
        if self.fill_prev_cache() && self.pop_prev() {
            self.valid = true;
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
        self.prev_cache.entries.clear();
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
        self.key.as_bytes()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.entries()[self.value.clone()]
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid.then(|| (self.key.as_bytes(), self.value()))
    }

    fn status(&self) -> Result<(), DecodeError> {
        self.error.as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }
}
