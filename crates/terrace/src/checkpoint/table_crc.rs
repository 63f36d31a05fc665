//! Checksums of the blocks of a table, compared while the file is read once from its start.
//!
//! ```text
//!   0         block     trailer   block      trailer        size
//!   |----------|----------|--------|-----------|----- .. -----|
//!        pieces of any size -->  CRC-32C up to the trailer, then a comparison with it
//! ```
//!
//! A backup reads each table for its content hash, so the comparison costs only time of the
//! processor. It decompresses no block: `verify` also checks the entries.

use std::path::{Path, PathBuf};

use terrace_env::{AccessMode, Env, RandomAccessFile};
use terrace_format::DecodeError;
use terrace_format::block::BlockIter;
use terrace_format::comparator::bytewise;
use terrace_format::crc;
use terrace_format::table::{BlockHandle, FOOTER_SIZE};

use crate::error::{Corruption, Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;
use crate::table::{read_block, read_footer};

/// Number of bytes of the checksum after a block and its codec.
const CHECKSUM_SIZE: usize = 4;

/// Comparison of all checksums of one table.
pub(super) struct TableChecksums {
    path: PathBuf,
    /// End of the last block that is possible.
    limit: u64,
    /// Data blocks that follow. None after damage, and if the codec of the index is not compiled
    /// in.
    index: Option<BlockIter>,
    /// Other blocks that follow, in descending order of their offsets.
    other_blocks: Vec<BlockHandle>,
    /// Number of bytes read.
    position: u64,
    block: Option<CurrentBlock>,
    damage: Option<Corruption>,
}

/// Block whose bytes are read.
struct CurrentBlock {
    handle: BlockHandle,
    computed: u32,
    /// Checksum of the trailer, of which `stored_len` bytes are read.
    stored: [u8; CHECKSUM_SIZE],
    stored_len: usize,
}

impl TableChecksums {
    /// Reads the index of the table at `path`, which has `size` bytes. Damage is a result of
    /// [`TableChecksums::finish`].
    pub(super) fn new(env: &Env, path: &Path, size: u64) -> Result<TableChecksums> {
        let mut checksums = TableChecksums {
            path: path.to_path_buf(),
            limit: size.saturating_sub(FOOTER_SIZE as u64),
            index: None,
            other_blocks: Vec::new(),
            position: 0,
            block: None,
            damage: None,
        };
        let file = env.fs.open_random_access(path, AccessMode::Pread)?;
        match checksums.read_index(&*file, size) {
            Err(Error::Corruption(damage)) => checksums.damage = Some(damage),
            // The codec of the index is not compiled in.
            Err(Error::NotSupported(_)) => {}
            read => {
                read?;
                checksums.start_block();
            }
        }
        Ok(checksums)
    }

    fn read_index(&mut self, file: &dyn RandomAccessFile, size: u64) -> Result<()> {
        let footer = read_footer(file, &self.path, size)?;
        let index = read_block(file, &self.path, footer.index)?;
        let metaindex = read_block(file, &self.path, footer.metaindex)?;
        let mut names = BlockIter::new(Arc::new(metaindex), bytewise());
        let mut blocks = vec![footer.index, footer.metaindex];
        names.seek_to_first();
        while names.valid() {
            let handle = BlockHandle::decode(names.value());
            let (handle, _) = handle.map_err(|error| Error::from_decode_error(&self.path, &error))?;
            blocks.push(handle);
            names.next();
        }
        names.status().map_err(|error| Error::from_decode_error(&self.path, &error))?;
        blocks.sort_unstable_by_key(|handle| std::cmp::Reverse(handle.offset));
        let mut index = BlockIter::new(Arc::new(index), bytewise());
        index.seek_to_first();
        self.index = Some(index);
        self.other_blocks = blocks;
        Ok(())
    }

    /// Reads the next bytes of the file.
    pub(super) fn update(&mut self, mut piece: &[u8]) {
        while let Some(block) = &mut self.block {
            if piece.is_empty() {
                return;
            }
            let BlockHandle { offset, size } = block.handle;
            // The checksum covers the codec byte after the block.
            let end = offset + size + 1;
            let skipped = offset.saturating_sub(self.position);
            let taken = match self.position.max(offset) {
                _ if skipped > 0 => skipped.min(piece.len() as u64) as usize,
                position if position < end => {
                    let taken = (end - position).min(piece.len() as u64) as usize;
                    block.computed = crc::extend(block.computed, &piece[..taken]);
                    taken
                }
                _ => block.take_stored(piece),
            };
            self.position += taken as u64;
            piece = &piece[taken..];
            if block.stored_len == CHECKSUM_SIZE {
                self.end_block();
            }
        }
        self.position += piece.len() as u64;
    }

    /// Compares the checksums of the current block, and starts the next one.
    fn end_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        let computed = crc::mask(block.computed);
        let stored = u32::from_le_bytes(block.stored);
        if computed != stored {
            let error = DecodeError::checksum_mismatch(0, computed, stored);
            return self.set_damage(block.handle.offset, error.to_string());
        }
        self.start_block();
    }

    /// Starts the block with the smallest offset of those that follow.
    fn start_block(&mut self) {
        let Some(index) = &mut self.index else { return };
        let data = match next_data_block(index) {
            Ok(data) => data,
            Err(error) => return self.set_damage(self.position, format!("index entry: {error}")),
        };
        let other = self.other_blocks.last().copied();
        let is_data = data.is_some_and(|data| other.is_none_or(|other| data.offset < other.offset));
        let Some(handle) = data.filter(|_| is_data).or(other) else { return };
        if is_data {
            index.next();
        } else {
            self.other_blocks.pop();
        }
        if let Err(error) = handle.check(self.limit) {
            return self.set_damage(handle.offset, error.to_string());
        }
        if handle.offset < self.position {
            let message = format!("block at {} overlaps the block before {}", handle.offset, self.position);
            return self.set_damage(handle.offset, message);
        }
        self.block = Some(CurrentBlock { handle, computed: 0, stored: [0; CHECKSUM_SIZE], stored_len: 0 });
    }

    fn set_damage(&mut self, offset: u64, message: String) {
        self.damage = Some(Corruption { path: self.path.clone(), offset: Some(offset), message });
    }

    /// Returns the first damage of the table, whose file is read to its end.
    pub(super) fn finish(mut self) -> Option<Corruption> {
        if let Some(block) = self.block.take() {
            let end = self.position;
            self.set_damage(block.handle.offset, format!("the file ends at {end}, inside of the block"));
        }
        self.damage
    }
}

/// Returns the block of the current entry of `index`.
fn next_data_block(index: &BlockIter) -> std::result::Result<Option<BlockHandle>, DecodeError> {
    if !index.valid() {
        return index.status().map(|()| None);
    }
    BlockHandle::decode(index.value()).map(|(handle, _)| Some(handle))
}

impl CurrentBlock {
    /// Takes bytes of the stored checksum from the start of `piece`, and returns their number.
    fn take_stored(&mut self, piece: &[u8]) -> usize {
        let taken = piece.len().min(CHECKSUM_SIZE - self.stored_len);
        self.stored[self.stored_len..self.stored_len + taken].copy_from_slice(&piece[..taken]);
        self.stored_len += taken;
        taken
    }
}
