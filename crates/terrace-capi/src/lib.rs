//! Terrace behind LevelDB's two interfaces, for programs that are there already.
//!
//! ```text
//!   C program          C++ program
//!       |                   |
//!       |            shim/*.cc         classes with LevelDB's layouts and virtual tables
//!       |                   |
//!      c/                 flat/        the same database as plain functions: leveldb_*, terrace_* | terrace_cxx_*
//!       |                   |
//!       +----- border/ -----+          panics stop here; malloc'ed results, LevelDB's error texts
//!                 |
//!          crate `terrace`
//! ```
//!
//! The crate becomes an archive, and `link.sh` makes `libleveldb.so.1d` of it, with the names of `symbols.txt` and no
//! others: a Rust crate alone could not export the C++ ones.
//!
//! A door has no rule of its own. What is decided here is only how a thing is said: who frees it, what an error reads
//! like, what a null pointer means.
//!
//! # What every function of both interfaces asks of its caller
//!
//! Pointers are null where the header allows it, or point to what the header says and live through the call; handles
//! came from the function that makes them and were not destroyed yet; one thread at a time uses an iterator, a batch or
//! an options object. The safety notes call this *the contract*.

#![allow(unsafe_code, reason = "the border to C and C++")]

mod c;
pub mod cxx_abi;
pub mod ffi;
