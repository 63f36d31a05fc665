//! The library as a program meets it.
