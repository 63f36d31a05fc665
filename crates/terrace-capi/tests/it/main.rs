//! The library as a program meets it: the names that it shows, C programs, and what they find there.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "builds and runs programs")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod acceptance;
mod c_programs;
mod cxx_programs;
mod installed;
mod library;
mod measured;
mod names;
