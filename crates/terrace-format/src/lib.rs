//! The bytes of a LevelDB database, in both directions.
//!
//! Bytes in, values or a [`Flaw`] out. Nothing here knows a file, a thread, a lock or a policy, and nothing
//! allocates more than its input can justify. The formats are frozen; `docs/format/` has the byte tables.

#![forbid(unsafe_code)]

pub mod batch;
pub mod block;
pub mod coding;
pub mod comparator;
pub mod compress;
pub mod crc;
pub mod edit;
pub mod filename;
pub mod filter;
pub mod filter_block;
mod flaw;
pub mod key;
pub mod log;
pub mod order;
pub mod table;

pub use flaw::{Flaw, FlawKind};
