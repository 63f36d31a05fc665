//! Integers and slices.

use terrace_format::coding::{self, SliceDecoder};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "coding",
    property: "what an integer or slice decodes to encodes to no more bytes, and decodes to the same",
    format: InputFormat::NoChecksums,
    executions_per_case: 20_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for value in [0, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
        coding::put_varint64(&mut bytes, value);
    }
    coding::put_length_prefixed_slice(&mut bytes, b"a slice");
    coding::put_fixed32(&mut bytes, 7);
    coding::put_fixed64(&mut bytes, u64::MAX);
    vec![vec![0x80; 11], bytes]
}

fn run(input: &[u8]) {
    check_integers(input);
    let mut cursor = SliceDecoder::new(input);
    let mut step = 0;
    while !cursor.is_empty() {
        let before = cursor.offset();
        let read = read_field(&mut cursor, step);
        assert_eq!(
            cursor.offset() + cursor.remaining().len() as u64,
            input.len() as u64,
            "a cursor lost its place"
        );
        if let Err(flaw) = read {
            assert!(flaw.offset >= before && flaw.offset <= input.len() as u64, "{flaw} at {}", flaw.offset);
            return;
        }
        step += 1;
    }
}

/// Every kind of field in turn.
fn read_field(cursor: &mut SliceDecoder<'_>, step: usize) -> Result<(), terrace_format::DecodeError> {
    match step % 6 {
        0 => cursor.length_prefixed_slice("a slice").map(drop),
        1 => cursor.varint32("a varint32").map(drop),
        2 => cursor.varint64("a varint64").map(drop),
        3 => cursor.byte("a byte").map(drop),
        4 => cursor.fixed32("a fixed32").map(drop),
        _ => cursor.fixed64("a fixed64").map(drop),
    }
}

fn check_integers(input: &[u8]) {
    let mut again = Vec::new();
    if let Some((value, len)) = coding::get_varint64(input) {
        coding::put_varint64(&mut again, value);
        assert!(len <= input.len() && again.len() <= len, "{len} bytes for {value}");
        assert_eq!(coding::varint_len(value), again.len(), "the length of {value}");
        assert_eq!(coding::get_varint64(&again), Some((value, again.len())));
    }
    if let Some((value, len)) = coding::get_varint32(input) {
        again.clear();
        coding::put_varint32(&mut again, value);
        assert!(len <= input.len() && again.len() <= len, "{len} bytes for {value}");
        assert_eq!(coding::get_varint32(&again), Some((value, again.len())));
    }
    assert_eq!(coding::get_fixed64(input).is_some(), input.len() >= 8);
    assert_eq!(coding::get_fixed32(input).is_some(), input.len() >= 4);
}
