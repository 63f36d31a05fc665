//! Writes a table, byte for byte as LevelDB does, but for blocks that somebody names.
//!
//! ```text
//!   add  ->  data block  --full-->  file
//!                |                    |
//!                |  last key          |  handle
//!                v                    v
//!             pending index entry  --first key of the next block, or finish-->  index block
//! ```
//!
//! The index entry of a block waits for the first key of the next one, so that its key may be any short one between
//! the two. Data, metaindex and index blocks are packed if that saves more than an eighth; the filter never is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::trailer::encode_block_trailer;
use super::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer};
use crate::block::BlockBuilder;
use crate::comparator::Comparator;
use crate::compress::{self, Codec};
use crate::filter_block::{FilterBlockBuilder, TableFilter};
use crate::key_order::{KeyOrder, common_prefix_len};

/// How a table is written.
#[derive(Clone)]
pub struct TableOptions {
    /// The order of the keys.
    pub comparator: Arc<dyn Comparator>,
    /// What makes the filter; without one the table has none.
    pub filter: Option<TableFilter>,
    /// A data block is full when it has this many bytes or more, before packing.
    pub block_size: usize,
    /// Every so many keys of a data block, one is stored whole. 1 or more.
    pub restart_interval: usize,
    /// What packs the blocks.
    pub codec: &'static Codec,
}

/// A table being written.
///
/// Writes each block with two calls, so that a file behind it wants a buffer. After an error from the file the table
/// is lost: what reached the file is unknown, and nothing may be added.
pub struct TableBuilder<W> {
    options: TableOptions,
    order: KeyOrder,
    block_writer: BlockWriter<W>,
    /// Goes on from block to block, so that it knows the last key of the table.
    data_block: BlockBuilder,
    index_block: BlockBuilder,
    filter_block: Option<FilterBlockBuilder>,
    /// Other blocks for the metaindex, by their names.
    meta_blocks: BTreeMap<String, Vec<u8>>,
    /// The block written last, until its index entry is. The data block is empty meanwhile.
    pending_handle: Option<BlockHandle>,
    num_entries: u64,
}

impl<W: Write> TableBuilder<W> {
    /// A table into `out`, which begins where the file does.
    pub fn new(options: TableOptions, out: W) -> TableBuilder<W> {
        let mut filter = options.filter.clone().map(FilterBlockBuilder::new);
        if let Some(filter) = &mut filter {
            filter.start_block(0);
        }
        TableBuilder {
            block_writer: BlockWriter { out, offset: 0, codec: options.codec, compressed: Vec::new() },
            data_block: BlockBuilder::new(options.restart_interval),
            index_block: BlockBuilder::new(1),
            filter_block: filter,
            meta_blocks: BTreeMap::new(),
            pending_handle: None,
            num_entries: 0,
            order: Arc::clone(&options.comparator).into(),
            options,
        }
    }

    /// Adds an entry. `key` is above every earlier one. Writes a block when that is full.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let same = common_prefix_len(self.data_block.last_key(), key);
        debug_assert!(
            self.is_above_last_key(same, key),
            "{:?} is not above the key before",
            key.escape_ascii().to_string()
        );
        self.append_entry(same, key, value)
    }

    /// As [`TableBuilder::add`], if `key` is above every earlier one. Else nothing changes, and it says false.
    pub fn add_if_greater(&mut self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        let same = common_prefix_len(self.data_block.last_key(), key);
        if !self.is_above_last_key(same, key) {
            return Ok(false);
        }
        self.append_entry(same, key, value).map(|()| true)
    }

    /// Adds a key that has `same` bytes in common with the one before.
    #[inline]
    fn append_entry(&mut self, same: usize, key: &[u8], value: &[u8]) -> io::Result<()> {
        if let Some(handle) = self.pending_handle.take() {
            let mut separator = self.data_block.last_key().to_vec();
            self.options.comparator.shortest_separator(&mut separator, key);
            add_handle(&mut self.index_block, &separator, handle);
        }
        if let Some(filter) = &mut self.filter_block {
            filter.add(key);
        }
        self.data_block.add_with_shared_prefix(same, key, value);
        self.num_entries += 1;
        if self.data_block.size_estimate() >= self.options.block_size {
            self.flush_block()?;
        }
        Ok(())
    }

    /// Goes on with the block size, the restart interval and the codec of `options`: from the next data block on, and for
    /// what [`TableBuilder::finish`] writes. The comparator and the filter stay.
    pub fn change_options(&mut self, options: &TableOptions) -> io::Result<()> {
        self.flush_block()?;
        self.options.block_size = options.block_size;
        self.options.restart_interval = options.restart_interval;
        self.block_writer.codec = options.codec;
        self.data_block.set_restart_interval(options.restart_interval);
        Ok(())
    }

    /// Ends the data block here, unless it is empty.
    pub fn flush_block(&mut self) -> io::Result<()> {
        if self.data_block.is_empty() {
            return Ok(());
        }
        self.pending_handle = Some(self.block_writer.write_block(self.data_block.finish())?);
        self.data_block.reset_keeping_last_key();
        if let Some(filter) = &mut self.filter_block {
            filter.start_block(self.block_writer.offset);
        }
        Ok(())
    }

    /// Gives the table a block that the metaindex calls `name`, with `contents`, which are stored as they are. Readers leave
    /// names alone that they do not know. Another one of the same name is replaced; `filter.` begins those of filters.
    pub fn add_meta_block(&mut self, name: &str, contents: Vec<u8>) {
        self.meta_blocks.insert(name.to_owned(), contents);
    }

    /// Writes what is left of the table. Nothing may be added afterwards. Flushes and syncs nothing.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush_block()?;
        let metaindex = self.write_metaindex()?;
        if let Some(handle) = self.pending_handle.take() {
            let mut successor = self.data_block.last_key().to_vec();
            self.options.comparator.short_successor(&mut successor);
            add_handle(&mut self.index_block, &successor, handle);
        }
        let index = self.block_writer.write_block(self.index_block.finish())?;
        self.block_writer.append(&Footer { metaindex, index }.encode())
    }

    /// The key that was added last; none before the first.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.num_entries > 0).then(|| self.data_block.last_key())
    }

    /// How many entries were added.
    pub fn num_entries(&self) -> u64 {
        self.num_entries
    }

    /// The bytes given to the file so far.
    pub fn file_size(&self) -> u64 {
        self.block_writer.offset
    }

    /// About the bytes that the file would have if it were finished now, without the filter.
    pub fn size_estimate(&self) -> u64 {
        let unwritten = self.data_block.size_estimate() + self.index_block.size_estimate() + FOOTER_SIZE;
        self.block_writer.offset + unwritten as u64
    }

    /// The file.
    pub fn into_inner(self) -> W {
        self.block_writer.out
    }

    /// Writes the filter, if there is one, the other named blocks, and the block that names them.
    fn write_metaindex(&mut self) -> io::Result<BlockHandle> {
        if let (Some(filter), Some(filters)) = (self.filter_block.take(), &self.options.filter) {
            self.meta_blocks.insert(format!("filter.{}", filters.name()), filter.finish());
        }
        let mut metaindex = BlockBuilder::new(self.options.restart_interval);
        for (name, contents) in std::mem::take(&mut self.meta_blocks) {
            let handle = self.block_writer.write_raw_block(&contents, compress::NO_COMPRESSION.id)?;
            add_handle(&mut metaindex, name.as_bytes(), handle);
        }
        self.block_writer.write_block(metaindex.finish())
    }

    /// True if `key`, which has `same` bytes in common with the one before, is above it.
    #[inline]
    fn is_above_last_key(&self, same: usize, key: &[u8]) -> bool {
        self.num_entries == 0
            || self.order.compare_after_prefix(same, self.data_block.last_key(), key).is_lt()
    }
}

fn add_handle(block: &mut BlockBuilder, key: &[u8], handle: BlockHandle) {
    let mut encoded = Vec::with_capacity(20);
    handle.encode(&mut encoded);
    block.add(key, &encoded);
}

/// The file under a table: blocks with their trailers, one behind the other.
struct BlockWriter<W> {
    out: W,
    offset: u64,
    codec: &'static Codec,
    compressed: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Writes a block, packed if that saves more than an eighth.
    fn write_block(&mut self, raw: &[u8]) -> io::Result<BlockHandle> {
        if self.codec.id == compress::NO_COMPRESSION.id {
            return self.write_raw_block(raw, compress::NO_COMPRESSION.id);
        }
        let mut packed = std::mem::take(&mut self.compressed);
        packed.clear();
        (self.codec.compress)(raw, &mut packed);
        let handle = if packed.len() < raw.len() - raw.len() / 8 {
            self.write_raw_block(&packed, self.codec.id)
        } else {
            self.write_raw_block(raw, compress::NO_COMPRESSION.id)
        };
        self.compressed = packed;
        handle
    }

    fn write_raw_block(&mut self, stored: &[u8], id: u8) -> io::Result<BlockHandle> {
        let handle = BlockHandle { offset: self.offset, size: stored.len() as u64 };
        self.append(stored)?;
        self.append(&encode_block_trailer(stored, id))?;
        debug_assert_eq!(self.offset, handle.offset + handle.size + BLOCK_TRAILER_SIZE as u64);
        Ok(handle)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
