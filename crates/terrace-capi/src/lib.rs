//! LevelDB's C and C++ interfaces to Terrace, for existing programs.
//!
//! ```text
//!   C program          C++ program
//!       |                   |
//!       |            shim/*.cc         classes with LevelDB's layouts and virtual tables
//!       |                   |
//!      c/               cxx_abi/       plain functions: leveldb_*, terrace_* | terrace_cxx_*
//!       |                   |
//!       +------- ffi/ ------+          stops panics; malloc'ed results, LevelDB's error texts
//!                 |
//!          crate `terrace`
//! ```
//!
//! The crate is built as an archive. `link.sh` makes `libleveldb.so.1d` of it, which exports
//! exactly the names of `symbols.txt`: a Rust crate alone could not export the C++ names.
//!
//! The library for Windows, `leveldb.dll`, has the C interface only (`link-windows.sh`): the
//! layouts of C++ classes differ between its compilers.
//!
//! A binding has no logic of its own. It decides only how to express a result: who frees memory,
//! how an error reads, and the meaning of a null pointer.
//!
//! # Contract of all functions
//!
//! Callers of both interfaces guarantee three rules. A pointer is null where the header allows it;
//! otherwise it points to the data that the header describes, which lives through the call. A
//! handle comes from its constructor and is not destroyed yet. An iterator, a batch or an options
//! object is used by one thread at a time. Safety notes call these rules *the contract*.

#![allow(unsafe_code, reason = "the border to C and C++")]

mod c;
#[cfg(unix)]
pub mod cxx_abi;
pub mod ffi;
