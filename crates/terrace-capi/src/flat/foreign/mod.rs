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
pub(super) use scheduler::Jobs;

use std::ffi::{CStr, c_char};

use super::abi::{Bytes, Foreign};

/// A copy of a foreign object's name, taken once: it may not change anyway.
///
/// # Safety
///
/// `name` is a string that ends in zero.
unsafe fn name(name: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Where the shim leaves bytes that a foreign object made.
type Bin = Vec<u8>;

/// Puts `bytes` in place of what is in `bin`.
///
/// # Safety
///
/// `bin` came with the call that is answered so; `bytes` live through this one.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_put_bytes(bin: &mut Bin, bytes: Bytes) {
    bin.clear();
    // SAFETY: the caller's promise.
    bin.extend_from_slice(unsafe { bytes.get() });
}

/// Adds `name` to `names`.
///
/// # Safety
///
/// As [`terrace_cxx_put_bytes`].
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_cxx_add_name(names: &mut Vec<Bin>, name: Bytes) {
    // SAFETY: the caller's promise.
    names.push(unsafe { name.get() }.to_vec());
}
