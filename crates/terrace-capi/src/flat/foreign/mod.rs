//! Objects that a program hands in, as what the engine expects. Each is a pointer and a table of calls, and outlives the
//! database by the program's promise. They may be called from any thread.

mod cache;
mod comparator;
mod env;
mod files;
mod filter;
mod logger;
mod scheduler;

pub(super) use cache::CacheCalls;
pub(super) use comparator::ComparatorCalls;
pub(super) use env::{EnvCalls, World};
pub(super) use files::{ForeignRandom, RandomCalls, WritableCalls};
pub(super) use filter::FilterCalls;
pub(super) use logger::LoggerCalls;

use super::abi::{Bytes, Foreign};

/// Where the shim leaves bytes that a foreign object made.
type Bin = Vec<u8>;

/// Puts `bytes` in place of what is in `bin`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_put_bytes(bin: &mut Bin, bytes: Bytes<'_>) {
    bin.clear();
    bin.extend_from_slice(bytes.get());
}

/// Adds `name` to `names`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_add_name(names: &mut Vec<Bin>, name: Bytes<'_>) {
    names.push(name.get().to_vec());
}
