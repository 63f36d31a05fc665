//! The Redis protocol (RESP): bytes to commands, and replies to bytes.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$4\r\nBern\r\n     an array of two arguments
//!   GET Bern\r\n                          the same, inline
//! ```
//!
//! This module knows no socket and no database. A fuzz target covers the parser.

mod extended_float;
mod number;
mod parser;
mod reply;
mod reply_reader;

pub use extended_float::extended_sum;
pub use number::{
    format_decimal, format_double, format_score, parse_cursor, parse_double, parse_i64, parse_u64,
};
pub use parser::{ArgRange, Limits, Parser, ProtocolError, Step};
pub use reply::Reply;
pub(crate) use reply_reader::DecodedReply;
