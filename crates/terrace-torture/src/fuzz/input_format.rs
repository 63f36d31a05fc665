//! Formats of inputs, as far as their checksums are concerned.
//!
//! A changed input would nearly always fail at its first checksum, and the bytes after it would not
//! be tested. So most changed inputs get valid checksums again.

use std::sync::Arc;

use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::filename::FileName;
use terrace_format::log::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, LogItem, LogReader};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, TABLE_MAGIC, read_block};
use terrace_format::{DecodeErrorKind, InternalIterator, crc};

use super::archive;

/// Position of the checksums in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// The input has no checksums.
    NoChecksums,
    /// Each log fragment has a checksum.
    Log,
    /// Each table block has a checksum after it.
    Table,
    /// The logs, MANIFESTs and tables of an archive have checksums.
    Archive,
}

impl InputFormat {
    /// Returns the format of a file with this name.
    pub fn for_file(name: &str) -> InputFormat {
        match FileName::parse(name) {
            Some(FileName::Log(_) | FileName::Manifest(_)) => InputFormat::Log,
            Some(FileName::Table(_) | FileName::OldTable(_)) => InputFormat::Table,
            _ => InputFormat::NoChecksums,
        }
    }

    /// Corrects all checksums that can be found, without a change of length.
    pub fn fix_checksums(self, input: &mut [u8]) {
        match self {
            InputFormat::NoChecksums => {}
            InputFormat::Log => fix_log_checksums(input),
            InputFormat::Table => fix_table_checksums(input),
            // The files of an archive are fixed one by one, before they are encoded.
            InputFormat::Archive => {}
        }
    }

    /// Returns true if a reader finds checksums and all are valid, or None for formats without
    /// checksums.
    pub fn checksums_match(self, input: &[u8]) -> Option<bool> {
        match self {
            InputFormat::NoChecksums => None,
            InputFormat::Log => Some(log_checksums_match(input)),
            InputFormat::Table => Some(table_checksums_match(input)),
            InputFormat::Archive => {
                let files = archive::decode(input);
                let mut matches = files
                    .iter()
                    .filter_map(|(name, bytes)| InputFormat::for_file(name).checksums_match(bytes))
                    .peekable();
                matches.peek()?;
                Some(matches.all(|valid| valid))
            }
        }
    }
}

fn fix_log_checksums(log: &mut [u8]) {
    for block in log.chunks_mut(LOG_BLOCK_SIZE) {
        let mut rest = block;
        while let Some((header, after_header)) = rest.split_first_chunk_mut::<FRAGMENT_HEADER_SIZE>() {
            let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
            // Unused space or an invalid length: a reader skips the rest of the block.
            if header[6] == 0 && len == 0 || len > after_header.len() {
                break;
            }
            let (payload, next) = after_header.split_at_mut(len);
            let checksum = crc::mask(crc::extend(crc::value(&header[6..]), payload));
            header[..4].copy_from_slice(&checksum.to_le_bytes());
            rest = next;
        }
    }
}

fn log_checksums_match(log: &[u8]) -> bool {
    let mut reader = LogReader::new(log);
    let mut found_item = false;
    while let Ok(Some(item)) = reader.next() {
        match item {
            LogItem::Corruption { error, .. } if error.kind == DecodeErrorKind::ChecksumMismatch => {
                return false;
            }
            _ => found_item = true,
        }
    }
    found_item
}

fn fix_table_checksums(table: &mut [u8]) {
    let len = table.len();
    let Some((_, magic)) = table.split_last_chunk_mut::<8>() else { return };
    *magic = TABLE_MAGIC.to_le_bytes();
    let Ok(footer) = Footer::decode(table, len as u64) else { return };
    for index in [footer.metaindex, footer.index] {
        for handle in index_handles(table, index) {
            fix_block_checksum(table, handle);
        }
    }
    // These two come last, because the blocks fixed before may overlap them.
    fix_block_checksum(table, footer.metaindex);
    fix_block_checksum(table, footer.index);
}

fn fix_block_checksum(table: &mut [u8], handle: BlockHandle) {
    if handle.check(table.len() as u64).is_err() {
        return;
    }
    let block = &mut table[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE];
    let (covered, stored) = block.split_at_mut(handle.size as usize + 1);
    stored.copy_from_slice(&crc::mask(crc::value(covered)).to_le_bytes());
}

/// Returns the handles in the values of an index, even if its checksum is wrong.
fn index_handles(table: &[u8], index: BlockHandle) -> Vec<BlockHandle> {
    let limit = table.len().saturating_sub(FOOTER_SIZE) as u64;
    let stored = &table[index.offset as usize..][..index.size as usize + BLOCK_TRAILER_SIZE];
    let Ok(block) = read_block(stored, false).and_then(Block::new) else { return Vec::new() };
    let mut entries = BlockIter::new(Arc::new(block), bytewise());
    let mut handles = Vec::new();
    entries.seek_to_first();
    // A compressed index may have too many entries to check.
    while entries.valid() && handles.len() < 1000 {
        handles.extend(BlockHandle::decode(entries.value()).ok().map(|(handle, _)| handle));
        entries.next();
    }
    handles.retain(|handle| handle.check(limit).is_ok());
    handles
}

fn table_checksums_match(table: &[u8]) -> bool {
    let is_valid = |handle: BlockHandle| {
        let block = &table[handle.offset as usize..][..handle.size as usize + BLOCK_TRAILER_SIZE];
        let (covered, stored) = block.split_at(handle.size as usize + 1);
        crc::mask(crc::value(covered)).to_le_bytes() == stored
    };
    let Ok(Footer { metaindex, index }) = Footer::decode(table, table.len() as u64) else { return false };
    is_valid(index) && is_valid(metaindex) && index_handles(table, index).into_iter().all(is_valid)
}

#[cfg(test)]
mod tests {
    use terrace_testkit::crafted::{CraftedFilter, CraftedLog, CraftedTable};

    use super::*;

    /// Flips a bit, which makes a checksum invalid, and checks that `fix_checksums` corrects it.
    #[track_caller]
    fn check(format: InputFormat, valid: &[u8], offset: usize) {
        assert_eq!(format.checksums_match(valid), Some(true));
        let mut input = valid.to_vec();
        input[offset] ^= 1;
        assert_eq!(format.checksums_match(&input), Some(false));
        format.fix_checksums(&mut input);
        assert_eq!(format.checksums_match(&input), Some(true));
        assert_eq!(input[offset], valid[offset] ^ 1);
    }

    #[test]
    fn log_of_two_blocks() {
        let log = CraftedLog::new().record(b"first").record(&[1; 40_000]).record(b"last");
        for offset in [FRAGMENT_HEADER_SIZE, 100, 35_000, log.bytes().len() - 1] {
            check(InputFormat::Log, log.bytes(), offset);
        }
    }

    #[test]
    fn table_with_filter() {
        let table =
            CraftedTable::new().put("a", 1, "x").put("b", 2, "y").filter(CraftedFilter::PerRange).encode();
        let footer = Footer::decode(&table, table.len() as u64).expect("a table");
        for offset in [0, 5, footer.index.offset as usize + 2] {
            check(InputFormat::Table, &table, offset);
        }
    }

    #[test]
    fn valid_input_is_unchanged() {
        let table = CraftedTable::new().put("a", 1, "x").encode();
        let mut fixed = table.clone();
        InputFormat::Table.fix_checksums(&mut fixed);
        assert_eq!(fixed, table);
    }
}
