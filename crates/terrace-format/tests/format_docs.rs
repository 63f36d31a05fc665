//! Worked examples of the format documents: the code writes the same bytes and reads them back.

mod common;

use std::sync::Arc;

use common::example;
use terrace_format::batch::{BatchOp, WriteBatch, validate};
use terrace_format::coding::{
    SliceDecoder, put_fixed32, put_fixed64, put_length_prefixed_slice, put_varint32, put_varint64,
};
use terrace_format::comparator::{Comparator, bytewise};
use terrace_format::filename::{FileName, current};
use terrace_format::filter::BloomFilterPolicy;
use terrace_format::filter_block::{FilterBlockBuilder, FilterBlockReader, TableFilter};
use terrace_format::key::{InternalComparator, InternalKey, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};

#[test]
fn integers() {
    let mut bytes = Vec::new();
    put_fixed32(&mut bytes, 300);
    put_fixed64(&mut bytes, 300);
    put_varint64(&mut bytes, 300);
    put_varint32(&mut bytes, u32::MAX);
    put_length_prefixed_slice(&mut bytes, b"key");
    assert_eq!(bytes, example("integers.md"));

    let mut decoder = SliceDecoder::new(&bytes);
    assert_eq!(decoder.fixed32("a fixed32"), Ok(300));
    assert_eq!(decoder.fixed64("a fixed64"), Ok(300));
    assert_eq!(decoder.varint64("a varint64"), Ok(300));
    assert_eq!(decoder.varint32("a varint32"), Ok(u32::MAX));
    assert_eq!(decoder.length_prefixed_slice("a slice"), Ok(&b"key"[..]));
    assert!(decoder.is_empty());
}

#[test]
fn internal_key() {
    let value = InternalKey::new(b"key", 100, ValueType::Value);
    let deletion = InternalKey::new(b"key", 101, ValueType::Deletion);
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

    let read = validate(&bytes).unwrap();
    let ops = [BatchOp::Put { key: b"apple", value: b"red" }, BatchOp::Delete { key: b"banana" }];
    assert_eq!((read.sequence(), read.iter().collect::<Vec<_>>()), (3, ops.to_vec()));
}

#[test]
fn edit() {
    let apple = InternalKey::new(b"apple", 3, ValueType::Value);
    let cherry = InternalKey::new(b"cherry", 4, ValueType::Value);
    let edit = VersionEdit {
        comparator: None,
        log_number: Some(6),
        prev_log_number: Some(0),
        next_file_number: Some(9),
        last_sequence: Some(4),
        compact_pointers: vec![(1, cherry.clone())],
        deleted_files: vec![(1, 7), (2, 5)],
        new_files: vec![(2, NewFile { number: 8, size: 163, smallest: apple, largest: cherry })],
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
    let policy = Arc::new(BloomFilterPolicy::new(10));
    let mut builder = FilterBlockBuilder::new(TableFilter::BlockBased(policy.clone()));
    builder.start_block(0);
    builder.add(b"hello");
    builder.add(b"world");
    builder.start_block(5000);
    builder.add(b"again");
    let bytes = builder.finish();
    assert_eq!(bytes, example("filter.md"));

    let block = FilterBlockReader::new(policy, bytes);
    assert!(block.may_match(0, b"hello") && block.may_match(0, b"world") && block.may_match(5000, b"again"));
    assert!(!block.may_match(0, b"again") && !block.may_match(5000, b"hello"));
}
