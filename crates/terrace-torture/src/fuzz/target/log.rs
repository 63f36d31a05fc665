//! Logs.

use std::io::{self, Read};

use terrace_format::log::{LogEnd, LogItem, LogReader, RecordWriter};
use terrace_testkit::crafted::CraftedLog;

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "log",
    property: "a log reads the same however its bytes come in, and its records make a log that reads as them",
    format: InputFormat::Log,
    executions_per_case: 5_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let three = CraftedLog::new().batch(1, &[("a", "1")]).batch(2, &[("b", "2"), ("c", "3")]).record(b"");
    let long = CraftedLog::new().record(&[1; 40_000]).record(b"behind");
    let whole =
        CraftedLog::new().unsplit_records().record(&[1; 20_000]).record(&[2; 20_000]).append_zeros(100);
    let torn = three.clone().truncate(three.bytes().len() - 3);
    let first = three.clone().flip_bit(2);
    [three, long, whole, torn, first].map(|log| log.bytes().to_vec()).to_vec()
}

fn run(input: &[u8]) {
    let (items, tail) = read_records(LogReader::new(input), input.len());
    let (trickled, trickled_tail) =
        read_records(LogReader::new(TrickleReader { rest: input, reads: 0 }), input.len());
    assert!(items == trickled && tail == trickled_tail, "other records when the bytes come in slowly");
    assert!(tail.offset <= input.len() as u64, "ends at {} of {}", tail.offset, input.len());
    let records: Vec<&[u8]> = items.iter().filter_map(|item| item.as_deref()).collect();
    let size = records.iter().map(|record| record.len()).sum::<usize>();
    assert!(size <= input.len(), "{size} bytes in records, of {}", input.len());
    for whole in [false, true] {
        check_rewritten(&records, whole);
    }
}

/// Its records, None for damage.
fn read_records(mut reader: LogReader<impl Read>, len: usize) -> (Vec<Option<Vec<u8>>>, LogEnd) {
    let (mut items, mut last) = (Vec::new(), None);
    loop {
        match reader.next() {
            Ok(Some(LogItem::Record { offset, data })) => {
                assert!(last < Some(offset), "a record at {offset} behind one at {last:?}");
                last = Some(offset);
                items.push(Some(data.to_vec()));
                assert!(reader.end_offset() > offset, "a record at {offset} that ends before it begins");
            }
            Ok(Some(LogItem::Corruption { error: flaw, dropped })) => {
                assert!(
                    flaw.offset <= len as u64 && dropped <= len as u64,
                    "{flaw}: {dropped} bytes at {}",
                    flaw.offset
                );
                items.push(None);
            }
            Ok(None) => break,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(items.len() <= len, "more items than bytes");
    }
    assert!(matches!(reader.next(), Ok(None)), "goes on behind its end");
    (items, reader.log_end())
}

fn check_rewritten(records: &[&[u8]], whole: bool) {
    let (mut framer, mut bytes) = (RecordWriter::resume_at(0), Vec::new());
    for record in records {
        for fragment in framer.add_record(record, whole) {
            bytes.resize(fragment.offset as usize, 0);
            bytes.extend_from_slice(&fragment.header);
            bytes.extend_from_slice(fragment.payload);
        }
        assert_eq!(framer.end_offset(), bytes.len() as u64);
    }
    let (items, tail) = read_records(LogReader::new(&bytes[..]), bytes.len());
    assert!(
        items.iter().map(Option::as_deref).eq(records.iter().copied().map(Some)),
        "other records in a new log"
    );
    assert_eq!(tail, LogEnd { is_clean: true, offset: bytes.len() as u64, saw_zeros: false });
}

/// Gives bytes by ones and by thousands, with interruptions and errors that pass.
struct TrickleReader<'a> {
    rest: &'a [u8],
    reads: usize,
}

impl Read for TrickleReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        match self.reads % 7 {
            2 => Err(io::ErrorKind::Interrupted.into()),
            5 => Err(io::ErrorKind::WouldBlock.into()),
            turn => {
                let most = if turn < 4 { 1 + turn } else { 1000 * turn };
                let len = most.min(buf.len());
                self.rest.read(&mut buf[..len])
            }
        }
    }
}
