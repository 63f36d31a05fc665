//! Plain functions, all named `terrace_cxx_*`, for the C++ classes of `shim/`. The library does not
//! export them.
//!
//! ```text
//!   shim: class of the library   -->  terrace_cxx_*   (db, iterator, table, system_env, ...)
//!   shim: class of the program   <--  callback table and object   (callbacks)
//! ```
//!
//! `shim/cxx_abi.h` declares the same functions; the two files must change together. Rust calls C++
//! only through the callback tables of user objects, so this crate links without the classes.
//!
//! An error is a LevelDB status code and a `malloc`ed text that the caller frees. Rust does not
//! know the layout of `std::string`: it fills strings through the `assign` callback that comes with
//! them.

mod builtin;
mod callbacks;
mod db;
mod dump;
mod iterator;
mod options;
mod system_env;
mod table;
mod types;
