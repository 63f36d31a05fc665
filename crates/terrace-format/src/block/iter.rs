//! Walks and searches a block.
//!
//! ```text
//!   seek    binary search for the last restart point whose key is below the target, then forward from there
//!   next    decode at the end of the current entry
//!   prev    decode forward from the last restart point before the current entry, up to it; remember the entries, which
//!           are those that further steps back come to
//! ```
//!
//! Who walks over a block of internal keys for the newest versions of keys, one of each, asks for that: [`BlockIter::next_visible_fast`]
//! and [`BlockIter::prev_visible_fast`] see it from what neighbours share, and make no key to compare.
//!
//! The block may be hostile: every step either moves on by at least one entry, stops at an end, or stops with a flaw.
//! That the keys rise is not checked here; in a block where they do not, a search finds an arbitrary entry.

use std::ops::Range;
use std::sync::Arc;

use terrace_sync::mutant;

use super::Block;
use super::seek::BlockSeekResult;
use crate::coding::get_varint32;
use crate::decode_error::{DecodeError, DecodeErrorKind};
use crate::key;
use crate::key_order::KeyOrder;

/// A place in a block: at an entry, or invalid. New ones are invalid.
#[derive(Debug)]
pub struct BlockIter {
    block: Arc<Block>,
    order: KeyOrder,
    valid: bool,
    /// Where the current entry begins, and where its value stands; the next entry begins where the value ends.
    entry_offset: usize,
    value: Range<usize>,
    key: KeyBuffer,
    /// How much of the key the entry shares with the one before.
    shared: usize,
    /// The user key here is known to be above that of the entry before.
    is_new_user_key: bool,
    error: Option<Box<DecodeError>>,
    prev_cache: PrevCache,
}

/// A key that changes from the middle on: its bytes, with any behind them.
#[derive(Debug, Default)]
struct KeyBuffer {
    bytes: Vec<u8>,
    len: usize,
}

/// So much is copied at once, whatever is needed of it. In bytes.
const KEY_COPY_CHUNK: usize = 32;

impl KeyBuffer {
    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Puts `source[rest]` in the place of everything behind the first `shared` bytes, of which there are no fewer.
    #[inline]
    fn replace(&mut self, shared: usize, source: &[u8], rest: Range<usize>) {
        debug_assert!(shared <= self.len);
        self.len = shared + rest.len();
        let from = source.get(rest.start..).and_then(<[u8]>::first_chunk::<KEY_COPY_CHUNK>);
        let to = self.bytes.get_mut(shared..).and_then(<[u8]>::first_chunk_mut::<KEY_COPY_CHUNK>);
        match (from, to) {
            (Some(from), Some(to)) if rest.len() <= KEY_COPY_CHUNK => *to = *from,
            _ => self.replace_long(shared, &source[rest]),
        }
    }

    fn replace_long(&mut self, shared: usize, rest: &[u8]) {
        self.resize(self.len);
        self.bytes[shared..self.len].copy_from_slice(rest);
    }

    /// Makes it so long, with any bytes behind those that it had.
    fn resize(&mut self, len: usize) {
        self.len = len;
        if self.bytes.len() < len + KEY_COPY_CHUNK {
            self.bytes.resize(2 * len + 2 * KEY_COPY_CHUNK, 0);
        }
    }
}

/// Entries that a step back passed, up to the one before the current one. Of their keys there is what the block has.
#[derive(Debug, Default)]
struct PrevCache {
    entries: Vec<CachedEntry>,
    /// The key of the last entry, when they were passed.
    key: KeyBuffer,
}

#[derive(Debug, Clone)]
struct CachedEntry {
    offset: usize,
    entry: EncodedEntry,
    /// As [`BlockIter::is_new_user_key`], as far as it is known.
    is_new_user_key: bool,
}

impl PrevCache {
    /// Fills it with the entries from `start` on, where one has its whole key, up to the one at `end`; false if they are
    /// damaged.
    fn fill(&mut self, block: &Block, start: usize, end: usize) -> bool {
        self.entries.clear();
        self.key.len = 0;
        let (entries, mut at) = (block.entries(), start);
        while at < end {
            let Some(entry) = decode_entry(entries, at).filter(|entry| entry.shared <= self.key.len) else {
                return false;
            };
            let above =
                trailer_if_new_user_key(self.key.as_bytes(), entry.shared, &entries[entry.key_delta.clone()])
                    .is_some();
            self.key.replace(entry.shared, entries, entry.key_delta.clone());
            let next = entry.value_end;
            // The first one has none before it here.
            self.entries.push(CachedEntry { offset: at, entry, is_new_user_key: above && at > start });
            at = next;
        }
        at == end
    }
}

/// The number of the internal key that shares so many bytes with `before` and then goes on with `rest`, if its user key is
/// above that of `before`; None too if either has no number.
#[inline]
fn trailer_if_new_user_key(before: &[u8], shared: usize, rest: &[u8]) -> Option<u64> {
    let (more, number) = rest.split_last_chunk::<{ key::KEY_TRAILER_SIZE }>()?;
    let old = before.get(shared..before.len().checked_sub(key::KEY_TRAILER_SIZE)?)?;
    let above = match (old.first(), more.first()) {
        // Nearly always.
        (Some(old), Some(more)) if old != more => old < more,
        _ => old < more,
    };
    above.then_some(u64::from_le_bytes(*number))
}

/// An entry as it is stored. The value follows the rest of the key.
#[derive(Debug, Clone)]
pub(super) struct EncodedEntry {
    pub(super) shared: usize,
    pub(super) key_delta: Range<usize>,
    pub(super) value_end: usize,
}

impl BlockIter {
    /// Over `block`, whose keys rise in `order`.
    pub fn new(block: Arc<Block>, order: impl Into<KeyOrder>) -> BlockIter {
        BlockIter {
            block,
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

    /// Leaves the block, which is given back, for another one in the same order, as if made anew.
    pub fn reset(&mut self, block: Arc<Block>) -> Arc<Block> {
        self.error = None;
        self.invalidate();
        std::mem::replace(&mut self.block, block)
    }

    /// What it walks over.
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// To no entry.
    pub fn invalidate(&mut self) {
        self.valid = false;
    }

    /// True at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key here. Only at an entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        self.key.as_bytes()
    }

    /// The value here. Only at an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.block.entries()[self.value.clone()]
    }

    /// The key and the value here, if there is a here.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid.then(|| (self.key.as_bytes(), self.value()))
    }

    /// Where in the block's contents the value is. Only at an entry.
    pub fn value_range(&self) -> Range<usize> {
        debug_assert!(self.valid);
        self.value.clone()
    }

    /// What is so many bytes behind the entry here, if that is in the block, to have it fetched before a walk comes to it.
    #[inline]
    pub fn byte_after(&self, distance: usize) -> Option<&u8> {
        self.block.entries().get(self.value.end + distance)
    }

    /// What is so many bytes before the entry here.
    #[inline]
    pub fn byte_before(&self, distance: usize) -> Option<&u8> {
        self.block.entries().get(self.entry_offset.checked_sub(distance)?)
    }

    /// The first damage that was met, if any. Places behind it may still be reached by a search.
    pub fn error(&self) -> Option<&DecodeError> {
        self.error.as_deref()
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) {
        self.seek_to_offset(self.block.restart_point(0));
        self.parse_next_entry();
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) {
        self.seek_to_offset(self.block.restart_point(self.block.num_restarts.saturating_sub(1)));
        // As if it came from behind the last entry.
        self.entry_offset = self.block.entries_end;
        if self.fill_prev_cache() && self.pop_prev() {
            self.valid = true;
            return;
        }
        while self.parse_next_entry() && self.value.end < self.block.entries_end {}
    }

    /// To the first entry whose key is `target` or above.
    pub fn seek(&mut self, target: &[u8]) {
        if let KeyOrder::Internal = self.order {
            match self.block.seek_position(target) {
                Ok(BlockSeekResult::AtEntry(at, entry, _)) => return self.set_position(at, entry, target),
                Ok(BlockSeekResult::PastEnd) => return self.seek_to_offset(self.block.entries_end),
                Ok(BlockSeekResult::NeedsIterator) => {}
                Err(flaw) => return self.fail(flaw),
            }
        }
        match self.block.last_restart_below(&self.order, target) {
            Ok(offset) => self.seek_to_offset(offset),
            Err(flaw) => return self.fail(flaw),
        }
        while self.parse_next_entry() && self.order.compare(self.key.as_bytes(), target).is_lt() {}
    }

    /// To the entry at `at`, which shares with the one before what `target` begins with.
    fn set_position(&mut self, at: usize, entry: EncodedEntry, target: &[u8]) {
        self.seek_to_offset(at);
        self.key.replace(0, target, 0..entry.shared);
        self.value = entry.key_delta.end..entry.value_end;
        self.key.replace(entry.shared, self.block.entries(), entry.key_delta);
        (self.entry_offset, self.shared, self.valid, self.is_new_user_key) = (at, entry.shared, true, false);
    }

    /// To the next entry; invalid behind the last. Only at an entry.
    #[inline]
    pub fn next(&mut self) {
        debug_assert!(self.valid);
        self.prev_cache.entries.clear();
        self.parse_next_entry();
    }

    /// To the next entry of a block in the order [`Order::DisplayInternalKey`], if there is one with a greater user key, and `shown`
    /// says yes to its number. Else it stays, and that says nothing of the next entry.
    #[inline]
    pub fn next_visible_fast(&mut self, shown: impl FnOnce(u64) -> bool) -> bool {
        let (entries, start) = (self.block.entries(), self.value.end);
        if !self.valid || !self.prev_cache.entries.is_empty() {
            return false;
        }
        let Some(entry) = decode_entry(entries, start) else { return false };
        let rest = &entries[entry.key_delta.clone()];
        if !trailer_if_new_user_key(self.key.as_bytes(), entry.shared, rest).is_some_and(shown) {
            return false;
        }
        self.value = entry.key_delta.end..entry.value_end;
        (self.entry_offset, self.shared, self.is_new_user_key) = (start, entry.shared, true);
        self.key.replace(entry.shared, entries, entry.key_delta);
        true
    }

    /// To the entry before in a block in the order [`Order::DisplayInternalKey`], if there is one with a lesser user key that is the
    /// newest with it, and `shown` says yes to its number. Else it stays, and that says nothing of the entry before.
    #[inline]
    pub fn prev_visible_fast(&mut self, shown: impl FnOnce(u64) -> bool) -> bool {
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
        let rest = &self.block.entries()[before.entry.key_delta.clone()];
        rest.last_chunk().is_some_and(|number| shown(u64::from_le_bytes(*number))) && self.pop_prev()
    }

    /// True at an entry of a block in the order [`Order::DisplayInternalKey`] that is seen to be the newest with its user key, if
    /// `shown` says yes to its number.
    pub fn is_newest_visible(&mut self, shown: impl FnOnce(u64) -> bool) -> bool {
        if !self.valid {
            return false;
        }
        if !self.is_new_user_key && self.prev_cache.entries.is_empty() {
            self.fill_prev_cache();
        }
        self.is_new_user_key && shown(key::trailer(self.key.as_bytes()))
    }

    /// To the entry before; invalid before the first. Only at an entry.
    pub fn prev(&mut self) {
        debug_assert!(self.valid);
        if self.pop_prev() || self.fill_prev_cache() && self.pop_prev() {
            return;
        }
        // There is none, or it is damaged.
        let current = self.entry_offset;
        match self.restart_before(current) {
            Some(start) => self.scan_to(current, start),
            None => self.valid = false,
        }
    }

    /// The last restart point before the entry at `entry`.
    fn restart_before(&self, entry: usize) -> Option<usize> {
        let before =
            super::partition_point(0..self.block.num_restarts, |i| Ok(self.block.restart_point(i) < entry));
        before.ok()?.checked_sub(1).map(|last| self.block.restart_point(last))
    }

    /// From `start` on to the entry that ends where the one at `target` begins.
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

    /// Remembers the entries from the last restart point on that is before those remembered, of which there are none or
    /// one. False if there are none, or if they are damaged.
    fn fill_prev_cache(&mut self) -> bool {
        let only = self.prev_cache.entries.first().cloned();
        let end = only.as_ref().map_or(self.entry_offset, |only| only.offset);
        let Some(start) = self.restart_before(end) else { return false };
        let filled = self.prev_cache.fill(&self.block, start, end);
        let before = self.prev_cache.key.as_bytes();
        let user_key_before = key::user_key(before);
        match only {
            Some(only) => {
                // It is at a restart point, and so has its whole key.
                let key = key::user_key(&self.block.entries()[only.entry.key_delta.clone()]);
                let above = filled && user_key_before < key;
                if !filled {
                    self.prev_cache.entries.clear();
                }
                self.prev_cache.entries.push(CachedEntry { is_new_user_key: above, ..only });
                filled
            }
            None => {
                // In a damaged block it may have come here by other entries.
                let (key, shared) = (self.key.as_bytes(), self.shared);
                let fits = filled && before.get(..shared) == Some(&key[..shared]);
                self.is_new_user_key = fits && user_key_before < key::user_key(key);
                if !fits {
                    self.prev_cache.entries.clear();
                }
                fits
            }
        }
    }

    /// To the entry remembered last, if there is one.
    #[inline]
    fn pop_prev(&mut self) -> bool {
        let Some(CachedEntry { offset: at, entry, is_new_user_key: above }) = self.prev_cache.entries.pop()
        else {
            return false;
        };
        let kept = self.shared;
        match kept.checked_sub(entry.shared) {
            Some(more) => {
                let rest = entry.key_delta.start + more..entry.key_delta.end;
                self.key.len = kept;
                self.key.replace(kept, self.block.entries(), rest);
            }
            None => self.rebuild_prev_key(&entry),
        }
        self.value = entry.key_delta.end..entry.value_end;
        (self.entry_offset, self.shared, self.is_new_user_key) = (at, entry.shared, above);
        true
    }

    /// Makes the key of an entry that shares more with the one before it than the current one shares with it: what it
    /// shares stands in some before.
    fn rebuild_prev_key(&mut self, entry: &EncodedEntry) {
        let (entries, kept) = (self.block.entries(), self.shared);
        self.key.resize(entry.shared + entry.key_delta.len());
        let mut missing = self.key.len;
        for from in
            std::iter::once(entry).chain(self.prev_cache.entries.iter().rev().map(|passed| &passed.entry))
        {
            let start = from.shared.max(kept);
            if start < missing {
                let rest = &entries[from.key_delta.clone()][start - from.shared..missing - from.shared];
                self.key.bytes[start..missing].copy_from_slice(rest);
                missing = start;
            }
            if missing <= kept {
                break;
            }
        }
    }

    /// To no entry, just before the one at `offset`, which shares nothing with the one before.
    fn seek_to_offset(&mut self, offset: usize) {
        self.prev_cache.entries.clear();
        (self.key.len, self.shared) = (0, 0);
        self.value = offset..offset;
        self.valid = false;
    }

    /// To the entry that begins where the current value ends. False if there is none, or a damaged one.
    #[inline]
    fn parse_next_entry(&mut self) -> bool {
        let entries = self.block.entries();
        let start = self.value.end;
        self.entry_offset = start;
        (self.valid, self.is_new_user_key) = (false, false);
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
    fn fail(&mut self, flaw: DecodeError) {
        self.valid = false;
        self.error.get_or_insert_with(|| Box::new(flaw));
    }
}

/// The entry at `at`, if it lies in `entries` as a whole.
#[inline]
pub(super) fn decode_entry(entries: &[u8], at: usize) -> Option<EncodedEntry> {
    let head = entries.get(at..)?;
    let (shared, unshared, value_len, used) = match *head {
        // Nearly always three lengths of one byte each.
        [a, b, c, ..] if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), 3),
        _ => decode_lengths(head)?,
    };
    let key_start = at + used;
    let key_end = key_start.checked_add(unshared as usize)?;
    let mut value_end = key_end.checked_add(value_len as usize)?;
    if mutant!(BlockEntryEndOverflow) {
        value_end = (key_end as u32).wrapping_add(value_len) as usize;
    }
    let whole = value_end <= entries.len();
    whole.then_some(EncodedEntry { shared: shared as usize, key_delta: key_start..key_end, value_end })
}

/// Three lengths of any size, and the bytes they take.
fn decode_lengths(head: &[u8]) -> Option<(u32, u32, u32, usize)> {
    let (shared, a) = get_varint32(head)?;
    let (unshared, b) = get_varint32(&head[a..])?;
    let (value_len, c) = get_varint32(&head[a + b..])?;
    Some((shared, unshared, value_len, a + b + c))
}

/// What is wrong with the entry at `at`, where `known` bytes of key came before.
#[cold]
pub(super) fn entry_error(entries: &[u8], at: usize, known: usize) -> DecodeError {
    let Some((shared, unshared, value_len, used)) = entries.get(at..).and_then(decode_lengths) else {
        return DecodeError::new(
            DecodeErrorKind::Truncated,
            at as u64,
            "the end of the entries",
            "three lengths",
        );
    };
    if shared as usize > known {
        let found = format!("a key that shares {shared} bytes");
        return DecodeError::new(DecodeErrorKind::OutOfBounds, at as u64, found, format!("at most {known}"));
    }
    let need = u64::from(unshared) + u64::from(value_len);
    DecodeError::truncated(at as u64, "a key and its value", (entries.len() - at - used) as u64, need)
}
