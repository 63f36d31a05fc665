//! A table file whose every part can be bent.

use std::sync::Arc;

use terrace_format::block::BlockBuilder;
use terrace_format::coding::put_fixed32;
use terrace_format::compress::{Codec, NO_COMPRESSION};
use terrace_format::crc;
use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
use terrace_format::filter_block::{FilterBlockBuilder, TableFilter};
use terrace_format::key::{InternalKey, ValueType};
use terrace_format::table::{BlockHandle, Footer};

/// The filter block of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CraftedFilter {
    /// None.
    NoFilter,
    /// LevelDB's own form: one for every 2 KiB of the file.
    PerRange,
    /// One for the whole file: the last byte of the block says that a range is 1 GiB.
    WholeTable,
    /// The same with every bit zero: whoever asks it finds nothing.
    AllBitsZero,
    /// The same with 31 probes, which means that every key may be there.
    ReservedProbeCount,
}

/// A table file to be.
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

/// Says that all keys are in one filter: block offsets are shifted right by this.
const WHOLE_TABLE_BASE_LG: u8 = 30;

impl Default for CraftedTable {
    fn default() -> CraftedTable {
        CraftedTable::new()
    }
}

impl CraftedTable {
    /// No entries, three to a block, no filter, not compressed.
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

    /// Adds a put. Entries come in the order of internal keys.
    pub fn put(mut self, key: &str, sequence: u64, value: &str) -> CraftedTable {
        self.entries.push((InternalKey::new(key.as_bytes(), sequence, ValueType::Value), value.into()));
        self
    }

    /// Adds a delete.
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

    /// Gives the data blocks a type byte that says nothing of what they are.
    pub fn block_type(self, stored_type: u8) -> CraftedTable {
        CraftedTable { block_type: Some(stored_type), ..self }
    }

    /// Adds bytes behind the handle in every value of the index.
    pub fn index_value_suffix(self, extra: &[u8]) -> CraftedTable {
        CraftedTable { index_value_suffix: extra.to_vec(), ..self }
    }

    /// Leaves room between blocks.
    pub fn block_gap(self, gap: usize) -> CraftedTable {
        CraftedTable { block_gap: gap, ..self }
    }

    /// Adds a meta block.
    pub fn meta_block(mut self, name: &str, contents: &[u8]) -> CraftedTable {
        self.meta_blocks.push((name.to_owned(), contents.to_vec()));
        self
    }

    /// Puts bytes in front of the first restart point of every data block.
    pub fn unreachable_prefix(self) -> CraftedTable {
        CraftedTable { unreachable_prefix: true, ..self }
    }

    /// The first and the last internal key.
    pub(super) fn key_range(&self) -> (InternalKey, InternalKey) {
        let first = self.entries.first().expect("a table has entries");
        let last = self.entries.last().expect("a table has entries");
        (first.0.clone(), last.0.clone())
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.entries.iter().map(|(key, _)| key.sequence()).max().unwrap_or(0)
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let handles = self.data_blocks(&mut file);
        let mut metas: Vec<(String, BlockHandle)> = self
            .meta_blocks
            .iter()
            .map(|(name, contents)| (name.clone(), self.store(&mut file, contents, 0)))
            .collect();
        if let Some(filter) = self.filter_block(&handles) {
            metas.push(("filter.leveldb.BuiltinBloomFilter2".into(), self.store(&mut file, &filter, 0)));
        }
        metas.sort_by(|(a, _), (b, _)| a.cmp(b));
        let metas: Vec<_> =
            metas.iter().map(|(name, handle)| (name.as_bytes(), handle_bytes(handle))).collect();
        let metaindex = self.store(&mut file, &block(16, &metas), 0);
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
            let plain =
                if self.unreachable_prefix { hide_head(&block(16, &entries)) } else { block(16, &entries) };
            let mut packed = Vec::new();
            (self.codec.compress)(&plain, &mut packed);
            packed
        });
        blocks.map(|packed| self.store(file, &packed, self.block_type.unwrap_or(self.codec.id))).collect()
    }

    /// Adds a block with its trailer, and room behind it.
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
            chunk.iter().for_each(|(key, _)| builder.add(key.user_key()));
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

/// A filter block of one filter: the filter, its offset 0, where the offsets begin, and the shift.
fn whole_table(filter: Vec<u8>) -> Vec<u8> {
    let mut contents = filter;
    let offsets_at = contents.len() as u32;
    put_fixed32(&mut contents, 0);
    put_fixed32(&mut contents, offsets_at);
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

/// The same block behind eight bytes that no restart point leads to. It must have one restart point, at 0.
fn hide_head(plain: &[u8]) -> Vec<u8> {
    const HEAD: &[u8; 8] = b"\xff\xff\xff\xffhead";
    let entries = &plain[..plain.len() - 8];
    let mut hidden = [HEAD, entries].concat();
    put_fixed32(&mut hidden, HEAD.len() as u32);
    put_fixed32(&mut hidden, 1);
    hidden
}
