//! LevelDB's errors: a text whose first words tell the class.

use std::fmt;

/// What kind of error, as LevelDB's status codes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "LevelDB's own names")]
pub enum StatusCode {
    NotFound,
    Corruption,
    NotSupported,
    InvalidArgument,
    Io,
    /// A text that begins like no status.
    Unknown,
}

/// The words that begin a status text.
static STATUS_PREFIXES: &[(&str, StatusCode)] = &[
    ("NotFound: ", StatusCode::NotFound),
    ("Corruption: ", StatusCode::Corruption),
    ("Not implemented: ", StatusCode::NotSupported),
    ("Invalid argument: ", StatusCode::InvalidArgument),
    ("IO error: ", StatusCode::Io),
];

/// An error of the stock library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockError {
    /// Its class.
    pub code: StatusCode,
    /// LevelDB's text, whole.
    pub text: String,
}

impl StockError {
    /// From LevelDB's text.
    pub(super) fn new(text: String) -> StockError {
        let class = STATUS_PREFIXES.iter().find(|(words, _)| text.starts_with(words));
        StockError { code: class.map_or(StatusCode::Unknown, |(_, class)| *class), text }
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
