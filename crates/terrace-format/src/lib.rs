//! Encoding and decoding of LevelDB's file formats.
//!
//! Decoders take bytes and return values or a [`DecodeError`]. The crate knows no file, thread,
//! lock or policy, and allocates no more than its input justifies. The formats are frozen;
//! `docs/format/` has the byte tables.

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
mod memory;
pub mod table;
pub mod version_edit;

pub use decode_error::{DecodeError, DecodeErrorKind};
pub use internal_iterator::InternalIterator;
