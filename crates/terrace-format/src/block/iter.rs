//! Walks and searches a block.
//!
//! ```text
//!   seek    binary search for the last restart point whose key is below the target, then forward from there
//!   next    decode at the end of the current entry
//!   prev    decode forward from the last restart point before the current entry, up to it; remember the entries, which
//!           are those that further steps back come to
//! ```
//!
//! The block may be hostile: every step either moves on by at least one entry, stops at an end, or stops with a flaw.
//! That the keys rise is not checked here; in a block where they do not, a search finds an arbitrary entry.

use std::ops::Range;
use std::sync::Arc;

use terrace_mutants::mutant;

use super::Block;
use crate::coding::get_varint32;
use crate::flaw::{Flaw, FlawKind};
use crate::order::Order;

/// A place in a block: at an entry, or invalid. New ones are invalid.
#[derive(Debug)]
pub struct BlockIter {
    block: Arc<Block>,
    order: Order,
    valid: bool,
    /// Where the current entry begins, and where its value stands; the next entry begins where the value ends.
    entry: usize,
    value: Range<usize>,
    key: Vec<u8>,
    flaw: Option<Flaw>,
    back: Back,
}

/// The entries before the current one that the last step back passed.
#[derive(Debug, Default)]
struct Back {
    /// Where each begins, its value, and where its key ends in `keys`.
    entries: Vec<(usize, Range<usize>, usize)>,
    keys: Vec<u8>,
}

impl Back {
    fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }
}

/// The keys of one step back take no more than this, in bytes: entries that share much would make much of little.
const BACK_MAX: usize = 64 << 10;

/// An entry as it is stored. The value follows the rest of the key.
pub(super) struct Entry {
    pub(super) shared: usize,
    pub(super) rest_of_key: Range<usize>,
    pub(super) value_end: usize,
}

impl BlockIter {
    /// Over `block`, whose keys rise in `order`.
    pub fn new(block: Arc<Block>, order: impl Into<Order>) -> BlockIter {
        BlockIter {
            block,
            order: order.into(),
            valid: false,
            entry: 0,
            value: 0..0,
            key: Vec::new(),
            flaw: None,
            back: Back::default(),
        }
    }

    /// Leaves the block, which is given back, for another one in the same order, as if made anew.
    pub fn enter(&mut self, block: Arc<Block>) -> Arc<Block> {
        self.flaw = None;
        self.leave();
        std::mem::replace(&mut self.block, block)
    }

    /// What it walks over.
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// To no entry.
    pub fn leave(&mut self) {
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
        &self.key
    }

    /// The value here. Only at an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.block.contents[self.value.clone()]
    }

    /// The key and the value here, if there is a here.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid.then(|| (&self.key[..], self.value()))
    }

    /// Where in the block's contents the value is. Only at an entry.
    pub fn value_range(&self) -> Range<usize> {
        debug_assert!(self.valid);
        self.value.clone()
    }

    /// The first damage that was met, if any. Places behind it may still be reached by a search.
    pub fn flaw(&self) -> Option<&Flaw> {
        self.flaw.as_ref()
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) {
        self.start_at(self.block.restart(0));
        self.step();
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) {
        self.start_at(self.block.restart(self.block.restarts.saturating_sub(1)));
        while self.step() && self.value.end < self.block.entries_end {
            self.remember();
        }
    }

    /// To the first entry whose key is `target` or above.
    pub fn seek(&mut self, target: &[u8]) {
        match self.block.last_restart_below(&self.order, target) {
            Ok(offset) => self.start_at(offset),
            Err(flaw) => return self.fail(flaw),
        }
        while self.step() && self.order.compare(&self.key, target).is_lt() {}
    }

    /// To the next entry; invalid behind the last. Only at an entry.
    #[inline]
    pub fn next(&mut self) {
        debug_assert!(self.valid);
        if !self.back.entries.is_empty() {
            self.back.clear();
        }
        self.step();
    }

    /// To the entry before; invalid before the first. Only at an entry.
    pub fn prev(&mut self) {
        debug_assert!(self.valid);
        if self.recall() {
            return;
        }
        let current = self.entry;
        let before = super::first_not(0..self.block.restarts, |i| Ok(self.block.restart(i) < current));
        match before {
            Ok(n @ 1..) => self.forward_to(current, self.block.restart(n - 1)),
            _ => self.valid = false,
        }
    }

    /// From `start` on to the entry that ends where the one at `target` begins.
    fn forward_to(&mut self, target: usize, start: usize) {
        self.start_at(start);
        while self.step() && self.value.end < target {
            self.remember();
        }
        if self.valid && self.value.end != target {
            let found = format!("an entry that ends at {}", self.value.end);
            let expected = format!("an end at {target}, where the next one begins");
            self.fail(Flaw::new(FlawKind::Malformed, self.entry as u64, found, expected));
        }
    }

    /// Notes the current entry for a later step back.
    fn remember(&mut self) {
        if self.back.keys.len() + self.key.len() > BACK_MAX {
            self.back.clear();
        }
        self.back.keys.extend_from_slice(&self.key);
        self.back.entries.push((self.entry, self.value.clone(), self.back.keys.len()));
    }

    /// To the entry remembered last, if there is one.
    fn recall(&mut self) -> bool {
        let Some((entry, value, end)) = self.back.entries.pop() else { return false };
        let start = self.back.entries.last().map_or(0, |&(_, _, end)| end);
        self.key.clear();
        self.key.extend_from_slice(&self.back.keys[start..end]);
        self.back.keys.truncate(start);
        (self.entry, self.value) = (entry, value);
        true
    }

    /// Just before the entry at `offset`, which shares nothing with the one before.
    fn start_at(&mut self, offset: usize) {
        self.back.clear();
        self.key.clear();
        self.value = offset..offset;
    }

    /// To the entry that begins where the current value ends. False if there is none, or a damaged one.
    #[inline]
    fn step(&mut self) -> bool {
        let entries = self.block.entries();
        let start = self.value.end;
        self.entry = start;
        self.valid = false;
        if start >= entries.len() {
            return false;
        }
        match decode(entries, start).filter(|entry| entry.shared <= self.key.len()) {
            Some(entry) => {
                self.value = entry.rest_of_key.end..entry.value_end;
                self.key.truncate(entry.shared);
                self.key.extend_from_slice(&entries[entry.rest_of_key]);
                self.valid = true;
            }
            None => self.fail(bad_entry(entries, start, self.key.len())),
        }
        self.valid
    }

    #[cold]
    fn fail(&mut self, flaw: Flaw) {
        self.valid = false;
        self.flaw.get_or_insert(flaw);
    }
}

/// The entry at `at`, if it lies in `entries` as a whole.
#[inline]
pub(super) fn decode(entries: &[u8], at: usize) -> Option<Entry> {
    let head = entries.get(at..)?;
    let (shared, unshared, value_len, used) = match *head {
        // Nearly always three lengths of one byte each.
        [a, b, c, ..] if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), 3),
        _ => decode_long(head)?,
    };
    let key_start = at + used;
    let key_end = key_start.checked_add(unshared as usize)?;
    let mut value_end = key_end.checked_add(value_len as usize)?;
    if mutant!(EntryWraps) {
        value_end = (key_end as u32).wrapping_add(value_len) as usize;
    }
    let whole = value_end <= entries.len();
    whole.then_some(Entry { shared: shared as usize, rest_of_key: key_start..key_end, value_end })
}

/// Three lengths of any size, and the bytes they take.
fn decode_long(head: &[u8]) -> Option<(u32, u32, u32, usize)> {
    let (shared, a) = get_varint32(head)?;
    let (unshared, b) = get_varint32(&head[a..])?;
    let (value_len, c) = get_varint32(&head[a + b..])?;
    Some((shared, unshared, value_len, a + b + c))
}

/// What is wrong with the entry at `at`, where `known` bytes of key came before.
#[cold]
pub(super) fn bad_entry(entries: &[u8], at: usize, known: usize) -> Flaw {
    let Some((shared, unshared, value_len, used)) = entries.get(at..).and_then(decode_long) else {
        return Flaw::new(FlawKind::Truncated, at as u64, "the end of the entries", "three lengths");
    };
    if shared as usize > known {
        let found = format!("a key that shares {shared} bytes");
        return Flaw::new(FlawKind::OutOfBounds, at as u64, found, format!("at most {known}"));
    }
    let need = u64::from(unshared) + u64::from(value_len);
    Flaw::truncated(at as u64, "a key and its value", (entries.len() - at - used) as u64, need)
}
