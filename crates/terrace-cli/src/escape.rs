//! Keys and values as text on one line.
//!
//! ```text
//!   bytes                                   text
//!   a tab, a line feed, a backslash         \t  \n  \\
//!   readable characters, in UTF-8           themselves
//!   all other bytes                         \xNN
//! ```
//!
//! The text has no tab, no line feed, no terminal control character and no character that changes
//! the direction of the text. Unescaping returns the same bytes. Arguments, TSV and messages share
//! this format.

use std::fmt::{self, Display, Write};

use data_encoding::HEXLOWER_PERMISSIVE;

/// Bytes, displayed as text.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            write_str(f, chunk.valid())?;
            write_hex(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// Writes each run of characters without an escape with one call, because most text needs no
/// escape.
fn write_str(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut plain_start = 0;
    for (offset, c) in text.char_indices().filter(|(_, c)| *c == '\\' || is_unprintable(*c)) {
        f.write_str(&text[plain_start..offset])?;
        plain_start = offset + c.len_utf8();
        match c {
            '\t' => f.write_str("\\t")?,
            '\n' => f.write_str("\\n")?,
            '\\' => f.write_str("\\\\")?,
            _ => write_hex(f, &text.as_bytes()[offset..plain_start])?,
        }
    }
    f.write_str(&text[plain_start..])
}

fn write_hex(f: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

/// Returns true for terminal control characters, for characters that reorder or split a line, and
/// for the byte-order mark, which readers of text files remove.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A backslash that does not begin a valid escape.
#[derive(Debug, PartialEq)]
pub(crate) struct BadEscape {
    /// Offset of the backslash in bytes.
    pub(crate) offset: usize,
}

impl Display for BadEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a backslash at byte {} that is not one of \\t \\n \\\\ \\xNN", self.offset)
    }
}

/// Decodes `text`. Bytes outside an escape stand for themselves.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, BadEscape> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut offset = 0;
    while let Some(&byte) = text.get(offset) {
        let (byte, len) = if byte == b'\\' {
            decode_escape(&text[offset..]).ok_or(BadEscape { offset })?
        } else {
            (byte, 1)
        };
        bytes.push(byte);
        offset += len;
    }
    Ok(bytes)
}

/// Decodes the escape at the start of `text`, and returns its byte and its length.
fn decode_escape(text: &[u8]) -> Option<(u8, usize)> {
    match text.get(1)? {
        b't' => Some((b'\t', 2)),
        b'n' => Some((b'\n', 2)),
        b'\\' => Some((b'\\', 2)),
        b'x' => Some((hex_digit(*text.get(2)?)? << 4 | hex_digit(*text.get(3)?)?, 4)),
        _ => None,
    }
}

/// Decodes `text`, hexadecimal digits of either case, or returns the reason why it is malformed.
pub(crate) fn decode_hexadecimal(text: &[u8]) -> Result<Vec<u8>, String> {
    if let Some(offset) = text.iter().position(|digit| hex_digit(*digit).is_none()) {
        let rest = &text[offset..];
        let len = std::str::from_utf8(rest).map_or_else(|error| error.valid_up_to(), str::len);
        let valid = String::from_utf8_lossy(&rest[..len]);
        let first = valid.chars().next().map_or(1, char::len_utf8);
        let advice = if text.starts_with(b"0x") { " (without 0x)" } else { "" };
        return Err(format!(
            "not hexadecimal: '{}' at byte {offset}, expected digits 0 to 9 and a to f{advice}",
            Escaped(&rest[..first])
        ));
    }
    if text.len() % 2 == 1 {
        return Err("not hexadecimal: an odd number of digits, expected two for each byte".into());
    }
    HEXLOWER_PERMISSIVE.decode(text).map_err(|error| format!("not hexadecimal: {error}"))
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], text: &str) {
        assert_eq!(Escaped(bytes).to_string(), text);
        assert_eq!(unescape(text.as_bytes()).as_deref(), Ok(bytes));
    }

    #[rustfmt::skip]
    mod round_trip {
        use super::check;
        #[test] fn empty()              { check(b"", ""); }
        #[test] fn plain()              { check(b"CH/Uster", "CH/Uster"); }
        #[test] fn tab_and_line_feed()  { check(b"a\tb\nc", r"a\tb\nc"); }
        #[test] fn backslash()          { check(b"\\x41", r"\\x41"); }
        #[test] fn terminal_controls()  { check(b"\x1b[2J\r\x7f", r"\x1b[2J\x0d\x7f"); }
        #[test] fn one_byte_csi()       { check("\u{9b}2J".as_bytes(), r"\xc2\x9b2J"); }
        #[test] fn right_to_left()      { check("a\u{202e}b".as_bytes(), r"a\xe2\x80\xaeb"); }
        #[test] fn umlaut()             { check("Zürich".as_bytes(), "Zürich"); }
        #[test] fn no_utf8()            { check(b"\xffa\xc3", r"\xffa\xc3"); }
        #[test] fn zero_byte()          { check(b"\0", r"\x00"); }
    }

    #[test]
    fn every_byte_round_trips() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(Escaped(&bytes).to_string().as_bytes()), Ok(bytes));
    }

    #[test]
    fn bad_escapes_report_their_offset() {
        for (text, offset) in [(r"\", 0), (r"ab\q", 2), (r"\x4", 0), (r"a\xg0", 1), (r"\t\x+1", 2)] {
            assert_eq!(unescape(text.as_bytes()), Err(BadEscape { offset }), "{text}");
        }
    }

    #[test]
    fn hexadecimal_digits() {
        assert_eq!(decode_hexadecimal(b"fF00"), Ok(vec![0xff, 0]));
        for (text, reason) in [
            (&b"f"[..], "an odd number of digits, expected two for each byte"),
            (b"0x6b", "'x' at byte 1, expected digits 0 to 9 and a to f (without 0x)"),
            (b"6bzz", "'z' at byte 2, expected digits 0 to 9 and a to f"),
            ("6b€".as_bytes(), "'€' at byte 2, expected digits 0 to 9 and a to f"),
            (b"6b\xff", "'\\xff' at byte 2, expected digits 0 to 9 and a to f"),
        ] {
            assert_eq!(decode_hexadecimal(text), Err(format!("not hexadecimal: {reason}")));
        }
    }

    #[test]
    fn upper_case_hex_digits() {
        assert_eq!(unescape(br"\xFf"), Ok(vec![0xff]));
    }
}
