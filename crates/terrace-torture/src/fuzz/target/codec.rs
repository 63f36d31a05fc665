//! Compressed blocks.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use terrace_format::compress::{self, BLOCK_MAX, Codec};

use crate::fuzz::Target;
use crate::fuzz::form::Form;

/// A target for each codec that has something to undo.
macro_rules! target {
    ($name:ident, $text:literal) => {
        pub(super) const $name: Target = Target {
            name: $text,
            shows: "what decompresses is as large as its format allows, and survives being stored again",
            form: Form::Plain,
            runs: 2_000,
            seeds: || seeds(&compress::$name),
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
    let mut seeds =
        [b"".to_vec(), b"a".to_vec(), text, numbers, zeros].map(|contents| packed(codec, &contents)).to_vec();
    if codec.name == "deflate" {
        seeds.push(stored());
    }
    seeds
}

fn packed(codec: &Codec, contents: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    (codec.pack)(contents, &mut packed);
    packed
}

/// Deflate that does not compress.
fn stored() -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::none());
    let written = encoder.write_all(b"as it is").and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// Larger contents are not stored again: that would take longer than any reader.
const STORED_AGAIN: usize = 1 << 20;

fn run(codec: &Codec, input: &[u8]) {
    let mut contents = Vec::new();
    if let Err(flaw) = (codec.unpack)(input, &mut contents) {
        assert!(flaw.at <= input.len() as u64, "{flaw} at {}", flaw.at);
        return;
    }
    assert!(contents.len() <= BLOCK_MAX.max(22 * input.len()), "{} bytes of {}", contents.len(), input.len());
    if contents.len() <= STORED_AGAIN {
        let mut back = Vec::new();
        (codec.unpack)(&packed(codec, &contents), &mut back).expect("what was packed unpacks");
        assert!(back == contents, "other contents when they were stored again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few bytes that become as many as a block may have, or more, once took twice as much memory as those.
    #[test]
    fn the_largest_block() {
        for target in [ZSTD, ZLIB, DEFLATE] {
            let codec = compress::by_name(target.name).expect("named as its codec");
            target.check(&packed(codec, &vec![0; BLOCK_MAX]));
            target.check(&packed(codec, &vec![0; BLOCK_MAX + 1]));
        }
    }
}
