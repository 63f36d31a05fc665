//! Per-thread pool of block memory: one evicted block for the next block that the cache gets, one
//! buffer for stored blocks, and one buffer for decompression.
//!
//! A full cache evicts a block for each block that it gets, of about the same size. The reuse saves
//! an allocation. The buffers are probably still in the processor's cache.

use std::cell::Cell;
use std::thread::LocalKey;

use terrace_format::block::{self, Block};

use crate::sync::Arc;

/// Maximum size of a pooled block or buffer in bytes.
const POOLED_BYTES_MAX: usize = block::COPIED_MAX;

thread_local! {
    static POOLED_BLOCK: Cell<Option<Arc<Block>>> = const { Cell::new(None) };
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static DECOMPRESSION_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes the value of a thread-local cell. Returns the default value in a thread that is ending,
/// whose destructors may still read.
fn take_local<T: Default>(cell: &'static LocalKey<Cell<T>>) -> T {
    cell.try_with(Cell::take).unwrap_or_default()
}

fn put_local<T>(cell: &'static LocalKey<Cell<T>>, value: T) {
    let _ = cell.try_with(|cell| cell.set(value));
}

/// Returns the block that `make` creates, in the memory of the recycled block if there is one.
pub(super) fn reuse<E>(make: impl FnOnce(Vec<u8>) -> Result<Block, E>) -> Result<Arc<Block>, E> {
    if let Some(mut pooled) = take_local(&POOLED_BLOCK)
        && let Some(block) = Arc::get_mut(&mut pooled)
    {
        *block = make(std::mem::take(block).into_buffer())?;
        return Ok(pooled);
    }
    make(Vec::new()).map(Arc::new)
}

/// Keeps `block` for the next [`reuse`], if there is no other reference to it.
pub(super) fn recycle(mut block: Arc<Block>) {
    if Arc::get_mut(&mut block).is_some_and(|block| block.memory_usage() <= POOLED_BYTES_MAX) {
        put_local(&POOLED_BLOCK, Some(block));
    }
}

/// Calls `work` with a buffer of `len` bytes of arbitrary content, or returns `None` if the system
/// has no memory for it.
pub(super) fn with_read_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    if len > POOLED_BYTES_MAX {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).ok()?;
        buffer.resize(len, 0);
        return Some(work(&mut buffer));
    }
    // The buffer is taken, not borrowed, because the file system of a user may read a database
    // itself.
    let mut buffer = take_local(&READ_BUFFER);
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    let result = work(&mut buffer[..len]);
    put_local(&READ_BUFFER, buffer);
    Some(result)
}

/// Calls `work` with a buffer for the decompression of a block.
pub(super) fn with_decompression_buffer<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = take_local(&DECOMPRESSION_BUFFER);
    let result = work(&mut buffer);
    if buffer.capacity() <= POOLED_BYTES_MAX {
        put_local(&DECOMPRESSION_BUFFER, buffer);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: usize) -> Arc<Block> {
        let mut contents = vec![0; size];
        contents[size - 8..].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        Arc::new(Block::new(contents).unwrap())
    }

    /// Returns the address of the next block, and the capacity of the memory that its creation got.
    fn next() -> (*const Block, usize) {
        let mut capacity = 0;
        let block = super::reuse(|memory| {
            capacity = memory.capacity();
            Block::new(vec![0; 4])
        });
        (Arc::as_ptr(&block.unwrap()), capacity)
    }

    #[test]
    fn unshared_block_is_reused_once() {
        let shared = block(100);
        let address = Arc::as_ptr(&shared);
        recycle(Arc::clone(&shared));
        assert_eq!(next().1, 0, "a reader holds the block");
        recycle(shared);
        assert_eq!(next(), (address, 100));
        assert_eq!(next().1, 0);
        recycle(block(POOLED_BYTES_MAX + 1));
        assert_eq!(next().1, 0, "larger than the maximum");
        recycle(block(100));
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
        let fill_inner = |bytes: &mut [u8]| bytes.fill(1);
        let outer = with_read_buffer(10, |bytes| {
            with_read_buffer(20, fill_inner).unwrap();
            bytes.fill(2);
            with_read_buffer(5, fill_inner).unwrap();
            bytes.to_vec()
        });
        assert_eq!(outer, Some(vec![2; 10]));
    }

    #[test]
    fn read_buffer_of_any_length() {
        for len in [0, 10, POOLED_BYTES_MAX, 3, POOLED_BYTES_MAX + 1] {
            assert_eq!(with_read_buffer(len, |bytes| bytes.len()), Some(len));
        }
    }
}
