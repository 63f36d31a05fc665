//! Compressed blocks.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use terrace_format::compress::{self, Codec, MAX_BLOCK_CONTENTS};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

/// A target for each codec that has something to undo.
macro_rules! target {
    ($name:ident, $text:literal) => {
        pub(super) const $name: Target = Target {
            name: $text,
            property: "what decompresses is as large as its format allows, and survives being stored again",
            format: InputFormat::NoChecksums,
            executions_per_case: 2_000,
            seed_inputs: || seeds(&compress::$name),
            run: |input| run(&compress::$name, input),
        };
    };
}

target!(SNAPPY, "snappy");
target!(ZSTD, "zstd");
target!(ZLIB, "zlib");
target!(DEFLATE, "deflate");

fn seeds(codec: &Codec) -> Vec<Vec<u8>> {
    let text = b"CH/Bern 46.95,7.45 CH/Chur 46.85,9.53 CH/Basel 47.56,7.59 ".repeat(20);
    // The densest that there is: much memory of few bytes.
    let zeros = vec![0; 1 << 20];
    let numbers: Vec<u8> = (0..=255).collect();
    let mut seeds = [b"".to_vec(), b"a".to_vec(), text, numbers, zeros]
        .map(|contents| compressed(codec, &contents))
        .to_vec();
    if codec.name == "deflate" {
        seeds.push(uncompressed_deflate());
    }
    seeds
}

fn compressed(codec: &Codec, contents: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    (codec.compress)(contents, &mut packed);
    packed
}

/// Deflate that does not compress.
fn uncompressed_deflate() -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::none());
    let written = encoder.write_all(b"as it is").and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// Larger contents are not stored again: that would take longer than any reader.
const MAX_RECOMPRESSED_LEN: usize = 1 << 20;

fn run(codec: &Codec, input: &[u8]) {
    let mut contents = Vec::new();
    if let Err(flaw) = (codec.decompress)(input, &mut contents) {
        assert!(flaw.offset <= input.len() as u64, "{flaw} at {}", flaw.offset);
        return;
    }
    assert!(
        contents.len() <= MAX_BLOCK_CONTENTS.max(22 * input.len()),
        "{} bytes of {}",
        contents.len(),
        input.len()
    );
    if contents.len() <= MAX_RECOMPRESSED_LEN {
        let mut back = Vec::new();
        (codec.decompress)(&compressed(codec, &contents), &mut back).expect("what was packed unpacks");
        assert!(back == contents, "other contents when they were stored again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few bytes that become as many as a block may have, or more, once took twice as much memory as those.
    #[test]
    fn largest_block_is_held_once() {
        for target in [ZSTD, ZLIB, DEFLATE] {
            let codec = compress::codec_by_name(target.name).expect("named as its codec");
            target.check(&compressed(codec, &vec![0; MAX_BLOCK_CONTENTS]));
            target.check(&compressed(codec, &vec![0; MAX_BLOCK_CONTENTS + 1]));
        }
    }
}
