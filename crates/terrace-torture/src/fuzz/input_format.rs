//! What inputs look like, as far as their checksums go.
//!
//! A changed input would nearly always stop at its first checksum, and nothing behind it would be tried. So every
//! checksum that can be found in it is made right again ("mended"), most of the time.

use std::sync::Arc;

use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::filename::FileName;
use terrace_format::log::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, LogItem, LogReader};
use terrace_format::table::{BLOCK_TRAILER_SIZE, BlockHandle, FOOTER_SIZE, Footer, TABLE_MAGIC, read_block};
use terrace_format::{DecodeErrorKind, InternalIterator, crc};

use super::archive;

/// A way to look for checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// There are none.
    NoChecksums,
    /// In every fragment.
    Log,
    /// Behind every block.
    Table,
    /// In the logs, manifests and tables of a pack.
    Archive,
}

impl InputFormat {
    /// The form of a file of that name.
    pub fn for_file(name: &str) -> InputFormat {
        match FileName::parse(name) {
            Some(FileName::Log(_) | FileName::Manifest(_)) => InputFormat::Log,
            Some(FileName::Table(_) | FileName::OldTable(_)) => InputFormat::Table,
            _ => InputFormat::NoChecksums,
        }
    }

    /// Makes every checksum right that can be found. Changes no length.
    pub fn fix_checksums(self, input: &mut [u8]) {
        match self {
            InputFormat::NoChecksums => {}
            InputFormat::Log => fix_log_checksums(input),
            InputFormat::Table => fix_table_checksums(input),
            // A pack is mended file by file, before it is packed.
            InputFormat::Archive => {}
        }
    }

    /// Whether a reader meets checksums and finds all of them right. None if such inputs have none.
    pub fn checksums_match(self, input: &[u8]) -> Option<bool> {
        match self {
            InputFormat::NoChecksums => None,
            InputFormat::Log => Some(log_checksums_match(input)),
            InputFormat::Table => Some(table_checksums_match(input)),
            InputFormat::Archive => {
                let files = archive::decode(input);
                let mut with = files
                    .iter()
                    .filter_map(|(name, bytes)| InputFormat::for_file(name).checksums_match(bytes))
                    .peekable();
                with.peek()?;
                Some(with.all(|passes| passes))
            }
        }
    }
}

fn fix_log_checksums(log: &mut [u8]) {
    for block in log.chunks_mut(LOG_BLOCK_SIZE) {
        let mut rest = block;
        while let Some((header, behind)) = rest.split_first_chunk_mut::<FRAGMENT_HEADER_SIZE>() {
            let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
            // Unused room, or a length that can't be: the rest of the block is passed over.
            if header[6] == 0 && len == 0 || len > behind.len() {
                break;
            }
            let (payload, next) = behind.split_at_mut(len);
            let checksum = crc::mask(crc::extend(crc::value(&header[6..]), payload));
            header[..4].copy_from_slice(&checksum.to_le_bytes());
            rest = next;
        }
    }
}

fn log_checksums_match(log: &[u8]) -> bool {
    let (mut reader, mut met) = (LogReader::new(log), false);
    while let Ok(Some(item)) = reader.next() {
        match item {
            LogItem::Corruption { error: flaw, .. } if flaw.kind == DecodeErrorKind::ChecksumMismatch => {
                return false;
            }
            _ => met = true,
        }
    }
    met
}

fn fix_table_checksums(table: &mut [u8]) {
    let len = table.len();
    let Some((_, magic)) = table.split_last_chunk_mut::<8>() else { return };
    *magic = TABLE_MAGIC.to_le_bytes();
    let Ok(footer) = Footer::decode(table, len as u64) else { return };
    for leading in [footer.metaindex, footer.index] {
        for handle in index_handles(table, leading) {
            fix_block_checksum(table, handle);
        }
    }
    // Last, so that a block that lies over one of them does not spoil it again.
    fix_block_checksum(table, footer.metaindex);
    fix_block_checksum(table, footer.index);
}

fn fix_block_checksum(table: &mut [u8], at: BlockHandle) {
    if at.check(table.len() as u64).is_err() {
        return;
    }
    let block = &mut table[at.offset as usize..][..at.size as usize + BLOCK_TRAILER_SIZE];
    let (covered, stored) = block.split_at_mut(at.size as usize + 1);
    stored.copy_from_slice(&crc::mask(crc::value(covered)).to_le_bytes());
}

/// The handles in the values of an index, whatever its checksum.
fn index_handles(table: &[u8], index: BlockHandle) -> Vec<BlockHandle> {
    let limit = table.len().saturating_sub(FOOTER_SIZE) as u64;
    let stored = &table[index.offset as usize..][..index.size as usize + BLOCK_TRAILER_SIZE];
    let Ok(block) = read_block(stored, false).and_then(Block::new) else { return Vec::new() };
    let mut entries = BlockIter::new(Arc::new(block), bytewise());
    let mut handles = Vec::new();
    entries.seek_to_first();
    // A compressed index may have more entries than anybody wants.
    while entries.valid() && handles.len() < 1000 {
        handles.extend(BlockHandle::decode(entries.value()).ok().map(|(handle, _)| handle));
        entries.next();
    }
    handles.retain(|handle| handle.check(limit).is_ok());
    handles
}

fn table_checksums_match(table: &[u8]) -> bool {
    let right = |at: BlockHandle| {
        let block = &table[at.offset as usize..][..at.size as usize + BLOCK_TRAILER_SIZE];
        let (covered, stored) = block.split_at(at.size as usize + 1);
        crc::mask(crc::value(covered)).to_le_bytes() == stored
    };
    let Ok(Footer { metaindex, index }) = Footer::decode(table, table.len() as u64) else { return false };
    right(index) && right(metaindex) && index_handles(table, index).into_iter().all(right)
}

#[cfg(test)]
mod tests {
    use terrace_testkit::crafted::{CraftedFilter, CraftedLog, CraftedTable};

    use super::*;

    /// Changes a byte, which the checksum tells, and mends, after which it does not.
    #[track_caller]
    fn check(form: InputFormat, sound: &[u8], at: usize) {
        assert_eq!(form.checksums_match(sound), Some(true));
        let mut input = sound.to_vec();
        input[at] ^= 1;
        assert_eq!(form.checksums_match(&input), Some(false));
        form.fix_checksums(&mut input);
        assert_eq!(form.checksums_match(&input), Some(true));
        assert_eq!(input[at], sound[at] ^ 1);
    }

    #[test]
    fn log_of_two_blocks() {
        let log = CraftedLog::new().record(b"first").record(&[1; 40_000]).record(b"last");
        for at in [FRAGMENT_HEADER_SIZE, 100, 35_000, log.bytes().len() - 1] {
            check(InputFormat::Log, log.bytes(), at);
        }
    }

    #[test]
    fn table_with_filter() {
        let table =
            CraftedTable::new().put("a", 1, "x").put("b", 2, "y").filter(CraftedFilter::PerRange).encode();
        let footer = Footer::decode(&table, table.len() as u64).expect("a table");
        for at in [0, 5, footer.index.offset as usize + 2] {
            check(InputFormat::Table, &table, at);
        }
    }

    #[test]
    fn valid_input_is_unchanged() {
        let table = CraftedTable::new().put("a", 1, "x").encode();
        let mut mended = table.clone();
        InputFormat::Table.fix_checksums(&mut mended);
        assert_eq!(mended, table);
    }
}
