//! What is wrong with some bytes, and where.

use std::fmt;

/// The kind of a error, for code that must tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end before the thing they announce does.
    Truncated,
    /// A stored checksum is not that of the bytes.
    ChecksumMismatch,
    /// A tag, type or name that this format does not have.
    Unknown,
    /// A length, offset, level or number outside of what is possible there.
    OutOfBounds,
    /// Things that must rise do not.
    OutOfOrder,
    /// Compressed bytes that do not decompress.
    Decompression,
    /// A compressed block, and the build lacks the cargo feature of its codec. The bytes may be intact.
    MissingCodec,
    /// Anything else: bytes that contradict each other.
    Malformed,
}

/// A place in some bytes where something else was expected. The caller knows which file the bytes came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The kind.
    pub kind: DecodeErrorKind,
    /// Where, in bytes from the start of what was given to the decoder.
    pub offset: u64,
    /// What was found there, as a noun phrase.
    pub found: String,
    /// What should have been there, as a noun phrase; empty if `found` says it all.
    pub expected: String,
}

impl DecodeError {
    /// A error of `kind` at `at`.
    pub fn new(
        kind: DecodeErrorKind,
        at: u64,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> DecodeError {
        DecodeError { kind, offset: at, found: found.into(), expected: expected.into() }
    }

    /// A checksum that does not match.
    pub fn checksum_mismatch(at: u64, computed: u32, stored: u32) -> DecodeError {
        DecodeError::new(
            DecodeErrorKind::ChecksumMismatch,
            at,
            format!("checksum {computed:#010x}"),
            format!("{stored:#010x} as stored"),
        )
    }

    /// `have` bytes where `need` are needed for `what`.
    pub fn truncated(at: u64, what: &str, have: u64, need: u64) -> DecodeError {
        DecodeError::new(
            DecodeErrorKind::Truncated,
            at,
            format!("{have} bytes"),
            format!("{need} for {what}"),
        )
    }

    /// The same error, seen from bytes that begin `base` earlier.
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
