//! Worked examples of blocks, tables and logs: the code writes the same bytes and reads them back.

mod common;

use std::sync::Arc;

use common::example;
use terrace_format::InternalIterator;
use terrace_format::block::{Block, BlockBuilder, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::compress;
use terrace_format::filter::BloomFilterPolicy;
use terrace_format::filter_block::TableFilter;
use terrace_format::log::{
    Continuity, FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, LogItem, LogReader, RecordWriter,
};
use terrace_format::table::{
    BLOCK_TRAILER_SIZE, BlockHandle, Footer, TableBuilder, TableOptions, TableProperties, read_block,
};

fn entries(contents: Vec<u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let block = Block::new(contents).expect("the block of an example");
    let mut iter = BlockIter::new(Arc::new(block), bytewise());
    let mut entries = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    entries
}

#[test]
fn block() {
    let fruit = [("apple", "red"), ("apricot", "orange"), ("cherry", "")];
    let mut builder = BlockBuilder::new(2);
    for (key, value) in fruit {
        builder.add(key.as_bytes(), value.as_bytes());
    }
    assert_eq!(builder.finish(), example("block.md"));
    assert_eq!(entries(example("block.md")), fruit.map(|(key, value)| (key.into(), value.into())));
}

#[test]
fn table() {
    let fruit = [("apple", "red"), ("apricot", "orange"), ("cherry", "dark red")];
    let options = TableOptions {
        comparator: bytewise(),
        filter: Some(TableFilter::BlockBased(Arc::new(BloomFilterPolicy::new(10)))),
        block_size: 24,
        restart_interval: 16,
        codec: &compress::NO_COMPRESSION,
        file_name: terrace_format::filename::FileName::Table,
        huge_pages: false,
    };
    let mut builder = TableBuilder::new(options, Vec::new());
    for (key, value) in fruit {
        builder.add(key.as_bytes(), value.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    let file = example("table.md");
    assert_eq!(builder.into_inner(), file);

    let block = |handle: BlockHandle| {
        let stored = &file[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE];
        entries(read_block(stored, true).unwrap())
    };
    let footer = Footer::decode(&file, file.len() as u64).unwrap();
    let index = block(footer.index);
    let data = index.iter().flat_map(|(_, handle)| block(BlockHandle::decode(handle).unwrap().0));
    assert_eq!(data.collect::<Vec<_>>(), fruit.map(|(key, value)| (key.into(), value.into())));
    assert_eq!(block(footer.metaindex)[0].0, b"filter.leveldb.BuiltinBloomFilter2");
}

#[test]
fn table_properties() {
    let properties = TableProperties { num_entries: 300, num_deletions: 2 };
    assert_eq!(properties.encode(), example("table-properties.md"));
    assert_eq!(TableProperties::decode(&example("table-properties.md")), Some(properties));
}

#[test]
fn log() {
    let start = LOG_BLOCK_SIZE - 12;
    let record = b"Hello, log";
    let bytes: Vec<u8> = RecordWriter::resume_at(start as u64)
        .add_record(record)
        .flat_map(|fragment| [&fragment.header[..], fragment.payload].concat())
        .collect();
    assert_eq!(bytes, example("log.md"));

    let before = [1; LOG_BLOCK_SIZE - 12 - FRAGMENT_HEADER_SIZE];
    let fragment = RecordWriter::resume_at(0).add_record(&before).next().unwrap();
    let file = [&fragment.header[..], &before, &bytes].concat();
    let mut reader = LogReader::new(&file[..]);
    assert_eq!(
        reader.next().unwrap(),
        Some(LogItem::Record { offset: 0, continuity: Continuity::Contiguous, data: &before })
    );
    assert_eq!(
        reader.next().unwrap(),
        Some(LogItem::Record { offset: start as u64, continuity: Continuity::Contiguous, data: record })
    );
    assert_eq!(reader.next().unwrap(), None);
}
