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

use super::trailer::trailer;
use super::{BlockHandle, FOOTER_SIZE, Footer, TRAILER_SIZE};
use crate::block::BlockBuilder;
use crate::comparator::Comparator;
use crate::compress::{self, Codec};
use crate::filter_block::{FilterBlockBuilder, Filters};
use crate::order::{Order, common_prefix};

/// How a table is written.
#[derive(Clone)]
pub struct TableOptions {
    /// The order of the keys.
    pub comparator: Arc<dyn Comparator>,
    /// What makes the filter; without one the table has none.
    pub filter: Option<Filters>,
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
    order: Order,
    blocks: BlockWriter<W>,
    /// Goes on from block to block, so that it knows the last key of the table.
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<FilterBlockBuilder>,
    /// Other blocks for the metaindex, by their names.
    named: BTreeMap<String, Vec<u8>>,
    /// The block written last, until its index entry is. The data block is empty meanwhile.
    pending: Option<BlockHandle>,
    entries: u64,
}

impl<W: Write> TableBuilder<W> {
    /// A table into `out`, which begins where the file does.
    pub fn new(options: TableOptions, out: W) -> TableBuilder<W> {
        let mut filter = options.filter.clone().map(FilterBlockBuilder::new);
        if let Some(filter) = &mut filter {
            filter.start_block(0);
        }
        TableBuilder {
            blocks: BlockWriter { out, offset: 0, codec: options.codec, packed: Vec::new() },
            data: BlockBuilder::new(options.restart_interval),
            index: BlockBuilder::new(1),
            filter,
            named: BTreeMap::new(),
            pending: None,
            entries: 0,
            order: Arc::clone(&options.comparator).into(),
            options,
        }
    }

    /// Adds an entry. `key` is above every earlier one. Writes a block when that is full.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let same = common_prefix(self.data.last_key(), key);
        debug_assert!(
            self.rises(same, key),
            "{:?} is not above the key before",
            key.escape_ascii().to_string()
        );
        self.append(same, key, value)
    }

    /// As [`TableBuilder::add`], if `key` is above every earlier one. Else nothing changes, and it says false.
    pub fn add_above(&mut self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        let same = common_prefix(self.data.last_key(), key);
        if !self.rises(same, key) {
            return Ok(false);
        }
        self.append(same, key, value).map(|()| true)
    }

    /// Adds a key that has `same` bytes in common with the one before.
    #[inline]
    fn append(&mut self, same: usize, key: &[u8], value: &[u8]) -> io::Result<()> {
        if let Some(handle) = self.pending.take() {
            let mut separator = self.data.last_key().to_vec();
            self.options.comparator.shortest_separator(&mut separator, key);
            add_handle(&mut self.index, &separator, handle);
        }
        if let Some(filter) = &mut self.filter {
            filter.add(key);
        }
        self.data.add_sharing(same, key, value);
        self.entries += 1;
        if self.data.size_estimate() >= self.options.block_size {
            self.flush_block()?;
        }
        Ok(())
    }

    /// Goes on with the block size, the restart interval and the codec of `options`: from the next data block on, and for
    /// what [`TableBuilder::finish`] writes. The comparator and the filter stay.
    pub fn set_blocks(&mut self, options: &TableOptions) -> io::Result<()> {
        self.flush_block()?;
        self.options.block_size = options.block_size;
        self.options.restart_interval = options.restart_interval;
        self.blocks.codec = options.codec;
        self.data.set_restart_interval(options.restart_interval);
        Ok(())
    }

    /// Ends the data block here, unless it is empty.
    pub fn flush_block(&mut self) -> io::Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        self.pending = Some(self.blocks.write(self.data.finish())?);
        self.data.go_on();
        if let Some(filter) = &mut self.filter {
            filter.start_block(self.blocks.offset);
        }
        Ok(())
    }

    /// Gives the table a block that the metaindex calls `name`, with `contents`, which are stored as they are. Readers leave
    /// names alone that they do not know. Another one of the same name is replaced; `filter.` begins those of filters.
    pub fn add_named(&mut self, name: &str, contents: Vec<u8>) {
        self.named.insert(name.to_owned(), contents);
    }

    /// Writes what is left of the table. Nothing may be added afterwards. Flushes and syncs nothing.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush_block()?;
        let metaindex = self.write_metaindex()?;
        if let Some(handle) = self.pending.take() {
            let mut successor = self.data.last_key().to_vec();
            self.options.comparator.short_successor(&mut successor);
            add_handle(&mut self.index, &successor, handle);
        }
        let index = self.blocks.write(self.index.finish())?;
        self.blocks.append(&Footer { metaindex, index }.encode())
    }

    /// The key that was added last; none before the first.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.entries > 0).then(|| self.data.last_key())
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The bytes given to the file so far.
    pub fn file_size(&self) -> u64 {
        self.blocks.offset
    }

    /// About the bytes that the file would have if it were finished now, without the filter.
    pub fn size_estimate(&self) -> u64 {
        let unwritten = self.data.size_estimate() + self.index.size_estimate() + FOOTER_SIZE;
        self.blocks.offset + unwritten as u64
    }

    /// The file.
    pub fn into_inner(self) -> W {
        self.blocks.out
    }

    /// Writes the filter, if there is one, the other named blocks, and the block that names them.
    fn write_metaindex(&mut self) -> io::Result<BlockHandle> {
        if let (Some(filter), Some(filters)) = (self.filter.take(), &self.options.filter) {
            self.named.insert(format!("filter.{}", filters.name()), filter.finish());
        }
        let mut metaindex = BlockBuilder::new(self.options.restart_interval);
        for (name, contents) in std::mem::take(&mut self.named) {
            let handle = self.blocks.write_raw(&contents, compress::NONE.id)?;
            add_handle(&mut metaindex, name.as_bytes(), handle);
        }
        self.blocks.write(metaindex.finish())
    }

    /// True if `key`, which has `same` bytes in common with the one before, is above it.
    #[inline]
    fn rises(&self, same: usize, key: &[u8]) -> bool {
        self.entries == 0 || self.order.compare_behind(same, self.data.last_key(), key).is_lt()
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
    packed: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Writes a block, packed if that saves more than an eighth.
    fn write(&mut self, raw: &[u8]) -> io::Result<BlockHandle> {
        if self.codec.id == compress::NONE.id {
            return self.write_raw(raw, compress::NONE.id);
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        (self.codec.pack)(raw, &mut packed);
        let handle = if packed.len() < raw.len() - raw.len() / 8 {
            self.write_raw(&packed, self.codec.id)
        } else {
            self.write_raw(raw, compress::NONE.id)
        };
        self.packed = packed;
        handle
    }

    fn write_raw(&mut self, stored: &[u8], id: u8) -> io::Result<BlockHandle> {
        let handle = BlockHandle { offset: self.offset, size: stored.len() as u64 };
        self.append(stored)?;
        self.append(&trailer(stored, id))?;
        debug_assert_eq!(self.offset, handle.offset + handle.size + TRAILER_SIZE as u64);
        Ok(handle)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
