//! Blocks, used again by the thread that has them: one out of the cache for the next one into it; and memory for blocks as they
//! are stored and as they are unpacked.
//!
//! A cache that is full gives up a block for each that it takes, of about the same size. Handed on, its memory need not be
//! found. What is unpacked into memory that was just used is in the processor's caches when it is looked at.

use std::cell::Cell;
use std::thread::LocalKey;

use terrace_format::block::{self, Block};

use crate::sync::Arc;

/// No thread keeps more than this of any kind, in bytes.
const POOLED_BYTES_MAX: usize = block::COPIED_MAX;

thread_local! {
    static POOLED_BLOCK: Cell<Option<Arc<Block>>> = const { Cell::new(None) };
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static DECOMPRESSION_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What is kept there; nothing for a thread that is nearly gone, which may read for a while yet: destructors do.
fn take_local<T: Default>(kept: &'static LocalKey<Cell<T>>) -> T {
    kept.try_with(Cell::take).unwrap_or_default()
}

fn put_local<T>(kept: &'static LocalKey<Cell<T>>, value: T) {
    let _ = kept.try_with(|kept| kept.set(value));
}

/// The block that `make` makes: out of one that nobody has any more, and in its memory, if there is one.
pub(super) fn reuse<E>(make: impl FnOnce(Vec<u8>) -> Result<Block, E>) -> Result<Arc<Block>, E> {
    if let Some(mut spare) = take_local(&POOLED_BLOCK)
        && let Some(block) = Arc::get_mut(&mut spare)
    {
        *block = make(std::mem::take(block).into_buffer())?;
        return Ok(spare);
    }
    make(Vec::new()).map(Arc::new)
}

/// Keeps `block`, if nobody else has it.
pub(super) fn recycle(mut block: Arc<Block>) {
    if Arc::get_mut(&mut block).is_some_and(|block| block.memory_usage() <= POOLED_BYTES_MAX) {
        put_local(&POOLED_BLOCK, Some(block));
    }
}

/// What `work` makes with `len` bytes to write over.
pub(super) fn with_read_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    if len > POOLED_BYTES_MAX {
        return work(&mut vec![0; len]);
    }
    // Taken out, not borrowed: a caller's own file system may read a database in turn.
    let mut scratch = take_local(&READ_BUFFER);
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let made = work(&mut scratch[..len]);
    put_local(&READ_BUFFER, scratch);
    made
}

/// What `work` makes with memory to unpack a block into.
pub(super) fn with_decompression_buffer<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut unpacked = take_local(&DECOMPRESSION_BUFFER);
    let made = work(&mut unpacked);
    if unpacked.capacity() <= POOLED_BYTES_MAX {
        put_local(&DECOMPRESSION_BUFFER, unpacked);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reuse(size: usize) -> Arc<Block> {
        let mut contents = vec![0; size];
        contents[size - 8..].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        Arc::new(Block::new(contents).unwrap())
    }

    /// Where the next block is made, and how much memory it is given for that.
    fn next() -> (*const Block, usize) {
        let mut given = 0;
        let made = super::reuse(|memory| {
            given = memory.capacity();
            Block::new(vec![0; 4])
        });
        (Arc::as_ptr(&made.unwrap()), given)
    }

    #[test]
    fn unshared_block_is_reused_once() {
        let shared = reuse(100);
        let place = Arc::as_ptr(&shared);
        recycle(Arc::clone(&shared));
        assert_eq!(next().1, 0, "somebody reads it");
        recycle(shared);
        assert_eq!(next(), (place, 100));
        assert_eq!(next().1, 0);
        recycle(reuse(POOLED_BYTES_MAX + 1));
        assert_eq!(next().1, 0, "too much to keep");
        recycle(reuse(100));
        assert!(super::reuse(|_| Err::<Block, _>("damaged")).is_err());
        assert_eq!(next().1, 0);
    }

    #[test]
    fn decompression_buffer_is_kept_up_to_limit() {
        let capacity = || with_decompression_buffer(|memory| memory.capacity());
        with_decompression_buffer(|memory| *memory = Vec::with_capacity(100));
        assert_eq!((capacity(), capacity()), (100, 100));
        with_decompression_buffer(|memory| *memory = Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert_eq!(capacity(), 0);
    }

    #[test]
    fn nested_read_buffers() {
        let inside = |bytes: &mut [u8]| bytes.fill(1);
        let outside = |bytes: &mut [u8]| {
            with_read_buffer(20, inside);
            bytes.fill(2);
            with_read_buffer(5, inside);
            bytes.to_vec()
        };
        assert_eq!(with_read_buffer(10, outside), [2; 10]);
    }

    #[test]
    fn read_buffer_of_any_length() {
        for len in [0, 10, POOLED_BYTES_MAX, 3, POOLED_BYTES_MAX + 1] {
            assert_eq!(with_read_buffer(len, |bytes| bytes.len()), len);
        }
    }
}
