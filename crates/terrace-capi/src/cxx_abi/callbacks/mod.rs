//! Adapters from objects of the program to traits of the engine. Each object is a pointer and a
//! table of callbacks. The program keeps it alive longer than the database and allows calls from
//! any thread.

mod cache;
mod comparator;
mod env;
mod files;
mod filter;
mod logger;
mod scheduler;

pub(super) use cache::CacheCallbacks;
pub(super) use comparator::ComparatorCallbacks;
pub(super) use env::{EnvCallbacks, UserEnv};
pub(super) use files::{RandomAccessFileCallbacks, UserRandomAccessFile, WritableFileCallbacks};
pub(super) use filter::FilterCallbacks;
pub(super) use logger::LoggerCallbacks;

use super::types::{CxxSlice, UserObject};

/// Receives bytes that a callback returns.
type ByteBuffer = Vec<u8>;

/// Replaces the contents of `buffer` by `bytes`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_put_bytes(buffer: &mut ByteBuffer, bytes: CxxSlice<'_>) {
    buffer.clear();
    buffer.extend_from_slice(bytes.as_slice());
}

/// Adds `name` to `names`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_add_name(names: &mut Vec<ByteBuffer>, name: CxxSlice<'_>) {
    names.push(name.as_slice().to_vec());
}
