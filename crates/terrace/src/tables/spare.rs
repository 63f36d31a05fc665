//! Memory for blocks, used again by the thread that has it: one block's from the cache to the next block into it, and one
//! for blocks as they are stored.
//!
//! A cache that is full gives up a block for each that it takes, of about the same size. Handed on, its memory need be
//! neither found nor cleared.

use std::cell::Cell;

use terrace_format::block::Block;

use crate::sync::Arc;

/// No thread keeps more than this of either kind, in bytes.
const KEPT_MAX: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Memory for a block, with any contents; none if there is none.
pub(super) fn take() -> Vec<u8> {
    SPARE.take()
}

/// Keeps the memory of `block`, if nobody else has the block.
pub(super) fn give(block: Arc<Block>) {
    if let Some(block) = Arc::into_inner(block) {
        let memory = block.into_memory();
        if memory.capacity() <= KEPT_MAX {
            SPARE.set(memory);
        }
    }
}

/// What `work` makes with `len` bytes to write over.
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    if len > KEPT_MAX {
        return work(&mut vec![0; len]);
    }
    // Taken out, not borrowed: a caller's own file system may read a database in turn.
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let made = work(&mut scratch[..len]);
    SCRATCH.set(scratch);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: usize) -> Arc<Block> {
        let mut contents = vec![0; size];
        contents[size - 8..].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        Arc::new(Block::new(contents).unwrap())
    }

    #[test]
    fn memory_that_nobody_else_has_comes_back_once() {
        take();
        let shared = block(100);
        give(Arc::clone(&shared));
        assert_eq!(take().capacity(), 0, "somebody reads it");
        give(shared);
        assert_eq!(take().capacity(), 100);
        assert_eq!(take().capacity(), 0);
        give(block(KEPT_MAX + 1));
        assert_eq!(take().capacity(), 0, "too much to keep");
    }

    #[test]
    fn scratch_within_scratch() {
        let inside = |bytes: &mut [u8]| bytes.fill(1);
        let outside = |bytes: &mut [u8]| {
            with_scratch(20, inside);
            bytes.fill(2);
            with_scratch(5, inside);
            bytes.to_vec()
        };
        assert_eq!(with_scratch(10, outside), [2; 10]);
    }

    #[test]
    fn scratch_of_any_length() {
        for len in [0, 10, KEPT_MAX, 3, KEPT_MAX + 1] {
            assert_eq!(with_scratch(len, |bytes| bytes.len()), len);
        }
    }
}
