//! What both interfaces share: the border between Rust and a program that knows nothing of it.

mod database;
mod directory;
mod errptr;
mod failure;
mod guard;
mod malloc;
mod memory;

pub use database::{destroy, open};
pub use directory::test_directory;
pub use errptr::{ErrPtr, answered, given, quietly};
pub use failure::Failure;
pub use guard::guarded;
pub use memory::{Out, bytes, items, malloced, malloced_string, malloced_value, path, put_out, room};
