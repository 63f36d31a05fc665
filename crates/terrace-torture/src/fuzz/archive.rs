//! A directory of files as one byte string.
//!
//! ```text
//!   +------+-------+------+-------+--
//!   | name | bytes | name | bytes | ...     slices: varint32 length, bytes
//!   +------+-------+------+-------+--
//! ```
//!
//! Any bytes are a valid archive. An incomplete file at the end is dropped, and so is a file with
//! an invalid name. Of two files with one name, the later one is kept.

use std::collections::BTreeMap;

use terrace_format::coding::{SliceDecoder, put_length_prefixed_slice};

/// Maximum number of files in a decoded archive.
const MAX_FILES: usize = 64;

/// Encodes `files`.
pub fn encode<'a, N: AsRef<str> + 'a, B: AsRef<[u8]> + 'a>(
    files: impl IntoIterator<Item = (&'a N, &'a B)>,
) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in files {
        put_length_prefixed_slice(&mut archive, name.as_ref().as_bytes());
        put_length_prefixed_slice(&mut archive, bytes.as_ref());
    }
    archive
}

/// Decodes the files of an archive.
pub fn decode(archive: &[u8]) -> BTreeMap<String, &[u8]> {
    let mut decoder = SliceDecoder::new(archive);
    let mut files = BTreeMap::new();
    while let (Ok(name), Ok(bytes)) =
        (decoder.length_prefixed_slice("a name"), decoder.length_prefixed_slice("a file"))
    {
        let name = std::str::from_utf8(name).ok().filter(|name| is_valid_file_name(name));
        if let Some(name) = name.filter(|_| files.len() < MAX_FILES) {
            files.insert(name.to_owned(), bytes);
        }
    }
    files
}

/// Returns true if a directory can contain a file with this name.
fn is_valid_file_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains(['/', '\0']) && name.len() < 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(archive: &[u8], expected: &[(&str, &[u8])]) {
        let files = decode(archive);
        assert!(
            files.iter().map(|(name, bytes)| (name.as_str(), *bytes)).eq(expected.iter().copied()),
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
