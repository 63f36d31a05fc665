//! The log: records in order, made so that a torn end is recognised. Write-ahead logs and manifests are logs.
//!
//! ```text
//!   file    +----------------+----------------+--------
//!           | block: 32 KiB  | block: 32 KiB  | ...       the last one may be shorter
//!           +----------------+----------------+--------
//!   block   +----------+----------+-- --+----------+-------+
//!           | fragment | fragment | ... | fragment | zeros |   fewer than 7 bytes never hold a fragment
//!           +----------+----------+-- --+----------+-------+
//!           0          4          6      7
//!   fragment+----------+----------+------+-----------+
//!           | checksum | length   | type | payload   |   integers little-endian; checksum over type and payload
//!           +----------+----------+------+-----------+
//! ```
//!
//! A record is one `LEVEL_0_NO_HEADROOM` fragment, or a `FIRST`, any number of `MIDDLE` and a `LAST`. A header of type 0 and length 0
//! is room that was set aside and not used: the rest of its block is skipped.
//!
//! [`RecordWriter`] says where the fragments of a record go, [`LogReader`] finds the records again. Neither opens a file.

mod fragment_reader;
mod reader;
mod writer;

pub use reader::{LogEnd, LogItem, LogReader};
pub use writer::{Fragment, RecordWriter};

use crate::crc;

/// The bytes of a block. A fragment never crosses from one block into the next.
pub const LOG_BLOCK_SIZE: usize = 32768;

/// The bytes before the payload of a fragment.
pub const FRAGMENT_HEADER_SIZE: usize = 7;

/// The longest payload that one block can hold.
const MAX_FRAGMENT_PAYLOAD: usize = LOG_BLOCK_SIZE - FRAGMENT_HEADER_SIZE;

/// The type bytes of fragments.
mod fragment_type {
    pub(super) const ZERO: u8 = 0;
    pub(super) const FULL: u8 = 1;
    pub(super) const FIRST: u8 = 2;
    pub(super) const MIDDLE: u8 = 3;
    pub(super) const LAST: u8 = 4;
}

/// The checksums of the type bytes alone, which each fragment's begins with.
const TYPE_CHECKSUMS: [u32; 5] = [0x527d_5351, 0xa016_d052, 0xb346_23a6, 0x412d_a0a5, 0x95e7_c44e];

/// The checksum of a fragment as it is stored.
fn fragment_checksum(kind: u8, payload: &[u8]) -> u32 {
    let of_kind = TYPE_CHECKSUMS.get(kind as usize).copied().unwrap_or_else(|| crc::value(&[kind]));
    crc::mask(crc::extend(of_kind, payload))
}

#[cfg(test)]
mod tests;
