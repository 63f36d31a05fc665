//! Gap between two entries, with the entries around it in a chunk.
//!
//! ```text
//!   entries of the range    a   b   c   d   e   f   g
//!   chunk                       [b   c   d   e]
//!   gap                               ^            next() is d, prev() is c
//! ```
//!
//! A chunk has 1, 4, 16, 64 and then up to 256 entries, or 64 KiB. A loop that ends early therefore
//! reads little, and a long one crosses to the engine rarely.

use terrace::{Comparator, Db, DbIterator, Error, ReadOptions, Result};

const MAX_CHUNK_ENTRIES: usize = 256;
const MAX_CHUNK_BYTES: usize = 64 << 10;
/// Factor between the sizes of successive chunks.
const CHUNK_GROWTH: usize = 4;

/// Reason why a chunk was not fetched.
pub(crate) enum FetchError {
    Engine(Error),
    /// The memory did not suffice for so many bytes.
    NoMemory(usize),
}

/// Place of the gap while the chunk is empty.
enum Anchor {
    Start,
    Stop,
    /// Place before the first key that is not less than this one.
    Key(Vec<u8>),
}

/// Place of the engine's iterator.
#[derive(PartialEq)]
enum Place {
    Unknown,
    /// Entry after the chunk, or the place beyond the last entry.
    AfterChunk,
    /// Entry before the chunk, or the place before the first entry.
    BeforeChunk,
}

/// Entry of a chunk: the offsets of its begin, of its value and of its end.
#[derive(Clone, Copy)]
struct EntryBounds {
    key: usize,
    value: usize,
    end: usize,
}

/// Iterator in both directions over a range of keys.
pub(crate) struct Cursor {
    iter: DbIterator,
    has_values: bool,
    anchor: Anchor,
    place: Place,
    /// Entries in the order of their keys.
    entries: Vec<EntryBounds>,
    bytes: Vec<u8>,
    /// Number of entries of the chunk before the gap.
    gap: usize,
    next_chunk: usize,
}

impl Cursor {
    /// Creates a cursor over the entries that `options` select. Without `has_values`, all values
    /// are empty.
    pub(crate) fn new(db: &Db, options: &ReadOptions, has_values: bool) -> Cursor {
        Cursor {
            iter: db.raw_iter_with(options),
            has_values,
            anchor: Anchor::Start,
            place: Place::Unknown,
            entries: Vec::new(),
            bytes: Vec::new(),
            gap: 0,
            next_chunk: 1,
        }
    }

    /// Moves the gap before the first entry.
    pub(crate) fn move_to_start(&mut self) {
        self.move_to(Anchor::Start);
    }

    /// Moves the gap after the last entry.
    pub(crate) fn move_to_stop(&mut self) {
        self.move_to(Anchor::Stop);
    }

    /// Moves the gap before the first entry whose key is not less than `key`.
    pub(crate) fn move_to_key(&mut self, key: Vec<u8>) {
        self.move_to(Anchor::Key(key));
    }

    fn move_to(&mut self, anchor: Anchor) {
        self.anchor = anchor;
        self.place = Place::Unknown;
        self.entries.clear();
        self.bytes.clear();
        self.gap = 0;
        self.next_chunk = 1;
    }

    /// Moves the gap over the next entry and returns it if the chunk has it.
    #[inline]
    pub(crate) fn next_of_chunk(&mut self) -> Option<(&[u8], &[u8])> {
        let bounds = *self.entries.get(self.gap)?;
        self.gap += 1;
        Some(self.entry(bounds))
    }

    /// Moves the gap over the entry before it and returns that if the chunk has it.
    #[inline]
    pub(crate) fn prev_of_chunk(&mut self) -> Option<(&[u8], &[u8])> {
        let bounds = *self.entries.get(self.gap.checked_sub(1)?)?;
        self.gap -= 1;
        Some(self.entry(bounds))
    }

    fn entry(&self, EntryBounds { key, value, end }: EntryBounds) -> (&[u8], &[u8]) {
        (&self.bytes[key..value], &self.bytes[value..end])
    }

    /// Fetches the chunk after the gap, if [`Cursor::next_of_chunk`] has none. Returns false at the
    /// end.
    pub(crate) fn fetch_next(&mut self) -> std::result::Result<bool, FetchError> {
        if self.gap < self.entries.len() {
            return Ok(true);
        }
        if !self.go_after_chunk() {
            return Ok(false);
        }
        self.place = Place::AfterChunk;
        self.iter.status().map_err(FetchError::Engine)?;
        if !self.iter.valid() {
            return Ok(false);
        }
        self.fill(true)?;
        self.gap = 0;
        Ok(true)
    }

    /// Fetches the chunk before the gap, if [`Cursor::prev_of_chunk`] has none. Returns false at
    /// the start.
    pub(crate) fn fetch_prev(&mut self) -> std::result::Result<bool, FetchError> {
        if self.gap > 0 {
            return Ok(true);
        }
        if !self.go_before_chunk() {
            return Ok(false);
        }
        self.place = Place::BeforeChunk;
        self.iter.status().map_err(FetchError::Engine)?;
        if !self.iter.valid() {
            return Ok(false);
        }
        self.fill(false)?;
        self.entries.reverse();
        self.gap = self.entries.len();
        Ok(true)
    }

    /// Moves the engine's iterator to the entry after the chunk. Returns false at the stop.
    fn go_after_chunk(&mut self) -> bool {
        if self.place == Place::AfterChunk {
            return true;
        }
        match (self.entries.last(), &self.anchor) {
            (Some(last), _) => {
                self.iter.seek(&self.bytes[last.key..last.value]);
                self.iter.next();
            }
            (None, Anchor::Start) => self.iter.seek_to_first(),
            (None, Anchor::Key(key)) => self.iter.seek(key),
            (None, Anchor::Stop) => return false,
        }
        true
    }

    /// Moves the engine's iterator to the entry before the chunk. Returns false at the start.
    fn go_before_chunk(&mut self) -> bool {
        if self.place == Place::BeforeChunk {
            return true;
        }
        let after = match (self.entries.first(), &self.anchor) {
            (Some(first), _) => Some(&self.bytes[first.key..first.value]),
            (None, Anchor::Key(key)) => Some(key.as_slice()),
            (None, Anchor::Stop) => None,
            (None, Anchor::Start) => return false,
        };
        if let Some(after) = after {
            self.iter.seek(after);
        }
        match self.iter.valid() && after.is_some() {
            true => self.iter.prev(),
            false => self.iter.seek_to_last(),
        }
        true
    }

    /// Replaces the chunk by entries from the engine's iterator on, forward or backward. An error
    /// changes nothing. Damage after the first entry ends the chunk, and the next fetch finds its
    /// error.
    fn fill(&mut self, forward: bool) -> std::result::Result<(), FetchError> {
        let step = if forward { DbIterator::next } else { DbIterator::prev };
        let first = self.iter.key().len() + self.value().len();
        if first > self.bytes.capacity() {
            let mut bytes = Vec::new();
            bytes.try_reserve(first).map_err(|_| FetchError::NoMemory(first))?;
            self.bytes = bytes;
        }
        self.entries.clear();
        self.bytes.clear();
        while self.iter.valid() && self.entries.len() < self.next_chunk && self.bytes.len() < MAX_CHUNK_BYTES
        {
            let len = self.iter.key().len() + self.value().len();
            if self.bytes.try_reserve(len).is_err() {
                break; // The next fetch reports it.
            }
            let key = self.bytes.len();
            self.bytes.extend_from_slice(self.iter.key());
            let value = self.bytes.len();
            if self.has_values {
                self.bytes.extend_from_slice(self.iter.value());
            }
            self.entries.push(EntryBounds { key, value, end: self.bytes.len() });
            step(&mut self.iter);
        }
        self.drop_entries_after_error(forward)?;
        self.next_chunk = (self.next_chunk * CHUNK_GROWTH).min(MAX_CHUNK_ENTRIES);
        // A chunk with a large value does not keep its memory.
        if self.bytes.capacity() > 4 * MAX_CHUNK_BYTES {
            self.bytes.shrink_to(self.bytes.len());
        }
        Ok(())
    }

    /// Removes the entries after damage, which the engine's iterator skips, from a new chunk. The
    /// entries are in the order of the steps. A check after each step would slow down every scan.
    fn drop_entries_after_error(&mut self, forward: bool) -> std::result::Result<(), FetchError> {
        if self.entries.len() < 2 {
            return Ok(()); // An error after one entry is that of the next fetch.
        }
        let Err(error) = self.iter.status() else { return Ok(()) };
        let Some(first) = self.entries.first() else { return Err(FetchError::Engine(error)) };
        let first = &self.bytes[first.key..first.value];
        let count = self.iter.entries_before_error(first, forward, self.entries.len());
        self.entries.truncate(count);
        if count == 0 { Err(FetchError::Engine(error)) } else { Ok(()) }
    }

    /// Returns the value of the engine's iterator, as far as the chunk needs it.
    fn value(&self) -> &[u8] {
        if self.has_values { self.iter.value() } else { &[] }
    }
}

/// Changes the bounds of `options` to those of a range with an excluded start or an included stop.
/// Finds the keys after them with an iterator, because only some orders have a known next key.
pub(crate) fn set_bounds(
    db: &Db,
    comparator: &dyn Comparator,
    options: &mut ReadOptions,
    include_start: bool,
    include_stop: bool,
) -> Result<()> {
    let mut unbounded = options.clone();
    unbounded.lower_bound = None;
    unbounded.upper_bound = None;
    if let Some(start) = options.lower_bound.take_if(|_| !include_start) {
        options.lower_bound = key_after(db, comparator, &unbounded, &start)?;
        if options.lower_bound.is_none() {
            // No key is after the start, so the range is empty.
            options.lower_bound = Some(start.clone());
            options.upper_bound = Some(start);
            return Ok(());
        }
    }
    if let Some(stop) = options.upper_bound.take_if(|_| include_stop) {
        options.upper_bound = key_after(db, comparator, &unbounded, &stop)?;
    }
    Ok(())
}

/// Returns the first key after `key` in the snapshot of `options`.
fn key_after(
    db: &Db,
    comparator: &dyn Comparator,
    options: &ReadOptions,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut iter = db.raw_iter_with(options);
    iter.seek(key);
    if iter.valid() && comparator.compare(iter.key(), key).is_eq() {
        iter.next();
    }
    iter.status()?;
    Ok(iter.valid().then(|| iter.key().to_vec()))
}
