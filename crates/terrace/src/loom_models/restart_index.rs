//! Model of the slot of a restart index: a reader beside a thread that verifies the block.

use terrace_format::block::{RESTART_INDEX_WORDS, RestartIndex};
use terrace_sync::thread;

use crate::sync::Arc;
use crate::table::restart_index_slot::{RestartIndexSlot, VerifiedBlock};

/// Offset of the block in its file.
const OFFSET: u64 = 77;

fn index() -> RestartIndex {
    RestartIndex::from_words(std::array::from_fn(|i| 100 + i as u32))
}

/// Returns true if the slot holds the block. Panics if it holds a part of it.
fn load(slot: &RestartIndexSlot) -> bool {
    match slot.load() {
        None => false,
        Some(VerifiedBlock::NotIndexed) => panic!("the block has an index"),
        Some(VerifiedBlock::Indexed(offset, found)) => {
            assert_eq!(u64::from(offset), OFFSET);
            assert_eq!(found.words(), index().words(), "a part of the {RESTART_INDEX_WORDS} words");
            true
        }
    }
}

/// One thread verifies a block, and another one reads its slot twice.
pub(super) fn reader_beside_verification() {
    let slot = Arc::new(RestartIndexSlot::new());
    let reader = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            let first = load(&slot);
            assert!(load(&slot) || !first, "a verified block is no longer verified");
        })
    };
    slot.publish(OFFSET, Some(&index()));
    assert!(load(&slot), "a thread sees its own verification");
    reader.join().unwrap();
    assert!(load(&slot));
}
