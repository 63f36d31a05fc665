//! Table footers, and the index blocks that they point to.

use std::sync::Arc;

use terrace_format::InternalIterator;
use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, read_block};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "footer",
    property: "no valid handle exceeds its file, even if its numbers overflow",
    format: InputFormat::Table,
    executions_per_case: 10_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let handle = |offset, size| BlockHandle { offset, size };
    let footer = |metaindex, index| Footer { metaindex, index }.encode().to_vec();
    let mut seeds = super::table::seeds();
    seeds.push(footer(handle(0, 0), handle(0, 0)));
    // The ends of these handles overflow 64 bits to small numbers.
    seeds.push(footer(handle(u64::MAX, 0), handle(0, u64::MAX)));
    seeds.push(footer(handle(0, u64::MAX - 4), handle(u64::MAX - 10, 20)));
    seeds
}

fn run(input: &[u8]) {
    // The file may be longer than the part that was read.
    for length in [input.len() as u64, 1 << 20, u64::MAX] {
        check_footer(input, length);
    }
    let Ok(footer) = Footer::decode(input, input.len() as u64) else { return };
    check_index_block(input, footer.index);
    check_index_block(input, footer.metaindex);
}

fn check_footer(input: &[u8], length: u64) {
    let Ok(footer) = Footer::decode(input, length) else { return };
    let limit = length - FOOTER_SIZE as u64;
    for handle in [footer.metaindex, footer.index] {
        assert!(handle_fits(handle, limit) && handle.check(limit).is_ok(), "{handle:?} in {limit} bytes");
    }
    assert_eq!(Footer::decode(&footer.encode(), length), Ok(footer));
}

/// Returns true if the block ends before `limit`, without overflow.
fn handle_fits(handle: BlockHandle, limit: u64) -> bool {
    u128::from(handle.offset) + u128::from(handle.size) + BLOCK_TRAILER_SIZE as u128 <= u128::from(limit)
}

fn check_index_block(file: &[u8], handle: BlockHandle) {
    let limit = (file.len() - FOOTER_SIZE) as u64;
    let stored = &file[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE];
    let Ok(block) = read_block(stored, true).and_then(Block::new) else { return };
    let mut entries = BlockIter::new(Arc::new(block), bytewise());
    entries.seek_to_first();
    while entries.valid() {
        if let Ok((handle, used)) = BlockHandle::decode(entries.value()) {
            assert!(used <= entries.value().len());
            assert_eq!(
                handle.check(limit).is_ok(),
                handle_fits(handle, limit),
                "{handle:?} in {limit} bytes"
            );
        }
        entries.next();
    }
}
