//! NUL bytes in the text of a script.
//!
//! The compiler ends a text at its first NUL. Lua 5.1 knows the byte in strings and in comments.

use std::borrow::Cow;

/// Returns the program `text` without NUL bytes: those of strings become escapes, those of
/// comments become spaces.
///
/// # Errors
///
/// The line of a NUL outside of strings and comments, with the message of Lua 5.1.
pub(super) fn escape_nul_bytes(text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if memchr::memchr(0, text).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    let mut program = Vec::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(first) = rest.first() {
        if *first == 0 {
            let line = 1 + program.iter().filter(|byte| **byte == b'\n').count();
            return Err(format!("{line}: unexpected symbol"));
        }
        let token = Token::first(rest);
        let (bytes, after) = rest.split_at(token.len());
        match token {
            Token::Comment(_) => program.extend(without_nul(bytes)),
            Token::Quoted(_) => push_quoted(bytes, &mut program),
            Token::Long(_, bracket) if bytes.contains(&0) => push_long(bytes, bracket, &mut program),
            Token::Long(..) | Token::Byte => program.extend(bytes),
        }
        rest = after;
    }
    Ok(Cow::Owned(program))
}

/// Part of a program, with its number of bytes.
enum Token {
    Comment(usize),
    Quoted(usize),
    /// String in long brackets, and the number of bytes of one bracket.
    Long(usize, usize),
    Byte,
}

impl Token {
    /// Returns the first token of `text`, which is not empty.
    fn first(text: &[u8]) -> Token {
        match text {
            [b'-', b'-', comment @ ..] => Token::Comment(2 + comment_len(comment)),
            [b'"' | b'\'', ..] => Token::Quoted(quoted_len(text)),
            _ => long_len(text).map_or(Token::Byte, |(len, bracket)| Token::Long(len, bracket)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Token::Comment(len) | Token::Quoted(len) | Token::Long(len, _) => *len,
            Token::Byte => 1,
        }
    }
}

/// Number of bytes of a comment after its two minus signs.
fn comment_len(text: &[u8]) -> usize {
    match long_len(text) {
        Some((len, _)) => len,
        None => memchr::memchr(b'\n', text).unwrap_or(text.len()),
    }
}

/// Number of bytes of a string in quotes. It ends at the end of the line at the latest.
fn quoted_len(text: &[u8]) -> usize {
    let mut index = 1;
    while let Some(byte) = text.get(index) {
        index += 1;
        match byte {
            b'\\' => index += 1,
            b'\n' => break,
            quote if *quote == text[0] => break,
            _ => {}
        }
    }
    index.min(text.len())
}

/// Number of bytes of a string in long brackets at the begin of `text`, and of one bracket.
fn long_len(text: &[u8]) -> Option<(usize, usize)> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|byte| **byte == b'=').count();
    let bracket = level + 2;
    if text.get(bracket - 1) != Some(&b'[') {
        return None;
    }
    let close = long_close(&text[..bracket]);
    let end = memchr::memmem::find(&text[bracket..], &close);
    Some((end.map_or(text.len(), |end| bracket + end + bracket), bracket))
}

/// Closing bracket for the opening one.
fn long_close(open: &[u8]) -> Vec<u8> {
    open.iter().map(|byte| if *byte == b'[' { b']' } else { *byte }).collect()
}

/// Returns `bytes` with spaces in place of NUL bytes.
fn without_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect()
}

fn push_quoted(bytes: &[u8], program: &mut Vec<u8>) {
    let mut is_escaped = false;
    for byte in bytes {
        match byte {
            // The backslash before the byte is that of the escape.
            0 if is_escaped => program.extend(b"000"),
            0 => program.extend(b"\\000"),
            _ => program.push(*byte),
        }
        is_escaped = *byte == b'\\' && !is_escaped;
    }
}

/// Appends a string in long brackets as a string in quotes, with the same lines.
fn push_long(bytes: &[u8], bracket: usize, program: &mut Vec<u8>) {
    let close = long_close(&bytes[..bracket]);
    let Some(content) = bytes[bracket..].strip_suffix(&*close) else {
        // The compiler reports the missing end.
        return program.extend_from_slice(&without_nul(bytes));
    };
    // A line end directly after the bracket is no part of the string.
    let (first_end, mut rest) = content.split_at(line_end_len(content));
    program.extend(first_end);
    program.push(b'"');
    while let Some((byte, after)) = rest.split_first() {
        let line_end = line_end_len(rest);
        match byte {
            0 => program.extend(b"\\000"),
            _ if line_end > 0 => program.extend(b"\\\n"),
            b'"' | b'\\' => program.extend([b'\\', *byte]),
            _ => program.push(*byte),
        }
        rest = if line_end > 0 { &rest[line_end..] } else { after };
    }
    program.push(b'"');
}

/// Number of bytes of a line end at the begin of `text`, or 0. As in Lua 5.1, it is a LF, a CR, or
/// both in any order.
fn line_end_len(text: &[u8]) -> usize {
    match text {
        [b'\r', b'\n', ..] | [b'\n', b'\r', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_nul_bytes() {
        for (text, expected) in [
            ("return 1", Ok("return 1")),
            ("return 'a\0b'", Ok("return 'a\\000b'")),
            ("return '\\\0', \"\\\\\0\"", Ok("return '\\000', \"\\\\\\000\"")),
            ("-- \0'\nreturn '\0'", Ok("--  '\nreturn '\\000'")),
            ("--[=[ \0]]\n ]=] return 1", Ok("--[=[  ]]\n ]=] return 1")),
            ("return [[\0\"\n\\]]", Ok("return \"\\000\\\"\\\n\\\\\"")),
            ("return [==[\n\0]]]==]", Ok("return \n\"\\000]]\"")),
            ("return [[\r\n\0\r\n\r\n\r]]", Ok("return \r\n\"\\000\\\n\\\n\\\n\"")),
            ("a[b[1]] = '\0'", Ok("a[b[1]] = '\\000'")),
            ("return '\0", Ok("return '\\000")),
            ("return [[\0", Ok("return [[ ")),
            ("return\n\0 1", Err("2: unexpected symbol")),
            ("return 'a\n\0'", Err("2: unexpected symbol")),
        ] {
            let found = escape_nul_bytes(text.as_bytes());
            let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text:?}");
        }
    }
}
