//! Name of an object of the program, whose bytes need not be UTF-8.

/// Name that a callback returned.
#[derive(Default)]
pub struct CallbackName {
    bytes: Vec<u8>,
    text: String,
}

impl CallbackName {
    /// Copies `bytes`.
    pub fn new(bytes: &[u8]) -> CallbackName {
        CallbackName { bytes: bytes.to_vec(), text: String::from_utf8_lossy(bytes).into_owned() }
    }

    /// Returns the bytes of the name.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the name for messages, with U+FFFD for bytes that are not UTF-8.
    pub fn text(&self) -> &str {
        &self.text
    }
}
