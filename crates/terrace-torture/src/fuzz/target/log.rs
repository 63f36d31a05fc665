//! Logs.

use std::io::{self, Read};

use terrace_format::log::{LogEnd, LogItem, LogReader, LogSource, RecordWriter};
use terrace_testkit::crafted::CraftedLog;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "log",
    property: "a log reads the same for any sizes of reads, and its records survive another encoding",
    format: InputFormat::Log,
    executions_per_case: 5_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let three = CraftedLog::new().batch(1, &[("a", "1")]).batch(2, &[("b", "2"), ("c", "3")]).record(b"");
    let long = CraftedLog::new().record(&[1; 40_000]).record(b"last");
    let unsplit =
        CraftedLog::new().unsplit_records().record(&[1; 20_000]).record(&[2; 20_000]).append_zeros(100);
    let torn = three.clone().truncate(three.bytes().len() - 3);
    let flipped = three.clone().flip_bit(2);
    [three, long, unsplit, torn, flipped].map(|log| log.bytes().to_vec()).to_vec()
}

fn run(input: &[u8]) {
    let (items, end) = read_records(LogReader::new(input), input.len());
    let (trickled, trickled_end) =
        read_records(LogReader::new(TrickleReader { rest: input, reads: 0 }), input.len());
    assert!(items == trickled && end == trickled_end, "short reads give other records");
    assert!(end.offset <= input.len() as u64, "ends at {} of {}", end.offset, input.len());
    let records: Vec<&[u8]> = items.iter().filter_map(|item| item.as_deref()).collect();
    let size = records.iter().map(|record| record.len()).sum::<usize>();
    assert!(size <= input.len(), "{size} bytes in records, of {}", input.len());
    check_rewritten(&records);
}

/// Returns the records, None for each corruption, and the end of the log.
fn read_records(mut reader: LogReader<impl LogSource>, len: usize) -> (Vec<Option<Vec<u8>>>, LogEnd) {
    let mut items = Vec::new();
    let mut last = None;
    loop {
        match reader.next() {
            Ok(Some(LogItem::Record { offset, data, .. })) => {
                assert!(last < Some(offset), "a record at {offset} after one at {last:?}");
                last = Some(offset);
                items.push(Some(data.to_vec()));
                assert!(reader.end_offset() > offset, "a record at {offset} ends before its start");
            }
            Ok(Some(LogItem::Corruption { error, dropped })) => {
                assert!(
                    error.offset <= len as u64 && dropped <= len as u64,
                    "{error}: {dropped} bytes at {}",
                    error.offset
                );
                items.push(None);
            }
            Ok(None) => break,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(items.len() <= len, "more items than bytes");
    }
    assert!(matches!(reader.next(), Ok(None)), "the reader returns an item after the end");
    (items, reader.log_end())
}

fn check_rewritten(records: &[&[u8]]) {
    let mut writer = RecordWriter::resume_at(0);
    let mut bytes = Vec::new();
    for record in records {
        for fragment in writer.add_record(record) {
            bytes.resize(fragment.offset as usize, 0);
            bytes.extend_from_slice(&fragment.header);
            bytes.extend_from_slice(fragment.payload);
        }
        assert_eq!(writer.end_offset(), bytes.len() as u64);
    }
    let (items, end) = read_records(LogReader::new(&bytes[..]), bytes.len());
    assert!(
        items.iter().map(Option::as_deref).eq(records.iter().copied().map(Some)),
        "other records in the rewritten log"
    );
    assert_eq!(
        end,
        LogEnd { is_clean: true, offset: bytes.len() as u64, saw_zeros: false, has_unused_end: false }
    );
}

/// Returns bytes in pieces of one to some thousands, with interruptions and temporary errors.
struct TrickleReader<'a> {
    rest: &'a [u8],
    reads: usize,
}

impl LogSource for TrickleReader<'_> {}

impl Read for TrickleReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        match self.reads % 7 {
            2 => Err(io::ErrorKind::Interrupted.into()),
            5 => Err(io::ErrorKind::WouldBlock.into()),
            phase => {
                let max_len = if phase < 4 { 1 + phase } else { 1000 * phase };
                let len = max_len.min(buf.len());
                self.rest.read(&mut buf[..len])
            }
        }
    }
}
