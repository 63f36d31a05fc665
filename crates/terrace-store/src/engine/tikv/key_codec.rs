//! Form of keys in the answers of a placement driver.
//!
//! ```text
//!   key      a b c d e f g h i
//!   stored   a b c d e f g h ff | i 0 0 0 0 0 0 0 f8
//! ```
//!
//! A group has eight bytes of the key and a marker: 0xff minus the number of bytes of padding. The
//! last group has padding. The stored form has the order of the keys.

/// Bytes of a key in a group.
const GROUP: usize = 8;

/// Returns the stored form of `key`.
pub(super) fn encode_key(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity((key.len() / GROUP + 1) * (GROUP + 1));
    for at in (0..=key.len()).step_by(GROUP) {
        let part = &key[at..(at + GROUP).min(key.len())];
        let padding = GROUP - part.len();
        stored.extend_from_slice(part);
        stored.extend(std::iter::repeat_n(0, padding));
        stored.push(0xff - padding as u8);
    }
    stored
}

/// Returns the key of a stored form, or its intact beginning.
pub(super) fn decode_key(stored: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(stored.len());
    for group in stored.chunks(GROUP + 1) {
        let [part @ .., marker] = group else { break };
        let padding = usize::from(0xff - *marker);
        if part.len() < GROUP || padding > GROUP {
            break;
        }
        key.extend_from_slice(&part[..GROUP - padding]);
        if padding > 0 {
            break;
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_eight_bytes() {
        assert_eq!(encode_key(b""), b"\0\0\0\0\0\0\0\0\xf7");
        assert_eq!(encode_key(b"abcdefghi"), b"abcdefgh\xffi\0\0\0\0\0\0\0\xf8");
        for len in 0..30 {
            let key: Vec<u8> = (0..len).collect();
            assert_eq!(decode_key(&encode_key(&key)), key);
        }
    }

    #[test]
    fn invalid_forms_end_early() {
        assert_eq!(decode_key(b"abc"), b"");
        assert_eq!(decode_key(b"abcdefgh\xffij"), b"abcdefgh");
        assert_eq!(decode_key(b"abcdefgh\x01"), b"");
    }
}
