//! The worked examples of blocks, tables and logs: made by the code, and read back.

mod common;

use std::sync::Arc;

use common::example;
use terrace_format::block::{Block, BlockBuilder, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::compress;
use terrace_format::filter::Bloom;
use terrace_format::filter_block::Filters;
use terrace_format::log::{BLOCK_SIZE, Framer, HEADER_SIZE, Item, LogReader};
use terrace_format::table::{
    BlockHandle, Counts, Footer, TRAILER_SIZE, TableBuilder, TableOptions, read_block,
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
        filter: Some(Filters::OfRanges(Arc::new(Bloom::new(10)))),
        block_size: 24,
        restart_interval: 16,
        codec: &compress::NONE,
    };
    let mut builder = TableBuilder::new(options, Vec::new());
    for (key, value) in fruit {
        builder.add(key.as_bytes(), value.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    let file = example("table.md");
    assert_eq!(builder.into_inner(), file);

    let block = |handle: BlockHandle| {
        let stored = &file[handle.offset as usize..][..handle.size as usize + TRAILER_SIZE];
        entries(read_block(stored, true).unwrap())
    };
    let footer = Footer::decode(&file, file.len() as u64).unwrap();
    let index = block(footer.index);
    let data = index.iter().flat_map(|(_, handle)| block(BlockHandle::decode(handle).unwrap().0));
    assert_eq!(data.collect::<Vec<_>>(), fruit.map(|(key, value)| (key.into(), value.into())));
    assert_eq!(block(footer.metaindex)[0].0, b"filter.leveldb.BuiltinBloomFilter2");
}

#[test]
fn counts() {
    let counts = Counts { entries: 300, deletes: 2 };
    assert_eq!(counts.encode(), example("table-properties.md"));
    assert_eq!(Counts::decode(&example("table-properties.md")), Some(counts));
}

#[test]
fn log() {
    let (start, record) = (BLOCK_SIZE - 12, b"Hello, log");
    let mut framer = Framer::at(start as u64);
    let bytes: Vec<u8> =
        framer.frame(record, false).flat_map(|part| [&part.header[..], part.payload].concat()).collect();
    assert_eq!(bytes, example("log.md"));

    let before = [1; BLOCK_SIZE - 12 - HEADER_SIZE];
    let before_framed = Framer::at(0).frame(&before, false).next().unwrap();
    let file = [&before_framed.header[..], &before, &bytes].concat();
    let mut reader = LogReader::new(&file[..]);
    assert_eq!(reader.next().unwrap(), Some(Item::Record { offset: 0, data: &before }));
    assert_eq!(reader.next().unwrap(), Some(Item::Record { offset: start as u64, data: record }));
    assert_eq!(reader.next().unwrap(), None);
}
