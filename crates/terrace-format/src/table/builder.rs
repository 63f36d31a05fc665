//! Table builder. It writes the same bytes as LevelDB, except for the blocks of `add_meta_block`.
//!
//! ```text
//!   add  ->  data block  --full-->  file
//!                |                    |
//!                |  last key          |  handle
//!                v                    v
//!             pending index entry  --first key of the next block, or finish-->  index block
//! ```
//!
//! The index entry of a block waits for the first key of the next block, so that its key can be any
//! short key between the two. Data, metaindex and index blocks are compressed if that saves more
//! than an eighth of their size. The filter is never compressed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::trailer::encode_block_trailer;
use super::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer};
use crate::block::BlockBuilder;
use crate::comparator::Comparator;
use crate::compress::{self, Codec};
use crate::filename::FileName;
use crate::filter_block::{FilterBlockBuilder, TableFilter};
use crate::key_order::{KeyOrder, common_prefix_len};

/// Size in bytes of an entry or a block for which a builder reserves memory first, so that a
/// refusal of the system is an error. The allocator has spare memory for smaller requests.
const LARGE_REQUEST: usize = 64 << 10;

/// Options of a table builder.
#[derive(Clone)]
pub struct TableOptions {
    /// Order of the keys.
    pub comparator: Arc<dyn Comparator>,
    /// Filter of the table, if it has one.
    pub filter: Option<TableFilter>,
    /// Size of data blocks, in bytes before compression. A block ends when it reaches this size.
    pub block_size: usize,
    /// Number of keys between restart points of data blocks. 1 or more.
    pub restart_interval: usize,
    /// Compression of the blocks.
    pub codec: &'static Codec,
    /// Returns the name of the file of a table. Only the creator of the file uses it.
    pub file_name: fn(u64) -> FileName,
    /// Asks for huge pages of the page cache. Only the creator of the file uses it.
    pub huge_pages: bool,
}

/// Builder of one table file.
///
/// It writes each block with two calls, so the file needs a buffer. After a write error the table
/// is unusable: the caller must not add anything, because the content of the file is unknown.
pub struct TableBuilder<W> {
    options: TableOptions,
    order: KeyOrder,
    block_writer: BlockWriter<W>,
    /// Current data block. It also stores the last key of the table, even if the block is empty.
    data_block: BlockBuilder,
    index_block: BlockBuilder,
    filter_block: Option<FilterBlockBuilder>,
    /// Additional blocks of the metaindex, by name.
    meta_blocks: BTreeMap<String, Vec<u8>>,
    /// Last written data block until its index entry is added. The data block is empty meanwhile.
    pending_handle: Option<BlockHandle>,
    num_entries: u64,
}

impl<W: Write> TableBuilder<W> {
    /// Creates a builder that writes to `out`, which is at the start of the file.
    pub fn new(options: TableOptions, out: W) -> TableBuilder<W> {
        let mut filter = options.filter.clone().map(FilterBlockBuilder::new);
        if let Some(filter) = &mut filter {
            filter.start_block(0);
        }
        TableBuilder {
            block_writer: BlockWriter {
                out,
                offset: 0,
                codec: options.codec,
                compressed: Vec::new(),
                needs_marker: false,
            },
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

    /// Adds an entry and writes the block if it is full. `key` is above all earlier keys.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let same = common_prefix_len(self.data_block.last_key(), key);
        debug_assert!(
            self.is_above_last_key(same, key),
            "{:?} is not above the key before",
            key.escape_ascii().to_string()
        );
        self.append_entry(same, key, value)
    }

    /// Adds an entry like [`TableBuilder::add`] if `key` is above all earlier keys. Otherwise it
    /// changes nothing and returns false.
    pub fn add_if_greater(&mut self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        let same = common_prefix_len(self.data_block.last_key(), key);
        if !self.is_above_last_key(same, key) {
            return Ok(false);
        }
        self.append_entry(same, key, value).map(|()| true)
    }

    /// Adds an entry whose key shares its first `same` bytes with the key before.
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
        if key.len() + value.len() >= LARGE_REQUEST && !self.data_block.try_reserve(key, value) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.data_block.add_with_shared_prefix(same, key, value);
        self.num_entries += 1;
        if self.data_block.size_estimate() >= self.options.block_size {
            self.flush_block()?;
        }
        Ok(())
    }

    /// Replaces block size, restart interval and codec, from the next data block on. The comparator
    /// and the filter stay.
    pub fn change_options(&mut self, options: &TableOptions) -> io::Result<()> {
        self.flush_block()?;
        self.options.block_size = options.block_size;
        self.options.restart_interval = options.restart_interval;
        self.block_writer.codec = options.codec;
        self.data_block.set_restart_interval(options.restart_interval);
        Ok(())
    }

    /// Ends the current data block and writes it, unless it is empty.
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

    /// Adds an uncompressed block under `name` in the metaindex, or replaces the block of this
    /// name.
    ///
    /// Readers ignore unknown names. The prefix `filter.` is reserved for filters.
    pub fn add_meta_block(&mut self, name: &str, contents: Vec<u8>) {
        self.meta_blocks.insert(name.to_owned(), contents);
    }

    /// Writes the remaining blocks and the footer. The caller must not add anything afterwards, and
    /// it flushes and syncs the file itself.
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

    /// Returns the last added key.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.num_entries > 0).then(|| self.data_block.last_key())
    }

    /// Returns the number of added entries.
    pub fn num_entries(&self) -> u64 {
        self.num_entries
    }

    /// Returns true if a written block has a codec that [needs a marker](Codec::needs_marker) in
    /// its database.
    pub fn needs_marker(&self) -> bool {
        self.block_writer.needs_marker
    }

    /// Returns the number of bytes written to the file so far.
    pub fn file_size(&self) -> u64 {
        self.block_writer.offset
    }

    /// Estimates the size of the file after `finish`, in bytes, without the filter.
    pub fn size_estimate(&self) -> u64 {
        let unwritten = self.data_block.size_estimate() + self.index_block.size_estimate() + FOOTER_SIZE;
        self.block_writer.offset + unwritten as u64
    }

    /// Returns the file.
    pub fn into_inner(self) -> W {
        self.block_writer.out
    }

    /// Writes the filter block, the additional blocks and the metaindex.
    fn write_metaindex(&mut self) -> io::Result<BlockHandle> {
        if let (Some(builder), Some(filter)) = (self.filter_block.take(), &self.options.filter) {
            self.meta_blocks.insert(format!("filter.{}", filter.name()), builder.finish());
        }
        let mut metaindex = BlockBuilder::new(self.options.restart_interval);
        for (name, contents) in std::mem::take(&mut self.meta_blocks) {
            let handle = self.block_writer.write_raw_block(&contents, compress::NO_COMPRESSION.id)?;
            add_handle(&mut metaindex, name.as_bytes(), handle);
        }
        self.block_writer.write_block(metaindex.finish())
    }

    /// Returns true if `key`, which shares its first `same` bytes with the last key, is above it.
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

/// Writer of consecutive blocks with their trailers.
struct BlockWriter<W> {
    out: W,
    offset: u64,
    codec: &'static Codec,
    compressed: Vec<u8>,
    /// True if a block was written that needs the marker.
    needs_marker: bool,
}

impl<W: Write> BlockWriter<W> {
    /// Writes a block, compressed if that saves more than an eighth.
    fn write_block(&mut self, raw: &[u8]) -> io::Result<BlockHandle> {
        if self.codec.id == compress::NO_COMPRESSION.id {
            return self.write_raw_block(raw, compress::NO_COMPRESSION.id);
        }
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.clear();
        // More than any codec needs.
        if raw.len() >= LARGE_REQUEST && compressed.try_reserve(raw.len() + raw.len() / 4).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        (self.codec.compress)(raw, &mut compressed);
        let handle = if compressed.len() < raw.len() - raw.len() / 8 {
            self.needs_marker |= self.codec.needs_marker;
            self.write_raw_block(&compressed, self.codec.id)
        } else {
            self.write_raw_block(raw, compress::NO_COMPRESSION.id)
        };
        self.compressed = compressed;
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
