//! Logs, with the items that a reader returns as text.

use std::io::{self, ErrorKind, Read};

use proptest::prelude::*;

use super::*;

/// Returns the log file of `records`. Skipped bytes are zero.
fn written(records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::resume_at(0);
    let mut file = Vec::new();
    for record in records {
        append(&mut file, &mut writer, record);
    }
    file
}

fn append(file: &mut Vec<u8>, writer: &mut RecordWriter, record: &[u8]) {
    for fragment in writer.add_record(record) {
        file.resize(fragment.offset as usize, 0);
        file.extend_from_slice(&fragment.header);
        file.extend_from_slice(fragment.payload);
    }
    assert_eq!(file.len() as u64, writer.end_offset());
}

/// Returns a fragment of any type with a correct checksum.
fn fragment(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = fragment_checksum(kind, payload).to_le_bytes().to_vec();
    bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns one line for each item that a reader finds, and one for the end.
fn read(source: impl LogSource) -> Vec<String> {
    let mut reader = LogReader::new(source);
    let mut lines = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        lines.push(match item {
            LogItem::Record { offset, data, .. } if data.len() < 20 => {
                format!("{offset}: {}", data.escape_ascii())
            }
            LogItem::Record { offset, data, .. } => format!("{offset}: {} bytes", data.len()),
            LogItem::Corruption { error, dropped } => {
                format!("{}! {error} ({dropped} dropped)", error.offset)
            }
        });
    }
    assert_eq!(reader.next().unwrap(), None, "the end is final");
    let LogEnd { is_clean, offset, saw_zeros, .. } = reader.log_end();
    assert_eq!(offset, reader.end_offset());
    let state = if is_clean { "clean" } else { "torn" };
    let zeros = if saw_zeros { ", zeros" } else { "" };
    lines.push(format!("end {offset}, {state}{zeros}"));
    lines
}

#[track_caller]
fn check(file: &[u8], expect: &[&str]) {
    assert_eq!(read(file), expect);
}

/// Compares offset, type and length of each fragment of a record that starts at `offset`.
#[track_caller]
fn check_frames(offset: u64, len: usize, expect: &[(u64, u8, usize)]) {
    let record = vec![7; len];
    let mut writer = RecordWriter::resume_at(offset);
    let fragments: Vec<_> =
        writer.add_record(&record).map(|f| (f.offset, f.header[6], f.payload.len())).collect();
    assert_eq!(fragments, expect);
    let (start, _, len) = *expect.last().unwrap();
    assert_eq!(writer.end_offset(), start + (FRAGMENT_HEADER_SIZE + len) as u64);
}

const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

#[test]
fn record_within_a_block() {
    check_frames(0, 0, &[(0, 1, 0)]);
    check_frames(100, 5, &[(100, 1, 5)]);
    check_frames(BLOCK - 12, 5, &[(BLOCK - 12, 1, 5)]);
    check_frames(3 * BLOCK, 32761, &[(3 * BLOCK, 1, 32761)]);
}

#[test]
fn record_over_blocks() {
    check_frames(BLOCK - 12, 8, &[(BLOCK - 12, 2, 5), (BLOCK, 4, 3)]);
    check_frames(0, 32762, &[(0, 2, 32761), (BLOCK, 4, 1)]);
    check_frames(0, 65522, &[(0, 2, 32761), (BLOCK, 4, 32761)]);
    check_frames(0, 65523, &[(0, 2, 32761), (BLOCK, 3, 32761), (2 * BLOCK, 4, 1)]);
}

#[test]
fn record_at_the_end_of_a_block() {
    check_frames(BLOCK - 7, 0, &[(BLOCK - 7, 1, 0)]);
    check_frames(BLOCK - 7, 3, &[(BLOCK - 7, 2, 0), (BLOCK, 4, 3)]);
    for left in 1..7 {
        check_frames(BLOCK - left, 3, &[(BLOCK, 1, 3)]);
        check_frames(BLOCK - left, 0, &[(BLOCK, 1, 0)]);
    }
}

#[test]
fn empty_log() {
    check(b"", &["end 0, clean"]);
}

#[test]
fn records() {
    let file = written(&[b"foo", b"bar", b"", b"xxxx"]);
    check(&file, &["0: foo", "10: bar", "20: ", "27: xxxx", "end 38, clean"]);
}

#[test]
fn records_over_blocks() {
    let file = written(&[b"small", &[1; 50_000], &[2; 100_000], b"last"]);
    let expect = ["0: small", "12: 50000 bytes", "50026: 100000 bytes", "150054: last", "end 150065, clean"];
    check(&file, &expect);
}

#[test]
fn block_end_fits_only_a_header() {
    let file = written(&[&[1; LOG_BLOCK_SIZE - 14], b"", b"bar"]);
    check(&file, &["0: 32754 bytes", "32761: ", "32768: bar", "end 32778, clean"]);
    let file = written(&[&[1; LOG_BLOCK_SIZE - 14], b"bar"]);
    check(&file, &["0: 32754 bytes", "32761: bar", "end 32778, clean"]);
}

#[test]
fn block_end_too_short_for_a_header() {
    let mut file = written(&[&[1; LOG_BLOCK_SIZE - 10], b"", b"bar"]);
    check(&file, &["0: 32758 bytes", "32768: ", "32775: bar", "end 32785, clean"]);
    file.truncate(LOG_BLOCK_SIZE - 3);
    check(&file, &["0: 32758 bytes", "end 32765, clean"]);
    file.resize(LOG_BLOCK_SIZE, 0);
    check(&file, &["0: 32758 bytes", "end 32765, clean, zeros"]);
}

#[test]
fn truncated_anywhere() {
    let records: [&[u8]; 4] = [b"foo", b"", &[1; 32_760], b"bar"];
    let file = written(&records);
    let ends = [0, 10, 17, 32_791, 32_801];
    for len in (0..60).chain(32_700..file.len()) {
        let found = read(&file[..len]);
        let whole = ends.iter().filter(|end| **end <= len).count() - 1;
        assert_eq!(found.len() - 1, whole, "{len} bytes: {found:?}");
        let state = if ends.contains(&len) { "clean" } else { "torn" };
        assert_eq!(found[whole], format!("end {}, {state}", ends[whole]), "{len} bytes");
    }
}

#[test]
fn any_bit_flipped() {
    let records: [&[u8]; 4] = [b"foo", b"quux", &[1; 32_740], b"bar"];
    let whole = read(&written(&records)[..]);
    let mut file = written(&records);
    for byte in (0..60).chain(32_740..file.len()) {
        for bit in 0..8 {
            file[byte] ^= 1 << bit;
            let found = read(&file[..]);
            let records = found.iter().filter(|line| !line.contains("! ") && !line.starts_with("end"));
            assert!(records.clone().all(|line| whole.contains(line)), "bit {bit} of {byte}: {found:?}");
            assert!(records.count() < 4, "bit {bit} of {byte} has no effect");
            file[byte] ^= 1 << bit;
        }
    }
}

#[test]
fn wrong_checksum_costs_the_block() {
    let mut file = written(&[b"foo", &[1; 32_751], &[2; 32_000], b"bar"]);
    file[7] ^= 1;
    let found = read(&file[..]);
    assert!(found[0].starts_with("0! checksum 0x"), "{found:?}");
    assert!(found[0].ends_with("(32768 dropped)"), "{found:?}");
    assert_eq!(found[1..], ["32768: 32000 bytes", "64775: bar", "end 64785, clean"]);
}

#[test]
fn wrong_length_costs_the_block_unless_it_is_the_last() {
    let mut file = written(&[b"foo", &[1; 32_751], &[2; 32_000]]);
    file[10 + 4..10 + 6].copy_from_slice(&32_752u16.to_le_bytes());
    let damage = "10! a fragment of 32752 bytes, expected at most 32751 (32758 dropped)";
    check(&file, &["0: foo", damage, "32768: 32000 bytes", "end 64775, clean"]);
    check(&file[..32_700], &["0: foo", "end 10, torn"]);
}

/// Returns the continuity of each record.
fn continuities(file: &[u8]) -> Vec<Continuity> {
    let mut reader = LogReader::new(file);
    let mut found = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if let LogItem::Record { continuity, .. } = item {
            found.push(continuity);
        }
    }
    found
}

#[test]
fn continuity_of_records() {
    use Continuity::{AfterCorruption, AfterZeros, Contiguous};
    // The second record ends five bytes before the end of the block.
    let mut file = written(&[b"foo", &[1; 32_746], b"bar"]);
    assert_eq!(continuities(&file), [Contiguous; 3]);
    file[32_000] ^= 1;
    assert_eq!(continuities(&file), [Contiguous, AfterCorruption]);
    for blocks in [1, 2] {
        let mut file = written(&[b"foo"]);
        file.resize(blocks * LOG_BLOCK_SIZE, 0);
        file.extend(written(&[b"bar", b"baz"]));
        assert_eq!(continuities(&file), [Contiguous, AfterZeros, Contiguous]);
        file[100] = 1;
        assert_eq!(continuities(&file), [Contiguous, AfterCorruption, Contiguous]);
    }
    // The first fragment of the second record is lost.
    let mut file = written(&[b"foo", &[1; 40_000], b"bar"]);
    file[10..LOG_BLOCK_SIZE].fill(0);
    assert_eq!(continuities(&file), [Contiguous, AfterCorruption]);
}

#[test]
fn unknown_types() {
    let file = [fragment(9, b"foo"), fragment(0, b"ba"), fragment(1, b"x")].concat();
    let [nine, zero] =
        ["0! record type 9, expected 1 to 4 (3 dropped)", "10! record type 0, expected 1 to 4 (2 dropped)"];
    check(&file, &[nine, zero, "19: x", "end 27, clean"]);
    let file = [fragment(2, b"foo"), fragment(5, b"ba"), fragment(4, b"x")].concat();
    let five = "10! record type 5, expected 1 to 4 (5 dropped)";
    check(
        &file,
        &[five, "19! a fragment of type 4, expected 1 or 2 between records (1 dropped)", "end 0, torn"],
    );
}

#[test]
fn middle_or_last_without_first() {
    let file = [fragment(3, b"foo"), fragment(4, b"ba"), fragment(1, b"x")].concat();
    let [middle, last] = [
        "0! a fragment of type 3, expected 1 or 2 between records (3 dropped)",
        "10! a fragment of type 4, expected 1 or 2 between records (2 dropped)",
    ];
    check(&file, &[middle, last, "19: x", "end 27, clean"]);
}

#[test]
fn full_or_first_within_a_record() {
    let broken = "0! a record that breaks off after 3 bytes, expected its next fragment (3 dropped)";
    let file = [fragment(2, b"foo"), fragment(1, b"bar")].concat();
    check(&file, &[broken, "10: bar", "end 20, clean"]);
    let file = [fragment(2, b"foo"), fragment(2, b"ba"), fragment(3, b"r"), fragment(4, b"!")].concat();
    check(&file, &[broken, "10: bar!", "end 35, clean"]);
}

#[test]
fn empty_first_of_an_early_writer() {
    let file = [fragment(2, b""), fragment(1, b"bar")].concat();
    check(&file, &["7: bar", "end 17, clean"]);
    let file = [fragment(2, b""), fragment(2, b"ba"), fragment(4, b"r")].concat();
    check(&file, &["7: bar", "end 24, clean"]);
}

#[test]
fn record_without_its_last_fragment() {
    let file = [fragment(1, b"foo"), fragment(2, b"bar")].concat();
    check(&file, &["0: foo", "end 10, torn"]);
    let file = [fragment(1, b"foo"), fragment(2, b"")].concat();
    check(&file, &["0: foo", "end 10, torn"]);
}

#[test]
fn preallocated_zeros() {
    let mut file = written(&[b"foo"]);
    for len in [1, 6, 7, 40_000, 3 * LOG_BLOCK_SIZE] {
        file.resize(10 + len, 0);
        check(&file, &["0: foo", "end 10, clean, zeros"]);
    }
    file[2 * LOG_BLOCK_SIZE..][..10].copy_from_slice(&fragment(1, b"bar"));
    check(&file, &["0: foo", "65536: bar", "end 65546, clean, zeros"]);
}

#[test]
fn unused_end() {
    fn has_unused_end(file: &[u8]) -> bool {
        let mut reader = LogReader::new(file);
        while reader.next().unwrap().is_some() {}
        reader.log_end().has_unused_end
    }
    let mut file = written(&[b"foo", &[1; LOG_BLOCK_SIZE - 20]]);
    assert_eq!(file.len(), LOG_BLOCK_SIZE - 3);
    assert!(!has_unused_end(&file));
    file.resize(LOG_BLOCK_SIZE, 0);
    assert!(!has_unused_end(&file), "the rest of a block has no space for a header");
    file.resize(LOG_BLOCK_SIZE + 7, 0);
    assert!(has_unused_end(&file), "zeros");
    file.extend_from_slice(b"body without its header");
    assert!(has_unused_end(&file), "a body without its header");
    file.resize(2 * LOG_BLOCK_SIZE, 0);
    assert!(has_unused_end(&file), "two kinds");
    file.extend(fragment(1, b"bar"));
    assert!(!has_unused_end(&file), "a record after zeros");
    *file.last_mut().unwrap() ^= 1;
    assert!(has_unused_end(&file), "a wrong checksum");
    let long = written(&[&[1; 40_000]]);
    assert!(has_unused_end(&long[..LOG_BLOCK_SIZE]), "the first fragment of a record");
    assert!(!has_unused_end(&long));
}

#[test]
fn data_after_a_zero_header() {
    let mut file = written(&[b"foo"]);
    file.resize(100, 0);
    file.extend(fragment(1, b"bar"));
    check(&file, &["0: foo", "end 10, torn"]);
    let mut file = written(&[b"foo"]);
    file.resize(LOG_BLOCK_SIZE, 0);
    file.push(1);
    check(&file, &["0: foo", "end 10, torn, zeros"]);
}

#[test]
fn preallocated_zeros_within_a_record() {
    let mut file = [fragment(1, b"foo"), fragment(2, b"bar")].concat();
    file.resize(LOG_BLOCK_SIZE, 0);
    file.extend(fragment(4, b"x"));
    let broken = "10! a record that breaks off after 3 bytes, expected its next fragment (3 dropped)";
    let last = "32768! a fragment of type 4, expected 1 or 2 between records (1 dropped)";
    check(&file, &["0: foo", broken, last, "end 10, torn, zeros"]);
}

#[test]
fn damage_does_not_join_two_records() {
    let mut file = written(&[&[1; LOG_BLOCK_SIZE], &[2; LOG_BLOCK_SIZE], b"correct"]);
    file[LOG_BLOCK_SIZE..2 * LOG_BLOCK_SIZE].fill(b'x');
    let found = read(&file[..]);
    assert!(found[0].starts_with("32768! checksum") && found[0].ends_with("(32768 dropped)"), "{found:?}");
    assert_eq!(
        found[1],
        "0! a record that breaks off after 32761 bytes, expected its next fragment (32761 dropped)"
    );
    assert_eq!(found[2], "65536! a fragment of type 4, expected 1 or 2 between records (21 dropped)");
    assert_eq!(found[3..], ["65564: correct", "end 65578, clean"]);
}

/// Source that returns one byte at a time. Every other read fails with the given error.
struct Halting<'a>(&'a [u8], ErrorKind, bool);

impl Read for Halting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.2 = !self.2;
        let len = buf.len().min(1);
        if self.2 { Err(self.1.into()) } else { self.0.read(&mut buf[..len]) }
    }
}

impl LogSource for Halting<'_> {}

#[test]
fn short_and_interrupted_reads() {
    let file = written(&[b"foo", &[1; 50_000], b"bar"]);
    assert_eq!(read(Halting(&file, ErrorKind::Interrupted, false)), read(&file[..]));
}

#[test]
fn read_error_loses_nothing() {
    let file = written(&[b"foo", &[1; 33_000], b"bar"]);
    let mut reader = LogReader::new(Halting(&file, ErrorKind::Other, false));
    let mut offsets = Vec::new();
    let mut errors = 0;
    loop {
        match reader.next() {
            Ok(Some(LogItem::Record { offset, .. })) => offsets.push(offset),
            Ok(Some(corruption)) => panic!("{corruption:?}"),
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert_eq!(offsets, [0, 10, 33_024]);
    assert_eq!(errors, file.len() + 1, "one before each byte and one before the end");
}

#[test]
fn type_checksums() {
    for (kind, checksum) in (0u8..).zip(TYPE_CHECKSUMS) {
        assert_eq!(checksum, crate::crc::value(&[kind]), "type {kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_what_was_written(
        records in prop::collection::vec(prop_oneof![0usize..50, 32_700usize..32_800, 0usize..100_000], 0..12),
    ) {
        let mut writer = RecordWriter::resume_at(0);
        let mut file = Vec::new();
        let records: Vec<_> = records.iter().zip(1..).map(|(&len, n)| vec![n; len]).collect();
        for record in &records {
            append(&mut file, &mut writer, record);
        }
        let mut reader = LogReader::new(&file[..]);
        for record in &records {
            match reader.next().unwrap() {
                Some(LogItem::Record { data, .. }) => prop_assert_eq!(data, &record[..]),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(reader.next().unwrap(), None);
        prop_assert_eq!(reader.log_end(), LogEnd { is_clean: true, offset: file.len() as u64, saw_zeros: false, has_unused_end: false });
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut file in prop::collection::vec(any::<u8>(), 0..200), kinds in prop::collection::vec(0u8..7, 0..9)) {
        let fragments: Vec<u8> = kinds.iter().flat_map(|kind| fragment(*kind, &[*kind; 3])).collect();
        read(&file[..]);
        file.extend_from_slice(&fragments);
        read(&file[..]);
        read(&[fragments, file].concat()[..]);
    }
}

/// Log of `len` bytes with `start` at its start and `end` in the middle of a hole.
struct SparseLog<'a> {
    start: &'a [u8],
    end: &'a [u8],
    len: u64,
    position: u64,
    bytes_read: u64,
}

impl SparseLog<'_> {
    /// Offsets of the two parts.
    fn parts(&self) -> [(u64, &[u8]); 2] {
        [(0, self.start), (self.len / 2, self.end)]
    }
}

impl Read for SparseLog<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min((self.len - self.position) as usize);
        buf[..n].fill(0);
        for (start, part) in self.parts() {
            let range = start.max(self.position)..(start + part.len() as u64).min(self.position + n as u64);
            if !range.is_empty() {
                let in_part = (range.start - start) as usize..(range.end - start) as usize;
                let in_buf = (range.start - self.position) as usize..(range.end - self.position) as usize;
                buf[in_buf].copy_from_slice(&part[in_part]);
            }
        }
        self.position += n as u64;
        self.bytes_read += n as u64;
        Ok(n)
    }
}

impl LogSource for SparseLog<'_> {
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        let ahead =
            self.parts().into_iter().filter(|(start, part)| start + part.len() as u64 > self.position);
        let data = ahead.map(|(start, _)| start).min().unwrap_or(self.len);
        let skipped = data.saturating_sub(self.position) / unit * unit;
        self.position += skipped;
        Ok(skipped)
    }
}

/// Symptom: opening a database with a sparse log of 8 TiB took an hour. Guarantee: the reader skips
/// holes, with the result of zeros.
#[test]
fn hole_of_terabytes() {
    const LEN: u64 = 8 << 40;
    let one = written(&[b"one"]);
    let cut = &written(&[&[7; 40_000]])[..LOG_BLOCK_SIZE];
    let cut_report =
        "0! a record that breaks off after 32761 bytes, expected its next fragment (32761 dropped)";
    /// Start, end, length, and expected items.
    type Case<'a> = (&'a [u8], &'a [u8], u64, &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        (&one, &one, LEN, &["0: one", "4398046511104: one", "end 4398046511114, clean, zeros"]),
        (&one, &[], LEN + 12_345, &["0: one", "end 10, clean, zeros"]),
        (cut, &one, LEN, &[cut_report, "4398046511104: one", "end 4398046511114, clean, zeros"]),
        (&[], &[], LEN, &["end 0, clean, zeros"]),
    ];
    for (start, end, len, expected) in cases {
        let mut log = SparseLog { start, end, len, position: 0, bytes_read: 0 };
        assert_eq!(read(&mut log), expected);
        assert!(log.position == len && log.bytes_read < 200 << 20, "{} bytes read", log.bytes_read);
    }
}

/// Holes after less unused space than a database preallocates are not trusted.
#[test]
fn short_holes_are_read() {
    let one = written(&[b"one"]);
    let mut log = SparseLog { start: &one, end: &one, len: 64 << 20, position: 0, bytes_read: 0 };
    assert_eq!(read(&mut log), ["0: one", "33554432: one", "end 33554442, clean, zeros"]);
    assert_eq!(log.bytes_read, 64 << 20);
}
