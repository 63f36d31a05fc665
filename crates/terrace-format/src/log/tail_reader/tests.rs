//! Logs in every state that a writer leaves while it runs. One reader reads all states in order.

use super::*;
use crate::log::RecordWriter;

/// Returns the log of `records`, which begin with their numbers.
fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
    log_from(0, records)
}

/// Returns the bytes from `start` on of a log in which `records` follow `start`.
fn log_from(start: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = RecordWriter::resume_at(start);
    let mut bytes = Vec::new();
    for record in records {
        for fragment in writer.add_record(record) {
            fragment.append_to(&mut bytes, start);
        }
    }
    bytes
}

/// Returns record `number` with a content of `len` bytes.
fn record(number: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![number];
    bytes.extend((0..len).map(|at| (at * 7 + usize::from(number)) as u8));
    bytes
}

/// Reader of numbered records. Record 0 is a close marker.
struct Numbered {
    reader: TailReader,
    next: u8,
    reads: usize,
}

impl Numbered {
    fn new() -> Numbered {
        Numbered { reader: TailReader::new(), next: 1, reads: 0 }
    }

    /// Reads all records of `file` that follow, and returns their offsets.
    #[track_caller]
    fn read(&mut self, file: &[u8], records: &[Vec<u8>]) -> Vec<u64> {
        let mut offsets = Vec::new();
        loop {
            let next = self.next;
            let mut read_at = |offset: u64, buf: &mut [u8]| {
                self.reads += 1;
                let rest = file.get(offset as usize..).unwrap_or_default();
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            };
            let mut verdict = |data: &[u8]| match data.first() {
                Some(0) => TailVerdict::Marker,
                Some(number) if *number == next => TailVerdict::Next,
                _ => TailVerdict::Other,
            };
            match self.reader.next(&mut read_at, &mut verdict).unwrap() {
                TailItem::Record { offset, data } => {
                    assert_eq!(data, records[usize::from(self.next) - 1], "record {next}");
                    offsets.push(offset);
                    self.next += 1;
                }
                TailItem::Other { .. } | TailItem::End => return offsets,
            }
        }
    }
}

/// Records whose ends meet each place of a block, and one of several blocks.
fn varied_records() -> Vec<Vec<u8>> {
    let block = LOG_BLOCK_SIZE;
    // The second record leaves 0 to 8 bytes of its block in the different variants below.
    vec![record(1, 20), record(2, block - 7 - 21 - 7 - 1), record(3, 5), record(4, block + 100), record(5, 0)]
}

/// A log that is appended, cut at each byte. Each record appears with its last byte.
#[test]
fn appended_log_cut_at_each_byte() {
    for left in 0..9 {
        let mut records = varied_records();
        let len = records[1].len();
        records[1].truncate(len - left);
        let file = log_of(&records);
        let ends: Vec<usize> = (1..=records.len()).map(|count| log_of(&records[..count]).len()).collect();
        let mut reader = Numbered::new();
        for len in 0..=file.len() {
            let is_near_end = ends.iter().any(|end| len.abs_diff(*end) < 40);
            if left > 0 && len % LOG_BLOCK_SIZE >= 40 && !is_near_end {
                continue;
            }
            reader.read(&file[..len], &records);
            let whole = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(usize::from(reader.next) - 1, whole, "{left} bytes left, cut at {len}");
        }
    }
}

/// A mapped log, whose unwritten bytes are zeros: each fragment is stored body first, then its head
/// without four bytes, then those four.
#[test]
fn mapped_log_in_each_part_of_a_store() {
    for left in 0..9 {
        let mut records = varied_records();
        let len = records[1].len();
        records[1].truncate(len - left);
        let mut file = vec![0; log_of(&records).len().next_multiple_of(LOG_BLOCK_SIZE)];
        let mut writer = RecordWriter::resume_at(0);
        let mut reader = Numbered::new();
        for (index, content) in records.iter().enumerate() {
            for fragment in writer.add_record(content) {
                let at = fragment.offset as usize;
                let body = at + FRAGMENT_HEADER_SIZE;
                for (place, bytes) in
                    [(body, fragment.payload), (at, &fragment.header[..3]), (at + 3, &fragment.header[3..])]
                {
                    reader.read(&file, &records);
                    assert_eq!(usize::from(reader.next) - 1, index, "before offset {place}");
                    // Halves, as a reader on another processor may see them.
                    let half = bytes.len() / 2;
                    file[place..place + half].copy_from_slice(&bytes[..half]);
                    reader.read(&file, &records);
                    file[place + half..place + bytes.len()].copy_from_slice(&bytes[half..]);
                }
            }
            reader.read(&file, &records);
            assert_eq!(usize::from(reader.next) - 1, index + 1);
        }
    }
}

/// A preallocated end of any length never hides a record and is never taken for one.
#[test]
fn zeros_after_the_last_record() {
    let records = [record(1, 100), record(2, 40_000), record(3, 3)];
    let file = log_of(&records);
    for cut in [0, 50, 107, 108, 20_000, 32_768, 33_000, file.len()] {
        for zeros in [0, 1, 6, 7, 8, 1000, 32_767, 32_768, 300_000] {
            let mut reader = Numbered::new();
            let mut first = file[..cut].to_vec();
            first.resize(cut + zeros, 0);
            reader.read(&first, &records);
            reader.read(&file, &records);
            assert_eq!(reader.next, 4, "cut at {cut}, {zeros} zeros");
        }
    }
}

/// Another program continues the log after the zeros that a killed writer has left.
#[test]
fn skipped_rest_of_blocks() {
    let records = [record(1, 100), record(2, 50_000), record(3, 9)];
    for blocks in [1, 2, 8, 9, MAX_SKIPPED_BLOCKS] {
        for torn in [0, 1, 6, 7, 30] {
            let mut file = log_of(&records[..1]);
            let rest = log_from(file.len() as u64, &records[1..]);
            file.extend_from_slice(&rest[..torn]);
            let mut reader = Numbered::new();
            assert_eq!(reader.read(&file, &records), [0]);
            file.resize(blocks as usize * LOG_BLOCK_SIZE, 0);
            assert_eq!(reader.read(&file, &records), []);
            let start = file.len() as u64;
            file.extend(log_from(start, &records[1..]));
            assert_eq!(reader.read(&file, &records)[0], start, "{blocks} blocks, {torn} torn bytes");
            assert_eq!(reader.next, 4);
        }
    }
}

/// A record at the start of a later block is no reason to skip one that is complete by now.
#[test]
fn skipped_bytes_are_read_again() {
    let records = [record(1, 32_000), record(2, 500), record(3, 40_000)];
    let whole = log_of(&records);
    let second = log_of(&records[..1]).len();
    let mut reader = Numbered::new();
    let mut old = whole.clone();
    old[second..second + 400].fill(0);
    let mut reads = 0;
    loop {
        let mut read_at = |offset: u64, buf: &mut [u8]| {
            // The second record becomes visible after it was read for the first time.
            reads += 1;
            let file = if reads < 4 { &old } else { &whole };
            let rest = file.get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        };
        let next = reader.next;
        // Accepts gaps, as in a log of LevelDB.
        let mut verdict = |data: &[u8]| if data[0] >= next { TailVerdict::Next } else { TailVerdict::Other };
        let TailItem::Record { data, .. } = reader.reader.next(&mut read_at, &mut verdict).unwrap() else {
            break;
        };
        assert_eq!(data[0], next);
        reader.next = data[0] + 1;
    }
    assert_eq!(reader.next, 4);
}

/// The next run replaces a close marker. A marker that another program has left is skipped.
#[test]
fn close_marker() {
    let records = [record(1, 100), record(2, 50_000)];
    let closed = log_of(&[records[0].clone(), record(0, 11)]);
    let mut replaced = Numbered::new();
    assert_eq!(replaced.read(&closed, &records), [0]);
    assert_eq!(replaced.read(&log_of(&records), &records), [108]);
    let continued = log_of(&[records[0].clone(), record(0, 11), records[1].clone()]);
    for zeros in [0, 40_000] {
        let mut skipped = Numbered::new();
        let mut file = closed.clone();
        file.resize(closed.len() + zeros, 0);
        assert_eq!(skipped.read(&file, &records), [0]);
        assert_eq!(skipped.read(&file, &records), []);
        assert_eq!(skipped.read(&continued, &records), [closed.len() as u64]);
    }
}

/// LevelDB stores a record for each empty batch.
#[test]
fn several_markers() {
    let records = [record(1, 100), record(2, 50_000)];
    let markers: Vec<_> = (0..2000).map(|_| record(0, 11)).collect();
    let parts = [&records[..1], &markers[..], &records[1..]].concat();
    let file = log_of(&parts);
    let mut reader = Numbered::new();
    for len in (0..file.len()).step_by(997) {
        reader.read(&file[..len], &records);
    }
    assert_eq!(reader.reader.end_offset(), log_of(&parts[..2000]).len() as u64, "before the last marker");
    reader.read(&file, &records);
    assert_eq!(reader.next, 3);
}

/// A whole record that is not the next one is reported, and read again later.
#[test]
fn other_record() {
    let records = [record(1, 100), record(2, 3), record(3, 3)];
    let gap = log_of(&[records[0].clone(), records[2].clone()]);
    let mut reader = Numbered::new();
    assert_eq!(reader.read(&gap, &records), [0]);
    assert_eq!(reader.read(&log_of(&records), &records).len(), 2);
}

/// A value may contain a log. Its records are inside of a record, and are never taken.
#[test]
fn value_that_contains_a_log() {
    let inner = log_of(&[record(2, 10), record(2, 20)]);
    let mut outer = record(1, 0);
    while outer.len() < 3 * LOG_BLOCK_SIZE {
        outer.extend_from_slice(&inner);
    }
    let records = [outer, record(2, 1)];
    let file = log_of(&records);
    let mut reader = Numbered::new();
    for len in (0..file.len()).step_by(13) {
        let mut torn = file[..len].to_vec();
        torn.resize(file.len().next_multiple_of(LOG_BLOCK_SIZE), 0);
        reader.read(&torn, &records);
        assert_eq!(reader.next, 1 + u8::from(len >= file.len() - 9), "cut at {len}");
    }
    reader.read(&file, &records);
    assert_eq!(reader.next, 3);
}

/// Any byte may be wrong for a while.
#[test]
fn flipped_bytes() {
    let records = [record(1, 100), record(2, 33_000), record(3, 3)];
    let file = log_of(&records);
    for at in (0..200).chain(32_700..32_900).chain(file.len() - 60..file.len()) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x41;
        let mut reader = Numbered::new();
        reader.read(&damaged, &records);
        reader.read(&file, &records);
        assert_eq!(reader.next, 4, "byte {at}");
    }
}

/// A reader at the end of a preallocated log makes a few short reads.
#[test]
fn cost_at_the_end() {
    let records = [record(1, 100)];
    let mut file = log_of(&records);
    file.resize(256 << 10, 0);
    let mut reader = Numbered::new();
    reader.read(&file, &records);
    reader.reads = 0;
    reader.read(&file, &records);
    assert!(reader.reads <= 20, "{} reads", reader.reads);
}

#[test]
fn failed_read_keeps_the_position() {
    let records = [record(1, 100), record(2, 3)];
    let file = log_of(&records);
    let mut reader = Numbered::new();
    reader.read(&file[..110], &records);
    let failed = reader.reader.next(&mut |_, _| Err(io::ErrorKind::Other.into()), &mut |_| TailVerdict::Next);
    assert!(failed.is_err());
    assert_eq!(reader.read(&file, &records), [108]);
}
