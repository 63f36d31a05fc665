//! Objects that a program hands in, as what the engine expects. Each is a pointer and a table of calls, and outlives the
//! database by the program's promise. They may be called from any thread.

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

/// Where the shim leaves bytes that a foreign object made.
type ByteBuffer = Vec<u8>;

/// Puts `bytes` in place of what is in `bin`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_put_bytes(bin: &mut ByteBuffer, bytes: CxxSlice<'_>) {
    bin.clear();
    bin.extend_from_slice(bytes.as_slice());
}

/// Adds `name` to `names`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_add_name(names: &mut Vec<ByteBuffer>, name: CxxSlice<'_>) {
    names.push(name.as_slice().to_vec());
}
