//! A table file with unusual but valid properties.

use std::sync::Arc;

use terrace_format::block::BlockBuilder;
use terrace_format::coding::put_fixed32;
use terrace_format::compress::{Codec, NO_COMPRESSION};
use terrace_format::crc;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
use terrace_format::filter_block::{FilterBlockBuilder, TableFilter};
use terrace_format::key::{InternalKey, ValueType};
use terrace_format::table::{BlockHandle, Footer};

/// Filter block of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CraftedFilter {
    /// No filter block.
    NoFilter,
    /// LevelDB's format: one filter for every 2 KiB of the file.
    PerRange,
    /// One filter for the whole file: the last byte of the block sets a range size of 1 GiB.
    WholeTable,
    /// One filter for the whole file with only zero bits, so that it hides all keys.
    AllBitsZero,
    /// One filter for the whole file with 31 probes, which means that every key may be present.
    ReservedProbeCount,
}

/// A table file in memory.
#[derive(Debug, Clone)]
pub struct CraftedTable {
    entries: Vec<(InternalKey, Vec<u8>)>,
    entries_per_block: usize,
    filter: CraftedFilter,
    codec: &'static Codec,
    block_type: Option<u8>,
    index_value_suffix: Vec<u8>,
    block_gap: usize,
    meta_blocks: Vec<(String, Vec<u8>)>,
    unreachable_prefix: bool,
}

/// Shift of block offsets that maps them all to one filter.
const WHOLE_TABLE_BASE_LG: u8 = 30;

impl Default for CraftedTable {
    fn default() -> CraftedTable {
        CraftedTable::new()
    }
}

impl CraftedTable {
    /// Creates a table without entries, filter or compression, and with three entries per block.
    pub fn new() -> CraftedTable {
        CraftedTable {
            entries: Vec::new(),
            entries_per_block: 3,
            filter: CraftedFilter::NoFilter,
            codec: &NO_COMPRESSION,
            block_type: None,
            index_value_suffix: Vec::new(),
            block_gap: 0,
            meta_blocks: Vec::new(),
            unreachable_prefix: false,
        }
    }

    /// Adds a put. The caller adds entries in the order of internal keys.
    pub fn put(mut self, key: &str, sequence: u64, value: &str) -> CraftedTable {
        self.entries.push((InternalKey::new(key.as_bytes(), sequence, ValueType::Value), value.into()));
        self
    }

    /// Adds a tombstone.
    pub fn delete(mut self, key: &str, sequence: u64) -> CraftedTable {
        self.entries.push((InternalKey::new(key.as_bytes(), sequence, ValueType::Deletion), Vec::new()));
        self
    }

    /// Adds a filter block.
    pub fn filter(self, filter: CraftedFilter) -> CraftedTable {
        CraftedTable { filter, ..self }
    }

    /// Compresses the data blocks.
    pub fn codec(self, codec: &'static Codec) -> CraftedTable {
        CraftedTable { codec, ..self }
    }

    /// Sets the type byte of the data blocks without a change of their contents.
    pub fn block_type(self, stored_type: u8) -> CraftedTable {
        CraftedTable { block_type: Some(stored_type), ..self }
    }

    /// Adds bytes after the block handle in each value of the index.
    pub fn index_value_suffix(self, suffix: &[u8]) -> CraftedTable {
        CraftedTable { index_value_suffix: suffix.to_vec(), ..self }
    }

    /// Adds unused bytes between blocks.
    pub fn block_gap(self, gap: usize) -> CraftedTable {
        CraftedTable { block_gap: gap, ..self }
    }

    /// Adds a meta block.
    pub fn meta_block(mut self, name: &str, contents: &[u8]) -> CraftedTable {
        self.meta_blocks.push((name.to_owned(), contents.to_vec()));
        self
    }

    /// Inserts bytes before the first restart point of each data block.
    pub fn unreachable_prefix(self) -> CraftedTable {
        CraftedTable { unreachable_prefix: true, ..self }
    }

    /// Returns the first and the last internal key.
    pub(super) fn key_range(&self) -> (InternalKey, InternalKey) {
        let first = self.entries.first().expect("a table has entries");
        let last = self.entries.last().expect("a table has entries");
        (first.0.clone(), last.0.clone())
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.entries.iter().map(|(key, _)| key.sequence()).max().unwrap_or(0)
    }

    /// Returns the bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let handles = self.data_blocks(&mut file);
        let mut meta_blocks: Vec<(String, BlockHandle)> = self
            .meta_blocks
            .iter()
            .map(|(name, contents)| (name.clone(), self.store(&mut file, contents, 0)))
            .collect();
        if let Some(filter) = self.filter_block(&handles) {
            meta_blocks
                .push(("filter.leveldb.BuiltinBloomFilter2".into(), self.store(&mut file, &filter, 0)));
        }
        meta_blocks.sort_by(|(a, _), (b, _)| a.cmp(b));
        let meta_blocks: Vec<_> =
            meta_blocks.iter().map(|(name, handle)| (name.as_bytes(), handle_bytes(handle))).collect();
        let metaindex = self.store(&mut file, &block(16, &meta_blocks), 0);
        let index: Vec<_> = self
            .chunks()
            .zip(&handles)
            .map(|(chunk, handle)| {
                let last = &chunk.last().expect("a chunk has entries").0;
                (last.as_bytes(), [handle_bytes(handle), self.index_value_suffix.clone()].concat())
            })
            .collect();
        let index = self.store(&mut file, &block(1, &index), 0);
        file.extend_from_slice(&Footer { metaindex, index }.encode());
        file
    }

    fn chunks(&self) -> impl Iterator<Item = &[(InternalKey, Vec<u8>)]> {
        self.entries.chunks(self.entries_per_block)
    }

    fn data_blocks(&self, file: &mut Vec<u8>) -> Vec<BlockHandle> {
        let blocks = self.chunks().map(|chunk| {
            let entries: Vec<_> = chunk.iter().map(|(key, value)| (key.as_bytes(), value.clone())).collect();
            let contents = if self.unreachable_prefix {
                with_unreachable_prefix(&block(16, &entries))
            } else {
                block(16, &entries)
            };
            let mut compressed = Vec::new();
            (self.codec.compress)(&contents, &mut compressed);
            compressed
        });
        blocks
            .map(|compressed| self.store(file, &compressed, self.block_type.unwrap_or(self.codec.id)))
            .collect()
    }

    /// Adds a block with its trailer, and the gap after it.
    fn store(&self, file: &mut Vec<u8>, contents: &[u8], stored_type: u8) -> BlockHandle {
        let handle = BlockHandle { offset: file.len() as u64, size: contents.len() as u64 };
        file.extend_from_slice(contents);
        file.push(stored_type);
        put_fixed32(file, crc::mask(crc::extend(crc::value(contents), &[stored_type])));
        file.resize(file.len() + self.block_gap, 0xa5);
        handle
    }

    fn filter_block(&self, handles: &[BlockHandle]) -> Option<Vec<u8>> {
        match self.filter {
            CraftedFilter::NoFilter => None,
            CraftedFilter::PerRange => Some(self.ranged_filter(handles)),
            CraftedFilter::WholeTable => Some(whole_table(self.bloom())),
            CraftedFilter::AllBitsZero => Some(whole_table(vec![0, 0, 0, 0, 0, 0, 0, 0, 6])),
            CraftedFilter::ReservedProbeCount => {
                let mut bits = self.bloom();
                bits.fill(0);
                bits.pop();
                bits.push(31);
                Some(whole_table(bits))
            }
        }
    }

    fn ranged_filter(&self, handles: &[BlockHandle]) -> Vec<u8> {
        let mut builder =
            FilterBlockBuilder::new(TableFilter::BlockBased(Arc::new(BloomFilterPolicy::new(10))));
        for (chunk, handle) in self.chunks().zip(handles) {
            builder.start_block(handle.offset);
            for (key, _) in chunk {
                builder.add(key.user_key());
            }
        }
        builder.finish()
    }

    fn bloom(&self) -> Vec<u8> {
        let keys: Vec<&[u8]> = self.entries.iter().map(|(key, _)| key.user_key()).collect();
        let mut filter = Vec::new();
        BloomFilterPolicy::new(10).create(&keys, &mut filter);
        filter
    }
}

/// Returns a filter block with one filter: the filter, its offset 0, the position of the offsets,
/// and the shift.
fn whole_table(filter: Vec<u8>) -> Vec<u8> {
    let mut contents = filter;
    let offsets_start = contents.len() as u32;
    put_fixed32(&mut contents, 0);
    put_fixed32(&mut contents, offsets_start);
    contents.push(WHOLE_TABLE_BASE_LG);
    contents
}

fn handle_bytes(handle: &BlockHandle) -> Vec<u8> {
    let mut bytes = Vec::new();
    handle.encode(&mut bytes);
    bytes
}

fn block(restart_interval: usize, entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    builder.finish().to_vec()
}

/// Inserts eight bytes that no restart point refers to before the entries of a block. The block
/// must have one restart point, at 0.
fn with_unreachable_prefix(block: &[u8]) -> Vec<u8> {
    const PREFIX: &[u8; 8] = b"\xff\xff\xff\xffhead";
    let entries = &block[..block.len() - 8];
    let mut bytes = [PREFIX, entries].concat();
    put_fixed32(&mut bytes, PREFIX.len() as u32);
    put_fixed32(&mut bytes, 1);
    bytes
}
