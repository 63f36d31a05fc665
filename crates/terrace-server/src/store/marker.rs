//! Marker of a typed directory, and the map from Redis databases to namespaces.
//!
//! ```text
//!   00 "terrace.serve"         format:2 flags:2 crc:4
//!   00 "terrace.serve" 02      16 x space:2, crc:4
//! ```
//!
//! Integers are big-endian. The CRC-32C covers the bytes before it.

use super::layout::DATABASES;

/// Key of the marker.
pub(crate) const MARKER_KEY: &[u8] = b"\x00terrace.serve";
/// Key of the map of namespaces.
pub(crate) const SPACES_KEY: &[u8] = b"\x00terrace.serve\x02";
/// Version of the typed layout.
const FORMAT: u16 = 1;
/// Size of a checksum, in bytes.
const CRC_LEN: usize = 4;

/// Map from a Redis database to its namespace.
pub(crate) type Spaces = [u16; DATABASES];

/// Map of a new directory.
pub(crate) fn initial_spaces() -> Spaces {
    std::array::from_fn(|database| database as u16)
}

/// Returns the value of the marker.
pub(crate) fn encode_marker() -> Vec<u8> {
    let mut value = FORMAT.to_be_bytes().to_vec();
    value.extend_from_slice(&[0, 0]);
    with_crc(value)
}

/// Checks the value of the marker.
///
/// # Errors
///
/// A description of the damage, or of the unknown format.
pub(crate) fn check_marker(value: &[u8]) -> Result<(), String> {
    let body = without_crc(value).ok_or("the marker of the typed layout is damaged")?;
    let [high, low, flags @ ..] = body else { return Err("the marker is too short".into()) };
    let format = u16::from_be_bytes([*high, *low]);
    if format != FORMAT {
        return Err(format!("typed layout with format {format}, expected {FORMAT}"));
    }
    if flags != [0, 0] {
        return Err(format!("typed layout with flags {flags:02x?}, expected none"));
    }
    Ok(())
}

/// Returns the value of the map.
pub(crate) fn encode_spaces(spaces: &Spaces) -> Vec<u8> {
    with_crc(spaces.iter().flat_map(|space| space.to_be_bytes()).collect())
}

/// Returns the map that `value` holds, or None if it is damaged.
pub(crate) fn decode_spaces(value: &[u8]) -> Option<Spaces> {
    let body = without_crc(value).filter(|body| body.len() == 2 * DATABASES)?;
    let mut spaces = initial_spaces();
    for (space, bytes) in spaces.iter_mut().zip(body.chunks_exact(2)) {
        *space = u16::from_be_bytes([bytes[0], bytes[1]]);
    }
    Some(spaces)
}

fn with_crc(mut body: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&body);
    body.extend_from_slice(&crc.to_be_bytes());
    body
}

fn without_crc(value: &[u8]) -> Option<&[u8]> {
    let (body, crc) = value.split_at_checked(value.len().checked_sub(CRC_LEN)?)?;
    (crc32c::crc32c(body).to_be_bytes() == crc).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intact_marker() {
        assert_eq!(check_marker(&encode_marker()), Ok(()));
    }

    #[test]
    fn every_flipped_bit_of_the_marker() {
        let marker = encode_marker();
        for bit in 0..8 * marker.len() {
            let mut damaged = marker.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(check_marker(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn later_format() {
        let later = with_crc(vec![0, 2, 0, 0]);
        assert_eq!(check_marker(&later), Err("typed layout with format 2, expected 1".into()));
    }

    #[test]
    fn map_of_namespaces() {
        let mut spaces = initial_spaces();
        spaces[3] = 777;
        assert_eq!(decode_spaces(&encode_spaces(&spaces)), Some(spaces));
        assert_eq!(decode_spaces(&encode_spaces(&spaces)[1..]), None);
    }
}
