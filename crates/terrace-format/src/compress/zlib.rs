//! zlib streams, and deflate streams without zlib's wrapper ("raw"): the codecs of forks of games.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use flate2::write::{DeflateEncoder, ZlibEncoder};

use super::{MAX_BLOCK_CONTENTS, check_size, decompression_error};
use crate::decode_error::DecodeError;
use crate::memory;

/// First read of a stream, in bytes: the usual size of a block.
const MIN_READ_SIZE: usize = 4 << 10;

pub(super) fn compress(contents: &[u8], dst: &mut Vec<u8>) {
    let mut encoder = ZlibEncoder::new(dst, Compression::default());
    // Infallible: the sink is a Vec.
    encoder.write_all(contents).and_then(|()| encoder.try_finish()).expect("a Vec accepts every write");
}

pub(super) fn decompress(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    read_bounded("zlib", ZlibDecoder::new(stored), dst)
}

pub(super) fn compress_raw(contents: &[u8], dst: &mut Vec<u8>) {
    let mut encoder = DeflateEncoder::new(dst, Compression::default());
    // Infallible: the sink is a Vec.
    encoder.write_all(contents).and_then(|()| encoder.try_finish()).expect("a Vec accepts every write");
}

pub(super) fn decompress_raw(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    read_bounded("deflate", DeflateDecoder::new(stored), dst)
}

/// Reads a stream, which does not state the size of its contents. The memory grows with the bytes
/// that the stream yields, up to [`MAX_BLOCK_CONTENTS`].
fn read_bounded(codec: &str, mut stream: impl Read, dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut len = 0;
    dst.clear();
    loop {
        let more = len.max(MIN_READ_SIZE).min(MAX_BLOCK_CONTENTS + 1 - len);
        memory::reserve(dst, more)?;
        let read = stream.by_ref().take(more as u64).read_to_end(dst);
        let read = read.map_err(|error| decompression_error(codec, error))?;
        len += read;
        check_size(codec, len, MAX_BLOCK_CONTENTS)?;
        if read < more {
            return Ok(());
        }
    }
}
