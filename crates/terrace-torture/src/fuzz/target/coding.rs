//! Integers and slices.

use terrace_format::coding::{self, SliceDecoder};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "coding",
    property: "a decoded integer or slice encodes to no more bytes, and decodes to the same value",
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
    let mut decoder = SliceDecoder::new(input);
    let mut step = 0;
    while !decoder.is_empty() {
        let before = decoder.offset();
        let result = read_field(&mut decoder, step);
        assert_eq!(
            decoder.offset() + decoder.remaining().len() as u64,
            input.len() as u64,
            "the offset and the remaining bytes do not add up"
        );
        if let Err(error) = result {
            assert!(
                error.offset >= before && error.offset <= input.len() as u64,
                "{error} at {}",
                error.offset
            );
            return;
        }
        step += 1;
    }
}

/// Reads a field whose kind depends on `step`.
fn read_field(decoder: &mut SliceDecoder<'_>, step: usize) -> Result<(), terrace_format::DecodeError> {
    match step % 6 {
        0 => decoder.length_prefixed_slice("a slice").map(drop),
        1 => decoder.varint32("a varint32").map(drop),
        2 => decoder.varint64("a varint64").map(drop),
        3 => decoder.byte("a byte").map(drop),
        4 => decoder.fixed32("a fixed32").map(drop),
        _ => decoder.fixed64("a fixed64").map(drop),
    }
}

fn check_integers(input: &[u8]) {
    let mut encoded = Vec::new();
    if let Some((value, len)) = coding::get_varint64(input) {
        coding::put_varint64(&mut encoded, value);
        assert!(len <= input.len() && encoded.len() <= len, "{len} bytes for {value}");
        assert_eq!(coding::varint_len(value), encoded.len(), "the length of {value}");
        assert_eq!(coding::get_varint64(&encoded), Some((value, encoded.len())));
    }
    if let Some((value, len)) = coding::get_varint32(input) {
        encoded.clear();
        coding::put_varint32(&mut encoded, value);
        assert!(len <= input.len() && encoded.len() <= len, "{len} bytes for {value}");
        assert_eq!(coding::get_varint32(&encoded), Some((value, encoded.len())));
    }
    assert_eq!(coding::get_fixed64(input).is_some(), input.len() >= 8);
    assert_eq!(coding::get_fixed32(input).is_some(), input.len() >= 4);
}
