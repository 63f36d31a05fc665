//! LevelDB's errors: texts whose first words denote the status code.

use std::fmt;

/// Status code of LevelDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "LevelDB's names")]
pub enum StatusCode {
    NotFound,
    Corruption,
    NotSupported,
    InvalidArgument,
    Io,
    /// The text has no known prefix.
    Unknown,
}

/// Prefixes of status texts.
static STATUS_PREFIXES: &[(&str, StatusCode)] = &[
    ("NotFound: ", StatusCode::NotFound),
    ("Corruption: ", StatusCode::Corruption),
    ("Not implemented: ", StatusCode::NotSupported),
    ("Invalid argument: ", StatusCode::InvalidArgument),
    ("IO error: ", StatusCode::Io),
];

/// Error of the stock library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockError {
    /// Status code.
    pub code: StatusCode,
    /// Complete text of LevelDB.
    pub text: String,
}

impl StockError {
    /// Creates an error from LevelDB's text.
    pub(super) fn new(text: String) -> StockError {
        let prefix = STATUS_PREFIXES.iter().find(|(prefix, _)| text.starts_with(prefix));
        StockError { code: prefix.map_or(StatusCode::Unknown, |(_, code)| *code), text }
    }
}

impl fmt::Display for StockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StockError {}

impl From<StockError> for String {
    fn from(error: StockError) -> String {
        error.text
    }
}
