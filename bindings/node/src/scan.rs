//! Iterators, and the encoded chunks in which their entries cross to JavaScript.
//!
//! ```text
//!   chunk   n, flags: u32 | n times (key length, value length): u32 | keys and values, alternating
//! ```
//!
//! Integers have the byte order of the machine, because JavaScript reads them as a `Uint32Array`.
//! In an aligned chunk, each key and each value begins at a multiple of [`ALIGNMENT`].

use terrace::{Db, DbIterator, ReadOptions};
use terrace_sync::{Arc, AtomicBool, Ordering};

use crate::error::{Failure, Result};

/// Flag of a chunk: no entry follows.
const IS_LAST: u32 = 1;
/// Flag of a chunk: all bytes of keys and values are ASCII.
const IS_ASCII: u32 = 2;

/// Alignment in bytes of the largest elements of JavaScript's typed arrays. A program may read a
/// part of a chunk as such an array.
const ALIGNMENT: usize = 8;

/// Parts of an entry that a caller wants, and the order in which it wants the entries.
#[derive(Clone, Copy)]
pub(crate) struct ScanParts {
    pub(crate) keys: bool,
    pub(crate) values: bool,
    pub(crate) reverse: bool,
    pub(crate) aligned: bool,
}

/// Place of the next entry.
enum Position {
    Start,
    Seek(Vec<u8>),
    Current,
    End,
}

/// Iterator of JavaScript.
pub(crate) struct Scan {
    iter: DbIterator,
    /// First key of the range.
    lower: Option<Vec<u8>>,
    /// Key at which the range ends.
    upper: Option<Vec<u8>>,
    parts: ScanParts,
    position: Position,
    /// Set by the main thread when the caller aborts or closes the iterator.
    aborted: Arc<AtomicBool>,
}

/// Returns `options` with the bounds of a scan: `lower` is included, `upper` is not.
pub(crate) fn bounded(
    mut options: ReadOptions,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
) -> ReadOptions {
    options.lower_bound = lower;
    options.upper_bound = upper;
    options
}

impl Scan {
    /// Creates a scan over the range of `options`.
    pub(crate) fn new(db: &Db, options: ReadOptions, parts: ScanParts) -> Scan {
        Scan {
            iter: db.raw_iter_with(&options),
            lower: options.lower_bound,
            upper: options.upper_bound,
            parts,
            position: Position::Start,
            aborted: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Returns the flag that ends a running [`Scan::take`] early.
    pub(crate) fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Moves the iterator, before the next chunk, to `target` or to the next key in its order. With
    /// a target outside of the range, the iterator is at its end, as abstract-level requires.
    pub(crate) fn seek(&mut self, target: Vec<u8>) {
        let is_below = self.lower.as_ref().is_some_and(|lower| target < *lower);
        let is_above = self.upper.as_ref().is_some_and(|upper| target >= *upper);
        self.position = if is_below || is_above { Position::End } else { Position::Seek(target) };
    }

    /// Returns a chunk of at most `count` entries. It ends after the entry with which it exceeds
    /// `bytes`.
    pub(crate) fn take(&mut self, count: usize, bytes: usize) -> Result<Vec<u8>> {
        if let Position::End = self.position {
            return encode(&[], &[], true);
        }
        self.move_to_position();
        let mut lengths: Vec<u32> = Vec::new();
        let mut data = Vec::new();
        let mut size = 0;
        while lengths.len() < 2 * count && self.iter.valid() && !self.aborted.load(Ordering::Relaxed) {
            for (is_wanted, part) in
                [(self.parts.keys, self.iter.key()), (self.parts.values, self.iter.value())]
            {
                let length = append(&mut data, is_wanted, part)?;
                lengths.push(length);
                size += length as usize;
                if self.parts.aligned {
                    data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
                }
            }
            self.step();
            if size > bytes {
                break;
            }
        }
        if !self.iter.valid() {
            self.iter.status()?;
            self.position = Position::End;
        }
        encode(&lengths, &data, !self.iter.valid())
    }

    /// Calls `each` with the keys of the next entries, at most `count`. Returns false at the end.
    pub(crate) fn take_keys(&mut self, count: usize, mut each: impl FnMut(&[u8])) -> Result<bool> {
        self.move_to_position();
        for _ in 0..count {
            if !self.iter.valid() {
                break;
            }
            each(self.iter.key());
            self.step();
        }
        self.iter.status()?;
        Ok(self.iter.valid())
    }

    fn move_to_position(&mut self) {
        match std::mem::replace(&mut self.position, Position::Current) {
            Position::Start if self.parts.reverse => self.iter.seek_to_last(),
            Position::Start => self.iter.seek_to_first(),
            Position::Seek(target) if self.parts.reverse => self.seek_backward(&target),
            Position::Seek(target) => self.iter.seek(&target),
            Position::Current => {}
            Position::End => self.position = Position::End,
        }
    }

    /// Moves to the last entry that is not greater than `target`.
    fn seek_backward(&mut self, target: &[u8]) {
        self.iter.seek(target);
        if !self.iter.valid() {
            self.iter.seek_to_last();
        }
        if self.iter.valid() && self.iter.key() > target {
            self.iter.prev();
        }
    }

    fn step(&mut self) {
        match self.parts.reverse {
            true => self.iter.prev(),
            false => self.iter.next(),
        }
    }
}

/// Appends `bytes` to `data` if they are `wanted`, and returns the appended length.
fn append(data: &mut Vec<u8>, wanted: bool, bytes: &[u8]) -> Result<u32> {
    if !wanted {
        return Ok(0);
    }
    let Ok(length) = u32::try_from(bytes.len()) else {
        return Err(Failure::new("LEVEL_NOT_SUPPORTED", "a key or value has more than 4 GiB"));
    };
    // The padding of an aligned chunk follows.
    data.try_reserve(bytes.len() + ALIGNMENT).map_err(|_| Failure::out_of_memory(bytes.len()))?;
    data.extend_from_slice(bytes);
    Ok(length)
}

fn encode(lengths: &[u32], data: &[u8], is_end: bool) -> Result<Vec<u8>> {
    let count = u32::try_from(lengths.len() / 2).unwrap_or(u32::MAX);
    let mut flags = 0;
    if is_end {
        flags |= IS_LAST;
    }
    if data.is_ascii() {
        flags |= IS_ASCII;
    }
    let size = 8 + 4 * lengths.len() + data.len();
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(size).map_err(|_| Failure::out_of_memory(size))?;
    for integer in [count, flags].iter().chain(lengths) {
        chunk.extend_from_slice(&integer.to_ne_bytes());
    }
    chunk.extend_from_slice(data);
    Ok(chunk)
}
