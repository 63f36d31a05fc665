//! Stored form of values in TiKV.
//!
//! ```text
//!   0      1                   9
//!   +------+-------------------+-------+
//!   | 2    | stamp (BE)        | value |   stamp: start timestamp of the transaction that wrote it
//!   +------+-------------------+-------+
//! ```
//!
//! No two transactions have one stamp, so the stamp tells whether a key has changed. It also tells
//! whether a commit without an answer took effect: its marker has its stamp. TiKV accepts no empty
//! value, which the header excludes.

use crate::error::{Error, Result};

/// First byte of a value: a stamp and a plain value follow.
const STAMPED_VALUE: u8 = 2;
/// Bytes before the plain value: the first byte and a stamp.
const HEADER: usize = 9;

/// Start timestamp of the transaction that wrote a value.
pub(super) type Stamp = u64;

/// Returns the stored form of a value.
pub(super) fn encode_value(stamp: Stamp, value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(HEADER + value.len());
    stored.push(STAMPED_VALUE);
    stored.extend_from_slice(&stamp.to_be_bytes());
    stored.extend_from_slice(value);
    stored
}

/// Returns the value of a stored form.
pub(super) fn decode_value(key: &[u8], mut stored: Vec<u8>) -> Result<Vec<u8>> {
    stamp_of(key, &stored)?;
    stored.drain(..HEADER);
    Ok(stored)
}

/// Returns the stamp of a stored form.
pub(super) fn stamp_of(key: &[u8], stored: &[u8]) -> Result<Stamp> {
    let header = stored.split_first().filter(|(form, _)| **form == STAMPED_VALUE);
    match header.and_then(|(_, rest)| rest.split_first_chunk()) {
        Some((stamp, _)) => Ok(Stamp::from_be_bytes(*stamp)),
        None => Err(Error::Corruption(format!(
            "tikv: the value of '{}' has {} bytes and begins with {:?}, expected the byte {STAMPED_VALUE} and a stamp",
            key.escape_ascii(),
            stored.len(),
            stored.first()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_stamp() {
        assert_eq!(decode_value(b"k", encode_value(7, b"v")).unwrap(), b"v");
        assert_eq!(decode_value(b"k", encode_value(7, b"")).unwrap(), b"");
        assert_eq!(stamp_of(b"k", &encode_value(u64::MAX, b"v")).unwrap(), u64::MAX);
        assert!(decode_value(b"k", Vec::new()).is_err());
        assert!(decode_value(b"k", b"\x01v".to_vec()).is_err());
        assert!(decode_value(b"k", b"\x02too few".to_vec()).is_err());
    }
}
