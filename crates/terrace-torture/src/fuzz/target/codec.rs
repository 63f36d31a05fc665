//! Compressed blocks.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use terrace_format::compress::{self, Codec, MAX_BLOCK_CONTENTS};

use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

/// Declares a target for a codec that compresses.
macro_rules! target {
    ($name:ident, $text:literal) => {
        pub(super) const $name: Target = Target {
            name: $text,
            property: "decompressed contents respect the format's size limit, and survive another compression",
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
    // Zeros compress best, so few bytes decompress to many.
    let zeros = vec![0; 1 << 20];
    let numbers: Vec<u8> = (0..=255).collect();
    let mut seeds = [b"".to_vec(), b"a".to_vec(), text, numbers, zeros]
        .map(|contents| compress_with(codec, &contents))
        .to_vec();
    if codec.name == "deflate" {
        seeds.push(uncompressed_deflate());
    }
    seeds
}

fn compress_with(codec: &Codec, contents: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    (codec.compress)(contents, &mut compressed);
    compressed
}

/// Returns a deflate stream of stored, uncompressed data.
fn uncompressed_deflate() -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::none());
    let written = encoder.write_all(b"stored").and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// Maximum length in bytes of contents that are compressed again. More would take longer than the
/// decompression.
const MAX_RECOMPRESSED_LEN: usize = 1 << 20;

fn run(codec: &Codec, input: &[u8]) {
    let mut contents = Vec::new();
    if let Err(error) = (codec.decompress)(input, &mut contents) {
        assert!(error.offset <= input.len() as u64, "{error} at {}", error.offset);
        return;
    }
    assert!(
        contents.len() <= MAX_BLOCK_CONTENTS.max(22 * input.len()),
        "{} bytes from an input of {}",
        contents.len(),
        input.len()
    );
    if contents.len() <= MAX_RECOMPRESSED_LEN {
        let mut roundtrip = Vec::new();
        (codec.decompress)(&compress_with(codec, &contents), &mut roundtrip)
            .expect("compressed contents decompress");
        assert!(roundtrip == contents, "compression and decompression changed the contents");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a block of the maximum size, or larger, was in memory twice during
    /// decompression.
    #[test]
    fn largest_block_is_in_memory_once() {
        for target in [ZSTD, ZLIB, DEFLATE] {
            let codec = compress::codec_by_name(target.name).expect("the target has the name of its codec");
            target.check(&compress_with(codec, &vec![0; MAX_BLOCK_CONTENTS]));
            target.check(&compress_with(codec, &vec![0; MAX_BLOCK_CONTENTS + 1]));
        }
    }
}
