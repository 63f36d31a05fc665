//! Filter blocks.

use std::sync::Arc;

use terrace_format::filter::{BloomFilterPolicy, FilterPolicy, InternalFilterPolicy};
use terrace_format::filter_block::{FilterBlockBuilder, FilterBlockReader, TableFilter};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "filter",
    property: "a filter block answers for any key and block, and a built one admits its keys",
    format: InputFormat::NoChecksums,
    executions_per_case: 10_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut builder = FilterBlockBuilder::new(TableFilter::BlockBased(Arc::new(BloomFilterPolicy::new(10))));
    for (offset, key) in [(0, "apple"), (100, "banana"), (9000, "cherry")] {
        builder.start_block(offset);
        builder.add(key.as_bytes());
    }
    let built = builder.finish();
    let whole_table = [&[0xff; 9][..], &[6], &[0, 0, 0, 0], &[10, 0, 0, 0], &[30]].concat();
    vec![built, whole_table, vec![0, 0, 0, 0, 11]]
}

fn run(input: &[u8]) {
    let policies: [Arc<dyn FilterPolicy>; 2] = [
        Arc::new(BloomFilterPolicy::new(10)),
        Arc::new(InternalFilterPolicy(Arc::new(BloomFilterPolicy::new(1)))),
    ];
    for policy in policies {
        let block = FilterBlockReader::new(policy, input.to_vec());
        for offset in [0, 1, 2047, 2048, 1 << 20, 1 << 40, u64::MAX] {
            for key in [b"".as_slice(), b"apple", input] {
                assert_eq!(block.may_match(offset, key), block.may_match(offset, key));
            }
        }
    }
    check_built_filter(input);
}

/// Builds a filter block from offsets and keys in the input, and checks that it admits them.
fn check_built_filter(input: &[u8]) {
    let policy: Arc<dyn FilterPolicy> =
        Arc::new(BloomFilterPolicy::new(input.first().copied().unwrap_or(0).into()));
    let mut builder = FilterBlockBuilder::new(TableFilter::BlockBased(Arc::clone(&policy)));
    let mut offset = 0;
    let mut keys = Vec::new();
    for chunk in input.chunks(7).take(100) {
        offset += u64::from(chunk[0]) * 40;
        builder.start_block(offset);
        builder.add(chunk);
        keys.push((offset, chunk));
    }
    let block = FilterBlockReader::new(policy, builder.finish());
    for (offset, key) in keys {
        assert!(block.may_match(offset, key), "the filter hides a key of the block at {offset}");
    }
}
