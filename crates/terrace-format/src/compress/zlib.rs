//! zlib streams, and deflate streams without zlib's wrapper ("raw"): the codecs of forks of games.

use std::cell::RefCell;
use std::io::Read;
use std::thread::LocalKey;

use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use flate2::{Compress, Compression, FlushCompress, Status};

use super::{MAX_BLOCK_CONTENTS, check_size, decompression_error, store_uncompressed};
use crate::decode_error::DecodeError;
use crate::memory;

/// First read of a stream, in bytes: the usual size of a block.
const MIN_READ_SIZE: usize = 4 << 10;

thread_local! {
    // A new compressor clears 300 KiB, which takes longer than the compression of a small block.
    static ZLIB_COMPRESSOR: RefCell<Option<Compress>> = const { RefCell::new(None) };
    static DEFLATE_COMPRESSOR: RefCell<Option<Compress>> = const { RefCell::new(None) };
}

pub(super) fn compress(contents: &[u8], dst: &mut Vec<u8>) {
    compress_with(&ZLIB_COMPRESSOR, true, contents, dst);
}

pub(super) fn decompress(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    read_bounded("zlib", ZlibDecoder::new(stored), dst)
}

pub(super) fn compress_raw(contents: &[u8], dst: &mut Vec<u8>) {
    compress_with(&DEFLATE_COMPRESSOR, false, contents, dst);
}

/// Appends the stream of `contents`, with zlib's header if `has_header`. Uses the compressor of
/// this thread; a thread that is about to end has none any more and gets a new one.
fn compress_with(
    compressor: &'static LocalKey<RefCell<Option<Compress>>>,
    has_header: bool,
    contents: &[u8],
    dst: &mut Vec<u8>,
) {
    let start = dst.len();
    let new = || Compress::new(Compression::default(), has_header);
    let result = compressor
        .try_with(|compressor| append_stream(compressor.borrow_mut().get_or_insert_with(new), contents, dst));
    let is_complete = result.unwrap_or_else(|_| append_stream(&mut new(), contents, dst));
    if !is_complete {
        dst.truncate(start);
        store_uncompressed(contents, dst);
    }
}

/// Appends the stream of `contents`. Returns false if it has no complete stream, or one that
/// [`read_bounded`] would refuse.
fn append_stream(compressor: &mut Compress, contents: &[u8], dst: &mut Vec<u8>) -> bool {
    if contents.len() > MAX_BLOCK_CONTENTS {
        return false;
    }
    compressor.reset();
    // Blocks that hardly shrink get five more bytes for each 16 KiB, and a header and a checksum.
    dst.reserve(contents.len() + contents.len() / 1024 + 64);
    loop {
        let rest = &contents[compressor.total_in() as usize..];
        match compressor.compress_vec(rest, dst, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return true,
            Ok(Status::Ok | Status::BufError) if dst.len() == dst.capacity() => dst.reserve(1 << 10),
            _ => return false,
        }
    }
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
