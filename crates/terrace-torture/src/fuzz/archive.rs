//! A directory of files as one row of bytes.
//!
//! ```text
//!   +------+-------+------+-------+--
//!   | name | bytes | name | bytes | ...     slices: varint32 length, bytes
//!   +------+-------+------+-------+--
//! ```
//!
//! Any bytes are a pack: what breaks off at its end is left out, and so is a name that no directory can hold. Of two
//! files of one name the later one counts.

use std::collections::BTreeMap;

use terrace_format::coding::{SliceDecoder, put_length_prefixed_slice};

/// No directory of an input has more files.
const MAX_FILES: usize = 64;

/// The pack of `files`.
pub fn encode<'a, N: AsRef<str> + 'a, B: AsRef<[u8]> + 'a>(
    files: impl IntoIterator<Item = (&'a N, &'a B)>,
) -> Vec<u8> {
    let mut pack = Vec::new();
    for (name, bytes) in files {
        put_length_prefixed_slice(&mut pack, name.as_ref().as_bytes());
        put_length_prefixed_slice(&mut pack, bytes.as_ref());
    }
    pack
}

/// The files of a pack.
pub fn decode(pack: &[u8]) -> BTreeMap<String, &[u8]> {
    let (mut from, mut files) = (SliceDecoder::new(pack), BTreeMap::new());
    while let (Ok(name), Ok(bytes)) =
        (from.length_prefixed_slice("a name"), from.length_prefixed_slice("a file"))
    {
        let name = std::str::from_utf8(name).ok().filter(|name| is_valid_file_name(name));
        if let Some(name) = name.filter(|_| files.len() < MAX_FILES) {
            files.insert(name.to_owned(), bytes);
        }
    }
    files
}

/// Whether a directory can hold a file of that name.
fn is_valid_file_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains(['/', '\0']) && name.len() < 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pack: &[u8], expect: &[(&str, &[u8])]) {
        let files = decode(pack);
        assert!(
            files.iter().map(|(name, bytes)| (name.as_str(), *bytes)).eq(expect.iter().copied()),
            "{files:?}"
        );
    }

    #[test]
    fn encode_decode_round_trip() {
        let files = BTreeMap::from([("CURRENT", &b"MANIFEST-000002\n"[..]), ("LOG", b"")]);
        check(&encode(&files), &[("CURRENT", b"MANIFEST-000002\n"), ("LOG", b"")]);
    }

    #[test]
    fn truncated_archive() {
        check(b"\x01a\x02xy\x01b\x09z", &[("a", b"xy")]);
    }

    #[test]
    fn path_traversal_names_are_dropped() {
        check(b"\x02..\x01x\x03a/b\x01x\x00\x01x\x01\xff\x01x\x01k\x01y", &[("k", b"y")]);
    }
}
