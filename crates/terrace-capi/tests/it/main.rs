//! Tests of the library as programs use it: exported symbols, and C and C++ programs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "builds and runs programs")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod acceptance;
mod bench_settings;
mod c_programs;
mod cxx_programs;
mod exported_symbols;
mod installed;
mod library;
mod terrace_archive;
