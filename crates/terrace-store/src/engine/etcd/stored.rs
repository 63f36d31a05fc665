//! Stored form of values in etcd: a header byte, then the value.

use crate::error::{Error, Result};

/// First byte of a value: a plain value follows.
const PLAIN_VALUE: u8 = 1;

/// Returns the stored form of a value.
pub(super) fn encode_value(value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len() + 1);
    stored.push(PLAIN_VALUE);
    stored.extend_from_slice(value);
    stored
}

/// Returns the value of a stored form.
pub(super) fn decode_value(key: &[u8], mut stored: Vec<u8>) -> Result<Vec<u8>> {
    if stored.first() != Some(&PLAIN_VALUE) {
        return Err(Error::Corruption(format!(
            "etcd: the value of '{}' begins with {:?}, expected the byte {PLAIN_VALUE}",
            key.escape_ascii(),
            stored.first()
        )));
    }
    stored.remove(0);
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_header() {
        assert_eq!(decode_value(b"k", encode_value(b"")).unwrap(), b"");
        assert_eq!(decode_value(b"k", encode_value(b"\x01")).unwrap(), b"\x01");
        assert!(decode_value(b"k", Vec::new()).is_err());
        assert!(decode_value(b"k", b"\x02v".to_vec()).is_err());
    }
}
