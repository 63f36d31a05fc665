//! Bytes of keys and values in JSON: text if it is harmless, otherwise hexadecimal digits.

use data_encoding::HEXLOWER;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::store::Store;

/// Bytes of a key or a value: `{"text": ..}` or `{"hex": ..}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonBytes<'a>(pub(super) &'a [u8]);

impl Serialize for JsonBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        serialize_entry(&mut map, self.0)?;
        map.end()
    }
}

fn serialize_entry<M: SerializeMap>(map: &mut M, bytes: &[u8]) -> Result<(), M::Error> {
    match text(bytes) {
        Some(text) => map.serialize_entry("text", text),
        None => map.serialize_entry("hex", &HEXLOWER.encode(bytes)),
    }
}

/// Owned bytes of a key or a value.
#[derive(Debug, Clone)]
pub(super) struct OwnedBytes(pub(super) Vec<u8>);

impl Serialize for OwnedBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JsonBytes(&self.0).serialize(serializer)
    }
}

/// Maximum size of a key in a response and in an address, in bytes.
pub(super) const MAX_KEY_BYTES: usize = 4096;

/// Key of a list. Of a long one, the response has the first bytes, the length, and the number under
/// which the server keeps it.
#[derive(Debug, Clone)]
pub(super) struct KeyBytes {
    begin: OwnedBytes,
    /// Length and number of a long key.
    whole: Option<(usize, u64)>,
}

impl KeyBytes {
    pub(super) fn new(store: &Store, key: &[u8]) -> KeyBytes {
        match key.get(..MAX_KEY_BYTES) {
            Some(begin) if key.len() > MAX_KEY_BYTES => {
                let begin = match text(key) {
                    // A character stays whole.
                    Some(text) => {
                        let mut ends = (0..=MAX_KEY_BYTES).rev();
                        let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                        text.as_bytes()[..end].to_vec()
                    }
                    None => begin.to_vec(),
                };
                let whole = Some((key.len(), store.page_keys.insert(key.to_vec())));
                KeyBytes { begin: OwnedBytes(begin), whole }
            }
            _ => KeyBytes { begin: OwnedBytes(key.to_vec()), whole: None },
        }
    }
}

impl Serialize for KeyBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_entry(&mut map, &self.begin.0)?;
        if let Some((total, id)) = self.whole {
            map.serialize_entry("total", &total)?;
            map.serialize_entry("id", &id)?;
        }
        map.end()
    }
}

/// Returns the text that the bytes are, if it has no control characters but tab and line ends.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains(is_harmful)).then_some(text)
}

fn is_harmful(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_or_digits() {
        for (bytes, expected) in [
            (&b"Z\xc3\xbcrich\t"[..], "{\"text\":\"Zürich\\t\"}"),
            (b"\xff\x00", "{\"hex\":\"ff00\"}"),
            (b"a\x1b[", "{\"hex\":\"611b5b\"}"),
            (b"<script>", "{\"text\":\"<script>\"}"),
            (b"", "{\"text\":\"\"}"),
        ] {
            assert_eq!(serde_json::to_string(&JsonBytes(bytes)).unwrap(), expected);
        }
    }
}
