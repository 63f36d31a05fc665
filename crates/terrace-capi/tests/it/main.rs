//! The library as a program meets it: the names that it shows, C programs, and what they find there.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "builds and runs programs")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod acceptance;
mod bench_settings;
mod c_programs;
mod cxx_programs;
mod exported_symbols;
mod installed;
mod library;
