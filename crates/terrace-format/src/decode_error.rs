//! Decode error: a description of invalid bytes with their offset.

use std::fmt;

/// Kind of a decode error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end before the announced end.
    Truncated,
    /// The stored checksum differs from the computed one.
    ChecksumMismatch,
    /// The format does not have this tag, type or name.
    Unknown,
    /// A length, offset, level or number is outside its bounds.
    OutOfBounds,
    /// Values that must rise do not.
    OutOfOrder,
    /// Compressed bytes do not decompress.
    Decompression,
    /// The build lacks the cargo feature of the block's codec. The bytes may be intact.
    MissingCodec,
    /// The system has no memory for the decoded bytes. The stored bytes may be intact.
    OutOfMemory,
    /// Bytes contradict each other in another way.
    Malformed,
}

/// Unexpected bytes at some offset. The caller knows the file that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Kind of the error.
    pub kind: DecodeErrorKind,
    /// Offset from the start of the decoded bytes.
    pub offset: u64,
    /// Noun phrase for the bytes that were found.
    pub found: String,
    /// Noun phrase for the expected bytes. It is empty if `found` says enough.
    pub expected: String,
}

impl DecodeError {
    /// Creates an error of `kind` at `offset`.
    pub fn new(
        kind: DecodeErrorKind,
        offset: u64,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> DecodeError {
        DecodeError { kind, offset, found: found.into(), expected: expected.into() }
    }

    /// Creates the error of a checksum that does not match.
    pub fn checksum_mismatch(offset: u64, computed: u32, stored: u32) -> DecodeError {
        DecodeError::new(
            DecodeErrorKind::ChecksumMismatch,
            offset,
            format!("checksum {computed:#010x}"),
            format!("{stored:#010x} as stored"),
        )
    }

    /// Creates the error of `have` bytes where `subject` needs `need` bytes.
    pub fn truncated(offset: u64, subject: &str, have: u64, need: u64) -> DecodeError {
        DecodeError::new(
            DecodeErrorKind::Truncated,
            offset,
            format!("{have} bytes"),
            format!("{need} for {subject}"),
        )
    }

    /// Adds `base` to the offset, for a caller that decoded a part of its bytes.
    pub fn offset_by(mut self, base: u64) -> DecodeError {
        self.offset = self.offset.saturating_add(base);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        Ok(())
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: DecodeError, expect: &str) {
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn display() {
        check(
            DecodeError::new(DecodeErrorKind::Unknown, 3, "tag 8", "1 to 7 or 9"),
            "tag 8, expected 1 to 7 or 9",
        );
        check(
            DecodeError::new(DecodeErrorKind::Malformed, 0, "a block without an end", ""),
            "a block without an end",
        );
        check(
            DecodeError::checksum_mismatch(0, 0xe, 0xf),
            "checksum 0x0000000e, expected 0x0000000f as stored",
        );
        check(DecodeError::truncated(0, "a footer", 3, 48), "3 bytes, expected 48 for a footer");
    }

    #[test]
    fn offset_by_base() {
        let error = DecodeError::truncated(5, "a tag", 0, 1);
        assert_eq!(error.clone().offset_by(100).offset, 105);
        assert_eq!(error.offset_by(u64::MAX).offset, u64::MAX);
    }
}
