//! What inputs look like, as far as their checksums go.
//!
//! A changed input would nearly always stop at its first checksum, and nothing behind it would be tried. So every
//! checksum that can be found in it is made right again ("mended"), most of the time.

use std::sync::Arc;

use terrace_format::block::{Block, BlockIter};
use terrace_format::comparator::bytewise;
use terrace_format::filename::FileName;
use terrace_format::log::{BLOCK_SIZE, HEADER_SIZE, Item, LogReader};
use terrace_format::table::{BlockHandle, FOOTER_SIZE, Footer, MAGIC, TRAILER_SIZE, read_block};
use terrace_format::{FlawKind, crc};

use super::pack;

/// A way to look for checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// There are none.
    Plain,
    /// In every fragment.
    Log,
    /// Behind every block.
    Table,
    /// In the logs, manifests and tables of a pack.
    Pack,
}

impl Form {
    /// The form of a file of that name.
    pub fn of_file(name: &str) -> Form {
        match FileName::parse(name) {
            Some(FileName::Log(_) | FileName::Manifest(_)) => Form::Log,
            Some(FileName::Table(_) | FileName::OldTable(_)) => Form::Table,
            _ => Form::Plain,
        }
    }

    /// Makes every checksum right that can be found. Changes no length.
    pub fn mend(self, input: &mut [u8]) {
        match self {
            Form::Plain => {}
            Form::Log => mend_log(input),
            Form::Table => mend_table(input),
            // A pack is mended file by file, before it is packed.
            Form::Pack => {}
        }
    }

    /// Whether a reader meets checksums and finds all of them right. None if such inputs have none.
    pub fn passes(self, input: &[u8]) -> Option<bool> {
        match self {
            Form::Plain => None,
            Form::Log => Some(log_passes(input)),
            Form::Table => Some(table_passes(input)),
            Form::Pack => {
                let files = pack::decode(input);
                let mut with =
                    files.iter().filter_map(|(name, bytes)| Form::of_file(name).passes(bytes)).peekable();
                with.peek()?;
                Some(with.all(|passes| passes))
            }
        }
    }
}

fn mend_log(log: &mut [u8]) {
    for block in log.chunks_mut(BLOCK_SIZE) {
        let mut rest = block;
        while let Some((header, behind)) = rest.split_first_chunk_mut::<HEADER_SIZE>() {
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

fn log_passes(log: &[u8]) -> bool {
    let (mut reader, mut met) = (LogReader::new(log), false);
    while let Ok(Some(item)) = reader.next() {
        match item {
            Item::Damage { flaw, .. } if flaw.kind == FlawKind::Checksum => return false,
            _ => met = true,
        }
    }
    met
}

fn mend_table(table: &mut [u8]) {
    let len = table.len();
    let Some((_, magic)) = table.split_last_chunk_mut::<8>() else { return };
    *magic = MAGIC.to_le_bytes();
    let Ok(footer) = Footer::decode(table, len as u64) else { return };
    for leading in [footer.metaindex, footer.index] {
        for handle in handles(table, leading) {
            mend_block(table, handle);
        }
    }
    // Last, so that a block that lies over one of them does not spoil it again.
    mend_block(table, footer.metaindex);
    mend_block(table, footer.index);
}

fn mend_block(table: &mut [u8], at: BlockHandle) {
    if at.check(table.len() as u64).is_err() {
        return;
    }
    let block = &mut table[at.offset as usize..][..at.size as usize + TRAILER_SIZE];
    let (covered, stored) = block.split_at_mut(at.size as usize + 1);
    stored.copy_from_slice(&crc::mask(crc::value(covered)).to_le_bytes());
}

/// The handles in the values of an index, whatever its checksum.
fn handles(table: &[u8], index: BlockHandle) -> Vec<BlockHandle> {
    let limit = table.len().saturating_sub(FOOTER_SIZE) as u64;
    let stored = &table[index.offset as usize..][..index.size as usize + TRAILER_SIZE];
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

fn table_passes(table: &[u8]) -> bool {
    let right = |at: BlockHandle| {
        let block = &table[at.offset as usize..][..at.size as usize + TRAILER_SIZE];
        let (covered, stored) = block.split_at(at.size as usize + 1);
        crc::mask(crc::value(covered)).to_le_bytes() == stored
    };
    let Ok(Footer { metaindex, index }) = Footer::decode(table, table.len() as u64) else { return false };
    right(index) && right(metaindex) && handles(table, index).into_iter().all(right)
}

#[cfg(test)]
mod tests {
    use terrace_testkit::fabricate::{Filter, Log, Table};

    use super::*;

    /// Changes a byte, which the checksum tells, and mends, after which it does not.
    #[track_caller]
    fn check(form: Form, sound: &[u8], at: usize) {
        assert_eq!(form.passes(sound), Some(true));
        let mut input = sound.to_vec();
        input[at] ^= 1;
        assert_eq!(form.passes(&input), Some(false));
        form.mend(&mut input);
        assert_eq!(form.passes(&input), Some(true));
        assert_eq!(input[at], sound[at] ^ 1);
    }

    #[test]
    fn a_log_of_two_blocks() {
        let log = Log::new().record(b"first").record(&[1; 40_000]).record(b"last");
        for at in [HEADER_SIZE, 100, 35_000, log.bytes().len() - 1] {
            check(Form::Log, log.bytes(), at);
        }
    }

    #[test]
    fn a_table() {
        let table = Table::new().put("a", 1, "x").put("b", 2, "y").filter(Filter::PerRange).encode();
        let footer = Footer::decode(&table, table.len() as u64).expect("a table");
        for at in [0, 5, footer.index.offset as usize + 2] {
            check(Form::Table, &table, at);
        }
    }

    #[test]
    fn a_sound_input_stays_as_it_is() {
        let table = Table::new().put("a", 1, "x").encode();
        let mut mended = table.clone();
        Form::Table.mend(&mut mended);
        assert_eq!(mended, table);
    }
}
