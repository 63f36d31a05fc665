//! Each format document ends with a worked example; here its bytes are made by the code, and read back.

mod common;

use std::sync::Arc;

use common::example;
use terrace_format::batch::{BatchOp, WriteBatch, check};
use terrace_format::coding::{Cursor, put_fixed32, put_fixed64, put_slice, put_varint32, put_varint64};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::filename::{FileName, current};
use terrace_format::filter::Bloom;
use terrace_format::filter_block::{FilterBlock, FilterBlockBuilder, Filters};
use terrace_format::key::{InternalComparator, InternalKey, Kind};

#[test]
fn integers() {
    let mut bytes = Vec::new();
    put_fixed32(&mut bytes, 300);
    put_fixed64(&mut bytes, 300);
    put_varint64(&mut bytes, 300);
    put_varint32(&mut bytes, u32::MAX);
    put_slice(&mut bytes, b"key");
    assert_eq!(bytes, example("integers.md"));

    let mut from = Cursor::new(&bytes);
    assert_eq!(from.fixed32("a fixed32"), Ok(300));
    assert_eq!(from.fixed64("a fixed64"), Ok(300));
    assert_eq!(from.varint64("a varint64"), Ok(300));
    assert_eq!(from.varint32("a varint32"), Ok(u32::MAX));
    assert_eq!(from.slice("a slice"), Ok(&b"key"[..]));
    assert!(from.is_empty());
}

#[test]
fn internal_key() {
    let value = InternalKey::new(b"key", 100, Kind::Put);
    let deletion = InternalKey::new(b"key", 101, Kind::Delete);
    assert_eq!([value.as_bytes(), deletion.as_bytes()].concat(), example("internal-key.md"));

    let order = InternalComparator::new(bytewise());
    assert!(order.compare(deletion.as_bytes(), value.as_bytes()).is_lt());
}

#[test]
fn batch() {
    let mut batch = WriteBatch::new();
    batch.set_sequence(3);
    batch.put(b"apple", b"red");
    batch.delete(b"banana");
    let bytes = example("batch.md");
    assert_eq!(batch.as_bytes(), bytes);

    let read = check(&bytes).unwrap();
    let ops = [BatchOp::Put { key: b"apple", value: b"red" }, BatchOp::Delete { key: b"banana" }];
    assert_eq!((read.sequence(), read.iter().collect::<Vec<_>>()), (3, ops.to_vec()));
}

#[test]
fn edit() {
    let apple = InternalKey::new(b"apple", 3, Kind::Put);
    let cherry = InternalKey::new(b"cherry", 4, Kind::Put);
    let edit = VersionEdit {
        comparator: None,
        log_number: Some(6),
        prev_log_number: Some(0),
        next_file: Some(9),
        last_sequence: Some(4),
        compact_pointers: vec![(1, cherry.clone())],
        deleted: vec![(1, 7), (2, 5)],
        added: vec![(2, NewFile { number: 8, size: 163, smallest: apple, largest: cherry })],
    };
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    assert_eq!(bytes, example("version-edit.md"));
    assert_eq!(VersionEdit::decode(&bytes), Ok(edit));
}

#[test]
fn filenames() {
    let bytes = example("filenames.md");
    assert_eq!(current::encode(2), bytes);
    assert_eq!(current::decode(&bytes), Ok(2));
    assert_eq!(FileName::parse("MANIFEST-000002"), Some(FileName::Manifest(2)));
}

#[test]
fn filter() {
    let policy = Arc::new(Bloom::new(10));
    let mut builder = FilterBlockBuilder::new(Filters::OfRanges(policy.clone()));
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
