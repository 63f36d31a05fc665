//! Marker of a typed directory, and the map from Redis databases to namespaces.
//!
//! ```text
//!   00 "terrace.serve"         format:2 flags:2 crc:4
//!   00 "terrace.serve" 01      next object number:8 crc:4
//!   00 "terrace.serve" 02      16 x space:2, crc:4
//!   00 "terrace.serve" 03 guard:1    the same, in a shared store
//! ```
//!
//! Integers are big-endian. The CRC-32C covers the bytes before it.

use super::layout::DATABASES;

/// Key of the marker.
pub(crate) const MARKER_KEY: &[u8] = b"\x00terrace.serve";
/// Key of the counter of object numbers.
pub(crate) const NUMBERS_KEY: &[u8] = b"\x00terrace.serve\x01";
/// Key of the map of namespaces.
pub(crate) const SPACES_KEY: &[u8] = b"\x00terrace.serve\x02";
/// Number of guards of the map in a shared store, below etcd's limit on the operations of a
/// transaction.
const MAP_GUARDS: u8 = 64;
/// Version of the typed layout.
const FORMAT: u16 = 1;
/// Flag of a directory that has or had values of other types than strings. A program that does not
/// know it refuses the directory.
const HAS_OBJECTS: u16 = 1;
/// Size of a checksum, in bytes.
const CRC_LEN: usize = 4;

/// Map from a Redis database to its namespace.
pub(crate) type Spaces = [u16; DATABASES];

/// Map of a new directory.
pub(crate) fn initial_spaces() -> Spaces {
    std::array::from_fn(|database| database as u16)
}

/// Returns the key of the guard of the map with the number `number`, modulo the number of guards.
///
/// A change of the map in a shared store writes all guards. Each other transaction reads one of
/// them. A commit on TiKV locks the records that it has read, so with the map itself, the commits
/// of all servers would follow each other.
pub(super) fn map_guard_key(number: usize) -> Vec<u8> {
    let guard = (number % usize::from(MAP_GUARDS)) as u8;
    [MARKER_KEY, &[3, guard]].concat()
}

/// Returns the keys of all guards of the map.
pub(super) fn map_guard_keys() -> impl Iterator<Item = Vec<u8>> {
    (0..usize::from(MAP_GUARDS)).map(map_guard_key)
}

/// Returns the value of the marker.
pub(crate) fn encode_marker(has_objects: bool) -> Vec<u8> {
    let mut value = FORMAT.to_be_bytes().to_vec();
    value.extend_from_slice(&(if has_objects { HAS_OBJECTS } else { 0 }).to_be_bytes());
    with_crc(value)
}

/// Checks the value of the marker. Returns true if the directory may have objects.
///
/// # Errors
///
/// A description of the damage, or of the unknown format.
pub(crate) fn check_marker(value: &[u8]) -> Result<bool, String> {
    let body = without_crc(value).ok_or("the marker of the typed layout is damaged")?;
    let [high, low, flags @ ..] = body else { return Err("the marker is too short".into()) };
    let format = u16::from_be_bytes([*high, *low]);
    if format != FORMAT {
        return Err(format!("typed layout with format {format}, expected {FORMAT}"));
    }
    match <[u8; 2]>::try_from(flags).map(u16::from_be_bytes) {
        Ok(flags) if flags & !HAS_OBJECTS == 0 => Ok(flags & HAS_OBJECTS != 0),
        _ => Err(format!("typed layout with flags {flags:02x?}, expected [00, 00] or [00, 01]")),
    }
}

/// Returns the value of the counter of object numbers.
pub(crate) fn encode_number(number: u64) -> Vec<u8> {
    with_crc(number.to_be_bytes().to_vec())
}

/// Returns the number that the counter `value` holds, or None if it is damaged.
pub(crate) fn decode_number(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(without_crc(value)?.try_into().ok()?))
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
        assert_eq!(check_marker(&encode_marker(false)), Ok(false));
        assert_eq!(check_marker(&encode_marker(true)), Ok(true));
        // The bytes of the first version.
        assert_eq!(check_marker(&with_crc(vec![0, 1, 0, 0])), Ok(false));
    }

    #[test]
    fn every_flipped_bit_of_the_marker() {
        let marker = encode_marker(true);
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
        let flags = check_marker(&with_crc(vec![0, 1, 0, 2])).unwrap_err();
        assert_eq!(flags, "typed layout with flags [00, 02], expected [00, 00] or [00, 01]");
    }

    #[test]
    fn map_of_namespaces() {
        let mut spaces = initial_spaces();
        spaces[3] = 777;
        assert_eq!(decode_spaces(&encode_spaces(&spaces)), Some(spaces));
        assert_eq!(decode_spaces(&encode_spaces(&spaces)[1..]), None);
    }
}
