//! zstd: the codec of LevelDB's later sources.

use std::cell::RefCell;
use std::io;
use std::thread::LocalKey;

use zstd::bulk::{Compressor, Decompressor};

use super::{MAX_BLOCK_CONTENTS, decompression_error, store_uncompressed};
use crate::decode_error::DecodeError;
use crate::memory;

/// Compression level: LevelDB's default.
const LEVEL: i32 = 1;

/// Maximum ratio of a block's size to its stored size. A frame consists of blocks of at most 128
/// KiB, and the smallest of them takes four bytes.
const MAX_RATIO: usize = (128 << 10) / 4;

thread_local! {
    // Creating a context takes as long as compressing a block. `None` if there was no memory for
    // one.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

pub(super) fn compress(contents: &[u8], dst: &mut Vec<u8>) {
    match with_context(&COMPRESSOR, || Compressor::new(LEVEL), |compressor| compressor.compress(contents)) {
        Ok(mut frame) if contents.len() <= MAX_BLOCK_CONTENTS => dst.append(&mut frame),
        _ => store_uncompressed(contents, dst),
    }
}

pub(super) fn decompress(stored: &[u8], dst: &mut Vec<u8>) -> Result<(), DecodeError> {
    let capacity = stored.len().saturating_mul(MAX_RATIO).min(MAX_BLOCK_CONTENTS);
    // For a frame that does not state its size, the capacity is the largest possible size.
    let stated = ::zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let capacity = stated.map_or(capacity, |size| usize::try_from(size).unwrap_or(usize::MAX).min(capacity));
    *dst = Vec::new();
    memory::reserve(dst, capacity)?;
    with_context(&DECOMPRESSOR, Decompressor::new, |decompressor| {
        decompressor.decompress_to_buffer(stored, &mut *dst)
    })
    .map_err(|error| decompression_error("zstd", error))?;
    dst.shrink_to_fit();
    Ok(())
}

/// Calls `work` with the context of this thread. A thread that is about to end has no context; it
/// gets a new one.
fn with_context<C, T>(
    context: &'static LocalKey<RefCell<Option<C>>>,
    new: fn() -> io::Result<C>,
    mut work: impl FnMut(&mut C) -> io::Result<T>,
) -> io::Result<T> {
    let result = context.try_with(|context| {
        context.borrow_mut().as_mut().map_or(Err(io::ErrorKind::OutOfMemory.into()), &mut work)
    });
    result.unwrap_or_else(|_| work(&mut new()?))
}
