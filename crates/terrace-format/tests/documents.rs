//! Each format document ends with a worked example; here its bytes are made by the code, and read back.

mod common;

use std::sync::Arc;

use common::example;
use terrace_format::filter::Bloom;
use terrace_format::filter_block::{FilterBlock, FilterBlockBuilder};

/// One data block at 0 with the keys "hello" and "world", one at 5000 with "again".
#[test]
fn filter() {
    let policy = Arc::new(Bloom::new(10));
    let mut builder = FilterBlockBuilder::new(policy.clone());
    builder.start_block(0);
    builder.add(b"hello");
    builder.add(b"world");
    builder.start_block(5000);
    builder.add(b"again");
    let bytes = builder.finish();
    assert_eq!(bytes, example("filter.md"));

    let block = FilterBlock::new(policy, bytes);
    assert!(block.may_match(0, b"hello") && block.may_match(0, b"world") && block.may_match(5000, b"again"));
    assert!(!block.may_match(0, b"again") && !block.may_match(5000, b"hello"));
}
