//! The program `terrace`.
fn main() {}
