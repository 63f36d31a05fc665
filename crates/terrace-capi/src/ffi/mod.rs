//! Code that both interfaces share: conversions between Rust and C.

mod c_memory;
mod callback_name;
mod catch_panic;
mod database;
mod errptr;
mod global_allocator;
mod status_error;
mod test_directory;

pub use c_memory::{
    OutParam, array_from_c, bytes_from_c, malloc_bytes, malloc_c_string, malloc_value, output_array_from_c,
    path_from_c, try_copy, write_out_param,
};
pub use callback_name::CallbackName;
pub use catch_panic::catch_panic;
pub use database::{destroy, open};
pub use errptr::{ErrPtr, require_non_null, run_or_default, run_with_errptr};
pub use status_error::StatusError;
pub use test_directory::test_directory;
