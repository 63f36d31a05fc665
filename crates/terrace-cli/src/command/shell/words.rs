//! Words of a line of `terrace shell`.
//!
//! ```text
//!   put  CH/Uster  "two words"          three words
//!   put  CH/Uster  ""                   the last one is empty
//!   put  CH/Uster  a\x22b               a quote as an escape
//! ```

/// Returns the words of `line`, with their escapes and without their quotes. A comment has none.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote_start = None;
    let mut bytes = line.iter().copied().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'"' if quote_start.is_some() => quote_start = None,
            b'"' => {
                quote_start = Some(offset);
                word.get_or_insert_default();
            }
            b' ' | b'\t' | b'\r' if quote_start.is_none() => words.extend(word.take()),
            b'#' if words.is_empty() && word.is_none() => return Ok(words),
            // The byte after a backslash has no meaning for the words.
            b'\\' => {
                let escaped = bytes.next().map(|(_, escaped)| escaped);
                word.get_or_insert_default().extend(std::iter::once(byte).chain(escaped));
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    match quote_start {
        Some(offset) => Err(format!("the quote at byte {offset} has no end")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &[&str]) {
        let words = split(line.as_bytes()).unwrap();
        let words: Vec<_> = words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert_eq!(words, expect);
    }

    #[rustfmt::skip]
    mod lines {
        use super::check;
        #[test] fn empty()         { check("", &[]); }
        #[test] fn blanks()        { check(" \t\r", &[]); }
        #[test] fn plain()         { check("put a  1 ", &["put", "a", "1"]); }
        #[test] fn quoted()        { check(r#"put "a b" "" c" "d"#, &["put", "a b", "", "c d"]); }
        #[test] fn comment()       { check(" # put a 1", &[]); }
        #[test] fn no_comment()    { check("get #a", &["get", "#a"]); }
        #[test] fn escapes()       { check(r#"put a\\ \x22 \"#, &["put", r"a\\", r"\x22", "\\"]); }
        #[test] fn escaped_quote() { check(r#"get a\"b"#, &["get", r#"a\"b"#]); }
    }

    #[test]
    fn quote_without_end() {
        assert_eq!(split(br#"get "a"#), Err("the quote at byte 4 has no end".into()));
    }
}
