//! The bytes of a LevelDB database, in both directions.
//!
//! Bytes in, values or a [`DecodeError`] out. Nothing here knows a file, a thread, a lock or a policy, and nothing
//! allocates more than its input can justify. The formats are frozen; `docs/format/` has the byte tables.

#![forbid(unsafe_code)]

pub mod batch;
pub mod block;
pub mod coding;
pub mod comparator;
pub mod compress;
pub mod crc;
mod decode_error;
pub mod filename;
pub mod filter;
pub mod filter_block;
mod internal_iterator;
pub mod key;
pub mod key_order;
pub mod log;
pub mod table;
pub mod version_edit;

pub use decode_error::{DecodeError, DecodeErrorKind};
pub use internal_iterator::InternalIterator;
