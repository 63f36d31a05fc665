//! Logs.

use std::io::{self, Read};

use terrace_format::log::{Framer, Item, LogReader, Tail};
use terrace_testkit::fabricate::Log;

use crate::fuzz::Target;
use crate::fuzz::form::Form;

pub(super) const TARGET: Target = Target {
    name: "log",
    shows: "a log reads the same however its bytes come in, and its records make a log that reads as them",
    form: Form::Log,
    runs: 5_000,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let three = Log::new().batch(1, &[("a", "1")]).batch(2, &[("b", "2"), ("c", "3")]).record(b"");
    let long = Log::new().record(&[1; 40_000]).record(b"behind");
    let whole = Log::new().whole().record(&[1; 20_000]).record(&[2; 20_000]).zeros(100);
    let torn = three.clone().cut(three.bytes().len() - 3);
    let first = three.clone().flip(2);
    [three, long, whole, torn, first].map(|log| log.bytes().to_vec()).to_vec()
}

fn run(input: &[u8]) {
    let (items, tail) = read(LogReader::new(input), input.len());
    let (trickled, trickled_tail) = read(LogReader::new(Trickle { rest: input, turn: 0 }), input.len());
    assert!(items == trickled && tail == trickled_tail, "other records when the bytes come in slowly");
    assert!(tail.end <= input.len() as u64, "ends at {} of {}", tail.end, input.len());
    let records: Vec<&[u8]> = items.iter().filter_map(|item| item.as_deref()).collect();
    let size = records.iter().map(|record| record.len()).sum::<usize>();
    assert!(size <= input.len(), "{size} bytes in records, of {}", input.len());
    for whole in [false, true] {
        framed_again(&records, whole);
    }
}

/// Its records, None for damage.
fn read(mut reader: LogReader<impl Read>, len: usize) -> (Vec<Option<Vec<u8>>>, Tail) {
    let (mut items, mut last) = (Vec::new(), None);
    loop {
        match reader.next() {
            Ok(Some(Item::Record { offset, data })) => {
                assert!(last < Some(offset), "a record at {offset} behind one at {last:?}");
                last = Some(offset);
                items.push(Some(data.to_vec()));
                assert!(reader.end_offset() > offset, "a record at {offset} that ends before it begins");
            }
            Ok(Some(Item::Damage { flaw, dropped })) => {
                assert!(
                    flaw.at <= len as u64 && dropped <= len as u64,
                    "{flaw}: {dropped} bytes at {}",
                    flaw.at
                );
                items.push(None);
            }
            Ok(None) => break,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(items.len() <= len, "more items than bytes");
    }
    assert!(matches!(reader.next(), Ok(None)), "goes on behind its end");
    (items, reader.tail())
}

fn framed_again(records: &[&[u8]], whole: bool) {
    let (mut framer, mut bytes) = (Framer::at(0), Vec::new());
    for record in records {
        for fragment in framer.frame(record, whole) {
            bytes.resize(fragment.offset as usize, 0);
            bytes.extend_from_slice(&fragment.header);
            bytes.extend_from_slice(fragment.payload);
        }
        assert_eq!(framer.offset(), bytes.len() as u64);
    }
    let (items, tail) = read(LogReader::new(&bytes[..]), bytes.len());
    assert!(
        items.iter().map(Option::as_deref).eq(records.iter().copied().map(Some)),
        "other records in a new log"
    );
    assert_eq!(tail, Tail { clean: true, end: bytes.len() as u64, saw_zeros: false });
}

/// Gives bytes by ones and by thousands, with interruptions and errors that pass.
struct Trickle<'a> {
    rest: &'a [u8],
    turn: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        match self.turn % 7 {
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
