//! What both interfaces share: the border between Rust and a program that knows nothing of it.

mod failure;
mod guard;
mod memory;

pub use failure::Failure;
pub use guard::guarded;
pub use memory::{bytes, malloced, malloced_string, path};
