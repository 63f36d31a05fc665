//! Records of a disk, and images of the disk after a power cut.
//!
//! ```text
//!   write  write  flush  write  write  write | write  flush
//!   \--- durable ----/   \---- volatile ---/ cut
//! ```
//!
//! A flush makes all earlier writes durable. Of the later ones, any blocks survive.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use terrace_testkit::rng::Rng;

/// Unit of writes that survives as a whole. Disks guarantee 512 bytes, but file systems on disks
/// with such sectors are not better tested than those on disks with sectors of 4,096 bytes.
const BLOCK_SIZE: u64 = 4096;

const HEADER_SIZE: usize = 24;
const WRITE_TAG: u64 = 1;
const FLUSH_TAG: u64 = 2;

/// First bytes of a record. A write has its data after them.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordHeader {
    Write { offset: u64, len: u64 },
    Flush,
}

impl RecordHeader {
    pub(super) fn encode(self) -> [u8; HEADER_SIZE] {
        let fields = match self {
            RecordHeader::Write { offset, len } => [WRITE_TAG, offset, len],
            RecordHeader::Flush => [FLUSH_TAG, 0, 0],
        };
        let mut bytes = [0; HEADER_SIZE];
        for (field, to) in fields.iter().zip(bytes.chunks_exact_mut(8)) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

#[derive(Debug)]
enum Record {
    Write { offset: u64, data: Vec<u8> },
    Flush,
}

impl Record {
    fn is_flush(&self) -> bool {
        matches!(self, Record::Flush)
    }
}

/// All writes and flushes of a disk, in order.
#[derive(Debug)]
pub(super) struct Records {
    records: Vec<Record>,
    /// Position in the file after each record.
    ends: Vec<u64>,
}

impl Records {
    pub(super) fn read(path: &Path) -> Result<Records, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut records = Records { records: Vec::new(), ends: Vec::new() };
        let mut rest = bytes.as_slice();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_SIZE>() {
            let field = |index: usize| {
                let mut field = [0; 8];
                field.copy_from_slice(&header[8 * index..8 * index + 8]);
                u64::from_le_bytes(field)
            };
            let len = field(2) as usize;
            let (Some(data), Some(after)) = (after.get(..len), after.get(len..)) else { break };
            rest = after;
            records.records.push(match field(0) {
                FLUSH_TAG => Record::Flush,
                _ => Record::Write { offset: field(1), data: data.to_vec() },
            });
            records.ends.push((bytes.len() - rest.len()) as u64);
        }
        Ok(records)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of flushes.
    pub(super) fn flushes(&self) -> u64 {
        self.records.iter().filter(|record| record.is_flush()).count() as u64
    }

    /// Returns the number of records up to a position in the file.
    pub(super) fn count_up_to(&self, position: u64) -> usize {
        self.ends.partition_point(|&end| end <= position)
    }

    /// Returns a number of records, at least `min`, after which the power is cut. Half of the cuts
    /// are before a flush, where the most writes are volatile.
    pub(super) fn draw_cut(&self, rng: &mut Rng, min: usize) -> usize {
        let cut = min + rng.below((self.len() - min) as u64 + 1) as usize;
        if rng.one_in(2) {
            return cut;
        }
        let flush = self.records[cut..].iter().position(Record::is_flush);
        flush.map_or(cut, |distance| cut + distance)
    }

    /// Applies the records before `cut` to a copy of the first image. Returns a description of the
    /// surviving writes.
    pub(super) fn cut_power(&self, image: &File, cut: usize, rng: &mut Rng) -> std::io::Result<String> {
        let before = &self.records[..cut];
        let durable = before.iter().rposition(Record::is_flush).unwrap_or(0);
        for record in &before[..durable] {
            write_blocks(image, record, |_| true)?;
        }
        let volatile = &before[durable..];
        let survival = Survival::draw(rng, volatile.len());
        for (index, record) in volatile.iter().enumerate() {
            let is_whole = survival.keeps_write(index, rng);
            write_blocks(image, record, |_| is_whole.unwrap_or_else(|| rng.one_in(2)))?;
        }
        Ok(format!("{durable} durable records, {} volatile, {survival:?}", volatile.len()))
    }
}

/// Writes the surviving blocks of a record to an image.
fn write_blocks(image: &File, record: &Record, mut survives: impl FnMut(u64) -> bool) -> std::io::Result<()> {
    let Record::Write { offset, data } = record else { return Ok(()) };
    let mut at = *offset;
    let mut rest = data.as_slice();
    while !rest.is_empty() {
        let len = ((BLOCK_SIZE - at % BLOCK_SIZE) as usize).min(rest.len());
        let (part, after) = rest.split_at(len);
        if survives(at) {
            image.write_all_at(part, at)?;
        }
        at += len as u64;
        rest = after;
    }
    Ok(())
}

/// Kind of writes that survive without a flush.
#[derive(Debug, Clone, Copy)]
enum Survival {
    All,
    Nothing,
    /// One write in this many is lost.
    Most(u64),
    /// One write in this many survives.
    Few(u64),
    /// All but one.
    AllBut(usize),
    /// Each block survives or not.
    Blocks,
}

impl Survival {
    fn draw(rng: &mut Rng, writes: usize) -> Survival {
        match rng.below(8) {
            0 => Survival::All,
            1 => Survival::Nothing,
            2 => Survival::Most(2 + rng.below(6)),
            3 => Survival::Few(2 + rng.below(6)),
            4 => Survival::AllBut(rng.below(writes as u64 + 1) as usize),
            _ => Survival::Blocks,
        }
    }

    /// Returns whether a write survives, or `None` if each block decides.
    fn keeps_write(self, index: usize, rng: &mut Rng) -> Option<bool> {
        match self {
            Survival::All => Some(true),
            Survival::Nothing => Some(false),
            Survival::Most(n) => Some(!rng.one_in(n)),
            Survival::Few(n) => Some(rng.one_in(n)),
            Survival::AllBut(lost) => Some(index != lost),
            Survival::Blocks => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Writes four blocks, flushes, overwrites the first two, and flushes.
    fn recorded(path: &Path) -> Records {
        let mut file = File::create(path).unwrap();
        for (offset, len, byte) in [(0, 16384, 1), (0, 0, 0), (0, 8192, 2), (0, 0, 0)] {
            let header = if len == 0 { RecordHeader::Flush } else { RecordHeader::Write { offset, len } };
            file.write_all(&header.encode()).unwrap();
            file.write_all(&vec![byte; len as usize]).unwrap();
        }
        Records::read(path).unwrap()
    }

    #[test]
    fn flushed_writes_survive_and_later_blocks_may() {
        let dir = tempfile::tempdir().unwrap();
        let records = recorded(&dir.path().join("records"));
        assert_eq!((records.len(), records.flushes()), (4, 2));
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let path = dir.path().join("image");
            let image = File::create(&path).unwrap();
            records.cut_power(&image, 3, &mut Rng::new(seed)).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes[8192..], [1; 8192]);
            assert!(bytes.chunks(4096).all(|block| block.iter().all(|byte| *byte == block[0])));
            found.insert([bytes[0], bytes[4096]]);
        }
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [[1, 1], [1, 2], [2, 1], [2, 2]]);
    }

    #[test]
    fn positions_count_complete_records() {
        let dir = tempfile::tempdir().unwrap();
        let records = recorded(&dir.path().join("records"));
        let first = HEADER_SIZE as u64 + 16384;
        assert_eq!(records.count_up_to(first - 1), 0);
        assert_eq!(records.count_up_to(first), 1);
        assert_eq!(records.count_up_to(first + HEADER_SIZE as u64), 2);
    }
}
