//! Memory for some bytes, of which a process has very many, all of some KiB: cached blocks.
//!
//! ```text
//!   process  [ region | region | ... ]                    2 MiB each, in large pages but for the first
//!   region   [ buffer      | buffer   | free  | buffer ]   granules of 256 bytes
//! ```
//!
//! Who reads here and there in a hundred MiB of small pages waits for the page table as often as for the bytes. Of
//! large pages the processor knows all that there are. The first region has small ones: a program that reads three blocks
//! shall not pay for two MiB.
//!
//! A piece is the first that suffices, so that what is used comes to lie together, and regions at the end become empty and go back
//! to the system. One lock guards all of it, for some tens of nanoseconds.
#![allow(unsafe_code)] // hands out memory of its own

mod arena;
mod granules;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use parking_lot::Mutex;

use arena::{Arena, Piece};
use granules::GRANULE;

static ARENA: Mutex<Arena> = Mutex::new(Arena::new());

/// Bytes in memory of their own, which goes back when this is dropped, on whatever thread.
///
/// All its memory was written to at some time, so bytes that nobody has set since are arbitrary and no more than that.
pub struct Buffer {
    /// Of `capacity` bytes that are initialised and that nothing else refers to.
    start: NonNull<u8>,
    /// No more than `capacity`.
    len: usize,
    /// Of a piece, all its granules; else the length of a boxed slice, which may be 0.
    capacity: usize,
    /// Where in the arena that is. None for a boxed slice.
    piece: Option<Piece>,
}

// SAFETY: nothing else refers to its memory, and it may go back on any thread.
unsafe impl Send for Buffer {}
// SAFETY: who shares it can only read it.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// What is larger comes from the heap, in bytes. So it need not be copied into a buffer if it is in the heap already, and nobody keeps
    /// it for a block to come.
    pub const PIECE_MAX: usize = 64 << 10;

    /// Without memory.
    pub const fn empty() -> Buffer {
        Buffer { start: NonNull::dangling(), len: 0, capacity: 0, piece: None }
    }

    /// `len` bytes, whatever they are. In the memory of `old` if that suffices and is not much more than needed.
    pub fn of(len: usize, mut old: Buffer) -> Buffer {
        if (len..=len + len / 8 + GRANULE).contains(&old.capacity) {
            old.len = len;
            return old;
        }
        drop(old);
        Buffer::piece(len).unwrap_or_else(|| vec![0; len].into())
    }

    fn piece(len: usize) -> Option<Buffer> {
        if len == 0 || len > Buffer::PIECE_MAX {
            return None;
        }
        let (piece, start) = ARENA.lock().take(len.div_ceil(GRANULE))?;
        Some(Buffer { start, len, capacity: len.next_multiple_of(GRANULE), piece: Some(piece) })
    }

    /// The bytes of memory that it takes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let idle = match self.piece {
            Some(piece) => ARENA.lock().give_back(piece, self.capacity / GRANULE),
            None => {
                let boxed = NonNull::slice_from_raw_parts(self.start, self.capacity);
                // SAFETY: made of a box of this length, and nothing refers to it behind this.
                drop(unsafe { Box::from_raw(boxed.as_ptr()) });
                None
            }
        };
        drop(idle); // after the lock: the system takes a while
    }
}

/// In the memory of the vector, but for what it does not use of that.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let boxed = NonNull::from(Box::leak(bytes.into_boxed_slice()));
        Buffer { start: boxed.cast(), len: boxed.len(), capacity: boxed.len(), piece: None }
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::empty()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised, and shared only to be read, as long as this is borrowed.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_ref() }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: initialised, and nobody else has it as long as this is borrowed.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_mut() }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests;
