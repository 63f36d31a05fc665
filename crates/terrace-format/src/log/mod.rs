//! Log: a sequence of records whose torn end a reader recognises. The WAL and the MANIFEST are
//! logs.
//!
//! ```text
//!   file    +----------------+----------------+--------
//!           | block: 32 KiB  | block: 32 KiB  | ...       the last one may be shorter
//!           +----------------+----------------+--------
//!   block   +----------+----------+-- --+----------+-------+
//!           | fragment | fragment | ... | fragment | zeros |   none starts in the last 6 bytes
//!           +----------+----------+-- --+----------+-------+
//!           0          4          6      7
//!   fragment+----------+----------+------+-----------+
//!           | checksum | length   | type | payload   |  integers are little-endian
//!           +----------+----------+------+-----------+  the checksum covers type and payload
//! ```
//!
//! A record is one `FULL` fragment, or a `FIRST` fragment, any number of `MIDDLE` fragments and a
//! `LAST` fragment. A header of type 0 and length 0 marks preallocated, unused space: readers skip
//! the rest of its block.
//!
//! [`RecordWriter`] computes the positions of a record's fragments, and [`LogReader`] reads the
//! records. [`TailReader`] reads them while a writer appends more. None of them opens a file.

mod fragment_reader;
mod reader;
mod source;
mod tail_reader;
mod writer;

pub use fragment_reader::MIN_UNUSED_BEFORE_HOLES;
pub use reader::{Continuity, LogEnd, LogItem, LogReader};
pub use source::LogSource;
pub use tail_reader::{JudgeRecord, ReadAt, TailItem, TailReader, TailVerdict};
pub use writer::{Fragment, RecordWriter, SplitFragment};

use crate::crc;

/// Size of a block, in bytes. A fragment never crosses a block boundary.
pub const LOG_BLOCK_SIZE: usize = 32768;

/// Size of a fragment header, in bytes.
pub const FRAGMENT_HEADER_SIZE: usize = 7;

/// Maximum payload of a fragment, in bytes.
const MAX_FRAGMENT_PAYLOAD: usize = LOG_BLOCK_SIZE - FRAGMENT_HEADER_SIZE;

/// Type bytes of fragments.
mod fragment_type {
    pub(super) const ZERO: u8 = 0;
    pub(super) const FULL: u8 = 1;
    pub(super) const FIRST: u8 = 2;
    pub(super) const MIDDLE: u8 = 3;
    pub(super) const LAST: u8 = 4;
}

/// Checksums of the type bytes alone. The checksum of a fragment continues one of them.
const TYPE_CHECKSUMS: [u32; 5] = [0x527d_5351, 0xa016_d052, 0xb346_23a6, 0x412d_a0a5, 0x95e7_c44e];

/// Returns the stored checksum of a fragment.
fn fragment_checksum(kind: u8, payload: &[u8]) -> u32 {
    split_fragment_checksum(kind, [payload, &[]])
}

/// Returns the stored checksum of a fragment whose payload is the two slices together.
#[inline]
fn split_fragment_checksum(kind: u8, [payload, rest]: [&[u8]; 2]) -> u32 {
    let type_checksum = TYPE_CHECKSUMS.get(kind as usize).copied().unwrap_or_else(|| crc::value(&[kind]));
    let checksum = crc::extend(type_checksum, payload);
    crc::mask(if rest.is_empty() { checksum } else { crc::extend(checksum, rest) })
}

#[cfg(test)]
mod tests;
