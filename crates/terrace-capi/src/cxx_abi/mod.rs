//! Plain functions for the C++ classes of `shim/`, all called `terrace_cxx_*`. None is visible outside of the library.
//!
//! ```text
//!   shim: class that the library hands out    -->  terrace_cxx_*  (db, cursor, table, system, builtin, dump)
//!   shim: class that a program hands in       <--  a table of calls and an object  (foreign)
//! ```
//!
//! `shim/cxx_abi.h` declares the same functions for the other side: the two change together. Rust calls C++ only through
//! the tables that come with each foreign object, so this crate links without the classes.
//!
//! Errors are a code, and a malloc'ed text for the caller to free; both are LevelDB's. Strings of C++ are filled by the
//! `take` that comes with them: Rust never knows their layout.

mod builtin;
mod callbacks;
mod db;
mod dump;
mod iterator;
mod options;
mod system_env;
mod table;
mod types;
